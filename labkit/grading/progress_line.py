"""How far grading is, and how long it will take, on standard error."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from labkit.grading.grade import Grade


class ProgressLine:
    """Shows how far grading is: by a bar in a terminal, elsewhere by a line at every five per cent.

    Use it with `with`, and call it as `labkit.grading.cohort.OnGrade`. The time left is known once
    two submissions were graded here; grades from a ledger take no time.

    Args:
        of: how many submissions there are.
        clock: returns a time in seconds.
    """

    def __init__(self, of: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._of = of
        self._clock = clock
        self._start = clock()
        self._most: int | None = None
        self._bar: Progress | None = None

    def __enter__(self) -> "ProgressLine":
        if sys.stderr is not None and sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.completed} of {task.total} graded"),
                BarColumn(),
                TextColumn("{task.description}"),
                console=Console(stderr=True, highlight=False),
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._bar.add_task("", total=self._of)
            with suppress(OSError):
                self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            # The terminal gets its cursor back, whatever ended the grading.
            with suppress(OSError):
                self._bar.stop()

    def __call__(self, done: int, of: int, grade: Grade, left: int) -> None:
        """Show how far grading is."""
        seconds = self._seconds(left)
        words = "" if seconds is None else f"about {_duration(seconds)} left"
        # It may be closed, or on a full disk: grading continues nevertheless.
        if sys.stderr is not None:
            with suppress(OSError):
                self._show(done, of, words)

    def _show(self, done: int, of: int, words: str) -> None:
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, description=words, refresh=True)
        elif done == of or done * 20 // of != (done - 1) * 20 // of:
            text = f"{done} of {of} graded" + (f", {words}" if words else "")
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
