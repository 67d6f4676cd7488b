"""What the platform has on which a run happens: that of an operating system, or that of a browser.

In a browser Python is WebAssembly inside a worker of a page. It cannot fork, has no threads and no
timers, and cannot use all of its stack. What the page can do instead it is asked for here. Whoever
needs anything of the kind asks this module.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

_IN_BROWSER = sys.platform == "emscripten"
# What `@pytest.mark.needs(...)` of a lab's test may name, and what of it a browser lacks.
NEEDS = {"threads": "a browser's Python has no threads"}
BROWSER_LACKS = frozenset(["threads"])

# A browser's Python takes two to three times as long for the same work, and it knows only real
# time, in which other programs have their share.
SLOWER = 3 if _IN_BROWSER else 1
# A test that sleeps or waits spends no processor time, so it also has so many times its limit of
# real time.
REAL_TO_PROCESSOR = 6
# Of its stack, what Python may use in a browser: see `guard_stack`. The last 16 kB are a margin.
_STACK_BYTES = 48 << 10
_DEEP_BYTES = 96 << 10


class Timer(Protocol):
    """A timer that sends a signal, as those of `signal.setitimer` do.

    Attributes:
        number: of the signal.
        times: how many times a limit in seconds of processor time this timer waits.
        unit: what it measures, for messages.
    """

    number: int
    times: float
    unit: str

    def set(self, seconds: float, again: float = 0.0) -> tuple[float, float]:
        """Send the signal after so many seconds, and again after each `again`; 0 stops it.

        Returns:
            What was left of the time before, and its `again`.
        """

    def is_due(self) -> bool:
        """Return whether a signal that came is the one that was asked for last."""


class SystemTimer:
    """A timer of the operating system; see `Timer`."""

    def __init__(self, which: int, number: int, times: float, unit: str) -> None:
        self._which = which
        self.number, self.times, self.unit = number, times, unit

    def set(self, seconds: float, again: float = 0.0) -> tuple[float, float]:
        """Set the timer."""
        return signal.setitimer(self._which, seconds, again)

    def is_due(self) -> bool:
        """Return True: a timer that is set anew forgets the old time."""
        return True


class PageTimer:
    """The page's timer; see `Timer`.

    The page writes the number of the signal where Python looks every few instructions.

    Args:
        announce: tells the page the seconds, None for none, and `again`.
    """

    number = signal.SIGALRM if hasattr(signal, "SIGALRM") else 14
    times: float = SLOWER
    unit = "in all"

    def __init__(self, announce: Callable[[float | None, float], object]) -> None:
        self._announce = announce
        self._end: float | None = None
        self._again = 0.0

    def set(self, seconds: float, again: float = 0.0) -> tuple[float, float]:
        """Set the timer."""
        now = time.monotonic()
        before = (0.0, 0.0) if self._end is None else (max(self._end - now, 1e-3), self._again)
        self._end = now + seconds if seconds else None
        self._again = again
        self._announce(seconds or None, again)
        return before

    def is_due(self) -> bool:
        """Return whether the time is over: what comes may be the signal of an earlier limit."""
        return self._end is not None and time.monotonic() >= self._end


class Page:
    """What the page does for a run.

    Attributes:
        timer: its timer, None where the page and Python share no memory.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], object], *, interrupts: bool) -> None:
        self._tell = tell
        self.timer = PageTimer(self._announce) if interrupts else None

    def watch(self, seconds: float, messages: Mapping[str, str]) -> None:
        """Have the run ended from outside if no further word comes in so many seconds (0: never).

        Args:
            seconds: of real time.
            messages: what to tell then (`late`), or if Python is gone without a word (`gone`).
        """
        self._tell({"event": "watch", "seconds": seconds or None, "told": dict(messages)})

    def _announce(self, seconds: float | None, again: float) -> None:
        self._tell({"event": "limit", "seconds": seconds, "again": again})


# The page around this Python; None outside of a browser.
_page: list[Page] = []


def set_page(page: Page | None) -> None:
    """Have a page do what this Python cannot do itself."""
    _page[:] = [] if page is None else [page]


def page() -> Page | None:
    """Return the page that does what this Python cannot do itself, if there is one."""
    return _page[0] if _page else None


def has(need: str) -> bool:
    """Return whether the platform has what a mark `needs` names."""
    return not (_IN_BROWSER and need in BROWSER_LACKS)


def can_fork() -> bool:
    """Return whether this process can make another one of itself."""
    return hasattr(os, "fork") and not _IN_BROWSER


def timers() -> list[Timer]:
    """Return the timers that hold the main thread to a limit; none where there are none."""
    around = page()
    if around is not None:
        return [around.timer] if around.timer is not None else []
    if _IN_BROWSER or not hasattr(signal, "setitimer"):
        return []
    return [
        SystemTimer(signal.ITIMER_PROF, signal.SIGPROF, 1, "of processor time"),
        SystemTimer(signal.ITIMER_REAL, signal.SIGALRM, REAL_TO_PROCESSOR, "in all"),
    ]


def processor_time() -> float:
    """Return the seconds of the processor that this process has used, as an ordinary Python would
    have used them for the same work.
    """
    return time.process_time() / SLOWER


def guard_stack() -> None:
    """Have nesting that is too deep end in a RecursionError, in a browser too.

    There Python has a large stack of its own and measures that one. But each of its calls also
    takes a part of the stack of the browser's engine, which is far smaller (half a megabyte in a
    worker of Chromium); where that ends, the whole interpreter does. What nests in C, as JSON's
    parser and the end of a long chain of objects do, takes little of the one and much of the other.
    """
    _protect(_STACK_BYTES)


@contextmanager
def deep_stack() -> Iterator[None]:
    """Let Python have more of its stack inside: to compile and import sources takes much of it."""
    _protect(_DEEP_BYTES)
    try:
        yield
    finally:
        _protect(_STACK_BYTES)


def _protect(size: int) -> None:
    """Have Python believe that its stack is of so many bytes."""
    if not _IN_BROWSER:
        return
    from pyodide_js import _module as module  # type: ignore[import-not-found]

    thread = module._PyThreadState_Get()
    start = module._emscripten_stack_get_base() - size
    module._PyUnstable_ThreadState_SetStackProtection(thread, start, size)


@contextmanager
def no_event_loop() -> Iterator[None]:
    """Have no event loop run inside: in a browser the page's own always does."""
    from asyncio import events

    running = events._get_running_loop()
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(running)
