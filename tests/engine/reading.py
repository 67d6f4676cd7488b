"""Channels with their writers, and every way to read one to its end."""

import asyncio
import threading
from concurrent.futures import Future
from functools import wraps
from time import monotonic
from types import SimpleNamespace

import pytest
from scenes import popped

from mini_vllm.engine import FinishReason, StreamChannel, StreamChunk, merge
from mini_vllm.engine import channel as channel_module

# Nothing here waits so long unless it hangs.
LONG = 60.0
END = StreamChunk(finished=True, reason=FinishReason.END_ID)
A, B = StreamChunk((97,), "a"), StreamChunk((98,), "b")


def attach(channel):
    return channel_module.attach(channel, 0, SimpleNamespace(thread_id=None))


def attached(**options):
    channel = StreamChannel.create(**options)
    return channel, attach(channel)


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


class Gate:
    """A hook that holds up its first call, from `inside` to `leave`."""

    def __init__(self):
        self.inside, self.leave = threading.Event(), threading.Event()

    def __call__(self):
        if not self.inside.is_set():
            self.inside.set()
            self.leave.wait(LONG)


def in_asyncio(test):
    """Have a test, or a part of one, run in a loop of its own."""

    async def limited(*args, **options):
        async with asyncio.timeout(LONG):
            return await test(*args, **options)

    return wraps(test)(lambda *args, **options: asyncio.run(limited(*args, **options)))


def until_somebody_waits(channel):
    deadline = monotonic() + LONG
    while not (channel._pipe.condition._waiters or channel._pipe.sleeping):
        assert monotonic() < deadline, "nobody waits"


async def until(condition):
    async with asyncio.timeout(LONG):
        while not condition():
            await asyncio.sleep(0)


async def collect(stream):
    return [one async for one in stream]


def by_consume(channel):
    seen = []
    assert channel.consume(seen.append, poll=LONG) is channel.reason
    return seen


def by_wait_pop(channel):
    return [*iter(lambda: channel.wait_pop(LONG), None)]


def by_async_for(channel):
    return asyncio.run(collect(channel))


def by_merge(channel):
    return [chunk for _, chunk in asyncio.run(collect(merge([channel])))]


# Each takes a channel and returns its chunks to the end; the first cannot wait.
READERS = {
    "try_pop": popped,
    "wait_pop": by_wait_pop,
    "consume": by_consume,
    "iterate": list,
    "async for": by_async_for,
    "merge": by_merge,
}
WAITING = {name: read for name, read in READERS.items() if name != "try_pop"}
every_reader = pytest.mark.parametrize("read", READERS.values(), ids=READERS)
every_waiting_reader = pytest.mark.parametrize("read", WAITING.values(), ids=WAITING)
