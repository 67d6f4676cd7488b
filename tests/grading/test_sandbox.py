import errno
import os
import shutil
import site
import socket
import sys
from pathlib import Path

import pytest

from labkit.course.imports import imported_modules
from labkit.course.lab import ROOT, find_labs
from labkit.errors import InfrastructureError, UsageError
from labkit.isolation import syscalls
from labkit.isolation.host import Host, Sources
from labkit.isolation.library import python_library
from labkit.isolation.mode import choose_mode
from labkit.isolation.sandbox import Sandbox, worker_files
from labkit.running.trace import Call

# A submission that runs what it is told.
ANSWERS = b"""
def answer(expression, before):
    scope = {"os": __import__("os")}
    exec(before, scope)
    return eval(expression, scope)
"""
RECORDER = b"from labkit.running.recording import case_recording, reading, replay, runs"


class Inside:
    """A process in which a submission would run: `inside("1 + 1")`."""

    def __init__(self, sandbox):
        self.mode = sandbox.mode
        self.host = Host(sandbox, Sources("m", {"m": ("m.py", "m.py", ANSWERS)}))

    def __call__(self, expression, before=""):
        self.host.begin(5)
        assert self.host.load() is None
        trace = self.host.perform([], [Call("answer", (expression, before))], "")
        assert trace.raised is None, trace.raised
        return trace.outputs[0]


def inside(walled, sandbox_in):
    found = Inside(sandbox_in(walled))
    yield found
    found.host.close()


# One process for all questions that leave it as it was, and one for one test.
ask = pytest.fixture(scope="module", name="ask")(inside)
ask_anew = pytest.fixture(name="ask_anew")(inside)


def test_is_no_user_of_this_machine(ask):
    assert ask("[os.getuid() == 0, os.getgroups()]")[0] is False
    tried = ask("hasattr(os, 'setuid') and tried()", refused("os.setuid(0)"))
    assert tried in ("PermissionError", "OSError")


def test_has_no_environment_but_the_language(ask, monkeypatch):
    monkeypatch.setenv("SECRET", "1")
    known = {"LANG", "PATH", "PWD", "PYTHONHASHSEED", "LC_CTYPE"}
    assert set(ask("sorted(os.environ)")) <= known


def test_sees_no_file_but_pythons(ask):
    walk = """
def walk(folders):
    for folder, inner, names in os.walk("/"):
        inner[:] = [name for name in inner if os.path.join(folder, name) not in folders]
        yield from (os.path.join(folder, name) for name in names)
"""
    library = python_library()
    assert {*ask(f"[*walk({library.folders})]", walk)} <= {*library.files}
    for path in (str(ROOT), "/proc/self", "/etc/passwd"):
        assert ask(f"os.path.exists({path!r})") is False
    # Debian has its packages outside of the library.
    for path in [*library.hidden, *site.getsitepackages([sys.base_prefix])]:
        assert ask(f"os.path.isdir({path!r}) and os.listdir({path!r})") in (False, [])
    assert ask("__import__('unicodedata').name('a')") == "LATIN SMALL LETTER A"
    assert ask("list(__import__('encodings.utf_16').utf_16.encode('a')[0][2:])") == [97, 0]


def test_can_write_to_its_scratch_folder_alone(ask):
    # Whoever it is: where root does not grade, a submission is the user that owns the sandbox.
    writable = "not os.statvfs(folder).f_flag & os.ST_RDONLY and os.access(folder, os.W_OK)"
    if ask.mode == "sandbox":
        writable = "not os.statvfs(folder).f_flag & os.ST_RDONLY"
    assert ask(f"[folder for folder, _, _ in os.walk('/') if {writable}]") in ([], ["/tmp"])


def test_has_no_open_file_but_the_pipe(ask):
    count = "sum(1 for end in range(3, 64) if tried(end) == 'fine')"
    assert ask(count, refused("os.fstat(end)", "end")) == 2


