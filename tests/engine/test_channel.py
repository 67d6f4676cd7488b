"""StreamChannel: every way to read one, and to stop reading."""

import gc
import signal
from time import monotonic

import pytest
from reading import (
    END,
    LONG,
    READERS,
    WAITING,
    A,
    B,
    attach,
    attached,
    every_reader,
    every_waiting_reader,
    on_thread,
    until_somebody_waits,
)
from scenes import FOR_MANY, MANY, Endless, engine_of, ids_of, request, submitted, text_of

from mini_vllm.engine import (
    ChannelStateError,
    EngineThread,
    FinishReason,
    OverflowPolicy,
    StreamChannel,
    StreamChunk,
)
from mini_vllm.models.scripted import Hook

NOT_FINISHED, CANCELLED = FinishReason.NOT_FINISHED, FinishReason.CANCELLED
CANCELLED_END = StreamChunk(finished=True, reason=CANCELLED)
ERROR_END = StreamChunk(finished=True, reason=FinishReason.ERROR)


def test_19_20_21_new_channels_are_distinct_clean_and_empty():
    other, channel = StreamChannel.create(), StreamChannel.create()
    attach(other).push(A)
    assert (other.is_attached, other.pending_count) == (True, 1)
    assert (channel.original_batch_idx, channel.stream_interval) == (-1, 1)
    assert (channel.is_attached, channel.is_cancelled, channel.is_finished) == (False,) * 3
    assert (channel.reason, channel.error) == (NOT_FINISHED, None)
    assert (channel.pending_count, channel.overflow) == (0, OverflowPolicy.COALESCE)
    assert channel.skip_special_tokens
    assert channel.try_pop() is None


def test_19_only_create_makes_a_channel():
    with pytest.raises(TypeError, match=r"StreamChannel\.create\(\)"):
        StreamChannel()
    for number in (0, -1):
        with pytest.raises(ValueError, match=f"max_pending is {number}"):
            StreamChannel.create(max_pending=number)


def test_a_reader_has_no_way_to_write():
    public = {name for name in dir(StreamChannel.create()) if not name.startswith("_")}
    assert public == {
        "create", "consume", "try_pop", "wait_pop", "cancel", "set_stream_interval",
        "set_skip_special_tokens", "set_return_held", "is_finished", "reason", "is_cancelled",
        "is_attached", "original_batch_idx", "stream_interval", "skip_special_tokens",
        "error", "pending_count", "overflow", "reading_to_the_end",
        "announce_reader",
    }  # fmt: skip


@pytest.mark.parametrize(("given", "used"), [(0, 1), (-5, 1), (1, 1), (8, 8)])
def test_25_an_interval_below_one_is_one(given, used):
    channel = StreamChannel.create()
    channel.set_stream_interval(given)
    assert channel.stream_interval == used
    assert attach(channel).stream_interval == used


@pytest.mark.parametrize(
    ("name", "value"),
    [("stream_interval", 2), ("skip_special_tokens", False), ("return_held", True)],
)
def test_26_x12_a_setter_works_before_attach_and_after_it_raises_and_sets_nothing(name, value):
    channel, (other, pipe) = StreamChannel.create(), attached()
    getattr(channel, f"set_{name}")(value)
    assert getattr(attach(channel), name) == value
    for _ in range(2):
        with pytest.raises(ChannelStateError, match="set this before"):
            getattr(other, f"set_{name}")(value)
        assert (other.stream_interval, other.skip_special_tokens) == (1, True)
        assert not pipe.return_held
        pipe.finish(FinishReason.LENGTH)


def test_a_channel_is_attached_once():
    channel, _ = attached()
    with pytest.raises(ChannelStateError, match="make a channel for each choice"):
        attach(channel)


@pytest.mark.parametrize(
    ("count", "options"),
    [
        (100, {}),
        (2000, {"max_pending": None}),
        (2000, {"overflow": OverflowPolicy.UNBOUNDED, "max_pending": 1}),
    ],
)
@every_reader
def test_31_32_all_chunks_come_in_order_with_the_terminal_one_last_and_once(read, count, options):
    channel, pipe = attached(**options)
    sent = [StreamChunk((number,), str(number)) for number in range(count)] + [END]
    for chunk in sent:
        pipe.push(chunk)
    assert channel.pending_count == len(sent)
    assert read(channel) == sent
    for _ in range(2):
        assert on_thread(read, channel).result(LONG) == []
        assert on_thread(channel.consume, pytest.fail).result(LONG) is FinishReason.END_ID
    assert not channel.is_cancelled


