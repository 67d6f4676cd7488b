"""What the engine asks of a model: ids for slots, once an iteration. No text, no positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import contains
from typing import NamedTuple, NoReturn, Protocol

from mini_vllm.engine.engine_errors import ModelContractError
from mini_vllm.engine.request import SamplingParams
from mini_vllm.engine.structured_output import StructuredOutputGrammar, TokenMask


class Burst(NamedTuple):
    """What a model generated for one slot in one iteration.

    Attributes:
        token_ids: at least one id; several where a model guesses ahead.
        logprobs: for each id, logarithms of probabilities by token id: of the id itself and of at
            least as many of the likeliest ids as were asked for. Empty if they were not asked for.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[Mapping[int, float], ...] = ()


News = Burst | None | Exception


@dataclass(slots=True, eq=False)
class SlotView:
    """What a model sees of a slot. It reads the lists and leaves them as they are.

    Attributes:
        request_id: the request it belongs to.
        choice_index: which of the request's choices, from 0.
        prompt_token_ids: the prompt.
        output_token_ids: what was generated so far.
        params: how to generate.
        step: how often the model was asked for this slot before.
        grammar: what the output must fit, or None.
        mask: the ids that the grammar allows next, or None for all. A model that samples chooses
            among them alone; every id is checked, and one outside ends the choice with an error.
    """

    request_id: str
    choice_index: int
    prompt_token_ids: tuple[int, ...]
    params: SamplingParams
    output_token_ids: list[int] = field(default_factory=list)
    step: int = 0
    grammar: StructuredOutputGrammar | None = None
    mask: TokenMask | None = None

    @property
    def key(self) -> tuple[str, int]:
        """The name of the slot for as long as it lives."""
        return self.request_id, self.choice_index


class Model(Protocol):
    """A source of token ids.

    `prefill` is called once for a slot, with its prompt, and `decode` from then on. Both get
    several slots at once and return, for each and in their order, a burst; None where a slot has no
    id in this iteration; or an exception, which ends that slot alone. What a model raises, on the
    other hand, ends the engine.

    A model that has nothing for any slot waits for the first id, but only some milliseconds:
    cancellations are seen between calls.
    """

    def prefill(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Take in the prompts of new slots; return their first ids."""
        ...

    def decode(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Return the next ids."""
        ...

    def release(self, slot: SlotView) -> None:
        """Forget a slot: it has ended, for whatever reason."""
        ...


def forwards_structured_outputs(model: Model) -> bool:
    """Return whether a model has another server keep to the grammars: then none is checked here."""
    return getattr(model, "forwards_structured_outputs", False)


def check_burst(slot: SlotView, burst: Burst) -> None:
    """Check that a model gave what it has to.

    Raises:
        ModelContractError: the burst is empty, an id is not an int, or logprobs were asked for and
            one is missing.
    """
    if not isinstance(burst, Burst):
        _refuse(slot, f"is {burst!r}; it must be a Burst, None or an exception")
    token_ids, logprobs = burst
    if not token_ids:
        _refuse(slot, "has no ids; return None for a slot without news")
    for token_id in token_ids:
        if not isinstance(token_id, int):
            _refuse(slot, f"has the id {token_id!r}, which is not an int")
    if slot.params.logprobs is not None and not (
        len(logprobs) == len(token_ids) and all(map(contains, logprobs, token_ids))
    ):
        _refuse(slot, "lacks a logprob for each of its ids")


def _refuse(slot: SlotView, fault: str) -> NoReturn:
    raise ModelContractError(f"the model's burst {slot.step} for {slot.request_id!r} {fault}")
