"""The time limit of a lab's test, in processor time, so that a busy machine fails no test."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from labkit.running import platform

# Python may discard the exception, for example in a callback of the garbage collector.
_AGAIN_SECONDS = 0.5
_DEBUGGERS = ("pydevd", "_pydevd_bundle")


class OverdueError(BaseException):
    """The test used more time than it may. No `except Exception` swallows it."""


def is_traced() -> bool:
    """Return whether a debugger or another tracer is active, so that no test can be called late."""
    monitoring = getattr(sys, "monitoring", None)
    return (
        sys.gettrace() is not None
        or any(name in sys.modules for name in _DEBUGGERS)
        or (monitoring is not None and any(map(monitoring.get_tool, range(6))))
    )


@contextmanager
def time_limit(seconds: float, when_traced: Callable[[], None] | None = None) -> Iterator[None]:
    """Raise `OverdueError` in the body once it has used `seconds` of processor time.

    It is also raised after `platform.REAL_TO_PROCESSOR` times as much real time, for code that only
    waits. There is no limit under a debugger, outside of the main thread, and on platforms without
    such timers (Windows).

    Args:
        seconds: of processor time.
        when_traced: called instead, if a debugger was started meanwhile.
    """
    timers = platform.timers()
    here = threading.current_thread() is threading.main_thread()
    if not here or not timers or is_traced():
        yield
        return
    by_signal = {timer.number: timer for timer in timers}

    def stop(number: int, frame: FrameType | None) -> None:
        timer = by_signal[number]
        if not timer.is_due():
            return
        if not is_traced():
            raise OverdueError(f"Timeout (>{seconds * timer.times:g} s {timer.unit})")
        end_time_limit()
        if when_traced is not None:
            when_traced()

    before = {number: signal.signal(number, stop) for number in by_signal}
    left = [timer.set(seconds * timer.times, _AGAIN_SECONDS) for timer in timers]
    try:
        yield
    finally:
        end_time_limit()
        for number, handler in before.items():
            signal.signal(number, handler)
        # An enclosing limit continues.
        for timer, (rest, again) in zip(timers, left, strict=True):
            timer.set(rest, again)


def end_time_limit() -> None:
    """End all limits of this process."""
    for timer in platform.timers():
        timer.set(0)


def processor_seconds(process: int) -> float:
    """Return the processor time of all threads of a process, in seconds; 0 if it is unknown.

    Only Linux reports it.
    """
    try:
        # How Linux numbers the clock of a process: see clock_getcpuclockid.
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0
