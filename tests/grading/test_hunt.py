"""A hunt: what kills, what is void, and that it is the same here and behind the pipe."""

import gc
import os
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

from labkit.cli import main
from labkit.course.hunt import Code, Pool, Target, bundle, label_of
from labkit.course.lab import find_labs
from labkit.course.metering import COUNTER
from labkit.gates import GATES
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.isolation import host, meter
from labkit.isolation.host import Sources
from labkit.isolation.hunter import Hunter
from labkit.running.drive import as_plain
from labkit.running.hunting import work
from labkit.running.hunting.asserts import with_values
from labkit.running.hunting.here import Here
from labkit.running.hunting.hidden_pool import whole_pool
from labkit.running.hunting.progress import CountedRuns
from labkit.running.hunting.rules import Hunted, hunt
from labkit.running.hunting.verdict import FUSE, Verdict, VerdictKind
from labkit.running.remote.apart import Apart
from labkit.running.remote.wire import HEAD, WireError, pack, unpack
from labkit.running.source import GIVEN, load_source

RIGHT = """
class Pairs:
    def __init__(self):
        self.held = ""

    def feed(self, text):
        text = self.held + text
        even = len(text) - len(text) % 2
        self.held = text[even:]
        return text[:even]

    def flush(self):
        rest, self.held = self.held, ""
        return rest


def half(number):
    return number // 2
"""
EDITS = {
    "lab90-loses-the-end": ('rest, self.held = self.held, ""', 'rest, self.held = "", ""'),
    "lab90-shares": ('        self.held = ""\n', "        self.__dict__ = SHARED\n"),
    "lab90-stops": ("return number // 2", "return [] + number"),
    "lab90-never-ends": ("        even =", "        while len(text) > 5: pass\n        even ="),
    "lab90-slower": (
        "        even =",
        '        self.all = getattr(self, "all", "") + text\n'
        '        self.all.count("x")\n        even =',
    ),
    "lab90-crashes": ("return text[:even]", "return text[:even] if even < 6 else CRASH()"),
}
BEFORE = 'import ctypes\nSHARED = {"held": ""}\nCRASH = lambda: ctypes.string_at(0)\n'
TARGET = Target("lab-90-pairs", 1, "adapters/lab90.py", ("Pairs", "half"))
WRONG = {name: BEFORE + RIGHT.replace(*edit) for name, edit in EDITS.items()}
POOL = Pool(
    (TARGET,),
    (
        Code("one", TARGET, RIGHT.encode()),
        Code("other", TARGET, RIGHT.replace("number // 2", "(number - number % 2) // 2").encode()),
        *(Code(name, TARGET, text.encode(), (), True, name) for name, text in WRONG.items()),
    ),
)
MOST = 20
PASSED, FAILED = Verdict(VerdictKind.PASSED), Verdict(VerdictKind.FAILED)

