"""What connects the engine to one reader: the chunks that wait, and how either side is woken.

Chunks cross without a lock, which would cost more than the chunk: one thread appends to a deque,
and one takes from it. The lock is for what is rare: a full deque, the end, a reader who waits. No
wake-up is lost, because either side first does its part and then looks at the other's: the writer
appends, then looks for a reader who waits; the reader says that it waits, then looks at what is
there.
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
    """What happens to a chunk that comes while `max_pending` wait.

    COALESCE joins it to the last one that waits: nothing is lost, and the terminal chunk stays the
    last. UNBOUNDED queues it. CANCEL joins it and cancels the stream, with `SlowConsumerError`.
    BLOCK holds the engine up, so an engine accepts it only if it has a single slot.
    """

    COALESCE = "coalesce"
    UNBOUNDED = "unbounded"
    CANCEL = "cancel"
    BLOCK = "block"


class Owner(Protocol):
    """Whoever writes; it says on which thread."""

    thread_id: int | None


class Pipe:
    """A queue of chunks with one writer and one reader, and all that the two share.

    The engine writes to the pipe that it gets from `attach`, one thread at a time: whoever steps
    the engine. The reader has a `StreamChannel`, which the pipe does not know: so a channel that
    its reader drops is collected, although the engine still writes.

    Attributes:
        lock: held to write the terminal chunk, or where `most_pending` wait.
        condition: of the lock; a thread that reads waits here, and a writer with the policy BLOCK.
        waiting: how many threads wait there.
        pending: what the reader has not taken.
        drained: whether the reader has taken the terminal chunk.
        cancelled: a signal handler sets it too, and must not wait for a lock.
        waker: of the asyncio loop that reads.
        sleeping: what to set for a reader in asyncio who may wait; whoever sets it takes it out.
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
        """Whether there is nothing more to read, ever."""
        return self.drained or (self.cancelled and self.owner is None)

    def push(self, chunk: StreamChunk, error: BaseException | None = None) -> None:
        """Write a chunk. A finished one ends the channel, with `error` as what went wrong.

        Raises:
            ChannelStateError: the terminal chunk was written already.
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
        """Return the next chunk, if one waits. The reader."""
        if not self.pending:
            return None
        chunk = self.pending.popleft()
        if self.waiting:
            # A writer with the policy BLOCK, for room.
            with self.lock:
                self.condition.notify_all()
        if not isinstance(chunk, StreamChunk):
            chunk = chunk.join()
        if chunk.finished:
            # The writer keeps the lock until all of the end is known. A second writer, who was
            # about to append, does so where nobody looks.
            with self.lock:
                self.drained, self.pending = True, deque()
        return chunk

    def take_all(self, waker: LoopWaker, event: asyncio.Event) -> tuple[list[StreamChunk], bool]:
        """Return all that waits, and whether nothing more will come; `event` is set when it does.

        For a reader of several pipes, on the loop of `waker`.
        """
        # Before looking: what comes later sets it.
        self.waker = waker
        self.sleeping.append(event)
        chunks = []
        while (chunk := self.take()) is not None:
            chunks.append(chunk)
        return chunks, self.over

    def finish(self, reason: FinishReason, error: BaseException | None = None) -> None:
        """End the channel with an empty chunk, unless it has ended; the first reason stays."""
        last = StreamChunk(finished=True, reason=reason)
        with suppress(ChannelStateError):
            self.push(last, error)

    def wait(self, seconds: float) -> None:
        """Wait for a reader who makes room, or for `wake`. The caller has the lock."""
        self.waiting += 1
        try:
            # Looked at again: a reader who came before the wait was noted wakes nobody.
            if self._is_full and not self.cancelled:
                self.condition.wait(seconds)
        finally:
            self.waiting -= 1

    def wake(self) -> None:
        """Wake the reader, and a writer that waits. Any thread, without the lock."""
        if self.waiting:
            with self.lock:
                self.condition.notify_all()
        waker, event = self.waker, None
        if waker is None:
            return
        if waker.is_closed:
            # The reader is gone with its loop, and could not cancel.
            self.cancelled = True
        else:
            if self.sleeping:
                # In one step: a reader who comes in between would be forgotten.
                with suppress(IndexError):
                    event = self.sleeping.pop()
            waker.set(event)

    def _push_locked(self, chunk: StreamChunk, error: BaseException | None) -> None:
        if self.finished:
            raise ChannelStateError("a chunk came after the terminal one")
        while self.overflow is OverflowPolicy.BLOCK and self._is_full and not self.cancelled:
            # A reader that is dropped, or cancelled by a signal, wakes nobody.
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
        """Add to the last chunk that waits; with the policy CANCEL, end the stream too."""
        is_over = chunk.finished or self.cancelled
        if self.overflow is OverflowPolicy.CANCEL and not is_over:
            self.cancelled = True
            waiting = len(self.pending)
            self.error = SlowConsumerError(f"{waiting} chunks waited for the reader")
        try:
            # The reader must not take it while it grows.
            last = self.pending.pop()
        except IndexError:
            # The reader has taken all of them meanwhile.
            self.pending.append(chunk)
            return
        if isinstance(last, StreamChunk):
            last = JoinedChunks(last)
        last.add(chunk)
        self.pending.append(last)
