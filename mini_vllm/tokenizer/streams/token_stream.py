"""What every stream of token ids can do: take a burst, and be copied."""

import copy
from collections.abc import Iterable
from typing import Any, Self

from mini_vllm.tokenizer.ids import plain_ids

# Attributes that never change, or that all streams of a tokenizer share on purpose.
_SHARED = frozenset({"_tokenizer", "_table", "_joins", "_metrics"})


class Copyable:
    """`copy`, `deepcopy` and `pickle` give one at the same place, independent from then on.

    Copies in one process share the tokenizer and its tables.
    """

    __slots__ = ()

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        for name in (*getattr(self, "__dict__", ()), *getattr(self, "__slots__", ())):
            value = getattr(self, name)
            setattr(new, name, value if name in _SHARED else copy.deepcopy(value, memo))
        return new


class TokenStream(Copyable):
    """The base of streams that turn ids into text by `step`."""

    __slots__ = ()

    def step(self, token_id: int) -> str:
        """Take one id; return the text that is certain now."""
        raise NotImplementedError

    def step_batch(self, token_ids: Iterable[int]) -> list[str]:
        """Take a burst of ids, or an array; return the text of each, as `step` would.

        Raises:
            ValueError: an array of more than one dimension, or of none.
        """
        return [self.step(token_id) for token_id in plain_ids(token_ids)]
