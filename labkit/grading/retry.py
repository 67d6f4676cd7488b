"""Blame when a process dies: its submission is tried again, after all others and alone.

So a submission is judged only by its own actions. Other causes that end a process, such as a system
without memory or a person, do not do so twice in the same place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.grader import refused
from labkit.grading.reading.submission import Submission

# The reasons for a missing grade, as grades word them.
DIED = "the grader's process died on this submission, each time it was graded"
FAILED = "the grader failed on this submission, each time it was graded"
OVERSPENT = "the grader computed for too long on this submission, each time it was graded"
# How often a submission is tried alone, if it ends in another way each time.
_MOST_TRIALS = 2
# The outcome of a submission: its grade, or why there is none.
Outcome = Grade | str
# A submission and its place among all.
Work = tuple[int, Submission]
# Grade submissions, alone or not: yield the place and the outcome of each.
Outcomes = Callable[[Sequence[Work], bool], Iterator[tuple[int, Outcome]]]


def judged(
    submissions: Sequence[Submission],
    assignments: Mapping[str, Assignment],
    mode: str,
    outcomes: Outcomes,
) -> Iterator[tuple[int, Grade]]:
    """Yield the place and the grade of each submission as it is finished.

    Args:
        submissions: the submissions to grade.
        assignments: by folder name of a lab.
        mode: see `labkit.isolation.sandbox`.
        outcomes: does the grading.
    """
    again: dict[int, str] = {}
    for place, outcome in outcomes([*enumerate(submissions)], False):
        if isinstance(outcome, Grade) and outcome.doubt is None:
            yield place, outcome
        else:
            again[place] = _why(outcome)
    for place, before in again.items():
        submission = submissions[place]
        for _ in range(_MOST_TRIALS):
            ((_, outcome),) = outcomes([(place, submission)], True)
            if _why(outcome) in ("", before):
                break
            before = _why(outcome)
        if isinstance(outcome, str):
            grade = refused(submission, assignments[submission.lab], mode, outcome)
            yield place, replace(grade, doubt=outcome)
        elif outcome.doubt is not None:
            doubt = f"{outcome.doubt}, and again when it was graded alone"
            yield place, replace(outcome, doubt=doubt)
        else:
            yield place, outcome


def _why(outcome: Outcome) -> str:
    """Return the reason to try again, or "" if there is none."""
    return outcome if isinstance(outcome, str) else outcome.doubt or ""
