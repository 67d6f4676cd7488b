"""A slot, in which submissions are graded: a processor, a starter of workers, and a budget.

A slot grades one submission at a time; grading several at once takes several slots, each in a
process or thread of its own. Resources that must be unique on a machine belong to a worker, not to
its slot: see `labkit.isolation.users`.

The budget is a backstop. Every operation of the trusted side on behalf of a submission has its own
bound; if a submission evades these bounds, its process ends, and other submissions are not
affected.
"""

import math
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from labkit.errors import CourseError, InfrastructureError
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.grading.retry import FAILED
from labkit.isolation.host import Host, Sources, WorkerError
from labkit.isolation.sandbox import Sandbox

MOST_SLOTS = 128
# Limits for one submission: processor time, and memory at once.
MOST_SECONDS = 600.0
MOST_BYTES = 2 << 30
# The signal that ends a process which computed for longer.
OVERSPENT_SIGNAL = signal.SIGXCPU
# The longest message about a failure of the grader.
_MOST_CHARACTERS = 4_000
# The work on a submission in a slot.
Work = Callable[[Submission, Assignment, Sandbox], Any]
_NOTHING = Sources("starter", {"starter": ("starter.py", "starter.py", b"")})


class Stopped(SystemExit):
    """The grading process was ordered to end."""


class Slot:
    """A slot for grading. Use it with `with`; it belongs to the thread that made it.

    That thread and its workers stay on one processor: a round trip takes half the time if it need
    not wake another processor.

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
            InfrastructureError: the worker does not answer, and no submission can be to blame.
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

    def attempt(
        self, submission: Submission, assignment: Assignment, work: Work | None = None
    ) -> Any:
        """Return the grade of a submission, or another work's result, or the grader's failure.

        Raises:
            CourseError: a file of the course is at fault.
            InfrastructureError: the grader failed for a reason that would stop every submission.
        """
        try:
            with _allowance():
                return (work or grade)(submission, assignment, self.sandbox)
        except (Stopped, CourseError):
            raise
        except BaseException as error:
            name = type(error).__name__
            print(traceback.format_exc()[-_MOST_CHARACTERS:], file=sys.stderr, flush=True)
        # The objects of the attempt are freed only now.
        self.check()
        return f"{FAILED} ({name})"


def _take_number() -> tuple[socket.socket | None, int]:
    """Return a reservation of the lowest number that no other slot has, and the number.

    The number spreads slots over processors. Graders with networks of their own do not see each
    other's numbers.
    """
    if not sys.platform.startswith("linux"):
        # Only Linux has such names, and lets a thread choose its processor.
        return None, 0
    mark = socket.socket(socket.AF_UNIX)
    for number in range(MOST_SLOTS):
        try:
            # A socket name without a file is free again once its process has ended in any way.
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
