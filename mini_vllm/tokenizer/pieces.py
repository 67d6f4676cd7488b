"""The table behind exact streaming: which bytes each token id contributes to the text.

For most decoders the text of a sequence is the concatenation of what each token contributes, where
only the *first* token of a text may contribute something else (a leading space less, say). Two
columns of bytes then hold everything that `decode` knows, and a stream needs no `decode` at all.

But: a decoder that rewrites across tokens has no such table.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mini_vllm.text.utf8 import last_complete_utf8_end

Piece = bytes | None


@dataclass(frozen=True)
class PieceTable:
    """Bytes by token id.

    Attributes:
        rest: what an id contributes anywhere but at the start; None for an id without text.
        first: what it contributes as the first token of a text; the same object if all are equal.
        special: the ids that `skip_special_tokens` leaves out.
    """

    rest: list[Piece]
    first: list[Piece]
    special: frozenset[int]

    @cached_property
    def showing(self) -> "StreamTable":
        """The table for streams that show special tokens."""
        return StreamTable(self.rest, self.first)

    @cached_property
    def skipping(self) -> "StreamTable":
        """The table for streams that skip special tokens: those have no text."""

        def skip(column: list[Piece]) -> list[Piece]:
            return [None if i in self.special else piece for i, piece in enumerate(column)]

        rest = skip(self.rest)
        return StreamTable(rest, rest if self.first is self.rest else skip(self.first))


class StreamTable:
    """Columns made ready for streams, and what streams have learned; shared by all of them.

    What a token does inside a split character depends on the held bytes and the id only. There are
    few such pairs in practice, so each is worked out once and remembered, up to `MOST_JOINS`.

    Attributes:
        rest, first: as in `PieceTable`.
        texts: the text of an id where its bytes are whole characters, `""` where it has none, None
            where its bytes must be joined with others.
    """

    MOST_JOINS = 1 << 18

    def __init__(self, rest: list[Piece], first: list[Piece]) -> None:
        self.rest = rest
        self.first = first
        self.texts = [_whole_text(piece) for piece in rest]
        self._joins: dict[bytes, Joins] = {}
        self._learned = 0

    def joins(self, held: bytes) -> "Joins":
        """Return what is known of the state with these held bytes: the same object each time."""
        return self._joins.setdefault(held, {})

    def join(self, held: bytes, token_id: int, column: list[Piece]) -> "Join":
        """Return (text, bytes held next, joins of that state) for one id after the held bytes."""
        piece = column[token_id] or b""
        data = held + piece
        end = last_complete_utf8_end(data)
        join = (data[:end].decode("utf-8", "replace"), data[end:], self.joins(data[end:]))
        if column is self.rest and self._learned < self.MOST_JOINS:
            self._learned += 1
            self.joins(held)[token_id] = join
        return join


Join = tuple[str, bytes, "Joins"]
Joins = dict[int, Any]


def _whole_text(piece: Piece) -> str | None:
    try:
        return (piece or b"").decode("utf-8")
    except UnicodeDecodeError:
        return None
