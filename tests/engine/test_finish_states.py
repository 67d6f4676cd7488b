"""Why a choice ends: the first reason that is found, id by id, and only one."""

import itertools

import pytest
from scenes import (
    EOS,
    PROMPT,
    ROCKET,
    Scene,
    engine_of,
    ids,
    one_by_one,
    params,
    paths_around,
    request,
)

from mini_vllm.engine import (
    Burst,
    Ending,
    FinishReason,
    ModelContractError,
    SamplingParams,
    StreamingSubmissionError,
)
from mini_vllm.engine.model import SlotView
from mini_vllm.engine.scheduler import ChoiceState
from mini_vllm.engine.slot_stream import take_burst
from mini_vllm.models.speculative import SpeculativeScriptedModel

END_ID, LENGTH, STOP_WORDS = FinishReason.END_ID, FinishReason.LENGTH, FinishReason.STOP_WORDS
CANCELLED = FinishReason.CANCELLED


def cancel_a(scene):
    scene.channels["A"].cancel()


def ended(*steps, **changes):
    """Return the outcome of one script, the same whether somebody reads along or not."""
    outcomes = [
        Scene({"A": steps}, params=params(**changes), silent=silent).run().outcome("A")
        for silent in ((), ("A",))
    ]
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


ENDS = {
    "R2: an EOS in a burst": ([(97, EOS, 98)], {}, ((97, EOS), "a", END_ID)),
    "R2: max_tokens in a burst": ([ids("abc")], {"max_tokens": 2}, (ids("ab"), "ab", LENGTH)),
    "R2: a stop in a burst": ([ids("ab##cd")], {"stop": ("##",)}, (ids("ab##"), "ab", STOP_WORDS)),
    "a stop wins over max_tokens on the same id": (
        [(97,), (98,)], {"stop": ("b",), "max_tokens": 2}, (ids("ab"), "a", STOP_WORDS),
    ),
    "EOS as the last allowed id is an EOS": (
        [(97,), (EOS,)], {"max_tokens": 2}, ((97, EOS), "a", END_ID),
    ),
    "EOS as the first id": ([(EOS,)], {}, ((EOS,), "", END_ID)),
    "the stop that comes first wins over an EOS after it": (
        [(*ids("a#"), EOS)], {"stop": ("#",)}, (ids("a#"), "a", STOP_WORDS),
    ),
    "an EOS wins over a stop after it": (
        [(97, EOS, 35)], {"stop": ("#",)}, ((97, EOS), "a", END_ID),
    ),
    "ignore_eos goes on": (
        [(97, EOS, 98), (99,)], {"ignore_eos": True, "max_tokens": 4},
        ((97, EOS, 98, 99), "abc", LENGTH),
    ),
    "a stop id": ([ids("abc")], {"stop_token_ids": frozenset([98])}, (ids("ab"), "a", END_ID)),
    "min_tokens ignores what comes early": (
        [(EOS, 35), (97, EOS, 98)], {"stop": ("#",), "min_tokens": 2},
        ((EOS, 35, 97, EOS), "#a", END_ID),
    ),
    "a visible stop is shown": (
        [ids("a##b")], {"stop": ("##",), "include_stop_str_in_output": True},
        (ids("a##"), "a##", STOP_WORDS),
    ),
    "a stop that only the cut-off character completes": (
        [(97, 0xF0)], {"stop": ("\ufffd",), "max_tokens": 2}, ((97, 0xF0), "a", STOP_WORDS),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "changes", "expected"), ENDS.values(), ids=ENDS)
def test_R2_the_first_end_that_is_found_id_by_id(steps, changes, expected):
    assert ended(*steps, **changes) == expected


def test_the_end_comes_with_its_own_chunk_and_says_what_stopped():
    for steps, changes, stop_reason in (
        ([(EOS,)], {}, None),
        ([ids("abc")], {"stop_token_ids": frozenset([98])}, 98),
        ([ids("a##")], {"stop": ("##",)}, "##"),
    ):
        scene = Scene({"A": steps}, params=params(**changes)).run()
        (chunk,) = scene.chunks("A")
        assert chunk.stop_reason == scene.output("A").stop_reason == stop_reason


