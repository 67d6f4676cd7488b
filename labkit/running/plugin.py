"""The pytest plugin: the `lab` fixture, time limits, results, and the report at the end.

It acts on tests in a `test_lab.py` beside a `lab.toml`; all other tests are left alone.
"""

import json
import os
import re
import sys
import threading
import traceback
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.course.hunt import KILLED, PoolTest
from labkit.course.lab import Lab, read_lab
from labkit.errors import LabkitError, LoadFailure
from labkit.running import platform
from labkit.running.diagnose import MOST_SECONDS
from labkit.running.drive import Driver
from labkit.running.hunt_results import Hunting
from labkit.running.lab_impl import lab_impl
from labkit.running.limits.of_session import Limits
from labkit.running.limits.time_limit import OverdueError, Stuck
from labkit.running.newer_syntax import newer_syntax
from labkit.running.post_mortem import last_frame, students_frames
from labkit.running.reporting.explain import explain
from labkit.running.result_kind import ResultKind
from labkit.running.score import (
    PUBLIC_SEED,
    TEST_LIMIT,
    TOO_LONG,
    LabRun,
    Result,
    Timeouts,
    classify,
)
from labkit.running.session import LabsOfSession, folder_of_lab
from labkit.running.source import last_line_in
from labkit.running.trace import Failure
from labkit.running.travel import pack, unpack

_PLUGIN: pytest.StashKey["LabPlugin"] = pytest.StashKey()
_LIMIT: pytest.StashKey[float] = pytest.StashKey()
_MOST_PRINTED = 4_000
_HUNT_LIMIT = 600.0
# The part of a test's time limit that a single call of the code under test may use.
_CALL_SHARE = 0.3
_MARKS = (
    "task(n): the task of the lab that this test belongs to",
    "points(n): the points of this test; those of a lab add up to 100",
    "given: a demonstration, which is not graded and has no points",
    "varies(name): for a hidden test, the test of the lab whose rule it checks again",
    "visibility(when): for a hidden test, who may see it; see labkit.grading.overlay",
    "timeout(seconds): the limit of a test; for a lab's test, of processor time",
    "needs(feature): the platform's feature that a test needs; without it, the test is left out",
)


