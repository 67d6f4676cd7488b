"""A one-way pipe from the engine to one reader, who can neither hold it up nor miss its end.

    engine -> Producer.push -> what waits -> StreamChannel.consume -> reader

A channel is read on a thread (`consume`, iteration, `wait_pop`, `try_pop`) or in asyncio (`async
for`), by one reader at a time. Its last chunk, and only that one, is `finished`.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from mini_vllm.engine.engine_errors import ChannelStateError
from mini_vllm.engine.loop_waker import LoopWaker, waker_of
from mini_vllm.engine.outputs import StreamChunk
from mini_vllm.engine.producer import OverflowPolicy, Owner, Producer
from mini_vllm.finish_reason import FinishReason

_TAKEN = "another reader has this channel; it takes one at a time"
_WAITS_FOR_ITSELF = (
    "this thread runs the engine and would wait for itself: "
    "read on another thread, or let the engine step first"
)


class StreamChannel:
    """The reader's side; make one with `StreamChannel.create`.

    A channel that its reader drops, or stops reading before the end, cancels its stream.
    """

    __slots__ = ("__weakref__", "_core", "_reader")

    _core: Producer
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
        channel._core = Producer(None if unbounded else max_pending, overflow)
        channel._reader = threading.Lock()
        return channel

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.cancelled = True

    @property
    def is_attached(self) -> bool:
        """Whether it belongs to a request."""
        return self._core.owner is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether the reader asked for the end."""
        return self._core.cancelled

    @property
    def is_finished(self) -> bool:
        """Whether the terminal chunk was written."""
        return self._core.finished

    @property
    def reason(self) -> FinishReason:
        """Why the stream ended; NOT_FINISHED while it runs."""
        return self._core.reason

    @property
    def error(self) -> BaseException | None:
        """What went wrong: if the reason is ERROR, or the policy CANCEL ended the stream."""
        return self._core.error

    @property
    def original_batch_idx(self) -> int:
        """The place of its choice in the submission, whatever its slot; -1 before."""
        return self._core.batch_idx

    @property
    def pending_count(self) -> int:
        """How many chunks wait."""
        return len(self._core.pending)

    @property
    def overflow(self) -> OverflowPolicy:
        """What happens to chunks that come while too many wait."""
        return self._core.overflow

    @property
    def stream_interval(self) -> int:
        """The least number of ids in a chunk; the last chunk may have fewer."""
        return self._core.stream_interval

    @property
    def skip_special_tokens(self) -> bool:
        """Whether special tokens are left out of the text."""
        return self._core.skip_special_tokens

    @property
    def return_held(self) -> bool:
        """Whether every id makes a chunk, which says what each layer holds."""
        return self._core.return_held

    def set_stream_interval(self, interval: int) -> None:
        """Set the least number of ids in a chunk; less than 1 means 1.

        Raises:
            ChannelStateError: the channel belongs to a request already.
        """
        with self._unattached() as core:
            core.stream_interval = max(1, interval)

    def set_skip_special_tokens(self, skip: bool) -> None:
        """Set whether special tokens are left out of the text. A request may still show them.

        Raises:
            ChannelStateError: the channel belongs to a request already.
        """
        with self._unattached() as core:
            core.skip_special_tokens = skip

    def set_return_held(self, held: bool) -> None:
        """Set whether every id makes a chunk, even one without text, with `held`.

        Ids that a model gives together come apart then, so that each shows what it does.

        Raises:
            ChannelStateError: the channel belongs to a request already.
        """
        with self._unattached() as core:
            core.return_held = held

    def announce_reader(self) -> None:
        """Say that a task of the running loop is about to read: the loop has its turns until then.

        Raises:
            RuntimeError: no loop runs on this thread.
        """
        self._core.waker = waker_of(asyncio.get_running_loop())

    def cancel(self, *, wake: bool = True) -> None:
        """Ask for the end; any thread, any number of times.

        The engine sees it at its next iteration and writes the terminal chunk.

        Args:
            wake: wake a waiting reader at once. A signal handler passes False, because it may have
                interrupted the holder of the lock; the reader then notices within its `poll`, and
                one in asyncio, or in `wait_pop`, at the terminal chunk.
        """
        self._core.cancelled = True
        if wake:
            self._core.wake()

    def try_pop(self) -> StreamChunk | None:
        """Return the next chunk, or None if none waits.

        Raises:
            ChannelStateError: somebody else reads.
        """
        if self._reader.locked():
            raise ChannelStateError(_TAKEN)
        try:
            return self._core.take()
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
        core, event = self._core, asyncio.Event()
        with self.reading_to_the_end():
            core.waker = waker_of(asyncio.get_running_loop())
            while True:
                chunk = core.take()
                if chunk is not None:
                    yield chunk
                    # Other tasks run too, however fast the chunks come.
                    await asyncio.sleep(0)
                    continue
                event.clear()
                core.sleeping.append(event)
                # What came before the event was there has not set it.
                if core.over:
                    return
                if not core.pending:
                    await event.wait()

    def take_all(self, waker: LoopWaker, event: asyncio.Event) -> tuple[list[StreamChunk], bool]:
        """Return all that waits, and whether nothing more will come; `event` is set when it does.

        For a reader of several channels, inside `reading_to_the_end`.
        """
        core, chunks = self._core, []
        # Before looking: what comes later sets it.
        core.waker = waker
        core.sleeping.append(event)
        while (chunk := core.take()) is not None:
            chunks.append(chunk)
        return chunks, core.over

    @contextmanager
    def reading_to_the_end(self) -> Iterator[None]:
        """Be the one reader; cancel if the reading ends before the stream does.

        Cancelling takes no lock: the garbage collector may end an iterator on a thread that has it.

        Raises:
            ChannelStateError: somebody else reads.
        """
        core = self._core
        self._claim()
        try:
            yield
        finally:
            core.waker = None
            core.sleeping.clear()
            if not core.finished:
                core.cancelled = True
            self._reader.release()

    def _claim(self) -> None:
        """Become the one reader, until `_reader` is released."""
        if not self._reader.acquire(blocking=False):
            raise ChannelStateError(_TAKEN)

    @contextmanager
    def _unattached(self) -> Iterator[Producer]:
        with self._core.lock:
            if self._core.owner is not None:
                raise ChannelStateError("the channel belongs to a request already: set this before")
            yield self._core

    def _wait(
        self, timeout: float | None, poll: float, detach_on_cancel: bool = False
    ) -> StreamChunk | None:
        """Return the next chunk, or None if none comes in time or ever."""
        core = self._core
        chunk = core.take()
        if chunk is not None:
            return chunk
        deadline = None if timeout is None else monotonic() + timeout
        with core.lock:
            # Before looking: a writer who is not told of a wait wakes nobody.
            core.waiting += 1
            try:
                while not core.pending:
                    if core.over or (core.cancelled and detach_on_cancel):
                        return None
                    left = poll if deadline is None else deadline - monotonic()
                    if left <= 0:
                        return None
                    if core.owner is not None and core.owner.thread_id == threading.get_ident():
                        raise ChannelStateError(_WAITS_FOR_ITSELF)
                    core.condition.wait(min(left, poll, threading.TIMEOUT_MAX))
            finally:
                core.waiting -= 1
        return core.take()


def attach(channel: StreamChannel, batch_idx: int, owner: Owner) -> Producer:
    """Return the writer's side of a fresh channel, for the engine alone.

    Args:
        channel: as a reader made it.
        batch_idx: the place of the choice in its submission.
        owner: who writes.

    Raises:
        ChannelStateError: the channel belongs to a request already, or has ended.
    """
    core = channel._core
    with core.lock:
        if core.owner is not None or core.finished:
            raise ChannelStateError(
                "the channel belongs to a request already: make one for each choice"
            )
        core.owner, core.batch_idx = owner, batch_idx
    return core
