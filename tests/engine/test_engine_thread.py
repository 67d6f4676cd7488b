"""The thread that serves an engine: it wakes, drains, survives its callers, and says when stuck."""

import logging
import threading

import pytest
import scenes
from reading import LONG, Gate, on_thread
from scenes import (
    EOS,
    FOR_MANY,
    MANY,
    Endless,
    assert_ended,
    channels_of,
    ids,
    one_by_one,
    submitted,
    text_of,
)

from mini_vllm.engine import (
    EngineDeadError,
    EngineState,
    EngineStateError,
    EngineThread,
    FinishReason,
    StreamChannel,
)
from mini_vllm.models.scripted import Hook, Raise

A, CANCELLED = one_by_one("a", end=True), FinishReason.CANCELLED


def engine_of(script, **options):
    return scenes.engine_of(script, **FOR_MANY, **options)


def request(name=None, most=MANY):
    return scenes.request(name, max_tokens=most)


def test_it_answers_as_handle_request_does_and_drains_at_the_end_of_with():
    script, requests = one_by_one("hello 🚀", end=True), [request(most=n) for n in (1, 3, 20)] * 7
    with EngineThread(engine := engine_of(script)) as served:
        assert served.is_alive
        channels, handles = submitted(engine, *requests)
        streamed = [text_of(channel) for channel in channels]
        late = engine.submit(requests)
    assert engine.state is EngineState.CLOSED
    assert not served.is_alive
    by_hand = engine_of(script).handle_request(requests)
    assert streamed == by_hand.texts
    for some in (handles, late):
        outputs = [handle.result(timeout=0).outputs[0] for handle in some]
        assert [one.text for one in outputs] == by_hand.texts
        assert [list(one.token_ids) for one in outputs] == by_hand.output_ids
        assert [one.finish_reason for one in outputs] == by_hand.finish_reasons


def test_it_sleeps_until_something_comes():
    engine = engine_of(A)
    waits = threading.Semaphore(0)
    wait = engine.wait_for_work
    engine.wait_for_work = lambda timeout=None: (waits.release(), wait(timeout))
    with EngineThread(engine):
        for _ in range(5):
            assert waits.acquire(timeout=LONG)
            assert engine.submit([request()])[0].result(timeout=LONG).texts == ["a"]


def test_an_exception_in_with_cancels():
    engine, channel = engine_of(Endless((120,))), StreamChannel.create()

    def leaving():
        with EngineThread(engine):
            engine.submit([request()], [channel])
            raise KeyError

    with pytest.raises(KeyError):
        leaving()
    assert channel.reason is CANCELLED
    assert engine.state is EngineState.CLOSED


def test_a_failure_of_the_model_ends_the_thread_and_is_logged(caplog):
    boom = OSError("boom")
    engine = engine_of({"A": [(97,), Raise(boom)]})
    channel = StreamChannel.create()
    served = EngineThread(engine)
    with caplog.at_level(logging.ERROR):
        served.start()
        (handle,) = engine.submit([request("A")], [channel])
        assert channel.consume(lambda _: None) is FinishReason.ERROR
        with pytest.raises(EngineDeadError):
            handle.result(timeout=LONG)
        assert served.shutdown(timeout=LONG)
    assert channel.error is boom
    assert [record.exc_info[1] for record in caplog.records] == [boom]
    with pytest.raises(EngineDeadError):
        engine.submit([request("A")])


def test_shutdown_lets_go_of_a_stuck_model_and_all_is_ended_once_it_comes_back():
    stuck, release = threading.Event(), threading.Event()
    script = {
        "A": [(97,), Hook(lambda: (stuck.set(), release.wait(LONG)), (98,)), *one_by_one("c" * 50)],
        "B": one_by_one("b" * 50),
    }
    engine = engine_of(script, max_num_seqs=1)
    channels = channels_of(2)
    served = EngineThread(engine)
    served.start()
    handles = engine.submit([request("A"), request("B")], channels)
    assert stuck.wait(LONG)
    assert not served.shutdown(timeout=0.01)
    assert served.is_alive
    assert engine.state is EngineState.DRAINING
    with pytest.raises(EngineStateError):
        engine.submit([request("C")])
    release.set()
    assert served.shutdown(timeout=LONG)
    assert [handle.result(timeout=0).finish_reasons for handle in handles] == [[CANCELLED]] * 2
    assert handles[0].result().outputs[0].token_ids == ids("ab")
    for channel in channels:
        assert_ended(channel, CANCELLED)
    assert engine.state is EngineState.CLOSED
    assert engine.stats().used_blocks == 0


def test_shutdown_without_drain_cancels_at_once():
    first = threading.Event()
    engine = engine_of(Endless((120,), Hook(first.set, (97,))), max_num_seqs=1)
    served = EngineThread(engine)
    served.start()
    handles = engine.submit([request(), request()])
    assert first.wait(LONG)
    assert served.shutdown(drain=False, timeout=LONG)
    assert [handle.result(timeout=0).finish_reasons for handle in handles] == [[CANCELLED]] * 2
    assert served.shutdown()


def test_shutdown_of_what_never_started_ends_what_was_submitted():
    engine = engine_of(A)
    (channel,), (handle,) = submitted(engine, request())
    assert EngineThread(engine).shutdown()
    assert channel.is_finished
    assert handle.future.done()
    assert engine.state is EngineState.CLOSED


def test_a_step_by_hand_does_not_end_the_thread():
    engine = engine_of([(97, EOS)], hooks={"before_emit": (gate := Gate())})
    engine.submit([request()])
    by_hand = on_thread(engine.step)
    assert gate.inside.wait(LONG)
    served, tried, step = EngineThread(engine), threading.Event(), engine.step

    def trying():
        try:
            return step()
        except EngineStateError:
            tried.set()
            raise

    engine.step = trying
    served.start()
    assert tried.wait(LONG)
    assert served.is_alive
    gate.leave.set()
    by_hand.result(LONG)
    (handle,) = engine.submit([request()])
    assert handle.result(timeout=LONG).texts == ["a"]
    assert served.shutdown(timeout=LONG)


def test_a_hook_that_steps_fails_the_engine_and_ends_the_thread(caplog):
    def hook():
        if engine.has_work:
            engine.step()

    engine = engine_of([(97, EOS)], hooks={"before_emit": hook})
    served = EngineThread(engine)
    served.start()
    (handle,) = engine.submit([request()])
    with pytest.raises(EngineDeadError):
        handle.result(timeout=LONG)
    assert served.shutdown(timeout=LONG)


def test_whoever_stepped_before_the_thread_did_may_wait_for_chunks():
    engine = engine_of(A)
    engine.handle_request([request()])
    channel = StreamChannel.create()
    with engine._stepping:
        served = EngineThread(engine)
        served.start()
        engine.submit([request()], [channel])
        assert channel.wait_pop(0.01) is None
    assert text_of(channel) == "a"
    assert served.shutdown(timeout=LONG)
