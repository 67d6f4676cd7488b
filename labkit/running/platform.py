"""The features of the platform of a run: an operating system or a browser.

In a browser Python is WebAssembly inside a worker of a page. It cannot fork, has no threads and no
timers, and cannot use all of its stack. This module asks the page for a replacement of some of
these. All other modules use this one to learn the features of the platform.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any

try:
    import resource
except ImportError:
    # A browser's Python has no such module.
    resource = None  # type: ignore[assignment]

_IN_BROWSER = sys.platform == "emscripten"
# The features that `@pytest.mark.needs(...)` of a lab's test may name, and those a browser lacks.
NEEDS = {"threads": "a browser's Python has no threads"}
BROWSER_LACKS = frozenset(["threads"])

# A browser's Python takes two to three times as long for the same work, and it knows only real
# time, in which other programs have their share.
SLOWER = 3 if _IN_BROWSER else 1
# A test that sleeps or waits spends no processor time. So its real time is limited as well, to so
# many times the limit.
REAL_TO_PROCESSOR = 6
# A timer sends its signal after each so many seconds of processor time, or of real time. In real
# time a page's ticks are no longer than these, so that a stuck call ends soon after its limit.
TICK = 0.25
# The system may send a signal so much too early.
_EARLY_SECONDS = 0.005
# Whether the reader's code runs. In a browser that code may use less memory than the course, which
# has to report that it has used up its own.
READERS_CODE_RUNS = bytearray(1)
# The part of its stack that Python may use in a browser: see `guard_stack`. 16 kB are a margin.
_STACK_BYTES = 48 << 10
_DEEP_BYTES = 96 << 10


class Timer:
    """A timer that sends a signal when its time is over, and after each tick until then.

    Args:
        start: starts to send the signal, as `signal.setitimer` does: after so many seconds, and
            then again and again. 0 seconds stop it.
        clock: returns the time that the timer measures.

    Attributes:
        number: of the signal.
        times: the factor from a limit in seconds of processor time to this timer's seconds.
        unit: the measured time, for messages.
        sees_work: whether its ticks measure the work of the code, rather than the time that passes.
    """

    def __init__(
        self,
        start: Callable[[float, float], object],
        clock: Callable[[], float],
        *,
        number: int,
        times: float,
        unit: str,
        sees_work: bool,
    ) -> None:
        self._start = start
        self._clock = clock
        self.number, self.times, self.unit, self.sees_work = number, times, unit, sees_work
        # The seconds that were left when the clock was last read.
        self._left: float | None = None
        self._read = 0.0
        self._again = 0.0

    def set(self, seconds: float, again: float = 0.0) -> tuple[float, float]:
        """Set the time, after which the signal is sent again after each `again`; 0 stops it.

        Returns:
            The rest of the earlier time, and its `again`.
        """
        left = self._read_clock()
        before = (0.0, 0.0) if left is None else (max(left, 1e-3), self._again)
        self._left = seconds or None
        self._again = again
        self._start(min(seconds, TICK), TICK if seconds else 0.0)
        return before

    def is_due(self) -> bool:
        """Return whether the time is over, and set the time of the next signal.

        A signal may be a tick, or that of an earlier limit.
        """
        left = self._read_clock()
        if left is None:
            return False
        is_due = left < _EARLY_SECONDS
        if is_due or left < TICK:
            self._start(self._again if is_due else left, self._again)
        return is_due

    def _read_clock(self) -> float | None:
        """Return the seconds that are left; None if no time is set."""
        now = self._clock()
        seconds, self._read = now - self._read, now
        if self._left is not None:
            # Code that waits gets each tick. The time of a machine that stands still, or that has
            # no processor for this process, is not the code's.
            self._left -= seconds if self.sees_work else min(seconds, TICK)
        return self._left


class Page:
    """The services of the page for a run.

    Attributes:
        timer: its timer; None if the page and Python share no memory.
    """

    def __init__(self, tell: Callable[[dict[str, Any]], object], *, interrupts: bool) -> None:
        self._tell = tell
        self._messages: dict[str, str] = {}
        # It writes the signal's number into memory that Python reads every few instructions.
        self.timer = (
            Timer(
                self._announce,
                time.monotonic,
                number=signal.SIGALRM if hasattr(signal, "SIGALRM") else 14,
                times=SLOWER,
                unit="in all",
                sees_work=True,
            )
            if interrupts
            else None
        )

    def watch(self, seconds: float, messages: Mapping[str, str]) -> None:
        """Have the page end the run if no further message arrives in so many seconds (0: never).

        Args:
            seconds: of real time.
            messages: the text to print then (`late`), or if Python is gone (`gone`).
        """
        self._messages = dict(messages)
        self._tell({"event": "watch", "seconds": seconds or None, "told": self._messages})

    def hurry(self, seconds: float) -> None:
        """Have the page end the run after so many seconds at most, with the same messages."""
        self._tell({"event": "watch", "seconds": seconds, "told": self._messages})

    def _announce(self, seconds: float, again: float) -> None:
        self._tell({"event": "limit", "seconds": seconds or None, "again": again})


# The page around this Python; None outside of a browser.
_page: list[Page] = []


def set_page(page: Page | None) -> None:
    """Set the page that provides the features that this Python lacks."""
    _page[:] = [] if page is None else [page]


def page() -> Page | None:
    """Return the page that provides the features that this Python lacks, if there is one."""
    return _page[0] if _page else None


def has(need: str) -> bool:
    """Return whether the platform has the feature that a mark `needs` names."""
    return not (_IN_BROWSER and need in BROWSER_LACKS)


def can_fork() -> bool:
    """Return whether this process can fork."""
    return hasattr(os, "fork") and not _IN_BROWSER


@cache
def _system_timers() -> list[Timer]:
    return [
        Timer(
            partial(signal.setitimer, signal.ITIMER_PROF),
            time.process_time,
            number=signal.SIGPROF,
            times=1,
            unit="of processor time",
            sees_work=True,
        ),
        Timer(
            partial(signal.setitimer, signal.ITIMER_REAL),
            time.monotonic,
            number=signal.SIGALRM,
            times=REAL_TO_PROCESSOR,
            unit="in all",
            sees_work=False,
        ),
    ]


def timers() -> list[Timer]:
    """Return the timers that hold the main thread to a limit; none if the platform has none."""
    around = page()
    if around is not None:
        return [around.timer] if around.timer is not None else []
    if _IN_BROWSER or not hasattr(signal, "setitimer"):
        return []
    return _system_timers()


def processor_time() -> float:
    """Return the seconds of the processor that this process has used, as an ordinary Python would
    have used them for the same work.
    """
    return time.process_time() / SLOWER


def guard_stack() -> None:
    """Have nesting that is too deep end in a RecursionError, in a browser too.

    There Python has a large stack of its own and measures only that. But each of its calls also
    takes a part of the stack of the browser's engine, which is far smaller (half a megabyte in a
    worker of Chromium). If the engine's stack overflows, the whole interpreter ends. Nesting in C,
    such as JSON's parser or the deletion of a long chain of objects, takes little of Python's stack
    and much of the engine's.
    """
    _protect(_STACK_BYTES)


@contextmanager
def deep_stack() -> Iterator[None]:
    """Let the body use more of the stack, which compiling and importing sources need."""
    _protect(_DEEP_BYTES)
    try:
        yield
    finally:
        _protect(_STACK_BYTES)


def _protect(size: int) -> None:
    """Tell Python that its stack has so many bytes."""
    if not _IN_BROWSER:
        return
    from pyodide_js import _module as module  # type: ignore[import-not-found]

    thread = module._PyThreadState_Get()
    start = module._emscripten_stack_get_base() - size
    module._PyUnstable_ThreadState_SetStackProtection(thread, start, size)


@contextmanager
def readers_code() -> Iterator[None]:
    """Hold the body to the memory of a reader's code, in a browser.

    The page reads the flag each time that Python takes more memory.
    """
    READERS_CODE_RUNS[0] = 1
    try:
        yield
    finally:
        READERS_CODE_RUNS[0] = 0


def make_room(error: BaseException) -> None:
    """Clear the frames of an error that says that the memory is used up: they hold the values that
    fill it, and to name their lines takes some. The reader's code has ended with it.
    """
    if not isinstance(error, MemoryError):
        return
    READERS_CODE_RUNS[0] = 0
    # The first frame still runs, and to refuse to clear that one would take memory, too.
    step = error.__traceback__ and error.__traceback__.tb_next
    while step is not None:
        # The frame of a generator that caught the error may wait for its next value.
        with suppress(RuntimeError):
            step.tb_frame.clear()
        step = step.tb_next


def waits() -> int | None:
    """Return how often the process has given up its processor to wait; None if the platform does
    not count it.

    A process whose processor a busy machine gives to others does not wait.
    """
    if resource is None:
        return None
    try:
        usage = resource.getrusage(resource.RUSAGE_SELF)
    except OSError:
        # The walls around a submission forbid the call.
        return None
    # Some systems leave the field 0: even the start of Python waits for its files.
    return usage.ru_nvcsw or None


@contextmanager
def no_event_loop() -> Iterator[None]:
    """Hide the running event loop from the body: in a browser, the page's own always runs."""
    from asyncio import events

    running = events._get_running_loop()
    events._set_running_loop(None)
    try:
        yield
    finally:
        events._set_running_loop(running)
