"""A process that has imported all modules of a worker, and forks a worker on request.

It never holds a submission. Between the zygote and a worker is a keeper: it waits for the worker,
ends it when the grader requests that or is gone, and reports how it ended. In a sandbox the keeper
is the first process of a namespace of its own, whose processes end with it. A worker sees neither
the zygote nor the keeper.
"""

import marshal
import os
import select
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from labkit.isolation import walls
from labkit.isolation.worker import main

# A worker's message when its walls are up, with its number, and a keeper's report of its end.
READY = b"ready "
ENDED = b"ended "
# A worker has no more open files when it is forked.
_MOST_OPEN = 64


def serve(mode: str, folder: str, user: int, modules: dict[str, str]) -> None:
    """Fork workers until the grader closes the socket that is standard input, or is gone.

    Args:
        mode: `sandbox`, `container` or `trust`.
        folder: the place for the folder that becomes the file system of a container's workers. It
            is removed when this process ends, however the grader ends.
        user: the number of a user that owns nothing, to check files as; -1 to stay the same user.
        modules: by name, the files of the extension modules that must load where workers run.
    """
    # No process waits for the keepers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=0)
    root = ""
    try:
        if mode == "container":
            root = f"{folder}/labkit-worker-{os.urandom(6).hex()}"
            os.mkdir(root)
            os.chmod(root, 0o755)
            control.sendall(f"{root}\n".encode())
            # The grader puts Python's library there.
            if not control.recv(1):
                return
        if mode != "trust":
            _read_all(root or "/")
        control.sendall(f"{_what_is_missing(mode, root, user, modules)}\n".encode())
        while True:
            request, ends, _, _ = socket.recv_fds(control, 1 << 16, 3)
            if not request:
                return
            _fork_keeper(control, mode, root, request, ends)
    finally:
        if root:
            from shutil import rmtree

            rmtree(root, ignore_errors=True)


def _read_all(root: str) -> None:
    """Have the machine keep all files in memory that workers see.

    Otherwise the first worker to read a file would wait for the disk, and others could notice that
    they do not.
    """
    for folder, _, names in os.walk(root):
        for name in names:
            # Some files may be readable only by other users.
            with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                while file.read(1 << 20):
                    pass


def _what_is_missing(mode: str, root: str, user: int, modules: dict[str, str]) -> str:
    """Return why a module does not load where workers run; "" if all do."""
    here, there = os.pipe()
    if os.fork() == 0:
        try:
            os.write(there, _first_unloadable(mode, root, user, modules).encode())
        finally:
            os._exit(0)
    os.close(there)
    with open(here, encoding="utf-8") as pipe:
        return pipe.read().strip().replace("\n", " ")


def _first_unloadable(mode: str, root: str, user: int, modules: dict[str, str]) -> str:
    import ctypes

    if mode == "sandbox":
        walls.enter_namespaces()
    walls.see_no_more(mode, root)
    if user >= 0:
        walls.become(user)
    if not os.access(ctypes.__file__, os.R_OK):
        return f"ctypes ({ctypes.__file__} cannot be read)"
    for name, path in modules.items():
        try:
            ctypes.CDLL(path)
        except OSError as error:
            return f"{name} ({error})"
    return ""


def _fork_keeper(
    control: socket.socket, mode: str, root: str, request: bytes, ends: list[int]
) -> None:
    try:
        keeper = os.fork()
    except OSError as error:
        os.write(ends[2], f"{error}".encode())
        keeper = -1
    if keeper == 0:
        try:
            control.close()
            _keep(mode, root, *marshal.loads(request), *ends)
        except BaseException as error:
            os.write(ends[2], f"{error}".encode())
        finally:
            os._exit(0)
    for end in ends:
        os.close(end)


def _keep(
    mode: str, root: str, user: int, processors: list[int], reader: int, writer: int, status: int
) -> None:
    if mode == "sandbox":
        walls.enter_namespaces()
        # Only the next process is in the new namespace of processes, as its first.
        if os.fork():
            os._exit(0)
    keeper = os.getpid()
    printed, prints = os.pipe()
    worker = os.fork()
    if worker == 0:
        _become_worker(mode, root, user, processors, keeper, prints, (reader, writer, status))
    for end in (reader, writer, prints):
        os.close(end)
    how = _wait(worker, status, printed)
    with suppress(OSError):
        os.write(status, b"\n%s%d\n" % (ENDED, os.waitstatus_to_exitcode(how)))


def _wait(worker: int, status: int, printed: int) -> int:
    """Return how the worker ended; end it if the grader requests that, or is gone.

    Until then, discard its output.
    """
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    poll.register(status, select.POLLIN)
    poll.register(printed, select.POLLIN)
    while True:
        # Checked first: it may have ended before the handler was installed.
        ended, how = os.waitpid(worker, os.WNOHANG)
        if ended:
            return how
        ready = [end for end, _ in poll.poll()]
        if printed in ready and not os.read(printed, 1 << 16):
            poll.unregister(printed)
        if status in ready:
            for kill in (os.killpg, os.kill):
                with suppress(OSError):
                    kill(worker, signal.SIGKILL)
            return os.waitpid(worker, 0)[1]


def _become_worker(
    mode: str,
    root: str,
    user: int,
    processors: list[int],
    keeper: int,
    prints: int,
    ends: tuple[int, int, int],
) -> NoReturn:
    reader, writer, status = ends
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        if processors:
            os.sched_setaffinity(0, processors)
        # The pipe is not its standard output. Neither is the host's null device, which others
        # would see too.
        nothing, end = os.pipe()
        os.close(end)
        for descriptor, source in enumerate((nothing, prints, prints)):
            os.dup2(source, descriptor)
        for descriptor in range(3, _MOST_OPEN):
            if descriptor not in ends:
                with suppress(OSError):
                    os.close(descriptor)
        walls.give_up(mode, root, user, keeper)
        os.write(status, b"%s%d\n" % (READY, os.getpid()))
        os.close(status)
    except BaseException as error:
        os.write(status, f"{error}".encode())
        os._exit(1)
    try:
        main(reader, writer)
    finally:
        os._exit(1)
