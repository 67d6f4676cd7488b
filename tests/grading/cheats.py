"""What the hostile hand in: programs by what their honest work earns, and by name.

Many have a file for their kind: `cheats_answers`, `cheats_runs`, `cheats_walls`, `cheats_channels`.
A program without a class of its own gets one that calls its `feed`, or is lazy.
"""

from cheats_answers import BROKEN, READ, SLOW
from cheats_channels import CHANNELS
from cheats_runs import AHEAD, STATELESS
from cheats_walls import WALLS


def feed(line, module):
    return f"import {module}\ndef feed(self, text):\n    {line}\n"


# Writes to everything that is open. Whoever hears it may end the process, so the statement that it
# is called in has to be the last.
SAY = """
import contextlib, os
def say(data):
    for end in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(end, data)
"""
# Does the work, but for its end.
HONEST = """
class Pairs:
    def __init__(self):
        self.held = ""
    def feed(self, text):
        text = self.held + text
        even = len(text) // 2 * 2
        self.held = text[even:]
        return text[:even]"""
_LAZY = """
class Pairs:
    held = "c" if "feed" in globals() else ""
    feed = globals().get("feed", lambda self, text: text)
    def flush(self):
        return self.feed("")
"""


def handed_in(text):
    """Return the submission of a cheat."""
    return (text if "class Pairs" in text else text + _LAZY).encode()


