"""A place to grade in: a processor, what starts workers, and a budget for each submission.

One submission at a time is graded in it; to grade many at once takes many slots, each in a process
or thread of its own. What must be unique on a machine belongs to a worker, not to its slot: see
`labkit.isolation.users`.

The budget is a backstop. What a submission makes the trusted side do is bounded where it is done;
should one find a way around that, its process ends, and no other submission notices.
"""

import math
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from labkit.errors import CourseError, InfrastructureError
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.grading.retry import FAILED, Outcome
from labkit.isolation.host import Host, Sources, WorkerError
from labkit.isolation.sandbox import Sandbox

MOST_SLOTS = 128
# Of processor time for one submission, and of memory at once.
MOST_SECONDS = 600.0
MOST_BYTES = 2 << 30
# How a process ends that computed for longer.
OVERSPENT_SIGNAL = signal.SIGXCPU
# Of what is said about a failure of the grader.
_MOST_CHARACTERS = 4_000
_NOTHING = Sources("starter", {"starter": ("starter.py", "starter.py", b"")})


class Stopped(SystemExit):
    """The process that grades is told to end."""


class Slot:
    """A place to grade in. Use it with `with`; it belongs to the thread that made it.

    That thread and its workers stay on one processor: a round trip takes half the time if it need
    not wake another one.

    Args:
        mode: see `labkit.isolation.sandbox`.

    Attributes:
        sandbox: starts its workers.

    Raises:
        InfrastructureError: no worker can be started in this mode, or no slot is free.
    """

    def __init__(self, mode: str) -> None:
        self._held = ExitStack()
        mark, self._number = _take_number()
        if mark is not None:
            self._held.callback(mark.close)
        self.sandbox = self._held.enter_context(Sandbox(mode))
        if hasattr(os, "sched_setaffinity"):
            processors = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {processors[self._number % len(processors)]})
            self._held.callback(os.sched_setaffinity, 0, processors)
        try:
            self.check()
        except BaseException:
            self._held.close()
            raise

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def check(self) -> None:
        """Check that a worker that holds an empty submission answers.

        Raises:
            InfrastructureError: it does not, and no submission can be to blame.
        """
        host = Host(self.sandbox, _NOTHING)
        try:
            host.begin(1)
            failure = host.load()
        except (WorkerError, OSError) as error:
            failure = str(error)
        finally:
            host.close()
        if failure is not None:
            raise InfrastructureError(f"a worker cannot be started: {failure}")

    def attempt(self, submission: Submission, assignment: Assignment) -> Outcome:
        """Return the grade of a submission, or that the grader failed.

        Raises:
            CourseError: a file of the course is at fault.
            InfrastructureError: it failed for another reason that would stop every submission.
        """
        try:
            with _allowance():
                return grade(submission, assignment, self.sandbox)
        except (Stopped, CourseError):
            raise
        except BaseException as error:
            name = type(error).__name__
            print(traceback.format_exc()[-_MOST_CHARACTERS:], file=sys.stderr, flush=True)
        # Only now is what it had in its hands gone.
        self.check()
        return f"{FAILED} ({name})"


def _take_number() -> tuple[socket.socket | None, int]:
    """Return what reserves the lowest number that no other slot has, and the number.

    It spreads slots over processors. Graders with networks of their own do not see each other's.
    """
    if not sys.platform.startswith("linux"):
        # Only Linux has such names, and lets a thread choose its processor.
        return None, 0
    mark = socket.socket(socket.AF_UNIX)
    for number in range(MOST_SLOTS):
        try:
            # A socket name without a file is free again once its process is gone, however it ended.
            mark.bind(f"\0labkit-slot-{number}")
        except OSError:
            continue
        return mark, number
    mark.close()
    raise InfrastructureError(f"{MOST_SLOTS} slots are in use on this machine; use fewer --jobs")


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
