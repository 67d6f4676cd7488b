"""Lab 10: write the stream channel here. README.md has the story and the tasks.

Check your work with `make lab N=10`. Stuck? `make hint N=10`.
"""

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
        self._waiting: deque[Chunk] = deque()
        self._state = "open"

    @property
    def state(self) -> str:
        """`open` until the channel ends; then how it ended, `finished` or `cancelled`.

        >>> channel = Channel(1)
        >>> before, _ = channel.state, channel.cancel()
        >>> before, channel.state
        ('open', 'cancelled')
        """
        raise NotImplementedError("lab-10 task 1: state")

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
        raise NotImplementedError("lab-10 task 1: push")

    def finish(self, reason: str) -> bool:
        """End the channel with a terminal chunk: no text, no ids, and the reason.

        The reason is any string, even `"cancelled"` or an empty one. The terminal chunk follows
        every unread chunk, however many there are. Return whether this call ended the channel: the
        first end stays, and later ends change nothing.

        >>> channel = Channel(2)
        >>> channel.finish("stop"), channel.finish("length"), channel.try_pop().finish_reason
        (True, False, 'stop')
        """
        raise NotImplementedError("lab-10 task 1: finish")

    def cancel(self) -> None:
        """End the channel from the reader's side, with the reason `cancelled`.

        The writer learns of it from its next push. Unread chunks can still be read. Once the
        channel has ended, this changes nothing.

        >>> channel = Channel(2)
        >>> channel.cancel(), channel.finish("stop"), channel.try_pop().finish_reason
        (None, False, 'cancelled')
        """
        raise NotImplementedError("lab-10 task 2: cancel")

    def try_pop(self) -> Chunk | None:
        """Return the next chunk, or None if no chunk is unread.

        >>> channel = Channel(2)
        >>> channel.try_pop(), channel.push(Chunk("a", (1,))), channel.try_pop()
        (None, True, Chunk(text='a', token_ids=(1,), finish_reason=None))
        """
        raise NotImplementedError("lab-10 task 1: try_pop")

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
        raise NotImplementedError("lab-10 task 3: reader")