CHEATS = {
    0: {
        **BROKEN,
        **SLOW,
        # Crashes the interpreter.
        "crashes": feed("ctypes.string_at(0)", "ctypes"),
        # Leaves by SystemExit, as though all were well.
        "exit_by_exception": feed("sys.exit(0)", "sys"),
        # Ends the process with success at the first call.
        "exit_in_call": feed("os._exit(0)", "os"),
        # Ends itself by the signal that a grader would use.
        "kills_itself": feed("os.kill(os.getpid(), 9)", "os"),
        # Skips tests from inside.
        "skipped": feed('raise unittest.SkipTest("not today")', "unittest"),
        # Sleeps at each call.
        "sleeps": feed("time.sleep(1000)", "time"),
        # Closes everything that is open.
        "closes_pipe": """
import os, time
def feed(self, text):
    [os.closerange(0, 1000), time.sleep(1000)]
""",
        # Returns a value that is nested very deep.
        "deep_answer": """
import sys
sys.setrecursionlimit(100_000)
def feed(self, text):
    value = []
    for _ in range(50_000):
        value = [value]
    return value
""",
        # Takes memory until there is no more.
        "eats_memory": """
HOARD = []
def feed(self, text):
    while True:
        HOARD.append(bytearray(1 << 26))
""",
        # Ends the process with success while it is imported.
        "exit_at_import": """
import os
os._exit(0)
""",
        # Raises an error that is named like those of labkit and lies about what it says.
        "fake_failure": """
class NotRunError(Exception):
    kind, __hash__ = "passed", None
    __str__ = lambda self: type("Text", (str,), {"__eq__": lambda self, other: True})("passed")
def feed(self, text):
    raise NotRunError
""",
        # Writes to everything that is open, without end.
        "floods_pipe": r"""
import contextlib, os
def feed(self, text):
    while True:
        for end in range(3, 20):
            with contextlib.suppress(OSError):
                os.write(end, b"\xff" * (1 << 16))
""",
        # Says that it cannot be imported, and not why; what it hands in next, nobody asked.
        "empty_reason": SAY
        + r"""
BOTH = b"\x00\x00\x00\x0b\x00[1,null,\x22\x22]", b"\x00\x00\x00\x06\x00[2,\x22\x22]"
[*map(say, BOTH), os._exit(0)]
""",
        # Returns numbers that Python does not write down, in places where they are shown.
        "huge_number": """
def feed(self, text):
    return [10**5_000, {"a" * 9_000: -(10**5_000)}]
""",
        # Holds a text by another name at each call, and returns one that no line can be broken in.
        "wide_trace": """
class Pairs:
    def feed(self, text):
        self.held = {f"{id(object())}{number}-" * 99: "\\n" * 99 for number in range(256)}
        return "-" * 100_000
    flush = lambda self: self.feed("")
""",
        # Returns more than anyone wants to read.
        "huge_answer": """
HUGE = ["x" * (1 << 24)]
def feed(self, text):
    return HUGE.pop() if HUGE else ""
""",
        # Writes an answer of its own making to the pipe: nothing raised, all as due.
        "own_answer": SAY
        + r"""
import json
def frame(number, results):
    data = json.dumps([number, None, [results, results, None, []]]).encode()
    return len(data).to_bytes(4, "big") + b"\0" + data
def feed(self, text):
    all_results = ["ab", "cd"], [""], ["", "é"]
    frames = [frame(number, results) for number in range(1, 50) for results in all_results]
    [*map(say, frames), os._exit(0)]
""",
        # Replaces what comparisons are made of.
        "patched_builtins": """
import builtins
builtins.len = lambda value: 1000
builtins.isinstance = lambda value, kind: True
builtins.all = builtins.any = lambda values: True
builtins.AssertionError = type("Never", (Exception,), {})
""",
        # Patches the part of labkit that lives with it, so that any answer is sent.
        "patched_labkit": """
import sys
wire = sys.modules["labkit.running.remote.wire"]
drive = sys.modules["labkit.running.drive"]
REPLACED = drive._plain, wire._out, wire._encode
drive._plain = lambda value: value
wire._out = lambda value: {"dict": [[{"text": "score"}, 100]]}
wire._encode = lambda value: "[1, null, [[], [], null, []]]"
""",
        # Computes for ever at each call, whatever signal comes.
        "spins": """
import resource, signal
for number in range(1, 32):
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_IGN)
_, hard = resource.getrlimit(resource.RLIMIT_CPU)
resource.setrlimit(resource.RLIMIT_CPU, (hard, hard))
def feed(self, text):
    while True:
        pass
""",
        # Leaves a thread behind that speaks while others should.
        "thread_outlives": SAY
        + r"""
import threading, time
def speak():
    while True:
        time.sleep(0.001)
        say(b"\x00\x00\x00\x02\x00[]")
[threading.Thread(target=speak, daemon=True).start(), time.sleep(0.1)]
""",
        # Climbs to the loop that holds it, and answers in its place.
        "walks_frames": """
import sys
def feed(self, text):
    frame = sys._getframe()
    while frame:
        for name in ("write", "told"):
            if name in frame.f_locals and "number" in frame.f_locals:
                frame.f_locals["write"](frame.f_locals["number"], None, ["100"], ["100"], None, [])
        frame = frame.f_back
    return text
""",
        # Returns an object that equals everything, has any length and any type.
        "equal_object": """
class Anything:
    __class__ = str
    __eq__ = __instancecheck__ = lambda self, other: True
    __hash__ = lambda self: 0
    __len__ = lambda self: 1000
def feed(self, text):
    return Anything()
""",
        # Returns a str that equals everything.
        "equal_text": """
class Equal(str):
    __hash__ = str.__hash__
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
def feed(self, text):
    return Equal("")
""",
        # Returns a list that lies about its length and its items.
        "lying_list": """
class Lying(list):
    __len__ = lambda self: 1000
    __iter__ = lambda self: iter(["ab", "cd"])
def feed(self, text):
    return Lying()
""",
        # Finds the run among all objects, and rewrites it.
        "changes_calls": """
import gc
LEFT = [20]
def feed(self, text):
    LEFT[0] -= 1
    for thing in gc.get_objects() if LEFT[0] > 0 else ():
        if type(thing).__name__ == "Trace":
            thing.steps.clear()
            thing.raised = None
    return text
""",
        # Tells the tests apart by what they feed, and gives the answers that it saw once.
        "remembers_tests": """
SEEN = {"abc": "ab", "d": "cd", "": ""}
def feed(self, text):
    return SEEN[text]
""",
    },
    30: AHEAD,
    40: {
        **READ,
        **STATELESS,
        **WALLS,
        **CHANNELS,
        # Fills every folder that it may write to, with bytes and with empty files.
        "eats_disk": """
import os
WRITTEN = 0
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/", ".", "/grader"):
    try:
        for number in range(1_000_000):
            with open(os.path.join(folder, f"{number}"), "wb") as file:
                WRITTEN += 1
                file.write(bytes(1 << 20 if number < 100 else 0))
    except OSError:
        pass
assert WRITTEN < 2_000, WRITTEN
""",
        # Prints without end.
        "floods_output": r"""
import os, sys
for _ in range(200):
    sys.stdout.write("score: 100\n" * 100_000)
    os.write(2, b"!" * 1_000_000)
""",
        # Splits in two: one answers wrong, the other stays behind and keeps forking.
        "forks": """
import os
try:
    while True:
        os.fork()
except OSError:
    pass
""",
        # Links results and sources to files that it would like changed.
        "linked_results": """
import contextlib, os
for name in ("results.json", "starter.py", "/tmp/results.json"):
    for target in ("/etc/passwd", "/autograder/results/results.json", "../solution.py"):
        with contextlib.suppress(OSError):
            os.symlink(target, name)
        with contextlib.suppress(OSError):
            print("100", file=open(name, "w"))
""",
        # Makes namespaces of its own, where it would be root, and mounts what has no limit.
        "mounts": """
import ctypes
LIBC = ctypes.CDLL(None)
for flags in (0x10000000, 0x20000, 0x10020000):
    assert LIBC.unshare(flags) == -1
assert LIBC.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, b"size=8g") == -1
assert LIBC.setuid(0) == -1
assert LIBC.memfd_create(b"room", 0) == -1
""",
        # Asks somebody else.
        "network": r"""
import socket
for family, address in [
    (socket.AF_INET, ("127.0.0.1", 80)),
    (socket.AF_INET, ("192.0.2.1", 53)),
    (socket.AF_UNIX, "\0labkit-slot-0"),
]:
    try:
        socket.socket(family).connect(address)
    except PermissionError:
        continue
    raise SystemError("there is a network")
""",
        # Replaces the parts of the library that answers and texts are made with.
        "patched_library": """
import codecs, json, unicodedata
json.dumps = json.JSONEncoder.encode = lambda *args, **kwargs: '{"score": 100}'
codecs.decode = codecs.encode = lambda *args, **kwargs: ""
unicodedata.name = unicodedata.normalize = lambda *args: "x"
""",
        # Puts a pytest in place that passes everything.
        "patched_pytest": """
import sys
from types import ModuleType
pytest = ModuleType("pytest")
pytest.main = lambda *args, **kwargs: 0
pytest.fail = pytest.skip = lambda *args, **kwargs: None
sys.modules["pytest"] = sys.modules["_pytest"] = pytest
""",
        # Looks for secrets and paths in its environment.
        "reads_environment": """
import os, sys
assert not {
    name for name in os.environ if name not in ("PATH", "LANG", "LC_CTYPE", "PWD", "PYTHONHASHSEED")
}, os.environ
assert not any(word.endswith(("solution.py", "test_lab.py")) for word in sys.argv), sys.argv
""",
        # Looks for the tests in other processes, and ends if it finds them.
        "reads_processes": """
import contextlib, os
FOUND = []
for name in os.listdir("/proc") if os.path.exists("/proc") else ["self"]:
    for file in ("cmdline", "environ", "maps"):
        with contextlib.suppress(OSError):
            FOUND.append(open(f"/proc/{name}/{file}", "rb").read())
assert not any(b"labs" in found or b"pytest" in found for found in FOUND), FOUND
""",
        # Looks for the solution in the file system, and becomes it.
        "reads_solution": """
import os, sys
for folder, inner, names in os.walk("/"):
    if folder in ("/proc", "/sys", "/usr", "/lib", sys.base_prefix):
        inner.clear()
    [exec(open(os.path.join(folder, name)).read()) for name in names if name == "solution.py"]
class Pairs(globals().get("Pairs", object)):
    if "Pairs" not in globals():
        held = ""
        def feed(self, text):
            return text
        def flush(self):
            return ""
""",
        # Starts a shell that does the rest.
        "runs_programs": """
import contextlib, subprocess
with contextlib.suppress(OSError):
    subprocess.Popen(["/bin/sh", "-c", "sleep 1000 & sleep 1000"])
""",
        # Ends its parent, and everyone else that it can see.
        "signals": """
import contextlib, os, signal
for number in (os.getppid(), -1, *range(2, 5000)):
    if number != os.getpid():
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)
""",
        # Ends everyone else whom it can reach, again at each call.
        "signals_always": """
import contextlib, os
def feed(self, text):
    with contextlib.suppress(OSError):
        os.kill(-1, 9)
    return text
""",
        # Starts threads until there are no more.
        "thread_bomb": """
import threading, time
threading.stack_size(1 << 16)
try:
    for _ in range(100_000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
except (RuntimeError, MemoryError):
    pass
""",
        # Writes a full score into every results file at exit.
        "written_at_exit": """
import atexit, contextlib, json
def write():
    for name in ("results.json", "/tmp/results.json", "/autograder/results/results.json"):
        with contextlib.suppress(OSError), open(name, "w") as file:
            json.dump({"score": 100, "tests": []}, file)
atexit.register(write)
write()
""",
    },
    45: {
        # Does half of the work, and ends the process before the other half shows.
        "honest_then_exits": HONEST
        + """
    def flush(self):
        __import__("os")._exit(0)
""",
    },
    100: {
        # Does all of the work, and patches all that it can reach.
        "honest_and_hostile": """
import builtins, json, sys
builtins.AssertionError = Exception
json.loads = lambda text: {}
sys.modules["labkit.running.score"] = sys.modules["pytest"] = None
"""
        + HONEST
        + """
    def flush(self):
        rest, self.held = self.held, ""
        return rest
""",
    },
}
