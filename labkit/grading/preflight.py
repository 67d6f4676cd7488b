"""Before others are graded: the reference has every point, and a known bug has not.

Something wrong with hidden tests, or with this machine, would otherwise cost every student points,
or give them to all. A ledger keeps what was found, so it costs time only once.
"""

from collections.abc import Callable, Iterable, Mapping

from labkit.errors import InfrastructureError
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.reading.submission import Submission
from labkit.running.lab_impl import Implementation

_REFERENCE = "the reference"
_MOST_TESTS = 3


def check_tests(
    assignments: Mapping[str, Assignment], grade_all: Callable[[list[Submission]], Iterable[Grade]]
) -> None:
    """Check the tests that others will be graded with.

    In a student edition, which has no reference, there is nothing to check.

    Args:
        assignments: by folder name of a lab.
        grade_all: grades against them, as others will be.

    Raises:
        InfrastructureError: the reference lacks points, or the bug has all.
    """
    work = [item for assignment in assignments.values() for item in _known(assignment)]
    for grade in grade_all(work):
        right = grade.student == _REFERENCE
        if grade.doubt is not None:
            raise InfrastructureError(f"{grade.student} of {grade.lab}: {grade.doubt}")
        if right is not (grade.score == grade.max_score):
            raise InfrastructureError(_lacks_points(grade) if right else _has_all(grade))


def _known(assignment: Assignment) -> list[Submission]:
    lab = assignment.lab
    if not lab.solution.exists():
        return []
    implementations = {_REFERENCE: Implementation("solution", lab.solution)}
    for bug in lab.bugs[:1]:
        implementations[f"the known bug {bug.name!r}"] = Implementation("bug", lab.solution, bug)
    parts = {name: part.source() for name, part in assignment.parts.items()}
    return [
        Submission(name, lab.name, {**parts, lab.name: implementation.source()})
        for name, implementation in implementations.items()
    ]


def _lacks_points(grade: Grade) -> str:
    failed = [test for test in grade.tests if test.max_score and not test.passed]
    failures = [f"{test.name} ({test.kind}: {_first_line(test.message)})" for test in failed]
    if len(failures) > _MOST_TESTS:
        failures[_MOST_TESTS:] = [f"and {len(failures) - _MOST_TESTS} more"]
    return (
        f"the reference of {grade.lab} has {grade.score} of {grade.max_score} points, so nothing "
        f"else was graded. Mend these tests, or what stops them here: {', '.join(failures)}"
    )


def _has_all(grade: Grade) -> str:
    return (
        f"{grade.student} of {grade.lab} has every point, so nothing else was graded: these tests "
        "do not tell right from wrong"
    )


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:120]
