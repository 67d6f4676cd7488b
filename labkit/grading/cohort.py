"""Grading many submissions, equal files once: by a pool of processes here, or on a cluster.

A submission whose grade is already in the ledger is not graded again.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.errors import InfrastructureError, UsageError
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade, Key
from labkit.grading.ledger import Ledger
from labkit.grading.pool import Pool
from labkit.grading.reading.submission import Submission, one_line
from labkit.grading.retry import judged

if TYPE_CHECKING:
    from labkit.grading.cluster import Cluster

# Called after each grade with: how many are done, how many there are, the grade, and how many
# gradings remain, equal submissions counted once.
OnGrade = Callable[[int, int, Grade, int], None]


def grade_all(
    submissions: Sequence[Submission],
    assignments: Mapping[str, Assignment],
    *,
    mode: str,
    jobs: int = 1,
    ledger: Path | None = None,
    cluster: str | None = None,
    regrade_doubtful: bool = False,
    on_progress: OnGrade | None = None,
) -> list[Grade]:
    """Return the grades in the order of the submissions.

    They are equal to the byte for any number of jobs, even if grading was stopped and continued
    with the same ledger.

    Args:
        submissions: the submissions to grade.
        assignments: the assignments, by folder name of a lab.
        mode: see `labkit.isolation.sandbox`.
        jobs: how many at once on this machine.
        ledger: the file with the grades so far, see `labkit.grading.ledger`.
        cluster: the address of a Dask scheduler, whose workers grade instead of this machine.
        regrade_doubtful: whether to grade submissions with a doubtful grade in the ledger again.
        on_progress: see `OnGrade`.

    Raises:
        UsageError: `jobs` is less than 1, a submission is for a lab that is not among the
            assignments, or see `Ledger` and `labkit.grading.cluster`.
        InfrastructureError: grading cannot continue; the grades so far are in the ledger.
    """
    if jobs < 1:
        raise UsageError(f"--jobs {jobs}: at least 1 is needed")
    if strange := {submission.lab for submission in submissions} - {*assignments}:
        raise UsageError(f"there is no lab {min(strange)!r} to grade; there are {[*assignments]}")
    digests = {name: assignment.digest for name, assignment in assignments.items()}
    # The key leaves out the student: equal files are graded once.
    places: dict[Key, list[int]] = {}
    for place, item in enumerate(submissions):
        key = item.digest, item.lab, digests[item.lab], mode
        places.setdefault(key, []).append(place)
    grades: dict[int, Grade] = {}

    def take(key: Key, grade: Grade, left: int) -> None:
        for place in places[key]:
            grades[place] = replace(
                grade,
                student=one_line(submissions[place].student),
                remarks=submissions[place].remark_texts,
            )
            if on_progress is not None:
                on_progress(len(grades), len(submissions), grades[place], left)

    with Ledger(ledger) if ledger is not None else nullcontext() as book:
        entries = {key: book.find(key) for key in places} if book is not None else {}
        hits = {
            key: grade
            for key, grade in entries.items()
            if grade is not None and not (regrade_doubtful and grade.doubt)
        }
        keys = [key for key in places if key not in hits]
        for key, grade in hits.items():
            take(key, grade, len(keys))
        todo = [replace(submissions[places[key][0]], student="", remarks=()) for key in keys]
        with closing(_run(todo, assignments, mode, jobs, cluster)) as results:
            for left, (place, grade) in zip(count(len(keys) - 1, -1), results, strict=False):
                if grade.key != keys[place]:
                    raise InfrastructureError("files of the course changed; start again")
                if book is not None:
                    book.add(grade)
                take(keys[place], grade, left)
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
    workers: AbstractContextManager[Pool | Cluster]
    if cluster is None:
        workers = Pool(assignments, mode, jobs)
    else:
        from labkit.grading.cluster import connected

        workers = connected(cluster, assignments, mode)
    with workers as graders:
        yield from judged(submissions, assignments, mode, graders.outcomes)
