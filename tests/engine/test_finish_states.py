"""Why a choice ends: the first reason that is found, id by id, and only one."""

import itertools

import pytest
from scenes import EOS, PROMPT, ROCKET, Scene, ids, one_by_one, params

from mini_vllm.engine import (
    Burst,
    Ending,
    Engine,
    FinishReason,
    ModelContractError,
    Request,
    SamplingParams,
    StreamingSubmissionError,
)
from mini_vllm.engine.choice import ChoiceState
from mini_vllm.engine.model import SlotView
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.models.speculative import SpeculativeScriptedModel
from mini_vllm.tokenizer import ByteTokenizer

END_ID, LENGTH, STOP_WORDS = FinishReason.END_ID, FinishReason.LENGTH, FinishReason.STOP_WORDS
CANCELLED = FinishReason.CANCELLED


def cancel_a(scene):
    scene.channels["A"].cancel()


def ended(*steps, **changes):
    """Return the outcome of one script, which must be the same for whoever reads along or not."""
    outcomes = [
        Scene({"A": steps}, params=params(**changes), silent=silent).run().outcome("A")
        for silent in ((), ("A",))
    ]
    assert outcomes[0] == outcomes[1]
    return outcomes[0]


def test_R2_an_eos_in_a_burst_ends_it():
    assert ended((97, EOS, 98)) == ((97, EOS), "a", END_ID)


def test_R2_max_tokens_in_a_burst_ends_it():
    assert ended(ids("abc"), max_tokens=2) == (ids("ab"), "ab", LENGTH)


def test_R2_a_stop_in_a_burst_ends_it():
    assert ended(ids("ab##cd"), stop=("##",)) == (ids("ab##"), "ab", STOP_WORDS)


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


def test_a_stop_wins_over_max_tokens_on_the_same_id():
    assert ended((97,), (98,), stop=("b",), max_tokens=2) == (ids("ab"), "a", STOP_WORDS)


def test_eos_as_the_last_allowed_id_is_an_eos():
    assert ended((97,), (EOS,), max_tokens=2) == ((97, EOS), "a", END_ID)


def test_eos_as_the_first_id_is_one_final_chunk_without_text():
    scene = Scene({"A": [(EOS,)]}).run()
    assert scene.outcome("A") == ((EOS,), "", END_ID)
    assert len(scene.chunks("A")) == 1


def test_the_stop_that_comes_first_wins_over_an_eos_behind_it():
    assert ended((*ids("a#"), EOS), stop=("#",)) == (ids("a#"), "a", STOP_WORDS)


def test_an_eos_wins_over_a_stop_behind_it():
    assert ended((97, EOS, 35), stop=("#",)) == ((97, EOS), "a", END_ID)


def test_ignore_eos_goes_on():
    ignoring = ended((97, EOS, 98), (99,), ignore_eos=True, max_tokens=4)
    assert ignoring == ((97, EOS, 98, 99), "abc", LENGTH)


def test_stop_ids_end_like_eos_and_say_which():
    scene = Scene({"A": [ids("abc")]}, params=params(stop_token_ids=frozenset([98]))).run()
    assert scene.outcome("A") == (ids("ab"), "a", END_ID)
    assert scene.output("A").stop_reason == 98
    assert scene.chunks("A")[-1].stop_reason == 98
    assert Scene({"A": [(EOS,)]}).run().output("A").stop_reason is None


def test_min_tokens_ignores_what_comes_early():
    early = ended((EOS, 35), (97, EOS, 98), stop=("#",), min_tokens=2)
    assert early == ((EOS, 35, 97, EOS), "#a", END_ID)


def test_a_visible_stop_is_shown():
    shown = ended(ids("a##b"), stop=("##",), include_stop_str_in_output=True)
    assert shown == (ids("a##"), "a##", STOP_WORDS)


def test_a_stop_that_only_the_cut_off_character_completes_counts():
    assert ended((97, 0xF0), stop=("\ufffd",), max_tokens=2) == ((97, 0xF0), "a", STOP_WORDS)


@pytest.mark.parametrize("changes", [{"max_tokens": 0}, {"max_tokens": -1}, {"n": 0}])
def test_no_tokens_at_all_is_refused(changes):
    with pytest.raises(ValueError, match="at least 1"):
        SamplingParams(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"max_tokens": 2.5},
        {"max_tokens": float("inf")},
        {"min_tokens": 0.5},
        {"n": 1.5},
        {"logprobs": 1.5},
        {"max_tokens": "5"},
    ],
)
def test_a_number_that_is_no_int_is_refused_before_it_can_harm_the_loop(changes):
    (name,) = changes
    with pytest.raises(ValueError, match=f"^{name} is .* int"):
        SamplingParams(**changes)


