"""Waking tasks of an asyncio loop from another thread, many of them with one call into the loop.

`call_soon_threadsafe` writes to a socket each time. An engine that has news for a hundred readers
in one iteration calls it once.
"""

import asyncio
import threading
import weakref
from collections import deque

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

    def set(self, event: asyncio.Event) -> bool:
        """Set an event soon; return False if its loop is closed."""
        self._events.append(event)
        # `_set_all` takes the mark away before it looks at the events, so this one is seen.
        if self._called:
            return True
        self._called = True
        loop = self._loop()
        try:
            if loop is None:
                return False
            loop.call_soon_threadsafe(self._set_all)
        except RuntimeError:
            return False
        return True

    def _set_all(self) -> None:
        self._called = False
        while self._events:
            self._events.popleft().set()


def waker_of(loop: asyncio.AbstractEventLoop) -> LoopWaker:
    """Return the waker that all readers of a loop share."""
    with _LOCK:
        if loop not in _WAKERS:
            _WAKERS[loop] = LoopWaker(loop)
        return _WAKERS[loop]
