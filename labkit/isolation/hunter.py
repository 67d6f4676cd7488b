"""A hunt behind walls: a student's tests in one process, the implementation in another.

Each implementation gets a fresh process of the tests, and nothing but its answers goes in: a test
cannot know how many there are, in which order they come, or what it saw of the one before. The
implementations follow each other in one process, which never has a submission.
"""

from collections.abc import Sequence

from labkit.course.hunt import Code, Pool
from labkit.errors import InfrastructureError, LoadFailure
from labkit.isolation.host import Host, PartsHost, Sources, WorkerError
from labkit.isolation.sandbox import Sandbox
from labkit.running.hunting.rules import (
    ROUND,
    ROUNDS,
    Verdict,
    hunt,
    in_all,
    late,
    once_more,
    plan,
    results_of,
    verdict_of,
)
from labkit.running.limits.time_limit import OverdueError, processor_seconds
from labkit.running.score import LabRun, classify
from labkit.running.source import Given

_NOTHING = Sources("nothing", {"nothing": ("nothing", "nothing", b"")})
_SLEPT = "slept"


class _Implementations(PartsHost):
    """The process of the implementations."""

    def hold(self, code: Code) -> None:
        """Have an implementation imported afresh, when it is asked something."""
        module = (code.name, code.name, code.source)
        parts = dict.fromkeys(code.target.names, "code")
        self._sources = Sources("code", {"code": module}, parts, given=Given(code.given))
        self._imported = False

    def allow(self, seconds: float) -> float:
        """Let the implementation compute for so long; return how many seconds it did before.

        Raises:
            WorkerError: its process is gone.
        """
        (milliseconds,) = self._ask("allow", int(seconds * 1000))
        return float(milliseconds) / 1000


class _Tests(Host):
    """The process of a student's tests. Its end is not that of the implementations."""

    def close(self) -> None:
        implementations, self._parts = self._parts, None
        try:
            super().close()
        finally:
            self._parts = implementations

    def computed(self) -> float:
        """Return how many seconds of processor time the process has used."""
        return 0.0 if self._worker is None else processor_seconds(self._worker.number)


class Hunter:
    """Runs tests on implementations: see `labkit.running.hunting.rules.Run`. Use it with `with`.

    Args:
        sandbox: starts workers.
        sources: of the submission.
        seconds: the limit of an implementation in one test.

    Attributes:
        killed: for each process that a signal ended which it need not have sent itself, what was
            said.
    """

    def __init__(self, sandbox: Sandbox, sources: Sources, seconds: float) -> None:
        self._sandbox = sandbox
        self._sources = sources
        self._seconds = seconds
        self._left = 0.0
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
            host.begin(ROUND * self._seconds)
            failure = host.load()
        except WorkerError as error:
            failure = str(error)
        finally:
            host.close()
        if failure is not None:
            raise LoadFailure(failure)

    def __call__(self, code: Code, tests: Sequence[str]) -> list[dict[str, Verdict]]:
        """Run tests on an implementation."""
        rounds: list[dict[str, Verdict]] = []
        host = _Tests(self._sandbox, self._sources, self._implementations)
        try:
            for _ in range(ROUNDS):
                tests = once_more(code, tests, rounds)
                rounds.append({})
                self._implementations.hold(code)
                self._left = ROUND * self._seconds
                for test in tests:
                    verdict = rounds[-1][test] = self._run(host, test)
                    if verdict.kind in ("late", "slept"):
                        return rounds
        finally:
            host.close()
            self.killed += host.killed
        return rounds

    def _run(self, host: _Tests, test: str) -> Verdict:
        try:
            host.begin(self._left)
            with host.own_time.limit():
                failure = host.load()
                if failure is not None:
                    return Verdict("failed", failure)
                self._implementations.allow(self._seconds)
                before = host.computed()
                (trace,) = host.perform_all([(plan(test), (), "")])
                host.end()
            spent = self._implementations.allow(self._seconds)
            self._left -= host.computed() - before + spent
            if spent >= self._seconds:
                return Verdict("late", late(self._seconds))
            return verdict_of(trace.raised)
        except WorkerError as error:
            if error.kind != "timeout":
                return Verdict("failed", str(error))
            return Verdict("slept" if _SLEPT in str(error) else "late", in_all(self._seconds))
        except InfrastructureError:
            raise
        except (OverdueError, MemoryError, RecursionError) as error:
            # It may have struck while an answer was read.
            host.close()
            self._implementations.close()
            return Verdict("failed", f"{error}")


def run_hunt(run: LabRun, source: bytes, pool: Pool, sandbox: Sandbox) -> list[str]:
    """Run a student's tests on a pool; put what became of it into the run.

    Args:
        run: of a hunt.
        source: of the tests.
        pool: the implementations.
        sandbox: starts workers.

    Returns:
        What was said of each process that a signal ended which it need not have sent itself.
    """
    facts, lab = run.lab.hunt, run.lab
    assert facts is not None
    sources = Sources(
        "tests", {"tests": ("starter.py", "starter.py", source)}, given=Given(lab.given)
    )
    with Hunter(sandbox, sources, facts.seconds) as hunter:
        try:
            hunter.load()
        except LoadFailure as failure:
            run.results |= {test.name: classify(failure) for test in lab.tests_of(pool)}
            return hunter.killed
        run.hunted = hunt(source, pool, facts.most_tests, hunter)
        run.results |= results_of(lab.tests_of(pool), pool, run.hunted)
        return hunter.killed
