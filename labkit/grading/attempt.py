"""One attempt to grade a submission, whatever the trusted side does, within a budget.

The budget is a backstop. What a submission makes the trusted side do is bounded where it is done;
should one find a way around that, its process ends, and no other submission notices.
"""

import math
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from labkit.errors import CourseError
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.grading.retry import FAILED, Outcome, Work, judged
from labkit.grading.slot import Slot

# Of processor time for one submission, and of memory at once.
MOST_SECONDS = 600.0
MOST_BYTES = 2 << 30
# How a process ends that computed for longer.
OVERSPENT_SIGNAL = signal.SIGXCPU
# Of what is said about a failure of the grader.
_MOST_CHARACTERS = 4_000


class Stopped(SystemExit):
    """The process that grades is told to end."""


def attempt(slot: Slot, submission: Submission, assignment: Assignment) -> Outcome:
    """Return the grade of a submission, or that the grader failed.

    Raises:
        CourseError: a file of the course is at fault.
        InfrastructureError: it failed for another reason that would stop every submission.
    """
    try:
        with _allowance():
            return grade(submission, assignment, slot.sandbox)
    except (Stopped, CourseError):
        raise
    except BaseException as error:
        name = type(error).__name__
        print(traceback.format_exc()[-_MOST_CHARACTERS:], file=sys.stderr, flush=True)
    # Only now is what it had in its hands gone.
    slot.check()
    return f"{FAILED} ({name})"


def grade_one(slot: Slot, submission: Submission, assignment: Assignment) -> Grade:
    """Return the grade of the only submission there is, after another attempt if it was killed.

    Raises:
        InfrastructureError: grading cannot go on.
    """

    def outcomes(work: Sequence[Work], alone: bool) -> Iterator[tuple[int, Outcome]]:
        return ((place, attempt(slot, item, assignment)) for place, item in work)

    assignments = {submission.lab: assignment}
    ((_, result),) = judged([submission], assignments, slot.sandbox.mode, outcomes)
    return result


def limit_memory() -> None:
    """Let this process fail with a `MemoryError` instead of taking all the memory there is."""
    _limit(resource.RLIMIT_AS, MOST_BYTES)
    _limit(resource.RLIMIT_CORE, 0)


@contextmanager
def _allowance() -> Iterator[None]:
    """Let this process compute for `MOST_SECONDS` at most."""
    _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + MOST_SECONDS))
    try:
        yield
    finally:
        _limit(resource.RLIMIT_CPU, resource.RLIM_INFINITY)


def _limit(name: int, most: int) -> None:
    _, hard = resource.getrlimit(name)
    limits = [limit for limit in (most, hard) if limit != resource.RLIM_INFINITY]
    # Not every system has every limit.
    with suppress(OSError, ValueError):
        resource.setrlimit(name, (min(limits, default=resource.RLIM_INFINITY), hard))
