"""A lab's tests in this process, as `make lab` runs them, with the report as data."""

import contextlib
import importlib
import io
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any, TextIO

import pytest

from labkit.course.lab import ROOT, Lab
from labkit.errors import LabkitError
from labkit.running.plugin import LabPlugin
from labkit.running.reporting.as_data import report_data
from labkit.running.score import LabRun

Tell = Callable[[dict[str, Any]], object]
# The most characters that the page shows of the output of a run.
_MOST_PRINTED = 20_000
# The most characters of a test's output: pytest keeps it in memory, and a browser has little.
_MOST_KEPT = 1_000_000
_OPTIONS = ("-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}")
# Modules that runs import late.
_IMPORTED = (
    "difflib", "rich._emoji_codes", "labkit.running.reporting.summary", "labkit.testing",
)  # fmt: skip


def prepare() -> None:
    """Import the modules of a run in advance: that takes seconds, and much of the stack."""
    for name in _IMPORTED:
        importlib.import_module(name)
    with _hidden():
        # Nothing is collected, but all plugins are loaded.
        pytest.main(["--collect-only", *_OPTIONS, str(ROOT / "conftest.py")])


def run_lab(lab: Lab, task: int | None, tell: Tell) -> dict[str, Any]:
    """Run a lab, or one of its tasks, and return its report; see `report_data`.

    Args:
        lab: the lab.
        task: the number of a task; None for all of them.
        tell: receives an event for each finished test, and for its output.

    Raises:
        LabkitError: pytest cannot begin, or no test ran; the message is for the reader.
    """
    watcher = _Watcher(tell)
    options = [*_OPTIONS, *(["--lab-task", str(task)] if task is not None else [])]
    with _hidden() as shown:
        pytest.main([str(lab.path), *options], plugins=[watcher])
    if watcher.run is None or watcher.plugin is None:
        raise LabkitError(shown.getvalue().strip() or "pytest has not run")
    return report_data(watcher.run, watcher.plugin.notes)


@contextlib.contextmanager
def _hidden() -> Iterator[io.StringIO]:
    """Capture the output of pytest."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        yield shown


class _Capped(io.TextIOBase):
    """A stream that passes on the first characters and drops the rest."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._left = _MOST_KEPT

    def write(self, text: str) -> int:
        """Take a text; return its length."""
        self._stream.write(text[: self._left])
        self._left -= min(self._left, len(text))
        return len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._stream.flush()


@contextlib.contextmanager
def _capped() -> Iterator[None]:
    """Cap the output of the body."""
    out, err = _Capped(sys.stdout), _Capped(sys.stderr)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


class _Watcher:
    """Tells of each test, and keeps the run."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._left = _MOST_PRINTED
        self.run: LabRun | None = None
        self.plugin: LabPlugin | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.plugin = session.config.pluginmanager.getplugin("labkit-session")

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        """Cap the output before pytest captures it."""
        with _capped():
            yield

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Generator[None]:
        """Cap the output before pytest captures it."""
        with _capped():
            yield

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send the result of a test and its output."""
        # The report of a call includes the output of its setup.
        if report.when == "call" or (report.when == "setup" and report.failed):
            name = report.nodeid.rpartition("::")[2]
            self._tell_printed(name, report.capstdout + report.capstderr)
            self._tell({"event": "test", "name": name, "passed": report.passed})

    def _tell_printed(self, name: str, text: str) -> None:
        shown, cut = text[: self._left], len(text[self._left :])
        self._left -= len(shown)
        if cut:
            shown += f"… ({cut} characters more)\n"
        if shown:
            self._tell({"event": "print", "name": name, "text": shown})

    def pytest_lab_finished(self, run: LabRun) -> None:
        """Keep the run."""
        self.run = run
