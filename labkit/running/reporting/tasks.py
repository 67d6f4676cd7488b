"""The tasks of a lab as rows of data: the points of each, and whether it waits for another."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.course.lab import Lab, Task
from labkit.running.reporting.explain import GradedTest
from labkit.running.result_kind import ResultKind

PASS, FAIL, BLOCKED, NOT_RUN = "PASS", "FAIL", "BLOCKED", "not run"


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The results of a task.

    Attributes:
        number: the task's number; None for demonstrations.
        title: the task's title.
        passed, ran, tests: the numbers of its tests that passed, that ran, and of all.
        points, most: the points that are earned, and that can be earned.
        status: PASS, FAIL, `BLOCKED by task 1` or `not run`; for demonstrations, `needs lab-01` is
            possible as well.
    """

    number: int | None
    title: str
    passed: int
    ran: int
    tests: int
    points: int
    most: int
    status: str

    @property
    def tally(self) -> str:
        """How many tests passed: `3/4`, or `1/1 of 4` if only some ran."""
        if 0 < self.ran < self.tests:
            return f"{self.passed}/{self.ran} of {self.tests}"
        return f"{self.passed}/{self.tests}"


def task_rows(lab: Lab, tests: Sequence[GradedTest]) -> list[TaskRow]:
    """Return a row for each task, in order."""
    return [
        _row(task.number, task.title, of_task(tests, task.number), _status(lab, task, tests))
        for task in lab.tasks
    ]


def given_row(tests: Sequence[GradedTest], waits_for: str = "") -> TaskRow | None:
    """Return the row of the demonstrations; None if there are none.

    Args:
        tests: of the lab.
        waits_for: the lab that has to pass before this one can run, or "".
    """
    given = of_task(tests, None)
    if not given:
        return None
    ran = [test for test in given if test.ran and test.kind is not ResultKind.NOT_RUN]
    failed = [test for test in ran if not test.passed]
    status = FAIL if failed else PASS if ran else NOT_RUN
    if waits_for and failed and all(test.kind is ResultKind.LOAD for test in failed):
        # Nothing is wrong with a demonstration that lacks a part.
        status = f"needs {waits_for}"
    return _row(None, "demonstrations", given, status)


def _row(number: int | None, title: str, own: Sequence[GradedTest], status: str) -> TaskRow:
    return TaskRow(
        number,
        title,
        sum(test.passed for test in own),
        sum(test.ran for test in own),
        len(own),
        sum(test.score for test in own),
        sum(test.max_score for test in own),
        status,
    )


def of_task(tests: Sequence[GradedTest], number: int | None) -> list[GradedTest]:
    """Return the tests of a task; for None, the demonstrations."""
    return [test for test in tests if test.task == number]


def tally(tests: Sequence[GradedTest]) -> str:
    """Return how many of these tests passed: `3/4`."""
    return f"{sum(test.passed for test in tests)}/{len(tests)}"


def _status(lab: Lab, task: Task, tests: Sequence[GradedTest]) -> str:
    """Return PASS, FAIL, not run, or `BLOCKED by task k` for a task that waits for another."""
    own = [test for test in of_task(tests, task.number) if test.ran]
    missed = [test for test in own if not test.passed]
    if all(test.kind is ResultKind.NOT_RUN for test in own):
        return NOT_RUN
    if not missed:
        return PASS
    waits = [_waits_for(lab, task, test, tests) for test in missed]
    earlier = [number for number in waits if number is not None]
    return f"{BLOCKED} by task {min(earlier)}" if len(earlier) == len(waits) else FAIL


def _waits_for(lab: Lab, task: Task, test: GradedTest, tests: Sequence[GradedTest]) -> int | None:
    """Return the earlier task that a test waits for, or None."""
    if test.kind is not ResultKind.UNWRITTEN:
        return None
    earlier = sorted(lab.blockers(task.number))
    named = re.search(r"\btask (\d+)\b", test.message)
    if named is not None:
        return int(named[1]) if int(named[1]) in earlier else None
    # The message does not name the task of the missing function.
    missed = [k for k in earlier if not all(other.passed for other in of_task(tests, k))]
    return missed[0] if missed else None