@pytest.mark.parametrize("changes", [{"stop_token_ids": [EOS]}, {"stop": ("a", 5)}])
def test_a_stop_of_the_wrong_kind_is_refused_by_name(changes):
    (name,) = changes
    with pytest.raises(ValueError, match=f"^{name} "):
        SamplingParams(**changes)


def test_cancel_and_eos_at_one_boundary_is_a_cancel():
    scene = Scene({"A": [(97,), (98,), (EOS,)]}, at={("after_evict", 2): cancel_a}).run()
    assert scene.outcome("A") == (ids("ab"), "ab", CANCELLED)


def test_cancel_between_prefill_and_decode_keeps_the_first_ids():
    scene = Scene({"A": [(97, EOS), (98,)]}, at={("after_admit", 1): cancel_a}).run()
    assert scene.outcome("A") == ((97, EOS), "a", CANCELLED)


@pytest.mark.parametrize("hook", ["before_emit", "after_emit", "after_evict"])
def test_cancel_after_the_end_was_latched_changes_nothing(hook):
    scene = Scene({"A": [(97,), (EOS,)]}, at={(hook, 2): cancel_a}).run()
    assert scene.outcome("A") == ((97, EOS), "a", END_ID)


def test_cancel_while_the_last_ids_are_made_loses_to_them():
    scene = Scene({"A": [(97,), (EOS,)]}, at={("before_decode", 2): cancel_a}).run()
    assert scene.outcome("A") == ((97, EOS), "a", END_ID)


def test_each_choice_latches_once(monkeypatch):
    written = []
    latch = ChoiceState.latch

    def counting(self, *args):
        first = latch(self, *args)
        written.append((self, first))
        return first

    monkeypatch.setattr(ChoiceState, "latch", counting)
    scene = Scene(
        {
            "A": [(97, EOS)],
            "B": [ids("b##")],
            "C": [ids("ccc")],
            "D": [(100,), (101,), (102,)],
            "E": [(101,), ValueError("gone")],
        },
        params=params(stop=("##",), max_tokens=3),
        max_num_seqs=2,
        at={
            ("before_emit", 1): cancel_a,
            ("before_decode", 2): lambda scene: scene.channels["D"].cancel(),
        },
    ).run()
    assert [scene.outcome(name)[2] for name in "ABCDE"] == [
        END_ID,
        STOP_WORDS,
        LENGTH,
        CANCELLED,
        FinishReason.ERROR,
    ]
    sequences = {id(one): one for one, _ in written}
    assert len(sequences) == 5
    for sequence in sequences.values():
        assert [first for one, first in written if one is sequence].count(True) == 1


def test_the_first_reason_stays():
    first, second = ValueError("1"), ValueError("2")
    sequence = ChoiceState(SlotView("A", 0, PROMPT, params()), frozenset())
    assert not sequence.finished
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
    taken = sequence.take_burst()
    assert taken == Burst(burst.token_ids[:cut], burst.logprobs[:cut])
    assert sequence.at_max_tokens
    assert sequence.view.output_token_ids == list(range(cut))
    assert sequence.burst is None


def test_X4_a_stop_at_interval_8_ends_at_the_same_id_as_at_interval_1():
    scripts = {"A": one_by_one("some text and ### never this")}
    outcomes = {
        Scene(scripts, params=params(stop=("###",)), interval=n).run().outcome("A")
        for n in (1, 2, 8, 100)
    }
    assert outcomes == {(ids("some text and ###"), "some text and ", STOP_WORDS)}


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
    engine = Engine(ScriptedModel({}), ByteTokenizer(), num_blocks=2, block_size=4)
    with pytest.raises(StreamingSubmissionError, match="at most 8 fit"):
        engine.submit([Request(PROMPT, params(max_tokens=7))])
    engine = Engine(ScriptedModel({"A": one_by_one("abcdef")}), ByteTokenizer(), num_blocks=2,
                    block_size=4)  # fmt: skip
    assert engine.handle_request([Request(PROMPT, params(max_tokens=6), "A")]).texts == ["abcdef"]


def test_a_logprob_is_wanted_for_each_id_where_they_were_asked_for():
    scene = Scene({"A": [Burst((97, 98), ({97: -1.0},))]}, params=params(logprobs=0))
    with pytest.raises(ModelContractError, match="logprob for each"):
        scene.run()
