"""Digests move with everything that a grade depends on, and with nothing else."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.course.lab import find_labs
from labkit.grading import assignment as module
from labkit.grading.assignment import Assignment
from labkit.grading.overlay import read_overlay
from labkit.grading.reading.submission import Submission, digest_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("labkit", "mini_vllm")
OVERLAY = Path(__file__).parent / "overlay"

# A fresh interpreter that reads a submission, grades it, and tells what it has imported for that.
GRADING = """
import json, sys
from pathlib import Path
root, tiny = map(Path, sys.argv[1:])
from labkit.course.lab import find_labs
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.inputs import collect
from labkit.grading.reading.one_student import Course
from labkit.isolation.sandbox import Sandbox
labs = find_labs(tiny)
(submission,) = collect([labs[0].solution], Course(labs, labs[0]))
with Sandbox("trust") as sandbox:
    told = grade(submission, Assignment.of(labs[0], labs), sandbox)
assert told.score == 100
files = [getattr(module, "__file__", None) for module in sys.modules.values()]
print(json.dumps([name for name in files if name and Path(name).is_relative_to(root)]))
"""


def imported_by_grading(root):
    """The files that Python itself imports, on both sides of the pipe, by path below `root`."""
    tiny = ROOT / "tests/tiny_repo"
    done = subprocess.run(
        [sys.executable, "-B", "-c", GRADING, root, tiny], cwd=root, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    files = {Path(name).relative_to(root).as_posix() for name in json.loads(done.stdout)}
    # Without anybody to ask it, the worker ends when it has imported what it needs.
    command = [sys.executable, "-B", "-X", "importtime", root / "labkit/isolation/worker.py", root]
    done = subprocess.run(
        [*command, "trust", ""], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    modules = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line]
    for name in modules:
        if name.split(".")[0] in PACKAGES:
            place = root / name.replace(".", "/")
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            files.add(file.relative_to(root).as_posix())
    return files | {"labkit/isolation/worker.py"}


def moves(path, assignment):
    """Whether an edit of a file moves the digest of an assignment; the file is as before then."""
    before, data = assignment.digest, path.read_bytes()
    try:
        path.write_bytes(data + b"\n# edited\n")
        return replace(assignment).digest != before
    finally:
        path.write_bytes(data)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the course's packages."""
    root = tmp_path_factory.mktemp("course")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    return root


