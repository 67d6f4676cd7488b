"""The start of a worker, and the resources that it can reach.

- `sandbox`: no network, no files but Python's own library and its dependencies, an empty scratch
  folder in memory, own processes, own shared memory, another user if root grades. It needs
  bubblewrap.
- `container`: another user, in a folder that holds only Python's own library and its dependencies,
  without write access, with filtered system calls instead of namespaces; the platform's container
  is the outer wall. It needs root.
- `trust`: limits and the pipe only, for your own code.

The worker gives up all rights that a process can give up by itself before it imports a submission;
see `labkit.isolation.walls`.
"""

import functools
import marshal
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from labkit.course.imports import imported_modules
from labkit.errors import InfrastructureError
from labkit.isolation import boot, bubblewrap, users
from labkit.isolation.library import Library, python_command, python_environment, python_library
from labkit.isolation.zygote import ENDED, READY

_HERE = Path(__file__).resolve().parents[2]
_PROGRAM = _HERE / "labkit/isolation/zygote.py"
# The folder of these files in tracebacks; it does not exist.
_INSIDE = "/grader"
_START_SECONDS = 30.0
_END_SECONDS = 10.0
# How long a zygote that may have been killed may take to be gone.
_ZYGOTE_END_SECONDS = 1.0
_LINUX = hasattr(socket, "SO_PASSCRED")


class Worker:
    """A process that has given up the rights that its mode forbids, and waits for a submission.

    Attributes:
        tells: the end of a pipe to write requests to.
        hears: the end of a pipe to read answers from.
        user: the user that it has become; -1 if it stays the grader's user.
        number: the number of the process, as seen from here.
    """

    def __init__(self, tells: int, hears: int, status: socket.socket, user: int) -> None:
        self.tells = tells
        self.hears = hears
        self.user = user
        self.number = 0
        self._status: socket.socket | None = status
        self._said = b""

    def ended(self, seconds: float) -> int | None:
        """Return the exit code, or a signal's number below zero; None if it goes on.

        Args:
            seconds: how long to wait for its end.
        """
        deadline = time.monotonic() + seconds
        while self._status is not None and not self._said.endswith(b"\n"):
            part, _ = _read(self._status, deadline)
            if part is None:
                return None
            if not part:
                # The keeper was killed, and its worker with it.
                return -signal.SIGKILL
            self._said += part
        match = re.search(rb"^%s(-?\d+)$" % ENDED, self._said, re.MULTILINE)
        return None if match is None else int(match[1])

    def stop(self) -> None:
        """End the process; it is gone when this returns."""
        status, self._status = self._status, None
        if status is None:
            return
        os.close(self.tells)
        os.close(self.hears)
        with status, suppress(OSError):
            status.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + _END_SECONDS
            while _read(status, deadline)[0]:
                pass

    def await_ready(self) -> None:
        """Wait until its walls are up.

        Raises:
            InfrastructureError: the worker reports a failure.
        """
        assert self._status is not None
        deadline = time.monotonic() + _START_SECONDS
        said = b""
        while len(said) < 10_000:
            part, number = _read(self._status, deadline)
            if part is not None and part.startswith(READY):
                # In a namespace of its own, it has another number than the kernel reports here.
                self.number = number or int(part.split()[1])
                return
            if not part:
                break
            said += part
        why = re.sub(rb"\n*%s-?\d+\n*$" % ENDED, b"", said).decode(errors="replace")
        raise InfrastructureError(f"a worker cannot be started: {_one_line(why)}")


