"""One run of one lab: the result of each test, the score, and values derived from them.

It is the same whether pytest runs the tests or the grader does.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from labkit.course.lab import Lab
from labkit.course.manifest import Test
from labkit.errors import LoadFailure
from labkit.running import platform
from labkit.running.diagnose import Mistake
from labkit.running.hunting.rules import Hunted
from labkit.running.lab_impl import Implementation
from labkit.running.result_kind import ResultKind
from labkit.running.trace import Failure

# The seed of students' own runs. Any other seed is secret: students see nothing drawn from it.
PUBLIC_SEED = "0"
TEST_LIMIT = 5.0
# The most timeouts in a task, and in a lab.
_TIMEOUTS_OF_TASK, _TIMEOUTS_IN_ALL = 3, 4
# The longest text of an error.
_MOST_CHARACTERS = 4_000
TOO_LONG = (
    "Is there an endless loop, a wait that never ends, or work that grows with the square of the "
    "input?"
)


@dataclass(frozen=True)
class Result:
    """The outcome of one test.

    Attributes:
        kind: the kind of outcome.
        message: one line for people.
        failure: the broken rule as data, for `ASSERTION` and `RAISED`.
        printed: the output of the code under test during the test.
        failure_text: the failure in words, if it is not kept as data.
        line: the line of the file under test that went wrong, by number, if there is one.
    """

    kind: ResultKind
    message: str = ""
    failure: Failure | None = None
    printed: str = ""
    failure_text: str = ""
    line: int | None = None

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return self.kind is ResultKind.PASSED


class JudgedError(Exception):
    """Ends a test with a result that is already known."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.message)
        self.result = result


class NotRunError(Exception):
    """The test was not run because others of its lab ran into the time limit."""


class Timeouts:
    """The tests of a lab that ran into the time limit. After a few, other tests are not run.

    Code that is slow in one task must not cost the points of other tasks; code that never ends must
    not cost minutes.
    """

    def __init__(self) -> None:
        self._by_task: Counter[int | None] = Counter()
        self._limit = "time limit"

    def add(self, task: int | None, limit: str = "") -> None:
        """Count a test of a task that ran into the time limit, or into another limit."""
        self._by_task[task] += 1
        self._limit = limit or self._limit

    @property
    def any(self) -> bool:
        """Whether a test ran into a limit."""
        return self._by_task.total() > 0

    def check(self, task: int | None) -> None:
        """Check that the next test of a task is worth a try.

        Raises:
            NotRunError: it is not.
        """
        count = self._by_task[task]
        if count < _TIMEOUTS_OF_TASK:
            count = self._by_task.total()
            if count < _TIMEOUTS_IN_ALL:
                return
        raise NotRunError(f"{count} tests ran into the {self._limit}; fix those first")


def classify(error: BaseException) -> Result:
    """Return the result of a test that ended with an error; it always has a message."""
    text = _text_of(error)
    if isinstance(error, JudgedError):
        return error.result
    if isinstance(error, NotRunError):
        return Result(ResultKind.NOT_RUN, text)
    if isinstance(error, LoadFailure):
        text = text or "it cannot be imported, and its error has no message"
        return Result(ResultKind.LOAD, text, line=error.line)
    if isinstance(error, Failure):
        text = text or "the rule is broken"
        if error.raised is None:
            return Result(ResultKind.ASSERTION, text, error)
        if error.raised.kind == "NotImplementedError":
            what = error.raised.message.strip() or "this"
            return Result(ResultKind.UNWRITTEN, f"{what} is not written yet")
        return Result(ResultKind.RAISED, text, error)
    if isinstance(error, AssertionError):
        return Result(ResultKind.ASSERTION, text or "an assertion of the test fails")
    return Result(ResultKind.TEST_ERROR, f"{type(error).__name__}: {text}")


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)[:_MOST_CHARACTERS]
        return text if text.strip() else ""
    except Exception:
        # The error holds a value without a `str`.
        return ""


@dataclass
class LabRun:
    """The results so far of one lab under one implementation.

    Attributes:
        selected: the names of the tests that were to run; `-k` or a task's number may have left out
            the others.
        mistake: the common mistake that the code makes, if a probe shows one.
        passing: the names of the labs that the student's own files pass.
        waits_for: the lab that has to pass before this one can run ("lab-03"), or "".
        hunted: the outcome of the student's tests, for a hunt.
    """

    lab: Lab
    implementation: Implementation
    digest: str
    seed: str
    parts: list[str] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    selected: frozenset[str] = frozenset()
    mistake: Mistake | None = None
    passing: frozenset[str] = frozenset()
    waits_for: str = ""
    hunted: Hunted | None = None

    @cached_property
    def left_out(self) -> tuple[Test, ...]:
        """The tests that need a feature that the platform lacks; they run on another platform."""
        return tuple(test for test in self.lab.tests if not platform.has(test.needs))

    @cached_property
    def tests(self) -> tuple[Test, ...]:
        """The tests that can run here, in the order of the file."""
        return tuple(test for test in self.lab.tests if test not in self.left_out)

    @cached_property
    def most(self) -> int:
        """The points that can be earned here, of the lab's 100."""
        return sum(test.points for test in self.tests)

    def passed(self, test: Test) -> bool:
        """Whether `test` ran and passed."""
        result = self.results.get(test.name)
        return result is not None and result.passed

    @property
    def perfect(self) -> bool:
        """Whether every point that can be earned here is earned."""
        return self.score == self.most

    @property
    def complete(self) -> bool:
        """Whether every test that can run here has a result."""
        return all(test.name in self.results for test in self.tests)

    @property
    def score(self) -> int:
        """Points earned, of `most`."""
        return sum(test.points for test in self.tests if self.passed(test))

    def failed(self) -> list[tuple[Test, Result]]:
        """Return the tests that ran and failed, in the order of the file."""
        pairs = ((test, self.results.get(test.name)) for test in self.tests)
        return [(test, result) for test, result in pairs if result and not result.passed]

    @property
    def failing_tasks(self) -> frozenset[int]:
        """The tasks with a test that ran and failed, except those with unwritten parts."""
        kinds_by_task: dict[int, set[ResultKind]] = {}
        for test, result in self.failed():
            kinds_by_task.setdefault(test.task or 0, set()).add(result.kind)
        return frozenset(
            task
            for task, kinds in kinds_by_task.items()
            if ResultKind.UNWRITTEN not in kinds and any(kind.is_wrong for kind in kinds)
        )

    @property
    def overdue(self) -> frozenset[str]:
        """The names of the tests that ran into their time limit."""
        return frozenset(
            test.name for test, result in self.failed() if result.kind is ResultKind.TIMEOUT
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain data, without times, for `--lab-results`."""
        return {
            "lab": self.lab.name,
            "implementation": self.implementation.title,
            "digest": self.digest,
            "seed": self.seed,
            "score": self.score,
            "looks_like": self.mistake.name if self.mistake is not None else "",
            "tests": {
                name: {"kind": result.kind.value, "message": result.message}
                for name, result in sorted(self.results.items())
            },
        }
