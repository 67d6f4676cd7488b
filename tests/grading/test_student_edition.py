"""The student edition: nothing of the references is in it, and what it says can be run."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.cli import main
from labkit.course.lab import find_labs, pick_lab
from labkit.errors import UsageError
from labkit.gates.readmes import readmes_are_true
from labkit.publish import actions, student_edition
from labkit.student.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
LABS = find_labs(ROOT)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    """The edition as it is made."""
    out = tmp_path_factory.mktemp("handed") / "edition"
    assert main(["student-edition", "--out", str(out)], ROOT) == 0
    return out


@pytest.fixture(scope="module")
def untouched(pristine, tmp_path_factory):
    """A copy in which tests run things, and change no file of it."""
    return shutil.copytree(pristine, tmp_path_factory.mktemp("untouched") / "edition")


@pytest.fixture
def edition(pristine, tmp_path):
    """A student's copy of the edition."""
    return shutil.copytree(pristine, tmp_path / "edition")


def run(edition, *command, **env):
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(edition), **env}
    done = subprocess.run(
        [sys.executable, "-B", "-m", *command], cwd=edition, env=env, capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def solve(edition, *numbers):
    for number in numbers:
        own = pick_lab(find_labs(edition), number)
        own.starter.write_bytes(pick_lab(LABS, number).solution.read_bytes())
        Progress(edition).save_score(own, 100)


def test_no_body_of_a_reference_is_anywhere_in_it(pristine):
    text = "\n".join(
        path.read_text(errors="replace") for path in pristine.rglob("*") if path.is_file()
    )
    squeezed = re.sub(r"\s+", " ", text)
    bodies = 0
    for lab in LABS:
        source = lab.solution.read_text()
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef) or node.name == "__init__":
                continue
            first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
            body = "\n".join(source.splitlines()[first.lineno - 1 : node.end_lineno])
            if len(body) > 60:
                bodies += 1
                assert re.sub(r"\s+", " ", body) not in squeezed, f"{lab.label} {node.name}"
    assert bodies > 15
    assert not [*pristine.rglob("solution.py")]


def test_nothing_else_of_the_instructors_is_in_it(pristine):
    names = {path.relative_to(pristine).as_posix() for path in pristine.rglob("*")}
    assert not [name for name in names if "__pycache__" in name or "test_hidden" in name]
    assert {name.split("/")[0] for name in names} == {
        ".github", ".gitignore", "LICENSE", "Makefile", "README.md", "conftest.py", "labkit",
        "mini_vllm", "phase-16-serving-apis-and-parsers", "pyproject.toml", "requirements",
        "upstream",
    }  # fmt: skip


def test_starters_are_as_they_were_written_and_bugs_lose_only_their_edits(pristine):
    for lab, mine in zip(find_labs(pristine), LABS, strict=True):
        assert lab.starter.read_bytes() == mine.pristine_starter.read_bytes()
        assert lab.pristine_starter.read_bytes() == lab.starter.read_bytes()
        assert lab.test_file.read_bytes() == mine.test_file.read_bytes()
        assert lab.bugs == tuple(replace(bug, find="", replace="") for bug in mine.bugs)


def test_its_documents_are_true(pristine):
    assert [str(finding) for finding in readmes_are_true(pristine)] == []
    readme = (pristine / "README.md").read_text()
    for lab in LABS:
        assert lab.title in readme
        own = (pristine / lab.readme.relative_to(ROOT)).read_text()
        assert "**Student edition.**" in own
        assert "- `solution.py`" not in own
    # The workflow knows no secrets and no hidden tests.
    text = (pristine / ".github/workflows/grade.yml").read_text()
    assert "persist-credentials: false" in text
    assert "contents: read" in text
    assert "secrets." not in text
    assert "overlay" not in text


def test_every_make_target_is_there_and_those_without_references_say_why(pristine):
    targets = re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.M)

    def make(*words):
        done = subprocess.run(["make", *words], cwd=pristine, capture_output=True, text=True)
        return done.returncode, done.stdout

    code, shown = make()
    assert (code, "make bundle" in shown, "gradescope" in shown) == (0, True, False)
    # -n: what would be run.
    assert make("-n", *targets)[0] == 0
    for target in targets:
        if f"make {target}" not in shown and target not in ("help", "grade"):
            code, said = make(target)
            assert code == 2
            assert f"make {target} needs what a student edition leaves out" in said