@pytest.mark.parametrize(
    ("call", "may"),
    [
        ("os.fork()", False),
        ("os.execv('/bin/true', ['true'])", False),
        ("__import__('subprocess').run(['/bin/true'])", False),
        ("__import__('socket').socket()", False),
        ("__import__('socket').socket(__import__('socket').AF_UNIX)", False),
        ("__import__('socket').socketpair(type=__import__('socket').SOCK_DGRAM)", False),
        ("os.memfd_create('a')", False),
        ("os.chroot('/')", False),
        # What a machine or a user has once, and memory that limits do not count.
        ("os.sched_setaffinity(0, {0})", False),
        ("os.setxattr(os.__file__, 'user.a', b'')", False),
        ("__import__('fcntl').fcntl(os.pipe()[1], 1031, 1 << 20)", False),
        ("__import__('fcntl').flock(os.pipe()[1], 2)", False),
        ("__import__('fcntl').lockf(open(os.__file__), 1)", False),
        ("__import__('socket').socketpair()[0].sendmsg([b''])", False),
        ("__import__('multiprocessing').Semaphore()", False),
        (
            "__import__('multiprocessing.shared_memory').shared_memory.SharedMemory('a', 1, 1)",
            False,
        ),
        ("__import__('threading').Thread(target=int).start()", True),
        ("__import__('asyncio').run(__import__('asyncio').sleep(0))", True),
        ("__import__('socket').socketpair()", True),
    ],
)
def test_may_or_may_not(ask, call, may):
    refusals = ("PermissionError", "FileNotFoundError", "ImportError")
    # Outside a socket works, or a refusal would say nothing about the walls.
    socket.socket().close()
    assert ask("tried()", refused(call)) in (("fine",) if may else refusals)


# Each with its number on x86_64 and aarch64; unfiltered, none of them fails with EPERM.
@pytest.mark.parametrize(
    ("name", "numbers", "args"),
    [
        # What a machine has one store of.
        ("inotify_init1", (294, 26), "0"),
        ("io_setup", (206, 0), "1, 0"),
        ("io_uring_setup", (425, 425), "1, 0"),
        ("add_key", (248, 217), "b'user', b'a', b'a', 1, -4"),
        ("shmget", (29, 194), "0, 4096, 0o1600"),
        ("semget", (64, 190), "0, 1, 0o1600"),
        ("msgget", (68, 186), "0, 0o1600"),
        ("mq_open", (240, 180), "b'a', 0o102, 0o600, 0"),
        ("timer_create", (222, 107), "0, 0, 0"),
        ("vmsplice", (278, 75), "1, 0, 0, 0"),
        ("syncfs", (306, 267), "1"),
        ("huge pages", (9, 222), "0, 1 << 21, 3, 0x40022, -1, 0"),
        ("the cookie of a socket", (55, 209), "0, 1, 57, 0, 0"),
        # What says or changes which pages of files are in memory.
        ("fadvise64", (221, 223), "FILE, 0, 0, 4"),
        ("readahead", (187, 213), "FILE, 0, 4096"),
        ("preadv2", (327, 286), "FILE, 0, 0, 0, 0, 8"),
        ("pwritev2", (328, 287), "FILE, 0, 0, 0, 0, 8"),
        ("mincore", (27, 232), "0, 4096, 0"),
        ("cachestat", (451, 451), "FILE, 0, 0, 0"),
        ("madvise", (28, 233), "0, 0, 21"),
        ("msync", (26, 227), "0, 0, 4"),
        ("fsync", (74, 82), "FILE"),
        ("sendfile", (40, 71), "FILE, FILE, 0, 0"),
        ("splice", (275, 76), "FILE, 0, FILE, 0, 0, 0"),
        ("getrusage", (98, 165), "0, ctypes.create_string_buffer(999)"),
        ("sysinfo", (99, 179), "ctypes.create_string_buffer(999)"),
        ("ioctl", (16, 29), "FILE, 0x6601, 0"),
        # Marks on files and devices.
        ("utimensat", (280, 88), "0, 0, 0, 0"),
        ("utimensat of what the worker prints to", (280, 88), "1, 0, 0, 0"),
        ("flock", (73, 32), "FILE, 2"),
        ("fcntl", (72, 25), "FILE, 1024, 0"),
        # Other processes, and whose turn it is.
        ("kill", (62, 129), "1 << 22, 0"),
        ("clock_gettime", (228, 113), "-14, 0"),
        ("futex", (202, 98), "ctypes.create_string_buffer(4), 1, 1, 0"),
        ("getpriority", (140, 141), "0, 0"),
        ("sched_getscheduler", (145, 120), "0"),
        ("ioprio_set", (251, 30), "1, 0, 2 << 13"),
        ("process_madvise", (440, 440), "0, 0, 0, 0, 0"),
    ],
)
def test_may_not_call(ask, name, numbers, args):
    number = numbers[[*syscalls.MACHINES].index(os.uname().machine)]
    call = f"(ctypes.CDLL(None, use_errno=True).syscall({number}, {args}), ctypes.get_errno())"
    refusal = errno.ENOSYS if number >= 424 else errno.EPERM
    assert ask(call, "import ctypes; FILE = os.open(os.__file__, 0)") == (-1, refusal)


