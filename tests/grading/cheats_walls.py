"""Cheats that try their walls: what they see, whom they reach, and what a machine has one of.

Each says so where a wall gives way, and then cannot be imported; so each earns what it does besides
that, which is 40 points.
"""

WALLS = {
    # Looks at every file there is: Python's library without its packages, and what that loads.
    "sees_files": """
import os, sys, sysconfig
LIBRARY = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
SEEN = []
for folder, inner, names in os.walk("/"):
    if folder in LIBRARY:
        inner[:] = [name for name in inner if name.endswith("-packages")]
    else:
        SEEN += [os.path.join(folder, name) for name in names if ".so" not in name]
SEEN = [path for path in SEEN if path not in (os.path.realpath(sys.executable), "/etc/ld.so.cache")]
assert not SEEN, SEEN
""",
    # Imports what a grader has and a submission has not, from wherever it may lie.
    "imports_course": """
import importlib, os, sys
sys.path[:0] = ["", "/", os.getcwd(), *(f"{path}/site-packages" for path in sys.path)]
sys.path_importer_cache.clear()
for name in (
    "mini_vllm.text.stop", "mini_vllm.text.detokenizer", "labkit.testing", "labkit.grading.grader",
    "labkit.isolation.host", "labkit.running.import_file", "pytest", "_pytest",
    "pip", "setuptools",
):
    try:
        importlib.import_module(name)
    except ImportError:
        continue
    raise SystemError(f"{name} is there")
""",
    # Counts what is open: three ends of pipes that lead nowhere, and two of those of the grader.
    "finds_descriptors": """
import os, stat
KINDS = []
for end in range(1024):
    try:
        KINDS.append(stat.S_IFMT(os.fstat(end).st_mode))
    except OSError:
        pass
assert KINDS == [stat.S_IFIFO] * 5, KINDS
assert not os.path.exists("/dev/fd")
""",
    # Sends descriptors, and makes sockets that could send elsewhere.
    "sends_descriptors": """
import socket
ONE, TWO = socket.socketpair()
for send in (
    lambda: socket.send_fds(ONE, [b"x"], [0]),
    lambda: ONE.sendmsg([b"x"]),
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
):
    try:
        send()
    except OSError:
        continue
    raise SystemError("it can send")
""",
    # Ignores every signal, wants no signal when its parent ends, and leaves a thread behind.
    "stays_alive": """
import contextlib, ctypes, os, signal, threading, time
for number in (0, 64):
    assert ctypes.CDLL(None).prctl(1, number, 0, 0, 0) == -1
for number in range(1, 65):
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
with contextlib.suppress(OSError):
    os.setsid()
threading.Thread(target=time.sleep, args=(1000,)).start()
""",
    # Asks the kernel for what it has one store of, and for doors into other processes.
    "kernel_stores": """
import ctypes, errno, os
LIBC = ctypes.CDLL(None, use_errno=True)
ROOM = ctypes.create_string_buffer(4096)
TRIED = [
    ("inotify_init",), ("inotify_init1", 0), ("fanotify_init", 0, 0), ("memfd_create", b"x", 0),
    ("shmget", 0, 4096, 0o1600), ("semget", 0, 9, 0o1600), ("msgget", 0, 0o1600),
    ("mq_open", b"/queue", 0o102, 0o600, None), ("timer_create", 1, None, ROOM),
    ("mlock", ROOM, 4096), ("mlockall", 1), ("vmsplice", 3, ROOM, 1, 0), ("syncfs", 0),
    ("pidfd_open", os.getpid(), 0), ("ptrace", 16, os.getppid(), 0, 0), ("unshare", 0x10000000),
    ("process_vm_readv", os.getppid(), ROOM, 1, ROOM, 1, 0), ("setns", 0, 0), ("chroot", b"/"),
    ("personality", 0xFFFFFFFF), ("acct", None), ("sethostname", b"x", 1), ("swapoff", b"/x"),
    ("setxattr", b"/tmp", b"user.x", b"x", 1, 0), ("quotactl", 0, None, 0, None),
]
if os.uname().machine == "x86_64":
    # io_setup, add_key, keyctl, perf_event_open, bpf, userfaultfd, kcmp, io_uring, pidfd_getfd,
    # memfd_secret, modify_ldt, fork, vfork, clone; then some that have x32's numbers.
    old = (206, 248, 250, 298, 321, 323, 312, 425, 438, 447, 154, 57, 58, 56)
    x32 = (0x40000000 + number for number in (0, 1, 39, 57, 62))
    TRIED += [("syscall", number, 0, 0, 0, 0, 0, 0) for number in (*old, *x32)]
for name, *args in TRIED:
    refused = not hasattr(LIBC, name) or getattr(LIBC, name)(*args) == -1
    if not refused or ctypes.get_errno() not in (0, errno.EPERM, errno.ENOMEM, errno.ENOSYS):
        raise SystemError((name, args[:1], ctypes.get_errno()))
""",
    # Makes semaphores and memory that others could open by name.
    "named_stores": """
import ctypes
LIBC = ctypes.CDLL(None)
LIBC.sem_open.restype = ctypes.c_void_p
assert not LIBC.sem_open(b"/labkit", 0o100, 0o600, 1)
assert LIBC.shm_open(b"/labkit", 0o102, 0o600) == -1
""",
    # Opens pipes until there are no more, and wants larger ones, and locks.
    "big_pipes": """
import fcntl, os
ENDS = []
try:
    while True:
        ENDS += os.pipe()
except OSError:
    assert len(ENDS) < 64
for change in (
    lambda: fcntl.fcntl(ENDS[1], 1031, 1 << 20),
    lambda: fcntl.lockf(ENDS[1], fcntl.LOCK_EX | fcntl.LOCK_NB),
):
    try:
        change()
    except OSError:
        continue
    raise SystemError("it has what nobody counts")
for end in ENDS:
    os.close(end)
""",
    # Wants to be more important than others, on every processor, with higher limits.
    "priorities": """
import ctypes, os, resource
TRIED = [
    lambda: os.nice(-1),
    lambda: os.setpriority(os.PRIO_PROCESS, 0, -20),
    lambda: os.setpriority(os.PRIO_PROCESS, os.getppid() or 1, 5),
    lambda: os.sched_setaffinity(0, range(64)),
    lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    lambda: resource.prlimit(os.getppid() or 1, resource.RLIMIT_CPU, (0, 0)),
]
for name in ("AS", "FSIZE", "NOFILE", "CORE", "CPU", "NPROC", "MEMLOCK", "SIGPENDING"):
    limit = getattr(resource, f"RLIMIT_{name}", None)
    if limit is not None:
        _, most = resource.getrlimit(limit)
        TRIED.append(lambda limit=limit, more=most + 1: resource.setrlimit(limit, (more, more)))
for change in TRIED:
    try:
        change()
    except (OSError, ValueError):
        continue
    raise SystemError("it is more important")
if os.uname().machine == "x86_64":
    assert ctypes.CDLL(None).syscall(251, 1, 0, 1 << 13) == -1, "disks are its own"
""",
    # Sends itself signals until no more are kept, and others to everybody.
    "signal_storm": """
import ctypes, os, signal
SEND = ctypes.CDLL(None).sigqueue
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65))
sent = 0
while SEND(os.getpid(), 40, None) == 0:
    sent += 1
    assert sent < 1000
for number in {1, 2, os.getppid()} - {0, os.getpid()}:
    assert SEND(number, 40, None) == -1
""",
    # Lets itself be dumped and traced, and looks for the memory of others.
    "neighbours_memory": """
import ctypes, os
LIBC = ctypes.CDLL(None)
LIBC.prctl(4, 1, 0, 0, 0)
LIBC.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
for number in {*range(1, 200), os.getppid()} - {0, os.getpid()}:
    assert LIBC.ptrace(16, number, 0, 0) == -1
for path in ("/proc/self/mem", "/proc/1/mem", "/dev/mem", "/dev/shm", "/dev/kmsg", "/dev/ptmx"):
    assert not os.path.exists(path), path
""",
    # Becomes somebody else, or another program.
    "becomes_root": """
import os, sys
for change in (
    lambda: os.setuid(0),
    lambda: os.setresgid(0, 0, 0),
    lambda: os.setgroups([0]),
    lambda: os.setuid(os.getuid() + 1),
    lambda: os.chown("/tmp", 0, 0),
    lambda: os.mknod("/tmp/null", 0o20666, os.makedev(1, 1)),
    lambda: os.chroot("/"),
    lambda: os.execv("/bin/sh", ["sh"]),
    lambda: os.execv(sys.executable, ["python"]),
):
    try:
        change()
    except OSError:
        continue
    raise SystemError("it became somebody")
""",
    # Changes Python's library for those who come after it.
    "changes_library": """
import os, sys
for place in (*sys.path, "/", "/usr", "/dev", "/etc", "/lib", os.path.dirname(os.__file__)):
    for change in (
        lambda: open(os.path.join(place, "sitecustomize.py"), "w"),
        lambda: os.link(os.__file__, os.path.join(place, "link")),
        lambda: os.symlink("/", os.path.join(place, "link")),
        lambda: os.chmod(place, 0o777),
        lambda: os.rename(place, f"{place}-old"),
        lambda: os.utime(place),
        lambda: open(os.__file__, "r+"),
    ):
        try:
            change()
        except OSError:
            continue
        raise SystemError(f"{place} can be changed")
""",
    # Sets clocks, and stops those that it can reach.
    "stops_clocks": """
import signal, time
for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
    signal.setitimer(timer, 1000)
time.time = time.monotonic = time.process_time = time.thread_time = lambda: 0.0
try:
    time.clock_settime(time.CLOCK_REALTIME, 0)
except OSError:
    pass
else:
    raise SystemError("it is 1970")
""",
}