# A hunt, what it kills, and what of it is void.
HUNTS = {
    "values, attributes, functions": ("""
def test_lab90_values(make):
    pairs = make("Pairs")
    assert (pairs.feed("abc"), pairs.held, pairs.flush()) == ("ab", "c", "c")
    assert make.call("half", 5) == 2
def test_lab90_two(make):
    one, other = make("Pairs"), make("Pairs")
    assert (one.feed("a"), other.feed("b"), one.held) == ("", "", "a")
""", "loses-the-end shares stops", ""),
    "limits, crashes": ("""
def test_lab90_long(make):
    pairs = make("Pairs")
    assert [*make.each(pairs.feed, ["ab"] * 50)] == ["ab"] * 50
    assert pairs.feed("abcdef") == "abcdef"
""", "never-ends crashes", ""),
    "a test that loops where the code is wrong": ("""
def test_lab90_flush(make):
    pairs = make("Pairs")
    pairs.feed("a")
    while pairs.flush() != "a":
        pass
""", "loses-the-end", ""),
    "over-strict": ("""
def test_lab90_private(make):
    assert make("Pairs")._held == ""
def test_lab90_rest(make):
    make("Pairs").rest
def test_lab90_type(make):
    assert make("Pairs").held == []
""", "", "private rest type"),
    "any exception kills, Python's own too": ("""
import sys
def test_lab90_exit(make):
    pairs = make("Pairs")
    pairs.feed("a")
    if not pairs.flush():
        sys.exit(0)
def test_lab90_raises(make):
    try:
        make.call("half", 1)
    except TypeError:
        raise GeneratorExit from None
""", "loses-the-end stops", ""),
    "only plain data crosses": ("""
def test_lab90_object(make):
    make("Pairs").feed(object())
def test_lab90_float(make):
    make.call("half", 2.0)
def test_lab90_no_such(make):
    make("load_source")
""", "", "object float no_such"),
    "remembers": ("""
seen = []
def test_lab90_goes_first(make):
    seen.append(make)
def test_lab90_needs_another_before_it(make):
    assert seen
def test_lab90_needs_to_be_alone(make):
    assert not seen
""", "", "needs_another_before_it needs_to_be_alone"),
    "slow": ("""
def test_lab90_long(make):
    pairs = make("Pairs")
    assert [*make.each(pairs.feed, "ab" * 2_500)] == ["", "ab"] * 2_500
""", "slower", ""),
    "names": ("""
def test_lab91_other(make): pass
def test_it(make): assert False
def helper(make): assert False
def test_lab90_and_lab91(make): pass
def test_lab90_lab90_slab91_lab912(make): pass
""", "", "lab91_other it and_lab91"),
    "never run": ("""
def test_lab90_twice(make): assert make.call("half", 4) == 2
async def test_lab90_waits(make): assert False
def test_lab90_twice(make): pass
""", "", "twice waits"),
    "drawn": ("""
import random, string
def test_lab90_drawn(make):
    drawn, pairs = random.SystemRandom(), make("Pairs")
    text = "".join(drawn.choices(string.ascii_letters, k=drawn.choice([2, 4])))
    assert pairs.feed("abc") + pairs.feed(text) + pairs.flush() == "abc" + text
""", "loses-the-end", ""),
    "too many": ("".join(f"def test_lab90_{n}(make): pass\n" for n in range(MOST))
                 + "def test_lab90_more(make): assert not make\n", "", "more"),
}  # fmt: skip


def outcome(hunted):
    """Return the wrong ones that are dead, and the tests that are void, in short."""
    dead = {name.removeprefix("lab90-") for name, tests in hunted.kills.items() if tests}
    return dead, {test.removeprefix("test_").removeprefix("lab90_") for test in hunted.void}


def hunt_here(source, pool=POOL, fuse=FUSE):
    load = partial(load_source, source.encode(), "starter.py", "starter.py", "hunt")
    return hunt(source.encode(), pool, MOST, Here(load, fuse), "0")


@pytest.fixture(autouse=True)
def few_calls(monkeypatch):
    """Let a loop of calls end early."""
    monkeypatch.setattr(work, "MOST_CALLS", 6_000)


@pytest.fixture(scope="module")
def sandbox(need, sandbox_in):
    return sandbox_in(need("sandbox"))


def test_why_a_test_is_never_run_is_said_with_its_lines():
    void = hunt_here(HUNTS["never run"][0]).void
    assert void["test_lab90_twice"].startswith("lines 2 and 4 define two tests of this name")
    assert void["test_lab90_waits"] == "line 3 makes it async, so a call does not run it: write def"
    void = hunt_here(HUNTS["names"][0]).void
    assert "more than one lab, lab90 and lab91:" in void["test_lab90_and_lab91"]


def hunt_there(source, sandbox, pool=POOL, fuse=FUSE):
    sources = Sources("tests", {"tests": ("starter.py", "starter.py", source.encode())})
    with Hunter(sandbox, sources, fuse) as hunter:
        hunter.load()
        return hunt(source.encode(), pool, MOST, hunter, "0")


def without(pool, *names):
    return Pool(pool.targets, tuple(code for code in pool.codes if code.name not in names))


@pytest.mark.parametrize("name", HUNTS)
def test_what_kills_and_what_is_void(name):
    source, dead, void = HUNTS[name]
    # In this process a crash is the end of it.
    hunted = hunt_here(source, without(POOL, "lab90-crashes"))
    assert outcome(hunted) == ({*dead.split()} - {"crashes"}, {*void.split()})


