"""Token ids in, text out, one id at a time: exact, and O(1) a token.

A step is one look in a dictionary. What an id adds to the text depends on the id and on the open
end of the text before it; each such pair is worked out once, for all streams of a tokenizer.

But:
- The caller keeps the ids. The stream has no memory beyond what it holds.
- A tokenizer without a table of pieces gets the other strategy, `WindowDecodeStream`, which
  promises less.
"""

from collections.abc import Sequence

from mini_vllm.tokenizer.pieces import STATE
from mini_vllm.tokenizer.protocols import Tokenizer


class DecodeStream:
    """The text of a growing id sequence.

    A character that spans prompt and output comes out whole, by the id that completes it; no other
    prompt byte does. Ids outside the vocabulary, negative ones included, and skipped special ids
    are `""` and leave a half character as it was.

    Args:
        tokenizer: any; one without a table of pieces makes a `WindowDecodeStream`.
        prompt_token_ids: what came before; only its end is looked at.
        skip_special_tokens: leave special tokens out.
    """

    __slots__ = ("_joins", "_table")

    def __new__(
        cls,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> "DecodeStream":
        """Choose the strategy."""
        if tokenizer.pieces is None:
            from mini_vllm.tokenizer.streams.window_stream import WindowDecodeStream

            return super().__new__(WindowDecodeStream)
        return super().__new__(cls)

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        pieces = tokenizer.pieces
        assert pieces is not None
        self._table = table = pieces.skipping if skip_special_tokens else pieces.showing
        state = table.state_after(prompt_token_ids) if prompt_token_ids else table.start
        self._joins = table.joins(state)

    @property
    def held(self) -> bytes:
        """The bytes that wait for what follows: of a character, at most 3."""
        return self._table.held(self._joins[STATE])

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now, `""` while nothing is."""
        text: str
        try:
            text, self._joins = self._joins[token_id]
        except KeyError:
            text, self._joins = self._table.join(self._joins, token_id)
        return text

    def flush(self) -> str:
        """End the stream: a cut-off character is one U+FFFD. A second flush returns `""`.

        More ids may follow; no character reaches across.
        """
        text = self.held.decode("utf-8", "replace")
        if self._joins[STATE] != self._table.start:
            self._joins = self._table.joins(self._table.idle)
        return text
