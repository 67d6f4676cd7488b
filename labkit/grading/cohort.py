"""Grading many submissions, each different one once: by a pool of processes here, or on a cluster.

What a ledger already has is not graded again.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

from labkit.errors import InfrastructureError, UsageError
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade, Key
from labkit.grading.ledger import Ledger
from labkit.grading.pool import Pool
from labkit.grading.reading.submission import Submission, one_line

# Told after each grade: how many are done, how many there are, and the grade.
OnGrade = Callable[[int, int, Grade], None]


def grade_all(
    submissions: Sequence[Submission],
    assignments: Mapping[str, Assignment],
    *,
    mode: str,
    jobs: int = 1,
    ledger: Path | None = None,
    cluster: str | None = None,
    on_progress: OnGrade | None = None,
) -> list[Grade]:
    """Return the grades in the order of the submissions.

    They are equal to the byte however many jobs there were, and however often grading was stopped
    and begun again with the same ledger.

    Args:
        submissions: what to grade.
        assignments: against what, by folder name of a lab.
        mode: see `labkit.isolation.sandbox`.
        jobs: how many at once on this machine.
        ledger: the file with the grades so far, see `labkit.grading.ledger`.
        cluster: the address of a Dask scheduler, whose workers do it instead of this machine.
        on_progress: see `OnGrade`.

    Raises:
        UsageError: `jobs` is less than 1, a submission is for a lab that is not among the
            assignments, or see `Ledger` and `labkit.grading.cluster`.
        InfrastructureError: grading cannot go on; what is done is in the ledger.
    """
    if jobs < 1:
        raise UsageError(f"--jobs {jobs}: at least 1 is needed")
    if strange := {submission.lab for submission in submissions} - {*assignments}:
        raise UsageError(f"there is no lab {min(strange)!r} to grade; there are {[*assignments]}")
    digests = {name: assignment.digest for name, assignment in assignments.items()}
    # The key leaves out who handed it in: equal files are graded once.
    places: dict[Key, list[int]] = {}
    for place, item in enumerate(submissions):
        key = item.digest, item.lab, digests[item.lab], mode
        places.setdefault(key, []).append(place)
    grades: dict[int, Grade] = {}

    def take(key: Key, grade: Grade) -> None:
        for place in places[key]:
            grades[place] = replace(grade, student=one_line(submissions[place].student))
            if on_progress is not None:
                on_progress(len(grades), len(submissions), grades[place])

    with Ledger(ledger) if ledger is not None else nullcontext() as book:
        todo = {}
        for key, (first, *_) in places.items():
            found = None if book is None else book.find(key)
            if found is None:
                todo[key] = replace(submissions[first], student="")
            else:
                take(key, found)
        with closing(_run([*todo.values()], assignments, mode, jobs, cluster)) as results:
            keys = [*todo]
            for place, grade in results:
                if grade.key != keys[place]:
                    raise InfrastructureError("files of the course changed; start again")
                if book is not None:
                    book.add(grade)
                take(keys[place], grade)
    return [grades[place] for place in range(len(submissions))]


def _run(
    submissions: Sequence[Submission],
    assignments: Mapping[str, Assignment],
    mode: str,
    jobs: int,
    cluster: str | None,
) -> Generator[tuple[int, Grade], None, None]:
    if not submissions:
        return
    if cluster is None:
        with Pool(assignments, mode, jobs) as pool:
            yield from pool.grade(submissions)
    else:
        from labkit.grading.cluster import grade_on

        yield from grade_on(cluster, submissions, assignments, mode)
