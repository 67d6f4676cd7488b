"""Reading channels in asyncio.

`read_together` reads several, all that waits at a time, as the server does. `merge` gives their
chunks one by one, and `generate` those of a request that it submits.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, aclosing

from mini_vllm.engine.channel import StreamChannel
from mini_vllm.engine.engine import Engine
from mini_vllm.engine.engine_errors import StreamError
from mini_vllm.engine.loop_waker import waker_of
from mini_vllm.engine.outputs import StreamChunk
from mini_vllm.engine.request import Request
from mini_vllm.finish_reason import FinishReason

Batch = list[tuple[int, StreamChunk]]


async def generate(
    engine: Engine, request: Request, *, raise_on_error: bool = True
) -> AsyncGenerator[tuple[int, StreamChunk], None]:
    """Submit a request; yield (choice index, chunk) until all its choices have ended.

    Something else steps the engine, such as an `EngineThread`. Leaving early, by `break`, `aclose`
    or a cancelled task, cancels the request.

    Args:
        engine: takes the request.
        request: what to generate.
        raise_on_error: after the terminal chunk of a choice that failed, raise.

    Raises:
        StreamingError: the engine refused the request.
        StreamError: a choice ended with an error.
    """
    channels = [StreamChannel.create() for _ in range(request.params.n)]
    engine.submit([request], channels)
    async with aclosing(merge(channels)) as stream:
        async for index, chunk in stream:
            yield index, chunk
            if raise_on_error and chunk.reason is FinishReason.ERROR:
                error = channels[index].error
                raise StreamError(
                    chunk.reason, f"the stream ended with an error: {error}"
                ) from error


async def merge(
    channels: Sequence[StreamChannel],
) -> AsyncGenerator[tuple[int, StreamChunk], None]:
    """Yield (index, chunk) of several channels as they come, each channel's in order, to the end.

    Leaving early cancels them all.
    """
    async with aclosing(read_together(channels)) as batches:
        async for batch in batches:
            for item in batch:
                yield item
                # Other tasks run too, however many wait.
                await asyncio.sleep(0)


async def read_together(channels: Sequence[StreamChannel]) -> AsyncGenerator[Batch, None]:
    """Yield lists of (index, chunk), never empty, each channel's chunks in order, until all end.

    Each list has all that waits, so that a server can write it to a socket at once, without a task
    for each chunk. Other tasks run between two lists, however fast the chunks come. Leaving early
    cancels all channels.

    Raises:
        ChannelStateError: somebody else reads one of the channels.
    """
    waker, event = waker_of(asyncio.get_running_loop()), asyncio.Event()
    left = dict(enumerate(channels))
    with ExitStack() as stack:
        for channel in channels:
            stack.enter_context(channel.reading_to_the_end())
        others_ran = True
        while left:
            # Cleared before looking: what comes later sets it again.
            event.clear()
            batch: Batch = []
            for index, channel in [*left.items()]:
                chunks, over = channel.take_all(waker, event)
                batch += [(index, chunk) for chunk in chunks]
                if over:
                    del left[index]
            if batch:
                if not others_ran:
                    await asyncio.sleep(0)
                yield batch
                others_ran = False
            elif left:
                await event.wait()
                others_ran = True
        # Not even the end of a stream comes before the others' first text.
        await asyncio.sleep(0)
