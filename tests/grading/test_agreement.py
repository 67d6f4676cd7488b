"""The verdicts of the grader are those of plain pytest, test by test, of any submission.

A round is a copy of a course with one submission as each lab's `starter.py`, so that one run of
pytest judges them all. Time limits are far away, since a busy machine must not decide what is
compared; `make soak` has those of the course, and endless loops.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from part_right import mutate

from labkit.course.hunt import Pool
from labkit.course.lab import find_labs
from labkit.grading import grader
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.isolation import isolated_run
from labkit.isolation.host import Host, Sources
from labkit.running.drive import perform
from labkit.running.lab_impl import Implementation
from labkit.running.score import PUBLIC_SEED, TEST_LIMIT
from labkit.running.source import load_source
from labkit.running.trace import Call, New, Unreadable

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests/tiny_repo"
SOAK = bool(os.environ.get("SOAK"))
LIMIT = TEST_LIMIT if SOAK else 600.0
LABS = find_labs(ROOT)
(TINY_LAB,) = find_labs(TINY)
CONFTEST = f"""
import pytest

pytest_plugins = ["labkit.running.plugin", "pytest_timeout"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    for item in items if not {SOAK} else []:
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "timeout"]
        item.add_marker(pytest.mark.timeout({LIMIT}))
"""
pytestmark = pytest.mark.timeout(3_600 if SOAK else 300)


def sources(lab):
    """The reference, the starter and the known bugs of a lab; the slow ones in `make soak` too."""
    found = {"solution": lab.solution.read_bytes(), "starter": lab.pristine_starter.read_bytes()}
    for bug in lab.bugs:
        if SOAK or bug.name not in ("slow", "slice-rest", "redecode-all", "joins-at-push"):
            found[bug.name] = Implementation("bug", lab.solution, bug).source()
    return {f"{lab.label} {name}": source for name, source in found.items()}


def rounds_of_labs():
    """Yield rounds, each with a submission per lab."""
    plain = {lab.name: [*sources(lab).values()] for lab in LABS}
    if not SOAK:
        # What is part-right costs more than a starter: two labs have it.
        part_right = {lab.name: mutate(lab.solution.read_text(), 0) for lab in LABS[:2]}
        yield {name: of[1] for name, of in plain.items()} | part_right
        return
    for number in range(max(map(len, plain.values()))):
        yield {name: of[number % len(of)] for name, of in plain.items()}
    for seed in range(40):
        yield {lab.name: mutate(lab.solution.read_text(), seed) for lab in LABS}


def make_course(root, base, rows):
    """Make a course of copies of labs below `base`, for each (lab, its name there, submission)."""
    for lab, name, source in rows:
        place = root / lab.path.relative_to(base).with_name(name)
        shutil.copytree(lab.path, place, ignore=shutil.ignore_patterns("__pycache__"))
        for path in lab.given_files:
            given = root / path.relative_to(base)
            given.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, given)
        shutil.copy(lab.pristine_starter, place / "course/starter.py.orig")
        (place / "starter.py").write_bytes(source)
    # A pool of implementations may be edits of the engine.
    if not (root / "mini_vllm").exists():
        (root / "mini_vllm").symlink_to(ROOT / "mini_vllm")
    (root / "conftest.py").write_text(CONFTEST)


def assignment_of(lab, labs, seed=PUBLIC_SEED):
    """Return the assignment of a lab; of a hunt's pool, two wrong ones of a target are enough."""
    whole = Assignment.of(lab, labs, seed)
    if SOAK or whole.pool is None:
        return whole
    codes = []
    for target in whole.pool.targets:
        wrong = whole.pool.wrong(target)
        codes += [*whole.pool.right(target), wrong[0], wrong[-1]]
    return replace(whole, whole=Pool(whole.pool.targets, tuple(codes)))


