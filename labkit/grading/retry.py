"""Who is to blame when a process dies: a submission is tried again, after all others and alone.

So it is judged by what it does itself. What else can end a process, a system without memory or a
person, does not do so twice in the same place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from labkit.grading.grade import Grade
from labkit.grading.reading.submission import Submission

# Why there is no grade, as a grade says it.
DIED = "the grader's process died on this submission, each time it was graded"
FAILED = "the grader failed on this submission, each time it was graded"
OVERSPENT = "the grader computed for too long on this submission, each time it was graded"
# How often a submission is tried alone, while it ends in other ways each time.
_MOST_TRIALS = 2
# What became of a submission: its grade, or why there is none.
Outcome = Grade | str
# Grade those at some places, alone or not: yield each place and what became of it.
Outcomes = Callable[[Sequence[int], bool], Iterator[tuple[int, Outcome]]]


def judged(
    submissions: Sequence[Submission],
    outcomes: Outcomes,
    refuse: Callable[[Submission, str], Grade],
) -> Iterator[tuple[int, Grade]]:
    """Yield the place and the grade of each submission as it is finished.

    Args:
        submissions: what to grade.
        outcomes: does it.
        refuse: makes the grade of a submission that has none, from the reason.
    """
    again: dict[int, str] = {}
    for place, outcome in outcomes(range(len(submissions)), False):
        if isinstance(outcome, Grade) and outcome.doubt is None:
            yield place, outcome
        else:
            again[place] = _why(outcome)
    for place, before in again.items():
        for _ in range(_MOST_TRIALS):
            ((_, outcome),) = outcomes([place], True)
            if _why(outcome) in ("", before):
                break
            before = _why(outcome)
        yield place, _verdict(submissions[place], outcome, refuse)


def _why(outcome: Outcome) -> str:
    """Return what speaks for trying again; nothing does if it is empty."""
    return outcome if isinstance(outcome, str) else outcome.doubt or ""


def _verdict(
    submission: Submission, outcome: Outcome, refuse: Callable[[Submission, str], Grade]
) -> Grade:
    if isinstance(outcome, str):
        return replace(refuse(submission, outcome), doubt=outcome)
    if outcome.doubt is not None:
        return replace(outcome, doubt=f"{outcome.doubt}, and again when it was graded alone")
    return outcome