def hunt_apart(source, pool=POOL, fuse=FUSE, seed="0"):
    with Apart(source.encode(), "starter.py", GIVEN, fuse) as apart:
        return hunt(source.encode(), pool, MOST, apart, seed, 2)


@pytest.mark.parametrize("name", HUNTS)
def test_it_is_the_same_in_processes_of_a_students_machine(name):
    source, dead, void = HUNTS[name]
    assert outcome(hunt_apart(source)) == ({*dead.split()}, {*void.split()})


def test_threads_meter_one_at_a_time():
    """A garbage collection in `ast.parse` lets another thread run, if anything listens to it."""
    codes = [replace(code, source=code.source * 20) for code in POOL.codes]
    listener, thresholds = (lambda *_: time.sleep(0)), gc.get_threshold()
    gc.callbacks.append(listener)
    gc.set_threshold(20)
    try:
        with Apart(b"", "starter.py", GIVEN) as apart, ThreadPoolExecutor(4) as threads:
            assert [*threads.map(lambda code: apart(code, []), codes)] == [{}] * len(codes)
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(listener)


# Tests that fail on all but the first implementation that they see, by what they remember.
REMEMBERED = {
    "sys": "sys.seen = getattr(sys, 'seen', 0) + 1; assert sys.seen < 2",
    "module": "json.seen = getattr(json, 'seen', 0) + 1; assert json.seen < 2",
    "class": "ToolCall.seen = getattr(ToolCall, 'seen', 0) + 1; assert ToolCall.seen < 2",
}


PAIRS_TEST = """
def test_lab90_pairs(make):
    assert make("Pairs").feed("abc") == "ab"
"""


def test_answers_are_repeated_in_later_runs(tmp_path):
    """An implementation notes each time that it is imported."""
    file = tmp_path / "imports"
    code = replace(POOL.codes[0], source=f"open({str(file)!r}, 'a').write('x')\n{RIGHT}".encode())
    with Apart(PAIRS_TEST.encode(), "starter.py", GIVEN) as apart:
        first, second = (apart(code, ["test_lab90_pairs"])["test_lab90_pairs"] for _ in "12")
    assert file.read_text() == "x"
    assert replace(first, seconds=0.0) == replace(second, seconds=0.0)
    assert first.passed


@pytest.mark.parametrize("hunted", [hunt_here, hunt_apart])
@pytest.mark.parametrize("name", REMEMBERED)
def test_no_run_remembers_another(name, hunted):
    """Such a test passes each time, as at the grader's, so it neither kills nor is flaky."""
    imports = "import sys, json\nfrom mini_vllm.text.events import ToolCall\n"
    source = f"{imports}def test_lab90_{name}(make): {REMEMBERED[name]}\n"
    assert outcome(hunted(source, without(POOL, "lab90-crashes"))) == (set(), set())


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ("make.call('half', 4) == 3", "2 == 3: False"),
        ("make.call('half', 4) not in [*range(1, 3)]", "2 not in [1, 2]: False"),
        ("make('Pairs') is None", "<Pairs> is None: False"),
        ("'a' * 500 < 'a'", f"'{'a' * 119} < 'a': False"),
        # Only what a comparison without a message compares.
        ("make is None, 'own words'", "own words"),
        ("not make", ""),
        ("1 < make.call('half', 4) < 2", ""),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_failed_assert_shows_its_values(apart, assertion, said):
    source = f"def test_lab90_it(make):\n    assert {assertion}\n"
    pool = without(POOL, "lab90-crashes")
    if apart:
        void = hunt_apart(source, pool).void
    else:
        load = partial(
            load_source, source.encode(), "starter.py", "starter.py", "hunt", rewrite=with_values
        )
        void = hunt(source.encode(), pool, MOST, Here(load), "0").void
    words = f"AssertionError: {said}" if said else "AssertionError"
    assert f": {words} (line 2: assert {assertion})" in void["test_lab90_it"]


