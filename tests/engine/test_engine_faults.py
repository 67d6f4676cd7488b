"""Whatever breaks, every reader is told, and nobody suffers who need not."""

from itertools import count
from unittest.mock import Mock

import pytest
from scenes import (
    EOS,
    ROCKET,
    Scene,
    assert_ended,
    channels_of,
    engine_of,
    ids,
    ids_of,
    no_memory_for_a_chunk,
    one_by_one,
    params,
    paths_around,
    popped,
    push_raises_once,
    request,
    submitted,
    watched,
)

from mini_vllm.engine import (
    Burst,
    EngineDeadError,
    EngineState,
    FinishReason,
    ModelContractError,
    NullMetrics,
    StreamChannel,
    StreamChunk,
    StreamingSubmissionError,
    TextPathFactory,
)
from mini_vllm.models.scripted import Hook, Raise, ScriptedModel
from mini_vllm.text.events import TextDelta
from mini_vllm.tokenizer import ByteTokenizer
from mini_vllm.tokenizer_errors import DecodeError

ERROR = FinishReason.ERROR
ERROR_END = StreamChunk(finished=True, reason=ERROR)


class PanicException(BaseException):
    """What a library raises outside of Exception."""


def paths_with(faults, after=0):
    """Return what makes text paths; that of B raises `faults`, in `feed` after so many calls."""
    calls = count(1)

    def feed(inner, token_ids):
        if next(calls) > after and "feed" in faults:
            raise faults["feed"]
        return inner.feed(token_ids)

    def finish(inner, reason):
        if "finish" in faults:
            raise faults["finish"]
        return inner.finish(reason)

    return paths_around(lambda name: {"feed": feed, "finish": finish} if name == "B" else {})


def assert_dead(scene, error):
    """All streams and handles are ended with this error, nothing is used, nothing is taken."""
    engine = scene.engine
    assert engine.state is EngineState.FAILED
    for name, handle in scene.handles.items():
        with pytest.raises(EngineDeadError) as caught:
            handle.result(timeout=0)
        assert caught.value.__cause__ is error
        if name in scene.channels:
            chunks = scene.chunks(name)
            assert [chunk.finished for chunk in chunks].count(True) == 1
            assert chunks[-1].reason is ERROR
            assert scene.channels[name].error is error
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.used_blocks) == (0, 0, 0)
    assert not engine.has_work
    late = StreamChannel.create()
    with pytest.raises(EngineDeadError) as caught:
        engine.submit([request()], [late])
    assert caught.value.__cause__ is error
    assert str(error) in str(caught.value)
    assert_ended(late, ERROR)
    with pytest.raises(EngineDeadError):
        engine.step()
    with pytest.raises(EngineDeadError):
        engine.handle_request([request()])
    engine.shutdown()
    engine.shutdown(drain=False)


def dies(scene, error_type):
    with pytest.raises(error_type) as caught:
        scene.run()
    assert_dead(scene, caught.value)
    return caught.value


FATAL = [RuntimeError("boom"), KeyboardInterrupt(), SystemExit(3), MemoryError(), StopIteration()]


@pytest.mark.parametrize("error", FATAL, ids=lambda error: type(error).__name__)
def test_R4_golden_trace_2_a_model_raises_and_every_reader_gets_what_there_was(error):
    scripts = {
        "A": [(0x68,), (0x69,), (0xF0,), Raise(error)],
        "B": [(0x61,), (0x62, 0x23), (0x63, 0x23), (1,)],
        "C": one_by_one("silent"),
        "D": one_by_one("waits"),
    }
    scene = Scene(scripts, params=params(stop=("##",)), silent="C", max_num_seqs=3)
    assert dies(scene, type(error)) is error
    assert scene.log == {
        "A": [
            (1, StreamChunk((0x68,), "h")),
            (2, StreamChunk((0x69,), "i")),
            (4, StreamChunk((0xF0,), "\ufffd", True, ERROR)),
        ],
        "B": [
            (1, StreamChunk((0x61,), "a")),
            (2, StreamChunk((0x62, 0x23), "b")),
            (3, StreamChunk((0x63, 0x23), "#c")),
            (4, StreamChunk((), "#", True, ERROR)),
        ],
        "D": [(4, ERROR_END)],
    }


