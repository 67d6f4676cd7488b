"""The pytest plugin: the `lab` fixture, time limits, results, and the report at the end.

It acts on tests in a `test_lab.py` beside a `lab.toml`; all other tests are left alone.
"""

import json
import os
import sys
from collections.abc import Generator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from labkit.course.lab import Lab, read_lab
from labkit.errors import LoadFailure, UsageError
from labkit.running.diagnose import diagnose, read_mistakes
from labkit.running.drive import Driver, perform
from labkit.running.lab_impl import Implementation, choose, short_hash, wanted
from labkit.running.score import (
    ENOUGH_TIMEOUTS,
    TEST_LIMIT,
    TIMEOUTS_ALLOWED,
    TOO_LONG,
    LabRun,
    NotRunError,
    Result,
    classify,
)
from labkit.running.source import last_line_in
from labkit.running.time_limit import REAL_TO_PROCESSOR, OverdueError, time_limit
from labkit.running.under_test import CodeUnderTest
from labkit.running.watchdog import Watchdog

_PLUGIN: pytest.StashKey["LabPlugin"] = pytest.StashKey()
_LIMIT: pytest.StashKey[float] = pytest.StashKey()
_DIAGNOSIS_SECONDS = 2.0
_MARKS = (
    "task(n): the task of the lab that this test belongs to",
    "points(n): what the test is worth; the points of a lab add up to 100",
    "given: shows something instead of grading it; no points",
    "varies(name): of a hidden test: the test of the lab whose rule it asks again",
    "visibility(when): of a hidden test: who may see it, see labkit.grading.overlay",
)