@pytest.mark.parametrize("hunted", [hunt_here, hunt_apart])
def test_private_names_are_refused_with_the_fix(hunted):
    source = """
def test_lab90_make(make): make._module
def test_lab90_dict(make): make.__dict__
def test_lab90_made(make): make("Pairs")._made
"""
    void = hunted(source, without(POOL, "lab90-crashes")).void
    for test, name in {"make": "make._module", "dict": "make.__dict__"}.items():
        assert f"`{name}` is private: a test may use only" in void[f"test_lab90_{test}"]
    assert "._made` is private" in void["test_lab90_made"]


def test_a_test_of_cost_that_falls_short_hears_how_far():
    source = """
def test_lab90_short(make):
    pairs = make("Pairs")
    assert [*make.each(pairs.feed, "ab" * 100)] == ["", "ab"] * 100
"""
    codes = [replace(code, cost=code.name == "lab90-slower") for code in POOL.codes]
    for hunted in (hunt_here, hunt_apart):
        short_of = hunted(source, without(Pool(POOL.targets, codes), "lab90-crashes")).short_of
        assert [*short_of] == ["lab90-slower"]
        how_far = r"test_lab90_short shows [\d.]+ times the .*; more than [\d.]+ times is needed"
        assert re.match(how_far, short_of["lab90-slower"])


@pytest.mark.parametrize("name", HUNTS)
def test_it_is_the_same_behind_the_pipe(name, sandbox):
    source, dead, void = HUNTS[name]
    assert outcome(hunt_there(source, sandbox)) == ({*dead.split()}, {*void.split()})


def test_answers_are_repeated_behind_the_pipe(sandbox, monkeypatch):
    requests = []
    pass_on = host.PartsHost.pass_on
    monkeypatch.setattr(
        host.PartsHost,
        "pass_on",
        lambda self, request: requests.append(request) or pass_on(self, request),
    )
    sources = Sources("tests", {"tests": ("starter.py", "starter.py", PAIRS_TEST.encode())})
    with Hunter(sandbox, sources, FUSE) as hunter:
        for code, count in [(POOL.codes[0], 3), (POOL.codes[1], 6), (POOL.codes[0], 6)]:
            assert hunter(code, ["test_lab90_pairs"])["test_lab90_pairs"].passed
            assert len(requests) == count


def test_who_waits_kills_nothing(sandbox, monkeypatch):
    """However long, or often: else the time that a submission may sleep would kill the rest."""
    monkeypatch.setattr(meter, "_SLEEP_SECONDS", 0.1)
    monkeypatch.setattr(host, "_TICK_SECONDS", 0.02)
    source = """
import time
def test_lab90_waits(make):
    pairs = make("Pairs")
    pairs.feed("a")
    if not pairs.flush():
        time.sleep(60)
"""
    assert outcome(hunt_there(source, sandbox)) == (set(), {"waits"})


def coins(weights):
    """Return tests that throw a coin when they are imported: each fails with its probability."""
    drawn = "import random\nthrown = [random.SystemRandom().random() for _ in range(MOST)]\n"
    tests = (f"def test_lab90_{n}(make): assert thrown[{n}] > {w}\n" for n, w in weights.items())
    return drawn.replace("MOST", str(len(weights))) + "".join(tests)


def test_who_throws_coins_kills_nothing(sandbox):
    """Some coins say the same each time, by chance; the flaky ones cost more than those kill."""
    hunted = hunt_there(coins(dict.fromkeys(range(MOST), 0.5)), sandbox)
    assert outcome(hunted)[0] == set()
    assert len(hunted.flaky) > 5
    assert "costs the points of 1 killed implementation" in hunted.void[hunted.flaky[0]]


