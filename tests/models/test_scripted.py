"""The scripted models: ids by key and step, speculation that changes nothing, and random cuts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.engine.engine_errors import ModelContractError
from mini_vllm.engine.model import Burst, SlotView
from mini_vllm.engine.request import SamplingParams
from mini_vllm.models.scripted import Hook, RaggedModel, Raise, ScriptedModel
from mini_vllm.models.speculative import SpeculativeScriptedModel


def slot(request_id="a", choice=0, prompt=(), **params):
    return SlotView(request_id, choice, prompt, SamplingParams(**{"max_tokens": 99, **params}))


def run(model, slots, steps):
    """Ask so often, as the engine does; return the bursts of each slot."""
    log = [[] for _ in slots]
    for step in range(steps):
        news = model.decode(slots) if step else model.prefill(slots)
        for one, burst, bursts in zip(slots, news, log, strict=True):
            one.step += 1
            one.output_token_ids += burst.token_ids if burst else ()
            bursts.append(burst)
    return log


def test_a_step_is_what_a_model_may_return():
    error, burst, one = OSError("gone"), Burst((4,), ({4: -1.0},)), slot()
    model = ScriptedModel({"a": [(1,), (2, 3), None, burst, error]})
    assert run(model, [one], 4) == [[Burst((1,)), Burst((2, 3)), None, burst]]
    assert model.decode([one]) == [error]


def test_a_script_is_found_by_choice_first_and_by_request_then():
    model = ScriptedModel({"a": [(1,)], ("a", 1): [(2,)]})
    assert run(model, [slot(choice=0), slot(choice=1), slot(choice=2)], 1) == [
        [Burst((1,))], [Burst((2,))], [Burst((1,))]
    ]  # fmt: skip


def test_a_function_gets_each_new_slot_once():
    seen = []

    def script(one):
        seen.append(one.key)
        return [one.prompt_token_ids] * 3

    model = ScriptedModel(script)
    one = slot(prompt=(5, 6))
    assert run(model, [one], 3) == [[Burst((5, 6))] * 3]
    assert seen == [("a", 0)]
    model.release(one)
    model.release(one)
    assert not model._running
    run(model, [slot()], 1)
    assert seen == [("a", 0)] * 2


@given(st.permutations([0, 1, 2]), st.permutations([0, 1, 2]))
def test_neighbours_and_order_change_nothing(first, second):
    model = ScriptedModel({str(i): [(10 * i,), (10 * i + 1,)] for i in range(3)})
    slots = [slot(str(i), logprobs=1) for i in range(3)]
    alone = [run(model, [slot(str(i), logprobs=1)], 2)[0] for i in range(3)]
    got = dict(zip(first, model.prefill([slots[i] for i in first]), strict=True))
    assert [got[i] for i in range(3)] == [bursts[0] for bursts in alone]
    for one in slots:
        one.step, one.output_token_ids = 1, [10 * int(one.request_id)]
    got = dict(zip(second, model.decode([slots[i] for i in second]), strict=True))
    assert [got[i] for i in range(3)] == [bursts[1] for bursts in alone]


def test_made_up_logprobs_of_a_seed_are_those_of_every_request_with_it():
    model = ScriptedModel({name: [(7,)] for name in "ab"})

    def shown(name, choice, seed):
        return run(model, [slot(name, choice, logprobs=1, seed=seed)], 1)[0][0].logprobs

    assert shown("a", 0, 5) == shown("b", 0, 5)
    others = shown("a", 1, 5), shown("a", 0, 6), shown("a", 0, None), shown("b", 0, None)
    assert all(one != shown("a", 0, 5) for one in others)
    assert others[2] != others[3]


def test_raise_raises_and_hook_calls_before_its_step():
    calls, one = [], slot()
    steps = [Hook(lambda: calls.append(1), (7,)), Hook(lambda: calls.append(2), Raise(KeyError()))]
    model = ScriptedModel({"a": steps})
    assert run(model, [one], 1) == [[Burst((7,))]]
    assert calls == [1]
    with pytest.raises(KeyError):
        model.decode([one])
    assert calls == [1, 2]


def test_a_missing_or_ended_script_is_told():
    with pytest.raises(ModelContractError, match=r"no script for request 'b', choice 2;.*\['a'\]"):
        ScriptedModel({"a": []}).prefill([slot("b", 2)])
    with pytest.raises(ModelContractError, match=r"'a', choice 0, has 1 steps, and step 1 was"):
        run(ScriptedModel({"a": [(1,)]}), [slot()], 2)


@given(st.integers(0, 8), st.lists(st.integers(0, 400), min_size=1, max_size=6))
def test_made_up_logprobs_are_a_distribution_with_the_chosen_id_and_k_others(k, ids):
    [[burst]] = run(ScriptedModel({"a": [tuple(ids)]}), [slot(logprobs=k)], 1)
    assert len(burst.logprobs) == len(ids)
    for chosen, logprobs in zip(ids, burst.logprobs, strict=True):
        assert chosen in logprobs
        assert len(logprobs) == k + 1
        assert all(0 <= one < 259 for one in logprobs if one != chosen)
        assert all(value <= 0 for value in logprobs.values())
        assert sum(map(math.exp, logprobs.values())) < 1


def test_made_up_logprobs_are_the_same_each_time_and_differ_by_place_and_slot():
    def logprobs(*steps, name="a"):
        bursts = run(ScriptedModel({name: steps}), [slot(name, logprobs=2)], len(steps))[0]
        return [one for burst in bursts for one in burst.logprobs]

    whole = logprobs((5, 5, 5))
    assert whole == logprobs((5, 5, 5)) == logprobs((5,), (5, 5))
    assert whole[0] != whole[1]
    assert whole != logprobs((5, 5, 5), name="b")
    assert run(ScriptedModel({"a": [(1,)]}), [slot()], 1)[0][0].logprobs == ()


def test_a_small_vocabulary_has_fewer_others():
    model = ScriptedModel({"a": [(1,)]}, vocab_size=3)
    [[burst]] = run(model, [slot(logprobs=9)], 1)
    assert set(burst.logprobs[0]) == {0, 1, 2}


# Speculation. A hash of all ids: any error in the context changes what comes. Hashes of ints are
# the same in every process.


def hashed(seed):
    return lambda ids: hash((seed, ids)) % 5


def sometimes(draft, target, seed, agreement):
    return lambda ids: (target if hash((seed, ids)) % 100 < agreement else draft)(ids)


@given(
    st.integers(0, 5),
    st.integers(0, 1000),
    st.sampled_from([0, 50, 90, 100]),
    st.lists(st.integers(0, 4), max_size=3),
)
def test_the_ids_are_the_targets_for_every_draft_and_k(k, seed, agreement, prompt):
    target = hashed(1)
    draft = sometimes(hashed(2), target, seed, agreement)
    one = slot(prompt=tuple(prompt))
    model = SpeculativeScriptedModel(target, draft, k)
    [bursts] = run(model, [one], 12)
    expected = list(prompt)
    for _ in one.output_token_ids:
        expected.append(target(tuple(expected)))
    assert [*prompt, *one.output_token_ids] == expected
    sizes = [len(burst.token_ids) for burst in bursts]
    assert all(1 <= size <= k + 1 for size in sizes)
    assert model.proposed == 12 * k
    assert model.accepted == sum(sizes) - 12


def test_a_draft_that_always_agrees_gives_bursts_of_k_plus_1_and_one_that_never_does_of_1():
    target = hashed(1)
    for draft, size in ((target, 5), (lambda ids: target(ids) + 1, 1)):
        model = SpeculativeScriptedModel(target, draft, 4)
        [bursts] = run(model, [slot()], 10)
        assert [len(burst.token_ids) for burst in bursts] == [size] * 10
        assert (model.proposed, model.accepted) == (40, 10 * (size - 1))


def test_each_guess_is_made_after_the_guesses_before_it():
    seen = []

    def draft(ids):
        seen.append(ids)
        return len(ids)

    SpeculativeScriptedModel(len, draft, 3).prefill([slot(prompt=(9,))])
    assert seen == [(9,), (9, 1), (9, 1, 2)]


def test_a_negative_k_is_refused():
    with pytest.raises(ValueError, match="k is -1; it must be at least 0"):
        SpeculativeScriptedModel(len, len, -1)


# Random cuts.


@given(
    st.integers(0, 10_000),
    st.lists(st.integers(0, 255), min_size=1, max_size=30),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.5]),
)
def test_pieces_join_to_the_script_and_are_the_same_each_time(seed, ids, most, idle):
    def pieces():
        one, log = slot(logprobs=1), []
        model = RaggedModel(seed, {"a": ids}, most=most, idle=idle)
        news = model.prefill([one])
        while True:
            one.step += 1
            log += news
            one.output_token_ids += news[0].token_ids if news[0] else ()
            if len(one.output_token_ids) >= len(ids):
                return log
            news = model.decode([one])

    log = pieces()
    bursts = [burst for burst in log if burst is not None]
    assert [token_id for burst in bursts for token_id in burst.token_ids] == ids
    assert all(1 <= len(burst.token_ids) <= most for burst in bursts)
    assert idle or None not in log
    assert log == pieces()
    [[whole]] = run(ScriptedModel({"a": [tuple(ids)]}), [slot(logprobs=1)], 1)
    assert tuple(one for burst in bursts for one in burst.logprobs) == whole.logprobs


def test_cuts_differ_by_seed_and_slot_and_reach_every_size():
    def sizes(seed, name, choice=0):
        model = RaggedModel(seed, {name: range(200)}, most=3, idle=0.2)
        steps = model._scripts(slot(name, choice))
        return [len(step or ()) for step in steps]

    assert set(sizes(1, "a")) == {0, 1, 2, 3}
    assert len({tuple(sizes(*key)) for key in [(1, "a"), (2, "a"), (1, "b"), (1, "a", 1)]}) == 4


def test_ragged_arguments_out_of_range_and_missing_scripts_are_told():
    with pytest.raises(ValueError, match="most is 0"):
        RaggedModel(1, {}, most=0)
    with pytest.raises(ValueError, match="idle is 1"):
        RaggedModel(1, {}, idle=1)
    with pytest.raises(ModelContractError, match="no script for request 'a'"):
        RaggedModel(1, {}).prefill([slot()])
