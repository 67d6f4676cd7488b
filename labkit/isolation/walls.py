"""The rights that a worker gives up for good before it receives a submission.

The process that starts the worker takes away files and namespaces; see `labkit.isolation.sandbox`.
"""

import ctypes
import errno
import os
import resource
import sys

from labkit.isolation.syscalls import refuse_calls

# Address space, size of a file, open files, no core dumps. The CPU time ends a worker whose grader
# is gone; tests have limits of their own.
LIMITS = {
    "RLIMIT_AS": 1 << 30,
    "RLIMIT_FSIZE": 16 << 20,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_CORE": 0,
    "RLIMIT_CPU": 600,
}
# The kernel counts these by user, so the user must run nothing else. Threads count as processes,
# and timers as pending signals.
LIMITS_OF_USER = {
    "RLIMIT_NPROC": 64,
    "RLIMIT_SIGPENDING": 64,
    "RLIMIT_MEMLOCK": 0,
    "RLIMIT_MSGQUEUE": 0,
    "RLIMIT_RTPRIO": 0,
}
# The number of files is limited as well, or empty files could fill the memory.
_SCRATCH = b"size=16m,nr_inodes=1k,mode=1777"
_NOSUID_NODEV = 2 | 4
_PRIVATE_ALL_BELOW = 1 << 18 | 1 << 14
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID = 0x20000, 1 << 27, 1 << 28, 1 << 29
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_CAPABILITIES_3 = 0x20080522


def enter_namespaces() -> None:
    """Give the next process that this one forks its own mounts, processes, and shared memory.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID), "unshare")
    _check(libc.mount(None, b"/", None, _PRIVATE_ALL_BELOW, None), "/")


def see_no_more(mode: str, root: str) -> None:
    """Remove the files that a submission may not see, in this process's own namespaces.

    Args:
        mode, root: as `give_up` takes them.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if mode == "sandbox":
        _check(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", _NOSUID_NODEV, _SCRATCH), "/tmp")
        os.chdir("/tmp")
    if mode == "container":
        os.chroot(root)
        os.chdir("/")


def become(user: int) -> None:
    """Become another user, with no way back.

    Raises:
        OSError: the kernel refuses.
    """
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def give_up(mode: str, root: str, user: int, keeper: int) -> None:
    """Set all walls that a process can set for itself.

    Args:
        mode: `sandbox`, `container` or `trust`.
        root: in a container, the folder that becomes the whole file system.
        user: the number of the user to become; -1 to stay the same user.
        keeper: the parent, with which this process ends.

    Raises:
        OSError: a wall cannot be set.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    see_no_more(mode, root)
    if user >= 0:
        become(user)
    if mode != "trust":
        # If the kernel allows it, become the only user of a new namespace.
        libc.unshare(_CLONE_NEWUSER)
    _limit(LIMITS if mode == "trust" else {**LIMITS, **LIMITS_OF_USER})
    # A change of user would have unset this, and the keeper may have ended before it was set.
    _check(libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "PR_SET_PDEATHSIG")
    if os.getppid() != keeper:
        raise OSError(errno.ESRCH, "the grader is gone")
    if mode == "trust":
        return
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)()
    _check(libc.capset(header, none), "capset")
    refuse_calls()


def _limit(limits: dict[str, int]) -> None:
    for name, most in limits.items():
        limit = getattr(resource, name)
        _, hard = resource.getrlimit(limit)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
