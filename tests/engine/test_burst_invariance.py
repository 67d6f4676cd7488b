"""How ids come in bursts, who reads, and how often, changes no id, no text and no reason."""

import os
import random

from scenes import BOS, EOS, ROCKET, Scene, ids, params, reference

from mini_vllm.engine import FinishReason
from mini_vllm.models.scripted import RaggedModel

CASES = 20_000 if os.environ.get("SOAK") else 300
ALPHABET = [*ids("ab#"), *ids("ab#"), *ROCKET, *ids("你é"), 0xFF, EOS, BOS, 300, -1]
STOPS = ["a", "ab", "b#", "##", "#a#", "abab", "a🚀", "🚀", "你", "é#", "ba"]
RUNS = {"one": 1, "two": 2, "four": 4, "hundred": 100, "silent": None}


def random_case(chance):
    """Return ids, long enough for the parameters, and the parameters."""
    most = chance.randint(1, 14)
    visible = chance.random() < 0.3
    one = params(
        max_tokens=most,
        min_tokens=chance.choice([0, 0, 0, 1, 2, chance.randint(0, most)]) if most > 1 else 0,
        stop=tuple(chance.sample(STOPS, chance.randint(0, 3))),
        # A visible stop id whose text is in a stop string has no rule of its own.
        stop_token_ids=frozenset([] if visible else chance.choice([[], [], [98], [0x9F]])),
        ignore_eos=chance.random() < 0.2,
        include_stop_str_in_output=visible,
    )
    return [chance.choice(ALPHABET) for _ in range(most)], one


def played(token_ids, params, seed):
    """Return what each kind of reader gets of the ids, each cut at random."""
    outcomes = {}
    for interval in {1, 2, 4, 100}:
        names = [name for name, n in RUNS.items() if n in (interval, None)]
        scripts = dict.fromkeys(names, token_ids)
        model = RaggedModel(seed + interval, scripts, most=5, idle=0.2)
        scene = Scene(
            scripts, params=params, interval=interval, silent=("silent",), model=model,
            max_num_seqs=2,
        )  # fmt: skip
        scene.run()
        outcomes |= {f"{name} at {interval}": scene.outcome(name) for name in names}
    return outcomes


def test_X4_X7_burst_invariance():
    chance = random.Random(7)
    reasons = []
    for seed in range(CASES):
        token_ids, one = random_case(chance)
        expected = reference(token_ids, one)
        reasons.append(expected[2])
        for run, outcome in played(token_ids, one, seed).items():
            assert outcome == expected, (seed, run, token_ids, one)
    for reason in (FinishReason.END_ID, FinishReason.LENGTH, FinishReason.STOP_WORDS):
        assert reasons.count(reason) > CASES // 20


def test_X7_requests_side_by_side_are_as_requests_alone():
    chance = random.Random(8)
    for seed in range(CASES // 10):
        cases = {f"r{number}": random_case(chance) for number in range(chance.randint(2, 9))}
        scripts = {name: token_ids for name, (token_ids, _) in cases.items()}
        scene = Scene(
            scripts,
            params={name: one for name, (_, one) in cases.items()},
            interval=chance.choice([1, 2, 4, 100]),
            silent=[name for name in cases if chance.random() < 0.3],
            model=RaggedModel(seed, scripts, idle=0.2),
            max_num_seqs=chance.randint(1, 8),
        ).run()
        for name, (token_ids, one) in cases.items():
            assert scene.outcome(name) == reference(token_ids, one), (seed, name)


def test_the_reference_knows_the_rules_it_is_to_check():
    assert reference((97, EOS, 98), params()) == ((97, EOS), "a", FinishReason.END_ID)
    assert reference(ids("abcd"), params(stop=("abcd", "bc")))[1] == "a"
    assert reference(ids("ab"), params(stop=("b",), max_tokens=2))[2] is FinishReason.STOP_WORDS
    assert reference((97, 0xF0), params(max_tokens=2))[1] == "a\ufffd"
    assert reference(ids("#a#"), params(stop=("#",), min_tokens=1))[1] == "#a"
    assert reference((0xF0,), params())[2] is FinishReason.NOT_FINISHED
