"""A hunt behind walls: a student's tests in one process, the implementation in another.

Each run of the tests on an implementation is a fresh process, whose only input is the
implementation's answers. Order and number of the runs are drawn from the secret seed and the
submission: a test cannot know how many runs there are, which run is next, or the results of the
previous run. The implementations run one after the other in one process, which never has a
submission.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
# Of a test on an implementation, and of all tests of a lab on its implementations.
_MOST_BYTES_OF_RECORD = 1 << 20
_MOST_BYTES_OF_RECORDS = 64 << 20


@dataclass(frozen=True)
class _Record:
    """A test on an implementation: the requests and answers, and why the work was too much."""

    exchanges: list[tuple[bytes, bytes]]
    size: int
    excess: str


class _Implementations(PartsHost):
    """The process of the implementations.

    An implementation gives the same answers to the same requests. So in its later runs the answers
    of an earlier run are repeated here, as long as the test makes the same requests.
    """

    def __init__(self, sandbox: Sandbox, sources: Sources) -> None:
        super().__init__(sandbox, sources)
        self._sent: tuple[Worker | None, Sources | None] = (None, None)
        self._code: Code | None = None
        # The records of the tests of one target, by implementation and test.
        self._records: dict[tuple[str, str], _Record] = {}
        self._test = ""
        # The record that is being repeated.
        self._earlier: _Record | None = None
        self._exchanges: list[tuple[bytes, bytes]] = []
        self._size = 0

    def hold(self, code: Code, program: bytes) -> None:
        """Have an implementation imported from now on."""
        if self._code is None or code.target is not self._code.target:
            self._records.clear()
        self._code = code
        parts = dict.fromkeys(code.target.names, "code")
        module = (code.name, code.name, program)
        self._sources = Sources("code", {"code": module}, parts, given=Given(code.imports))

    def renew(self, test: str) -> None:
        """Have the implementation imported again before a test needs it, and its work counted."""
        self._imported = False
        self._test = test
        self._earlier = self._records.get(self._key) if self._worker is not None else None
        self._exchanges, self._size = [], 0

    def start(self) -> int:
        if self._earlier is not None and self._worker is not None:
            return self._worker.number
        return super().start()

    def pass_on(self, request: bytes) -> bytes:
        if self._earlier is not None:
            place = len(self._exchanges)
            following = self._earlier.exchanges[place : place + 1]
            if following and following[0][0] == request:
                self._exchanges += following
                return following[0][1]
            self._compute()
        answer = super().pass_on(request)
        self._size += len(request) + len(answer)
        if self._size <= _MOST_BYTES_OF_RECORD:
            self._exchanges.append((request, answer))
        return answer

    def excess(self) -> str:
        """Return why the implementation's work was too much, or "".

        Raises:
            WorkerError: the process of the implementation is gone.
        """
        if self._earlier is not None:
            if len(self._exchanges) == len(self._earlier.exchanges):
                return self._earlier.excess
            self._compute()
        (answer,) = self._ask("count", work.MOST_CALLS)
        reason = str(answer)
        in_all = self._size + sum(record.size for record in self._records.values())
        if self._size <= _MOST_BYTES_OF_RECORD and in_all <= _MOST_BYTES_OF_RECORDS:
            self._records[self._key] = _Record(self._exchanges, self._size, reason)
        return reason

    @property
    def _key(self) -> tuple[str, str]:
        assert self._code is not None
        return self._code.name, self._test

    def _compute(self) -> None:
        """Import the implementation, and have it answer the requests so far itself."""
        self._earlier = None
        self.start()
        exchanges, self._exchanges = self._exchanges, []
        for request, _ in exchanges:
            self.pass_on(request)

    def _load_request(self) -> tuple[Any, ...]:
        worker, sources = self._sent
        is_there = worker is self._worker and sources is self._sources
        self._sent = self._worker, self._sources
        return ("renew", work.MOST_CALLS, *(() if is_there else self._sources.request))


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
        host, code = Host(self._sandbox, self._sources), b""
        try:
            host.begin(self._fuse)
            code = host.compile()
            failure = host.load()
        except WorkerError as error:
            failure = str(error)
        finally:
            host.close()
        if failure is not None:
            raise LoadFailure(failure)
        self._sources = replace(self._sources, code=code)

    def __call__(self, code: Code, tests: Sequence[str]) -> dict[str, Verdict]:
        """Run tests on an implementation."""
        verdicts: dict[str, Verdict] = {}
        host = _Tests(self._sandbox, self._sources, self._implementations)
        self._implementations.hold(code, code.metered_program())
        left = self._fuse
        try:
            for test in tests:
                self._implementations.renew(test)
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
