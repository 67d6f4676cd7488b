"""The recorder on programs with odd values: it shows them, runs none of their code, and ends."""

import inspect
import io
import multiprocessing
import os
import random
import re
import sys
import threading
from collections import deque
from enum import Enum, Flag
from http import HTTPMethod, HTTPStatus
from itertools import chain
from types import SimpleNamespace

import pytest
from odd_values import HEAD, ODD
from rich.cells import cell_len
from rich.console import Console

from labkit.running import platform
from labkit.running.recording.apart import _send
from labkit.running.recording.case_recording import Facts, facts_of, record
from labkit.running.recording.recorder import MOST_STEPS, Recorder
from labkit.running.recording.replay import Case, replay
from labkit.running.recording.runs import CaseRun, shortened
from labkit.running.recording.values import MOST_CHARACTERS, text_of_value
from labkit.running.result_kind import ResultKind
from labkit.running.score import Result
from labkit.running.source import load_source
from labkit.running.trace import Call, Failure, New, Step, Trace, Unreadable
from labkit.student.stepping import print_around, screen_of, view
from labkit.testing import expect, joined
from mini_vllm.text.events import CallEnd, Malformed, TextDelta


def recorded(body):
    """Return the replay of a function `run` with that body, and its module's namespace."""
    source = f"{HEAD}    x = None\n    {body}\n    x = None\n    return len(RAN)\n"
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    case = Case(
        lambda: vars(module).__getitem__, ["odd.py"], [CaseRun((), (Call("run", (1,)),), "")]
    )
    return replay(case, None), module


@pytest.mark.parametrize("kind", ODD)
def test_shows_odd_values(kind):
    """Each odd value is shown within its limit, and none of its own code runs."""
    replayed, module = recorded(ODD[kind])
    assert replayed.ended
    assert replayed.trace.raised is None
    assert replayed.trace.outputs == [0], module.RAN
    texts = [text for step in replayed.recorder.steps for _, text in step.changes.values()]
    assert texts
    assert all(len(text) < MOST_CHARACTERS + 40 for text in texts)


def test_two_threads_leave_the_limit_of_recursion_as_it_was(monkeypatch):
    """The step of the other thread begins first, and ends within that of this thread."""
    began, both = threading.Event(), threading.Event()

    def keep(self, *step):
        others = [thread for thread in threading.enumerate() if thread.name == "other"]
        if threading.current_thread() in others:
            began.set()
            both.wait(100)
        elif others:
            began.wait(100)
            both.set()
            others[0].join(100)

    monkeypatch.setattr(Recorder, "_keep", keep)
    limit = sys.getrecursionlimit()
    recorded("import threading; threading.Thread(target=lambda: 1, name='other').start(); x = 1")
    assert both.is_set()
    assert sys.getrecursionlimit() == limit


def test_records_random_programs():
    """Programs made of odd values in any order end as they do without a recorder."""
    draw = random.Random(0)
    for _ in range(2_000 if os.environ.get("SOAK") else 15):
        body = "\n    ".join(draw.choices([*ODD.values()], k=draw.randint(2, 6)))
        replayed, _ = recorded(body)
        assert replayed.ended, body
        assert replayed.trace.raised is None, body
        assert 0 < len(replayed.recorder.steps) <= MOST_STEPS, body
        # Recursion up to Python's limit ends a recording.
        assert "endless" in body or replayed.recorder.steps[-1].value == "0", body


def test_keeps_the_last_steps():
    """A program with more steps than a recording keeps its last steps; its counts are whole."""
    replayed, _ = recorded("for n in range(21_000): x = n")
    steps = replayed.recorder.steps
    assert MOST_STEPS - 2 <= len(steps) <= MOST_STEPS
    assert steps[-1].value == "0"
    assert max(replayed.counter.lines.values()) > 21_000


def test_the_calls_before_the_last_steps_run_without_the_recorder():
    """They are as fast as in the test. What began in them goes on in the steps."""
    source = """
import sys
TRACED = []
def numbers():
    n = 0
    while True:
        n += 1
        yield n
NUMBERS = numbers()
def run(n):
    TRACED.append(sys.gettrace() is not None)
    for _ in range(10):
        pass
    return next(NUMBERS)
"""
    modules = []

    def code():
        module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
        modules.append(module)
        return vars(module).__getitem__

    calls = tuple(Call("run", (n,)) for n in range(2_000))
    replayed = replay(Case(code, ["odd.py"], [CaseRun((), calls, "")]), None)
    steps = replayed.recorder.steps
    first, second = (module.TRACED for module in modules)
    assert all(first)
    assert second == [False] * steps[0].call + [True] * (2_000 - steps[0].call)
    assert len(steps) == MOST_STEPS < replayed.counter.total
    assert (steps[-1].value, steps[-1].call) == ("2000", 1_999)
    assert next(step for step in steps if step.function == "numbers").values["n"] > "1"


