"""The recording of each student's first failure, for `--show`, made behind the walls of a grading.

It is a second run, after the grading: grades and the ledger know nothing of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.grader import record_first
from labkit.grading.pool import Pool
from labkit.grading.reading.submission import Submission
from labkit.isolation.sandbox import Sandbox
from labkit.running.recording.recording import Recording
from labkit.running.reporting.explain import VISIBLE

# By the grade's lab and submission.
Recordings = Mapping[tuple[str, str], Recording]


class _Recorder:
    """Records in a slot. A process is sent this object.

    Args:
        tests: the name of the test to record, by lab and submission.
    """

    def __init__(self, tests: Mapping[tuple[str, str], str]) -> None:
        self._tests = tests

    def __call__(
        self, submission: Submission, assignment: Assignment, sandbox: Sandbox
    ) -> Recording | None:
        name = self._tests[submission.lab, submission.digest]
        return record_first(submission, assignment, sandbox, name)


def record_all(
    grades: Sequence[Grade],
    submissions: Sequence[Submission],
    assignments: Mapping[str, Assignment],
    mode: str,
    jobs: int,
) -> Recordings:
    """Return the recording of the first failure of each submission that fails a visible test.

    A submission that fails only on cases of the secret seed has none, nor does a hunt.

    Args:
        grades: the grades, in the order of the submissions.
        submissions: the submissions.
        assignments: by folder name of a lab.
        mode: see `labkit.isolation.sandbox`.
        jobs: how many at once.

    Raises:
        InfrastructureError: no worker can be started.
    """
    tests: dict[tuple[str, str], str] = {}
    work: dict[tuple[str, str], Submission] = {}
    for grade, submission in zip(grades, submissions, strict=True):
        name = _first_failure(grade)
        if name and assignments[grade.lab].pool is None:
            key = submission.lab, submission.digest
            tests[key] = name
            work[key] = replace(submission, student="", remarks=())
    keys = [*work]
    if not keys:
        return {}
    recordings: dict[tuple[str, str], Recording] = {}
    with Pool(assignments, mode, jobs, _Recorder(tests)) as pool:
        for place, recording in pool.outcomes([*enumerate(work.values())], False):
            if isinstance(recording, Recording):
                recordings[keys[place]] = recording
    return recordings


def _first_failure(grade: Grade) -> str:
    """Return the first visible test that reached its rule and failed; "" if there is none."""
    return next(
        (test.name for test in grade.tests if test.visibility == VISIBLE and test.kind.is_wrong), ""
    )
