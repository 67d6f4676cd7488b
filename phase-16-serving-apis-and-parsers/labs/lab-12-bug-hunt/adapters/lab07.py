"""The engine's table of pieces in the shape of lab 07."""

import re
from collections.abc import Iterable, Sequence

from mini_vllm.tokenizer.pieces import STATE, StreamTable

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_SHIFTED = sorted({*range(256)} - {*_PRINTABLE})
_BYTES = {byte: byte for byte in _PRINTABLE} | {256 + i: byte for i, byte in enumerate(_SHIFTED)}
_BYTE = re.compile("<0x([0-9a-fA-F]{2})>")


def token_bytes(
    vocabulary: Sequence[str | None], kind: str, *, special: frozenset[int] = frozenset()
) -> list[bytes | None]:
    """Return the bytes of each token."""
    spelled = {"byte_level": _byte_level, "byte_fallback": _byte_fallback}.get(kind)
    if spelled is None:
        raise ValueError(f"there is no kind {kind!r}")
    tokens = enumerate(vocabulary)
    return [t if t is None else t.encode() if i in special else spelled(t) for i, t in tokens]


def _byte_level(token: str) -> bytes:
    try:
        return bytes(_BYTES[ord(char)] for char in token)
    except KeyError:
        return token.encode()


def _byte_fallback(token: str) -> bytes:
    byte = _BYTE.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace("\u2581", " ").encode()


class _Column(Sequence[bytes | None]):
    """The pieces of a table, each read when a stream needs it."""

    def __init__(
        self, table: Sequence[bytes | None], silent: frozenset[int], *, strips: bool = False
    ) -> None:
        self._table = table
        self._silent = silent
        self._strips = strips

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, token_id: int) -> bytes | None:
        piece = None if token_id in self._silent else self._table[token_id] or None
        return piece and piece.removeprefix(b" ") if self._strips else piece


class TokenDetokenizer:
    """Ids in, text out."""

    def __init__(
        self,
        table: Sequence[bytes | None],
        *,
        special: frozenset[int] = frozenset(),
        skip_special_tokens: bool = True,
        prompt_ids: Sequence[int] = (),
        strip_first_space: bool = False,
    ) -> None:
        silent = special if skip_special_tokens else frozenset()
        rest = _Column(table, silent)
        first = _Column(table, silent, strips=True) if strip_first_space else rest
        self._table = StreamTable(rest, first)
        self._state = self._table.state_after(prompt_ids)

    @property
    def held(self) -> bytes:
        """The bytes that wait."""
        return self._table.held(self._state)

    def feed(self, token_id: int) -> str:
        """Take one id."""
        # An engine's table remembers the joins for all its streams. Fresh joins keep nothing.
        text, joins = self._table.join({STATE: self._state}, token_id)
        self._state = self._table.state(joins)
        return text

    def feed_many(self, ids: Iterable[int]) -> str:
        """Take a burst."""
        return "".join(map(self.feed, ids))

    def flush(self) -> str:
        """End the stream."""
        text = self.held.decode("utf-8", "replace")
        self._state = self._table.start
        return text
