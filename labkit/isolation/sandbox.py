"""How a worker is started, and what it can reach from there.

- `sandbox`: no network, no files but Python's own, own pids, another user. It needs bubblewrap.
- `container`: another user, limits, the pipe; the rest is the platform's container. It needs root.
- `trust`: limits and the pipe only, for one's own code.

But: the limits on memory, CPU, files and processes are set by the worker itself, before it imports
a submission; a process may lower its limits for good.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import UsageError

_HERE = Path(__file__).resolve().parents[2]
# All that a worker imports. Nothing here knows a lab's tests or solution.
_WORKER_FILES = (
    "labkit/__init__.py",
    "labkit/drive.py",
    "labkit/errors.py",
    "labkit/failure.py",
    "labkit/source.py",
    "labkit/trace.py",
    "labkit/isolation/__init__.py",
    "labkit/isolation/modules.py",
    "labkit/isolation/wire.py",
    "labkit/isolation/worker.py",
    "mini_vllm/__init__.py",
    "mini_vllm/text/events.py",
)
# Users that own nothing; each slot has one, because limits count by user.
_FIRST_UID = 61_000
_SCRATCH_BYTES = 16 << 20
_NAMESPACES = ("--unshare-all", "--cap-drop", "ALL")
# Limits do not count for root, and not for root of a user namespace that root has made. So root
# makes all namespaces but that of users; the worker changes its user and then makes that itself.
_NAMESPACES_OF_ROOT = (
    *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
)


class WorkerRoot:
    """A folder with copies of what a worker imports, readable by anyone. Use it with `with`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="labkit-worker-")
        self.path = Path(self._folder.name)
        for name in _WORKER_FILES:
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_HERE / name, target)
        # The text package would import more than its events.
        (self.path / "mini_vllm/text/__init__.py").write_text("")
        for path in [self.path, *self.path.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)

    def __enter__(self) -> "WorkerRoot":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


@dataclass(frozen=True)
class Sandbox:
    """A way to start workers.

    Attributes:
        mode: `sandbox`, `container` or `trust`.
        root: what workers import.
    """

    mode: str
    root: WorkerRoot

    def start(self, slot: int) -> "subprocess.Popen[bytes]":
        """Start a worker; its standard input and output are the pipe.

        Args:
            slot: a number that no other worker has at this time.
        """
        process: subprocess.Popen[bytes] = subprocess.Popen(
            self._command(slot),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        return process

    def stop(self, process: "subprocess.Popen[bytes]", slot: int) -> None:
        """End a worker and whatever it has started."""
        for end in (process.stdin, process.stdout):
            if end is not None:
                end.close()
        process.kill()
        process.wait()
        if self.mode == "container" and os.geteuid() == 0:
            # Without a pid namespace, its children are found by their user.
            user = _FIRST_UID + slot
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", "import os; os.kill(-1, 9)"],
                user=user,
                group=user,
                extra_groups=[],
                check=False,
            )

    def _command(self, slot: int) -> Sequence[str]:
        worker = "labkit/isolation/worker.py"
        python = [os.path.realpath(sys._base_executable), "-I", "-S", "-B"]  # type: ignore[attr-defined]
        user = str(_FIRST_UID + slot) if self.mode != "trust" and os.geteuid() == 0 else ""
        if self.mode != "sandbox":
            root = str(self.root.path)
            return [*python, f"{root}/{worker}", root, user]
        inside = "/grader"
        return [*_walls(self.root.path, inside), *python, f"{inside}/{worker}", inside, user]


def _walls(root: Path, inside: str) -> list[str]:
    bwrap = shutil.which("bwrap")
    assert bwrap is not None
    shown = ["/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache", sys.base_prefix]
    binds = [word for path in dict.fromkeys(shown) for word in ("--ro-bind-try", path, path)]
    return [
        bwrap,
        *(_NAMESPACES_OF_ROOT if os.geteuid() == 0 else _NAMESPACES),
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        *binds,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        # After the mounts above: a file system over /tmp hides what was bound below it.
        "--perms",
        "1777",
        "--size",
        str(_SCRATCH_BYTES),
        "--tmpfs",
        "/tmp",
        "--ro-bind",
        str(root),
        inside,
        "--chdir",
        "/tmp",
        "--setenv",
        "LANG",
        "C.UTF-8",
        "--",
    ]


def choose_mode(*, trust: bool, container: bool) -> str:
    """Return the mode to use: the sandbox, unless told otherwise.

    Raises:
        UsageError: it is not to be had; the message says what to do.
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
        command = [*_walls(root.path, "/grader"), "/bin/true"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip() or "bwrap failed"