class LabHooks:
    """Hooks of lab runs. `labkit.student.plugin` implements them, to remember scores."""

    @pytest.hookspec(firstresult=True)
    def pytest_lab_passes(self, config: pytest.Config, lab: Lab) -> bool | None:
        """Return whether the student's own `starter.py` of `lab` passes as it is now."""

    @pytest.hookspec
    def pytest_lab_finished(self, config: pytest.Config, run: LabRun) -> None:
        """Called for each lab when the session is over."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks of lab runs."""
    pluginmanager.add_hookspecs(LabHooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of lab runs."""
    group = parser.getgroup("labs")
    group.addoption("--lab-seed", default=os.environ.get("LAB_SEED", "0"), metavar="SEED",
                    help="seed of the randomised cases (default: LAB_SEED, else 0)")  # fmt: skip
    group.addoption("--lab-task", type=int, metavar="N", help="run only the tests of task N")
    group.addoption("--lab-limit", type=float, default=TEST_LIMIT, metavar="SECONDS",
                    help="for each test that has no limit of its own (default: 5)")  # fmt: skip
    group.addoption("--lab-results", type=Path, metavar="FILE",
                    help="write the results of all labs to FILE as JSON")  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks and set up the plugin's state."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)
    plugin = LabPlugin(config)
    config.stash[_PLUGIN] = plugin
    config.pluginmanager.register(plugin, "labkit-session")


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Driver:
    """The implementation under test, driven through `labkit.running.drive`."""
    plugin = request.config.stash[_PLUGIN]
    return plugin.driver(request.node)


class LabPlugin:
    """The state of one pytest session."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seed: str = config.getoption("--lab-seed")
        self._limit: float = config.getoption("--lab-limit")
        self._runs: dict[Path, LabRun] = {}
        self._code: dict[Path, CodeUnderTest] = {}
        self._timeouts: dict[Path, int] = {}
        self._watchdog: Watchdog | None = None

    @property
    def _reports_itself(self) -> bool:
        """Whether failures of labs show in our report only; `--tb=long` asks for pytest's too."""
        return bool(self._config.option.tbstyle == "auto")

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Find the labs among the collected tests and decide what is under test."""
        labs: dict[Path, Lab] = {}
        selected: dict[Path, set[str]] = {}
        for item in items:
            folder = item.path.parent
            if item.path.name == "test_lab.py" and (folder / "lab.toml").exists():
                labs.setdefault(folder, read_lab(folder))
                self._set_limit(item)
        self._select_task(items)
        for item in items:
            names = selected.setdefault(item.path.parent, set())
            names.add(getattr(item, "originalname", item.name))
        try:
            chosen = choose(wanted(), list(labs.values()), Path.cwd())
            for path, implementation in chosen.items():
                self._runs[path] = self._start_run(labs[path], implementation)
                self._runs[path].selected = frozenset(selected.get(path, ()))
        except (UsageError, LoadFailure) as error:
            raise pytest.UsageError(str(error)) from None

    def _set_limit(self, item: pytest.Item) -> None:
        """Take the mark `timeout` as processor time; pytest-timeout minds the real time."""
        mark = item.get_closest_marker("timeout")
        item.stash[_LIMIT] = float(mark.args[0]) if mark else self._limit
        item.add_marker(pytest.mark.timeout(item.stash[_LIMIT] * REAL_TO_PROCESSOR), append=False)

    def _select_task(self, items: list[pytest.Item]) -> None:
        task = self._config.getoption("--lab-task")
        if task is None:
            return
        marks = [(item, item.get_closest_marker("task")) for item in items]
        kept = [item for item, mark in marks if mark is not None and mark.args[0] == task]
        self._config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def _start_run(self, lab: Lab, implementation: Implementation) -> LabRun:
        try:
            digest = short_hash(implementation.source())
        except LoadFailure:
            digest = "missing"
        code = CodeUnderTest(lab, implementation, self._config.rootpath, self._passes)
        self._code[lab.path] = code
        return LabRun(lab, implementation, digest, self._seed, code.where_parts_come_from())

    def _passes(self, lab: Lab) -> bool:
        return bool(self._config.hook.pytest_lab_passes(config=self._config, lab=lab))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Say what is under test, and start the watchdog where it may be needed."""
        from labkit.running import report

        if not self._runs or self._config.option.collectonly:
            return
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        for run in self._runs.values():
            terminal.ensure_newline()
            terminal.write_line(report.header(run))
        strangers = [run for run in self._runs.values() if run.implementation.kind != "solution"]
        if strangers and hasattr(os, "fork") and not self._config.getoption("usepdb"):
            capture: Any = self._config.pluginmanager.getplugin("capturemanager")
            with capture.global_and_fixture_disabled():
                out = os.dup(2)
            self._watchdog = Watchdog(out, strangers[0].implementation.path.name)

    def driver(self, item: pytest.Item) -> Driver:
        """Return the driver for one test."""
        code = self._code[item.path.parent]
        code.load()
        return Driver(partial(perform, code.resolve), f"{self._seed}/{item.name}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        """Tell the watchdog; do not wait for the time limit over and over."""
        folder = item.path.parent
        if folder not in self._runs:
            return (yield)
        if self._timeouts.get(folder, 0) >= TIMEOUTS_ALLOWED:
            raise NotRunError(ENOUGH_TIMEOUTS)
        if self._watchdog is not None:
            self._watchdog.begin(item.name, item.stash[_LIMIT])
        with time_limit(item.stash[_LIMIT]):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        """Hold the test to its limit."""
        if item.path.parent not in self._runs:
            return (yield)
        with time_limit(item.stash[_LIMIT]):
            return (yield)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Tell the watchdog that the test is over; those of other folders have their own limits."""
        if self._watchdog is not None:
            self._watchdog.pause(nodeid.rpartition("::")[2])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keep the result of a lab's test as data."""
        run = self._runs.get(item.path.parent)
        if run is None:
            return (yield)
        if self._reports_itself:
            # Our report shows the failure; pytest need not draw the traceback, which takes long.
            item.repr_failure = _in_one_line  # type: ignore[method-assign]
        outcome = yield
        name = getattr(item, "originalname", item.name)
        if call.excinfo is not None:
            result = self._classify(run, call.excinfo.value)
            run.results[name] = result
            if result.kind == "timeout" and item.stash[_LIMIT] == self._limit:
                self._timeouts[run.lab.path] = self._timeouts.get(run.lab.path, 0) + 1
        elif call.when == "call":
            run.results.setdefault(name, Result("passed"))
        return outcome

    def _classify(self, run: LabRun, error: BaseException) -> Result:
        limits = isinstance(error, OverdueError | pytest.fail.Exception)
        if limits and str(error).startswith("Timeout"):
            where = last_line_in(error, str(run.implementation.path))
            at = f"; it was at line {where[0]} (`{where[1].strip()}`)" if where else ""
            return Result("timeout", f"the test did not end within its time limit{at}. {TOO_LONG}")
        return classify(error)

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

    def _diagnose(self) -> None:
        """Look for the mistake behind the failures; one that takes long is not looked for."""
        for path, run in self._runs.items():
            if not run.failing_tasks:
                continue
            lab = Driver(partial(perform, self._code[path].resolve), self._seed)
            if self._watchdog is not None:
                self._watchdog.begin("the diagnosis", _DIAGNOSIS_SECONDS)
            with suppress(OverdueError), time_limit(_DIAGNOSIS_SECONDS):
                run.mistake = diagnose(read_mistakes(path), lab, run.failing_tasks)
            if self._watchdog is not None:
                self._watchdog.pause("the diagnosis")

    def _print_reports(self, terminal: Any) -> None:
        if not self._runs:
            return
        from labkit.running import report

        terminal.ensure_newline()
        for run in self._runs.values():
            if not run.results:
                continue
            terminal.write_line("")
            terminal.write(report.render(run, colour=terminal._tw.hasmarkup) + "\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Send the watchdog home, write the results file, tell whoever remembers scores."""
        self._diagnose()
        if self._watchdog is not None:
            self._watchdog.close()
        results: Path | None = self._config.getoption("--lab-results")
        if results is not None:
            data = [run.as_dict() for run in self._runs.values()]
            results.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        for run in self._runs.values():
            self._config.hook.pytest_lab_finished(config=self._config, run=run)
        sys.stdout.flush()


def _in_one_line(excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
    return str(excinfo.value)


def _is_under(report: Any, config: pytest.Config, folders: list[Path]) -> bool:
    path = config.rootpath / str(getattr(report, "fspath", ""))
    return path.parent in folders
