"""The labs of one session: the code under test of each, and the results of its tests."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from labkit.course.lab import FACTS, Lab, find_labs, read_lab
from labkit.errors import LoadFailure
from labkit.running import platform
from labkit.running.diagnose import diagnose, read_mistakes
from labkit.running.drive import Driver, perform
from labkit.running.given import for_tests
from labkit.running.hunt_results import Hunting
from labkit.running.hunting.asserts import with_values
from labkit.running.hunting.here import Here
from labkit.running.hunting.progress import CountedRuns
from labkit.running.hunting.rules import Run, hunt
from labkit.running.hunting.verdict import FUSE, PAGE_FUSE
from labkit.running.lab_impl import Implementation, choose, lab_impl, load, short_hash
from labkit.running.remote.apart import Apart
from labkit.running.score import LabRun, Result
from labkit.running.trace import Call, New, Trace
from labkit.running.under_test import CodeUnderTest, root_of


def folder_of_lab(path: Path) -> Path | None:
    """Return the folder of the lab whose test file this is, or None."""
    is_lab = path.name == "test_lab.py" and (path.parent / FACTS).exists()
    return path.parent if is_lab else None


class LabsOfSession:
    """The runs of labs, by folder.

    Args:
        seed: of the randomised cases.
        passed_before: whether the student's current file of a lab passed in an earlier session.
        after_run: called after the code under test has run, with the kind of exception that it
            raised, or "".
        is_debugged: whether a debugger is to stop in the code under test, in this process.
        has_terminal: whether a person watches, who is shown how far long work is.

    Attributes:
        runs: the results of each lab so far.
        perform: carries out each run of a test; a recorder notes the runs by replacing it.
    """

    def __init__(
        self,
        seed: str,
        passed_before: Callable[[Lab], bool],
        after_run: Callable[[str], None],
        is_debugged: Callable[[], bool] = lambda: False,
        has_terminal: bool = False,
    ) -> None:
        self._seed = seed
        self._passed_before = passed_before
        self._after_run = after_run
        self._is_debugged = is_debugged
        self._has_terminal = has_terminal
        self._code: dict[Path, CodeUnderTest] = {}
        self.runs: dict[Path, LabRun] = {}
        self.perform = perform

    def begin(self, selected: Iterable[tuple[Path, str]]) -> None:
        """Choose the code under test of each lab that has a selected test.

        Args:
            selected: the tests that are to run: file and name.

        Raises:
            LabkitError: `LAB_IMPL` or `LAB_PARTS` does not fit, or a lab is malformed.
        """
        names: dict[Path, set[str]] = {}
        for path, name in selected:
            folder = folder_of_lab(path)
            if folder is not None:
                names.setdefault(folder, set()).add(name)
        labs = [read_lab(folder) for folder in names]
        chosen = choose(lab_impl(), labs, Path.cwd())
        for lab in labs:
            self.runs[lab.path] = self._start(lab, chosen[lab.path])
            own = frozenset(_test(lab, name) for name in names[lab.path])
            self.runs[lab.path].selected = own

    def _start(self, lab: Lab, implementation: Implementation) -> LabRun:
        try:
            digest = short_hash(implementation.source())
        except LoadFailure:
            digest = "missing"
        self._code[lab.path] = CodeUnderTest(lab, implementation, root_of(lab), self._passes)
        return LabRun(lab, implementation, digest, self._seed)

    def _passes(self, lab: Lab) -> bool:
        """Return whether the student's file of a lab has passed in this session or before."""
        run = self.runs.get(lab.path)
        if run is not None and run.implementation.kind == "starter" and run.complete:
            return run.perfect
        return self._passed_before(lab)

    def note_passing(self, run: LabRun) -> None:
        """Note which labs pass, for the report."""
        labs = find_labs(root_of(run.lab))
        run.passing = frozenset(lab.name for lab in labs if self._passes(lab))

    def decide_parts(self, *folders: Path) -> None:
        """Choose the parts of these labs; without an argument, of all labs."""
        for folder in folders or self.runs:
            code, run = self._code[folder], self.runs[folder]
            run.parts = code.where_parts_come_from()
            run.waits_for = code.waits_for.label if code.waits_for is not None else ""

    def driver(self, folder: Path, test: str) -> Driver:
        """Return the driver of a lab's code for one test.

        Raises:
            LoadFailure: it cannot be imported, or a part is missing.
        """
        self.decide_parts(folder)
        try:
            with platform.readers_code():
                self._code[folder].load()
        finally:
            self._after_run("")
        return self._driver(folder, f"{self._seed}/{test}")

    def forget(self, folder: Path) -> None:
        """Let go of a lab's code with all that it keeps; the next test imports it anew."""
        self._code[folder].forget()

    def fresh_code(self, folder: Path) -> Callable[[str], Any]:
        """Import the code of a lab anew; return a function that returns its objects by name.

        Raises:
            LoadFailure: it cannot be imported, or a part is missing.
        """
        run = self.runs[folder]
        code = CodeUnderTest(run.lab, run.implementation, root_of(run.lab), self._passes)
        code.load()
        return code.resolve

    def files_under_test(self, folder: Path) -> list[Implementation]:
        """Return the code under test of a lab, then the parts that are the student's own files."""
        code = self._code[folder]
        return [self.runs[folder].implementation, *code.own_parts]

    def hunting(self, folder: Path) -> Hunting:
        """Return the outcome of a hunt, for its tests; the hunt runs once.

        Raises:
            LoadFailure: the student's tests cannot be imported.
        """
        run, code = self.runs[folder], self._code[folder]
        if run.hunted is None:
            facts = run.lab.hunt
            assert facts is not None
            try:
                code.load()
            finally:
                self._after_run("")
            source, most = run.implementation.source(), facts.most_tests
            if not platform.can_fork() or self._is_debugged():
                load_tests = partial(
                    load,
                    run.implementation,
                    f"hunting.{run.lab.label}",
                    run.lab.given,
                    with_values,
                )
                fuse = FUSE if platform.page() is None else PAGE_FUSE
                runs_here = Here(load_tests, fuse, self._after_run)
                run.hunted = hunt(source, run.lab.pool, most, runs_here, self._seed)
            else:
                shown = run.implementation.filename
                # Nothing that the tests can compute tells them the order of their runs.
                seed, cores = token_hex(), os.cpu_count() or 1
                with ExitStack() as ends:
                    runs: Run = ends.enter_context(
                        Apart(source, shown, run.lab.given, after_run=self._after_run)
                    )
                    if self._has_terminal:
                        runs = ends.enter_context(CountedRuns(runs, run.lab.pool))
                    run.hunted = hunt(source, run.lab.pool, most, runs, seed, cores)
        return Hunting(run.lab.pool, run.hunted)

    def _driver(self, folder: Path, seed: str) -> Driver:
        resolve = self._code[folder].resolve

        def performed(new: Sequence[New], calls: Iterable[Call], watch: str) -> Trace:
            with platform.readers_code():
                trace = self.perform(resolve, new, calls, watch)
            error = None if trace.raised is None else trace.raised.error
            if isinstance(error, MemoryError) and platform.page() is not None:
                # Whatever the code keeps would leave no memory for the report.
                error.__traceback__ = None
                self.forget(folder)
            self._after_run("" if trace.raised is None else trace.raised.kind)
            return trace

        return Driver(performed, seed, partial(for_tests, self._code[folder].given))

    def note(self, run: LabRun, test: str, result: Result) -> None:
        """Note the result of a test; if any of its phases fails, the test fails."""
        name = _test(run.lab, test)
        if not result.passed or name not in run.results:
            run.results[name] = result

    def diagnose(self, run: LabRun) -> None:
        """Look for the mistake that causes the failures of a lab."""
        folder = run.lab.path
        lab = self._driver(folder, self._seed)
        run.mistake = diagnose(read_mistakes(folder), lab, run.failing_tasks, run.overdue)


def _test(lab: Lab, name: str) -> str:
    """Return the name that a lab's list of tests has for one of pytest's."""
    return name if lab.hunt is not None else name.partition("[")[0]
