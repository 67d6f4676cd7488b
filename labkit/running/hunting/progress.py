"""How far a hunt is, on the student's terminal: a line that is gone when the hunt ends."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from labkit.course.hunt import Code, Pool
from labkit.running.hunting.rules import RUNS, Run
from labkit.running.hunting.verdict import Verdict

# pytest captures the standard streams while a test runs.
_TERMINAL = Path("/dev/tty")
_ERASED = "\r\x1b[K"


class CountedRuns:
    """Runs tests on implementations, and shows how many runs are done. Use it with `with`.

    Args:
        run: runs them.
        pool: the implementations.
        terminal: where the line is shown; nothing is shown if it cannot be opened.
    """

    def __init__(self, run: Run, pool: Pool, terminal: Path = _TERMINAL) -> None:
        self._run = run
        self._done = 0
        # A correct implementation has one more run on average.
        self._all = sum(RUNS + (not code.wrong) for code in pool.codes)
        self._stream: TextIO | None = None
        with suppress(OSError):
            self._stream = terminal.open("w", encoding="utf-8")

    def __enter__(self) -> "CountedRuns":
        return self

    def __exit__(self, *_: object) -> None:
        """Erase the line."""
        self._show("")
        with suppress(OSError):
            if self._stream is not None:
                self._stream.close()

    def __call__(self, code: Code, tests: Sequence[str]) -> dict[str, Verdict]:
        """Run tests on an implementation."""
        verdicts = self._run(code, tests)
        self._done += 1
        self._show(f"your tests have run {self._done} times, of about {self._all}")
        return verdicts

    def _show(self, text: str) -> None:
        with suppress(OSError):
            if self._stream is not None:
                self._stream.write(_ERASED + text)
                self._stream.flush()
