"""A place to grade in: a number that is its own on this machine, a processor, a sandbox.

But: it holds one submission at a time. Many at once are many slots, each in a process or a thread.
"""

import os
import socket
import sys

from labkit.errors import InfrastructureError
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.isolation.host import Host, Sources, WorkerError
from labkit.isolation.sandbox import Sandbox, WorkerRoot

# Each slot's worker is a user of its own; there are this many such users.
MOST_SLOTS = 128
_NOTHING = Sources("starter", {"starter": ("starter.py", "starter.py", b"")})


class Slot:
    """A place to grade in. Use it with `with`; it belongs to the thread that made it.

    That thread and its workers stay on one processor: a question and its answer take half the time
    if they need not wake another one.

    Args:
        mode: see `labkit.isolation.sandbox`.

    Raises:
        InfrastructureError: no worker can be started in this mode, or no slot is free.
    """

    def __init__(self, mode: str) -> None:
        self._mark, number = _take_number()
        self._number = number
        self._root = WorkerRoot()
        self._sandbox = Sandbox(mode, self._root)
        if hasattr(os, "sched_setaffinity"):
            processors = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {processors[number % len(processors)]})
        try:
            self.check()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def grade(self, submission: Submission, assignment: Assignment) -> Grade:
        """Return the grade of a submission."""
        return grade(submission, assignment, self._sandbox, self._number)

    def check(self) -> None:
        """See whether a worker that holds an empty submission answers.

        Raises:
            InfrastructureError: it does not, so no submission is to blame.
        """
        host = Host(self._sandbox, _NOTHING, self._number)
        try:
            host.begin(1)
            failure = host.load()
        except (WorkerError, OSError) as error:
            failure = str(error)
        finally:
            host.close()
        if failure is not None:
            raise InfrastructureError(f"a worker cannot be started: {failure}")

    def close(self) -> None:
        """Give the number back, and remove what workers import."""
        self._root.__exit__()
        if self._mark is not None:
            self._mark.close()


def _take_number() -> tuple[socket.socket | None, int]:
    """Return the lowest number that no other slot of this machine has, and what keeps it."""
    if not sys.platform.startswith("linux"):
        # Without Linux there is no mode in which slots are users.
        return None, 0
    mark = socket.socket(socket.AF_UNIX)
    for number in range(MOST_SLOTS):
        try:
            # A name without a file: it is free again when its process is gone, however that ended.
            mark.bind(f"\0labkit-slot-{number}")
        except OSError:
            continue
        return mark, number
    mark.close()
    raise InfrastructureError(f"{MOST_SLOTS} slots are at work on this machine; use fewer --jobs")
