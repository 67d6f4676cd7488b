"""Token ids in, text out, one id at a time: exact, and O(1) a token.

While nothing is held and the token is whole text, a step is one look in a list. Only a token that
ends inside a character, or follows one that does, takes the longer way.

But:
- The caller keeps the ids. The stream has no memory beyond what it holds.
- It needs a table of pieces (`mini_vllm.tokenizer.pieces`).
"""

from collections.abc import Sequence

from mini_vllm.text.utf8 import last_complete_utf8_end
from mini_vllm.tokenizer.errors import DecodeError
from mini_vllm.tokenizer.pieces import Piece
from mini_vllm.tokenizer.protocols import Tokenizer

_LONGEST_HOLD = 3


class DecodeStream:
    """The text of a growing id sequence.

    A character that spans prompt and output comes out whole, by the id that completes it; no other
    prompt byte does. Ids outside the vocabulary, negative ones included, and skipped special ids
    are `""` and leave a half character as it was.

    Args:
        tokenizer: has a table of pieces.
        prompt_token_ids: what came before; only its end is looked at.
        skip_special_tokens: leave special tokens out.

    Raises:
        DecodeError: the tokenizer has no table, for its decoder rewrites across tokens.
    """

    __slots__ = ("_column", "_held", "_rest", "_size", "_texts")

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        pieces = tokenizer.pieces
        if pieces is None:
            name = type(tokenizer).__name__
            raise DecodeError(f"{name} has no table of pieces; its text cannot be streamed exactly")
        table = pieces.skipping if skip_special_tokens else pieces.showing
        self._rest = table.rest
        self._texts = table.texts
        self._size = len(table.rest)
        self._held = b""
        self._column: list[Piece] = table.first
        self._prime(prompt_token_ids)

    def _prime(self, prompt: Sequence[int]) -> None:
        tail = b""
        for token_id in reversed(prompt):
            piece = self._rest[token_id] if 0 <= token_id < self._size else None
            if piece is not None:
                self._column = self._rest
                tail = piece + tail
            if len(tail) > _LONGEST_HOLD:
                break
        self._held = tail[last_complete_utf8_end(tail) :]

    @property
    def held(self) -> bytes:
        """The bytes that wait for the rest of their character, at most 3."""
        return self._held

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now, `""` while nothing is."""
        if not 0 <= token_id < self._size:
            return ""
        if not self._held and self._column is self._rest:
            text = self._texts[token_id]
            if text is not None:
                return text
        return self._join(token_id)

    def _join(self, token_id: int) -> str:
        piece = self._column[token_id]
        if piece is None:
            return ""
        self._column = self._rest
        data = self._held + piece
        end = last_complete_utf8_end(data)
        self._held = data[end:]
        return data[:end].decode("utf-8", "replace")

    def flush(self) -> str:
        """End the stream: a cut-off character is one U+FFFD. A second flush returns `""`."""
        text = self._held.decode("utf-8", "replace")
        self._held = b""
        return text