@pytest.mark.parametrize("error", FATAL, ids=lambda error: type(error).__name__)
def test_R4_what_the_model_raises_reaches_the_caller_of_handle_request_and_the_reader(error):
    # 29 and 30: the engine ends its streams, and `handle_request` does so again.
    channel, seen = StreamChannel.create(), []
    with pytest.raises(type(error)) as caught:
        engine_of([(97,), Raise(error)]).handle_request([request()], [channel])
    assert caught.value is error
    assert channel.consume(seen.append) is ERROR
    assert seen == [StreamChunk((97,), "a"), ERROR_END]
    assert channel.error is error


def test_R4_a_model_that_raises_in_prefill():
    scene = Scene({"A": [Raise(OSError("x"))], "B": [(98,)]})
    dies(scene, OSError)
    assert scene.chunks("B") == [ERROR_END]


def test_what_is_submitted_while_the_iteration_fails_is_ended_too():
    late = []

    def submit():
        late.extend(submitted(scene.engine, request("late")))

    scene = Scene({"A": [(97,), Hook(submit, Raise(OSError("x")))]})
    dies(scene, OSError)
    (channel,), (handle,) = late
    assert popped(channel) == [ERROR_END]
    with pytest.raises(EngineDeadError):
        handle.result(timeout=0)


def test_a_newcomer_keeps_its_first_ids_when_decode_raises():
    scripts = {"A": [(97,), Raise(OSError("x"))], "B": [(98,), (98,)]}
    scene = Scene({"A": scripts["A"]}, model=ScriptedModel(scripts))
    scene.step()
    (channel,), _ = submitted(scene.engine, request("B"))
    with pytest.raises(OSError, match="x"):
        scene.step()
    assert popped(channel) == [StreamChunk((98,), "b", True, ERROR)]


@pytest.mark.parametrize(
    "news",
    [
        [],
        [Burst((98,))],
        [Burst((98,))] * 3,
        [Burst((98,)), Burst(())],
        [Burst((98,)), (98,)],
        [Burst((98,)), Burst((98.0,))],
        [Burst((98,)), Burst(("b",))],
        [Burst((98,)), Burst((None,))],
        [Burst((98,)), KeyboardInterrupt()],
        [Burst((98,)), 98],
        None,
        (one for one in [Burst((98,)), Burst((98,))]),
    ],
    ids=range(12),
)
def test_a_model_that_breaks_its_contract_ends_all(news):
    model = Mock(prefill=lambda slots: [Burst((97,)) for _ in slots], decode=lambda slots: news)
    scene = Scene({"A": None, "B": None}, model=model)
    error = dies(scene, ModelContractError)
    assert "model" in str(error)
    assert ids_of(scene.chunks("B")) == (97,)


def test_an_exception_instead_of_a_burst_ends_that_slot_alone():
    gone = OSError("gone")
    scripts = {"A": one_by_one("aaa", end=True), "B": [(98,), (0xF0,), gone], "C": [gone]}
    scene = Scene(scripts, silent="C").run()
    assert scene.outcome("B") == ((98, 0xF0), "b\ufffd", ERROR)
    assert scene.outcome("C") == ((), "", ERROR)
    assert [scene.output(name).error for name in "ABC"] == [None, gone, gone]
    assert scene.channels["B"].error is gone
    assert scene.when("B") == [1, 3]
    assert scene.outcome("A")[1] == "aaa"
    assert scene.engine.handle_request([]).outputs == ()


def test_ids_that_nobody_knows_harm_nobody():
    scene = Scene(
        {"A": [(-1,), (2**70, 97), (EOS,)], "B": [(0xF0, -9, 10**9), (*ROCKET[1:], EOS)]}
    ).run()
    assert scene.outcome("A") == ((-1, 2**70, 97, EOS), "a", FinishReason.END_ID)
    assert scene.outcome("B")[1] == "🚀"


TEXT_FAULTS = [
    {"feed": ValueError("feed")},
    {"feed": DecodeError("feed")},
    {"feed": PanicException("feed")},
    {"feed": ValueError("feed"), "finish": ValueError("finish")},
    {"feed": PanicException("feed"), "finish": PanicException("finish")},
]


