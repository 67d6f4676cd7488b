"""A place to grade in: a processor, and what starts workers.

One submission at a time is graded in it; to grade many at once takes many slots, each in a process
or thread of its own. What must be unique on a machine belongs to a worker, not to its slot: see
`labkit.isolation.users`.
"""

import os
import socket
import sys
from contextlib import ExitStack

from labkit.errors import InfrastructureError
from labkit.isolation.host import Host, Sources, WorkerError
from labkit.isolation.sandbox import Sandbox, WorkerRoot

MOST_SLOTS = 128
_NOTHING = Sources("starter", {"starter": ("starter.py", "starter.py", b"")})


class Slot:
    """A place to grade in. Use it with `with`; it belongs to the thread that made it.

    That thread and its workers stay on one processor: a round trip takes half the time if it need
    not wake another one.

    Args:
        mode: see `labkit.isolation.sandbox`.
        root: where workers come from; one of its own if it is given none.

    Attributes:
        sandbox: starts its workers.

    Raises:
        InfrastructureError: no worker can be started in this mode, or no slot is free.
    """

    def __init__(self, mode: str, root: WorkerRoot | None = None) -> None:
        self._held = ExitStack()
        mark, self._number = _take_number()
        if mark is not None:
            self._held.callback(mark.close)
        self.sandbox = Sandbox(mode, root or self._held.enter_context(WorkerRoot()))
        if hasattr(os, "sched_setaffinity"):
            processors = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {processors[self._number % len(processors)]})
            self._held.callback(os.sched_setaffinity, 0, processors)
        try:
            self.check()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Slot":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def close(self) -> None:
        """Give the number and the other processors back, and remove what workers import."""
        self._held.close()


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