def test_reading_leaves_no_mark(need, sandbox_in):
    """In a container; a sandbox has nothing but mounts that are read only."""
    read = """
def marked(paths):
    was = [os.stat(path).st_atime_ns for path in paths]
    for path in paths:
        with open(path, "rb") as file:
            file.read()
    return [path for path, at in zip(paths, was) if os.stat(path).st_atime_ns != at]
"""
    walled = Inside(sandbox_in(need("container")))
    walled("None")
    top = os.path.dirname(os.__file__)
    paths = [os.path.join(top, name) for name in sorted(os.listdir(top)) if name.endswith(".py")]
    root = sandbox_in("container")._zygote._root
    for path in paths:
        # Linux notes the first reading after a change, such as another grader's link. These are the
        # container's files, which may be copies: a change of the library's own shows elsewhere.
        os.chmod(f"{root}{path}", os.stat(path).st_mode)
    assert len(paths) > 100
    assert walled(f"marked({paths})", read) == []
    walled.host.close()


def test_limits_hold_for_the_user_that_it_is(ask_anew):
    threads = """
import threading, time
def start():
    threading.stack_size(1 << 16)
    for number in range(1000):
        try:
            threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
        except RuntimeError:
            return number
"""
    assert ask_anew("tried()", refused("bytearray(1 << 30)")) == "MemoryError"
    pending = """
import ctypes, signal
libc = ctypes.CDLL(None)
def pending():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
    return sum(libc.sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0 for _ in range(1000))
"""
    assert ask_anew("pending()", pending) <= 64
    locks = "[libc.mlock(ctypes.create_string_buffer(9), 9), libc.prctl(1, 0, 0, 0, 0)]"
    assert ask_anew(locks, pending) == [-1, -1]
    assert ask_anew("start()", threads) <= 64
    many = refused("[open('/dev/null') for _ in range(99)]")
    assert ask_anew("tried()", many) in ("OSError", "FileNotFoundError")


def test_the_scratch_folder_has_an_end(ask_anew):
    ask = ask_anew
    write = """
def write(size):
    number = 0
    try:
        for number in range(5000):
            with open(f"/tmp/{number}", "wb") as file:
                file.write(bytes(size))
    except OSError:
        return number
"""
    if ask.mode == "container":
        assert ask("write(0)", write) == 0
    else:
        assert 8 <= ask("write(1 << 20)", write) <= 16
        assert 500 <= ask("write(0)", write) <= 1024


def test_sets_have_the_same_order_in_each_process(ask, ask_anew):
    letters = "list({'a', 'b', 'c', 'd', 'e'})"
    assert ask(letters) == ask_anew(letters)


def test_without_bubblewrap_or_root_nothing_is_run(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="needs root"):
        choose_mode(trust=False, container=True)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="apt install bubblewrap"):
        choose_mode(trust=False, container=False)
    assert choose_mode(trust=True, container=False) == "trust"


def test_a_worker_that_does_not_start_is_nobodys_fault(monkeypatch):
    monkeypatch.setattr(sys, "_base_executable", "/bin/false")
    with (
        Sandbox("trust") as sandbox,
        pytest.raises(InfrastructureError, match="cannot be started"),
    ):
        sandbox.start()


def packages_of(file):
    return [f"{folder}/__init__.py" for folder in Path(file).parents[:-1]]


def test_a_worker_imports_its_own_few_files_and_nothing_else_of_ours(ask):
    modules = "[module.__file__ for name, module in __import__('sys').modules.items()"
    ours = ask(f"{modules} if name.split('.')[0] in ('labkit', 'mini_vllm')]")
    all_files, recorder = (
        {f"/grader/{name}" for file in files for name in [file, *packages_of(file)]}
        for files in (worker_files(), imported_modules(RECORDER, ROOT))
    )
    # A worker imports the recorder only when it records.
    assert all_files - recorder <= {*ours} <= all_files
    assert not [name for name in ours if "/recording/" in name]
    names = ask("[*vars(__import__('mini_vllm.text').text)]")
    assert [name for name in names if not name.startswith("__")] == ["events"]


def test_what_labs_give_is_in_a_worker():
    files = [f"{name.replace('.', '/')}.py" for lab in find_labs(ROOT) for name in lab.given]
    assert files
    assert {*files} <= {*worker_files()}


def test_a_submission_may_import_what_its_lab_gives(trusting, monkeypatch):
    lab = trusting.labs[0]
    source = b"from mini_vllm.text.events import ToolCall\n" + lab.solution.read_bytes()
    refused = trusting.grade(source)
    assert refused["score"] == 0
    assert "imports 'mini_vllm.text.events'" in str(refused["tests"])
    monkeypatch.setitem(vars(lab), "given", ("mini_vllm.text.events",))
    assert trusting.grade(source)["score"] == 100


def refused(call, *names):
    return f"""
def tried({", ".join(names)}):
    try:
        {call}
    except BaseException as error:
        return type(error).__name__
    return "fine"
"""
