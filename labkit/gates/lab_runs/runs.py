"""Runs of labs: each is a process of its own, and about as many run as there are processors.

The processes are forked from a server that has imported pytest, which takes a new Python half a
second. If a lab is run more than once, they are forked from a process that has also collected the
lab.
"""

import gc
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from heapq import heappop, heappush
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Self, TypeVar

import pytest

from labkit.course.lab import Lab
from labkit.errors import LabkitError
from labkit.gates.lab_runs.collected import CollectedLab
from labkit.running.lab_impl import choose
from labkit.running.result_kind import ResultKind

Outcome = dict[str, Any]
_T = TypeVar("_T")
# The part of its time limit that a test of linear cost gets. Code that is as fast as the reference
# needs a fifth of this part.
HURRY = 0.25
_HUNT_SECONDS = 8
# One more than there are processors: some jobs often wait, for a sandbox or for a lock.
_WORKERS = (os.cpu_count() or 1) + 1
_FORKS = multiprocessing.get_context("forkserver")
# The imports of a run, except the plugins themselves, which pytest must import itself.
PRELOAD = [
    "pytest", "pdb", "unittest", "difflib", "xml.etree.ElementTree", "labkit.running.diagnose",
    "labkit.running.drive", "labkit.running.reporting.report", "labkit.running.under_test",
    "labkit.running.limits.watchdog", "labkit.student.progress", "labkit.testing",
]  # fmt: skip
_FORKS.set_forkserver_preload(PRELOAD)