@every_waiting_reader
def test_33_a_waiting_reader_gets_what_a_thread_pushes_and_returns_at_the_end(read):
    channel, pipe = attached(max_pending=None)
    sent = [StreamChunk((number,), str(number)) for number in range(2000)] + [END]
    got = on_thread(read, channel)
    until_somebody_waits(channel)
    for chunk in sent:
        pipe.push(chunk)
    assert got.result(LONG) == sent
    assert not channel.is_cancelled


@every_waiting_reader
def test_23_24_28_cancel_wakes_the_reader_of_an_unattached_channel(read):
    channel = StreamChannel.create()
    got = on_thread(read, channel)
    until_somebody_waits(channel)
    channel.cancel()
    assert got.result(LONG) == []
    # And it is not waited for again.
    assert on_thread(read, channel).result(LONG) == []
    # 28: cancelled is not finished, nor if it is attached now.
    assert (channel.is_finished, channel.reason) == (False, NOT_FINISHED)
    attach(channel)
    assert (channel.is_finished, channel.reason) == (False, NOT_FINISHED)


@every_waiting_reader
def test_x9_the_terminal_chunk_is_seen_after_cancel(read):
    channel, pipe = attached()
    got = on_thread(read, channel)
    until_somebody_waits(channel)
    channel.cancel()
    pipe.push(A)
    pipe.finish(CANCELLED)
    assert [chunk.finished for chunk in got.result(LONG)] == [False, True]
    assert (channel.reason, channel.is_cancelled) == (CANCELLED, True)


@every_reader
def test_28_cancel_after_the_end_keeps_the_reason(read):
    channel, pipe = attached()
    pipe.push(END)
    channel.cancel()
    assert (channel.reason, channel.is_finished) == (FinishReason.END_ID, True)
    assert read(channel) == [END]
    assert channel.reason is FinishReason.END_ID


@pytest.mark.parametrize("first", WAITING.values(), ids=WAITING)
@pytest.mark.parametrize("second", READERS.values(), ids=READERS)
def test_a_second_reader_is_refused_and_the_first_reads_on(first, second):
    channel, pipe = attached()
    got = on_thread(first, channel)
    until_somebody_waits(channel)
    with pytest.raises(ChannelStateError, match="one at a time"):
        second(channel)
    pipe.push(A)
    pipe.push(END)
    assert got.result(LONG)[-1] == END
    assert not channel.is_cancelled


BLOCKING = {name: WAITING[name] for name in ("consume", "iterate", "wait_pop")}


@pytest.mark.parametrize("read", BLOCKING.values(), ids=BLOCKING)
def test_waiting_on_the_engines_own_thread_raises(read):
    channel, caught = StreamChannel.create(), []

    def reads_in_the_model():
        try:
            read(channel)
        except ChannelStateError as error:
            caught.append(error)

    with EngineThread(engine_of([Hook(reads_in_the_model, (97,))])) as thread:
        thread.engine.submit([request(max_tokens=1)], [channel])[0].result(LONG)
    assert "would wait for itself" in str(caught[0])


def test_what_is_there_already_may_be_read_on_the_engines_own_thread():
    engine = engine_of()
    (channel,), _ = submitted(engine, request(max_tokens=2))
    engine.step()
    assert channel.wait_pop(LONG) == A
    assert channel.try_pop() is None
    engine.step()
    assert text_of(channel) == "b"
    channel = StreamChannel.create()
    engine.handle_request([request(max_tokens=2)], [channel])
    assert text_of(channel) == "ab"


def test_22_wait_pop_times_out():
    channel, before = StreamChannel.create(), monotonic()
    for timeout in (0.03, 0, -1):
        assert on_thread(channel.wait_pop, timeout).result(LONG) is None
    assert monotonic() - before >= 0.025


@pytest.mark.parametrize("timeout", [LONG, 1e12, float("inf")])
def test_wait_pop_takes_any_timeout_and_returns_at_the_push(timeout):
    channel, pipe = attached()
    popped = on_thread(channel.wait_pop, timeout)
    until_somebody_waits(channel)
    pipe.push(A)
    assert popped.result(LONG) == A


@pytest.mark.parametrize("poll", [0, -1.0])
def test_a_poll_that_is_no_time_is_refused(poll):
    channel, pipe = attached()
    pipe.push(A)
    with pytest.raises(ValueError, match=f"poll is {poll}"):
        channel.consume(print, poll=poll)
    assert (channel.is_cancelled, channel.pending_count) == (False, 1)


def test_a_cancel_without_wake_is_noticed_within_the_poll():
    channel = StreamChannel.create()
    reason = on_thread(channel.consume, print, poll=0.01)
    until_somebody_waits(channel)
    channel.cancel(wake=False)
    assert reason.result(LONG) is NOT_FINISHED


