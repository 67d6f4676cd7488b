"""The first failing test of a lab, its smallest case, and the recording of that case."""

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from labkit.course.lab import Lab
from labkit.errors import LoadFailure
from labkit.running import drive
from labkit.running.limits.time_limit import WAITS, OverdueError, time_limit
from labkit.running.recording.openings import (
    Opening,
    at_cost,
    at_exception,
    at_loop,
    at_result,
    at_wait,
)
from labkit.running.recording.recording import CallRow, Recording
from labkit.running.recording.replay import (
    MOST_EVENTS,
    Case,
    CaseRun,
    Replay,
    is_repeatable,
    replay,
)
from labkit.running.reporting.showing import printable
from labkit.running.reporting.trace_table import last_rows
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun, Result
from labkit.running.session import LabsOfSession
from labkit.running.trace import Call, Failure, New, Trace, written

# The most calls that a recording lists: the last calls of the case.
MOST_CALLS = 200
_MOST_TEXT = 4_000
# The most runs of a test that a case may have.
_MOST_RUNS = 500
_AGAIN_SECONDS = 5.0


class FirstFailure:
    """A pytest plugin: it ends the session at the first test that the code fails.

    Attributes:
        run: the run of the lab; None if no test of a lab ran.
        test: the name of the failing test, or "".
        result: its result, or None.
        case: the smallest failing case of that test; None if it made no run.
        code: the exit code of pytest.
    """

    def __init__(self) -> None:
        self.run: LabRun | None = None
        self.test = ""
        self.result: Result | None = None
        self.case: Case | None = None
        self.code = 0
        self._labs: LabsOfSession | None = None
        # The last runs of the test; those of the diagnosis, after the tests, are not noted.
        self._runs: deque[CaseRun] = deque(maxlen=_MOST_RUNS)
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
        run = CaseRun(tuple(new), tuple(calls), watch)
        self._runs.append(run)
        trace = drive.perform(resolve, new, calls, watch)
        self._runs[-1] = run._replace(outcome=trace)
        return trace

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Forget the runs of the test before."""
        self._runs.clear()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """End the session if the test failed."""
        report = yield
        assert self._labs is not None
        self.run = self._labs.runs.get(item.path.parent)
        result = None if self.run is None else self.run.results.get(item.name)
        if self.run is not None and result is not None and result.kind.is_wrong and self._notes:
            self.test, self.result = item.name, result
            of_test = [*self._runs]
            self._runs.clear()
            self._run_again(result.failure)
            self._notes = False
            of_rule = [*self._runs] or of_test
            if of_rule:
                self.case = self._shortest(self.run, of_rule, of_test)
            item.session.shouldfail = "the first failure is shown"
        return report

    def _run_again(self, failure: Failure | None) -> None:
        """Apply the rule to the smallest case again, so that the last run is that of this case."""
        if failure is not None and failure.again is not None:
            with silence(), suppress(Exception, OverdueError), time_limit(_AGAIN_SECONDS):
                failure.again()

    def _shortest(self, run: LabRun, of_rule: list[CaseRun], of_test: list[CaseRun]) -> Case:
        """Return the shortest case that fails as the test did: one run, if no state survives it."""
        assert self._labs is not None
        code = partial(self._labs.fresh_code, run.lab.path)
        filename = run.implementation.filename
        cases = [Case(code, filename, runs) for runs in (of_rule[-1:], of_rule, of_test)]
        if len(of_rule) == len(of_test) == 1 or self.result is None or not self.result.failure:
            return cases[0]
        for case in cases:
            with silence(), suppress(Exception, OverdueError), time_limit(_AGAIN_SECONDS):
                if is_repeatable(case):
                    return case
        return cases[0]


@contextmanager
def silence() -> Iterator[None]:
    """Discard the output of the body."""
    with (
        open(os.devnull, "w", encoding="utf-8", errors="replace") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        yield


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


def recording_of(failing: FirstFailure) -> Recording:
    """Replay the case of a failing test, and return the recording.

    Raises:
        ValueError: no test failed.
    """
    run, result, case = failing.run, failing.result, failing.case
    if run is None or result is None:
        raise ValueError("no test failed, so there is no case to record")
    rule = next((test.rule for test in run.tests if test.name == failing.test), "")
    recording = Recording(
        run.lab.number, failing.test, rule, run.implementation.path.name, _source(run),
        "nothing", "the test makes no calls that can be replayed",
    )  # fmt: skip
    failure = result.failure
    if failure is not None:
        recording.expected = printable(failure.expected, _MOST_TEXT)
        recording.actual = printable(failure.actual, _MOST_TEXT)
    else:
        recording.actual = printable(result.message, _MOST_TEXT)
    if case is None:
        return recording
    last = _number_of_call(failure, case)
    is_overdue = result.kind is ResultKind.TIMEOUT
    replayed = replay(case, last, MOST_EVENTS if is_overdue else None)
    opening = _opening(replayed, result, case, last)
    recording.kind, recording.opens = opening.kind, opening.step
    recording.why = printable(opening.why)
    recording.marks = [*opening.marks]
    recording.steps = replayed.recorder.steps
    recording.dropped = max(0, replayed.counter.total - len(replayed.recorder.steps))
    recording.counts = dict(replayed.counter.lines)
    recording.objects = [str(new) for new in case.last.new]
    _list_calls(recording, replayed, case, failure)
    return recording


def _source(run: LabRun) -> list[str]:
    try:
        return run.implementation.source().decode("utf-8", "replace").splitlines()
    except LoadFailure:
        return []


def _number_of_call(failure: Failure | None, case: Case) -> int | None:
    """Return the number of the call that went wrong in a case; None if it is unknown.

    The trace of a failure may be that of one object among several that are used in turns.
    """
    trace = None if failure is None else failure.trace
    if failure is None or trace is None:
        return None
    at = len(trace.steps) if trace.raised is not None else failure.at
    calls = [*case.last.calls]
    if at is None:
        return None
    if len(trace.steps) < len(calls) and trace.steps and trace.raised is None:
        own = [n for n, call in enumerate(calls) if call.object == trace.steps[0].call.object]
        return own[at] if at < len(own) else None
    return at if at < len(calls) else None


def _opening(replayed: Replay, result: Result, case: Case, last: int | None) -> Opening:
    failure = result.failure
    if not replayed.ended:
        if replayed.reason.startswith(WAITS):
            return at_wait(replayed)
        return at_loop(replayed) if len(replayed.counter.by_call) < 3 else _slow(replayed)
    if replayed.trace.raised is not None:
        return at_exception(replayed)
    if result.kind is ResultKind.TIMEOUT or (failure is not None and failure.is_count):
        return at_cost(replayed)
    number = len(case.last.calls) - 1 if last is None else last
    name = case.last.calls[number].name if 0 <= number < len(case.last.calls) else ""
    return at_result(replayed, name, result.message)


def _slow(replayed: Replay) -> Opening:
    """Open at a loop if the last call runs most of the lines, else at the costliest line."""
    calls = replayed.counter.by_call
    return at_loop(replayed) if 2 * calls[max(calls)] > calls.total() else at_cost(replayed)


def _list_calls(
    recording: Recording, replayed: Replay, case: Case, failure: Failure | None
) -> None:
    """List the last calls of the case, with their results and their numbers of lines."""
    table = last_rows(replayed.trace, MOST_CALLS)
    made = len(replayed.trace.steps) + (replayed.trace.raised is not None)
    recording.first_call = made - len(table.rows)
    recording.columns = [*table.columns[2:]]
    expected = failure.by_call if failure is not None else None
    for number, row in enumerate(table.rows, recording.first_call):
        call, emitted, *held = row.cells
        shown = written(expected[number], 200) if expected and number < len(expected) else ""
        lines = replayed.counter.by_call[number]
        recording.calls.append(CallRow(call, emitted, tuple(held), printable(shown), lines))
    if not replayed.ended and made < len(case.last.calls):
        words = case.last.calls[made].render(as_bytes=True)
        recording.calls.append(CallRow(words, lines=replayed.counter.by_call[made]))
