"""Grading on the workers of a Dask cluster. Dask moves the work; the ledger here keeps the grades.

Each machine has the course, and hidden tests if there are any, in the same folders as this machine;
a worker whose files differ is refused. Start a scheduler and, on each machine, workers of one
thread:

    .venv/bin/dask scheduler
    .venv/bin/dask worker tcp://SCHEDULER:8786 --nthreads 1 --nworkers 8

Dask pickles our own functions, and plain data that the trusted side made. Data that a submission
made is never unpickled. Every client that reaches the scheduler can run code on the workers, so the
scheduler belongs in a private network.
"""

import importlib
import platform
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

from labkit.errors import InfrastructureError, UsageError
from labkit.grading.assignment import Assignment
from labkit.grading.reading.submission import Submission
from labkit.grading.retry import DIED, FAILED, Outcome, Work
from labkit.grading.slot import Slot

_CONNECT_SECONDS = 10
# How long a machine may take to appear or to reappear.
WAIT_SECONDS = 60
_LOOK_SECONDS = 1.0
# Workers in a row that die before a submission is given to them.
_MOST_LOST = 10
# Submissions queued per thread, so that no worker waits for its next one.
_AHEAD = 2
# Perhaps not the fault of this submission: with a worker, the submissions in its queue are lost.
# `DIED` is only for a submission that was graded alone.
_LOST = "the worker that had this submission was lost"
# On a worker: the slots of each thread, and the digest of a lab's files when they were imported.
_own = threading.local()
_imported: dict[object, str] = {}


@contextmanager
def connected(
    address: str, assignments: Mapping[str, Assignment], mode: str
) -> Iterator["Cluster"]:
    """Yield the workers of a cluster; the connection to them is closed at the end.

    Args:
        address: of the scheduler, `tcp://HOST:8786`.
        assignments: by folder name of a lab.
        mode: see `labkit.isolation.sandbox`; each worker must be able to do it.

    Raises:
        UsageError: Dask is not installed, or the address is malformed.
        InfrastructureError: the scheduler does not answer or dies, no worker connects, or a
            worker's files differ.
    """
    dask = _dask()
    try:
        client = dask.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError):
        raise InfrastructureError(f"no Dask scheduler answers at {address}: start one") from None
    except ValueError as error:
        raise UsageError(f"--cluster {address}: {error}; write tcp://HOST:8786") from None
    try:
        yield Cluster(client, assignments, mode, dask.KilledWorker)
    except (OSError, TimeoutError, CancelledError):
        raise InfrastructureError(
            f"the Dask scheduler at {address} is gone; a ledger keeps the grades so far: start a "
            "scheduler, then run the same command again"
        ) from None
    finally:
        with suppress(OSError, TimeoutError):
            client.close(timeout=_CONNECT_SECONDS)


def _dask() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise UsageError(
            "--cluster needs Dask: .venv/bin/pip install --require-hashes -r "
            "requirements/cohort.txt"
        ) from None


class Cluster:
    """The workers, as one client sees them.

    If a worker is lost or the grader fails on a submission, the submission is tried again, after
    all others and alone. So it is not blamed for the others: two workers must die of it alone.
    """

    def __init__(
        self, client: Any, assignments: Mapping[str, Assignment], mode: str, lost: type[Exception]
    ) -> None:
        self._client = client
        self._lost = lost
        self._mode = mode
        self._assignments = assignments
        self._digests = {name: item.digest for name, item in assignments.items()}
        self._under_way: dict[Any, int] = {}
        self._done: SimpleQueue[Any] = SimpleQueue()
        self._threads()
        # Otherwise Dask would retry a submission that killed a worker, with others beside it.
        client.run_on_scheduler(_no_second_try)

    def outcomes(self, work: Sequence[Work], alone: bool) -> Iterator[tuple[int, Outcome]]:
        """Yield for each submission its place, and its grade or why grading it failed."""
        waiting = deque(work)
        while waiting or self._under_way:
            most = 1 if alone else _AHEAD * self._threads()
            while waiting and len(self._under_way) < most:
                self._submit(*waiting.popleft(), self._living() if alone else None)
            try:
                future = self._done.get(timeout=_LOOK_SECONDS)
            except Empty:
                continue
            place = self._under_way.pop(future)
            outcome = self._outcome(future)
            yield place, _LOST if outcome == DIED and not alone else outcome
            future.release()

    def _submit(self, place: int, submission: Submission, where: str | None) -> None:
        lab = submission.lab
        args = submission, self._assignments[lab], self._digests[lab], self._mode
        options = {} if where is None else {"workers": [where], "allow_other_workers": True}
        future = self._client.submit(_grade_there, *args, pure=False, **options)
        self._under_way[future] = place
        future.add_done_callback(self._done.put)

    def _living(self) -> str:
        """Return the address of a worker that answers.

        The scheduler may still list a worker that the previous submission has just killed.
        """
        for _ in range(_MOST_LOST):
            self._threads()
            with suppress(self._lost):
                address: str = self._client.submit(_address, pure=False).result()
                return address
        raise InfrastructureError("the workers of the Dask cluster die one after the other")

    def _outcome(self, future: Any) -> Outcome:
        try:
            outcome: Outcome = future.result()
        except self._lost:
            return DIED
        except (InfrastructureError, CancelledError):
            raise
        except Exception as error:
            if future.status != "error":
                raise
            return f"{FAILED} ({type(error).__name__})"
        return outcome

    def _threads(self) -> int:
        """Return how many submissions the workers take at once; wait until there is a worker."""
        threads = sum(self._client.nthreads().values())
        if not threads:
            try:
                self._client.wait_for_workers(1, timeout=WAIT_SECONDS)
            except TimeoutError:
                raise InfrastructureError(
                    f"no worker has connected to the Dask scheduler within {WAIT_SECONDS} seconds: "
                    "start workers, see labkit/grading/cluster.py"
                ) from None
        return threads or 1


def _address() -> str:
    address: str = _dask().get_worker().address
    return address


def _no_second_try(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = 0


def _grade_there(submission: Submission, assignment: Assignment, digest: str, mode: str) -> Outcome:
    """Grade on a worker; each of its threads has a slot of its own."""
    try:
        # Copies, so that the digests are those of the files here and now.
        own, files = replace(assignment).digest, replace(assignment, seed="").digest
        overlay = assignment.overlay
        place = assignment.lab.path, overlay and overlay.path
        if _imported.setdefault(place, files) != files:
            own = "changed files"
    except OSError as error:
        own = f"no {error.filename}"
    if own != digest:
        raise InfrastructureError(
            f"a worker on {platform.node()} has another course than this machine ({own:.60} there, "
            f"{digest:.60} here): put the same files at {assignment.lab.path} and restart it"
        )
    slots: dict[str, Slot] = vars(_own)
    try:
        if mode not in slots:
            slots[mode] = Slot(mode)
    except OSError as error:
        raise InfrastructureError(f"a worker on {platform.node()} cannot grade: {error}") from None
    outcome: Outcome = slots[mode].attempt(submission, assignment)
    return outcome
