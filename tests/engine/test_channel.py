"""StreamChannel on threads: seed 004's tests 19-33, X9, X10, X12, and every way to stop reading."""

import gc
import signal
import threading
from concurrent.futures import Future
from time import monotonic
from types import SimpleNamespace

import pytest

from mini_vllm.engine import (
    ChannelStateError,
    Engine,
    EngineThread,
    FinishReason,
    OverflowPolicy,
    Request,
    SamplingParams,
    StreamChannel,
    StreamChunk,
)
from mini_vllm.engine.channel import _attach
from mini_vllm.models.scripted import Hook, Raise, ScriptedModel
from mini_vllm.tokenizer import ByteTokenizer

LONG = 30.0
END = StreamChunk(finished=True, reason=FinishReason.END_ID)
A, B = StreamChunk((97,), "a"), StreamChunk((98,), "b")


def attach(channel, thread_id=None):
    return _attach(channel, 0, SimpleNamespace(thread_id=thread_id))


def on_thread(call, *args, **options):
    """Run a call that may wait for ever; return its future."""
    future = Future()

    def run():
        try:
            future.set_result(call(*args, **options))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def until_somebody_waits(channel):
    deadline = monotonic() + 5
    while not channel._core.condition._waiters:
        assert monotonic() < deadline, "nobody waits"


def engine_of(*steps, **options):
    return Engine(ScriptedModel({"A": steps}), ByteTokenizer(), **options)


def request(max_tokens=50):
    return Request((1,), SamplingParams(max_tokens=max_tokens), "A")


def test_19_create_gives_distinct_objects():
    one, other = StreamChannel.create(), StreamChannel.create()
    assert one is not other
    attach(one).push(A)
    assert (one.pending_count, other.pending_count) == (1, 0)
    assert (one.is_attached, other.is_attached) == (True, False)


def test_19_only_create_makes_a_channel():
    with pytest.raises(TypeError, match=r"StreamChannel\.create\(\)"):
        StreamChannel()
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"max_pending is {number}"):
            StreamChannel.create(max_pending=number)


def test_20_a_new_channel_is_clean():
    channel = StreamChannel.create()
    assert (channel.original_batch_idx, channel.stream_interval) == (-1, 1)
    assert (channel.is_attached, channel.is_cancelled, channel.is_finished) == (False,) * 3
    assert (channel.reason, channel.error) == (FinishReason.NOT_FINISHED, None)
    assert (channel.pending_count, channel.overflow) == (0, OverflowPolicy.COALESCE)
    assert (channel.skip_special_tokens, channel.return_held) == (True, False)


def test_a_reader_has_no_way_to_write():
    public = {name for name in dir(StreamChannel.create()) if not name.startswith("_")}
    assert public == {
        "create", "consume", "try_pop", "wait_pop", "cancel", "set_stream_interval",
        "set_skip_special_tokens", "set_return_held", "is_finished", "reason", "is_cancelled",
        "is_attached", "original_batch_idx", "stream_interval", "skip_special_tokens",
        "return_held", "error", "pending_count", "overflow",
    }  # fmt: skip


def test_21_try_pop_of_an_empty_channel_is_none():
    assert StreamChannel.create().try_pop() is None


def test_22_wait_pop_times_out():
    channel, before = StreamChannel.create(), monotonic()
    assert channel.wait_pop(0.03) is None
    assert monotonic() - before >= 0.025
    assert channel.wait_pop(0) is None
    assert channel.wait_pop(-1) is None


@pytest.mark.parametrize("timeout", [LONG, 1e12, float("inf")])
def test_wait_pop_takes_any_timeout_and_returns_at_the_push(timeout):
    channel = StreamChannel.create()
    producer, popped = attach(channel), on_thread(channel.wait_pop, timeout)
    until_somebody_waits(channel)
    producer.push(A)
    assert popped.result(5) == A


def test_23_cancel_wakes_wait_pop():
    channel = StreamChannel.create()
    popped = on_thread(channel.wait_pop, LONG)
    until_somebody_waits(channel)
    channel.cancel()
    assert popped.result(5) is None


