"""The first failing test of a lab, its smallest case, and the recording of that case."""

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from labkit.course.lab import Lab
from labkit.errors import LoadFailure, UsageError
from labkit.running import drive
from labkit.running.lab_impl import Implementation
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.recording.case_recording import describe, facts_of, record, without_case
from labkit.running.recording.recorder import MOST_STEPS
from labkit.running.recording.recording import Part, Recording
from labkit.running.recording.replay import (
    AGAIN_SECONDS,
    Case,
    first_repeatable,
    silence,
)
from labkit.running.recording.runs import CaseRun, RunsOfTest, shortened
from labkit.running.score import LabRun, Result
from labkit.running.session import LabsOfSession
from labkit.running.trace import Call, Failure, New, Trace


class FirstFailure:
    """A pytest plugin: it ends the session at the first test that the code fails.

    Attributes:
        run: the run of the lab; None if no test of a lab ran.
        test: the name of the failing test, or "".
        result: its result, or None.
        case: the smallest failing case of that test; None if it made no run.
        files: the file under test, then the student's own parts.
        code: the exit code of pytest.
    """

    def __init__(self) -> None:
        self.run: LabRun | None = None
        self.test = ""
        self.result: Result | None = None
        self.case: Case | None = None
        self.files: Sequence[Implementation] = ()
        self.code = 0
        self._labs: LabsOfSession | None = None
        # Those of the diagnosis, after the tests, are not noted.
        self._runs = RunsOfTest()
        self._notes = True

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note each run of the tests from now on."""
        self._labs = session.config.pluginmanager.get_plugin("labkit-session").labs  # type: ignore[union-attr]
        self._labs.perform = self._perform

    def _perform(
        self, resolve: drive.Resolve, new: Sequence[New], calls: Iterable[Call], watch: str
    ) -> Trace:
        calls = [*calls]
        if not self._notes:
            return drive.perform(resolve, new, calls, watch)
        perform = partial(drive.perform, resolve, new, calls, watch)
        return self._runs.note(perform, new, calls, watch)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Forget the runs of the test before."""
        self._runs.take()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """End the session if the test failed."""
        report = yield
        assert self._labs is not None
        self.run = self._labs.runs.get(item.path.parent)
        result = None if self.run is None else self.run.results.get(item.name)
        if self.run is not None and result is not None and result.kind.is_wrong and self._notes:
            self.test, self.result = item.name, result
            of_test = self._runs.take()
            self._run_again(result.failure)
            self._notes = False
            self.files = self._labs.files_under_test(self.run.lab.path)
            of_rule = self._runs.take() or of_test
            if of_rule:
                self.case = self._shortest(self.run, of_rule, of_test)
            item.session.shouldfail = "the first failure is shown"
        return report

    def _run_again(self, failure: Failure | None) -> None:
        """Apply the rule to the smallest case again, so that the last run is that of this case."""
        if failure is not None and failure.again is not None:
            with silence(), suppress(Exception, OverdueError), time_limit(AGAIN_SECONDS):
                failure.again()

    def _shortest(self, run: LabRun, of_rule: list[CaseRun], of_test: list[CaseRun]) -> Case:
        """Return the shortest case that fails as the test did: one run, if no state survives it."""
        assert self._labs is not None
        code = partial(self._labs.fresh_code, run.lab.path)
        filenames = [code.filename for code in self.files]
        cases = [Case(code, filenames, runs) for runs in shortened(of_rule, of_test)]
        return first_repeatable(cases) if self.result and self.result.failure else cases[0]


def first_failure(lab: Lab, root: Path, implementation: str, *options: str) -> FirstFailure:
    """Run a lab's tests up to the first failure, silently.

    Args:
        lab: the lab.
        root: the repository.
        implementation: as `LAB_IMPL`.
        options: further options of pytest.
    """
    failing = FirstFailure()
    os.environ["LAB_IMPL"] = implementation
    os.chdir(root)
    arguments = [str(lab.path), "-q", "-p", "no:cacheprovider", "--capture=sys", *options]
    with (
        open(os.devnull, "w", encoding="utf-8", errors="replace") as nowhere,
        redirect_stdout(nowhere),
    ):
        failing.code = int(pytest.main(arguments, plugins=[failing]))
    return failing


def only_test(lab: Lab, name: str) -> list[str]:
    """Return the options of pytest that choose one test of a lab.

    Raises:
        UsageError: the lab has no such test.
    """
    names = [test.name for test in lab.tests]
    if name not in names:
        raise UsageError(f"{lab.label} has no test {name!r}; it has {', '.join(names)}")
    return [f"--deselect={lab.test_file}::{other}" for other in names if other != name]


def recording_of(failing: FirstFailure, keep: int = MOST_STEPS) -> Recording:
    """Replay the case of a failing test, and return the recording, with so many steps at most.

    Raises:
        ValueError: no test failed.
    """
    run, result, case = failing.run, failing.result, failing.case
    if run is None or result is None:
        raise ValueError("no test failed, so there is no case to record")
    if case is None:
        recording = without_case()
        recording.parts = [Part() for _ in failing.files[1:]]
    else:
        recording = record(case, facts_of(result, case.last.calls), keep)
    describe(recording, run, failing.test, result)
    code, *parts = failing.files
    sources = [(f"{part.path.parent.name}/{part.path.name}", _source(part)) for part in parts]
    recording.take_sources([(code.path.name, _source(code)), *sources])
    return recording


def _source(code: Implementation) -> bytes:
    try:
        return code.source()
    except LoadFailure:
        return b""
