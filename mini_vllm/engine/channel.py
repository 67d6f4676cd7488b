"""What a reader has of the engine's pipe: it neither holds the engine up nor misses the end.

    engine -> Pipe.push -> what waits -> StreamChannel.consume -> reader

A channel is read on a thread (`consume`, iteration, `wait_pop`, `try_pop`) or in asyncio (`async
for`), by one reader at a time. `read_together` reads several, all that waits at a time, as the
server does. The last chunk of a channel, and only that one, is `finished`.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import monotonic

from mini_vllm.engine.engine_errors import ChannelStateError
from mini_vllm.engine.loop_waker import waker_of
from mini_vllm.engine.outputs import StreamChunk
from mini_vllm.engine.pipe import OverflowPolicy, Owner, Pipe
from mini_vllm.finish_reason import FinishReason

Batch = list[tuple[int, StreamChunk]]
_TAKEN = "another reader has this channel; it takes one at a time"
_WAITS_FOR_ITSELF = (
    "this thread runs the engine and would wait for itself: "
    "read on another thread, or let the engine step first"
)


class StreamChannel:
    """The reader's end of a pipe; make one with `StreamChannel.create`.

    A channel that its reader drops, or stops reading before the end, cancels its stream.
    """

    __slots__ = ("__weakref__", "_pipe", "_reader")

    _pipe: Pipe
    _reader: threading.Lock

    def __init__(self) -> None:
        raise TypeError("make a channel with StreamChannel.create()")

    @classmethod
    def create(
        cls,
        *,
        max_pending: int | None = 256,
        overflow: OverflowPolicy = OverflowPolicy.COALESCE,
    ) -> "StreamChannel":
        """Return a new channel.

        Args:
            max_pending: how many chunks may wait for the reader; None for any number.
            overflow: what happens to more.

        Raises:
            ValueError: `max_pending` is below 1.
        """
        if max_pending is not None and max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1, or None")
        channel = object.__new__(cls)
        unbounded = overflow is OverflowPolicy.UNBOUNDED
        channel._pipe = Pipe(None if unbounded else max_pending, overflow)
        channel._reader = threading.Lock()
        return channel

    def __del__(self) -> None:
        pipe = getattr(self, "_pipe", None)
        if pipe is not None:
            pipe.cancelled = True

    @property
    def is_attached(self) -> bool:
        """Whether it belongs to a request."""
        return self._pipe.owner is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether the reader asked for the end."""
        return self._pipe.cancelled

    @property
    def is_finished(self) -> bool:
        """Whether the terminal chunk was written."""
        return self._pipe.finished

    @property
    def reason(self) -> FinishReason:
        """Why the stream ended; NOT_FINISHED while it runs."""
        return self._pipe.reason

    @property
    def error(self) -> BaseException | None:
        """What went wrong: if the reason is ERROR, or the policy CANCEL ended the stream."""
        return self._pipe.error

    @property
    def original_batch_idx(self) -> int:
        """The place of its choice in the submission, whatever its slot; -1 before."""
        return self._pipe.batch_idx

    @property
    def pending_count(self) -> int:
        """How many chunks wait."""
        return len(self._pipe.pending)

    @property
    def overflow(self) -> OverflowPolicy:
        """What happens to chunks that come while too many wait."""
        return self._pipe.overflow

    @property
    def stream_interval(self) -> int:
        """The least number of ids in a chunk; the last chunk may have fewer."""
        return self._pipe.stream_interval

    @property
    def skip_special_tokens(self) -> bool:
        """Whether special tokens are left out of the text."""
        return self._pipe.skip_special_tokens

    def set_stream_interval(self, interval: int) -> None:
        """Set the least number of ids in a chunk; less than 1 means 1.

        Raises:
            ChannelStateError: the channel belongs to a request already.
        """
        with self._unattached() as pipe:
            pipe.stream_interval = max(1, interval)

    def set_skip_special_tokens(self, skip: bool) -> None:
        """Set whether special tokens are left out of the text. A request may still show them.

        Raises:
            ChannelStateError: the channel belongs to a request already.
        """
        with self._unattached() as pipe:
            pipe.skip_special_tokens = skip

    def set_return_held(self, held: bool) -> None:
        """Set whether every id makes a chunk, even one without text, with `held`.

        Ids that a model gives together come apart then, so that each shows what it does.

        Raises:
            ChannelStateError: the channel belongs to a request already.
        """
        with self._unattached() as pipe:
            pipe.return_held = held

    def announce_reader(self) -> None:
        """Say that a task of the running loop is about to read: the loop has its turns until then.

        Raises:
            RuntimeError: no loop runs on this thread.
        """
        self._pipe.waker = waker_of(asyncio.get_running_loop())

    def cancel(self, *, wake: bool = True) -> None:
        """Ask for the end; any thread, any number of times.

        The engine sees it at its next iteration and writes the terminal chunk.

        Args:
            wake: wake a waiting reader at once. A signal handler passes False, because it may have
                interrupted the holder of the lock; the reader then notices within its `poll`, and
                one in asyncio, or in `wait_pop`, at the terminal chunk.
        """
        self._pipe.cancelled = True
        if wake:
            self._pipe.wake()

    def try_pop(self) -> StreamChunk | None:
        """Return the next chunk, or None if none waits.

        Raises:
            ChannelStateError: somebody else reads.
        """
        if self._reader.locked():
            raise ChannelStateError(_TAKEN)
        try:
            return self._pipe.take()
        except IndexError:
            # Two threads try at once, and the other one has it.
            return None

    def wait_pop(self, timeout: float) -> StreamChunk | None:
        """Return the next chunk, or None if none comes within `timeout` seconds or ever.

        Raises:
            ChannelStateError: somebody else reads, or this is the engine's own thread, which would
                wait for itself.
        """
        self._claim()
        try:
            return self._wait(timeout, timeout)
        finally:
            self._reader.release()

    def consume(
        self,
        handler: Callable[[StreamChunk], object],
        *,
        poll: float = 0.1,
        detach_on_cancel: bool = False,
    ) -> FinishReason:
        """Call `handler` with each chunk until the end; return why it ended.

        After `cancel` the terminal chunk is still waited for: the engine writes it within one
        iteration. An exception of the handler cancels the stream and is raised.

        Args:
            handler: runs on this thread, without any lock.
            poll: seconds within which a `cancel(wake=False)` is noticed; above 0.
            detach_on_cancel: return as soon as the channel is cancelled and empty.

        Raises:
            ChannelStateError: as in `wait_pop`.
            ValueError: `poll` is not above 0.
        """
        if not poll > 0:
            raise ValueError(f"poll is {poll}; it must be above 0")
        with self.reading_to_the_end():
            while (chunk := self._wait(None, poll, detach_on_cancel)) is not None:
                handler(chunk)
        return self.reason

    def __iter__(self) -> Iterator[StreamChunk]:
        with self.reading_to_the_end():
            while (chunk := self._wait(None, 0.1)) is not None:
                yield chunk

    async def __aiter__(self) -> AsyncGenerator[StreamChunk, None]:
        pipe, event = self._pipe, asyncio.Event()
        with self.reading_to_the_end():
            pipe.waker = waker_of(asyncio.get_running_loop())
            while True:
                chunk = pipe.take()
                if chunk is not None:
                    yield chunk
                    # Other tasks run too, however fast the chunks come.
                    await asyncio.sleep(0)
                    continue
                event.clear()
                pipe.sleeping.append(event)
                # What came before the event was there has not set it.
                if pipe.over:
                    return
                if not pipe.pending:
                    await event.wait()

    @contextmanager
    def reading_to_the_end(self) -> Iterator[None]:
        """Be the one reader; cancel if the reading ends before the stream does.

        Cancelling takes no lock: the garbage collector may end an iterator on a thread that has it.

        Raises:
            ChannelStateError: somebody else reads.
        """
        pipe = self._pipe
        self._claim()
        try:
            yield
        finally:
            pipe.waker = None
            pipe.sleeping.clear()
            if not pipe.finished:
                pipe.cancelled = True
            self._reader.release()

    def _claim(self) -> None:
        """Become the one reader, until `_reader` is released."""
        if not self._reader.acquire(blocking=False):
            raise ChannelStateError(_TAKEN)

    @contextmanager
    def _unattached(self) -> Iterator[Pipe]:
        with self._pipe.lock:
            if self._pipe.owner is not None:
                raise ChannelStateError("the channel belongs to a request already: set this before")
            yield self._pipe

    def _wait(
        self, timeout: float | None, poll: float, detach_on_cancel: bool = False
    ) -> StreamChunk | None:
        """Return the next chunk, or None if none comes in time or ever."""
        pipe = self._pipe
        chunk = pipe.take()
        if chunk is not None:
            return chunk
        deadline = None if timeout is None else monotonic() + timeout
        with pipe.lock:
            # Before looking: a writer who is not told of a wait wakes nobody.
            pipe.waiting += 1
            try:
                while not pipe.pending:
                    if pipe.over or (pipe.cancelled and detach_on_cancel):
                        return None
                    left = poll if deadline is None else deadline - monotonic()
                    if left <= 0:
                        return None
                    if pipe.owner is not None and pipe.owner.thread_id == threading.get_ident():
                        raise ChannelStateError(_WAITS_FOR_ITSELF)
                    pipe.condition.wait(min(left, poll, threading.TIMEOUT_MAX))
            finally:
                pipe.waiting -= 1
        return pipe.take()