@pytest.mark.parametrize("weight", [0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.8])
def test_forty_coins_earn_nothing_however_they_are_weighted(weight):
    """Neither alone, nor beside tests that kill every other implementation."""
    drawn = random.Random(1)
    wrong = tuple(Code(f"lab90-{n}", TARGET, b"", (), True) for n in range(20))
    pool = Pool((TARGET,), (*POOL.right(TARGET), *wrong))
    honest = {f"test_lab90_honest_{n}": {f"lab90-{2 * n}"} for n in range(10)}

    def run(code, tests):
        throws = {test: drawn.random() < weight for test in tests}
        fails = {test: code.name in honest.get(test, ()) for test in tests}
        fails |= {test: throws[test] for test in tests if test not in honest}
        return {test: FAILED if fails[test] else PASSED for test in tests}

    def points(tests):
        source = "".join(f"def {test}(make): pass\n" for test in tests).encode()
        hunts = [hunt(source, pool, 100, run, str(n)) for n in range(5)]
        return sum(1 for hunted in hunts for tests in hunted.kills.values() if tests)

    coins = [f"test_lab90_coin_{n}" for n in range(40)]
    assert points(honest) == 5 * 10
    assert points(coins) == 0
    assert points([*honest, *coins]) < 5 * 10


def test_order_and_number_of_runs_follow_the_seed_and_the_submission():
    """Each implementation has two runs, right ones up to two more, in opposite orders."""
    tests = [f"test_lab90_{n}" for n in range(6)]
    schedules = []
    for seed, comment in (("a", ""), ("a", ""), ("b", ""), ("a", "# another")):
        source = "".join(f"def {test}(make): pass\n" for test in tests) + comment
        runs = []

        def run(code, order, runs=runs):
            runs.append((code.name, order))
            return dict.fromkeys(order, PASSED)

        hunt(source.encode(), POOL, MOST, run, seed)
        schedules.append(runs)
        for code in POOL.codes:
            orders = [order for name, order in runs if name == code.name]
            assert 2 <= len(orders) <= (2 if code.wrong else 4)
            assert orders[0] == orders[1][::-1]
            assert sorted(orders[0]) == tests
    assert schedules[0] == schedules[1]
    assert len({str(runs) for runs in schedules}) == 3


def test_a_set_of_ids_crosses_and_no_other():
    ids = frozenset({0, 257, -1, 2**60})
    assert unpack(pack(ids)[HEAD.size :]) == as_plain({"special": ids})["special"] == ids
    for other in (frozenset({"a"}), frozenset({1.5}), frozenset(range(1_000)), {1, 2}):
        with pytest.raises(WireError):
            pack(other)
    for told in (b'{"set":["a"]}', b'{"set":[true]}', b'{"set":[[1]]}', b'{"set":3}'):
        with pytest.raises(WireError):
            unpack(told)


def test_few_tests_that_are_enough():
    kills = {"a": ("t1", "t3"), "b": ("t2", "t3"), "c": ("t2",), "d": ("t1",), "e": ()}
    assert Hunted(("t1", "t2", "t3"), kills=kills).enough() == ["t1", "t2"]
    assert label_of("test_lab03_x") == "lab03"
    assert label_of("test_lab3_x") == label_of("test_lab03") == ""


def test_edits_of_the_engine_stay_among_themselves():
    """The modules of a bundle stand in for the real ones while it is imported, and no longer."""
    import mini_vllm.text.utf8 as real

    source = "from mini_vllm.text.utf8 import mark"
    code = bundle([("mini_vllm.text.utf8", "mark = 7")], source)
    assert load_source(code, "bundle", "bundle", "a_bundle", [COUNTER]).mark == 7
    code = bundle([("mini_vllm.text.utf8", "")], "raise OSError('no such')")
    with pytest.raises(Exception, match="no such"):
        load_source(code, "", "", "b", [COUNTER])
    assert not hasattr(real, "mark")
    assert vars(__import__("sys").modules["mini_vllm.text"])["utf8"] is real


