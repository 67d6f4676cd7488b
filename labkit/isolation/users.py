"""Users that own nothing, one for each worker: limits count by user, and signals reach by user.

No reservation is needed that all graders of a machine would have to share. A worker draws a random
number and becomes that user; then the grader checks whether any other process has the same user. If
two workers draw the same number, at least the second sees the first, and neither holds a submission
yet.

But: a grader sees the processes of its own container and of inner containers, not those of
containers beside it. Signals do not reach those either; limits could, if both drew the same number
of 34,464.
"""

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from labkit.errors import InfrastructureError

# Numbers that neither distributions nor systemd nor user namespaces hand out, the larger part
# first: https://systemd.io/UIDS-GIDS
_FREE = (range(65_536, 100_000), range(60_706, 61_184))
_TRIES = 32
_PROC = Path("/proc")
_MOST_READ = 4096


def free_users() -> Iterator[int]:
    """Yield numbers of users that own nothing, in random order.

    Raises:
        InfrastructureError: this container has no such users.
    """
    for numbers in _FREE:
        if _is_mapped(numbers):
            yield from random.SystemRandom().sample(numbers, _TRIES)
            return
    raise InfrastructureError(
        "this container has no spare users: let its /proc/self/uid_map and gid_map have the "
        f"numbers {_FREE[1].start} to {_FREE[1].stop - 1}"
    )


def is_taken(user: int, besides: int) -> bool:
    """Return whether a process other than `besides`, or anything shared, belongs to a user.

    Raises:
        InfrastructureError: the processes cannot be seen.
    """
    word = str(user).encode()
    seen = False
    for name in filter(str.isdigit, os.listdir(_PROC)):
        # A process may end meanwhile.
        with suppress(OSError), open(f"{_PROC}/{name}/status", "rb", buffering=0) as status:
            _, _, rest = status.read(_MOST_READ).partition(b"\nUid:")
            seen = True
            if word in rest.partition(b"\n")[0].split() and int(name) != besides:
                return True
    if not seen:
        raise InfrastructureError(
            f"{_PROC} shows no processes: mount it, or users cannot be checked"
        )
    return _shares(word)


def _shares(word: bytes) -> bool:
    """Return whether shared memory, semaphores or message queues belong to a user."""
    for kind in ("shm", "sem", "msg"):
        with suppress(OSError):
            head, *rows = (_PROC / "sysvipc" / kind).read_bytes().splitlines()
            names = head.split()
            owners = [row.split()[names.index(name)] for row in rows for name in (b"uid", b"cuid")]
            if word in owners:
                return True
    for folder in ("/dev/mqueue", "/dev/shm"):
        with suppress(OSError), os.scandir(folder) as entries:
            if any(entry.stat(follow_symlinks=False).st_uid == int(word) for entry in entries):
                return True
    return False


def _is_mapped(numbers: range) -> bool:
    """Return whether this namespace of users has all these users and groups."""
    for kind in ("uid_map", "gid_map"):
        with suppress(FileNotFoundError):
            rows = (_PROC / "self" / kind).read_text().splitlines()
            mapped = [(int(first), int(count)) for first, _, count in map(str.split, rows)]
            if not any(at <= numbers.start and numbers.stop <= at + size for at, size in mapped):
                return False
    return True
