"""How long a lab's test may take, in seconds of the processor: a busy machine makes nobody late."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A test that sleeps or waits spends no processor time, so it also has so many times its limit of
# real time.
REAL_TO_PROCESSOR = 6
# The exception may strike where Python discards it, in a garbage collector's callback for one.
_AGAIN_SECONDS = 0.5


class OverdueError(BaseException):
    """The test used more processor time than it may. No `except Exception` swallows it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OverdueError` in what runs inside once it has used `seconds` of processor time.

    It has no effect outside of the main thread and where the system has no such timer (Windows).
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OverdueError(f"Timeout (>{seconds:g} s of processor time)")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def processor_seconds(process: int) -> float:
    """Return the processor time of all threads of a process; 0 where it is not told.

    Only Linux tells it.
    """
    try:
        # How Linux numbers the clock of a process: see clock_getcpuclockid.
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0
