"""Waking tasks of an asyncio loop from another thread, and leaving the loop time to run them.

Each `call_soon_threadsafe` writes to a socket, which may cost the calling thread its turn. An
engine with chunks for a hundred readers in one iteration calls it once.

Python's threads share one lock. The loop releases the lock at every write to a socket, and a thread
that only computes then keeps it for 5 ms: an engine with a quick model would let the loop write 200
times a second. So the engine's thread sometimes waits until the loop has had its turn.

Waking a reader costs as much as several chunks. Behind a quick model many readers wait with several
chunks each, and a turn wakes only the readers that have waited longest:

    turn 1   A 4  B 4  C 4    A sends 4 chunks
    turn 2   B 8  C 8  A 4    B sends 8
    turn 3   C 12  A 8  B 4   C sends 12
    turn 4   A 12  B 8  C 4   A sends 12, and so on

Each turn sends as many chunks as the engine writes between two turns, so other requests wait no
longer, and each reader wakes a third as often.
"""

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sized
from contextlib import suppress

_LINGER_SECONDS = 0.001
# The readers that a turn did not wake are left for the engine's next wait, if that follows so soon.
_LEFT_SECONDS = 0.02
# So many readers are always woken together.
_FEW_READERS = 32
# A turn sends one chunk in so many.
_SHARE = 3
_LOCK = threading.Lock()
_WAKERS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWaker]" = (
    weakref.WeakKeyDictionary()
)


class LoopWaker:
    """Sets events of one loop. Any thread may use it.

    A turn of the loop begins with setting all queued events, and ends when the tasks that they wake
    have run.

    Attributes:
        ahead: how many chunks were written for readers of the loop since its last turn began.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: deque[tuple[asyncio.Event, Sized]] = deque()
        self._called = False
        self._lock = threading.Lock()
        self.ahead = 0
        self._turn_ended = threading.Event()
        self._is_awaited = False
        self._is_late = False
        self._is_left = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_closed(self) -> bool:
        """Whether the loop is closed, so that its tasks will never run again."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def set(self, event: asyncio.Event | None, pending: Sized) -> None:
        """Count a chunk that was written; set the event of its reader soon, if the reader waits.

        Args:
            event: the event that the reader waits for, or None if it does not wait.
            pending: the chunks that the reader has not taken.
        """
        self.ahead += 1
        if event is None:
            return
        self._waiting.append((event, pending))
        # The mark is removed before the last look at the queue, so this event is noticed.
        if not self._called and self._mark():
            self._call(self._begin_turn)

    def wait_for_turn(self, seconds: float) -> None:
        """Wait for the loop's next turn to end.

        If the loop has no turn in time, further calls return at once until it has had one: the
        engine does not wait for other work of the loop.

        Args:
            seconds: the longest wait.
        """
        if not self._is_late and not self.is_closed:
            self._turn_ended.clear()
            self._is_awaited = True
            self._call(self._begin_awaited_turn)
            self._is_late = not self._turn_ended.wait(seconds)

    def _mark(self) -> bool:
        """Mark the loop as called; return whether it was not marked yet."""
        with self._lock:
            before, self._called = self._called, True
        return not before

    def _call(self, function: Callable[[], None]) -> None:
        # It raises if the loop has just been closed.
        with suppress(RuntimeError):
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(function)

    def _begin_turn(self) -> None:
        # If the engine waits for a turn, that turn has already been called.
        if not self._is_awaited:
            self._wake_readers(1)

    def _begin_awaited_turn(self) -> None:
        self._is_awaited = False
        self._wake_readers(_SHARE if len(self._waiting) > _FEW_READERS else 1)

    def _wake_readers(self, share: int) -> None:
        """Wake the readers that have waited longest for one pending chunk in `share`."""
        self.ahead = 0
        waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
        counts = [len(pending) for _, pending in waiting]
        room = sum(counts) / share
        left = []
        for (event, pending), count in zip(waiting, counts, strict=True):
            # A single chunk may be the first text of an answer.
            if room > 0 or share == 1 or count <= 1:
                event.set()
                room -= count
            else:
                left.append((event, pending))
        self._waiting.extendleft(reversed(left))
        self._is_left = bool(left)
        # The woken tasks are already in the loop's queue, before this call.
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_late = False
        self._turn_ended.set()
        # Until then the mark stays: the loop takes many chunks of a quick model at a time. With a
        # slow model the mark is gone before the next chunk, which then calls at once.
        seconds = _LEFT_SECONDS if self._is_left else _LINGER_SECONDS
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look_again)

    def _look_again(self) -> None:
        self._called = False
        # Checked after that: an event that was added before it has not called the loop.
        if self._waiting and self._mark():
            self._begin_turn()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """Return the waker that all readers of a loop share."""
    with _LOCK:
        if loop not in _WAKERS:
            _WAKERS[loop] = LoopWaker(loop)
        return _WAKERS[loop]
