"""The reader's end of a pipe: it never delays the engine, and it always delivers the end.

    engine -> Pipe.push -> pending chunks -> StreamChannel.consume -> reader

A channel is read on a thread (`consume`, iteration, `wait_pop`, `try_pop`) or in asyncio (`async
for`), by one reader at a time. `read_together` reads several channels and takes all pending chunks
at once, as the server does. Only the last chunk of a channel is `finished`.
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
_TAKEN = "another reader has this channel; it takes readers one at a time"
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
            max_pending: the most chunks that may be pending; None for any number.
            overflow: what happens to a chunk beyond that number.

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
        """Whether the channel belongs to a request."""
        return self._pipe.owner is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether the reader cancelled the stream."""
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
        """The error, if the reason is ERROR or the policy CANCEL ended the stream."""
        return self._pipe.error

    @property
    def original_batch_idx(self) -> int:
        """The index of its choice in the submission, not its slot; -1 before it is attached."""
        return self._pipe.batch_idx

    @property
    def pending_count(self) -> int:
        """How many chunks are pending."""
        return len(self._pipe.pending)

    @property
    def overflow(self) -> OverflowPolicy:
        """What happens to a chunk that is written while `max_pending` chunks are pending."""
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
            ChannelStateError: the channel already belongs to a request.
        """
        with self._unattached() as pipe:
            pipe.stream_interval = max(1, interval)

    def set_skip_special_tokens(self, skip: bool) -> None:
        """Set whether special tokens are left out of the text. A request may still show them.

        Raises:
            ChannelStateError: the channel already belongs to a request.
        """
        with self._unattached() as pipe:
            pipe.skip_special_tokens = skip

    def set_return_held(self, held: bool) -> None:
        """Set whether every id makes a chunk with `held`, even an id without text.

        The ids of a burst are then reported in separate chunks, so that each shows its effect.

        Raises:
            ChannelStateError: the channel already belongs to a request.
        """
        with self._unattached() as pipe:
            pipe.return_held = held

    def announce_reader(self) -> None:
        """Announce a reader on the running loop, so that the engine already gives the loop turns.

        Raises:
            RuntimeError: no loop runs on this thread.
        """
        self._pipe.waker = waker_of(asyncio.get_running_loop())

    def cancel(self, *, wake: bool = True) -> None:
        """Cancel the stream. Any thread may call this, any number of times.

        At its next iteration the engine sees the mark and writes the terminal chunk.

        Args:
            wake: wake a waiting reader at once. A signal handler passes False, because it may have
                interrupted the holder of the lock. A reader in `consume` then notices within its
                `poll`; a reader in asyncio or in `wait_pop` notices at the terminal chunk.
        """
        self._pipe.cancelled = True
        if wake:
            self._pipe.wake()

    def try_pop(self) -> StreamChunk | None:
        """Return the next chunk, or None if no chunk is pending.

        Raises:
            ChannelStateError: another reader has the channel.
        """
        if self._reader.locked():
            raise ChannelStateError(_TAKEN)
        try:
            return self._pipe.take()
        except IndexError:
            # Two threads tried at once, and the other thread took the chunk.
            return None

    def wait_pop(self, timeout: float) -> StreamChunk | None:
        """Return the next chunk, or None after `timeout` seconds or at the end of the stream.

        Raises:
            ChannelStateError: another reader has the channel, or this is the engine's own thread,
                which would wait for itself.
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
        """Call `handler` with each chunk until the end; return why the stream ended.

        After `cancel` this still waits for the terminal chunk, which the engine writes within one
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
                    # Let other tasks run too, however fast the engine writes.
                    await asyncio.sleep(0)
                    continue
                event.clear()
                pipe.sleeping.append(event)
                # A chunk that was written before `sleeping` had the event has not set it.
                if pipe.over:
                    return
                if not pipe.pending:
                    await event.wait()

    @contextmanager
    def reading_to_the_end(self) -> Iterator[None]:
        """Claim the channel; cancel it if the reading ends before the stream does.

        Cancelling takes no lock: the garbage collector may end an iterator on a thread that has it.

        Raises:
            ChannelStateError: another reader has the channel.
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
        """Become the only reader, until `_reader` is released."""
        if not self._reader.acquire(blocking=False):
            raise ChannelStateError(_TAKEN)

    @contextmanager
    def _unattached(self) -> Iterator[Pipe]:
        with self._pipe.lock:
            if self._pipe.owner is not None:
                raise ChannelStateError("the channel already belongs to a request: set this before")
            yield self._pipe

    def _wait(
        self, timeout: float | None, poll: float, detach_on_cancel: bool = False
    ) -> StreamChunk | None:
        """Return the next chunk, or None after the time limit or at the end of the stream."""
        pipe = self._pipe
        chunk = pipe.take()
        if chunk is not None:
            return chunk
        deadline = None if timeout is None else monotonic() + timeout
        with pipe.lock:
            # Counted before the first look: a writer wakes only the readers that are counted.
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

    Each list has all pending chunks, so that a server can write them to a socket at once, without a
    task for each chunk. Other tasks run between two lists, however fast the engine writes. Leaving
    early cancels all channels.

    Raises:
        ChannelStateError: another reader has one of the channels.
    """
    waker, event = waker_of(asyncio.get_running_loop()), asyncio.Event()
    left = {index: channel._pipe for index, channel in enumerate(channels)}
    with ExitStack() as stack:
        for channel in channels:
            stack.enter_context(channel.reading_to_the_end())
        others_ran = True
        while left:
            # Cleared before the look: a later chunk sets it again.
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
        # Let the other streams send their first text before this stream ends.
        await asyncio.sleep(0)


def attach(channel: StreamChannel, batch_idx: int, owner: Owner) -> Pipe:
    """Return the pipe of a fresh channel, for the engine to write to.

    Args:
        channel: as a reader made it.
        batch_idx: the index of the choice in its submission.
        owner: the writer.

    Raises:
        ChannelStateError: the channel already belongs to a request, or has ended.
    """
    pipe = channel._pipe
    with pipe.lock:
        if pipe.owner is not None or pipe.finished:
            raise ChannelStateError(
                "the channel already belongs to a request: make a channel for each choice"
            )
        pipe.owner, pipe.batch_idx = owner, batch_idx
    return pipe