def test_R2_bursts_of_a_speculating_model_are_chunks_as_they_are():
    sentence = (*ids("the cat sat on the mat 🚀"), EOS)

    def target(seen):
        return dict(enumerate(sentence)).get(len(seen) - len(PROMPT), EOS)

    def draft(seen):
        return target(seen) if len(seen) % 5 else 0

    model = SpeculativeScriptedModel(target, draft, 3)
    scene = Scene({"A": None}, model=model, params=params(max_tokens=100)).run()
    assert scene.outcome("A") == (sentence, "the cat sat on the mat 🚀", END_ID)
    assert model.accepted
    sizes = [len(chunk.token_ids) for chunk in scene.chunks("A")]
    assert max(sizes) >= 4
    assert len(sizes) < len(sentence) / 2


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("max_tokens", 0, "at least 1"),
        ("max_tokens", -1, "at least 1"),
        ("n", 0, "at least 1"),
        ("max_tokens", 2.5, "an int"),
        ("max_tokens", float("inf"), "an int"),
        ("max_tokens", "5", "an int"),
        ("min_tokens", 0.5, "an int"),
        ("n", 1.5, "an int"),
        ("logprobs", 1.5, "an int"),
        ("stop_token_ids", [EOS], "a frozenset"),
        ("stop", ("a", 5), "strings"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name_before_it_can_harm_the_loop(name, value, problem):
    with pytest.raises(ValueError, match=f"^{name} .*{problem}"):
        SamplingParams(**{name: value})


# A prefill gives the ids of iteration 1; a cancel that comes before its end is found wins over it.
CANCELS = {
    "at one boundary with an EOS": (
        [(97,), (98,), (EOS,)], ("after_evict", 2), (ids("ab"), "ab", CANCELLED),
    ),
    "between prefill and decode, which keeps the first ids": (
        [(97, EOS), (98,)], ("after_admit", 1), ((97, EOS), "a", CANCELLED),
    ),
    "while the last ids are made": (
        [(97,), (EOS,)], ("before_decode", 2), ((97, EOS), "a", END_ID),
    ),
    **{
        f"after the end was latched: {hook}": (
            [(97,), (EOS,)], (hook, 2), ((97, EOS), "a", END_ID),
        )
        for hook in ("before_emit", "after_emit", "after_evict")
    },
}  # fmt: skip


@pytest.mark.parametrize(("steps", "when", "expected"), CANCELS.values(), ids=CANCELS)
def test_a_cancel_at_any_moment(steps, when, expected):
    assert Scene({"A": steps}, at={when: cancel_a}).run().outcome("A") == expected


def test_a_text_path_is_told_why_it_ends_from_outside():
    told = {}

    def noting(name):
        return {"finish": lambda inner, reason: inner.finish(told.setdefault(name, reason))}

    scene = Scene(
        {
            "A": one_by_one("aaaa"), "B": [(98,), OSError("gone")], "C": one_by_one("ccc"),
            "D": [(EOS,)],
        },
        params=params(max_tokens=3),
        make_text_path=paths_around(noting),
        at={("after_evict", 1): cancel_a},
    ).run()  # fmt: skip
    assert told == {"A": CANCELLED, "B": FinishReason.ERROR, "C": LENGTH}
    assert [scene.outcome(name)[2] for name in "ABCD"] == [*told.values(), END_ID]


def test_each_choice_latches_once(monkeypatch):
    first, latch = [], ChoiceState.latch

    def counting(self, *args):
        if latch(self, *args):
            first.append(self.view.request_id)

    monkeypatch.setattr(ChoiceState, "latch", counting)
    scene = Scene(
        {
            "A": [(97, EOS)], "B": [ids("b##")], "C": [ids("ccc")],
            "D": [(100,), (101,), (102,)], "E": [(101,), ValueError("gone")],
        },
        params=params(stop=("##",), max_tokens=3),
        max_num_seqs=2,
        at={
            ("before_emit", 1): cancel_a,
            ("before_decode", 2): lambda scene: scene.channels["D"].cancel(),
        },
    ).run()  # fmt: skip
    reasons = [scene.outcome(name)[2] for name in "ABCDE"]
    assert reasons == [END_ID, STOP_WORDS, LENGTH, CANCELLED, FinishReason.ERROR]
    assert sorted(first) == list("ABCDE")


def test_the_first_reason_stays():
    first, second = ValueError("1"), ValueError("2")
    sequence = ChoiceState(SlotView("A", 0, PROMPT, params()), frozenset())
    assert sequence.ending is None
    assert sequence.finish_reason is FinishReason.NOT_FINISHED
    assert sequence.latch(Ending(FinishReason.ERROR, error=first))
    assert not sequence.latch(Ending(END_ID))
    assert not sequence.latch(Ending(FinishReason.ERROR, error=second))
    assert sequence.ending == Ending(FinishReason.ERROR, error=first)
    assert sequence.finish_reason is FinishReason.ERROR


@pytest.mark.parametrize("cut", range(1, 6))
def test_take_burst_cuts_logprobs_with_the_ids(cut):
    burst = Burst(tuple(range(5)), tuple({one: -1.0} for one in range(5)))
    sequence = ChoiceState(
        SlotView("A", 0, PROMPT, params(max_tokens=cut)), frozenset(), burst=burst
    )
    taken = take_burst(sequence)
    assert taken == Burst(burst.token_ids[:cut], burst.logprobs[:cut])
    assert sequence.view.output_token_ids == list(range(cut))
    assert sequence.burst is None


def test_X7_every_cut_of_a_short_text_into_bursts_ends_alike():
    script = (*ids("a"), *ROCKET, *ids("##"), EOS, 122)
    for stop, expected in (
        (("##",), (script[:7], "a🚀", STOP_WORDS)),
        (("🚀#",), (script[:6], "a", STOP_WORDS)),
        (("###",), (script[:8], "a🚀##", END_ID)),
    ):
        for cuts in itertools.product([False, True], repeat=len(script) - 1):
            bursts, last = [], 0
            for place, cut in enumerate((*cuts, True), 1):
                if cut:
                    bursts.append(script[last:place])
                    last = place
            assert ended(*bursts, stop=stop) == expected


def test_max_tokens_that_no_pool_could_hold_is_refused_at_submission():
    engine = engine_of(num_blocks=2, block_size=4)
    with pytest.raises(StreamingSubmissionError, match="context length is 8 tokens"):
        engine.submit([request(max_tokens=7)])
    assert engine.handle_request([request(max_tokens=6)]).texts == ["abcabc"]


@pytest.mark.parametrize("burst", [Burst((97, 98), ({97: -1.0},)), Burst((97,))])
def test_a_logprob_is_wanted_for_each_id_where_they_were_asked_for(burst):
    scene = Scene({"A": [burst]}, params=params(logprobs=0))
    with pytest.raises(ModelContractError, match="logprob for each"):
        scene.run()
