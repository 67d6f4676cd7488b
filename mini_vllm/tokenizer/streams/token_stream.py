"""The base of all streams of token ids: it takes bursts, and can be copied."""

from collections.abc import Iterable

from mini_vllm.text.copyable import Copyable
from mini_vllm.tokenizer.ids import plain_ids


class TokenStream(Copyable):
    """The base of streams that turn ids into text by `step`.

    They can be copied and pickled; copies in one process share the tokenizer and its tables.
    """

    __slots__ = ()
    _shared = frozenset({"_tokenizer", "_table", "_joins", "_metrics"})

    def step(self, token_id: int) -> str:
        """Feed one id; return the text that is certain now."""
        raise NotImplementedError

    def step_batch(self, token_ids: Iterable[int]) -> list[str]:
        """Feed a burst of ids, or an array; return the text of each id, as `step` does.

        Raises:
            ValueError: an array of more than one dimension, or of none.
        """
        return [self.step(token_id) for token_id in plain_ids(token_ids)]
