"""How far grading is, and how long it will take, on standard error."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress

from labkit.grading.grade import Grade


class ProgressLine:
    """Shows how far grading is: on one line in a terminal, elsewhere at every five per cent.

    Call it as `labkit.grading.cohort.OnGrade`.

    Args:
        clock: returns a time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._most: int | None = None
        self._width = 0

    def __call__(self, done: int, of: int, grade: Grade, left: int) -> None:
        """Show the line."""
        text = f"{done} of {of} graded"
        seconds = self._seconds(left)
        if seconds is not None:
            text += f", about {_duration(seconds)} left"
        # It may be closed, or on a full disk: grading continues nevertheless.
        if sys.stderr is not None:
            with suppress(OSError):
                self._show(text, done, of)

    def _show(self, text: str, done: int, of: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == of else ""
            print(f"\r{text:<{self._width}}", end=end, file=sys.stderr, flush=True)
            self._width = len(text)
        elif done == of or done * 20 // of != (done - 1) * 20 // of:
            print(text, file=sys.stderr, flush=True)

    def _seconds(self, left: int) -> float | None:
        """Return the seconds that the rest takes at the rate so far; None if not known yet."""
        if self._most is None:
            self._most = left + 1
        # Grades from a ledger take no time, and say nothing about the rest.
        graded = self._most - left
        if left == 0 or graded < 2:
            return None
        return (self._clock() - self._start) / graded * left


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
