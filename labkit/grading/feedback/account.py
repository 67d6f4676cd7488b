"""What one student may read of a grade.

It is made of what is theirs: points, the rules that failed as `GradedTest.for_student` tells them,
the mistake that the code looks like, and how the mark comes about. Hidden tests count and are not
told, whatever becomes visible later; neither are seeds, likenesses, or anything of other students.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.reports.fitting import fit, line
from labkit.running.diagnose import read_mistakes
from labkit.running.reporting.explain import VISIBLE, GradedTest
from labkit.running.reporting.showing import clip
from labkit.running.result_kind import ResultKind

_MOST_FAILURE, _MOST_NAME = 6_000, 200
# What tests of a kind that waits do, of one test and of many.
WAITS = {
    ResultKind.UNWRITTEN: (
        "1 test waits for what is not written yet",
        "{} tests wait for what is not written yet",
    ),
    ResultKind.LOAD: ("1 test could not run", "{} tests could not run"),
    ResultKind.NOT_RUN: ("1 test did not run", "{} tests did not run"),
}


@dataclass(frozen=True)
class TaskPoints:
    """A task, and what its visible tests earned."""

    number: int
    title: str
    passed: int
    tests: int
    score: int
    max_score: int


@dataclass(frozen=True)
class Failure:
    """A visible test that ran and failed."""

    name: str
    worth: str
    explanation: str


@dataclass(frozen=True)
class Waiting:
    """Visible tests that did not get as far as a rule, for one reason."""

    names: tuple[str, ...]
    what: str
    why: str


@dataclass(frozen=True)
class Account:
    """What one student may read.

    Attributes:
        student, lab, title: who, which lab, and what it is called.
        score, max_score: of all tests.
        mark: what the score comes to, if that can be something else.
        lines: how the mark comes about.
        fault: why no test could run, or "".
        tasks: the points by task.
        hidden: how many tests are not told, and their points; None if all are.
        looks_like: what the code does wrong, if it shows a common mistake, or "".
        hints: the command that gives a hint, or "" where every test passed.
        failed, waiting: the visible tests that did not pass.
    """

    student: str
    lab: str
    title: str
    score: int
    max_score: int
    mark: str
    lines: tuple[str, ...]
    fault: str
    tasks: tuple[TaskPoints, ...]
    hidden: TaskPoints | None
    looks_like: str
    hints: str
    failed: tuple[Failure, ...]
    waiting: tuple[Waiting, ...]


def account_of(grade: Grade, lab: Lab, name: str, mark: Mark | None) -> Account:
    """Return what a student may read of a grade.

    Args:
        grade: of the student.
        lab: its lab.
        name: what the student is called.
        mark: what the score comes to, if that can be something else.
    """
    grade = fit(grade)
    visible = [test for test in grade.tests if test.visibility == VISIBLE]
    unseen = [test for test in grade.tests if test.visibility != VISIBLE]
    missed = [test for test in visible if not test.passed]
    return Account(
        student=line(name, _MOST_NAME),
        lab=lab.label,
        title=lab.title,
        score=grade.score,
        max_score=grade.max_score,
        mark="" if mark is None else plain(mark.total),
        lines=() if mark is None else tuple(mark.lines()),
        fault=grade.fault or "",
        tasks=tuple(
            _points([test for test in visible if test.task == task.number], task.number, task.title)
            for task in lab.tasks
        ),
        hidden=_points(unseen, 0, "") if unseen else None,
        looks_like=_symptom(grade, lab),
        hints="" if not missed or grade.fault is not None else _hints(missed, lab),
        failed=tuple(_failed(test) for test in missed if not test.kind.is_waiting),
        waiting=() if grade.fault is not None else _waiting(missed),
    )


def _points(tests: Sequence[GradedTest], number: int, title: str) -> TaskPoints:
    return TaskPoints(
        number=number,
        title=title,
        passed=sum(test.passed for test in tests),
        tests=len(tests),
        score=sum(test.score for test in tests),
        max_score=sum(test.max_score for test in tests),
    )


def _failed(test: GradedTest) -> Failure:
    worth = f"task {test.task}, {test.max_score} points" if test.task else "given"
    return Failure(test.name, worth, clip(test.for_student or test.rule, _MOST_FAILURE))


def _waiting(missed: Sequence[GradedTest]) -> tuple[Waiting, ...]:
    # Their messages say what is missing, and nothing of any case.
    groups: dict[tuple[ResultKind, str], list[str]] = defaultdict(list)
    for test in missed:
        if test.kind.is_waiting:
            groups[test.kind, clip(test.message, _MOST_FAILURE)].append(test.name)
    return tuple(
        Waiting(tuple(names), WAITS[kind][len(names) > 1].format(len(names)), why)
        for (kind, why), names in groups.items()
    )


def _symptom(grade: Grade, lab: Lab) -> str:
    symptoms = {mistake.name: mistake.symptom for mistake in read_mistakes(lab.path)}
    return symptoms.get(grade.looks_like or "", "")


def _hints(missed: Sequence[GradedTest], lab: Lab) -> str:
    task = next((test.task for test in missed if test.task), None)
    return f"make hint N={lab.number}" + (f" T={task}" if task else "")