@pytest.mark.parametrize("faults", TEXT_FAULTS, ids=repr)
@pytest.mark.parametrize("silent", ["", "B"])
def test_X15_a_text_path_that_raises_ends_its_slot_alone(faults, silent):
    scene = Scene(
        {"A": one_by_one("aaaa", end=True), "B": one_by_one("bbbb"), "C": [(99, EOS)]},
        params=params(stop=("##",)),
        make_text_path=paths_with(faults, after=2),
        silent=silent,
    ).run()
    token_ids, text, reason = scene.outcome("B")
    assert (token_ids, text, reason) == (ids("bbb"), "bb", ERROR)
    assert scene.output("B").error is faults["feed"]
    if not silent:
        assert scene.channels["B"].error is faults["feed"]
        assert scene.when("B") == [1, 2, 3]
    assert scene.outcome("A")[1] == "aaaa"
    assert scene.outcome("C")[1] == "c"
    assert scene.engine.state is EngineState.RUNNING
    assert scene.engine.stats().used_blocks == 0


@pytest.mark.parametrize("error", [ValueError("end"), PanicException("end")], ids=repr)
@pytest.mark.parametrize("last", [(98,), OSError("gone")], ids=repr)
def test_X15_a_text_path_that_cannot_end_ends_its_slot_alone(error, last):
    scene = Scene(
        {"A": one_by_one("aaaa", end=True), "B": [(98,), last]},
        params=params(max_tokens=2),
        make_text_path=paths_with({"finish": error}),
    ).run()
    assert scene.chunks("B")[-1].reason is ERROR
    assert scene.output("B").finish_reason is ERROR
    assert scene.output("A").text == "aa"


def test_X15_a_waiting_choice_whose_text_path_cannot_end_harms_nobody():
    scene = Scene(
        {"A": one_by_one("aaaa", end=True), "B": [(98,)], "C": [(99, EOS)]},
        make_text_path=paths_with({"finish": ValueError("end")}),
        max_num_seqs=1,
        at={("after_evict", 1): lambda scene: scene.channels["B"].cancel()},
    ).run()
    assert scene.outcome("A")[1] == "aaaa"
    assert scene.outcome("C")[1] == "c"
    assert scene.when("B") == [2]
    assert scene.channels["B"].is_finished
    assert scene.handles["B"].future.done()


def test_a_text_path_with_text_that_has_no_utf8_form_ends_its_slot_alone():
    def feed(inner, token_ids):
        return [TextDelta("\ud800") for _ in inner.feed(token_ids)]

    scene = Scene(
        {"A": one_by_one("aaaa", end=True), "B": one_by_one("bbbb", end=True)},
        make_text_path=paths_around(lambda name: {"feed": feed} if name == "B" else {}),
    ).run()
    assert scene.outcome("A")[1] == "aaaa"
    assert scene.channels["B"].reason is ERROR
    assert isinstance(scene.channels["B"].error, ValueError)
    assert scene.output("B").finish_reason is ERROR


def test_a_keyboard_interrupt_in_a_text_path_ends_all():
    faults = {"feed": KeyboardInterrupt()}
    scene = Scene({"A": [(97,)], "B": [(98,)]}, make_text_path=paths_with(faults))
    dies(scene, KeyboardInterrupt)


def test_a_keyboard_interrupt_while_a_waiting_choice_is_cancelled_ends_all():
    scene = Scene(
        {"A": one_by_one("aaaa"), "B": [(98,)], "C": [(99,)]},
        make_text_path=paths_with({"finish": KeyboardInterrupt()}),
        max_num_seqs=1,
        at={("after_evict", 1): lambda scene: scene.channels["B"].cancel()},
    )
    with pytest.raises(KeyboardInterrupt):
        scene.run()
    for name, reason in (("A", ERROR), ("B", FinishReason.CANCELLED), ("C", ERROR)):
        assert scene.chunks(name)[-1].finished
        assert scene.channels[name].reason in (ERROR, reason)
        assert scene.handles[name].future.done()


@pytest.mark.parametrize("error", [ValueError("made"), RuntimeError("made"), KeyError("made")])
def test_a_text_path_that_cannot_be_made_refuses_the_whole_submission(error):
    make = TextPathFactory(ByteTokenizer())

    def make_text_path(request, prompt):
        if request.request_id == "B":
            raise error
        return make(request, prompt)

    engine, channels = engine_of(make_text_path=make_text_path), channels_of(3)
    with pytest.raises((StreamingSubmissionError, type(error))) as caught:
        engine.submit([request(name) for name in "ABC"], channels)
    if isinstance(error, ValueError):
        assert caught.value.index == 1
    for channel in channels:
        assert popped(channel) == [ERROR_END]
        assert channel.error is caught.value
    assert not engine.has_work
    assert engine.handle_request([request("A", max_tokens=1)]).texts == ["a"]


