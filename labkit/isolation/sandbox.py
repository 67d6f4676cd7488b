"""How a worker is started, and what it can reach from there.

- `sandbox`: no network, no files but Python's own library and what that needs, an empty scratch
  folder in memory, own processes, own shared memory, another user where root grades. It needs
  bubblewrap.
- `container`: another user, in a folder that holds only Python's own library and what that needs
  and that it cannot write to, with filtered system calls instead of namespaces; the platform's
  container is the outer wall. It needs root.
- `trust`: limits and the pipe only, for one's own code.

What a process can give up by itself, the worker gives up before it imports a submission; see
`labkit.isolation.walls`.
"""

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import InfrastructureError, UsageError
from labkit.isolation import bubblewrap, users
from labkit.isolation.launch import Worker, Zygote, changes_user
from labkit.isolation.library import refuse_if_visible

_HERE = Path(__file__).resolve().parents[2]
_END_SECONDS = 1.0


class WorkerRoot:
    """Where workers come from: a zygote for each mode, started when it is needed. Use it with
    `with`.

    Any number of threads can share one, also at the same time and in different modes.
    """

    def __init__(self) -> None:
        self._zygotes: dict[str, Zygote] = {}
        self._starting = threading.Lock()

    def __enter__(self) -> "WorkerRoot":
        return self

    def __exit__(self, *_: object) -> None:
        for zygote in self._zygotes.values():
            zygote.close()
        self._zygotes.clear()

    def zygote(self, mode: str) -> Zygote:
        """Return what forks the workers of a mode.

        Raises:
            InfrastructureError: it cannot be started.
        """
        with self._starting:
            zygote = self._zygotes.get(mode)
            if zygote is not None and zygote.ended(0):
                zygote.close()
                zygote = None
            if zygote is None:
                zygote = self._zygotes[mode] = Zygote(mode)
            return zygote


@dataclass(frozen=True)
class Sandbox:
    """A way to start workers.

    Attributes:
        mode: `sandbox`, `container` or `trust`.
        root: where they come from.
    """

    mode: str
    root: WorkerRoot

    def start(self) -> Worker:
        """Start a worker. Where root grades, it is a user that no other process is.

        Raises:
            InfrastructureError: it cannot be started.
        """
        if not changes_user(self.mode):
            return self._fork(-1)
        for user in users.free_users():
            worker = self._fork(user)
            try:
                taken = users.is_taken(user, besides=worker.number)
            except BaseException:
                worker.stop()
                raise
            if not taken:
                return worker
            worker.stop()
        raise InfrastructureError(
            "a worker cannot be started: no user is free, all that were tried have processes"
        )

    def _fork(self, user: int) -> Worker:
        zygote = self.root.zygote(self.mode)
        try:
            return zygote.fork(user)
        except InfrastructureError:
            # A system without memory may have killed it.
            if not zygote.ended(_END_SECONDS):
                raise
        return self.root.zygote(self.mode).fork(user)


def choose_mode(*, trust: bool, container: bool, unseen: Iterable[Path | None] = ()) -> str:
    """Return the mode to use: the sandbox, unless told otherwise.

    Args:
        trust: whether submissions are one's own code.
        container: whether this machine is a container that is thrown away.
        unseen: what submissions must not see, besides this course.

    Raises:
        UsageError: it does not work here, or submissions would see what they must not; the message
            says what to do.
    """
    if trust:
        return "trust"
    mode = "container" if container else "sandbox"
    if container and os.geteuid() != 0:
        raise UsageError("--container needs root: it runs submissions as another user")
    try:
        with WorkerRoot() as root:
            Sandbox(mode, root).start().stop()
    except InfrastructureError as error:
        if container:
            raise
        raise UsageError(
            f"submissions cannot be walled in: {bubblewrap.what_to_do(str(error))}"
        ) from None
    refuse_if_visible(mode, [_HERE, *(path for path in unseen if path is not None)])
    return mode
