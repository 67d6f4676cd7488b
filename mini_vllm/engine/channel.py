"""A one-way pipe from the engine to one reader, who can neither hold it up nor miss its end.

A channel is read on a thread (`consume`, iteration, `wait_pop`, `try_pop`) or in asyncio (`async
for`). Its last chunk, and no other, is `finished`. What writes to it is a `Producer`, which the
engine alone gets, once a channel.

But:
- It has one reader. A second one at the same time is refused.
- It knows nothing of tokens; it moves chunks, and joins them when the reader is slow.

Source: seed 004.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from mini_vllm.engine.chunk import StreamChunk
from mini_vllm.engine.engine_errors import ChannelStateError
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.loop_waker import LoopWaker, waker_of
from mini_vllm.engine.producer import ChannelCore, OverflowPolicy, Owner, Producer


class StreamChannel:
    """The reader's side; make one with `StreamChannel.create`.

    A channel that is dropped by its reader, or whose reading ends early, cancels its stream.
    """

    __slots__ = ("__weakref__", "_core", "_reader")

    _core: ChannelCore
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
            max_pending: most chunks that wait for the reader; None for any number.
            overflow: what happens to more.

        Raises:
            ValueError: `max_pending` is below 1.
        """
        if max_pending is not None and max_pending < 1:
            raise ValueError(f"max_pending is {max_pending}; it must be at least 1, or None")
        if overflow is OverflowPolicy.UNBOUNDED:
            max_pending = None
        channel = object.__new__(cls)
        channel._core = ChannelCore(max_pending, overflow)
        channel._reader = threading.Lock()
        return channel

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.cancelled = True

    @property
    def is_attached(self) -> bool:
        """Whether a request has it."""
        return self._core.owner is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether the reader wants no more."""
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
        """The place of its choice in the submission, whatever slots it moves through; -1 before."""
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
        """How many ids a chunk has at least, the last one excepted."""
        return self._core.stream_interval

    @property
    def skip_special_tokens(self) -> bool:
        """Whether special tokens are left out of the text."""
        return self._core.skip_special_tokens

    @property
    def return_held(self) -> bool:
        """Whether every iteration makes a chunk, which says what each layer holds."""
        return self._core.return_held

    def set_stream_interval(self, interval: int) -> None:
        """Set the least number of ids in a chunk; less than 1 means 1.

        Raises:
            ChannelStateError: a request has the channel already.
        """
        with self._unattached():
            self._core.stream_interval = max(1, interval)

    def set_skip_special_tokens(self, skip: bool) -> None:
        """Set whether special tokens are left out of the text. A request may still show them.

        Raises:
            ChannelStateError: a request has the channel already.
        """
        with self._unattached():
            self._core.skip_special_tokens = skip

    def set_return_held(self, held: bool) -> None:
        """Set whether every iteration makes a chunk, even one without text, with `held`.

        Raises:
            ChannelStateError: a request has the channel already.
        """
        with self._unattached():
            self._core.return_held = held

    def cancel(self, *, wake: bool = True) -> None:
        """Ask for the end; any thread, any number of times.

        The engine sees it at its next iteration and writes the terminal chunk.

        Args:
            wake: wake a waiting reader at once. A signal handler passes False, because it may have
                interrupted whoever has the lock; the reader then notices within its `poll`, and one
                in asyncio, or in `wait_pop`, at the terminal chunk.
        """
        core = self._core
        core.cancelled = True
        if wake:
            with core.lock:
                core.wake()

    def try_pop(self) -> StreamChunk | None:
        """Return the next chunk, or None if none waits.

        Raises:
            ChannelStateError: somebody else reads.
        """
        with self._reading(), self._core.lock:
            return self._take()

    def wait_pop(self, timeout: float) -> StreamChunk | None:
        """Return the next chunk, or None when none came in time or none will come.

        Args:
            timeout: seconds.

        Raises:
            ChannelStateError: somebody else reads, or this is the engine's own thread and would
                wait for itself.
        """
        with self._reading():
            return self._wait(timeout, timeout)

    def consume(
        self,
        handler: Callable[[StreamChunk], object],
        *,
        poll: float = 0.1,
        detach_on_cancel: bool = False,
    ) -> FinishReason:
        """Call `handler` with each chunk until the end; return why it ended.

        After `cancel` the terminal chunk is still waited for: the engine writes it within one
        iteration. An exception of the handler cancels and is raised.

        Args:
            handler: runs on this thread, with no lock held.
            poll: seconds after which a `cancel(wake=False)` is noticed at the latest; above 0.
            detach_on_cancel: return as soon as the channel is cancelled and empty.

        Raises:
            ChannelStateError: somebody else reads, or this is the engine's own thread and would
                wait for itself.
            ValueError: `poll` is not above 0.
        """
        if not poll > 0:
            raise ValueError(f"poll is {poll}; it must be above 0")
        with self._reading(), self._cancelling():
            while (chunk := self._wait(None, poll, detach_on_cancel)) is not None:
                handler(chunk)
        return self.reason

    def __iter__(self) -> Iterator[StreamChunk]:
        with self._reading(), self._cancelling():
            while (chunk := self._wait(None, 0.1)) is not None:
                yield chunk

    async def __aiter__(self) -> AsyncGenerator[StreamChunk, None]:
        core, event = self._core, asyncio.Event()
        with self._reading(), self._cancelling():
            core.waker = waker_of(asyncio.get_running_loop())
            while True:
                with core.lock:
                    chunk = self._take()
                    if chunk is None:
                        if core.over:
                            return
                        event.clear()
                        core.event = event
                if chunk is not None:
                    yield chunk
                    # Other tasks run too, however fast the chunks come.
                    await asyncio.sleep(0)
                else:
                    await event.wait()

    def _take(self) -> StreamChunk | None:
        core = self._core
        if not core.pending:
            return None
        if core.overflow is OverflowPolicy.BLOCK:
            core.condition.notify_all()
        return core.pending.pop()

    def _take_all(self, waiter: tuple[LoopWaker, asyncio.Event]) -> tuple[list[StreamChunk], bool]:
        """Return all that waits and whether nothing will come; if both are no, arm the waiter."""
        core = self._core
        with core.lock:
            chunks = []
            while (chunk := self._take()) is not None:
                chunks.append(chunk)
            if not core.over:
                core.waker, core.event = waiter
            return chunks, core.over

    def _wait(
        self, timeout: float | None, poll: float, detach_on_cancel: bool = False
    ) -> StreamChunk | None:
        core = self._core
        deadline = None if timeout is None else monotonic() + timeout
        with core.lock:
            while not core.pending:
                if core.over or (core.cancelled and detach_on_cancel):
                    return None
                left = poll if deadline is None else deadline - monotonic()
                if left <= 0:
                    return None
                if core.owner is not None and core.owner.thread_id == threading.get_ident():
                    raise ChannelStateError(
                        "this thread runs the engine and would wait for itself: "
                        "read on another thread, or let the engine step first"
                    )
                core.wait(min(left, poll, threading.TIMEOUT_MAX))
            return self._take()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        if not self._reader.acquire(blocking=False):
            raise ChannelStateError("somebody reads this channel already; it has one reader")
        try:
            yield
        finally:
            self._reader.release()

    @contextmanager
    def _cancelling(self) -> Iterator[None]:
        """Cancel when the reading ends before the stream does.

        No lock is taken: the garbage collector may end an iterator on a thread that has it.
        """
        core = self._core
        try:
            yield
        finally:
            core.waker = core.event = None
            if not core.finished:
                core.cancelled = True

    @contextmanager
    def _unattached(self) -> Iterator[None]:
        with self._core.lock:
            if self._core.owner is not None:
                raise ChannelStateError("a request has the channel already: set this before")
            yield


def _attach(channel: StreamChannel, batch_idx: int, owner: Owner) -> Producer:
    """Give the writer's side of a fresh channel to its one writer.

    Raises:
        ChannelStateError: a request has it already.
    """
    core = channel._core
    with core.lock:
        if core.owner is not None or core.finished:
            raise ChannelStateError("a request has the channel already: make one for each choice")
        core.owner, core.batch_idx = owner, batch_idx
    return Producer(core)
