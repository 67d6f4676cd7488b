"""Reading channels in asyncio, chunk by chunk.

`merge` yields the chunks of several channels; `generate` submits a request and yields its chunks.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from mini_vllm.engine.channel import StreamChannel, read_together
from mini_vllm.engine.engine import Engine
from mini_vllm.engine.engine_errors import StreamError
from mini_vllm.engine.outputs import StreamChunk
from mini_vllm.engine.request import Request
from mini_vllm.finish_reason import FinishReason


async def generate(
    engine: Engine, request: Request, *, raise_on_error: bool = True
) -> AsyncGenerator[tuple[int, StreamChunk], None]:
    """Submit a request; yield (choice index, chunk) until all its choices have ended.

    Another thread has to step the engine, such as an `EngineThread`. Leaving early, by `break`,
    `aclose` or a cancelled task, cancels the request.

    Args:
        engine: the engine to submit to.
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
    """Yield (index, chunk) of several channels as chunks arrive, in the order of each channel.

    Leaving early cancels all channels.
    """
    async with aclosing(read_together(channels)) as batches:
        async for batch in batches:
            for item in batch:
                yield item
                # Let other tasks run too, however many chunks are pending.
                await asyncio.sleep(0)
