"""The model's interface: ids for slots, once an iteration. No text, no positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import contains
from typing import NamedTuple, NoReturn, Protocol

from mini_vllm.engine.engine_errors import ModelContractError
from mini_vllm.engine.request import SamplingParams
from mini_vllm.engine.structured_output import StructuredOutputGrammar, TokenMask


class Burst(NamedTuple):
    """The ids that a model generated for one slot in one iteration.

    Attributes:
        token_ids: at least one id; several if the model decodes speculatively.
        logprobs: for each id, logarithms of probabilities by token id: of the id itself and of at
            least the requested number of likeliest ids. Empty if logprobs were not requested.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[Mapping[int, float], ...] = ()


News = Burst | None | Exception


@dataclass(slots=True, eq=False)
class SlotView:
    """The model's view of a slot. A model reads the lists and does not change them.

    Attributes:
        request_id: the request that the slot belongs to.
        choice_index: the index of the choice in the request, from 0.
        prompt_token_ids: the prompt.
        output_token_ids: the ids that were generated so far.
        params: how to generate.
        step: how often the model was called for this slot before.
        grammar: the grammar that the output must fit, or None.
        mask: the ids that the grammar allows next, or None for all. A model that samples chooses
            only from these. Every id is checked; an id outside ends the choice with an error.
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
    several slots at once and return a list in the same order, with one entry for each slot:

    - a burst;
    - None, if the slot has no id in this iteration;
    - an exception, which ends that slot alone.

    An exception that a model raises ends the engine.

    A model without an id for any slot waits for the first id, but only some milliseconds:
    cancellations are noticed between calls.
    """

    def prefill(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Take in the prompts of new slots; return their first ids."""
        ...

    def decode(self, slots: Sequence[SlotView]) -> Sequence[News]:
        """Return the next ids."""
        ...

    def release(self, slot: SlotView) -> None:
        """Drop all state of a slot that has ended, for whatever reason."""
        ...


def forwards_structured_outputs(model: Model) -> bool:
    """Return whether a model forwards grammars to another server, so that none is checked here."""
    return getattr(model, "forwards_structured_outputs", False)


def check_burst(slot: SlotView, burst: Burst) -> None:
    """Check that a burst keeps the contract of `Model`.

    Raises:
        ModelContractError: the burst is empty, an id is not an int, or a requested logprob is
            missing.
    """
    if not isinstance(burst, Burst):
        _refuse(slot, f"is {burst!r}; it must be a Burst, None or an exception")
    token_ids, logprobs = burst
    if not token_ids:
        _refuse(slot, "has no ids; return None for a slot without new ids")
    for token_id in token_ids:
        if not isinstance(token_id, int):
            _refuse(slot, f"has the id {token_id!r}, which is not an int")
    if slot.params.logprobs is not None and not (
        len(logprobs) == len(token_ids) and all(map(contains, logprobs, token_ids))
    ):
        _refuse(slot, "lacks a logprob for each of its ids")


def _refuse(slot: SlotView, fault: str) -> NoReturn:
    raise ModelContractError(f"the model's burst {slot.step} for {slot.request_id!r} {fault}")