LAB_TOML = """
title = "The hunt"
summary = "Hunt"
time = "5 min"
difficulty = "1 of 5"
prerequisites = "lab-90"
place = 2
[hunt]
pool = "pool.toml"
most_tests = 20
[[task]]
title = "tests of lab 90"
"""
POOL_TOML = """
[[target]]
lab = "lab-90-pairs"
task = 1
adapter = "lab90.py"
names = ["Pairs"]
[[wrong]]
name = "lab90-loses-the-end"
symptom = "The end is missing."
file = "lab90.py"
find = 'rest, self.held = self.held, ""'
replace = 'rest, self.held = "", ""'
hints = ["Think of the end.", "Flush."]
[[wrong]]
name = "lab90-threes"
symptom = "It takes three."
file = "lab90.py"
find = "len(text) % 2"
replace = "len(text) % 3"
hints = ["Count.", "Feed four."]
"""
HUNT_TESTS = """
import pytest
@pytest.mark.given
def test_no_test_is_void(lab):
    \"\"\"All count.\"\"\"
    lab.expect_no_void()
def test_killed(lab, wrong):
    \"\"\"It is dead.\"\"\"
    lab.expect_killed(wrong)
"""
REFERENCE = '''"""Tests."""
def test_lab90_all(make):
    """All in one."""
    pairs = make("Pairs")
    assert pairs.feed("abcde") == "abcd"
    assert (pairs.held, pairs.flush(), pairs.held) == ("e", "e", "")
    assert pairs.feed("") == ""
    assert make("Pairs").flush() == make("Pairs").held == ""
'''


@pytest.fixture
def hunting_lab(tiny):
    """A hunt in the tiny repository."""
    folder = tiny / "phase-90-tiny/labs/lab-91-hunt"
    (folder / "course").mkdir(parents=True)
    files = {"course/lab.toml": LAB_TOML, "pool.toml": POOL_TOML, "lab90.py": RIGHT,
             "test_lab.py": HUNT_TESTS, "solution.py": REFERENCE}  # fmt: skip
    starter = (
        'def test_lab90_first(make):\n    raise NotImplementedError("lab-91 task 1: a test")\n'
    )
    for name, text in {**files, "starter.py": starter, "course/starter.py.orig": starter}.items():
        (folder / name).write_text(text)
    return find_labs(tiny)[1]


def test_a_student_reads_what_survives_and_gets_hints_at_it(hunting_lab, tiny, run_pytest, capsys):
    run = partial(run_pytest, None, str(hunting_lab.path))
    assert "lab-91 task 1: a test is not written yet" in run(LAB_IMPL="starter").stdout
    hunting_lab.starter.write_text(
        'def test_lab90_two(make):\n    assert make("Pairs").feed("abcd") == "abcd"\n'
        "def test_lab90_none(make):\n    assert make is None\n"
    )
    told = run(LAB_IMPL="starter").stdout
    assert "test_lab90_two: kills 1: threes" in told
    void = (
        "test_lab90_none: void: it also fails on a correct implementation\n"
        "    AssertionError: make is None: False (line 4: assert make is None)"
    )
    assert void in told
    assert void in run("--lab-task=1", LAB_IMPL="starter").stdout
    assert "goal      one of your lab 90 tests fails here and on no correct implementation" in told
    assert "now       survives: The end is missing. (1 test of lab90 passes on it)" in told
    alone = run("--ignore-glob=*/lab-90-*/*", LAB_IMPL="starter").stdout
    assert 'next:       kill "The end is missing" (make hint N=91 T=1)' in alone
    assert "50/100" in told
    for hint in ("Think of the end.", "Flush.", "Flush."):
        assert main(["hint", "--lab", "91"], tiny) == 0
        assert hint in capsys.readouterr().out
    assert "100/100   passed" in run(LAB_IMPL="solution").stdout
    hunting_lab.starter.write_text("def test_lab90_none(make):\n    assert make is None\n")
    void = run("--ignore-glob=*/lab-90-*/*", LAB_IMPL="starter").stdout
    assert "next:       fix test_lab90_none, which is void, then make lab N=91" in void


def test_a_terminal_shows_how_far_a_hunt_is(hunting_lab, tmp_path):
    terminal = tmp_path / "terminal"
    terminal.touch()
    code = hunting_lab.pool.codes[0]
    with CountedRuns(lambda code, tests: {}, hunting_lab.pool, terminal) as run:
        assert [run(code, ["test"]), run(code, ["test"])] == [{}, {}]
    shown = terminal.read_bytes().decode().split("\r\x1b[K")
    assert shown[1:] == [f"your tests have run {n} times, of about 7" for n in (1, 2)] + [""]
    with CountedRuns(lambda code, tests: {}, hunting_lab.pool, tmp_path) as run:
        assert run(code, ["test"]) == {}


