"""Reading in asyncio: `generate`, `merge`, X11, fairness to other tasks, and loops that go away."""

import asyncio
import gc
from concurrent.futures import Future
from contextlib import aclosing, suppress
from unittest.mock import Mock

import pytest
from reading import END, LONG, A, B, attached, collect, in_asyncio, until
from scenes import FOR_MANY, MANY, Endless, engine_of, one_by_one, request, submitted, text_of

from mini_vllm.engine import (
    ChannelStateError,
    EngineThread,
    FinishReason,
    NullMetrics,
    StreamChunk,
    StreamError,
    StreamingSubmissionError,
    generate,
    merge,
    read_together,
)
from mini_vllm.engine.loop_waker import waker_of
from mini_vllm.models.scripted import Raise, ScriptedModel


def endless():
    """An engine that ends no request by itself, in the time of a test."""
    return engine_of(Endless((97,)), **FOR_MANY)


@pytest.mark.parametrize("read", [aiter, lambda channel: merge([channel])], ids=["for", "merge"])
@in_asyncio
async def test_other_tasks_run_however_many_chunks_wait(read):
    channel, pipe = attached(max_pending=None)
    for _ in range(1000):
        pipe.push(A)
    got = []

    async def take():
        async for one in read(channel):
            got.append(one)

    reading = asyncio.create_task(take())
    for _ in range(50):
        await asyncio.sleep(0)
    assert 0 < len(got) < 1000
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert channel.is_cancelled


@in_asyncio
async def test_other_tasks_run_between_two_lists_of_chunks():
    channel, pipe = attached()
    turns, seen = 0, []

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    pipe.push(A)
    async for _ in read_together([channel]):
        seen.append(turns)
        # The next list is there before this one is done with.
        if not channel.is_finished:
            pipe.push(A if len(seen) < 5 else END)
    running.cancel()
    assert len(set(seen)) == len(seen) == 6


@in_asyncio
async def test_anext_after_the_end_is_stop_async_iteration():
    for start, first in ((aiter, END), (lambda channel: merge([channel]), (0, END))):
        channel, pipe = attached()
        pipe.push(END)
        stream = start(channel)
        assert await anext(stream) == first
        for _ in range(3):
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        assert await collect(channel) == []
        assert not channel.is_cancelled


@in_asyncio
async def test_x11_leaving_async_for_cancels():
    with EngineThread(endless()) as thread:
        (channel,), _ = submitted(thread.engine, request(max_tokens=MANY))
        async for _ in channel:
            break
        await until(lambda: channel.is_cancelled)
        assert (await collect(channel))[-1].reason is FinishReason.CANCELLED


@pytest.mark.parametrize("push_before_closing", [False, True])
def test_a_closed_loop_cancels_every_channel_that_was_read_on_it(push_before_closing):
    # The loop stops and is closed under its readers, so none of them can say goodbye.
    loop = asyncio.new_event_loop()
    pairs = [attached() for _ in range(3)]
    readings = [anext(aiter(channel)) for channel, _ in pairs]
    tasks = [loop.create_task(asyncio.wait_for(reading, None)) for reading in readings]
    loop.run_until_complete(asyncio.sleep(0))
    if push_before_closing:
        for _, pipe in pairs:
            pipe.push(A)
    loop.close()
    for channel, pipe in pairs:
        for _ in range(3):
            pipe.push(B)
        assert channel.is_cancelled
        pipe.finish(FinishReason.CANCELLED)
        assert channel.reason is FinishReason.CANCELLED
    for task in tasks:
        task._log_destroy_pending = False


@in_asyncio
async def test_one_call_into_the_loop_wakes_all_readers(monkeypatch):
    loop = asyncio.get_running_loop()
    pairs = [attached() for _ in range(20)]
    readings = [asyncio.create_task(collect(channel)) for channel, _ in pairs]
    await until(lambda: all(channel._pipe.sleeping for channel, _ in pairs))
    calls, call = [], loop.call_soon_threadsafe
    monkeypatch.setattr(
        loop, "call_soon_threadsafe", lambda *args: calls.append(args) or call(*args)
    )
    for _, pipe in pairs:
        pipe.push(A)
        pipe.push(END)
    assert await asyncio.wait_for(asyncio.gather(*readings), LONG) == [[A, END]] * 20
    assert len(calls) == 1
    assert waker_of(loop) is waker_of(loop)


