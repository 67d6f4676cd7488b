"""Who is to blame when a process dies: a submission is tried again, after all others and alone.

So it is judged by what it does itself. What else can end a process, a system without memory or a
person, does not do so twice in the same place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.grader import refused
from labkit.grading.reading.submission import Submission

# Why there is no grade, as a grade says it.
DIED = "the grader's process died on this submission, each time it was graded"
FAILED = "the grader failed on this submission, each time it was graded"
OVERSPENT = "the grader computed for too long on this submission, each time it was graded"
# How often a submission is tried alone, while it ends in other ways each time.
_MOST_TRIALS = 2
# What became of a submission: its grade, or why there is none.
Outcome = Grade | str
# A submission and its place among all.
Work = tuple[int, Submission]
# Grade some, alone or not: yield the place of each and what became of it.
Outcomes = Callable[[Sequence[Work], bool], Iterator[tuple[int, Outcome]]]


def judged(
    submissions: Sequence[Submission],
    assignments: Mapping[str, Assignment],
    mode: str,
    outcomes: Outcomes,
) -> Iterator[tuple[int, Grade]]:
    """Yield the place and the grade of each submission as it is finished.

    Args:
        submissions: what to grade.
        assignments: by folder name of a lab.
        mode: see `labkit.isolation.sandbox`.
        outcomes: does it.
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
    """Return what speaks for trying again; nothing does if it is empty."""
    return outcome if isinstance(outcome, str) else outcome.doubt or ""