def test_x9_detach_on_cancel_reads_what_is_there_and_leaves():
    (channel, pipe), seen = attached(), []
    pipe.push(A)
    channel.cancel()
    reason = on_thread(channel.consume, seen.append, poll=LONG, detach_on_cancel=True)
    assert (reason.result(LONG), seen) == (NOT_FINISHED, [A])


def test_x9_cancel_from_inside_the_handler():
    seen = []

    def handler(chunk):
        seen.append(chunk)
        channel.cancel()

    with EngineThread(engine_of(Endless((97,)), **FOR_MANY)) as thread:
        (channel,), (handle,) = submitted(thread.engine, request(max_tokens=MANY))
        assert channel.consume(handler) is CANCELLED
        output = handle.result(LONG).outputs[0]
    assert [chunk.finished for chunk in seen] == [False] * (len(seen) - 1) + [True]
    assert ids_of(seen) == output.token_ids


@pytest.mark.parametrize("error", [ValueError("handler"), KeyboardInterrupt()])
def test_x10_what_a_handler_raises_cancels_and_is_raised(error):
    engine = engine_of()
    (channel,), _ = submitted(engine, request())
    engine.step()

    def handler(chunk):
        raise error

    with pytest.raises(type(error)) as caught:
        channel.consume(handler)
    assert caught.value is error
    assert channel.is_cancelled
    engine.run_until_idle()
    assert list(channel) == [CANCELLED_END]


def test_x10_a_handler_that_raises_at_the_last_chunk_does_not_cancel():
    channel, pipe = attached()
    pipe.push(END)
    with pytest.raises(ZeroDivisionError):
        channel.consume(lambda chunk: 1 / 0)
    assert (channel.is_cancelled, channel.reason) == (False, FinishReason.END_ID)


def test_the_handler_runs_with_the_lock_released_and_is_the_only_reader():
    (channel, pipe), refused = attached(), []
    pipe.push(A)

    def handler(chunk):
        if not chunk.finished:
            with pytest.raises(ChannelStateError) as caught:
                channel.try_pop()
            refused.append(caught.value)
            on_thread(pipe.push, END).result(LONG)

    assert channel.consume(handler) is FinishReason.END_ID
    assert len(refused) == 1


def test_27_cancelling_thrice_is_cancelling_once():
    engine = engine_of()
    (channel,), _ = submitted(engine, request())
    engine.step()
    for _ in range(3):
        channel.cancel()
        assert channel.is_cancelled
    engine.run_until_idle()
    assert list(channel) == [A, CANCELLED_END]
    channel.cancel()
    assert list(channel) == []


def test_30_finish_is_idempotent_and_the_first_reason_stays():
    (channel, pipe), error = attached(), ValueError("first")
    pipe.finish(FinishReason.ERROR, error)
    pipe.finish(FinishReason.LENGTH)
    pipe.finish(FinishReason.ERROR, KeyError("second"))
    assert (channel.pending_count, channel.reason) == (1, FinishReason.ERROR)
    assert channel.error is error
    assert list(channel) == [ERROR_END]


@pytest.mark.parametrize("late", [A, END])
def test_a_push_after_the_end_is_the_writers_fault(late):
    channel, pipe = attached()
    pipe.push(END)
    with pytest.raises(ChannelStateError, match="after the terminal chunk"):
        pipe.push(late)
    assert list(channel) == [END]


def test_leaving_a_loop_cancels():
    channel, pipe = attached()
    pipe.push(A)
    for _ in channel:
        break
    assert channel.is_cancelled
    pipe.push(B)
    pipe.finish(CANCELLED)
    assert list(channel) == [B, CANCELLED_END]


def test_a_dropped_channel_cancels_its_request():
    engine = engine_of()
    (channel,), (handle,) = submitted(engine, request())
    engine.step()
    del channel
    assert not engine.step()
    assert handle.result(0).finish_reasons == [CANCELLED]


def test_an_iterator_that_the_collector_ends_inside_a_push_does_not_deadlock():
    # The collector runs wherever an object is made, with the channel's lock held too.
    channel, pipe = attached()
    pipe.push(A)
    iterator = iter(channel)
    next(iterator)
    ring = [iterator]
    ring.append(ring)
    del iterator, ring

    def collect():
        with channel._pipe.condition:
            gc.collect()

    on_thread(collect).result(LONG)
    assert channel.is_cancelled


def test_a_signal_handler_may_cancel_while_this_thread_has_the_lock():
    channel = StreamChannel.create()
    before = signal.signal(signal.SIGUSR1, lambda *_: channel.cancel(wake=False))
    try:
        with channel._pipe.condition:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert channel.is_cancelled
