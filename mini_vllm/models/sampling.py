"""From a distribution to one id, in the order of vLLM 0.33.0's sampler (`v1/sample/sampler.py`).

logit bias -> repetition, frequency and presence penalties -> temperature -> min_p -> top_k -> top_p

The logits are natural logarithms of probabilities. Reported logprobs precede all these steps.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence

from mini_vllm.engine.model import SlotView
from mini_vllm.engine.request import SamplingParams

Ranking = Sequence[tuple[int, int]]
# The model is not smoothed. An excluded id that `logit_bias` favours starts with this logit.
_UNSEEN = math.log(1e-9)
# A penalty makes no logit larger, so that differences of logits stay numbers.
_LARGEST = 1e300


def sample(ranking: Ranking, slot: SlotView, chance: random.Random) -> int:
    """Return an id.

    Args:
        ranking: ids and how often each was counted, the likeliest first.
        slot: has the sampling parameters, and the ids so far.
        chance: the source of random numbers.
    """
    params = slot.params
    logits = _logits(ranking, slot)
    if params.temperature == 0 or len(logits) == 1:
        return logits[0][0]
    most = logits[0][1]
    weights = [math.exp((logit - most) / params.temperature) for _, logit in logits]
    count = _keep(weights, params)
    return chance.choices(logits[:count], weights[:count])[0][0]


def _logits(ranking: Ranking, slot: SlotView) -> list[tuple[int, float]]:
    """Return ids and logits after bias and penalties, best first; equal logits keep their order."""
    params = slot.params
    total = sum(count for _, count in ranking)
    logits = {token_id: math.log(count / total) for token_id, count in ranking}
    for token_id, bias in (params.logit_bias or {}).items():
        if token_id in logits or (bias > 0 and (slot.mask is None or token_id in slot.mask)):
            logits[token_id] = logits.get(token_id, _UNSEEN) + bias
    if params.has_penalties:
        said, read = Counter(slot.output_token_ids), set(slot.prompt_token_ids)
        for token_id, logit in logits.items():
            logits[token_id] = _penalised(logit, params, said[token_id], token_id in read)
    return sorted(logits.items(), key=lambda item: -item[1])


def _penalised(logit: float, params: SamplingParams, said: int, read: bool) -> float:
    """Return the logit of an id after penalties.

    Args:
        logit: before penalties.
        params: have the penalties.
        said: how often the id is in the output.
        read: whether the id is in the prompt.
    """
    if said or read:
        rate = params.repetition_penalty
        logit = logit / rate if logit > 0 else logit * rate
        logit = max(-_LARGEST, min(logit, _LARGEST))
    return logit - params.frequency_penalty * said - params.presence_penalty * (said > 0)


def _keep(weights: Sequence[float], params: SamplingParams) -> int:
    """Return how many of the likeliest ids to sample from; the first has the weight 1."""
    count = sum(weight >= params.min_p for weight in weights)
    if params.top_k > 0:
        count = min(count, params.top_k)
    enough = params.top_p * sum(weights[:count])
    place, reached = 0, 0.0
    while place < count and reached < enough:
        reached += weights[place]
        place += 1
    return place