class Sandbox:
    """A way to start workers, by a zygote that is started when it is needed. Use it with `with`.

    Args:
        mode: `sandbox`, `container` or `trust`.

    Attributes:
        mode: as it was given.
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._zygote: Zygote | None = None

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.close()

    def start(self) -> Worker:
        """Start a worker. If root grades, the worker gets a user without other processes.

        Raises:
            InfrastructureError: it cannot be started.
        """
        if not _changes_user(self.mode):
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
            "a worker cannot be started: no user is free, all tried users have processes"
        )

    def _fork(self, user: int) -> Worker:
        zygote = self._living()
        try:
            return zygote.fork(user)
        except InfrastructureError:
            # A system without memory may have killed it.
            if not zygote.ended(_ZYGOTE_END_SECONDS):
                raise
        return self._living().fork(user)

    def _living(self) -> "Zygote":
        if self._zygote is not None and self._zygote.ended(0):
            self._zygote.close()
            self._zygote = None
        if self._zygote is None:
            self._zygote = Zygote(self.mode)
        return self._zygote


class Zygote:
    """A process that forks workers; see `labkit.isolation.zygote`.

    Args:
        mode: as of a `Sandbox`.

    Raises:
        InfrastructureError: it does not start, or lacks a module of Python's library.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._root: Path | None = None
        library = Library((), (), {}) if mode == "trust" else python_library()
        command = [*python_command(), "-c", Path(boot.__file__).read_text("utf-8")]
        if mode == "sandbox":
            command = [*bubblewrap.walls(library), *command]
        self._control, theirs = socket.socketpair()
        errors, theirs_too = os.pipe()
        with theirs, open(errors, "rb", buffering=0) as self._errors:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=theirs_too,
                    cwd="/",
                    env=python_environment(),
                    # Signals for the grader's group, also from a terminal, must not reach it.
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                raise InfrastructureError(f"a worker cannot be started: {error}") from None
            finally:
                os.close(theirs_too)
                theirs.close()
            try:
                self._begin(library)
            except BaseException:
                self.close()
                raise

    def _begin(self, library: Library) -> None:
        user = next(users.free_users()) if _changes_user(self._mode) else -1
        folder = _temporary_folder() if self._mode == "container" else ""
        data = marshal.dumps((_modules(), (self._mode, folder, user, library.modules)))
        with suppress(BrokenPipeError):
            self._control.sendall(len(data).to_bytes(8, "big") + data)
        if self._mode == "container":
            self._root = Path(self._line())
            library.copy_to(self._root)
            self._control.sendall(b"\n")
        missing = self._line()
        if missing:
            copied = "put TMPDIR on a disk that is not mounted with noexec"
            fix = copied if self._mode == "container" else "move them out of /tmp"
            raise InfrastructureError(
                "submissions would lack a module of Python's library, which loads outside their "
                f"walls: {missing}. Make its files readable by all users, and {fix}"
            )

    def ended(self, seconds: float) -> bool:
        """Return whether the zygote has ended, so that another is needed.

        Args:
            seconds: how long to wait for its end.
        """
        # It sends nothing after its start.
        return _read(self._control, time.monotonic() + seconds)[0] is not None

    def fork(self, user: int) -> Worker:
        """Return a new worker; it stays on the processors of this thread.

        Args:
            user: the number of the user that it becomes; -1 to stay the same.

        Raises:
            InfrastructureError: it does not start.
        """
        processors = []
        if hasattr(os, "sched_getaffinity"):
            processors = sorted(os.sched_getaffinity(0))
        reader, tells = os.pipe()
        hears, writer = os.pipe()
        here, there = socket.socketpair()
        if _LINUX:
            here.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        worker = Worker(tells, hears, here, user)
        try:
            request = marshal.dumps((user, processors))
            socket.send_fds(self._control, [request], [reader, writer, there.fileno()])
        except OSError:
            worker.stop()
            raise InfrastructureError("a worker cannot be started: its zygote is gone") from None
        finally:
            there.close()
            os.close(reader)
            os.close(writer)
        try:
            worker.await_ready()
        except BaseException:
            worker.stop()
            raise
        return worker

    def close(self) -> None:
        """End it, and all of its workers."""
        self._control.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._root is not None:
            # It does this itself, but not if it was killed.
            shutil.rmtree(self._root, ignore_errors=True)

    def _line(self) -> str:
        deadline = time.monotonic() + _START_SECONDS
        said = b""
        while not said.endswith(b"\n"):
            part, _ = _read(self._control, deadline)
            if not part:
                # The last message of bubblewrap or Python.
                self._control.close()
                self._process.kill()
                why = self._errors.read(10_000).decode(errors="replace")
                raise InfrastructureError(f"a worker cannot be started: {_one_line(why)}")
            said += part
        return said.decode().strip()


def _changes_user(mode: str) -> bool:
    """Return whether each worker of a mode becomes a user of its own."""
    return mode != "trust" and os.geteuid() == 0


def worker_files() -> list[str]:
    """Return all modules of the course that a worker imports, as files below the repository.

    None of them knows a lab's tests or solution. Their packages are empty in a worker: the real
    ones would import more.
    """
    program = _PROGRAM.relative_to(_HERE).as_posix()
    return [*imported_modules(_PROGRAM.read_bytes(), _HERE), program]


@functools.cache
def _modules() -> dict[str, tuple[bool, str, Any]]:
    """Return the modules of a worker, in the form for `labkit.isolation.boot`."""
    modules = {}
    for file in worker_files():
        path = Path(file)
        for package in path.parents[:-1]:
            filename = f"{_INSIDE}/{package}/__init__.py"
            modules[".".join(package.parts)] = True, filename, compile("", filename, "exec")
        filename = f"{_INSIDE}/{file}"
        code = compile((_HERE / file).read_text("utf-8"), filename, "exec")
        modules[".".join(path.with_suffix("").parts)] = False, filename, code
    return modules


def _temporary_folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        raise InfrastructureError(
            "a worker cannot be started: no folder for temporary files can be written to: free "
            "some space, or set TMPDIR to another folder"
        ) from None


def _read(end: socket.socket, deadline: float) -> tuple[bytes | None, int]:
    """Return the received bytes, and the number of the process that sent them, or 0.

    The bytes are b"" at the end, and None if none arrive by the deadline.
    """
    poll = select.poll()
    poll.register(end, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        return None, 0
    try:
        part, ancdata, _, _ = end.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
    except OSError:
        return b"", 0
    return part, struct.unpack("3i", ancdata[0][2])[0] if ancdata else 0


def _one_line(said: str) -> str:
    last = said.strip().rpartition("\n")[2]
    return re.sub(r"\s+", " ", last) or "it ended at once"
