"""The thread that serves an engine: it wakes, drains, survives its callers, and says when stuck."""

import logging
import threading

import pytest
from reading import LONG
from scenes import (
    EOS,
    FOR_MANY,
    MANY,
    PROMPT,
    Endless,
    assert_ended,
    ids,
    one_by_one,
    params,
    text_of,
)

from mini_vllm.engine import (
    Engine,
    EngineDeadError,
    EngineState,
    EngineStateError,
    EngineThread,
    FinishReason,
    Request,
    StreamChannel,
)
from mini_vllm.models.scripted import Hook, Raise, ScriptedModel
from mini_vllm.tokenizer import ByteTokenizer


def engine_of(script, **options):
    return Engine(ScriptedModel(script), ByteTokenizer(), **FOR_MANY, **options)


def saying(text):
    return engine_of(lambda slot: one_by_one(text, end=True))


def request(name=None, most=MANY):
    return Request(PROMPT, params(max_tokens=most), name)


def test_it_serves_and_drains_at_the_end_of_with():
    engine = saying("hello 🚀")
    with EngineThread(engine) as served:
        assert served.is_alive
        handles = engine.submit([request() for _ in range(20)])
    assert [handle.result(timeout=0).texts for handle in handles] == [["hello 🚀"]] * 20
    assert engine.state is EngineState.CLOSED
    assert not served.is_alive


def test_it_answers_as_handle_request_does():
    requests = [request(most=most) for most in (1, 3, 9)]
    with EngineThread(engine := saying("abcdef")):
        channels = [StreamChannel.create() for _ in requests]
        handles = engine.submit(requests, channels)
        streamed = ["".join(chunk.text for chunk in channel) for channel in channels]
        served = [handle.result(timeout=LONG).outputs[0] for handle in handles]
    by_hand = saying("abcdef").handle_request(requests)
    assert streamed == by_hand.texts
    assert [one.text for one in served] == by_hand.texts
    assert [list(one.token_ids) for one in served] == by_hand.output_ids
    assert [one.finish_reason for one in served] == by_hand.finish_reasons


def test_it_sleeps_until_something_comes():
    engine = saying("a")
    waits = threading.Semaphore(0)
    wait = engine.wait_for_work
    engine.wait_for_work = lambda timeout=None: (waits.release(), wait(timeout))
    with EngineThread(engine):
        for _ in range(5):
            assert waits.acquire(timeout=LONG)
            assert engine.submit([request()])[0].result(timeout=LONG).texts == ["a"]


def test_submissions_of_many_threads_are_all_answered():
    engine = saying("abc")
    answers = []

    def client():
        for _ in range(10):
            channel = StreamChannel.create()
            engine.submit([request()], [channel])
            answers.append(text_of(channel))

    with EngineThread(engine):
        clients = [threading.Thread(target=client, daemon=True) for _ in range(10)]
        for one in clients:
            one.start()
        for one in clients:
            one.join(LONG)
    assert answers == ["abc"] * 100


def test_an_exception_in_with_cancels():
    engine = engine_of(lambda slot: Endless((120,)))
    channel = StreamChannel.create()

    def leaving():
        with EngineThread(engine):
            engine.submit([request(most=MANY)], [channel])
            raise KeyError

    with pytest.raises(KeyError):
        leaving()
    assert channel.reason is FinishReason.CANCELLED
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
    channels = [StreamChannel.create(), StreamChannel.create()]
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
    assert [handle.result(timeout=0).finish_reasons for handle in handles] == [
        [FinishReason.CANCELLED],
        [FinishReason.CANCELLED],
    ]
    assert handles[0].result().outputs[0].token_ids == ids("ab")
    for channel in channels:
        assert_ended(channel, FinishReason.CANCELLED)
    assert engine.state is EngineState.CLOSED
    assert engine.stats().used_blocks == 0


def test_shutdown_without_drain_cancels_at_once():
    first = threading.Event()
    engine = engine_of(lambda slot: Endless((120,), Hook(first.set, (97,))), max_num_seqs=1)
    served = EngineThread(engine)
    served.start()
    handles = engine.submit([request(most=MANY), request(most=MANY)])
    assert first.wait(LONG)
    assert served.shutdown(drain=False, timeout=LONG)
    reasons = [handle.result(timeout=0).finish_reasons[0] for handle in handles]
    assert reasons == [FinishReason.CANCELLED] * 2


def test_shutdown_twice_is_one():
    served = EngineThread(saying("a"))
    served.start()
    assert served.shutdown()
    assert served.shutdown()


def test_shutdown_of_what_never_started_ends_what_was_submitted():
    engine = saying("a")
    channel = StreamChannel.create()
    (handle,) = engine.submit([request()], [channel])
    assert EngineThread(engine).shutdown()
    assert channel.is_finished
    assert handle.future.done()
    assert engine.state is EngineState.CLOSED


def test_a_step_by_hand_does_not_end_the_thread():
    inside, leave = threading.Event(), threading.Event()
    calls = []

    def hook():
        calls.append(threading.get_ident())
        if len(calls) == 1:
            inside.set()
            leave.wait(LONG)

    engine = engine_of(lambda slot: [(97, EOS)], hooks={"before_emit": hook})
    by_hand = threading.Thread(target=engine.step, daemon=True)
    engine.submit([request()])
    by_hand.start()
    assert inside.wait(LONG)
    served = EngineThread(engine)
    tried = threading.Event()
    step = engine.step

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
    leave.set()
    by_hand.join(LONG)
    (handle,) = engine.submit([request()])
    assert handle.result(timeout=LONG).texts == ["a"]
    assert served.shutdown(timeout=LONG)


def test_a_hook_that_steps_fails_the_engine_and_ends_the_thread(caplog):
    def hook():
        if engine.has_work:
            engine.step()

    engine = engine_of(lambda slot: [(97, EOS)], hooks={"before_emit": hook})
    served = EngineThread(engine)
    served.start()
    (handle,) = engine.submit([request()])
    with pytest.raises(EngineDeadError):
        handle.result(timeout=LONG)
    assert served.shutdown(timeout=LONG)


def test_whoever_stepped_before_the_thread_did_may_wait_for_chunks():
    engine = saying("a")
    engine.handle_request([request()])
    channel = StreamChannel.create()
    with engine._stepping:
        served = EngineThread(engine)
        served.start()
        engine.submit([request()], [channel])
        assert channel.wait_pop(0.01) is None
    assert text_of(channel) == "a"
    assert served.shutdown(timeout=LONG)