def plain_pytest(root):
    """Return by lab the kinds of the results of plain pytest, by test."""
    results = root / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c",
         str(ROOT / "pyproject.toml"), f"--rootdir={root}", f"--lab-results={results}",
         f"--lab-limit={LIMIT}", str(root)],
        cwd=root,
        env={**os.environ, "LAB_IMPL": "starter", "LAB_PARTS": "reference", "LAB_SEED": "0",
             "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert results.exists(), done.stdout + done.stderr
    return {
        run["lab"]: {name: result["kind"] for name, result in run["tests"].items()}
        for run in json.loads(results.read_text())
    }


@pytest.fixture
def graded(mode, sandbox_in, monkeypatch):
    """Return by lab the kinds of the results of the grader, by test."""
    monkeypatch.setattr(isolated_run, "TEST_LIMIT", LIMIT)

    def of(root):
        sandbox, labs = sandbox_in(mode), find_labs(root)
        return {lab.name: kinds_of(lab.starter.read_bytes(), lab, labs, sandbox) for lab in labs}

    return of


def kinds_of(source, lab, labs, sandbox, seed=PUBLIC_SEED):
    """Return the kinds of the results of the grader, by test."""
    submission = Submission("someone", lab.name, {lab.name: source})
    tests = grade(submission, assignment_of(lab, labs, seed), sandbox).tests
    return {test.name: test.kind for test in tests}


@pytest.mark.parametrize("submissions", [*rounds_of_labs()])
def test_on_submissions_of_each_lab(graded, tmp_path, submissions):
    make_course(tmp_path, ROOT, [(lab, lab.name, submissions[lab.name]) for lab in LABS])
    found, plain = graded(tmp_path), plain_pytest(tmp_path)
    for lab in LABS:
        if lab.hunt is not None:
            # A grader has another part of the pool than students have.
            both = found[lab.name].keys() & plain[lab.name].keys()
            assert len(both) > len(lab.pool.targets)
            for kinds in (found, plain):
                kinds[lab.name] = {name: kinds[lab.name][name] for name in both}
    assert found == plain
    assert {*found} == {lab.name for lab in LABS}


# The gates hold plain pytest to the same.
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.label)
def test_a_reference_passes_and_a_bug_fails_in_the_tests_that_it_names(
    sandbox_in, mode, lab, monkeypatch
):
    sandbox, bug = sandbox_in(mode), lab.bugs[0]
    with monkeypatch.context() as patch:
        # The gates draw with the public seed. With a secret one, a grader first runs the public.
        patch.setattr(grader, "PUBLIC_SEED", "1")
        kinds = kinds_of(lab.solution.read_bytes(), lab, LABS, sandbox, seed="1")
    assert {*kinds.values()} == {"passed"}
    source = Implementation("bug", lab.solution, bug).source()
    kinds = kinds_of(source, lab, LABS, sandbox)
    failed = {test for test, kind in kinds.items() if kind != "passed"}
    assert failed == {*bug.killed_by} & kinds.keys()
    assert failed


def test_on_results_of_every_kind_and_on_part_right_submissions(graded, tmp_path):
    right = TINY_LAB.solution.read_text()
    made = {
        **sources(TINY_LAB),
        "raises": right.replace("return rest", "return rest[9]").encode(),
        "another type": right.replace("return rest", "return {rest}").encode(),
        "held is a method": right.replace("    @property\n", "").encode(),
        "held raises": right.replace("return self._held\n", "return self._hold\n").encode(),
        "cannot be imported": b"def f(:",
        **{f"seed {n}": mutate(right, n) for n in range(200 if SOAK else 4)},
    }
    named = enumerate(made.values(), start=100)
    make_course(tmp_path, TINY, [(TINY_LAB, f"lab-{n}-made", source) for n, source in named])
    found = graded(tmp_path)
    assert found == plain_pytest(tmp_path)
    kinds = {kind for kinds in found.values() for kind in kinds.values()}
    assert kinds >= {"passed", "assertion", "raised", "unwritten", "load"}


STRANGE = """
class A:
    HELD
    def __init__(self, *given): self.given = given; del given[0][:1]
    def f(self, *given, **more): return BODY
    def secret(self): raise NotImplementedError
"""
STRANGE_ANSWERS = [
    ("held = 'h'", "7"),
    ("held = b'h'", "given[0].clear()"),
    ("held = b'h'", "more.get('more', {'a': []})['a'].append(9)"),
    ("def held(self): return 'h'", "bytearray(b'a')"),
    ("@property\n    def held(self): return self.hedl", "(c for c in 'abc')"),
    ("@property\n    def held(self): raise NotImplementedError", "[1, {2}]"),
    ("@property\n    def held(self): return bytearray(b'h')", "self"),
    ("other = 1", "self.nothing"),
    ("held = 1.5", "given[0][7]"),
    ("held = []", "self.secret()"),
    ("@property\n    def held(self): raise SystemExit('held')", "__import__('sys').exit()"),
    ("held = []; held.append(held)", "type('S', (str,), {})('s')"),
]


@pytest.mark.parametrize(("held", "body"), STRANGE_ANSWERS)
def test_a_run_has_the_same_trace_here_and_behind_the_pipe(sandbox_in, mode, held, body):
    source = STRANGE.replace("HELD", held).replace("BODY", body).encode()
    new = [New("A", ([1, 2],))]
    calls = [Call("f", ([240], "a"), {"more": {"a": [3]}}), Call("held", None), Call("f", ([5],)),
             Call("g")]  # fmt: skip
    module = load_source(source, "starter.py", "starter.py", "strange")
    here = perform(partial(getattr, module), new, calls, "held")
    host = Host(sandbox_in(mode), Sources("m", {"m": ("starter.py",) * 2 + (source,)}))
    host.begin(9)
    assert host.load() is None
    there = host.perform(new, calls, "held")
    host.close()
    assert told(there) == told(here)
    assert here.raised is not None
    assert "A changed its argument: [1, 2] became [2]" in here.changed
    # What a test gave is as it was.
    assert new[0].args == ([1, 2],)
    assert calls[0].args == ([240], "a")
    assert calls[0].kwargs == {"more": {"a": [3]}}


def told(trace):
    """A run as data that can be compared, `Unreadable` values included."""
    plain = [
        [vars(value) if isinstance(value, Unreadable) else value for value in step]
        for step in trace.steps
    ]
    return plain, trace.raised, trace.changed


def test_part_right_submissions_differ_and_are_the_same_each_time():
    source = LABS[0].solution.read_text()
    made = [mutate(source, seed) for seed in range(40)]
    assert made == [mutate(source, seed) for seed in range(40)]
    assert len(set(made)) > 20
