"""The first failing test of a lab, its smallest case, and the recording of that case."""

import os
from collections.abc import Callable, Generator, Iterable, MutableSequence, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from labkit.course.lab import Lab
from labkit.errors import LoadFailure, UsageError
from labkit.running import drive
from labkit.running.lab_impl import Implementation
from labkit.running.limits.of_session import Limits
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.recording.case_recording import (
    End,
    describe,
    facts_of,
    record,
    record_up_to,
    without_case,
)
from labkit.running.recording.recorder import MOST_STEPS
from labkit.running.recording.recording import Part, Recording
from labkit.running.recording.replay import (
    AGAIN_SECONDS,
    Case,
    first_repeatable,
    silence,
)
from labkit.running.recording.runs import MOST_CASES, CaseRun, RunsOfTest, shortened
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun, Result
from labkit.running.session import LabsOfSession
from labkit.running.trace import Call, Failure, New, Trace

# The most processor time of the runs after a test has failed: of the smallest case, and of each of
# the cases of which the shortest is chosen.
_MOST_SECONDS = AGAIN_SECONDS * (1 + MOST_CASES)


class Stop(NamedTuple):
    """The run of a test that cannot be interrupted.

    Attributes:
        test: the name of the test.
        run: the number of the run, from 1.
        words: what happens then, as a verb.
    """

    test: str
    run: int
    words: str


class FirstFailure:
    """A pytest plugin: it ends the session at the first test that the code fails.

    Args:
        lab: the lab.
        stop: the run before which a test fails; None if there is none.
        place: another process may read where the session is: item 0 is the number of the test
            in the lab, from 1, item 1 the number of its run; the recorder has the next items.

    Attributes:
        run: the run of the lab; None if no test of a lab ran.
        test: the name of the failing test, or "".
        result: its result, or None.
        case: the smallest failing case of that test; None if it made no run.
        files: the file under test, then the student's own parts.
        code: the exit code of pytest.
    """

    def __init__(
        self, lab: Lab, stop: Stop | None = None, place: MutableSequence[int] | None = None
    ) -> None:
        self._names = [test.name for test in lab.tests]
        self._stop = stop
        self._place = [0, 0, 0, 0] if place is None else place
        self.run: LabRun | None = None
        self.test = ""
        self.result: Result | None = None
        self.case: Case | None = None
        self.files: Sequence[Implementation] = ()
        self.code = 0
        self._labs: LabsOfSession | None = None
        self._limits: Limits | None = None
        # Those of the diagnosis, after the tests, are not noted.
        self._runs = RunsOfTest()
        self._notes = True

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note each run of the tests from now on."""
        plugin: Any = session.config.pluginmanager.get_plugin("labkit-session")
        self._labs, self._limits = plugin.labs, plugin.limits
        self._labs.perform = self._perform
        # It takes time, and only a report shows it.
        self._labs.diagnose = lambda run: None  # type: ignore[method-assign]

    def _perform(
        self, resolve: drive.Resolve, new: Sequence[New], calls: Iterable[Call], watch: str
    ) -> Trace:
        calls = [*calls]
        if not self._notes:
            return drive.perform(resolve, new, calls, watch)
        self._place[1] += 1
        perform: Callable[[], Trace] = partial(drive.perform, resolve, new, calls, watch)
        if self._stop is not None and self._place[1] == self._stop.run:
            perform = partial(self._fail, self._stop.words)
        return self._runs.note(perform, new, calls, watch)

    def _fail(self, words: str) -> NoReturn:
        raise OverdueError(f"the test {words}", words)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Forget the runs of the test before."""
        self._runs.take()
        name = item.name.partition("[")[0]
        self._place[0], self._place[1] = 1 + self._names.index(name), 0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """End the session if the test failed."""
        report = yield
        assert self._labs is not None
        assert self._limits is not None
        self.run = self._labs.runs.get(item.path.parent)
        result = None if self.run is None else self.run.results.get(item.name)
        if self.run is not None and result is not None and result.kind.is_wrong and self._notes:
            if self._stop is not None and result.kind is ResultKind.TIMEOUT:
                result = replace(result, message=f"the test {self._stop.words}")
            self.test, self.result = item.name, result
            of_test = self._runs.take()
            # The test itself may have taken nearly all of its own time.
            self._limits.begin(item.name, _MOST_SECONDS)
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
        cases = [
            Case(code, filenames, runs, place=self._place[2:4])
            for runs in shortened(of_rule, of_test)
        ]
        return first_repeatable(cases) if self.result and self.result.failure else cases[0]


def first_failure(
    lab: Lab,
    root: Path,
    implementation: str,
    *options: str,
    test: str = "",
    stop: Stop | None = None,
    place: MutableSequence[int] | None = None,
) -> FirstFailure:
    """Run a lab's tests up to the first failure, silently.

    Args:
        lab: the lab.
        root: the repository.
        implementation: as `LAB_IMPL`.
        options: further options of pytest.
        test: the only test to run; "" for all.
        stop, place: see `FirstFailure`.

    Raises:
        UsageError: the lab has no such test.
    """
    if test:
        check_test(lab, test)
    failing = FirstFailure(lab, stop, place)
    target = f"{lab.test_file}::{test}" if test else str(lab.path)
    os.environ["LAB_IMPL"] = implementation
    os.chdir(root)
    arguments = [target, "-q", "-p", "no:cacheprovider", "--capture=sys", *options]
    with (
        open(os.devnull, "w", encoding="utf-8", errors="replace") as nowhere,
        redirect_stdout(nowhere),
    ):
        failing.code = int(pytest.main(arguments, plugins=[failing]))
    return failing


def check_test(lab: Lab, name: str) -> None:
    """Check that a lab has a test.

    Raises:
        UsageError: it has not.
    """
    names = [test.name for test in lab.tests]
    if name not in names:
        raise UsageError(f"{lab.label} has no test {name!r}; it has {', '.join(names)}")


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
    return _complete(recording, failing, run, result)


def record_end(failing: FirstFailure, end: End, leave: Callable[[Recording], NoReturn]) -> None:
    """Record the case of a failing test up to an event after which it cannot be stopped.

    Args:
        failing: the failing test.
        end: the event.
        leave: gets the recording, and must end the process.
    """
    run, result, case = failing.run, failing.result, failing.case
    if run is not None and result is not None and case is not None:
        record_up_to(
            case, facts_of(result, case.last.calls), end, MOST_STEPS,
            lambda recording: leave(_complete(recording, failing, run, result)),
        )  # fmt: skip


def _complete(
    recording: Recording, failing: FirstFailure, run: LabRun, result: Result
) -> Recording:
    """Add the failed test and the sources to a recording."""
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
