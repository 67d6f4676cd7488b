"""How long a worker computes and sleeps, and how long the grader itself works on its answers.

CPU time decides. Time is sleep if it is neither CPU time, of the worker or of this thread, nor
waiting for a processor. So a busy machine does not make a submission late.

But: only Linux reports the CPU time of another process; elsewhere all time counts as sleep.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from labkit.running.limits.time_limit import OverdueError, processor_seconds

_SLEEP_SECONDS = 10.0
_TOTAL_SLEEP_SECONDS = 30.0
# CPU time of the grader itself; no lab's tests take a tenth of it.
_OWN_SECONDS = 10.0
_TOTAL_OWN_SECONDS = 60.0
# The exception may strike where Python discards it.
_AGAIN_SECONDS = 0.5
_Handler = Callable[[int, FrameType | None], None]


class Meter:
    """Watches one submission: each of its tests, and how long it sleeps in total.

    Args:
        sleeps: whether the time that it sleeps counts.

    Attributes:
        waits_for: the number of a process; while it computes, no time counts as sleep. 0 for none.
    """

    def __init__(self, *, sleeps: bool = True) -> None:
        self.waits_for = 0
        self._sleeps = sleeps
        self._slept_before = 0.0
        self._process = 0
        self._limit = 0.0
        self._cpu_begin = 0.0
        self._wall_begin = 0.0
        self._busy_begin = 0.0

    def begin(self, limit: float, process: int) -> None:
        """Start to measure a test that may take `limit` seconds of CPU time in `process`."""
        self.end()
        self._limit = limit
        self._process = process
        self._cpu_begin = processor_seconds(process)
        self._busy_begin = self._busy() if self._sleeps else 0.0
        self._wall_begin = time.monotonic()

    def end(self) -> None:
        """Add the sleep of the test to the total sleep of the submission."""
        self._slept_before += self._slept()
        self._process = 0

    def overdue(self) -> str | None:
        """Return why the test has to stop, or None."""
        if processor_seconds(self._process) - self._cpu_begin > self._limit:
            return f"the test used more than its {self._limit:g} s of CPU time"
        slept = self._slept()
        if slept > _SLEEP_SECONDS:
            return f"it slept for {_SLEEP_SECONDS:g} s"
        if slept + self._slept_before > _TOTAL_SLEEP_SECONDS:
            return f"the submission slept for {_TOTAL_SLEEP_SECONDS:g} s in total"
        return None

    @property
    def exhausted(self) -> bool:
        """Whether the submission has used up its sleep."""
        return self._slept_before > _TOTAL_SLEEP_SECONDS

    def _slept(self) -> float:
        if not self._process or not self._sleeps:
            return 0.0
        idle = time.monotonic() - self._wall_begin - (self._busy() - self._busy_begin)
        return max(0.0, idle)

    def _busy(self) -> float:
        """Return the seconds that the workers and this thread used or waited for a processor."""
        processes = [self._process, self.waits_for] if self.waits_for else [self._process]
        return (
            sum(map(processor_seconds, processes))
            + time.thread_time()
            + sum(_waited(Path(f"/proc/{process}/schedstat")) for process in processes)
            + _waited(Path("/proc/thread-self/schedstat"))
        )


class OwnTime:
    """The time that a submission may cost the thread that grades it, for each test and in total.

    In the main thread, it interrupts any operation. Other threads get no signals: there it strikes
    at the next `check`.
    """

    def __init__(self) -> None:
        self._left = _TOTAL_OWN_SECONDS
        self._end = float("inf")

    @contextmanager
    def limit(self) -> Iterator[None]:
        """Raise `OverdueError` in the code inside when it has used its time."""
        began, seconds = time.thread_time(), min(_OWN_SECONDS, self._left)
        self._end = began + seconds
        try:
            self.check()
            with _interrupted_after(seconds, self._stop):
                yield
        finally:
            self._end = float("inf")
            self._left -= time.thread_time() - began

    def check(self) -> None:
        """Raise `OverdueError` if the time is over."""
        if time.thread_time() >= self._end:
            self._stop()

    def _stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        raise OverdueError("its return value took the grader too long to read: return less")


@contextmanager
def _interrupted_after(seconds: float, stop: _Handler) -> Iterator[None]:
    """Have `stop` called in this thread when the process has used this much CPU time."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    left, again = signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, left, again)
        signal.signal(signal.SIGPROF, before)


def _waited(path: Path) -> float:
    """Return the seconds that a thread was ready but had no processor."""
    try:
        return int(path.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
