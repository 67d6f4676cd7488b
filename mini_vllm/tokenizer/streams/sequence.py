"""A sequence that grows by text or by ids, and keeps both its ids and its text.

It is for callers that edit or inspect a sequence. A server that only streams uses
`create_decode_stream`, which keeps nothing.
"""

from collections.abc import Iterable

from mini_vllm.tokenizer.adapter import as_tokenizer
from mini_vllm.tokenizer.encoding import NONE, AllowedSpecial
from mini_vllm.tokenizer.protocols import Tokenizer
from mini_vllm.tokenizer.streams.factory import create_decode_stream
from mini_vllm.tokenizer.streams.token_stream import TokenStream

_SHOWN_WHOLE = 20


class Sequence(TokenStream):
    """Ids and their text, kept in step.

    Args:
        tokenizer: turns text into ids and ids into text.
        skip_special_tokens: leave special tokens out of the text.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = False) -> None:
        self._tokenizer = as_tokenizer(tokenizer)
        self._skip = skip_special_tokens
        self.clear()

    @classmethod
    def with_tokens(
        cls, tokenizer: Tokenizer, token_ids: Iterable[int], *, skip_special_tokens: bool = False
    ) -> "Sequence":
        """Return a sequence that already has these ids."""
        sequence = cls(tokenizer, skip_special_tokens=skip_special_tokens)
        sequence.step_batch(token_ids)
        return sequence

    def clear(self) -> None:
        """Forget everything; the next append starts a new text."""
        self._stream = create_decode_stream(self._tokenizer, skip_special_tokens=self._skip)
        self._ids: list[int] = []
        self._parts: list[str] = []
        self._prefix_offset = self._read_offset = 0

    def append_text(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: AllowedSpecial = NONE,
    ) -> None:
        """Encode `text` and append its ids.

        Raises:
            EncodeError: the text cannot be encoded; the sequence is unchanged.
        """
        encoding = self._tokenizer.encode(
            text, add_special_tokens=add_special_tokens, allowed_special=allowed_special
        )
        for token_id in encoding.ids:
            self.append_token(token_id)

    def append_token(self, token_id: int) -> str:
        """Append one id; return the text that it makes certain, `""` inside a character."""
        self._ids.append(token_id)
        text = self._stream.step(token_id)
        self._parts.append(text)
        if not self._stream.held:
            self._prefix_offset, self._read_offset = self._read_offset, len(self._ids)
        return text

    step = append_token

    def text(self) -> str:
        """Return the whole text; an incomplete character is U+FFFD for now."""
        return "".join(self._parts) + self._stream.held.decode("utf-8", "replace")

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All ids so far."""
        return tuple(self._ids)

    def tokens(self) -> tuple[int, ...]:
        """Return `token_ids`."""
        return self.token_ids

    @property
    def prefix_offset(self) -> int:
        """The previous read offset."""
        return self._prefix_offset

    @property
    def read_offset(self) -> int:
        """How many ids there were the last time that no bytes were held."""
        return self._read_offset

    def is_empty(self) -> bool:
        """Return whether there are no ids."""
        return not self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        ids = ", ".join(map(str, self._ids))
        if len(self) > _SHOWN_WHOLE:
            half = _SHOWN_WHOLE // 2
            first, last = self._ids[:half], self._ids[-half:]
            ids = f"{', '.join(map(str, first))}, ..., {', '.join(map(str, last))}"
        return f"Sequence({len(self)} tokens: [{ids}])"