def test_24_cancel_wakes_consume_of_an_unattached_channel():
    channel = StreamChannel.create()
    seen = []
    reason = on_thread(channel.consume, seen.append, poll=LONG)
    until_somebody_waits(channel)
    channel.cancel()
    assert (reason.result(5), seen) == (FinishReason.NOT_FINISHED, [])


def test_24_a_cancelled_unattached_channel_is_not_waited_for():
    channel = StreamChannel.create()
    channel.cancel()
    assert on_thread(channel.consume, print).result(5) is FinishReason.NOT_FINISHED
    assert on_thread(list, channel).result(5) == []
    assert on_thread(channel.wait_pop, LONG).result(5) is None


@pytest.mark.parametrize(("given", "used"), [(0, 1), (-5, 1), (1, 1), (8, 8)])
def test_25_an_interval_below_one_is_one(given, used):
    channel = StreamChannel.create()
    channel.set_stream_interval(given)
    assert channel.stream_interval == used
    assert attach(channel).core.stream_interval == used


def test_26_special_tokens_are_skipped_unless_said_otherwise():
    channel = StreamChannel.create()
    assert channel.skip_special_tokens
    channel.set_skip_special_tokens(False)
    assert not channel.skip_special_tokens


def test_27_cancelling_thrice_is_cancelling_once():
    channel = StreamChannel.create()
    engine = engine_of((97,), (98,), (99,))
    engine.submit([request()], [channel])
    engine.step()
    for _ in range(3):
        channel.cancel()
        assert channel.is_cancelled
    engine.run_until_idle()
    assert list(channel) == [A, StreamChunk(finished=True, reason=FinishReason.CANCELLED)]
    channel.cancel()
    assert list(channel) == []


def test_28_cancelled_is_not_finished():
    for channel in (StreamChannel.create(), StreamChannel.create()):
        channel.cancel()
        assert (channel.is_finished, channel.reason) == (False, FinishReason.NOT_FINISHED)
        attach(channel)
        assert (channel.is_finished, channel.reason) == (False, FinishReason.NOT_FINISHED)


def test_28_cancel_after_the_end_keeps_the_reason():
    channel = StreamChannel.create()
    attach(channel).push(END)
    channel.cancel()
    assert (channel.reason, channel.is_finished) == (FinishReason.END_ID, True)
    assert list(channel) == [END]
    assert channel.reason is FinishReason.END_ID


def test_29_30_the_finalizers_terminal_chunk_reaches_consume_once():
    # The engine ends its streams when the model raises, and `handle_request` does so again.
    boom, channel, seen = RuntimeError("boom"), StreamChannel.create(), []
    with pytest.raises(RuntimeError) as caught:
        engine_of(Raise(boom)).handle_request([request()], [channel])
    assert caught.value is boom
    assert channel.pending_count == 1
    assert channel.consume(seen.append) is FinishReason.ERROR
    assert seen == [StreamChunk(finished=True, reason=FinishReason.ERROR)]
    assert channel.error is boom


def test_30_finish_is_idempotent_and_the_first_reason_stays():
    channel = StreamChannel.create()
    producer, error = attach(channel), ValueError("first")
    producer.finish(FinishReason.ERROR, error)
    producer.finish(FinishReason.LENGTH)
    producer.finish(FinishReason.ERROR, KeyError("second"))
    assert (channel.pending_count, channel.reason) == (1, FinishReason.ERROR)
    assert channel.error is error
    assert list(channel) == [StreamChunk(finished=True, reason=FinishReason.ERROR)]


@pytest.mark.parametrize("late", [A, END])
def test_a_push_after_the_end_is_the_producers_fault(late):
    channel = StreamChannel.create()
    producer = attach(channel)
    producer.push(END)
    with pytest.raises(ChannelStateError, match="after the terminal one"):
        producer.push(late)
    assert list(channel) == [END]


def test_31_all_chunks_arrive_before_consume_returns():
    channel, seen = StreamChannel.create(), []
    producer = attach(channel)
    chunks = [StreamChunk((number,), str(number)) for number in range(100)] + [END]
    for chunk in chunks:
        producer.push(chunk)
    assert channel.consume(seen.append) is FinishReason.END_ID
    assert seen == chunks


def test_31_a_drained_channel_returns_its_reason_again():
    channel = StreamChannel.create()
    attach(channel).push(END)
    list(channel)
    for _ in range(2):
        assert on_thread(channel.consume, pytest.fail).result(5) is FinishReason.END_ID
        assert on_thread(list, channel).result(5) == []