class LabHooks:
    """Hooks of lab runs. `labkit.student.score_keeper` implements them, to remember scores."""

    @pytest.hookspec(firstresult=True)
    def pytest_lab_passes(self, config: pytest.Config, lab: Lab) -> bool | None:
        """Return whether the student's current `starter.py` of `lab` passes."""

    @pytest.hookspec
    def pytest_lab_finished(self, config: pytest.Config, run: LabRun) -> str | None:
        """Handle the run of one lab at the end of the session; a returned text is printed."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks of lab runs."""
    pluginmanager.add_hookspecs(LabHooks)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options of lab runs."""
    if not any(map(pluginmanager.has_plugin, ("pytest_timeout", "timeout"))):
        parser.addini("timeout", "for pytest-timeout, which is not used here")
    group = parser.getgroup("labs")
    group.addoption("--lab-seed", default=os.environ.get("LAB_SEED", PUBLIC_SEED), metavar="SEED",
                    help="seed of the randomised cases (default: LAB_SEED, else 0)")  # fmt: skip
    group.addoption("--lab-task", type=int, metavar="N", help="run only the tests of task N")
    group.addoption("--lab-limit", type=float, default=TEST_LIMIT, metavar="SECONDS",
                    help="limit of each test without a limit of its own (default: 5)")  # fmt: skip
    group.addoption("--lab-results", type=Path, metavar="FILE",
                    help="write the results of all labs to FILE as JSON")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and set up the plugin's state."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    # Each lab has a test_lab.py; `-o addopts=` would have only one of them imported.
    config.option.importmode = "importlib"
    plugin = LabPlugin(config)
    config.stash[_PLUGIN] = plugin
    config.pluginmanager.register(plugin, "labkit-session")
    config.pluginmanager.register(plugin.limits, "labkit-limits")


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Driver | Hunting:
    """The implementation under test, driven through `labkit.running.drive`.

    In a hunt, it is the outcome of the student's tests.
    """
    labs = request.config.stash[_PLUGIN].labs
    folder = request.path.parent
    if labs.runs[folder].lab.hunt is not None:
        return labs.hunting(folder)
    return labs.driver(folder, request.node.name)


class LabPlugin:
    """The state of one pytest session.

    Under pytest-xdist the workers run tests and send the results; the process that started them,
    the controller, scores and reports. Without pytest-xdist, one process is both.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seed: str = config.getoption("--lab-seed")
        self._limit: float = config.getoption("--lab-limit")
        self._is_worker = hasattr(config, "workerinput")
        self._timeouts: dict[Path, Timeouts] = defaultdict(Timeouts)
        self._hunts: set[Path] = set()
        self._lost_worker = False
        self._quit = False
        # Lines above the report.
        self.notes: list[str] = []
        self.limits = Limits(config)
        self.labs = LabsOfSession(
            self._seed,
            lambda lab: bool(config.hook.pytest_lab_passes(config=config, lab=lab)),
            self.limits.leave_if_quit,
            lambda: self.limits.off,
            # Here standard output is not captured yet.
            sys.stdout.isatty(),
        )
        self._runs = self.labs.runs

    @property
    def _reports_itself(self) -> bool:
        """Whether only our report shows failures of labs; `--tb=long` adds those of pytest."""
        return bool(self._config.option.tbstyle == "auto")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a hunt's `test_killed` a test for each wrong implementation of its pool."""
        folder = folder_of_lab(metafunc.definition.path)
        if folder is None or metafunc.function.__name__ != KILLED:
            return
        rows = [test for test in read_lab(folder).tests if isinstance(test, PoolTest)]
        marked = [
            pytest.param(name, marks=[pytest.mark.task(row.task), pytest.mark.points(row.points)],
                         id=name)
            for row in rows for name in [row.name.removeprefix(KILLED)[1:-1]]
        ]  # fmt: skip
        metafunc.parametrize("wrong", marked)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Give labs' tests their limits; let no plugin shuffle them, as scores must not change."""
        ours = [item for item in items if folder_of_lab(item.path) is not None]
        folders = {item.path.parent for item in ours}
        self._hunts = {folder for folder in folders if read_lab(folder).hunt is not None}
        for item in ours:
            self._set_limit(item)
        self._leave_out([item for item in ours if not _can_run(item)], items)
        self._select_task(items)
        yield
        left = set(items)
        in_order = iter([item for item in ours if item in left])
        mine = set(ours)
        items[:] = [next(in_order) if item in mine else item for item in items]

    def _set_limit(self, item: pytest.Item) -> None:
        """Take the mark `timeout` as processor time, and not as pytest-timeout does."""
        mark = item.get_closest_marker("timeout")
        item.stash[_LIMIT] = float(mark.args[0]) if mark else self._limit
        if item.path.parent in self._hunts:
            # Each run of a student's test has a limit of its own.
            item.stash[_LIMIT] = _HUNT_LIMIT
        item.add_marker(pytest.mark.timeout(0), append=False)

    def _leave_out(self, left: list[pytest.Item], items: list[pytest.Item]) -> None:
        """Deselect tests that need a feature that this platform lacks."""
        if left:
            self._config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if item not in left]

    def _select_task(self, items: list[pytest.Item]) -> None:
        task = self._config.getoption("--lab-task")
        if task is None:
            return
        marks = [(item, item.get_closest_marker("task")) for item in items]
        remaining = [item for item, mark in marks if mark is not None and mark.args[0] == task]
        self._config.hook.pytest_deselected(items=[item for item in items if item not in remaining])
        items[:] = remaining

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Choose the code under test and print it; start the watchdog if it may be needed."""
        if not self._config.option.collectonly:
            self._begin((item.path, item.name) for item in session.items)
        strangers = [run for run in self._runs.values() if run.implementation.kind != "solution"]
        if strangers:
            self.limits.start_watchdog(strangers[0].implementation.path)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Do the same in the controller, which collects no tests, after a worker has."""
        if not self._runs:
            self._begin((self._config.rootpath / path, name) for path, name in map(_split, ids))
            self.labs.decide_parts()

    def _begin(self, selected: Iterable[tuple[Path, str]]) -> None:
        try:
            self.labs.begin(selected)
        except LabkitError as error:
            # A worker leaves the message to the controller.
            if not self._is_worker:
                raise pytest.UsageError(str(error)) from None
        if self._runs and not self._is_worker:
            self._print_header()

    def _print_header(self) -> None:
        from labkit.running.reporting import report, summary

        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        runs = [*self._runs.values()]
        terminal.ensure_newline()
        if not lab_impl() and runs[0].implementation.kind == "starter":
            terminal.write_line(
                "LAB_IMPL is not set. There are no references here, so your code runs."
            )
        if len(runs) > 1:
            terminal.write_line(summary.header(runs))
        else:
            self.labs.decide_parts()
            terminal.write_line(report.header(runs[0]))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Tell the watchdog; after a few timeouts, run no more tests of the task or the lab."""
        folder = item.path.parent
        if folder not in self._runs:
            return (yield)
        self._timeouts[folder].check(_task_of(item))
        self.limits.begin(item.name, item.stash[_LIMIT])
        with self.limits.enforce(item.stash[_LIMIT]):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Hold the test to its limit, and end it sooner if it is stuck."""
        run = self._runs.get(item.path.parent)
        if run is None:
            return (yield)
        limit = item.stash[_LIMIT]
        # A test with a limit of its own has long inputs, so a call may take long.
        call_limit = _CALL_SHARE * limit if limit == self._limit else None
        again = self._timeouts[item.path.parent].any
        stuck = Stuck(str(run.implementation.path), limit, call_limit, again=again)
        with self.limits.enforce(limit, stuck):
            return (yield)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tell the watchdog that the test is over; tests of other folders have their own limits."""
        self.limits.pause(nodeid.rpartition("::")[2])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the result of a lab's test as data."""
        run = self._runs.get(item.path.parent)
        if run is None:
            return (yield)
        result = self._result(run, call)
        if self._reports_itself:
            # Our report shows the failure; pytest need not draw the traceback, which is slow.
            item.repr_failure = _in_one_line  # type: ignore[method-assign]
            if call.excinfo is not None and call.when != "call":
                call.excinfo = last_frame(call.excinfo)
        report = yield
        if result is None:
            return report
        if platform.page() is not None and result.kind is ResultKind.TIMEOUT:
            # The values that the code has made or keeps would take the memory of the next tests.
            traceback.clear_frames(call.excinfo and call.excinfo.tb)
            self.labs.forget(run.lab.path)
        if result.kind is ResultKind.TIMEOUT and item.stash[_LIMIT] == self._limit:
            self._timeouts[run.lab.path].add(_task_of(item))
        elif _fills_page(result):
            self._timeouts[run.lab.path].add(_task_of(item), "limit of time or memory")
        result = replace(result, printed=_printed(report))
        self.labs.note(run, item.name, result)
        if self._is_worker:
            report.lab_result = pack(result)  # type: ignore[attr-defined]
        if self._reports_itself and not result.passed:
            # Editors show each failure by itself.
            report.longrepr = _in_full(run, item, result)
        return report

    def _result(self, run: LabRun, call: pytest.CallInfo[None]) -> Result | None:
        """Return the result of a phase of a test: a failure, or a call that passed; else None."""
        if call.excinfo is None:
            return Result(ResultKind.PASSED) if call.when == "call" else None
        error = call.excinfo.value
        if isinstance(error, OverdueError):
            where = last_line_in(error, str(run.implementation.path))
            at = f"; it was at line {where[0]} (`{where[1].strip()}`)" if where else ""
            message = f"the test {error.reason}{at}. {TOO_LONG}"
            return Result(ResultKind.TIMEOUT, message, line=where[0] if where else None)
        result = classify(error)
        return result if result.line else replace(result, line=_line(error, run))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the results that workers send."""
        path, test = _split(report.nodeid)
        run = self._runs.get((self._config.rootpath / path).parent)
        if run is None or self._is_worker:
            return
        if hasattr(report, "lab_result"):
            self.labs.note(run, test, unpack(report.lab_result))
        elif hasattr(report, "node") and report.when not in ("setup", "call", "teardown"):
            self._lost_worker = True
            self.labs.note(
                run,
                test,
                Result(ResultKind.TIMEOUT, "the process that ran the test ended: see above"),
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_exception_interact(self, node: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Let `--pdb` stop in the student's code or in the test."""
        run = self._runs.get(node.path.parent)
        if run is not None and call.excinfo is not None and self._config.option.usepdb:
            code = run.implementation.filename
            call.excinfo = students_frames(call.excinfo, code, str(run.lab.test_file))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note that the debugger was quit: then there is no report."""
        self._quit = isinstance(excinfo.value, pytest.exit.Exception)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        """Print our report instead of pytest's account of the same failures."""
        stats = terminalreporter.stats
        ours = [run.lab.path for run in self._runs.values()]
        hidden: dict[str, list[Any]] = {}
        if self._reports_itself:
            for outcome in ("failed", "error"):
                hidden[outcome] = stats.get(outcome, [])
                stats[outcome] = [
                    r for r in hidden[outcome] if not _is_under(r, self._config, ours)
                ]
        try:
            return (yield)
        finally:
            stats.update(hidden)
            self._print_reports(terminalreporter)

    def _print_reports(self, terminal: Any) -> None:
        from labkit.running.reporting import report, summary

        runs = [run for run in self._runs.values() if run.results]
        if not runs or self._quit:
            return
        for run in runs:
            self.labs.note_passing(run)
        colour = terminal._tw.hasmarkup
        terminal.ensure_newline()
        terminal.write_line("")
        for note in dict.fromkeys(self.notes):
            terminal.write_line(note)
        if len(runs) == 1:
            text = report.render(runs[0], colour=colour)
        else:
            text = summary.render(runs, colour=colour)
        terminal.write(_writable(text, terminal) + "\n")

    def _diagnose(self) -> None:
        """Look for the mistake that causes the failures, within a time limit."""
        for run in self._runs.values():
            if run.failing_tasks:
                seconds = min(self._limit, MOST_SECONDS)
                again = self._timeouts[run.lab.path].any
                code = str(run.implementation.path)
                stuck = Stuck(code, seconds, _CALL_SHARE * seconds, again=again)
                quietly = self.limits.enforce_quietly("the diagnosis", seconds, stuck)
                with _nothing_shown(self._config), quietly:
                    self.labs.diagnose(run)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """End the watchdog, write the results file, and call the hook that remembers scores."""
        if not (self._is_worker or self._quit or self._lost_worker):
            self._diagnose()
        self.limits.close()
        if threads := _left_running():
            # Python waits for them when it ends, perhaps forever.
            threading._shutdown = lambda: None  # type: ignore[attr-defined]
        if self._is_worker:
            return
        if threads:
            self.notes.append(f"A thread is still running, and is ended with the run: {threads[0]}")
        results: Path | None = self._config.getoption("--lab-results")
        if results is not None:
            data = [run.as_dict() for run in self._runs.values()]
            results.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        for run in self._runs.values():
            with suppress(LoadFailure):
                if (newer := newer_syntax(run.implementation.source())) is not None:
                    self.notes.append(newer)
            self.notes += self._config.hook.pytest_lab_finished(config=self._config, run=run)
        sys.stdout.flush()


