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
from pathlib import Path

import pytest
from part_right import mutate
from walled import Grader

from labkit.course.lab import find_labs
from labkit.isolation import isolated_run
from labkit.running.lab_impl import Implementation
from labkit.running.score import TEST_LIMIT

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests/tiny_repo"
SOAK = bool(os.environ.get("SOAK"))
LIMIT = TEST_LIMIT if SOAK else 600.0
LABS = find_labs(ROOT)
(TINY_LAB,) = find_labs(TINY)
CONFTEST = f"""
import pytest

pytest_plugins = ["labkit.running.plugin"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    for item in items if not {SOAK} else []:
        item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "timeout"]
        item.add_marker(pytest.mark.timeout({LIMIT}))
"""
# Of each lab something quick to grade; `make soak` has all of each lab.
SAMPLE = ["lab-02 latin-1", "lab-03 decode-alone", "lab-04 starter", "lab-01 starter",
          "lab-05 starter"]  # fmt: skip

pytestmark = pytest.mark.timeout(3_600 if SOAK else 300)


def sources(lab):
    """The reference, the starter and the known bugs of a lab, the slow ones in `make soak` only."""
    found = {"solution": lab.solution.read_bytes(), "starter": lab.pristine_starter.read_bytes()}
    for bug in lab.bugs:
        if SOAK or bug.name not in ("slow", "slice-rest", "redecode-all"):
            found[bug.name] = Implementation("bug", lab.solution, bug).source()
    return {f"{lab.label} {name}": source for name, source in found.items()}


def rounds_of_labs():
    """Yield rounds, each with a submission per lab."""
    plain = {lab.name: sources(lab) for lab in LABS}
    if not SOAK:
        yield {lab.name: next(filter(None, map(plain[lab.name].get, SAMPLE))) for lab in LABS}
        return
    for number in range(max(map(len, plain.values()))):
        yield {name: [*of.values()][number % len(of)] for name, of in plain.items()}
    for seed in range(40):
        yield {lab.name: mutate(lab.solution.read_text(), seed) for lab in LABS}


def make_course(root, base, rows):
    """Make a course of copies of labs below `base`, for each (lab, its name there, submission)."""
    for lab, name, source in rows:
        place = root / lab.path.relative_to(base).with_name(name)
        shutil.copytree(lab.path, place, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(lab.pristine_starter, place / "starter.py.orig")
        (place / "starter.py").write_bytes(source)
    (root / "conftest.py").write_text(CONFTEST)


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
def graded(mode, worker_root, monkeypatch):
    """Return by lab the kinds of the results of the grader, by test."""
    monkeypatch.setattr(isolated_run, "TEST_LIMIT", LIMIT)

    def of(root):
        grader = Grader(mode, worker_root, root)
        told = {lab.name: grader.grade(lab.starter.read_bytes(), lab) for lab in grader.labs}
        return {
            name: {test["name"]: test["kind"] for test in found["tests"]}
            for name, found in told.items()
        }

    return of


@pytest.mark.parametrize("submissions", [*rounds_of_labs()])
def test_on_reference_starter_and_bugs_of_each_lab(graded, tmp_path, submissions):
    make_course(tmp_path, ROOT, [(lab, lab.name, submissions[lab.name]) for lab in LABS])
    found = graded(tmp_path)
    assert found == plain_pytest(tmp_path)
    assert {*found} == {lab.name for lab in LABS}


def test_on_results_of_every_kind_and_on_part_right_submissions(graded, tmp_path):
    right = TINY_LAB.solution.read_text()
    made = {
        **sources(TINY_LAB),
        "raises": right.replace("return rest", "return rest[9]").encode(),
        "another type": right.replace("return rest", "return {rest}").encode(),
        "cannot be imported": b"def f(:",
        **{f"seed {n}": mutate(right, n) for n in range(200 if SOAK else 8)},
    }
    named = enumerate(made.values(), start=100)
    make_course(tmp_path, TINY, [(TINY_LAB, f"lab-{n}-made", source) for n, source in named])
    found = graded(tmp_path)
    assert found == plain_pytest(tmp_path)
    kinds = {kind for kinds in found.values() for kind in kinds.values()}
    assert kinds >= {"passed", "assertion", "raised", "unwritten", "load"}


def test_part_right_submissions_differ_and_are_the_same_each_time():
    source = LABS[0].solution.read_text()
    made = [mutate(source, seed) for seed in range(40)]
    assert made == [mutate(source, seed) for seed in range(40)]
    assert len(set(made)) > 20
