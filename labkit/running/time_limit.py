"""How long a lab's test may take, in seconds of the processor: a busy machine makes nobody late."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# A test that sleeps or waits spends no processor time, so it also has so many times its limit of
# real time.
REAL_TO_PROCESSOR = 6
# The exception may strike where Python discards it, in a garbage collector's callback for one.
_AGAIN_SECONDS = 0.5
_DEBUGGERS = ("pydevd", "_pydevd_bundle")


class OverdueError(BaseException):
    """The test used more time than it may. No `except Exception` swallows it."""


def is_traced() -> bool:
    """Return whether a debugger or another tracer looks on, so that nothing can be called late."""
    monitoring = getattr(sys, "monitoring", None)
    return (
        sys.gettrace() is not None
        or any(name in sys.modules for name in _DEBUGGERS)
        or (monitoring is not None and any(map(monitoring.get_tool, range(6))))
    )


@contextmanager
def time_limit(seconds: float, when_traced: Callable[[], None] | None = None) -> Iterator[None]:
    """Raise `OverdueError` in what runs inside once it has used `seconds` of processor time.

    It also does so after `REAL_TO_PROCESSOR` times as long, for what only waits. It has no effect
    under a debugger, outside of the main thread, and where the system has no such timers (Windows).

    Args:
        seconds: of processor time.
        when_traced: called instead, if a debugger has come in between.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or not hasattr(signal, "setitimer") or is_traced():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if not is_traced():
            kind = "of processor time" if number == signal.SIGPROF else "in all"
            limit = seconds if number == signal.SIGPROF else seconds * REAL_TO_PROCESSOR
            raise OverdueError(f"Timeout (>{limit:g} s {kind})")
        end_time_limit()
        if when_traced is not None:
            when_traced()

    before = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    left = signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_SECONDS)
    real = signal.setitimer(signal.ITIMER_REAL, seconds * REAL_TO_PROCESSOR, _AGAIN_SECONDS)
    try:
        yield
    finally:
        end_time_limit()
        for number, handler in before.items():
            signal.signal(number, handler)
        # A limit around this one goes on.
        signal.setitimer(signal.ITIMER_PROF, *left)
        signal.setitimer(signal.ITIMER_REAL, *real)


def end_time_limit() -> None:
    """Let whatever runs now take its time."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def processor_seconds(process: int) -> float:
    """Return the processor time of all threads of a process; 0 where it is not told.

    Only Linux tells it.
    """
    try:
        # How Linux numbers the clock of a process: see clock_getcpuclockid.
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0