def test_values_are_copies():
    """A value that changes later keeps its text in earlier steps."""
    replayed, _ = recorded("x = [1]\n    x.append(2)\n    x.clear()")
    changes = [step.changes["x"] for step in replayed.recorder.steps if "x" in step.changes]
    assert changes[1:4] == [("None", "[1]"), ("[1]", "[1, 2]"), ("[1, 2]", "[]")]


@pytest.mark.parametrize(
    ("body", "printed", "raised"),
    [
        ("print('hello')", "hello\n", None),
        ("import sys; sys.stdout.buffer.write('hé'.encode()); print(1)", "hé1\n", None),
        (r"print('\ud800')", "", "UnicodeEncodeError"),
        ("import sys; sys.stderr.write(b'a')", "", "TypeError"),
        ("import sys; print(sys.stdout.isatty(), sys.stdout.encoding)", "False utf-8\n", None),
    ],
)
def test_output_is_part_of_its_step(body, printed, raised, capsys):
    """The output of the code is in the step of its line, and not on the terminal. It fails for the
    text for which that of a test fails.
    """
    replayed, _ = recorded(body)
    assert "".join(step.printed for step in replayed.recorder.steps) == printed
    assert (replayed.trace.raised and replayed.trace.raised.kind) == raised
    assert capsys.readouterr().out == ""


def test_start_end_and_size_are_shown():
    """Of a long value, the middle is left out: it often grows at its end."""
    text = text_of_value("a" * 500 + "b" * 500)
    assert text.startswith("'aaa")
    assert text.endswith("bbb' (1,000 characters)")
    numbers = text_of_value([*range(30)])
    assert numbers.startswith("[0, 1, ")
    assert " 11, … 6 more, 18, " in numbers
    assert numbers.endswith(", 28, 29]")
    assert text_of_value(deque(range(100))).endswith(", 98, 99])")
    assert text_of_value({n: n for n in range(100)}).endswith("99: 99} (100 items)")
    assert text_of_value(SimpleNamespace(a=1)) == "SimpleNamespace(…)"


@pytest.mark.parametrize(
    ("member", "text"),
    [
        (re.NOFLAG.__class__(0), "RegexFlag.NOFLAG"),
        (HTTPStatus.OK, "HTTPStatus.OK"),
        ([HTTPMethod.GET], "[HTTPMethod.GET]"),
        (Enum("Mode", "START TEXT").TEXT, "Mode.TEXT"),
        (Flag("Mark", "OPEN CLOSE")(0), "Mark(_value_=0, _name_=None)"),
    ],
)
def test_a_member_of_an_enumeration_is_shown_by_its_name(member, text):
    """Its attributes are those of the library."""
    assert text_of_value(member) == text


OPENINGS = """
class Thing:
    def __init__(self):
        self.state = "open"
        self.items = []
    @property
    def reason(self):
        return self.state
    def end(self):
        self.state = "late"
        return None
    def feed(self, text):
        self.items.append(text)
        return self.inner(text)
    def inner(self, text):
        out = text * 2
        return out
    def sort(self, items):
        tidy(items)
    def collect(self, text):
        out = []
        for part in text:
            self.add(out, part)
        return out
    def add(self, out, part):
        if part != "b":
            out.append(part)
    def join(self, text):
        out = []
        out += self.rest(text)
        return out
    def rest(self, text):
        last = [text] + []
        return last
    def gather(self, text):
        out = []
        for part in text:
            self.add(out, part)
        out += self.rest("d")
        out += self.ends()
        return out
    def ends(self):
        return ["e", "f"]
    def doubles(self, text):
        out = []
        for part in text:
            out.append(self.double(part))
        return out
    def double(self, part):
        whole = part * 2
        return whole
    def frames(self, text):
        out = []
        for part in text:
            out += self.end_line(part)
        return out
    def end_line(self, part):
        values = [part]
        event = "".join(values)
        return [event]
    def number(self, n):
        out = []
        out.append(n)
        self.rest(n // 10)
        return out
def tidy(items):
    items.sort()
class Key:
    def __init__(self, text):
        self.text = text
    def __lt__(self, other):
        return self.text < other.text
from functools import partial
Thing.order = staticmethod(partial(sorted, key=Key))
class Short:
    def __init__(self):
        self.text = ""
        self.parts = self.split(); next(self.parts)
    def twice(self, text): return text and self.feed(text) if text else ""
    def feed(self, text):
        with self:
            self.text += text
            with self:
                return self.add(
                    text
                )
    def add(self, text):
        try:
            if text:
                return text * 2
        finally:
            self.text = ""
            self.last = text
    def __enter__(self): return self
    def __exit__(self, *_):
        return True
    def lost(self, text):
        with self:
            return text + 1
    def send(self, text):
        return self.parts.send(text)
    def near(self, text):
        last = self.add(text)
        return text and last or self.add(text)
    def split(self):
        out = ""
        while True:
            text = yield out
            out = text + text
    async def stream(self):
        for part in "ab":
            yield part + part
        await asyncio.sleep(0)
exec(compile('''import asyncio
async def collect(parts):
    return [part async for part in parts]
def read(self):
    return asyncio.run(collect(self.stream()))''', "other.py", "exec"))
Short.read = read
Thing.given = eval("lambda self, text: [self.end() or text]")
from mini_vllm.text.events import TextDelta
class State:
    pass
def take(self, text):
    state = State()
    state.out = []
    put(state, text)
    out, state.out = state.out, []
    return out
def put(state, text):
    for part in text:
        state.out.append(TextDelta(part))
Thing.take = take
"""