def test_a_lab_runs_and_says_what_a_mistake_looks_like(edition):
    code, out = run(edition, "labkit", "lab", "--lab", "02")
    assert (code, "score       0/100" in out) == (1, True)
    solution = pick_lab(LABS, "02").solution.read_bytes()
    wrong = solution.replace(b'text.encode("utf-8")', b'text.encode("utf-8", "replace")', 1)
    pick_lab(find_labs(edition), "02").starter.write_bytes(wrong)
    code, out = run(edition, "labkit", "lab", "--lab", "02")
    assert (code, "looks like: encode never complains" in out) == (1, True)
    pick_lab(find_labs(edition), "02").starter.write_bytes(solution)
    assert run(edition, "labkit", "lab", "--lab", "02")[0] == 0
    code, out = run(edition, "labkit", "progress")
    assert (code, "next: make lab N=03" in out) == (0, True)
    code, out = run(edition, "labkit", "solution", "--lab", "02")
    assert (code, "a student edition leaves the references out" in out) == (2, True)
    assert run(edition, "labkit", "hint", "--lab", "03", "--task", "1")[0] == 0


@pytest.mark.parametrize(
    ("implementation", "message"),
    [
        ("", "LAB_IMPL=starter tests your own file"),
        ("solution", "LAB_IMPL=starter tests your own file"),
        ("bug:latin-1", "LAB_IMPL=starter tests your own file"),
        ("starter", "utf8_expected_len is not written yet"),
    ],
)
def test_pytest_says_how_to_test_ones_own_file(untouched, implementation, message):
    folder = pick_lab(find_labs(untouched), "03").path
    env = {"LAB_IMPL": implementation} if implementation else {}
    code, out = run(untouched, "pytest", str(folder), "-q", **env)
    assert code != 0
    assert message in out


def test_a_lab_with_parts_says_which_lab_to_do_first_and_is_handed_in(edition):
    code, out = run(edition, "labkit", "lab", "--lab", "05")
    assert code != 0
    assert "lab-05 builds on StreamingDetokenizer of lab-03" in out
    assert "make lab N=03" in out
    folder = str(pick_lab(find_labs(edition), "05").path)
    _, out = run(edition, "pytest", folder, LAB_IMPL="starter", LAB_PARTS="reference")
    assert "Leave LAB_PARTS out" in out
    solve(edition, "03", "04", "01", "05")
    code, out = run(edition, "labkit", "lab", "--lab", "05")
    assert (code, "StopStringMatcher: your own" in out) == (0, True)
    assert run(edition, "labkit", "bundle", "--lab", "02")[0] == 2
    code, out = run(edition, "labkit", "bundle", "--lab", "05")
    assert (code, "100/100 when it last ran here" in out) == (0, True)
    assert (edition / "submission-lab-05.zip").exists()


def test_commands_for_instructors_say_what_they_miss(untouched):
    code, out = run(untouched, "labkit", "gradescope", "--lab", "05")
    assert (code, "not from a student edition" in out) == (2, True)
    demo = next(untouched.glob("phase-*/demo.py")).relative_to(untouched)
    done = subprocess.run(
        [sys.executable, demo], cwd=untouched, env={"PYTHONPATH": str(untouched)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "a student edition leaves the references out" in done.stderr


def test_it_is_made_anew_only(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("kept")
    for options, message in (
        ([], "OUT=../student-edition"),
        (["--out", str(tmp_path)], "is not an empty folder"),
        (["--out", str(tmp_path / "mine.txt")], "is not an empty folder"),
    ):
        assert main(["student-edition", *options], ROOT) == 2
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_it_is_not_made_of_an_edition_or_of_documents_that_it_does_not_know(pristine):
    with pytest.raises((UsageError, OSError)):
        student_edition.make_edition(pristine)
    with pytest.raises(UsageError, match="Makefile has changed"):
        student_edition._makefile((pristine / "Makefile").read_text())


# The workflow of a student's repository.


def test_the_workflow_grades_what_was_begun(edition, tmp_path, why_not, need):
    if why_not["sandbox"]:
        need("container")
    assert actions.main(["--out", str(tmp_path / "none")], edition) == 0
    assert "No lab was begun yet" in (tmp_path / "none/summary.md").read_text()
    solve(edition, "02", "05")
    out = tmp_path / "report"
    assert actions.main(["--out", str(out)], edition) == 0
    scores = {path.name: json.loads(path.read_text())["score"] for path in out.glob("*.json")}
    # The parts of lab 05 are there, and are not written yet.
    assert scores == {"lab-02.json": 100, "lab-05.json": 0}
    assert len([*out.iterdir()]) == 3
    assert "lab-02: 100 of 100 points" in (out / "summary.md").read_text()