def _task_of(item: pytest.Item) -> int | None:
    mark = item.get_closest_marker("task")
    return int(mark.args[0]) if mark is not None else None


def _can_run(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("needs")
    return mark is None or platform.has(mark.args[0])


def _fills_page(result: Result) -> bool:
    """Return whether the test used up the memory of a browser, which takes as long as a timeout."""
    raised = result.failure.raised if result.failure is not None else None
    return platform.page() is not None and raised is not None and raised.kind == "MemoryError"


def _line(error: BaseException, run: LabRun) -> int | None:
    """Return the deepest line of the file under test in an exception's traceback, by number."""
    raised = error.raised if isinstance(error, Failure) else None
    if raised is None or raised.error is None:
        return None
    where = last_line_in(raised.error, run.implementation.filename)
    # A result may be refused after the code has returned it.
    named = re.match(r"line (\d+): ", raised.line)
    return where[0] if where else int(named[1]) if named else None


def _split(nodeid: str) -> tuple[str, str]:
    """Return the file and the test of a node id."""
    path, _, test = nodeid.partition("::")
    return path, test


def _writable(text: str, terminal: Any) -> str:
    """Return a text as its terminal can show it; pytest would also escape line endings."""
    encoding = getattr(terminal._tw._file, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def _nothing_shown(config: pytest.Config) -> Iterator[None]:
    """Discard the output of the body; between tests, pytest captures nothing."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.resume_global_capture()
    try:
        # The output may be large, so none of it is kept.
        with (
            open(os.devnull, "w", encoding="utf-8", errors="replace") as nowhere,
            redirect_stdout(nowhere),
            redirect_stderr(nowhere),
        ):
            yield
    finally:
        capture.suspend_global_capture(in_=True)
        capture.read_global_capture()


def _left_running() -> list[str]:
    """Return the names of threads that the code under test started and did not end."""
    own = (threading.main_thread(), threading.current_thread())
    return [t.name for t in threading.enumerate() if t not in own and not t.daemon]


def _printed(report: pytest.TestReport) -> str:
    text = report.capstdout + report.capstderr
    if len(text) <= _MOST_PRINTED:
        return text
    return f"{text[:_MOST_PRINTED]}… ({len(text) - _MOST_PRINTED} characters more)"


def _in_full(run: LabRun, item: pytest.Item, result: Result) -> str:
    name = item.name if run.lab.hunt is not None else getattr(item, "originalname", item.name)
    tests = (test for test in run.tests if test.name == name)
    return next((explain(test, result) for test in tests), result.message)


def _in_one_line(excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
    return str(excinfo.value)


def _is_under(report: Any, config: pytest.Config, folders: list[Path]) -> bool:
    path = config.rootpath / str(getattr(report, "fspath", ""))
    return path.parent in folders
