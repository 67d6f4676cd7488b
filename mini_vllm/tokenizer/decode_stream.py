"""Token ids in, text out, one id at a time: exact, and O(1) a token.

While nothing is held and the token is whole text, a step is one look in a list. A token that ends
inside a character, or follows one that does, is joined with the held bytes; each such join is
worked out once for all streams of a tokenizer.

But:
- The caller keeps the ids. The stream has no memory beyond what it holds.
- It needs a table of pieces (`mini_vllm.tokenizer.pieces`).
"""

from collections.abc import Sequence

from mini_vllm.text.utf8 import last_complete_utf8_end
from mini_vllm.tokenizer.errors import DecodeError
from mini_vllm.tokenizer.pieces import Join, Joins
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

    __slots__ = ("_held", "_joins", "_nothing_held", "_size", "_table", "_texts")

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
        self._table = pieces.skipping if skip_special_tokens else pieces.showing
        self._texts = self._table.texts
        self._size = len(self._texts)
        self._nothing_held = self._table.joins(b"")
        self._held, has_text = self._end_of(prompt_token_ids)
        # Before the first token nothing that was learned applies: its text may be another.
        self._joins: Joins = self._table.joins(self._held) if has_text else {}

    def _end_of(self, prompt: Sequence[int]) -> tuple[bytes, bool]:
        """Return the open bytes at the end of the prompt, and whether it has any text."""
        tail, has_text = b"", False
        for token_id in reversed(prompt):
            piece = self._table.rest[token_id] if 0 <= token_id < self._size else None
            if piece is not None:
                tail, has_text = piece + tail, True
            if len(tail) > _LONGEST_HOLD:
                break
        return tail[last_complete_utf8_end(tail) :], has_text

    @property
    def held(self) -> bytes:
        """The bytes that wait for the rest of their character, at most 3."""
        return self._held

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now, `""` while nothing is."""
        if not 0 <= token_id < self._size:
            return ""
        joins = self._joins
        if joins is self._nothing_held:
            text = self._texts[token_id]
            if text is not None:
                return text
        join: Join | None = joins.get(token_id)
        if join is None:
            join = self._join(token_id)
        text, self._held, self._joins = join
        return text

    def _join(self, token_id: int) -> Join:
        table = self._table
        if self._joins is table.joins(self._held):
            return table.join(self._held, token_id, table.rest)
        if table.first[token_id] is None:
            return "", self._held, self._joins
        return table.join(self._held, token_id, table.first)

    def flush(self) -> str:
        """End the stream: a cut-off character is one U+FFFD. A second flush returns `""`.

        More ids may follow; no character reaches across.
        """
        text = self._held.decode("utf-8", "replace")
        if text:
            self._held, self._joins = b"", self._nothing_held
        return text