def test_of_the_course_exactly_the_files_move_it_that_grading_imports(copy, tiny_lab, monkeypatch):
    monkeypatch.setattr(module, "ROOT", copy)
    assignment = Assignment.of(tiny_lab, [tiny_lab])
    files = [path for path in copy.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    moved = {path.relative_to(copy).as_posix() for path in files if moves(path, assignment)}
    assert moved == imported_by_grading(copy)
    assert replace(assignment).digest == assignment.digest
    assert len(files) > 150 > len(moved)
    # So that the rule itself is not empty.
    assert moved >= {
        "labkit/testing.py", "labkit/course/lab.py", "labkit/grading/grader.py",
        "labkit/grading/overlay.py", "labkit/grading/reading/zips.py",
        "labkit/isolation/sandbox.py", "labkit/isolation/worker.py", "labkit/running/drive.py",
        "labkit/running/reporting/explain.py", "mini_vllm/text/events.py",
    }  # fmt: skip
    idle = ("cli.py", "serving/", "publish/", "gates/", "student/", "grading/reports/")
    assert not [name for name in moved if name.removeprefix("labkit/").startswith(idle)]
    # A new file counts from the moment that it is imported.
    helper, user = copy / "labkit/running/helper.py", copy / "labkit/running/drive.py"
    helper.write_text("HELP = 1\n")
    assert not moves(helper, assignment)
    before = user.read_text()
    user.write_text(before + "\n\ndef help():\n    from labkit.running.helper import HELP\n")
    assert moves(helper, replace(assignment))
    user.write_text(before)
    helper.unlink()


def assignment_of(root, number, seed="0", overlay=None):
    labs = find_labs(root)
    lab = next(lab for lab in labs if lab.number == number)
    return Assignment.of(lab, labs, seed, overlay and read_overlay(overlay, lab))


@pytest.fixture(scope="module")
def labs_copy(tmp_path_factory):
    """A copy of the labs, and of hidden tests."""
    root = tmp_path_factory.mktemp("labs")
    (phase,) = ROOT.glob("phase-*")
    shutil.copytree(phase, root / phase.name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(OVERLAY, root / "overlay")
    return root


def lab_of(path):
    return next((part[:6] for part in path.parts if part.startswith("lab-")), "")


def test_of_the_labs_exactly_tests_facts_given_files_hidden_tests_and_parts_move_it(labs_copy):
    made = {
        "05": assignment_of(labs_copy, "05"),
        "04": assignment_of(labs_copy, "04", overlay=labs_copy / "overlay"),
    }
    files = [path for path in labs_copy.rglob("*") if path.is_file()]
    found = {
        number: {f"{lab_of(path)}/{path.name}" for path in files if moves(path, assignment)}
        for number, assignment in made.items()
    }
    parts = {f"lab-0{number}/solution.py" for number in (1, 3, 4)}
    own = {}
    for number, assignment in made.items():
        names = {f"lab-{number}/{name}" for name in ("test_lab.py", "lab.toml", "mistakes.py")}
        given = {f"{lab_of(path)}/{path.name}" for path in assignment.lab.given_files}
        assert len(given) == len(assignment.lab.given_files) > 0
        own[number] = names | given
    assert found == {"05": own["05"] | parts, "04": own["04"] | {"lab-04/test_hidden.py"}}


def test_seed_and_hidden_tests_move_it_and_the_place_of_the_labs_does_not(labs_copy):
    home = assignment_of(ROOT, "04")
    assert assignment_of(labs_copy, "04").digest == home.digest
    seed, overlay = assignment_of(ROOT, "04", "1"), assignment_of(ROOT, "04", overlay=OVERLAY)
    assert len({one.digest for one in (home, seed, overlay, assignment_of(ROOT, "05"))}) == 4


FIELDS = st.lists(st.lists(st.binary(max_size=3), max_size=3).map(tuple), max_size=3)


@given(FIELDS, FIELDS)
def test_other_fields_have_another_digest(one, two):
    assert (digest_of(*one) == digest_of(*two)) is (one == two)


@pytest.mark.parametrize(
    "fields",
    [
        [("ab", "c")], [("a", "bc")], [("abc",)], [("a",), ("bc",)], [("a", "b", "c")],
        [("", "abc")], [("a", "2\nbc")], [], [()],
    ],
)  # fmt: skip
def test_equal_bytes_in_other_places_are_other_fields(fields):
    assert digest_of(*fields) != digest_of(("a", "b"), ("c",))


def test_no_two_submissions_are_confused():
    told, two = "\nlab-90 1\nx", {"lab-90": b"x", "lab-91": b"y"}
    sources = [{}, {"lab-90": b""}, {"lab-90": b"x"}, {"lab-90": b"x\nlab-91 1\ny"},
               {"lab-9": b"0x", "lab-91": b"y"}, two]  # fmt: skip
    faults = [{"fault": fault} for fault in ("", told, "lab-90")]
    all_different = [
        *(Submission("ann", "lab-90", **fault) for fault in faults),
        Submission("ann", "lab-90", {"lab-90": b"x"}, fault=told),
        Submission("ann", "lab-91", two),
        *(Submission("ann", "lab-90", files) for files in sources),
    ]
    assert len({one.digest for one in all_different}) == len(all_different)
    turned = dict(reversed(two.items()))
    assert Submission("bob", "lab-90", turned).digest == all_different[-1].digest
