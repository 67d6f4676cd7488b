"""Waking tasks of an asyncio loop from another thread, and leaving it the time to run them.

Each `call_soon_threadsafe` writes to a socket, which may cost the calling thread its turn. An
engine that has news for a hundred readers in one iteration calls it once.

Python's threads share one lock. The loop lets go of it at every write to a socket, and a thread
that only computes keeps it for 5 ms then: an engine with a quick model would let the loop write 200
times a second. So the engine's thread waits now and then until the loop had its turn.
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
    """Sets events of one loop. Any thread.

    A turn of the loop begins with setting all events that wait, and ends when the tasks that they
    wake have run.

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
        """Note that a chunk was written; set its reader's event soon, if that waits."""
        self.ahead += 1
        if event is None:
            return
        self._events.append(event)
        # The mark is taken away before the last look at the events, so this one is seen.
        if not self._called and self._mark():
            self._call()

    def wait_for_turn(self, seconds: float) -> None:
        """Wait for the loop's next turn to end.

        A loop that does not come to it in time is not waited for again until it did: what holds it
        up is not the engine's to wait for.

        Args:
            seconds: the most to wait.
        """
        if not self._is_late and not self.is_closed:
            self._turn_ended.clear()
            self._call()
            self._is_late = not self._turn_ended.wait(seconds)

    def _mark(self) -> bool:
        """Note that the loop is called; return whether that was not noted yet."""
        with self._lock:
            before, self._called = self._called, True
        return not before

    def _call(self) -> None:
        # It raises when the loop was closed just now.
        with suppress(RuntimeError):
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._begin_turn)

    def _begin_turn(self) -> None:
        self.ahead = 0
        while self._events:
            self._events.popleft().set()
        # The tasks that were woken are in the loop's queue already, before this.
        asyncio.get_running_loop().call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._is_late = False
        self._turn_ended.set()
        # Until then the mark stays: from a quick model the loop takes much at a time. A slower one
        # finds the mark gone and calls at once.
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._called = False
        # Looked at after: an event that came before that has called nobody.
        if self._events and self._mark():
            self._begin_turn()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """Return the waker that all readers of a loop share."""
    with _LOCK:
        if loop not in _WAKERS:
            _WAKERS[loop] = LoopWaker(loop)
        return _WAKERS[loop]
