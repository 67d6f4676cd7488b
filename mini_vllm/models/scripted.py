"""A model that reads its ids from a script, for tests and demonstrations.

It reads neither prompt nor sampling parameters. The ids of a slot depend on its key and step alone,
so a mix-up of slots shows at once. `RaggedModel` cuts known ids into bursts at random, to show that
the cuts change nothing.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, Union

from mini_vllm.engine.engine_errors import ModelContractError
from mini_vllm.engine.model import Burst, News, SlotView

BYTE_VOCAB_SIZE = 259  # 256 bytes and three special ids, as in ByteTokenizer


@dataclass(frozen=True, slots=True)
class Raise:
    """A step that raises, which ends the engine. An exception as a step ends its slot alone."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Hook:
    """A step that calls `call` and then acts as `step`."""

    call: Callable[[], object]
    step: "Step" = None


Step = Union[News, tuple[int, ...], Raise, Hook]  # noqa: UP007 - Hook and Step name each other
Script = Sequence[Step]
Key = str | tuple[str, int]
Scripts = Mapping[Key, Script] | Callable[[SlotView], Script]
T = TypeVar("T")


class ScriptedModel:
    """A model that returns step n of a slot's script in its nth call for that slot.

    Args:
        scripts: by request id, for all its choices, or by (request id, choice index); or a
            function that gets a new slot and returns its script. A step is a tuple of ids, any
            value that a model may return, `Raise`, or `Hook`.
        vocab_size: logprobs, if requested and not in the step, are invented for ids below this,
            the same each time.

    Raises:
        ModelContractError: a slot has no script, or its script has ended.
    """

    def __init__(self, scripts: Scripts, *, vocab_size: int = BYTE_VOCAB_SIZE) -> None:
        self._scripts = scripts
        self._vocab_size = vocab_size
        self._running: dict[tuple[str, int], Script] = {}

    def prefill(self, slots: Sequence[SlotView]) -> list[News]:
        """Return the first step of each slot."""
        for slot in slots:
            script = self._scripts
            self._running[slot.key] = script(slot) if callable(script) else script_of(slot, script)
        return self.decode(slots)

    def decode(self, slots: Sequence[SlotView]) -> list[News]:
        """Return the next step of each slot."""
        return [self._news(slot, self._step(slot)) for slot in slots]

    def release(self, slot: SlotView) -> None:
        """Drop all state of a slot."""
        self._running.pop(slot.key, None)

    def _step(self, slot: SlotView) -> Step:
        script = self._running[slot.key]
        if slot.step >= len(script):
            raise ModelContractError(
                f"the script of request {slot.request_id!r}, choice {slot.choice_index}, has "
                f"{len(script)} steps, and step {slot.step} was asked for; lengthen the script, "
                f"or end the request earlier, by max_tokens or an EOS id"
            )
        return script[slot.step]

    def _news(self, slot: SlotView, step: Step) -> News:
        if isinstance(step, Raise):
            raise step.error
        if isinstance(step, Hook):
            step.call()
            return self._news(slot, step.step)
        if isinstance(step, tuple) and not isinstance(step, Burst):
            return burst_with_logprobs(slot, step, self._vocab_size)
        return step


def script_of(slot: SlotView, scripts: Mapping[Key, T]) -> T:
    """Return the script of a slot: that of its choice, or else that of its request.

    Raises:
        ModelContractError: `scripts` has neither.
    """
    for key in (slot.key, slot.request_id):
        if key in scripts:
            return scripts[key]
    raise ModelContractError(
        f"no script for request {slot.request_id!r}, choice {slot.choice_index}; "
        f"there are scripts for {list(scripts)}"
    )


def burst_with_logprobs(slot: SlotView, token_ids: tuple[int, ...], vocab_size: int) -> Burst:
    """Return a burst, with invented logprobs if the request asks for logprobs.

    The logprobs depend only on the slot's key, or the request's seed and the choice, and on the
    place in the output. So they are the same however the ids are cut into bursts.
    """
    most = slot.params.logprobs
    if most is None:
        return Burst(token_ids)
    seed, logprobs = slot.params.seed, []
    source = slot.key if seed is None else (seed, slot.choice_index)
    for position, chosen in enumerate(token_ids, len(slot.output_token_ids)):
        chance = random.Random(repr((source, position)))
        others = [token_id for token_id in range(vocab_size) if token_id != chosen]
        shown = [chosen, *chance.sample(others, min(most, len(others)))]
        *weights, rest = (chance.uniform(0.1, 1) for _ in range(len(shown) + 1))
        total = sum(weights) + rest
        logprobs.append(
            {
                token_id: math.log(weight / total)
                for token_id, weight in zip(shown, weights, strict=True)
            }
        )
    return Burst(token_ids, tuple(logprobs))


class RaggedModel(ScriptedModel):
    """A scripted model whose steps are pieces of 1 to `most` ids, the same for a seed and slot.

    Args:
        seed: chooses the cuts, together with the slot's key.
        scripts: all ids, by request id or by (request id, choice index).
        most: ids in the longest piece, at least 1.
        idle: the probability of a step without ids, at least 0 and below 1.
        vocab_size: as for `ScriptedModel`.

    Raises:
        ValueError: `most` or `idle` is out of its range.
    """

    def __init__(
        self,
        seed: int,
        scripts: Mapping[str | tuple[str, int], Sequence[int]],
        *,
        most: int = 4,
        idle: float = 0.0,
        vocab_size: int = BYTE_VOCAB_SIZE,
    ) -> None:
        if most < 1:
            raise ValueError(f"most is {most}; it must be at least 1")
        if not 0 <= idle < 1:
            raise ValueError(f"idle is {idle}; it must be at least 0 and below 1")

        def script(slot: SlotView) -> Script:
            ids = script_of(slot, scripts)
            return _cut(ids, random.Random(repr((seed, slot.key))), most, idle)

        super().__init__(script, vocab_size=vocab_size)


def _cut(token_ids: Sequence[int], chance: random.Random, most: int, idle: float) -> list[Step]:
    pieces: list[Step] = []
    start = 0
    while start < len(token_ids):
        end = start if chance.random() < idle else start + chance.randint(1, most)
        pieces.append(tuple(token_ids[start:end]) or None)
        start = end
    return pieces
