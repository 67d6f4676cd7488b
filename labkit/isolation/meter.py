"""How long a worker computes and how long it sleeps, measured from outside it.

CPU time decides. What is neither CPU time, of the worker or of this thread, nor waiting for a
processor is sleep, so a busy machine makes no submission late.

But: only Linux tells the CPU time of another process; elsewhere all time counts as sleep.
"""

import time
from pathlib import Path

from labkit.running.time_limit import processor_seconds

_SLEEP_SECONDS = 10.0
_TOTAL_SLEEP_SECONDS = 30.0


class Meter:
    """Watches one submission: each of its tests, and how long it sleeps in total."""

    def __init__(self) -> None:
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
        self._busy_begin = self._busy()
        self._wall_begin = time.monotonic()

    def end(self) -> None:
        """Count what the test slept towards what the submission may sleep in total."""
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
        """Whether the submission has slept for as long as it may."""
        return self._slept_before > _TOTAL_SLEEP_SECONDS

    def _slept(self) -> float:
        if not self._process:
            return 0.0
        idle = time.monotonic() - self._wall_begin - (self._busy() - self._busy_begin)
        return max(0.0, idle)

    def _busy(self) -> float:
        """Return the seconds that the worker and this thread used or waited for a processor."""
        return (
            processor_seconds(self._process)
            + time.thread_time()
            + _waited(Path(f"/proc/{self._process}/schedstat"))
            + _waited(Path("/proc/thread-self/schedstat"))
        )


def _waited(path: Path) -> float:
    """Return the seconds that a thread was ready but had no processor."""
    try:
        return int(path.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0