@pytest.mark.parametrize(
    ("calls", "last", "line", "why"),
    [
        ([("end",), ("feed", "a"), ("reason", None)], 2, 10, "line 10: end sets self.state to"),
        ([("end",), ("feed", "a")], 1, 17, "line 17: inner returns 'aa', which feed returns"),
        ([("join", "a")], 0, 33, "line 33: rest sets last to ['a'], which join returns"),
        (
            [("feed", "a"), ("inner", "b")],
            None,
            17,
            "returns 'bb', and the test fails after these 2",
        ),
        ([("sort", [2, 1])], None, 67, "line 67 of tidy changes items: sort changed"),
        (
            [("collect", "abcb")],
            0,
            27,
            "line 27: add sets out to ['a', 'c'], which collect returns",
        ),
        ([("feed", "a"), ("__class__", None)], 1, 17, "no line of the file ran in __class__"),
        (
            [("order", "ba"), ("__init__", None)],
            1,
            72,
            "the last step before it is line 72: __lt__",
        ),
    ],
)
def test_opens_where_the_wrong_value_was_made(calls, last, line, why):
    """A value that a function only passes on, or only reads, was made elsewhere."""
    module = load_source(OPENINGS.encode(), "odd.py", "odd.py", "under_test.odd", None)
    made = [Call(name, None if args == (None,) else args) for name, *rest in calls
            for args in [tuple(rest)]]  # fmt: skip
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [CaseRun((New("Thing"),), made, "")])
    recording = record(case, Facts(last))
    assert why in recording.why
    assert recording.steps[recording.opens].line == line


