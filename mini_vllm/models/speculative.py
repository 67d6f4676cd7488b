"""Speculative decoding: a draft guesses some ids ahead, and the target keeps the right guesses.

Whatever the draft guesses, the ids are the target's; a good draft only makes the bursts longer.

Both are deterministic functions here, so agreement is equality. Real engines sample, and accept a
guess by comparing probabilities (Leviathan et al. 2023, arXiv 2211.17192).
"""

from collections.abc import Callable, Sequence

from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.models.scripted import BYTE_VOCAB_SIZE, burst_with_logprobs

NextId = Callable[[tuple[int, ...]], int]


class SpeculativeScriptedModel:
    """A model whose bursts are 1 to `k` + 1 ids long.

    Args:
        target: maps prompt and output so far to the next id; equal input gives an equal id.
        draft: likewise, to a guess of the next id.
        k: how many ids are guessed in one step; 0 is decoding without a draft.
        vocab_size: logprobs, if requested, are invented for ids below this.

    Attributes:
        proposed: how many ids the draft guessed.
        accepted: how many of these the target accepted.

    Raises:
        ValueError: `k` is negative.
    """

    def __init__(
        self, target: NextId, draft: NextId, k: int, *, vocab_size: int = BYTE_VOCAB_SIZE
    ) -> None:
        if k < 0:
            raise ValueError(f"k is {k}; it must be at least 0")
        self._target = target
        self._draft = draft
        self._k = k
        self._vocab_size = vocab_size
        self.proposed = 0
        self.accepted = 0

    def prefill(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Return the first burst of each slot."""
        return self.decode(slots)

    def decode(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Return the next burst of each slot."""
        return [burst_with_logprobs(s, self._burst(s), self._vocab_size) for s in slots]

    def release(self, slot: SlotView) -> None:
        """Do nothing: the model keeps no state of a slot."""

    def _burst(self, slot: SlotView) -> tuple[int, ...]:
        start = (*slot.prompt_token_ids, *slot.output_token_ids)
        guessed = start
        for _ in range(self._k):
            guessed += (self._draft(guessed),)
        guesses = guessed[len(start) :]
        # A real target checks all guesses in one pass, which saves the time.
        accepted_ids: tuple[int, ...] = ()
        for guess in guesses:
            if self._target(start + accepted_ids) != guess:
                break
            accepted_ids += (guess,)
        self.proposed += len(guesses)
        self.accepted += len(accepted_ids)
        return (*accepted_ids, self._target(start + accepted_ids))