@in_asyncio
async def test_pushes_to_a_busy_loop_do_not_pile_up():
    channel, pipe = attached(max_pending=2)
    reading = asyncio.create_task(collect(channel))
    await asyncio.sleep(0)
    waker = waker_of(asyncio.get_running_loop())
    for _ in range(1000):
        pipe.push(A)
    assert len(waker._waiting) == 1
    pipe.push(END)
    assert sum(len(chunk.token_ids) for chunk in await reading) == 1000


@in_asyncio
async def test_X17_generate_yields_every_chunk_with_its_choice_to_the_end_of_all():
    texts = [f"{n}é🚀" * (n + 1) for n in range(3)]
    scripts = {("A", n): one_by_one(text, end=True) for n, text in enumerate(texts)}
    with EngineThread(engine_of(scripts, max_num_seqs=2)) as thread:
        chunks = await collect(generate(thread.engine, request("A", n=3)))
    for n, text in enumerate(texts):
        mine = [chunk for index, chunk in chunks if index == n]
        assert text_of(mine) == text
        assert [chunk.finished for chunk in mine] == [False] * (len(mine) - 1) + [True]
        assert mine[-1].reason is FinishReason.END_ID


@in_asyncio
async def test_generate_submits_at_the_first_anext_and_refuses_at_once():
    engine = engine_of({})
    stream = generate(engine, request(prompt=()))
    with pytest.raises(StreamingSubmissionError, match="prompt is empty"):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


@pytest.mark.parametrize("choices", [1, 2])
@in_asyncio
async def test_generate_gives_the_error_chunk_and_then_raises(choices):
    async def read(**options):
        with EngineThread(engine_of([(97,), Raise(boom)])) as thread:
            async for _, chunk in generate(thread.engine, request(n=choices), **options):
                seen.append(chunk.reason)

    boom, seen = RuntimeError("boom"), []
    with pytest.raises(StreamError, match="boom") as caught:
        await read()
    assert FinishReason.ERROR in seen
    assert caught.value.__cause__ is boom
    assert caught.value.reason is FinishReason.ERROR
    seen.clear()
    await read(raise_on_error=False)
    assert seen.count(FinishReason.ERROR) == choices


@in_asyncio
async def test_100_generators_share_4_slots():
    async def one(number):
        name = f"request {number} says é🚀"
        chunks = generate(thread.engine, request(name, max_tokens=len(name.encode())))
        return name, "".join([chunk.text async for _, chunk in chunks])

    model = ScriptedModel(lambda slot: one_by_one(slot.request_id))
    with EngineThread(engine_of(model, max_num_seqs=4)) as thread:
        got = await asyncio.gather(*map(one, range(100)))
    assert len(got) == 100
    for name, text in got:
        assert text == name


async def leave_by_timeout(stream, started):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), aclosing(stream):
            await collect(stream)


async def leave_by_cancel(stream, started):
    task = asyncio.create_task(collect(stream))
    await until(started)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def leave_by_an_error(stream, started):
    with suppress(ZeroDivisionError):
        async with aclosing(stream):
            async for _ in stream:
                raise ZeroDivisionError


LEAVE = [leave_by_timeout, leave_by_cancel, leave_by_an_error]


@pytest.mark.parametrize("choices", [1, 3])
@pytest.mark.parametrize("leave", LEAVE, ids=lambda leave: leave.__name__)
@in_asyncio
async def test_X17_leaving_generate_cancels_the_request(leave, choices):
    metrics = Mock(spec=NullMetrics())
    engine = engine_of(Endless((97,)), metrics=metrics, **FOR_MANY)
    with EngineThread(engine):
        stream = generate(engine, request(max_tokens=MANY, n=choices))
        await leave(stream, lambda: engine.stats().running)
        await until(lambda: not engine.has_work)
    ends = [one.args[0] for one in metrics.finished.mock_calls]
    assert ends == [FinishReason.CANCELLED] * choices


