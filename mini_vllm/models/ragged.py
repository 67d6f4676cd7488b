"""A model that cuts known ids into bursts at random, to show that the cuts change nothing.

The same seed and slot give the same cuts.
"""

import random
from collections.abc import Mapping, Sequence

from mini_vllm.engine.model import SlotView
from mini_vllm.models.scripted import BYTE_VOCAB_SIZE, Script, ScriptedModel, Step, script_of


class RaggedModel(ScriptedModel):
    """A scripted model whose steps are pieces of 1 to `most` ids.

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
