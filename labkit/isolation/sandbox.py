"""How a worker is started, and what it can reach from there.

- `sandbox`: no network, no files but Python's own, own pids, another user. It needs bubblewrap.
- `container`: another user, in a folder that holds only Python's library, with filtered system
  calls instead of namespaces; the platform's container is the outer wall. It needs root.
- `trust`: limits and the pipe only, for one's own code.

What a process can give up by itself, the worker gives up before it imports a submission; see
`labkit.isolation.walls`.
"""

import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import InfrastructureError, UsageError

_HERE = Path(__file__).resolve().parents[2]
# All that a worker imports. None of it knows a lab's tests or solution.
WORKER_FILES = (
    "labkit/__init__.py",
    "labkit/running/__init__.py",
    "labkit/running/drive.py",
    "labkit/errors.py",
    "labkit/running/source.py",
    "labkit/running/trace.py",
    "labkit/isolation/__init__.py",
    "labkit/isolation/syscalls.py",
    "labkit/isolation/walls.py",
    "labkit/isolation/wire.py",
    "labkit/isolation/worker.py",
    "mini_vllm/__init__.py",
    "mini_vllm/text/events.py",
)
# The parts of Python's library that take much room and that no lab needs.
_LEFT_OUT = shutil.ignore_patterns(
    *("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo"),
    *("ensurepip", "lib2to3", "pydoc_data", "config-*", "*.opt-*.pyc", "*.a"),
)
# Users that own nothing; each slot has its own, because limits count by user.
FIRST_UID = 61_000
# The slot of workers that get no submission.
_PROBE = -1
_START_SECONDS = 30.0
READY = b"ready\n"
# The worker mounts its scratch folder, becomes its user, and gives these up.
_CAPABILITIES = ("--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN")
_NAMESPACES = ("--unshare-all", *_CAPABILITIES)
# Limits do not hold for root, nor for root of a user namespace that root has made. So root makes
# all namespaces but that of users; the worker changes its user and then makes that one itself.
_NAMESPACES_OF_ROOT = (
    *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *(*_CAPABILITIES, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
)


class WorkerRoot:
    """A folder with copies of what a worker imports, readable by all users. Use it with `with`.

    Any number of workers can share one, also at the same time and in different modes.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="labkit-worker-")
        self._copying = threading.Lock()
        self.path = Path(self._folder.name)
        for name in WORKER_FILES:
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_HERE / name, target)
        # The real one would import more than the events.
        (self.path / "mini_vllm/text/__init__.py").write_text("")
        self._make_readable()

    def __enter__(self) -> "WorkerRoot":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def with_library(self) -> Path:
        """Return the folder, with Python's library in it under the same path as outside."""
        with self._copying:
            bases = {"platbase": sys.base_exec_prefix}
            kinds = ("stdlib", "platstdlib")
            for name in dict.fromkeys(sysconfig.get_path(kind, vars=bases) for kind in kinds):
                target = self.path / name.lstrip("/")
                if not target.exists():
                    shutil.copytree(name, target, ignore=_LEFT_OUT)
                    self._make_readable()
        return self.path

    def _make_readable(self) -> None:
        for path in [self.path, *self.path.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)


@dataclass
class Worker:
    """A worker that has given up what its mode says.

    Attributes:
        process: to write to, to read from, and to end.
        number: of the process that holds the submission, as seen from here; bubblewrap starts that
            as its grandchild.
    """

    process: "subprocess.Popen[bytes]"
    number: int


@dataclass(frozen=True)
class Sandbox:
    """A way to start workers.

    Attributes:
        mode: `sandbox`, `container` or `trust`.
        root: what workers import, see `WorkerRoot`.
    """

    mode: str
    root: WorkerRoot

    def start(self, slot: int) -> Worker:
        """Start a worker; its standard input and output are the pipe.

        Args:
            slot: a number that no other worker uses at the same time.

        Raises:
            InfrastructureError: it cannot be started.
        """
        here, there = socket.socketpair()
        with here, there:
            if sys.platform.startswith("linux"):
                here.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            process: subprocess.Popen[bytes] = subprocess.Popen(
                self._command(slot),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=there.fileno(),
                cwd="/",
                # For the same order of sets in each run, and the same encoding on each system.
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
                start_new_session=True,
            )
            there.close()
            try:
                return Worker(process, _await_ready(here) or process.pid)
            except BaseException:
                self.stop(process)
                raise

    def stop(self, process: "subprocess.Popen[bytes]") -> None:
        """End a worker. It cannot start other processes; in a sandbox they would end with it."""
        for end in (process.stdin, process.stdout):
            if end is not None:
                end.close()
        process.kill()
        process.wait()

    def _command(self, slot: int) -> Sequence[str]:
        # Like -I, but PYTHONHASHSEED counts.
        python = [os.path.realpath(sys._base_executable), "-s", "-P", "-S", "-B"]  # type: ignore[attr-defined]
        user = str(FIRST_UID + slot) if self.mode != "trust" and os.geteuid() == 0 else ""
        root = str(self.root.with_library() if self.mode == "container" else self.root.path)
        walls = []
        if self.mode == "sandbox":
            walls, root = _walls(self.root.path), _INSIDE
        return [*walls, *python, f"{root}/labkit/isolation/worker.py", root, self.mode, user]


def _await_ready(end: socket.socket) -> int:
    """Return the number of the process that reports ready; 0 if the system does not tell it.

    Raises:
        InfrastructureError: it says something else.
    """
    deadline = time.monotonic() + _START_SECONDS
    said = b""
    while len(said) < 10_000:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([end], [], [], left)[0]:
            said += b"it took too long"
            break
        part, told, _, _ = end.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
        if part == READY:
            return struct.unpack("3i", told[0][2])[0] if told else 0
        if not part:
            break
        said += part
    raise InfrastructureError(f"a worker cannot be started: {_last_line(said.decode())}")


def _last_line(said: str) -> str:
    return re.sub(r"\s+", " ", said.strip().rpartition("\n")[2]) or "it ended at once"


_INSIDE = "/grader"


def _walls(root: Path) -> list[str]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise InfrastructureError("a worker cannot be started: there is no bwrap command")
    shown = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", sys.base_prefix]
    binds = [word for path in dict.fromkeys(shown) for word in ("--ro-bind-try", path, path)]
    # bubblewrap would close these to other users where they are closed outside, like /root.
    above = [*map(str, reversed(Path(sys.base_prefix).parents)), "/dev"][1:]
    dirs = [word for path in above for word in ("--perms", "0755", "--dir", path)]
    names = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
    devices = [word for name in names for word in ("--dev-bind", name, name)]
    return [
        bwrap,
        *(_NAMESPACES_OF_ROOT if os.geteuid() == 0 else _NAMESPACES),
        *("--die-with-parent", "--new-session"),
        *dirs,
        *binds,
        # No /proc, no terminals, no shared memory: no lab needs them.
        *devices,
        *("--dir", "/tmp", "--ro-bind", str(root), _INSIDE),
        *("--remount-ro", "/", "--chdir", "/", "--"),
    ]


def choose_mode(*, trust: bool, container: bool) -> str:
    """Return the mode to use: the sandbox, unless told otherwise.

    Raises:
        UsageError: it does not work here; the message says what to do.
    """
    if trust:
        return "trust"
    if container:
        if os.geteuid() != 0:
            raise UsageError("--container needs root: it runs submissions as another user")
        return "container"
    why = _why_no_sandbox()
    if why is None:
        return "sandbox"
    raise UsageError(
        f"submissions cannot be walled in: {why}. Install bubblewrap (Debian: apt install "
        "bubblewrap). Inside a platform's container use --container; for your own code, --trust"
    )


def _why_no_sandbox() -> str | None:
    if shutil.which("bwrap") is None:
        return "there is no bwrap command"
    with WorkerRoot() as root:
        sandbox = Sandbox("sandbox", root)
        try:
            sandbox.stop(sandbox.start(_PROBE).process)
        except InfrastructureError as error:
            return str(error)
    return None