@pytest.mark.parametrize("choices", [1, 3])
@in_asyncio
async def test_a_merged_stream_that_is_closed_has_cancelled_at_that_moment(choices):
    pairs = [attached() for _ in range(choices)]
    for _, pipe in pairs:
        pipe.push(A)
    stream = merge([channel for channel, _ in pairs])
    await anext(stream)
    await stream.aclose()
    assert all(channel.is_cancelled for channel, _ in pairs)
    for channel, pipe in pairs:
        pipe.finish(FinishReason.CANCELLED)
        assert channel.consume(lambda chunk: None) is FinishReason.CANCELLED


@pytest.mark.parametrize("choices", [1, 3])
@pytest.mark.parametrize("steps", [0, 1])
@in_asyncio
async def test_generate_that_is_left_has_cancelled_at_that_moment(choices, steps):
    engine = endless()
    stream = generate(engine, request(max_tokens=MANY, n=choices))
    first = asyncio.create_task(anext(stream))
    await until(lambda: engine.has_work)
    await asyncio.sleep(0)
    if steps:
        engine.step()
        await first
        await stream.aclose()
    else:
        # Before the first chunk: it never needs a slot.
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    assert not engine.step()
    assert engine.stats().used_blocks == 0


@in_asyncio
async def test_a_task_that_is_cancelled_while_it_handles_a_chunk_cancels():
    channel, pipe = attached()
    pipe.push(A)
    handling = asyncio.Event()

    async def handle():
        async for _ in channel:
            handling.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(handle())
    await handling.wait()
    assert not channel.is_cancelled
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: channel.is_cancelled)


@in_asyncio
async def test_merge_keeps_the_order_of_each_and_ends_when_all_have():
    pairs = [attached() for _ in range(3)]
    for number, (_, pipe) in enumerate(pairs):
        for step in range(5 * number):
            pipe.push(StreamChunk((step,), str(number)))
        pipe.push(END)
    got = await asyncio.wait_for(collect(merge([channel for channel, _ in pairs])), LONG)
    for number in range(3):
        own = [chunk for index, chunk in got if index == number]
        assert own == [StreamChunk((step,), str(number)) for step in range(5 * number)] + [END]
    assert await collect(merge([])) == []


@in_asyncio
async def test_merge_is_as_quick_as_its_quickest_channel():
    (one, _), (other, pipe) = attached(), attached()
    stream = merge([one, other])
    for chunk in (A, B):
        pipe.push(chunk)
        assert await asyncio.wait_for(anext(stream), LONG) == (1, chunk)
    for chunk in (A, B):
        # Other tasks run while it waits, after chunks too.
        waiting = asyncio.create_task(anext(stream))
        for _ in range(5):
            await asyncio.sleep(0)
        pipe.push(chunk)
        assert await asyncio.wait_for(waiting, LONG) == (1, chunk)
    await stream.aclose()


@in_asyncio
async def test_merge_refuses_a_channel_twice_or_with_a_reader_and_leaves_that_alone():
    (mine, _), (theirs, pipe) = attached(), attached()
    reading = asyncio.create_task(collect(theirs))
    await asyncio.sleep(0)
    for channels in ([mine, theirs], [mine, mine]):
        with pytest.raises(ChannelStateError, match="one at a time"):
            await collect(merge(channels))
        assert (mine.is_cancelled, theirs.is_cancelled) == (True, False)
    pipe.push(END)
    assert await reading == [END]


def test_leaving_merge_leaves_no_task_and_no_complaint(caplog):
    async def read():
        (one, first), (other, second) = attached(), attached()
        first.push(END)
        second.push(A)
        stream = merge([one, other])
        assert await anext(stream) == (0, END)
        assert await anext(stream) == (1, A)
        await stream.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        del stream
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []
        assert other.is_cancelled

    asyncio.run(read())
    assert caplog.records == []


@in_asyncio
async def test_a_handles_future_can_be_awaited_and_giving_up_leaves_the_request_alone():
    engine = engine_of()
    (handle,) = engine.submit([request(max_tokens=3)])
    assert isinstance(handle.future, Future)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(handle.future), 0.01)
    engine.run_until_idle()
    assert (await asyncio.wrap_future(handle.future)).texts == ["abc"]