@pytest.mark.parametrize(
    ("call", "line", "why"),
    [
        # Its line runs before those of `finally` and of two `with`.
        (("feed", "a"), 90, "line 90: add returns 'aa', which feed returns"),
        (("twice", "a"), 90, "line 90: add returns 'aa', which twice returns"),
        (("twice", ""), 79, "line 79: twice returns ''"),
        # Its exception is caught, and the function goes on.
        (("lost", "a"), 98, "line 98: lost returns None"),
        (("near", "a"), 104, "line 104: near returns 'aa', and"),
        (("send", "a"), 108, "line 108: split yields 'aa', which send returns"),
        (("read",), 112, "line 112: stream yields 'bb', and the test fails"),
    ],
)
def test_a_value_opens_at_the_statement_that_returns_it(call, line, why):
    """Leaving a block runs other lines after a `return`, and a coroutine that waits yields to the
    event loop.
    """
    module = load_source(OPENINGS.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((New("Short"),), (Call(call[0], call[1:]),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    recording = record(case, Facts(0))
    assert why in recording.why
    assert recording.steps[recording.opens].line == line


@pytest.mark.parametrize(
    ("call", "item", "line", "why", "before"),
    [
        (
            ("gather", "abc"),
            0,
            27,
            "add adds 'a' to out, the first wrong item of the list that gather",
            "[]",
        ),
        (("gather", "abc"), 1, 27, "add adds 'c' to out", "['a']"),
        (("gather", "abc"), 2, 33, "rest adds 'd' to last", "last"),
        (
            ("gather", "abc"),
            4,
            43,
            "ends returns ['e', 'f'], with the first wrong item of the list that gather",
            "{}",
        ),
        (("gather", "a" * 60), 50, 27, "add adds 'a' to out", "… 26 more"),
        (("gather", "abc"), 9, 40, "gather sets out to", "['a', 'c', 'd']"),
        (("gather", "abc"), 5, 41, "'f'], without the next item that the test expects", "{}"),
        (("given", "a"), 1, 11, "end returns None, and the test fails", "{}"),
        (("doubles", "ab"), 1, 51, "double returns 'bb', the first wrong item", "{}"),
        (("frames", "aa"), 1, 60, "end_line returns ['a'], with the first wrong item", "{}"),
        (("number", 12), 0, 63, "number adds 12 to out", "[]"),
        (
            ("take", "ab"),
            1,
            132,
            "put puts TextDelta(text='b') into state, the first wrong item of the list that take",
            "State(out=[TextDelta(text='a')])",
        ),
        (
            ("take", "aa"),
            1,
            128,
            "take adds TextDelta(text='a') to out, the first",
            "State(out=[])",
        ),
        (("take", ["a" * 150, "b"]), 1, 127, "take puts TextDelta", "State(out=[])"),
    ],
)
def test_a_list_opens_where_its_first_wrong_item_was_added(call, item, line, why, before):
    """The items before it are right, and those after it may only follow from it."""
    module = load_source(OPENINGS.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((New("Thing"),), (Call(call[0], call[1:]),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    recording = record(case, Facts(0, item=item))
    step = recording.steps[recording.opens]
    assert why in recording.why
    assert step.line == line
    assert before in str(step.changes)


RAISING = """
import json
class Thing:
    def __init__(self): self.n = 0
    def deep(self, n):
        left = n - 1
        return self.deep(left) if left else same(n)
    def load(self, text):
        return json.loads(text)
    def long(self, n):
        nest = [[[[[n for _ in range(100)]]]]]
        return self.long(n)
    def other(self, n):
        return same(n)
    def parsed(self, texts):
        for text in texts:
            try:
                json.loads(text)
            except ValueError:
                pass
        return json.loads(text)
    def caught(self, n):
        try:
            for _ in levels(n): pass
        except RecursionError:
            return "x"
def levels(n):
    yield n
    yield from levels(n - 1)
def same(n):
    return n
"""


@pytest.mark.parametrize(
    ("call", "raised", "line", "why"),
    [
        (("deep", 10**6), "RecursionError", 7, "line 7: deep calls itself until Python's limit"),
        (
            ("deep", 300),
            "RecursionError",
            7,
            "line 7: deep calls itself, here 301 calls deep, in the test until Python's limit",
        ),
        # Longer than a recording, whose first step is near Python's limit.
        (("long", 1), "RecursionError", 12, "line 12: long calls itself until Python's limit"),
        (("load", "[" * 10**6), "RecursionError", 9, "line 9 raised RecursionError: maximum"),
        (("caught", 10**6), "", 29, "functions run within each other, up to Python's limit"),
        (("parsed", ["{"] * 3), "JSONDecodeError", 21, "line 21 raised JSONDecodeError: Expecting"),
        (("other", 1), "IndexError", 31, "other raises no IndexError here, but in the test, after"),
        (
            ("given", 1),
            "AttributeError",
            4,
            "no line of the file raised AttributeError: Thing has no method 'given'; the last step",
        ),
    ],
)
def test_an_exception_opens_where_it_was_raised(call, raised, line, why):
    """Recursion opens at its innermost call, even if its replay ends before Python's limit."""
    module = load_source(RAISING.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((New("Thing"),), (Call(call[0], call[1:]),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    steps = 500 if call[0] in ("long", "caught") else MOST_STEPS
    limit = sys.getrecursionlimit()
    if call[0] == "caught":
        # The number of its steps is the square of its depth.
        sys.setrecursionlimit(len(inspect.stack(0)) + 250)
    try:
        recording = record(case, Facts(0, raised=raised), steps)
    finally:
        sys.setrecursionlimit(limit)
    step = recording.steps[recording.opens]
    assert why in recording.why
    assert step.line == line
    assert call[0] != "deep" or step.function == "deep"


HOLDING = """
class Thing:
    def __init__(self):
        self.kept = ""
    @property
    def held(self):
        return self.kept
    def feed(self, text):
        self.kept = text
        return ""
def logged(function):
    def wrapper(*args):
        return [*function(*args)]
    return wrapper
class Logged:
    @logged
    def feed(self, text):
        return [text + text]
    held = property(logged(lambda s: [""]))
class Stored:
    def feed(self, text):
        self.end()
        self.held = text + text
        return ""
    def end(self):
        self.reason = "length"
class Descriptor:
    def __get__(self, owner, kind):
        return owner.text + ""
class Raising:
    @property
    def held(self):
        return self.read("")
    def read(self, text):
        return text[0]
    def feed(self, text):
        return text
class Described:
    held = Descriptor()
    def feed(self, text):
        self.text = text
"""


@pytest.mark.parametrize(
    ("kind", "calls", "is_held", "line", "why"),
    [
        ("Thing", ("feed",), True, 9, "feed sets self.kept to 'a', which held returns"),
        ("Thing", ("feed",), False, 10, "feed returns '', and the test fails"),
        ("Logged", ("feed",), False, 13, "wrapper returns ['aa'], and the test fails"),
        ("Logged", ("feed",), True, 13, "wrapper returns [''], and the test fails"),
        ("Stored", ("feed",), True, 23, "feed sets self.held to 'aa', and the test fails"),
        ("Stored", ("feed",), False, 24, "feed returns '', and the test fails"),
        ("Stored", ("feed", "reason"), False, 26, "end sets self.reason to 'length', and the test"),
        (
            "Raising",
            ("feed",),
            True,
            35,
            "line 35 raised IndexError: string index out of range, whi",
        ),
        ("Described", ("feed", "held"), True, 29, "__get__ returns 'a', and the test fails"),
    ],
)
def test_a_wrong_held_text_opens_where_it_was_set(kind, calls, is_held, line, why):
    """The call before it returns what it should, so its return shows no fault. Whatever the
    functions are called, the step is one of the wrong call, or of the reading after it.
    """
    module = load_source(HOLDING.encode(), "odd.py", "odd.py", "under_test.odd", None)
    made = [Call(name, ("a",) if name == "feed" else None) for name in calls]
    run = CaseRun((New(kind),), made, "" if kind == "Described" else "held")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    recording = record(case, Facts(len(made) - 1, is_held=is_held))
    assert why in recording.why
    assert recording.steps[recording.opens].line == line


@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
def test_a_small_terminal_shows_the_line_its_values_and_the_keys(body):
    """A step fits 60 columns and 20 lines, whatever the values are."""
    source = f"{HEAD}    x = None\n    {body}\n    return x\n"
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((), (Call("run", ("a" * 500,)),), "")
    recording = record(Case(lambda: vars(module).__getitem__, ["odd.py"], [run]), Facts())
    recording.take_sources([("odd.py", source.encode())])
    recording.rule = recording.why = "a rule of many words " * 20
    console = Console(width=60, height=20, file=io.StringIO())
    console.print(screen_of(recording, recording.opens, console.height), end="")
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 20
    assert max(map(cell_len, lines)) <= 60
    step = recording.steps[recording.opens]
    assert any(line.startswith(f">  {step.line:3}") for line in lines), lines
    names = [*step.changes, *recording.values_at(recording.opens)]
    assert not names or any(line.startswith(names[0]) for line in lines), lines
    assert lines[-1].startswith("← → line")
    assert len(lines) == 19 or not any(line.endswith("more lines") for line in lines), lines


def test_a_reader_who_stops_a_recording_keeps_its_steps():
    """Ctrl+C while the code runs ends the recording, not the command."""
    loop = "    while True:\n        n += 1\n        if n > 30_000: raise KeyboardInterrupt\n"
    source = f"def run(n):\n{loop}"
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((), (Call("run", (1,)),), "")
    recording = record(Case(lambda: vars(module).__getitem__, ["odd.py"], [run]), Facts())
    assert recording.why.startswith("stopped by Ctrl+C, so that the end is missing; line ")
    assert len(recording.steps) == 2_000
    assert recording.steps[recording.opens].function == "run"


def test_a_part_of_the_students_is_recorded_and_no_other_file():
    """The lines of the student's own part are steps of its file; those of a reference are not."""
    names = {"odd.py": "main", "lab-03/starter.py": "own", "lab-04/solution.py": "reference"}
    sources = {
        "odd.py": "def run(n):\n    return whole(n) + half(n)\n"
        "def passed_on(n):\n    return half(n)\n",
        "lab-03/starter.py": "def half(n):\n    m = n - 1\n    return n / m\n",
        "lab-04/solution.py": "def whole(n):\n    return n\n",
    }
    modules = {
        name: load_source(sources[name].encode(), name, name, f"under_test.{module}", None)
        for name, module in names.items()
    }
    main = vars(modules["odd.py"])
    main |= {
        "half": modules["lab-03/starter.py"].half,
        "whole": modules["lab-04/solution.py"].whole,
    }
    run = CaseRun((), (Call("run", (1,)),), "")
    recording = record(Case(lambda: main.__getitem__, [*names][:2], [run]), Facts())
    recording.take_sources([(name, sources[name].encode()) for name in [*names][:2]])
    step = recording.steps[recording.opens]
    passed_on = record(
        Case(lambda: main.__getitem__, [*names][:2], [CaseRun((), (Call("passed_on", (5,)),), "")]),
        Facts(),
    )
    assert passed_on.why == "line 4: passed_on returns 1.25, and the test fails"
    assert recording.why.startswith("line 3 of lab-03/starter.py raised ZeroDivisionError")
    assert (step.part, step.function, step.depth) == (1, "half", 2)
    assert {step.function for step in recording.steps} == {"run", "half"}
    assert recording.counts == {2: 1}
    assert [(part.file, part.counts) for part in recording.parts] == [
        ("lab-03/starter.py", {2: 1, 3: 1})
    ]
    assert "reference" not in str(recording.as_dict())
    shown = Console(width=100, file=io.StringIO())
    shown.print(view(recording, recording.opens))
    assert "in half of lab-03/starter.py: line 3 raises" in shown.file.getvalue()
    assert "m = n - 1" in shown.file.getvalue()


def of_one_call():
    """Return the recording of a call that returns its argument."""
    source = b"def run(n):\n    return n\n"
    module = load_source(source, "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((), (Call("run", (1,)),), "")
    recording = record(Case(lambda: vars(module).__getitem__, ["odd.py"], [run]), Facts())
    recording.take_sources([("odd.py", source)])
    return recording


def test_a_narrow_terminal_says_how_to_quit_and_uses_its_lines():
    """In 40 columns, words take more lines, of which a tall terminal has enough."""
    recording = of_one_call()
    recording.test = "test_of_a_long_name"
    recording.why = "a reason of many words " * 4 + "and an end"
    recording.source = [f"{' ' * 30}{line}" for line in recording.source]
    console = Console(width=40, height=30, file=io.StringIO())
    console.print(screen_of(recording, recording.opens, console.height), end="")
    lines = console.file.getvalue().splitlines()
    assert any("and an end" in line for line in lines), lines
    assert any(line.endswith(" return n") for line in map(str.rstrip, lines)), lines
    assert "q quit" in lines[-1]
    assert max(map(cell_len, lines)) <= 40


@pytest.mark.parametrize("height", [9, 12, 15])
def test_a_low_terminal_shows_the_line_and_how_to_quit(height):
    """A terminal below an editor has about ten lines."""
    recording = of_one_call()
    recording.rule = recording.why = "a rule of many words " * 20
    console = Console(width=60, height=height, file=io.StringIO())
    console.print(screen_of(recording, recording.opens, console.height), end="")
    lines = console.file.getvalue().splitlines()
    assert len(lines) < height
    assert any(line.startswith(">    2") for line in lines), lines
    assert any(line.startswith("n  1") for line in lines), lines
    assert "q quit" in lines[-1]


def test_a_terminal_of_24_lines_shows_where_the_values_differ():
    """Above the calls, the expected and the actual value begin shortly before their difference."""
    recording = of_one_call()
    recording.expected, recording.actual = f"{'a' * 200}bc", f"{'a' * 200}cd"
    console = Console(width=80, height=24, file=io.StringIO())
    console.print(screen_of(recording, recording.opens, console.height), end="")
    text = console.file.getvalue()
    assert "expected  …aaaaaaaabc" in text
    assert "actual    …aaaaaaaacd" in text
    assert len(text.splitlines()) <= 24


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("; ".join(f"x{n} = {n}" for n in range(12)), "\nx11  11"),
        ("x = [*range(30)]\n    x = []", "… → []"),
        ("x = []\n    x = [*range(30)]", "x: [] → [0, 1, 2, 3, 4, "),
        ("x = 'a' * 40 + 'b'\n    x = 'a' * 40 + 'c'", "x: …aaaaaaaab' → …aaaaaaaac'"),
        ("x = {1: 'b' * 140}\n    x = {**x, 2: 345}", "bbbbb'} → …bb"),
        ("x = {1: 'b' * 149}\n    x = {**x, 2: 345}", "bb'} → …bb"),
        (
            "def deep(a):\n        b = 0\n" + "        b += a\n" * 20 + "        return b\n"
            "    x = n + 41\n    return deep(x)",
            "x: (new) → 42",
        ),
        ("x = ['a' * 99, 1, 'b' * 99]\n    x = ['a' * 99, 2, 'b' * 99]", "x: …aaaaa', 1,…b"),
        ("x = print(n, 'a\\nb') or 5", "printed: 1 a"),
        ("def deep(a):\n        return deep([a])\n    x = deep(1)", "line 3 runs"),
    ],
)
def test_print_has_both_sides_of_a_change_all_values_and_the_last_steps_of_callers(body, shown):
    """A long value before a change leaves room for the value after it, and a long function for the
    lines that made its arguments. Printed text is beside its line.
    """
    source = f"def run(n):\n    {body}\n    return x\n"
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((), (Call("run", (1,)),), "")
    recording = record(Case(lambda: vars(module).__getitem__, ["odd.py"], [run]), Facts())
    recording.take_sources([("odd.py", source.encode())])
    console = Console(width=200, file=io.StringIO())
    print_around(console, recording, 12, 2)
    assert shown in console.file.getvalue()
    assert len(console.file.getvalue().splitlines()) < 80


def test_events_of_all_calls_are_no_expected_values_of_single_calls():
    """With as many events as calls, a table would show an event beside each call. Texts of one call
    may be joined.
    """
    results = [[], [TextDelta("a"), TextDelta("b"), CallEnd(0), CallEnd(1)]]
    trace = Trace((), [Step(Call("feed", (n,)), result) for n, result in enumerate(results)])
    texts = [TextDelta("ab"), CallEnd(0)]
    for actual, expected, is_by_call in (
        (trace.outputs, [[], [*results[1][:3], CallEnd(2)]], True),
        ([[], joined(results[1])], [[], [*texts, CallEnd(2)]], True),
        (trace.events, [*texts, CallEnd(2)], False),
        (trace.events[:2], [TextDelta("ab"), CallEnd(2)], False),
    ):
        with pytest.raises(Failure) as failure:
            expect(actual, expected, trace)
        assert (failure.value.at, failure.value.item) == (1, 2 if actual == trace.events[:2] else 3)
        assert (failure.value.by_call is not None) == is_by_call


@pytest.mark.parametrize("is_by_call", [True, False])
def test_the_wrong_call_is_known_whatever_words_a_reason_has(is_by_call):
    """A test puts a word of its own in place of each reason before it compares."""
    results = [[TextDelta("a")], [Malformed(0, "b", "no close tag"), TextDelta("c")], []]
    trace = Trace((), [Step(Call("feed", (n,)), result) for n, result in enumerate(results)])
    actual = [[TextDelta("a")], [Malformed(0, "b", "..."), TextDelta("c")], []]
    expected = [[TextDelta("a")], [Malformed(0, "b", "..."), TextDelta("d")], []]
    if not is_by_call:
        actual, expected = [*chain(*actual)], [*chain(*expected)]
    with pytest.raises(Failure) as failure:
        expect(actual, expected, trace)
    assert (failure.value.at, failure.value.item) == (1, 1)
    assert (failure.value.by_call is not None) == is_by_call


@pytest.mark.parametrize(
    ("chosen", "expected", "at"),
    [
        (slice(1, None, 2), ["b", "b", "x"], 5),
        (slice(2, None), ["c", "x", "e", "b"], 3),
        (slice(2, 5), ["c", "b"], 4),
        (slice(1, None, 4), ["b", "x"], None),
        (slice(2, 3), ["x"], None),
    ],
)
def test_a_slice_of_the_results_has_its_wrong_call(chosen, expected, at):
    """Calls in between may be there for their effects only. No call is marked if it may be any."""
    results = ["a", "b", "c", "b", "e", "b"]
    trace = Trace((), [Step(Call("feed", (n,)), result) for n, result in enumerate(results)])
    with pytest.raises(Failure) as failure:
        expect(trace.outputs[chosen], expected, trace)
    assert failure.value.at == at


def test_a_slice_of_results_with_joined_texts_has_its_wrong_call():
    """Joining makes other lists of the events."""
    results = [[], [TextDelta("a"), TextDelta("b")], [TextDelta("c")], [CallEnd(0)]]
    trace = Trace((), [Step(Call("feed", (n,)), result) for n, result in enumerate(results)])
    for first, at, item in ((1, 2, 0), (2, None, None)):
        actual = [*map(joined, trace.outputs[first:3])]
        with pytest.raises(Failure) as failure:
            expect(actual, [*actual[:-1], [TextDelta("x")]], trace)
        assert (failure.value.at, failure.value.item) == (at, item)


@pytest.mark.parametrize(
    ("held", "is_held"),
    [
        (Unreadable("type", "`held` is a bytearray; return bytes", name="held"), True),
        (Unreadable("IndexError", "string index out of range", "line 1: x", "held"), True),
        ("", False),
    ],
)
def test_a_held_text_that_cannot_be_read_is_the_fault_of_held(held, is_held):
    """The call before it may be right."""
    trace = Trace((), [Step(Call("feed", ("a",)), "a", held)])
    with pytest.raises(Failure) as failure:
        expect([trace.held, trace.outputs], [[""], ["b"]], trace)
    result = Result(ResultKind.ASSERTION, failure=failure.value)
    assert facts_of(result, [step.call for step in trace.steps]).is_held == is_held


def test_each_case_of_a_failing_test_ends_with_the_run_that_fails():
    """The last runs of the test may be smaller cases, which pass."""
    first, failing, smaller = (CaseRun((), (Call("feed", (n,)),), "") for n in range(3))
    of_test = [first, failing, smaller]
    cases = shortened([failing], of_test)
    assert cases == [[failing], [failing], [*of_test, failing]]
    assert shortened(of_test, of_test)[-1] == of_test


def test_the_result_of_one_call_has_that_call():
    results = [[TextDelta("b")], [TextDelta("a"), TextDelta("b")], []]
    trace = Trace((), [Step(Call("feed", (n,)), result) for n, result in enumerate(results)])
    with pytest.raises(Failure) as failure:
        expect(trace.outputs[1], [TextDelta("a"), TextDelta("x")], trace)
    assert (failure.value.at, failure.value.item) == (1, 1)


def test_calls_of_several_objects_name_them():
    """Equal calls of objects that are used in turns would look like calls of one object. An object
    that cannot be made has no calls.
    """
    module = load_source(OPENINGS.encode(), "odd.py", "odd.py", "under_test.odd", None)
    new = (New("Thing"), New("Thing"))
    calls = (Call("end"), Call("end", object=1), Call("reason", None))
    for used, names in (
        (calls, ["#1 ", "#2 ", "#1 "]),
        (calls[::2], ["", ""]),
    ):
        case = Case(lambda: vars(module).__getitem__, ["odd.py"], [CaseRun(new, used, "")])
        recording = record(case, Facts())
        assert [row.call for row in recording.calls] == [
            f"{name}{call}" for name, call in zip(names, used, strict=True)
        ]
        assert recording.objects == ["#1 Thing()", "#2 Thing()"] if names[0] else ["Thing()"] * 2
    for used in (), calls:
        new = (New("Thing"), New("Thing", (1,)))
        case = Case(lambda: vars(module).__getitem__, ["odd.py"], [CaseRun(new, used, "")])
        (row, *_) = record(case, Facts()).calls
        assert (row.call, row.emitted) == ("Thing(1)", "raised TypeError")


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        (["a"] * 30, ["a call runs 6 lines at the start, 60 at the end"]),
        (["a" * n for n in range(30)], []),
    ],
)
def test_calls_get_slower_only_if_their_arguments_do_not_grow(pieces, why):
    """A long argument may take many lines."""
    source = """
class Thing:
    def __init__(self):
        self.text = ""
    def feed(self, text):
        self.text = self.text + text if len(text) == 1 else text
        for char in self.text:
            char
"""
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((New("Thing"),), tuple(Call("feed", (piece,)) for piece in pieces), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    recording = record(case, Facts(is_count=True))
    assert [part for part in recording.why.split("; ") if "a call runs" in part] == why


@pytest.mark.parametrize(
    ("value", "shown"),
    [("b'x' * 500", "the bytes of [{'content': 'x'}]"), ("'x'", "'x'"), ("b''", "b''")],
)
def test_bytes_are_shown_as_the_report_reads_them(value, shown):
    """Bytes with a cut middle show less than the values that a test has read from them."""
    source = f"def run(n):\n    return {value}\n"
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((), (Call("run", (1,)),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    recording = record(case, Facts(0, emitted=["[{'content': 'x'}]"]))
    assert recording.why == f"line 2: run returns {shown}, and the test fails"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("box.text += 'a'", "line 9 ran "),
        ("self.text += 'a'; box = None", "line 9 ran "),
        ("box = None", "line 9: the same values (self, n, self.text, box) return, "),
    ],
)
def test_values_return_only_if_their_changes_would_be_seen(made, why, monkeypatch):
    """A long text in an object is shown without its middle and without its size."""
    monkeypatch.setattr("labkit.running.recording.case_recording.MOST_EVENTS", 5_000)
    source = f"""
class Box:
    pass
class Thing:
    def feed(self, n):
        self.text = "a" * 500
        box = Box()
        box.text = self.text
        while n:
            {made}
"""
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((New("Thing"),), (Call("feed", (1,)),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    assert why in record(case, Facts(is_overdue=True)).why


def test_the_few_characters_that_slow_code_copies_are_not_worth_a_word():
    """Three characters in 20,000 steps are not the reason why code is slow."""
    source = """
class Thing:
    def feed(self, text):
        for n in range(300):
            last = text[:2]
"""
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((New("Thing"),), (Call("feed", ("abc",)),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    assert record(case, Facts(is_count=True)).why == "line 4 ran 301 times, more than any other"


@pytest.mark.parametrize(
    ("taken", "made", "size", "line"),
    [
        ("last = self.items[-1]", "self.items[-1] = [last[0] + text + str(n)]", "4,6", 8),
        ("last = self.text + text", "self.text = last", "4,5", 7),
        ("self.items += [0] * 1_000", "self.text += text", "4,5", 8),
        ("last = [*(word for word in [text * 50])]", "self.items = last", "1,5", 7),
    ],
)
def test_slow_code_opens_at_the_line_that_copies(taken, made, size, line):
    """The texts of an object in a short list are copied, and the object itself is only taken. A new
    name of a value is not a copy, nor are the items of a list that grows.
    """
    source = f"""
class Thing:
    def __init__(self):
        self.items, self.text = [[""]], ""
    def feed(self, text):
        for n in range(300):
            {taken}
            {made}
"""
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((New("Thing"),), (Call("feed", ("a" * 100,)),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    recording = record(case, Facts(is_overdue=True))
    assert f" steps, line {line} made values with {size}" in recording.why
    assert recording.steps[recording.opens].line == line
    assert recording.steps[recording.opens].changes


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (None, "line 2 ran 300 times, more"),
        (4, "line 4 ran 4 times, more than any other that runs"),
    ],
)
def test_slow_code_is_recorded_up_to_the_line_that_was_slow_in_the_test(monkeypatch, line, why):
    """Many fast lines may precede it."""
    monkeypatch.setattr("labkit.running.recording.case_recording.MOST_EVENTS", 600)
    source = "def run(n):\n    for _ in range(n):\n        n\n    for _ in 'abc':\n        n += 1\n"
    module = load_source(source.encode(), "odd.py", "odd.py", "under_test.odd", None)
    run = CaseRun((), (Call("run", (400,)),), "")
    case = Case(lambda: vars(module).__getitem__, ["odd.py"], [run])
    recording = record(case, Facts(is_overdue=True, line=line), 4)
    assert recording.why.startswith(why)
    assert (4 in recording.counts) == (line == 4)


@pytest.mark.skipif(not platform.can_fork(), reason="the recording is made in this process")
def test_a_process_whose_recording_nobody_reads_ends():
    """A killed `make show` would leave it behind."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    large = lambda *_: (1, "x" * 1_000_000)  # noqa: E731
    process = context.Process(target=_send, args=(receiver, sender, large, [], None, None))
    process.start()
    receiver.close()
    sender.close()
    process.join(60)
    code = process.exitcode
    process.kill()
    assert code == 1
