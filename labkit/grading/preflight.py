"""The check before students are graded: the reference earns every point, and a known bug does not.

Otherwise a fault of the hidden tests, or of this machine, would cost every student points, or give
points to all. A ledger keeps the result, so the check costs time only once.
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
    """Check the tests that students will be graded with.

    A student edition has no reference, so there it checks nothing.

    Args:
        assignments: by folder name of a lab.
        grade_all: grades against them, in the same way as students; doubtful grades of a ledger
            are made again.

    Raises:
        InfrastructureError: the reference lacks points, or the bug earns all.
    """
    work = [item for assignment in assignments.values() for item in _known(assignment)]
    grades = [*grade_all(work)]
    if any(grade.doubt is not None for grade in grades):
        # Perhaps other programs needed the memory for a moment: once more, then.
        grades = [*grade_all(work)]
    for grade in grades:
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
        f"else was graded. Fix these tests, or remove their obstacle here: {', '.join(failures)}"
    )


def _has_all(grade: Grade) -> str:
    return (
        f"{grade.student} of {grade.lab} has every point, so nothing else was graded: these tests "
        "do not distinguish right code from wrong code"
    )


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")[:120]
