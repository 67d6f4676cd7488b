"""The verdicts of the grader are those of plain pytest, test by test, of any submission."""

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
from labkit.running.lab_impl import Implementation

ROOT = Path(__file__).parents[2]
LABS = find_labs(ROOT)
COUNT = 200 if os.environ.get("SOAK") else 5
# Of the reference, the starter and the bugs, a sample; in turns, so that each lab has one.
PLAIN = [
    (lab, Implementation(kind, path, bug))
    for lab in LABS
    for kind, path, bug in [
        ("solution", lab.solution, None),
        ("starter", lab.pristine_starter, None),
        *(("bug", lab.solution, bug) for bug in lab.bugs),
    ]
]
if not os.environ.get("SOAK"):
    PLAIN = PLAIN[::23]

pytestmark = [
    pytest.mark.skipif(
        shutil.which("bwrap") is None and not os.environ.get("CI"), reason="needs bubblewrap"
    ),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def grader(worker_root):
    return Grader("sandbox", worker_root, ROOT)


def in_process(lab, source, folder):
    """Return the kinds of the results of plain pytest, by test."""
    path, results = folder / "submission.py", folder / "results.json"
    path.write_bytes(source)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(lab.path),
         f"--lab-results={results}"],
        cwd=ROOT,
        env={**os.environ, "LAB_IMPL": str(path), "LAB_PARTS": "reference", "LAB_SEED": "0",
             "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip
    assert results.exists(), done.stdout + done.stderr
    (run,) = json.loads(results.read_text())
    return {name: result["kind"] for name, result in run["tests"].items()}


def isolated(grader, lab, source):
    return {test["name"]: test["kind"] for test in grader.grade(source, lab)["tests"]}


@pytest.mark.parametrize(
    ("lab", "implementation"),
    PLAIN,
    ids=[f"{lab.label} {implementation.title}" for lab, implementation in PLAIN],
)
def test_on_reference_starter_and_bugs(grader, lab, implementation, tmp_path):
    source = implementation.source()
    assert isolated(grader, lab, source) == in_process(lab, source, tmp_path)


@pytest.mark.parametrize("seed", range(COUNT))
def test_on_part_right_submissions(grader, seed, tmp_path):
    lab = LABS[seed % len(LABS)]
    source = mutate(lab.solution.read_text(), seed)
    assert isolated(grader, lab, source) == in_process(lab, source, tmp_path)


def test_part_right_submissions_differ_and_are_the_same_each_time():
    source = LABS[0].solution.read_text()
    made = [mutate(source, seed) for seed in range(40)]
    assert made == [mutate(source, seed) for seed in range(40)]
    assert len(set(made)) > 20