class Runs:
    """A queue of jobs, the slowest first, which keeps all processors busy.

    Jobs are functions, and runs of labs; equal runs are one job. A terminal shows how many jobs are
    done.

    Args:
        root: the repository.

    Attributes:
        started: the number of runs of labs.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stack = ExitStack()
        # No source changes while these run, so no bytecode can be stale: the runs share it.
        self._bytecode = self._stack.enter_context(tempfile.TemporaryDirectory())
        self._processes = ProcessPoolExecutor(_WORKERS, _FORKS)
        self._stack.callback(self._processes.shutdown, cancel_futures=True)
        self._threads = ThreadPoolExecutor(_WORKERS)
        self._stack.callback(self._threads.shutdown, cancel_futures=True)
        self._lock = Lock()
        self._waiting: list[tuple[float, int, Future[Any], Callable[[], Any]]] = []
        self._jobs = self._done = self.started = 0
        self._outcomes: dict[Any, Future[Outcome]] = {}
        self._labs: dict[Any, CollectedLab] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            for _, _, future, _ in self._waiting:
                # Cancelling ends the wait of its callers.
                future.cancel()
            self._waiting.clear()
        self._stack.close()

    def run(self, lab: Lab, implementation: str, hurry: float) -> "Future[Outcome]":
        """Run a lab, see `run_lab`; an equal run is not repeated."""
        collected = self._collected(lab, hurry)
        key = (lab.path, hurry, _source(self._root, lab, implementation))
        with self._lock:
            if key in self._outcomes:
                return self._outcomes[key]
            self.started += 1
            run = partial(run_lab, self._root, lab, implementation, hurry, collected)
            self._outcomes[key] = future = self._put(_cost(lab, implementation, hurry), run)
            return future

    def call(self, cost: float, function: Callable[..., _T], *arguments: Any) -> "Future[_T]":
        """Call a function in a process, after all jobs that cost more seconds."""
        with self._lock:
            return self._put(cost, lambda: self._processes.submit(function, *arguments).result())

    def _put(self, cost: float, job: Callable[[], _T]) -> "Future[_T]":
        future: Future[_T] = Future()
        self._jobs += 1
        heappush(self._waiting, (-cost, self._jobs, future, job))
        self._threads.submit(self._work)
        return future

    def _work(self) -> None:
        with self._lock:
            *_, future, job = heappop(self._waiting)
        try:
            future.set_result(job())
        except Exception as error:
            future.set_exception(error)
        with self._lock:
            self._done += 1
            if sys.stdout.isatty():
                done = f"{self._done}/{self._jobs}"
                print(done + "\b" * len(done), end="", flush=True)

    def _collected(self, lab: Lab, hurry: float) -> CollectedLab:
        key = lab.path, hurry
        with self._lock:
            if key not in self._labs:
                arguments, env = _arguments(self._root, lab, hurry), _environment()
                self._labs[key] = collected = CollectedLab(
                    _FORKS, arguments, self._root, env, self._bytecode
                )
                self._stack.callback(collected.close)
            return self._labs[key]


_SHARED: list[Runs] = []


@contextmanager
def shared(root: Path) -> Iterator[Runs]:
    """Let all callers inside share the runs of labs and their processes."""
    with Runs(root) as runs:
        _SHARED.append(runs)
        try:
            yield runs
        finally:
            _SHARED.pop()


class Question(NamedTuple):
    """A gate's question about a run of a lab.

    Attributes:
        lab: the lab.
        implementation: the implementation to run, a value of `LAB_IMPL`.
        faults: returns the faults of an outcome.
    """

    lab: Lab
    implementation: str
    faults: Callable[[Outcome], Iterable[str]]


def answers(root: Path, questions: Sequence[Question]) -> list[list[str]]:
    """Make the runs of all questions at the same time; return the faults of each, in order.

    If a run exceeded its time, its faults count only if a run with the whole limits has them as
    well: on a busy machine, even processor time runs faster.
    """
    with nullcontext(_SHARED[-1]) if _SHARED else Runs(root) as runs:

        def ask(some: Sequence[Question], hurry: float) -> list[Outcome]:
            outcomes = [runs.run(lab, implementation, hurry) for lab, implementation, _ in some]
            return [outcome.result() for outcome in outcomes]

        outcomes = ask(questions, HURRY)
        faults = [*map(_faults, questions, outcomes)]
        late = [n for n, outcome in enumerate(outcomes) if faults[n] and _is_late(outcome)]
        again = [questions[n] for n in late]
        for n, question, outcome in zip(late, again, ask(again, 1.0), strict=True):
            faults[n] = _faults(question, outcome)
        return faults


def _faults(question: Question, outcome: Outcome) -> list[str]:
    if "error" in outcome:
        return [f"did not run: {outcome['error']}"]
    return [*question.faults(outcome)]


def _is_late(outcome: Outcome) -> bool:
    return any(test["kind"] == ResultKind.TIMEOUT for test in outcome.get("tests", {}).values())


def run_lab(
    root: Path,
    lab: Lab,
    implementation: str,
    hurry: float = 1.0,
    collected: CollectedLab | None = None,
) -> Outcome:
    """Run one lab under `LAB_IMPL=implementation`; return its results file, or `{"error": ...}`.

    Args:
        root: the repository.
        lab: the lab.
        implementation: the implementation to run.
        hurry: the part of its time limit that a test of linear cost gets.
        collected: the lab collected with this `hurry`; without it, a whole pytest is run.
    """
    with tempfile.TemporaryDirectory() as scratch:
        results = Path(scratch) / "results.json"
        printed = None if collected is None else collected.run(implementation, results)
        if printed is None:
            command = [*_arguments(root, lab, hurry), "--lab-results", str(results)]
            env = {**_environment(), "LAB_IMPL": implementation}
            _, printed = run_pytest(command, root, env)
        # Without a run, the list is empty.
        outcomes = json.loads(results.read_text(encoding="utf-8")) if results.exists() else []
        outcome: Outcome = outcomes[0] if outcomes else {"error": printed.strip()[-2000:]}
        return outcome


def _arguments(root: Path, lab: Lab, hurry: float) -> list[str]:
    return [str(lab.path), "-q", "-p", "no:cacheprovider", "--rootdir", str(root),
            "-p", "labkit.gates.lab_runs.hurry", "--hurry", str(hurry)]  # fmt: skip


def _environment() -> dict[str, str]:
    return {**os.environ, "LAB_PARTS": "reference"}


def _source(root: Path, lab: Lab, implementation: str) -> object:
    """Return a key that separates implementations: the source, if the implementation has one."""
    try:
        return choose(implementation, [lab], root)[lab.path].source()
    except LabkitError:
        return implementation


def _cost(lab: Lab, implementation: str, hurry: float) -> float:
    """Return about how many seconds a run takes: a slow bug runs into time limits."""
    name = implementation.removeprefix("bug:")
    if lab.hunt is not None or name == implementation:
        return 1 if lab.hunt is None else _HUNT_SECONDS
    killers = next((bug.killed_by for bug in lab.bugs if bug.name == name), frozenset())
    return 1 + hurry * sum(test.timeout or 0 for test in lab.tests if test.name in killers)


def run_pytest(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str], bytecode: str | None = None
) -> tuple[int | None, str]:
    """Run pytest in a process of its own.

    Args:
        arguments: the arguments of its command line.
        folder: the working folder.
        env: its environment.
        bytecode: a folder for bytecode; without a folder, no bytecode is kept.

    Returns:
        The exit code, None if the process died without one, and the whole output.
    """
    output, to_output = _FORKS.Pipe(duplex=False)
    code, to_code = _FORKS.Pipe(duplex=False)
    process = _FORKS.Process(
        target=_run_here, args=(list(arguments), folder, dict(env), bytecode, to_output, to_code)
    )
    process.start()
    to_output.close()
    to_code.close()
    with open(output.fileno(), "rb", closefd=False) as stream:
        # Until the last process has closed it: the watchdog prints after its process has ended.
        printed = stream.read().decode(errors="replace")
    process.join()
    try:
        return code.recv(), printed
    except EOFError:
        return None, printed


def _run_here(
    arguments: list[str],
    folder: Path,
    env: dict[str, str],
    bytecode: str | None,
    output: Connection,
    code: Connection,
) -> None:
    # The server's imports are not garbage; pytest searches for garbage when it ends.
    gc.freeze()
    for stream in (1, 2):
        os.dup2(output.fileno(), stream)
    output.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bytecode is None
    sys.pycache_prefix = bytecode
    code.send(int(pytest.main(arguments)))