HOOKS_THAT_LEAVE_TEXT = {
    "after_admit": (97, "a"),
    "before_decode": (97, "a"),
    "after_append": (97, 98, "ab"),
    "before_emit": (97, 98, "ab"),
    "after_emit": (97, 98, "ab"),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, GeneratorExit])
@pytest.mark.parametrize("hook", HOOKS_THAT_LEAVE_TEXT)
def test_a_hook_that_raises_ends_all_with_all_ids_that_were_made(hook, error):
    def fail(_):
        raise error

    scene = Scene({"A": one_by_one("abcdef")}, at={(hook, 2): fail})
    dies(scene, error)
    *token_ids, text = HOOKS_THAT_LEAVE_TEXT[hook]
    assert ids_of(scene.chunks("A")) == tuple(token_ids)
    assert "".join(chunk.text for chunk in scene.chunks("A")) == text


def test_a_choice_that_had_ended_is_told_so_although_the_iteration_fails():
    def fail(_):
        raise ValueError("hook")

    scene = Scene({"A": [(97, EOS)], "B": [(98,)]}, at={("before_emit", 1): fail})
    with pytest.raises(ValueError, match="hook"):
        scene.step()
    assert scene.chunks("A") == [StreamChunk((97, EOS), "a", True, FinishReason.END_ID)]
    assert scene.chunks("B") == [StreamChunk((98,), "b", True, ERROR)]


@pytest.mark.parametrize(
    ("fault", "error", "kept"),
    [(no_memory_for_a_chunk, MemoryError, 1), (push_raises_once, OSError, 2)],
)
def test_a_chunk_that_cannot_be_made_or_pushed_once_ends_all(fault, error, kept, monkeypatch):
    scene = Scene({"A": one_by_one("abcdef"), "B": one_by_one("bbbb"), "C": one_by_one("c")},
                  max_num_seqs=2)  # fmt: skip
    scene.step()
    fault(monkeypatch)
    with pytest.raises(error) as caught:
        scene.step()
    monkeypatch.undo()
    assert_dead(scene, caught.value)
    # What could not be pushed is pushed with the end.
    assert ids_of(scene.chunks("A")) == ids("ab"[:kept])
    assert ids_of(scene.chunks("B")) == ids("bb"[:kept])


@pytest.mark.parametrize("method", ["release", "finished"])
def test_a_fault_after_the_last_chunk_leaves_no_handle_waiting(method):
    scripts = {"A": [(97, EOS)], "B": [(98, EOS)], "C": one_by_one("ccc")}
    model, metrics = watched(scripts), Mock(spec=NullMetrics())
    getattr(model if method == "release" else metrics, method).side_effect = OSError("x")
    scene = Scene(scripts, model=model, metrics=metrics)
    with pytest.raises(OSError, match="x"):
        scene.run()
    for name in "AB":
        assert scene.chunks(name)[-1].reason is FinishReason.END_ID
    for handle in scene.handles.values():
        assert handle.future.done()
    assert scene.chunks("C")[-1].reason is ERROR
    assert scene.engine.stats().used_blocks == 0


def test_the_model_is_told_of_every_slot_that_ends_once():
    scripts = {"A": [(97, EOS)], "B": [(98,), (98,), Raise(OSError("x"))], "C": [OSError("gone")]}
    model = watched(scripts)
    with pytest.raises(OSError, match="x"):
        Scene(scripts, model=model).run()
    assert sorted(call.args[0].request_id for call in model.release.mock_calls) == ["A", "B", "C"]


def test_a_model_that_cancels_while_it_works_is_served():
    model = ScriptedModel(lambda slot: scripts[slot.request_id])
    scene = Scene({"A": None, "B": None}, model=model)
    scripts = {
        "A": [(97,), Hook(lambda: scene.channels["B"].cancel(), (97,)), (EOS,)],
        "B": [(98,), (98,), (98,)],
    }
    scene.run()
    assert scene.outcome("B") == (ids("bb"), "bb", FinishReason.CANCELLED)
    assert scene.outcome("A")[1] == "aa"