def test_it_is_graded_on_the_whole_pool(hunting_lab, tiny, sandbox):
    labs = find_labs(tiny)
    known = [code.name for code in whole_pool(hunting_lab, labs).wrong() if code.hidden]
    assert known == [f"lab90.{bug.name}" for bug in labs[0].bugs]
    assignment = Assignment.of(hunting_lab, labs)
    (tiny / "phase-90-tiny/labs/lab-90-pairs/course/bugs.toml").write_text("")
    assert Assignment.of(hunting_lab, find_labs(tiny)).digest != assignment.digest

    def graded(source):
        submission = Submission("someone", hunting_lab.name, {hunting_lab.name: source})
        return grade(submission, assignment, sandbox)

    best = graded(hunting_lab.solution.read_bytes())
    assert best.max_score == 100
    assert {test.visibility for test in best.tests} == {"visible", "hidden"}
    alive = [test.name for test in best.tests if not test.passed]
    assert [name for name in alive if "slow" not in name] == []
    none = graded(b"def test_lab90_x(make): raise OSError")
    assert (none.score, none.tests[0].passed) == (0, False)
    assert graded(b"import numpy").tests[1].kind == "load"


@pytest.mark.parametrize("students", [["ada.py"], ["ada.py", "bob.py"]])
def test_a_part_that_cannot_be_imported_is_the_fault_of_the_course(
    hunting_lab, tiny, students, capsys
):
    (hunting_lab.path / "lab90.py").write_text("import no_such_module\n" + RIGHT)
    folder = tiny / "hand-ins"
    folder.mkdir()
    for student in students:
        (folder / student).write_bytes(hunting_lab.solution.read_bytes())
    path = folder if len(students) > 1 else folder / students[0]
    assert main(["grade", "--trust", "--jobs", "1", str(path), "--lab", "91"], tiny) == 3
    out, err = capsys.readouterr()
    assert "score" not in out
    (line,) = [line for line in err.splitlines() if "no_such_module" in line]
    assert re.search("a part of the course cannot be used: (the engine|lab90-)", line)


# What is put in the place of what, in which file, and what gate `pools` says of it.
FAULTS = [
    ("pool.toml", """'rest, self.held = "", ""'""", """'rest, self.held = self.held,  ""'""",
     "lab90-loses-the-end passes every test of lab-90, so it is not wrong"),
    ("pool.toml", "lab90-threes", "lab90-loses-the-end", "is in the pool 2 times"),
    ("pool.toml", "% 2", "% 5", "lab90-threes: `find` occurs 0 times"),
    ("pool.toml", '"Count.", ', "", "has 1 hints, not 2"),
    ("pool.toml", "lab90-threes", "lab92-threes", "begins with none of"),
    ("lab90.py", "len(text) % 2", "len(text) % 2 % 2 * 3 % 5", "the engine fails lab-90"),
    ("solution.py", "assert (pairs.held", "pairs = (pairs.held", "does not kill lab90"),
    ("solution.py", '== ("e", "e", "")', "== []", "does not count"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "find", "put", "said"), FAULTS)
def test_gate_finds_a_fault_of_a_pool(hunting_lab, tiny, file, find, put, said):
    path = hunting_lab.path / file
    assert find in path.read_text()
    path.write_text(path.read_text().replace(find, put, 1))
    try:
        told = [str(one) for one in GATES["pools"](tiny)]
    except Exception as error:
        told = [str(error)]
    assert any(said in one for one in told), told


def test_gates_say_what_they_do_not_ask_of_a_hunt(hunting_lab, tiny):
    os.environ.pop("LAB_IMPL", None)
    for gate in ("marks", "signatures", "diagnoses", "tables"):
        (note,) = [one for one in GATES[gate](tiny) if one.is_note]
        assert "lab-91-hunt: not checked for a hunt" in str(note)
        assert not [one for one in GATES[gate](tiny) if not one.is_note]
