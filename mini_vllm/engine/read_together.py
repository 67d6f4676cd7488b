"""Reading several channels in asyncio as one, everything that is there at a time.

Whoever writes to a socket is best served with all the news at once, and with no task per chunk.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack

from mini_vllm.engine.channel import StreamChannel
from mini_vllm.engine.chunk import StreamChunk
from mini_vllm.engine.loop_waker import waker_of

Batch = list[tuple[int, StreamChunk]]


async def read_together(channels: Sequence[StreamChannel]) -> AsyncGenerator[Batch, None]:
    """Yield lists of (index, chunk), never empty, each channel's chunks in order, until all end.

    Other tasks run between two lists, however fast the chunks come. Leaving early cancels them all.

    Raises:
        ChannelStateError: somebody else reads one of the channels.
    """
    waker, event = waker_of(asyncio.get_running_loop()), asyncio.Event()
    left = dict(enumerate(channels))
    with ExitStack() as stack:
        for channel in channels:
            stack.enter_context(channel._reading())
            stack.enter_context(channel._cancelling())
        while left:
            # Before looking: what comes later sets it again.
            event.clear()
            batch: Batch = []
            for index, channel in [*left.items()]:
                chunks, over = channel._take_all((waker, event))
                batch += [(index, chunk) for chunk in chunks]
                if over:
                    del left[index]
            if batch:
                yield batch
                await asyncio.sleep(0)
            elif left:
                await event.wait()
