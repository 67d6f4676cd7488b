"""The part of a grade that its student may read.

It consists of the student's points, the failed rules as in `GradedTest.for_student`, the mistake
that the code looks like, and the sum that makes the mark. Hidden tests count but are not shown,
even if they become visible later; neither are seeds, likenesses, or facts about other students.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark
from labkit.grading.reports.fitting import fit, line
from labkit.running.diagnose import read_mistakes
from labkit.running.reporting.explain import VISIBLE, GradedTest
from labkit.running.reporting.showing import clip, counted
from labkit.running.result_kind import ResultKind

_MOST_FAILURE, _MOST_NAME = 6_000, 200
# The words for unfinished tests of a kind: for one test, and for several.
WAITS = {
    ResultKind.UNWRITTEN: (
        "1 test waits for code that is not written yet",
        "{} tests wait for code that is not written yet",
    ),
    ResultKind.LOAD: ("1 test could not run", "{} tests could not run"),
    ResultKind.NOT_RUN: ("1 test did not run", "{} tests did not run"),
}


@dataclass(frozen=True)
class TaskPoints:
    """A task, and the points of its visible tests."""

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
    """Visible tests that did not reach their rule, with their common reason."""

    names: tuple[str, ...]
    what: str
    why: str


@dataclass(frozen=True)
class Account:
    """The facts that one student may read.

    Attributes:
        student, lab, title: the student, the lab, and its title.
        score, max_score: the points of all tests.
        mark: the mark, if it can differ from the score.
        lines: the sum that makes the mark.
        fault: why no test could run, or "".
        remarks: sentences about the files that were handed in.
        tasks: the points by task.
        hidden: the number of tests that are not shown, and their points; None if all are shown.
        looks_like: the common mistake that the code shows, or "".
        advice: the command that gives a hint, or that shows the line of an error; "" if every test
            passed, or if no test could run.
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
    remarks: tuple[str, ...]
    tasks: tuple[TaskPoints, ...]
    hidden: TaskPoints | None
    looks_like: str
    advice: str
    failed: tuple[Failure, ...]
    waiting: tuple[Waiting, ...]


def account_of(grade: Grade, lab: Lab, name: str, mark: Mark | None) -> Account:
    """Return the part of a grade that its student may read.

    Args:
        grade: the grade.
        lab: the lab of the grade.
        name: the student's name.
        mark: the mark, if it can differ from the score.
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
        mark="" if mark is None else mark.text,
        lines=() if mark is None else tuple(mark.lines()),
        fault=grade.fault or "",
        remarks=grade.remarks,
        tasks=tuple(
            _points([test for test in visible if test.task == task.number], task.number, task.title)
            for task in lab.tasks
        ),
        hidden=_points(unseen, 0, "") if unseen else None,
        looks_like=_symptom(grade, lab),
        advice="" if not missed or grade.fault is not None else _advice(missed, lab),
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
    worth = (
        f"task {test.task}, {counted(test.max_score, 'point')}" if test.task else "demonstration"
    )
    return Failure(test.name, worth, clip(test.for_student or test.rule, _MOST_FAILURE))


def _waiting(missed: Sequence[GradedTest]) -> tuple[Waiting, ...]:
    # Their messages name the missing function, and nothing about any case.
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


def _advice(missed: Sequence[GradedTest], lab: Lab) -> str:
    if all(test.kind is ResultKind.LOAD for test in missed):
        return f"make lab N={lab.number} shows the line"
    task = next((test.task for test in missed if test.task), None)
    return f"For a hint: make hint N={lab.number}" + (f" T={task}" if task else "")
