"""A grammar over token ids: the ids that may follow, so that the text has the requested form.

`structured_output_manager` compiles grammars, and `constrained_model` applies their masks between
the engine's loop and the model.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mini_vllm.engine.engine_errors import StructuredOutputError

if TYPE_CHECKING:
    import llguidance

_LONGEST_PROBLEM = 300


class TokenMask:
    """A set of token ids, with a bit for each id: vLLM's bitmask.

    Args:
        bits: bit `i & 7` of byte `i >> 3` is for the id `i`.
    """

    __slots__ = ("_bits",)

    def __init__(self, bits: bytes) -> None:
        self._bits = bits

    @classmethod
    def of(cls, token_ids: Iterable[int], vocab_size: int) -> "TokenMask":
        """Return the mask of these ids, all below `vocab_size`."""
        bits = bytearray(vocab_size + 7 >> 3)
        for token_id in token_ids:
            bits[token_id >> 3] |= 1 << (token_id & 7)
        return cls(bytes(bits))

    def __contains__(self, token_id: int) -> bool:
        place = token_id >> 3
        return 0 <= place < len(self._bits) and bool(self._bits[place] >> (token_id & 7) & 1)

    def __iter__(self) -> Iterator[int]:
        for place, byte in enumerate(self._bits):
            while byte:
                low = byte & -byte
                yield place * 8 + low.bit_length() - 1
                byte ^= low

    def __len__(self) -> int:
        return int.from_bytes(self._bits, "little").bit_count()


class StructuredOutputGrammar:
    """A grammar and its place in a text. `StructuredOutputManager.compile` makes it."""

    def __init__(self, matcher: "llguidance.LLMatcher", eos_token_ids: frozenset[int]) -> None:
        self._matcher = matcher
        self.eos_token_ids = eos_token_ids

    def copy(self) -> "StructuredOutputGrammar":
        """Return a grammar at the same place, for another text."""
        return StructuredOutputGrammar(self._matcher.deep_copy(), self.eos_token_ids)

    def mask(self) -> TokenMask:
        """Return the ids that may follow; EOS is among them only if the text may end here.

        Raises:
            StructuredOutputError: no id may follow, or finding the ids exceeds the limits.
        """
        mask = TokenMask(self._matcher.compute_bitmask())
        # At a dead end the backend offers EOS, and calls it an error.
        if self._matcher.is_error():
            why = what_is_wrong(self._matcher.get_error())
            raise StructuredOutputError(f"no token of the vocabulary can follow ({why})")
        return mask

    def accept_tokens(self, token_ids: Sequence[int]) -> int:
        """Read ids up to an EOS or to the first invalid id; return how many were read.

        Raises:
            StructuredOutputError: reading an id exceeds the backend's limits.
        """
        for read, token_id in enumerate(token_ids):
            if token_id in self.eos_token_ids:
                return read + self.may_end
            if not self._matcher.try_consume_tokens([token_id]):
                if self._matcher.is_error():
                    raise StructuredOutputError(what_is_wrong(self._matcher.get_error()))
                return read
        return len(token_ids)

    @property
    def may_end(self) -> bool:
        """Whether the text read so far is complete."""
        return self._matcher.is_accepting()


def what_is_wrong(problem: str) -> str:
    """Return llguidance's message without the state of its parser."""
    first, *rest = problem.strip().splitlines() or [""]
    # The lines between show the place of the fault in a regular expression.
    reasons = [line for line in rest if line.startswith("error: ")]
    return " ".join([first, *reasons[:1]])[:_LONGEST_PROBLEM]