async def read_together(channels: Sequence[StreamChannel]) -> AsyncGenerator[Batch, None]:
    """Yield lists of (index, chunk), never empty, each channel's chunks in order, until all end.

    Each list has all that waits, so that a server can write it to a socket at once, without a task
    for each chunk. Other tasks run between two lists, however fast the chunks come. Leaving early
    cancels all channels.

    Raises:
        ChannelStateError: somebody else reads one of the channels.
    """
    waker, event = waker_of(asyncio.get_running_loop()), asyncio.Event()
    left = {index: channel._pipe for index, channel in enumerate(channels)}
    with ExitStack() as stack:
        for channel in channels:
            stack.enter_context(channel.reading_to_the_end())
        others_ran = True
        while left:
            # Cleared before looking: what comes later sets it again.
            event.clear()
            batch: Batch = []
            for index, pipe in [*left.items()]:
                chunks, over = pipe.take_all(waker, event)
                for chunk in chunks:
                    batch.append((index, chunk))
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


def attach(channel: StreamChannel, batch_idx: int, owner: Owner) -> Pipe:
    """Return the pipe of a fresh channel to write to, for the engine alone.

    Args:
        channel: as a reader made it.
        batch_idx: the place of the choice in its submission.
        owner: who writes.

    Raises:
        ChannelStateError: the channel belongs to a request already, or has ended.
    """
    pipe = channel._pipe
    with pipe.lock:
        if pipe.owner is not None or pipe.finished:
            raise ChannelStateError(
                "the channel belongs to a request already: make one for each choice"
            )
        pipe.owner, pipe.batch_idx = owner, batch_idx
    return pipe
