"""One choice as the scheduler sees it: its ids, and whether it has ended. No text."""

from dataclasses import dataclass

from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.finish_reason import Ending, FinishReason


@dataclass(slots=True, eq=False)
class ChoiceState:
    """A choice that waits or runs.

    Attributes:
        view: what the model sees of it, including the generated ids.
        end_ids: EOS and stop ids.
        burst: what the model gave in this iteration, until it is taken.
        ending: why it ended; written once, by `latch`.
    """

    view: SlotView
    end_ids: frozenset[int]
    burst: Burst | None = None
    ending: Ending | None = None

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.ending is not None

    @property
    def finish_reason(self) -> FinishReason:
        """Why it ended; NOT_FINISHED while it runs."""
        return FinishReason.NOT_FINISHED if self.ending is None else self.ending.reason

    @property
    def num_tokens_at_most(self) -> int:
        """How long prompt and output may become."""
        return len(self.view.prompt_token_ids) + self.view.params.max_tokens

    @property
    def at_max_tokens(self) -> bool:
        """Whether it has all the ids it may have."""
        return len(self.view.output_token_ids) >= self.view.params.max_tokens

    def latch(self, ending: Ending) -> bool:
        """Write why it ended, unless that was written before; return whether it was this call."""
        if self.ending is not None:
            return False
        self.ending = ending
        return True

    def take_burst(self) -> Burst:
        """Append the burst to the output, up to `max_tokens`; return what was appended.

        An end among its ids is not looked for here: the text path finds it.
        """
        burst, self.burst = self.burst, None
        assert burst is not None
        output = self.view.output_token_ids
        room = self.view.params.max_tokens - len(output)
        if len(burst.token_ids) > room:
            burst = Burst(burst.token_ids[:room], burst.logprobs[:room])
        output += burst.token_ids
        return burst

    def may_end_with(self, burst: Burst) -> bool:
        """Whether the ids may end here: without stop strings, only then text is needed."""
        return self.at_max_tokens or not self.end_ids.isdisjoint(burst.token_ids)
