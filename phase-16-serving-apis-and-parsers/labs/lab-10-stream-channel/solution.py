"""A one-way pipe from an engine to one reader, which can neither delay it nor miss its end.

The engine writes on its own thread and the reader waits in asyncio, so every method may be called
on any thread. The writer never waits: past `max_pending` the last unread chunk grows. The first of
writer and reader to end the channel sets the reason, and the terminal chunk is the last.

It does not count tokens or know requests, and it has one reader.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from mini_vllm.text.events import Chunk


class Channel:
    """Chunks from one writer to one reader.

    Args:
        max_pending: how many chunks may be unread, in addition to the terminal chunk.

    Raises:
        ValueError: `max_pending` is below 1.

    >>> channel = Channel(1)
    >>> channel.push(Chunk("a", (1,))), channel.push(Chunk("b", (2,))), channel.finish("stop")
    (True, True, True)
    >>> channel.try_pop()
    Chunk(text='ab', token_ids=(1, 2), finish_reason=None)
    >>> channel.try_pop()
    Chunk(text='', token_ids=(), finish_reason='stop')
    """

    def __init__(self, max_pending: int) -> None:
        if max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1")
        self._max_pending = max_pending
        self._lock = threading.Lock()
        # Each item is one chunk for the reader, in the parts that were pushed: joining them at
        # every push would cost the square of their length.
        self._waiting: deque[list[Chunk]] = deque()
        self._state = "open"
        self._drained = False
        self._reader: _Reader | None = None

    @property
    def state(self) -> str:
        """`open` until the channel ends; then how it ended, `finished` or `cancelled`.

        >>> channel = Channel(1)
        >>> before, _ = channel.state, channel.cancel()
        >>> before, channel.state
        ('open', 'cancelled')
        """
        return self._state

    def push(self, chunk: Chunk) -> bool:
        """Write a chunk, without waiting; return whether the channel is open.

        If `max_pending` chunks are unread, the last of them grows by the text and the ids of
        `chunk`. Chunks that have been pushed or read never change. Once the channel has ended,
        push changes nothing and returns False, so the writer can stop. If the reader's event loop
        was closed while the reader was inside `reader`, push cancels the channel and returns False.

        Raises:
            ValueError: the chunk has a `finish_reason`, even an empty one, before or after the end.
                The chunk is not taken and the channel stays as it is: only `finish` and `cancel`
                end a channel.

        >>> channel = Channel(2)
        >>> channel.push(Chunk("a", (1,))), channel.cancel(), channel.push(Chunk("b", (2,)))
        (True, None, False)
        """
        if chunk.finish_reason is not None:
            reason = chunk.finish_reason
            raise ValueError(f"the chunk has finish_reason {reason!r}; end a channel by finish")
        with self._lock:
            if self._state != "open":
                return False
            if len(self._waiting) < self._max_pending:
                self._waiting.append([chunk])
            else:
                self._waiting[-1].append(chunk)
        return self._wake()

    def finish(self, reason: str) -> bool:
        """End the channel with a terminal chunk: no text, no ids, and the reason.

        The reason is any string, even `"cancelled"` or an empty one. The terminal chunk follows
        every unread chunk, however many there are. Return whether this call ended the channel: the
        first end stays, and later ends change nothing.

        >>> channel = Channel(2)
        >>> channel.finish("stop"), channel.finish("length"), channel.try_pop().finish_reason
        (True, False, 'stop')
        """
        return self._end("finished", reason)

    def cancel(self) -> None:
        """End the channel from the reader's side, with the reason `cancelled`.

        The writer learns of it from its next push. Unread chunks can still be read. Once the
        channel has ended, this changes nothing.

        >>> channel = Channel(2)
        >>> channel.cancel(), channel.finish("stop"), channel.try_pop().finish_reason
        (None, False, 'cancelled')
        """
        self._end("cancelled", "cancelled")

    def try_pop(self) -> Chunk | None:
        """Return the next chunk, or None if no chunk is unread.

        >>> channel = Channel(2)
        >>> channel.try_pop(), channel.push(Chunk("a", (1,))), channel.try_pop()
        (None, True, Chunk(text='a', token_ids=(1,), finish_reason=None))
        """
        with self._lock:
            if not self._waiting:
                return None
            parts = self._waiting.popleft()
            self._drained = parts[0].finish_reason is not None
        if len(parts) == 1:
            return parts[0]
        ids = tuple(token_id for part in parts for token_id in part.token_ids)
        return Chunk("".join(part.text for part in parts), ids)

    def reader(self) -> AbstractAsyncContextManager[AsyncIterator[Chunk]]:
        """Read in asyncio: `async with channel.reader() as chunks: async for chunk in chunks: ...`.

        The reading begins with the block: `reader` itself needs no event loop. The terminal chunk
        is the last; once it has been read, the iteration ends at once. While no chunk is unread,
        the task sleeps until this or another thread writes. Leaving the block before the channel
        has ended cancels it at once, whether by `break`, by any exception, or because the task is
        cancelled; exceptions pass through. A wait may be given up, for example by a timeout: it
        takes no chunk, and `anext(chunks)` can be called again.

        >>> import asyncio
        >>> channel = Channel(2)
        >>> async def read_one():
        ...     async with channel.reader() as chunks:
        ...         return await anext(chunks)
        >>> channel.push(Chunk("a", (1,))), asyncio.run(read_one()).text, channel.state
        (True, 'a', 'cancelled')
        """
        return _Reader(self)

    def _end(self, state: str, reason: str) -> bool:
        with self._lock:
            if self._state != "open":
                return False
            self._state = state
            self._waiting.append([Chunk("", (), reason)])
        self._wake()
        return True

    def _wake(self) -> bool:
        """Wake the reader, on its own thread; return False if its event loop is closed."""
        reader = self._reader
        if reader is None:
            return True
        try:
            reader.loop.call_soon_threadsafe(reader.news.set)
        except RuntimeError:
            # The loop is closed. Its reader could not cancel the channel, so the writer does.
            self.cancel()
            return False
        return True


class _Reader(AbstractAsyncContextManager[AsyncIterator[Chunk]], AsyncIterator[Chunk]):
    """The chunks of a channel, on one event loop.

    It takes a chunk only when it returns it. So a wait that is given up has not taken a chunk.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.news = asyncio.Event()

    async def __aenter__(self) -> AsyncIterator[Chunk]:
        self.loop = asyncio.get_running_loop()
        self._channel._reader = self
        return self

    async def __aexit__(self, *error: object) -> None:
        self._channel.cancel()

    async def __anext__(self) -> Chunk:
        while not self._channel._drained:
            # Cleared before the look: a push after the look sets the event again.
            self.news.clear()
            chunk = self._channel.try_pop()
            if chunk is not None:
                return chunk
            await self.news.wait()
        raise StopAsyncIteration
