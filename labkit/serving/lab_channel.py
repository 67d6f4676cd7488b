"""A lab's channel between the engine and the reader of a stream.

The engine's chunks are more than text and ids, and a lab's channel joins texts. So a chunk crosses
as lines of JSON, one for each event: joined chunks keep all of their lines.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from labkit.serving.lab_path import telling_the_author
from labkit.serving.layers import Maker
from mini_vllm.engine import (
    FinishReason,
    StreamChannel,
    StreamChunk,
    TokenLogprobs,
    read_together,
)
from mini_vllm.text import events as event_types
from mini_vllm.text.events import Chunk, TextDelta

ROLE = "channel"
_MAX_PENDING = 256
# After the writer has ended, every chunk is in the channel. A chunk that is not returned within so
# many seconds counts as lost.
_PATIENCE = 10.0
Batch = list[tuple[int, StreamChunk]]


class LabChannels:
    """Reads the channels of a stream through a channel of a lab's class.

    Args:
        maker: makes the class.
    """

    def __init__(self, maker: Maker) -> None:
        self._maker = maker

    async def __call__(self, channels: Sequence[StreamChannel]) -> AsyncGenerator[Batch, None]:
        """Yield batches like those of `read_together`.

        Streams of several choices do not go through a lab's channel: it has one writer.

        Raises:
            PipelineRaised: the lab's code raised, or lost the end.
        """
        if len(channels) != 1:
            async for batch in read_together(channels):
                yield batch
            return
        with telling_the_author():
            made = self._maker.make(ROLE, {"max_pending": _MAX_PENDING})
        crossing = _Crossing(made)
        writer = asyncio.create_task(crossing.write(channels[0]))
        try:
            async for chunk in crossing.read(writer):
                yield [(0, chunk)]
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await writer


class _Crossing:
    """One stream, from the engine's channel through the lab's.

    Args:
        channel: has `push`, `finish` and `reader`.
    """

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        # The number of ids and the text of each engine's chunk that the reader has not read yet.
        self._unread: deque[tuple[int, str]] = deque()
        # A lab's chunks have no logprobs, so those of the ids that are not read yet wait here.
        self._logprobs: deque[TokenLogprobs] = deque()
        self._stop_reason: str | int | None = None

    async def write(self, source: StreamChannel) -> None:
        """Write the engine's chunks until they end or the reader has ended."""
        async for batch in read_together([source]):
            for _, chunk in batch:
                with telling_the_author():
                    open_still = self._push(chunk)
                if not open_still:
                    return

    def _push(self, chunk: StreamChunk) -> bool:
        self._unread.append((len(chunk.token_ids), chunk.text))
        self._logprobs += chunk.logprobs
        lines = _lines(chunk)
        if (lines or chunk.token_ids) and not self._channel.push(Chunk(lines, chunk.token_ids)):
            return False
        if chunk.finished:
            self._stop_reason = chunk.stop_reason
            self._channel.finish(chunk.reason.name.lower())
        return True

    async def read(self, writer: "asyncio.Task[None]") -> AsyncIterator[StreamChunk]:
        """Yield the chunks of the lab's channel."""
        with telling_the_author():
            async with self._channel.reader() as chunks:
                while True:
                    chunk = await self._next(chunks, writer)
                    yield chunk
                    if chunk.finished:
                        return

    async def _next(
        self, chunks: AsyncIterator[Chunk], writer: "asyncio.Task[None]"
    ) -> StreamChunk:
        """Return the next chunk; raise an exception of the writer at once."""
        coming = asyncio.ensure_future(anext(chunks))
        try:
            await asyncio.wait((coming, writer), return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                writer.result()
            return self._rebuilt(await asyncio.wait_for(coming, _PATIENCE))
        except StopAsyncIteration:
            raise ValueError("the channel ended without a terminal chunk") from None
        except TimeoutError:
            raise ValueError("the channel does not return its terminal chunk") from None
        finally:
            coming.cancel()

    def _rebuilt(self, chunk: Chunk) -> StreamChunk:
        """Return the engine's chunk, or several of them joined."""
        taken = left = len(chunk.token_ids)
        while self._unread and left >= self._unread[0][0]:
            left -= self._unread.popleft()[0]
        events, held = _events(chunk.text)
        if held is not None:
            held[ROLE] = "".join(text for _, text in self._unread)
        reason = FinishReason[(chunk.finish_reason or FinishReason.NOT_FINISHED.name).upper()]
        return StreamChunk(
            chunk.token_ids,
            "".join(event.text for event in events if isinstance(event, TextDelta)),
            finished=reason is not FinishReason.NOT_FINISHED,
            reason=reason,
            logprobs=tuple(
                self._logprobs.popleft() for _ in range(min(taken, len(self._logprobs)))
            ),
            events=tuple(events),
            stop_reason=self._stop_reason if reason else None,
            held=held,
        )


def _lines(chunk: StreamChunk) -> str:
    """Return a chunk's events and the held texts as lines of JSON."""
    rows: list[list[Any]] = [[type(event).__name__, *astuple(event)] for event in chunk.all_events]
    if chunk.held is not None:
        rows.append(["held", dict(chunk.held)])
    # Bytes become lists of numbers.
    return "".join(json.dumps(row, default=list) + "\n" for row in rows)


def _events(lines: str) -> tuple[list[Any], dict[str, str | bytes] | None]:
    """Return the events of lines, and the last held texts."""
    events, held = [], None
    for name, *values in map(json.loads, lines.splitlines()):
        if name == "held":
            held = {
                role: bytes(it) if isinstance(it, list) else it for role, it in values[0].items()
            }
        else:
            events.append(getattr(event_types, name)(*values))
    return events, held
