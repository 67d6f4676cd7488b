"""One choice as the scheduler sees it: ids, and why it ended. No text."""

from dataclasses import dataclass

from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.model import Burst, SlotView


@dataclass(slots=True, eq=False)
class SequenceState:
    """A choice that waits or runs.

    Attributes:
        view: what the model sees of it, the generated ids among that.
        end_ids: EOS and stop ids.
        original_batch_idx: its place in the submission.
        burst: what the model gave in this iteration and was not yet taken.
        finish_reason: why it ended; written once, by `latch`.
        latches: how often it was written.
        error: what went wrong, if the reason is ERROR.
    """

    view: SlotView
    end_ids: frozenset[int]
    original_batch_idx: int
    burst: Burst | None = None
    finish_reason: FinishReason = FinishReason.NOT_FINISHED
    latches: int = 0
    error: BaseException | None = None

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.finish_reason is not FinishReason.NOT_FINISHED

    @property
    def num_tokens_at_most(self) -> int:
        """How long prompt and output may become."""
        return len(self.view.prompt_token_ids) + self.view.params.max_tokens

    def latch(self, reason: FinishReason, error: BaseException | None = None) -> bool:
        """Write why it ended, unless that was written before; return whether it was this call."""
        if self.finished:
            return False
        self.finish_reason, self.error = reason, error
        self.latches += 1
        return True

    def take_burst(self) -> tuple[Burst, FinishReason]:
        """Append the burst to the output, up to where the generation ends.

        Ids are judged one by one, so a burst ends where single ids would have: an EOS or stop id is
        the last, and wins over `max_tokens` on the same id.

        Returns:
            What of it was appended, and why the generation ended there, or NOT_FINISHED.
        """
        burst = self.burst
        assert burst is not None
        self.burst = None
        params, output = self.view.params, self.view.output_token_ids
        reason, kept = FinishReason.NOT_FINISHED, 0
        for token_id in burst.token_ids:
            output.append(token_id)
            kept += 1
            if token_id in self.end_ids and len(output) > params.min_tokens:
                reason = FinishReason.END_ID
                break
            if len(output) >= params.max_tokens:
                reason = FinishReason.LENGTH
                break
        if kept < len(burst.token_ids):
            burst = Burst(burst.token_ids[:kept], burst.logprobs[:kept])
        return burst, reason
