"""The writer's side of a channel, and what it shares with the reader's.

But: whoever writes gets a `Producer` from `channel._attach`, once a channel; this file gives none.
"""

import asyncio
import threading
from enum import Enum
from typing import Protocol

from mini_vllm.engine.chunk import StreamChunk
from mini_vllm.engine.chunk_buffer import ChunkBuffer
from mini_vllm.engine.engine_errors import ChannelStateError, SlowConsumerError
from mini_vllm.engine.finish import FinishReason
from mini_vllm.engine.loop_waker import LoopWaker


class OverflowPolicy(Enum):
    """What happens to a chunk that comes while `max_pending` wait.

    COALESCE joins it to the last one that waits: nothing is lost, and the terminal chunk stays the
    last. UNBOUNDED queues it. CANCEL joins it and cancels the stream, with `SlowConsumerError`.
    BLOCK holds the engine up, so an engine takes it only if it has a single slot.
    """

    COALESCE = "coalesce"
    UNBOUNDED = "unbounded"
    CANCEL = "cancel"
    BLOCK = "block"


class Owner(Protocol):
    """Who writes: it says on which thread."""

    thread_id: int | None


class ChannelCore:
    """What the reader's and the writer's side share. All but `cancelled` changes under the lock.

    `cancelled` may be set by a signal handler, which must not wait for a lock.
    """

    def __init__(self, max_pending: int | None, overflow: OverflowPolicy) -> None:
        self.lock = threading.Lock()
        self.condition = threading.Condition(self.lock)
        # How many threads wait at the condition: telling nobody costs as much as telling one.
        self.waiting = 0
        self.pending = ChunkBuffer(max_pending)
        self.overflow = overflow
        self.cancelled = False
        self.finished = False
        self.reason = FinishReason.NOT_FINISHED
        self.error: BaseException | None = None
        self.owner: Owner | None = None
        self.batch_idx = -1
        self.stream_interval = 1
        self.skip_special_tokens = True
        self.return_held = False
        # Of a reader in asyncio: its loop while it reads, and what to set while it waits.
        self.waker: LoopWaker | None = None
        self.event: asyncio.Event | None = None

    @property
    def over(self) -> bool:
        """Whether nothing will come any more."""
        return self.finished or (self.cancelled and self.owner is None)

    def wait(self, seconds: float) -> None:
        """Wait for `wake`. The caller has the lock."""
        self.waiting += 1
        try:
            self.condition.wait(seconds)
        finally:
            self.waiting -= 1

    def wake(self) -> None:
        """Tell the reader, and a writer that waits. The caller has the lock."""
        if self.waiting:
            self.condition.notify_all()
        waker, event = self.waker, self.event
        if waker is None:
            return
        if waker.is_closed:
            # And so is the reader, who could not say so.
            self.cancelled = True
        elif event is not None:
            self.event = None
            waker.set(event)


class Producer:
    """The writer's side of one channel. Only the engine's thread uses it.

    Attributes:
        core: what the reader has set, and whether it wants no more.
    """

    __slots__ = ("core",)

    def __init__(self, core: ChannelCore) -> None:
        self.core = core

    def push(self, chunk: StreamChunk, error: BaseException | None = None) -> None:
        """Write a chunk. A finished one ends the channel, with `error` as what went wrong.

        Raises:
            ChannelStateError: the terminal chunk was written already.
        """
        core = self.core
        with core.lock:
            if core.finished:
                raise ChannelStateError("a chunk came after the terminal one")
            if core.overflow is OverflowPolicy.BLOCK:
                while core.pending.full and not core.cancelled:
                    # A reader that is dropped, or left by a signal, wakes nobody.
                    core.wait(0.1)
            ends = chunk.finished or core.cancelled
            if core.overflow is OverflowPolicy.CANCEL and core.pending.full and not ends:
                core.cancelled = True
                core.error = SlowConsumerError(f"{len(core.pending)} chunks waited for the reader")
            core.pending.push(chunk)
            if chunk.finished:
                core.finished, core.reason = True, chunk.reason
                core.error = error or core.error
            core.wake()

    def finish(self, reason: FinishReason, error: BaseException | None = None) -> None:
        """End the channel with an empty chunk, unless it has ended; the first reason stays."""
        with_end = StreamChunk(finished=True, reason=reason)
        try:
            self.push(with_end, error)
        except ChannelStateError:
            return
