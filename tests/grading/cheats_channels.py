"""Cheats that try to leave a mark for the worker after them, or to read one of the worker before.

Like those of `cheats_walls`, each cannot be imported where a wall gives way, and earns 40 points.
"""

CHANNELS = {
    # Asks which pages of a file the machine has in memory, and has it fetch and drop some: a later
    # worker would see that.
    "page_cache": """
import ctypes, mmap, os, resource
LIBC = ctypes.CDLL(None)
FILE = os.open(os.__file__, os.O_RDONLY)
PAGES = mmap.mmap(FILE, 4096, access=mmap.ACCESS_READ)
ROOM = ctypes.create_string_buffer(4096)
for change in (
    *(lambda advice=advice: os.posix_fadvise(FILE, 0, 0, advice) for advice in range(6)),
    lambda: os.preadv(FILE, [bytearray(9)], 0, os.RWF_NOWAIT),
    *(lambda advice=advice: PAGES.madvise(advice) for advice in (3, 12, 20, 21, 22)),
    lambda: os.sendfile(FILE, FILE, 0, 9),
    lambda: os.fsync(FILE),
    lambda: resource.getrusage(resource.RUSAGE_SELF).ru_majflt,
    lambda: LIBC.readahead(FILE, 0, 4096) and os.stat(""),
    lambda: LIBC.mincore(ROOM, 1, ROOM) and os.stat(""),
    lambda: LIBC.sync_file_range(FILE, 0, 0, 0) and os.stat(""),
    lambda: LIBC.syscall(451, FILE, ROOM, ROOM, 0) and os.stat(""),
):
    try:
        change()
    except OSError:
        continue
    raise SystemError("it can see or change what is in memory")
""",
    # Sets the times of devices and of what is open, which others see.
    "device_times": """
import os
for path in (0, 1, 2, *(f"/dev/{name}" for name in ("null", "zero", "random", "urandom", "tty"))):
    for times in (None, (1, 1)):
        try:
            os.utime(path, times)
        except OSError:
            continue
        raise SystemError(f"it set the times of {path}")
""",
    # Locks Python's library and what is open, and asks to hear of what others do with it.
    "file_locks": """
import fcntl, os
FILE = os.open(os.__file__, os.O_RDONLY)
for end in (FILE, 0, 1):
    for change in (
        lambda: fcntl.flock(end, fcntl.LOCK_SH | fcntl.LOCK_NB),
        lambda: fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB),
        lambda: fcntl.lockf(end, fcntl.LOCK_SH | fcntl.LOCK_NB),
        lambda: fcntl.fcntl(end, fcntl.F_OFD_SETLK, bytes(32)),
        lambda: fcntl.fcntl(end, fcntl.F_SETLEASE, fcntl.F_RDLCK),
        lambda: fcntl.fcntl(end, fcntl.F_NOTIFY, fcntl.DN_ACCESS),
    ):
        try:
            change()
        except OSError:
            continue
        raise SystemError("it has a lock")
""",
    # Reads files, and looks whether that shows.
    "read_marks": """
import os, time
TOP = os.path.dirname(os.__file__)
marked = 0
for name in sorted(os.listdir(TOP)):
    # Debian's sitecustomize.py leads to a file that is not here.
    if name.endswith(".py") and os.path.exists(f"{TOP}/{name}"):
        before = os.stat(f"{TOP}/{name}").st_atime_ns
        open(f"{TOP}/{name}", "rb").read()
        # A time to come is from a container that is made meanwhile.
        marked += before != os.stat(f"{TOP}/{name}").st_atime_ns <= time.time_ns()
# Others on this machine read some as well.
assert marked < 9, marked
""",
    # Asks how busy the machine and its processes are, and which there are.
    "busy_others": """
import ctypes, os, time
LIBC = ctypes.CDLL(None)
ROOM = ctypes.create_string_buffer(4096)
OTHER = os.getppid() or 1
for change in (
    lambda: os.getloadavg(),
    lambda: LIBC.sysinfo(ROOM) and os.stat(""),
    lambda: os.kill(OTHER, 0),
    lambda: os.getpriority(os.PRIO_PROCESS, OTHER),
    lambda: os.getpgid(OTHER),
    lambda: os.sched_getaffinity(OTHER),
    lambda: os.sched_getparam(OTHER),
    lambda: time.clock_gettime(~OTHER << 3 | 2),
):
    try:
        change()
    except (OSError, ValueError):
        continue
    raise SystemError("it can see others")
""",
}