def test_32_try_pop_gives_the_terminal_chunk_then_none():
    channel = StreamChannel.create()
    attach(channel).push(END)
    assert [channel.try_pop() for _ in range(3)] == [END, None, None]


def test_33_wait_pop_of_a_finished_empty_channel_returns_at_once():
    channel = StreamChannel.create()
    producer = attach(channel)
    popped = on_thread(lambda: [channel.wait_pop(LONG), channel.wait_pop(LONG)])
    until_somebody_waits(channel)
    producer.push(END)
    assert popped.result(5) == [END, None]


def test_x9_the_terminal_chunk_is_seen_after_cancel():
    channel = StreamChannel.create()
    producer, seen = attach(channel), []
    reason = on_thread(channel.consume, seen.append, poll=LONG)
    until_somebody_waits(channel)
    channel.cancel()
    until_somebody_waits(channel)
    producer.finish(FinishReason.CANCELLED)
    assert reason.result(5) is FinishReason.CANCELLED
    assert seen == [StreamChunk(finished=True, reason=FinishReason.CANCELLED)]


def test_x9_detach_on_cancel_reads_what_is_there_and_leaves():
    channel, seen = StreamChannel.create(), []
    attach(channel).push(A)
    channel.cancel()
    reason = on_thread(channel.consume, seen.append, poll=LONG, detach_on_cancel=True)
    assert (reason.result(5), seen) == (FinishReason.NOT_FINISHED, [A])


def test_x9_cancel_from_inside_the_handler():
    channel, seen = StreamChannel.create(), []

    def handler(chunk):
        seen.append(chunk)
        channel.cancel()

    with EngineThread(engine_of(*[(97,)] * 10_000)) as thread:
        thread.engine.submit([request(4000)], [channel])
        assert channel.consume(handler) is FinishReason.CANCELLED
    assert [chunk.finished for chunk in seen[-2:]] == [False, True]
    assert sum(len(chunk.token_ids) for chunk in seen) < 4000


@pytest.mark.parametrize("error", [ValueError("handler"), KeyboardInterrupt()])
def test_x10_what_a_handler_raises_cancels_and_is_raised(error):
    channel = StreamChannel.create()
    engine = engine_of((97,), (98,), (99,))
    engine.submit([request()], [channel])
    engine.step()

    def handler(chunk):
        raise error

    with pytest.raises(type(error)) as caught:
        channel.consume(handler)
    assert caught.value is error
    assert channel.is_cancelled
    engine.run_until_idle()
    assert list(channel) == [StreamChunk(finished=True, reason=FinishReason.CANCELLED)]


def test_x10_a_handler_that_raises_at_the_last_chunk_does_not_cancel():
    channel = StreamChannel.create()
    attach(channel).push(END)
    with pytest.raises(ZeroDivisionError):
        channel.consume(lambda chunk: 1 / 0)
    assert (channel.is_cancelled, channel.reason) == (False, FinishReason.END_ID)


def test_leaving_a_loop_cancels():
    channel = StreamChannel.create()
    producer = attach(channel)
    producer.push(A)
    for _ in channel:
        break
    assert channel.is_cancelled
    producer.push(B)
    producer.finish(FinishReason.CANCELLED)
    assert [chunk.text for chunk in channel] == ["b", ""]


def test_reading_to_the_end_does_not_cancel():
    channel = StreamChannel.create()
    attach(channel).push(END)
    assert list(channel) == [END]
    assert not channel.is_cancelled


def test_a_dropped_channel_cancels_its_request():
    engine = engine_of(*[(97,)] * 10)
    channel = StreamChannel.create()
    handle = engine.submit([request(10)], [channel])[0]
    engine.step()
    del channel
    assert not engine.step()
    assert handle.result(0).finish_reasons == [FinishReason.CANCELLED]


def test_an_iterator_that_the_collector_ends_inside_a_push_does_not_deadlock():
    # The collector runs wherever an object is made, with the channel's lock held too.
    channel = StreamChannel.create()
    attach(channel).push(A)
    iterator = iter(channel)
    next(iterator)
    ring = [iterator]
    ring.append(ring)
    del iterator, ring

    def collect():
        with channel._core.condition:
            gc.collect()

    on_thread(collect).result(5)
    assert channel.is_cancelled


