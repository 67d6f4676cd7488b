"""Waking tasks of an asyncio loop from another thread, many of them with one call into the loop.

Each `call_soon_threadsafe` writes to a socket, which may cost the calling thread its turn. An
engine that has news for a hundred readers in one iteration calls it once.
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
    """Sets events of one loop. Any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._events: deque[asyncio.Event] = deque()
        self._called = False
        self._lock = threading.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether the loop is closed, so that its tasks will never run again."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def set(self, event: asyncio.Event) -> None:
        """Set an event soon, if the loop is not closed."""
        self._events.append(event)
        # The mark is taken away before the last look at the events, so this one is seen.
        if self._called:
            return
        loop = self._loop()
        with self._lock:
            if self._called or loop is None:
                return
            self._called = True
        # It raises when the loop was closed just now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._set_all)

    def _set_all(self) -> None:
        while self._events:
            self._events.popleft().set()
        # Until then the mark stays: from a quick model the loop takes much at a time. A slower one
        # finds the mark gone and calls at once.
        asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._look_again)

    def _look_again(self) -> None:
        with self._lock:
            self._called = False
            if not self._events:
                return
            self._called = True
        self._set_all()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """Return the waker that all readers of a loop share."""
    with _LOCK:
        if loop not in _WAKERS:
            _WAKERS[loop] = LoopWaker(loop)
        return _WAKERS[loop]
