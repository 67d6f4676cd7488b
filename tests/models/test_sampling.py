"""From counts and parameters to the distribution that is sampled from."""

import random
from math import exp

import pytest

from mini_vllm.engine import SamplingParams, SlotView
from mini_vllm.engine.structured_output import TokenMask
from mini_vllm.models.sampling import sample

# The probabilities are 1/2, 1/4, 1/8, 1/16 and 1/16.
RANKING = [(1, 8), (2, 4), (3, 2), (4, 1), (5, 1)]


class Chance:
    """Remembers what it should draw from."""

    def choices(self, population, weights):
        total = sum(weights)
        self.seen = {one: w / total for (one, _), w in zip(population, weights, strict=True)}
        return population[:1]


@pytest.mark.parametrize(
    ("params", "output", "weights"),
    [
        ({}, (), {1: 8, 2: 4, 3: 2, 4: 1, 5: 1}),
        ({"temperature": 2}, (), {1: 8**0.5, 2: 2, 3: 2**0.5, 4: 1, 5: 1}),
        ({"top_k": -1}, (), {1: 8, 2: 4, 3: 2, 4: 1, 5: 1}),
        ({"top_k": 2}, (), {1: 8, 2: 4}),
        ({"top_p": 0.7}, (), {1: 8, 2: 4}),
        # top_p is a part of what top_k has left.
        ({"top_k": 2, "top_p": 0.6}, (), {1: 8}),
        ({"min_p": 0.25}, (), {1: 8, 2: 4, 3: 2}),
        # min_p comes after the temperature.
        ({"min_p": 0.4, "temperature": 2}, (), {1: 8**0.5, 2: 2, 3: 2**0.5}),
        ({"logit_bias": {1: -100}}, (), {2: 4, 3: 2, 4: 1, 5: 1}),
        ({"logit_bias": {3: 1}}, (), {1: 8, 2: 4, 3: 2 * exp(1), 4: 1, 5: 1}),
        # An id that never followed can be wished for, if the wish is strong.
        ({"logit_bias": {9: 100}}, (), {9: 1}),
        ({"logit_bias": {9: 5, 8: -1}}, (), {1: 8, 2: 4, 3: 2, 4: 1, 5: 1}),
        ({"presence_penalty": 1}, (1, 1), {1: 8 / exp(1), 2: 4, 3: 2, 4: 1, 5: 1}),
        ({"frequency_penalty": 1}, (1, 1), {1: 8 / exp(2), 2: 4, 3: 2, 4: 1, 5: 1}),
        ({"frequency_penalty": -2}, (5,), {1: 8, 5: exp(2), 2: 4, 3: 2, 4: 1}),
        # Log 1/4 of 2, which was read, and log 1/8 of 3, which was said, count twice.
        ({"repetition_penalty": 2}, (3,), {1: 1 / 2, 2: 1 / 16, 3: 1 / 64, 4: 1 / 16, 5: 1 / 16}),
    ],
)
def test_each_parameter_does_what_it_does_in_vllm(params, output, weights):
    chance = Chance()
    slot = SlotView("r", 0, (2,), SamplingParams(**params), output_token_ids=list(output))
    best = sample(RANKING, slot, chance)
    total = sum(weights.values())
    expected = {one: weight / total for one, weight in weights.items()}
    assert {one: part for one, part in chance.seen.items() if part > 1e-6} == pytest.approx(
        expected
    )
    assert best == max(weights, key=weights.get)
    greedy = SlotView("r", 0, (2,), SamplingParams(**params | {"temperature": 0}), list(output))
    assert sample(RANKING, greedy, None) == best


@pytest.mark.parametrize("temperature", [0, 5e-324, 1, 2])
@pytest.mark.parametrize("penalty", [5e-324, 1e308])
@pytest.mark.parametrize("bias", [0, 100, -100])
def test_an_extreme_penalty_is_no_error(penalty, temperature, bias):
    """Each id was read, and has a logit that the penalty makes larger than any number."""
    ids = range(1, 21)
    params = SamplingParams(
        repetition_penalty=penalty, temperature=temperature, logit_bias=dict.fromkeys(ids, bias)
    )
    slot = SlotView("r", 0, (*ids,), params)
    assert sample([(one, 1) for one in ids], slot, random.Random(0)) in ids


def test_what_a_grammar_rules_out_cannot_be_wished_for():
    params = SamplingParams(temperature=0, logit_bias={8: 100, 9: 50})
    slot = SlotView("r", 0, (), params, mask=TokenMask.of({1, 9}, 10))
    assert sample([(1, 1)], slot, None) == 9


@pytest.mark.parametrize(
    ("field", "value"),
    [("top_k", -2), ("min_p", 1.1), ("repetition_penalty", 0.0), ("presence_penalty", 2.5),
     ("frequency_penalty", float("nan"))],
)  # fmt: skip
def test_a_value_out_of_its_range_is_refused_by_name(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}; it must be"):
        SamplingParams(**{field: value})
