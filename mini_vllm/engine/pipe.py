"""The connection of the engine to one reader: pending chunks, and the waking of either side.

Chunks cross without a lock, which would cost more than the chunk: one thread appends to a deque,
and another takes from it. The lock is for rare cases: a full deque, the end, a waiting reader. No
wake-up is lost, because each side acts before it looks. The writer appends a chunk, then looks for
a waiting reader; the reader announces that it waits, then looks for a chunk.
"""

import asyncio
import sys
import threading
from collections import deque
from contextlib import suppress
from enum import Enum
from typing import Protocol

from mini_vllm.engine.engine_errors import ChannelStateError, SlowConsumerError
from mini_vllm.engine.loop_waker import LoopWaker
from mini_vllm.engine.outputs import JoinedChunks, StreamChunk
from mini_vllm.finish_reason import FinishReason


class OverflowPolicy(Enum):
    """What happens to a chunk that is written while `max_pending` chunks are pending.

    COALESCE joins it to the last pending chunk: nothing is lost, and the terminal chunk stays the
    last. UNBOUNDED queues it. CANCEL joins it and cancels the stream, with `SlowConsumerError`.
    BLOCK makes the engine wait, so only an engine with a single slot accepts this policy.
    """

    COALESCE = "coalesce"
    UNBOUNDED = "unbounded"
    CANCEL = "cancel"
    BLOCK = "block"


class Owner(Protocol):
    """The writer of a pipe; `thread_id` is the thread on which it writes."""

    thread_id: int | None


class Pipe:
    """A queue of chunks with one writer and one reader, and the state that they share.

    The engine writes to the pipe that it gets from `attach`, on the thread that steps the engine;
    only one thread steps at a time. The reader has a `StreamChannel`. The pipe has no reference to
    that channel, so a channel that its reader drops is collected, although the engine still writes.

    Attributes:
        lock: held to write the terminal chunk, or any chunk while `most_pending` are pending.
        condition: of the lock; a reading thread waits here, and a writer with the policy BLOCK.
        waiting: how many threads wait at the condition.
        pending: the chunks that the reader has not taken.
        drained: whether the reader has taken the terminal chunk.
        cancelled: a signal handler sets it too, and must not wait for a lock.
        waker: of the asyncio loop that reads.
        sleeping: the event of a reader in asyncio that may wait; the thread that sets the event
            removes it from here.
    """

    def __init__(self, max_pending: int | None, overflow: OverflowPolicy) -> None:
        self.lock = threading.Lock()
        self.condition = threading.Condition(self.lock)
        self.waiting = 0
        self.pending: deque[StreamChunk | JoinedChunks] = deque()
        self.most_pending = sys.maxsize if max_pending is None else max_pending
        self.overflow = overflow
        self.cancelled = False
        self.finished = False
        self.drained = False
        self.reason = FinishReason.NOT_FINISHED
        self.error: BaseException | None = None
        self.owner: Owner | None = None
        self.batch_idx = -1
        self.stream_interval = 1
        self.skip_special_tokens = True
        self.return_held = False
        self.waker: LoopWaker | None = None
        self.sleeping: deque[asyncio.Event] = deque(maxlen=1)

    @property
    def over(self) -> bool:
        """Whether no chunk will ever follow."""
        return self.drained or (self.cancelled and self.owner is None)

    def push(self, chunk: StreamChunk, error: BaseException | None = None) -> None:
        """Write a chunk. A finished chunk ends the channel, with `error` as its error.

        Raises:
            ChannelStateError: the terminal chunk has already been written.
        """
        pending = self.pending
        if self.finished or chunk.finished or len(pending) >= self.most_pending:
            with self.lock:
                self._push_locked(chunk, error)
        else:
            pending.append(chunk)
        if self.waiting or self.waker is not None:
            self.wake()

    def take(self) -> StreamChunk | None:
        """Return the next chunk, or None if no chunk is pending. For the reader."""
        if not self.pending:
            return None
        chunk = self.pending.popleft()
        if self.waiting:
            # A writer with the policy BLOCK waits for room.
            with self.lock:
                self.condition.notify_all()
        if not isinstance(chunk, StreamChunk):
            chunk = chunk.join()
        if chunk.finished:
            # The writer keeps the lock until reason and error are set. A second writer, which was
            # about to append, appends to the old deque, which is not read any more.
            with self.lock:
                self.drained, self.pending = True, deque()
        return chunk

    def take_all(self, waker: LoopWaker, event: asyncio.Event) -> tuple[list[StreamChunk], bool]:
        """Return all pending chunks, and whether the pipe is over; the next chunk sets `event`.

        For a reader of several pipes, on the loop of `waker`.
        """
        # Stored before the look: a later chunk sets the event.
        self.waker = waker
        self.sleeping.append(event)
        chunks = []
        while (chunk := self.take()) is not None:
            chunks.append(chunk)
        return chunks, self.over

    def finish(self, reason: FinishReason, error: BaseException | None = None) -> None:
        """End the channel with an empty chunk, unless it has ended; its first reason stays."""
        last = StreamChunk(finished=True, reason=reason)
        with suppress(ChannelStateError):
            self.push(last, error)

    def wait(self, seconds: float) -> None:
        """Wait until the reader makes room, or for `wake`. The caller has the lock."""
        self.waiting += 1
        try:
            # Checked again: a reader that took a chunk before this wait was counted wakes nothing.
            if self._is_full and not self.cancelled:
                self.condition.wait(seconds)
        finally:
            self.waiting -= 1

    def wake(self) -> None:
        """Wake the reader, and a writer that waits. Any thread may call this, without the lock."""
        if self.waiting:
            with self.lock:
                self.condition.notify_all()
        waker, event = self.waker, None
        if waker is None:
            return
        if waker.is_closed:
            # The reader ended with its loop, and could not cancel.
            self.cancelled = True
        else:
            if self.sleeping:
                # In one step: between two steps, a reader could add an event that is never set.
                with suppress(IndexError):
                    event = self.sleeping.pop()
            waker.set(event, self.pending)

    def _push_locked(self, chunk: StreamChunk, error: BaseException | None) -> None:
        if self.finished:
            raise ChannelStateError("a chunk was written after the terminal chunk")
        while self.overflow is OverflowPolicy.BLOCK and self._is_full and not self.cancelled:
            # A dropped reader, or a cancellation by a signal handler, wakes no writer.
            self.wait(0.1)
        if self._is_full:
            self._join(chunk)
        else:
            self.pending.append(chunk)
        if chunk.finished:
            self.finished, self.reason = True, chunk.reason
            self.error = error or self.error

    @property
    def _is_full(self) -> bool:
        return len(self.pending) >= self.most_pending

    def _join(self, chunk: StreamChunk) -> None:
        """Join a chunk to the last pending chunk; the policy CANCEL also cancels the stream."""
        is_over = chunk.finished or self.cancelled
        if self.overflow is OverflowPolicy.CANCEL and not is_over:
            self.cancelled = True
            waiting = len(self.pending)
            self.error = SlowConsumerError(f"{waiting} chunks waited for the reader")
        try:
            # Removed, because the reader must not take it while it grows.
            last = self.pending.pop()
        except IndexError:
            # The reader has taken all chunks meanwhile.
            self.pending.append(chunk)
            return
        if isinstance(last, StreamChunk):
            last = JoinedChunks(last)
        last.add(chunk)
        self.pending.append(last)
