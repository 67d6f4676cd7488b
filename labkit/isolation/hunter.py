"""A hunt behind walls: a student's tests in one process, the implementation in another.

Each run of the tests on an implementation is a fresh process, whose only input is the
implementation's answers. Order and number of the runs are drawn from the secret seed and the
submission: a test cannot know how many runs there are, which run is next, or the results of the
previous run. The implementations run one after the other in one process, which never has a
submission.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from labkit.course.hunt import Code, Pool
from labkit.errors import InfrastructureError, LoadFailure
from labkit.isolation.host import Host, PartsHost, Sources, WorkerError
from labkit.isolation.sandbox import Sandbox, Worker
from labkit.running.hunt_results import results_of
from labkit.running.hunting import work
from labkit.running.hunting.rules import hunt, plan
from labkit.running.hunting.verdict import (
    FUSE,
    Verdict,
    VerdictKind,
    endless,
    fuse_blown,
    verdict_of,
)
from labkit.running.limits.time_limit import OverdueError
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun, classify
from labkit.running.source import Given

_NOTHING = Sources("nothing", {"nothing": ("nothing", "nothing", b"")})
_SLEPT = "slept"


class _Implementations(PartsHost):
    """The process of the implementations."""

    _sent: tuple[Worker | None, Sources | None] = (None, None)

    def hold(self, code: Code, program: bytes) -> None:
        """Have an implementation imported from now on."""
        parts = dict.fromkeys(code.target.names, "code")
        module = (code.name, code.name, program)
        self._sources = Sources("code", {"code": module}, parts, given=Given(code.imports))

    def renew(self) -> None:
        """Have the implementation imported again before its next request, and its work counted."""
        self._imported = False

    def _load_request(self) -> tuple[Any, ...]:
        worker, sources = self._sent
        is_there = worker is self._worker and sources is self._sources
        self._sent = self._worker, self._sources
        return ("renew", work.MOST_CALLS, *(() if is_there else self._sources.request))

    def excess(self) -> str:
        """Return why the implementation's work was too much, or "".

        Raises:
            WorkerError: the process of the implementation is gone.
        """
        (reason,) = self._ask("count", work.MOST_CALLS)
        return str(reason)


class _Tests(Host):
    """The process of a student's tests. The process of the implementations may outlive it."""

    def close(self) -> None:
        implementations, self._parts = self._parts, None
        try:
            super().close()
        finally:
            self._parts = implementations


class Hunter:
    """Runs tests on implementations: see `labkit.running.hunting.rules.Run`. Use it with `with`.

    Args:
        sandbox: starts workers.
        sources: of the submission.
        fuse: how many seconds of processor time the tests of a run may use.

    Attributes:
        killed: a message for each process that was ended by a signal which may have come from
            outside.
    """

    def __init__(self, sandbox: Sandbox, sources: Sources, fuse: float = FUSE) -> None:
        self._sandbox = sandbox
        self._sources = sources
        self._fuse = fuse
        self._implementations = _Implementations(sandbox, _NOTHING)
        self.killed: list[str] = []

    def __enter__(self) -> "Hunter":
        return self

    def __exit__(self, *_: object) -> None:
        self._implementations.close()

    def load(self) -> None:
        """Check that the tests can be imported.

        Raises:
            LoadFailure: they cannot.
        """
        host = Host(self._sandbox, self._sources)
        try:
            host.begin(self._fuse)
            failure = host.load()
        except WorkerError as error:
            failure = str(error)
        finally:
            host.close()
        if failure is not None:
            raise LoadFailure(failure)
        # A source whose imports are forbidden fails before any of it has run, so the answer of this
        # worker can be relied on so far.
        self._sources = replace(self._sources, are_checked=True)

    def __call__(self, code: Code, tests: Sequence[str]) -> dict[str, Verdict]:
        """Run tests on an implementation."""
        verdicts: dict[str, Verdict] = {}
        host = _Tests(self._sandbox, self._sources, self._implementations)
        self._implementations.hold(code, code.metered_program())
        left = self._fuse
        try:
            for test in tests:
                self._implementations.renew()
                verdict = verdicts[test] = self._run(host, test, left)
                left -= verdict.seconds
                if verdict.kind is VerdictKind.ENDLESS:
                    break
        finally:
            host.close()
            self.killed += host.killed
        return verdicts

    def _run(self, host: _Tests, test: str, left: float) -> Verdict:
        began, before = time.monotonic(), self._computed(host)
        try:
            host.begin(max(left, 0.0))
            with host.own_time.limit():
                failure = host.load()
                if failure is not None:
                    return Verdict(VerdictKind.FAILED, failure)
                trace = host.perform(plan(test), (), "")
                host.end()
            reason = self._implementations.excess()
            verdict = Verdict(VerdictKind.FAILED, reason) if reason else verdict_of(trace.raised)
            return replace(verdict, seconds=self._computed(host) - before)
        except WorkerError as error:
            if error.kind is not ResultKind.TIMEOUT:
                # The process's CPU time is not known any more.
                return Verdict(VerdictKind.FAILED, str(error), time.monotonic() - began)
            waits = _SLEPT in str(error)
            return endless("it waits") if waits else fuse_blown(self._fuse)
        except InfrastructureError:
            raise
        except (OverdueError, MemoryError, RecursionError) as error:
            # The time limit may have struck while an answer was read.
            host.close()
            self._implementations.close()
            return Verdict(VerdictKind.FAILED, f"{error}", time.monotonic() - began)

    def _computed(self, host: Host) -> float:
        return host.computed() + self._implementations.computed()


def run_hunt(run: LabRun, source: bytes, pool: Pool, sandbox: Sandbox) -> list[str]:
    """Run a student's tests on a pool; put the results into the run.

    Args:
        run: the run of a hunt.
        source: the source of the tests.
        pool: the implementations.
        sandbox: starts workers.

    Returns:
        A message for each process that was ended by a signal which may have come from outside.
    """
    facts, lab = run.lab.hunt, run.lab
    assert facts is not None
    sources = Sources(
        "tests", {"tests": ("starter.py", "starter.py", source)}, given=Given(lab.given)
    )
    with Hunter(sandbox, sources) as hunter:
        try:
            hunter.load()
        except LoadFailure as failure:
            run.results |= {test.name: classify(failure) for test in lab.tests_of(pool)}
            return hunter.killed
        run.hunted = hunt(source, pool, facts.most_tests, hunter, run.seed)
        run.results |= results_of(lab.tests_of(pool), pool, run.hunted)
        return hunter.killed
