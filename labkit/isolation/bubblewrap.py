"""The command line of bubblewrap for a sandbox, and advice if bubblewrap does not work."""

import os
import shutil
from pathlib import Path

from labkit.errors import InfrastructureError
from labkit.isolation.library import Library

# The zygote makes namespaces and mounts scratch folders for its workers.
_CAPABILITIES = ("--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN")
_NAMESPACES = ("--unshare-all", *_CAPABILITIES)
# Limits do not hold for root, nor for root of a user namespace that root has made. So root makes
# all namespaces but that of users; a worker changes its user and then makes that namespace itself.
_NAMESPACES_OF_ROOT = (
    *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *_CAPABILITIES,
    *("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_KILL"),
)
# By setting of the kernel, the value that keeps users from making namespaces, and another.
_SETTINGS = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "15000"),
    "user.max_mnt_namespaces": ("0", "15000"),
    "user.max_pid_namespaces": ("0", "15000"),
    "user.max_ipc_namespaces": ("0", "15000"),
    "user.max_net_namespaces": ("0", "15000"),
    "user.max_uts_namespaces": ("0", "15000"),
}
_MISSING = "there is no bwrap command"
_SYSTEM = Path("/")
_MARKS_OF_CONTAINER = (".dockerenv", "run/.containerenv")


def walls(library: Library) -> list[str]:
    """Return the words to put before a command, so that it sees only Python's library.

    Raises:
        InfrastructureError: bubblewrap is missing.
    """
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise InfrastructureError(_MISSING)
    shown = [*library.folders, *library.files]
    # If these are closed to other users outside, like /root, bubblewrap would close them as well.
    above = {str(folder) for path in shown for folder in Path(path).parents} - {"/"}
    return [
        bwrap,
        *(_NAMESPACES_OF_ROOT if os.geteuid() == 0 else _NAMESPACES),
        # All processes end with the first process.
        *("--as-pid-1", "--new-session"),
        *(word for path in sorted(above) for word in ("--perms", "0755", "--dir", path)),
        *(word for path in shown for word in ("--ro-bind", path, path)),
        *(word for path in library.hidden for word in ("--tmpfs", path, "--remount-ro", path)),
        # No /proc, no devices, no shared memory: no lab needs them, and they are the host's.
        *("--dir", "/tmp", "--remount-ro", "/", "--chdir", "/", "--"),
    ]


def what_to_do(why: str) -> str:
    """Return why submissions cannot be walled in, and how to fix that.

    Args:
        why: the error at the start of a worker.
    """
    here = "Inside a platform's container use --container; for your own code, --trust"
    if shutil.which("bwrap") is None:
        return f"{_MISSING}. Install bubblewrap (Debian: apt install bubblewrap). {here}"
    inside = any((_SYSTEM / mark).exists() for mark in _MARKS_OF_CONTAINER)
    for name, (denies, allows) in _SETTINGS.items():
        # Root needs no namespace of users, and AppArmor restricts only other users.
        if (os.geteuid() or "max" in name) and _setting(name) == denies:
            where = " on the machine that runs this container" if inside else ""
            return (
                f"this system does not let bubblewrap make namespaces, because {name} is {denies} "
                f"({why}). Allow them{where}: sudo sysctl -w {name}={allows}. {here}"
            )
    if inside:
        return (
            f"this container does not let bubblewrap make namespaces ({why}). Use --container as "
            "root, or start the container with: docker run --cap-add SYS_ADMIN --security-opt "
            "seccomp=unconfined --security-opt apparmor=unconfined. For your own code, use --trust"
        )
    return f"{why}. {here}"


def _setting(name: str) -> str | None:
    try:
        return (_SYSTEM / "proc/sys" / name.replace(".", "/")).read_text().strip()
    except OSError:
        return None
