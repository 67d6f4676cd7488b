"""Waking tasks of an asyncio loop from another thread, and leaving the loop time to run them.

Each `call_soon_threadsafe` writes to a socket, which may cost the calling thread its turn. An
engine with chunks for a hundred readers in one iteration calls it once.

Python's threads share one lock. The loop releases the lock at every write to a socket, and a thread
that only computes then keeps it for 5 ms: an engine with a quick model would let the loop write 200
times a second. So the engine's thread sometimes waits until the loop has had its turn.
"""

import asyncio
import threading
import weakref
from collections import deque
from contextlib import suppress

_LINGER_SECONDS = 0.001
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
        self._events: deque[asyncio.Event] = deque()
        self._called = False
        self._lock = threading.Lock()
        self.ahead = 0
        self._turn_ended = threading.Event()
        self._is_late = False

    @property
    def is_closed(self) -> bool:
        """Whether the loop is closed, so that its tasks will never run again."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def set(self, event: asyncio.Event | None) -> None:
        """Count a chunk that was written; set the event of its reader soon, if the reader waits."""
        self.ahead += 1
        if event is None:
            return
        self._events.append(event)
        # The mark is removed before the last look at the events, so this event is noticed.
        if not self._called and self._mark():
            self._call()

    def wait_for_turn(self, seconds: float) -> None:
        """Wait for the loop's next turn to end.

        If the loop has no turn in time, further calls return at once until it has had one: the
        engine does not wait for other work of the loop.

        Args:
            seconds: the longest wait.
        """
        if not self._is_late and not self.is_closed:
            self._turn_ended.clear()
            self._call()
            self._is_late = not self._turn_ended.wait(seconds)

    def _mark(self) -> bool:
        """Mark the loop as called; return whether it was not marked yet."""
        with self._lock:
            before, self._called = self._called, True
        return not before

    def _call(self) -> None:
        # It raises if the loop has just been closed.
        with suppress(RuntimeError):
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._begin_turn)

    def _begin_turn(self) -> None:
        self.ahead = 0
        while self._events:
            self._events.popleft().set()
        # The woken tasks are already in the loop's queue, before this call.
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_late = False
        self._turn_ended.set()
        # Until then the mark stays: the loop takes many chunks of a quick model at a time. With a
        # slow model the mark is gone before the next chunk, which then calls at once.
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._called = False
        # Checked after that: an event that was added before it has not called the loop.
        if self._events and self._mark():
            self._begin_turn()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """Return the waker that all readers of a loop share."""
    with _LOCK:
        if loop not in _WAKERS:
            _WAKERS[loop] = LoopWaker(loop)
        return _WAKERS[loop]