@pytest.mark.parametrize(
    ("setter", "value"),
    [("set_stream_interval", 2), ("set_skip_special_tokens", False), ("set_return_held", True)],
)
def test_x12_a_setter_after_attach_raises_and_sets_nothing(setter, value):
    channel = StreamChannel.create()
    producer = attach(channel)
    for _ in range(2):
        with pytest.raises(ChannelStateError, match="set this before"):
            getattr(channel, setter)(value)
        assert (channel.stream_interval, channel.skip_special_tokens) == (1, True)
        assert not channel.return_held
        producer.finish(FinishReason.LENGTH)


def test_a_channel_is_attached_once():
    channel = StreamChannel.create()
    attach(channel)
    with pytest.raises(ChannelStateError, match="make one for each choice"):
        attach(channel)


@pytest.mark.parametrize("poll", [0, -1.0])
def test_a_poll_that_is_no_time_is_refused(poll):
    channel = StreamChannel.create()
    attach(channel).push(A)
    with pytest.raises(ValueError, match=f"poll is {poll}"):
        channel.consume(print, poll=poll)
    assert (channel.is_cancelled, channel.pending_count) == (False, 1)


READERS = {
    "consume": lambda channel: channel.consume(lambda chunk: None),
    "iterate": list,
    "wait_pop": lambda channel: channel.wait_pop(LONG),
    "try_pop": lambda channel: channel.try_pop(),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_second_reader_is_refused_and_the_first_reads_on(read):
    channel = StreamChannel.create()
    producer = attach(channel)
    first = on_thread(list, channel)
    until_somebody_waits(channel)
    with pytest.raises(ChannelStateError, match="one reader"):
        read(channel)
    producer.push(A)
    producer.push(END)
    assert first.result(5) == [A, END]
    assert not channel.is_cancelled


def test_the_handler_runs_with_the_lock_released_and_is_the_only_reader():
    channel, refused = StreamChannel.create(), []
    producer = attach(channel)
    producer.push(A)

    def handler(chunk):
        if not chunk.finished:
            with pytest.raises(ChannelStateError) as caught:
                channel.try_pop()
            refused.append(caught.value)
            on_thread(producer.push, END).result(5)

    assert channel.consume(handler) is FinishReason.END_ID
    assert len(refused) == 1


BLOCKING = {name: READERS[name] for name in ("consume", "iterate", "wait_pop")}


@pytest.mark.parametrize("read", BLOCKING.values(), ids=BLOCKING)
def test_waiting_on_the_engines_own_thread_raises(read):
    channel, caught = StreamChannel.create(), []

    def reads_in_the_model():
        try:
            read(channel)
        except ChannelStateError as error:
            caught.append(error)

    with EngineThread(engine_of(Hook(reads_in_the_model, (97,)))) as thread:
        thread.engine.submit([request(1)], [channel])[0].result(10)
    assert "would wait for itself" in str(caught[0])


def test_what_is_there_already_may_be_read_on_the_engines_own_thread():
    channel = StreamChannel.create()
    engine = engine_of((97,), (98,))
    engine.submit([request(2)], [channel])
    engine.step()
    assert channel.wait_pop(LONG) == A
    assert channel.try_pop() is None
    engine.step()
    assert [chunk.text for chunk in channel] == ["b"]
    engine = engine_of((97,), (98,))
    channel = StreamChannel.create()
    engine.handle_request([request(2)], [channel])
    assert "".join(chunk.text for chunk in channel) == "ab"


def test_a_signal_handler_may_cancel_while_this_thread_has_the_lock():
    channel = StreamChannel.create()
    before = signal.signal(signal.SIGUSR1, lambda *_: channel.cancel(wake=False))
    try:
        with channel._core.condition:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert channel.is_cancelled


def test_a_cancel_without_wake_is_noticed_within_the_poll():
    channel = StreamChannel.create()
    reason = on_thread(channel.consume, print, poll=0.01)
    until_somebody_waits(channel)
    channel.cancel(wake=False)
    assert reason.result(5) is FinishReason.NOT_FINISHED
