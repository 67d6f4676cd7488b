"""Grading on this machine: one trusted process for each slot, and submissions handed out in turn.

A process that dies or fails costs no other submission anything. `labkit.grading.retry` decides
about the submission that it was grading; `labkit.grading.slot` does the work inside a process.
"""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from labkit.errors import InfrastructureError
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.grading.retry import DIED, OVERSPENT, Outcome, Work
from labkit.grading.slot import OVERSPENT_SIGNAL, Slot, Stopped, limit_memory
from labkit.grading.slot import Work as SlotWork

_MOST_STARTS = 3
_END_SECONDS = 10.0


class Pool:
    """Processes that grade. Use it with `with`; leaving it ends them, whatever they are doing.

    Args:
        assignments: by folder name of a lab.
        mode: see `labkit.isolation.sandbox`.
        jobs: the number of processes.
        work: the work on each submission: a function or an object that a process can be sent.
    """

    def __init__(
        self, assignments: Mapping[str, Assignment], mode: str, jobs: int, work: SlotWork = grade
    ) -> None:
        self._args = dict(assignments), mode, work
        self._jobs = jobs
        self._hands: list[_Hand] = []

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._have_hands(0)

    def outcomes(self, work: Sequence[Work], alone: bool) -> Iterator[tuple[int, Outcome]]:
        """Yield for each submission its place, and its grade or why grading it failed.

        Args:
            work: the submissions to grade.
            alone: whether to use one process, after all others have ended.

        Raises:
            InfrastructureError: no worker can be started, or processes die before they are ready.
        """
        self._have_hands(1 if alone else min(self._jobs, len(work)))
        waiting = deque(work)
        left, starts = len(waiting), 0
        while left:
            for hand in self._hands:
                hand.give(waiting)
            for connection in wait([hand.connection for hand in self._hands]):
                hand = next(hand for hand in self._hands if hand.connection is connection)
                kind, content = hand.hear()
                item, hand.work = hand.work, None
                if kind == "stop":
                    raise InfrastructureError(content)
                if kind == "died":
                    starts = 0 if hand.ready else starts + 1
                    if starts == _MOST_STARTS:
                        raise InfrastructureError(
                            f"grading processes do not start (exit code {content})"
                        )
                    hand.end()
                    self._hands[self._hands.index(hand)] = _Hand(self._args)
                    content = OVERSPENT if content == -OVERSPENT_SIGNAL else DIED
                if item is not None:
                    left -= 1
                    yield item[0], content

    def _have_hands(self, number: int) -> None:
        while len(self._hands) > number:
            self._hands.pop().end()
        while len(self._hands) < number:
            self._hands.append(_Hand(self._args))


class _Hand:
    """One grading process, seen from the parent."""

    def __init__(self, args: tuple[dict[str, Assignment], str, SlotWork]) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.work: Work | None = None
        self.ready = False
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, *args), daemon=True, name="labkit-slot"
        )
        # Ctrl-C reaches every process of a terminal, but only the parent may end these.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def hear(self) -> tuple[str, Any]:
        """Return its next message: a kind and a content."""
        try:
            kind, content = self.connection.recv()
        except (EOFError, OSError):
            self._process.join(_END_SECONDS)
            return "died", self._process.exitcode
        self.ready = True
        return kind, content

    def give(self, waiting: deque[Work]) -> None:
        """Hand it the next submission if it has none; if the process is gone, keep that."""
        if not self.ready or self.work is not None or not waiting:
            return
        with contextlib.suppress(OSError):
            self.connection.send(waiting[0][1])
            self.work = waiting.popleft()

    def end(self) -> None:
        """End the process, after a moment to tidy up."""
        self.connection.close()
        self._process.terminate()
        self._process.join(_END_SECONDS)
        self._process.kill()
        self._process.join()
        self._process.close()


def _serve(
    connection: Connection, assignments: dict[str, Assignment], mode: str, of_slot: SlotWork
) -> None:
    """Grade submissions from the pipe, until the parent process closes the pipe or dies."""
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, _stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    # Copies compute their digest here, of the same files that are imported here.
    assignments = {name: replace(assignment) for name, assignment in assignments.items()}
    work: SimpleQueue[Submission] = SimpleQueue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                work.put(connection.recv())
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        with Slot(mode) as slot:
            limit_memory()
            _send(connection, ("ready", None))
            threading.Thread(target=listen, daemon=True).start()
            while True:
                item = work.get()
                _send(connection, ("graded", slot.attempt(item, assignments[item.lab], of_slot)))
    except Stopped:
        return
    except (InfrastructureError, OSError) as error:
        with contextlib.suppress(OSError):
            _send(connection, ("stop", f"grading cannot continue: {error}"))


def _send(connection: Connection, message: tuple[str, Any]) -> None:
    # Like `Connection.send`, which keeps a buffer: Python 3.13 complains about the buffer on stderr
    # if the parent ends the process in the middle.
    connection.send_bytes(pickle.dumps(message))


def _stop(*_: object) -> None:
    raise Stopped
