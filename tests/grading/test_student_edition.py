"""The student edition: nothing of the references is in it, and what it says can be run."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from walled import brief

from labkit.cli import main
from labkit.course.lab import find_labs, pick_lab
from labkit.errors import UsageError
from labkit.gates.edition import broken_links, commands, untrue_texts
from labkit.gates.readmes import readmes_are_true
from labkit.publish import actions, student_edition
from labkit.serving import serve
from labkit.student.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
LABS = find_labs(ROOT)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("LAB_IMPL", "LAB_PARTS"):
        monkeypatch.delenv(name, raising=False)


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
        source, told = lab.solution.read_text(), lab.pristine_starter.read_text()
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef) or node.name == "__init__":
                continue
            statements = node.body[ast.get_docstring(node) is not None :]
            if not statements:
                continue
            first = statements[0]
            body = "\n".join(source.splitlines()[first.lineno - 1 : node.end_lineno])
            if len(body) > 60 and body not in told:
                bodies += 1
                found = re.sub(r"\s+", " ", body) in squeezed
                assert not found, f"{lab.label} {node.name}"
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


def test_starters_are_as_they_were_written_and_the_known_bugs_are_not_there(pristine):
    for lab, mine in zip(find_labs(pristine), LABS, strict=True):
        assert lab.starter.read_bytes() == mine.pristine_starter.read_bytes()
        assert lab.pristine_starter.read_bytes() == lab.starter.read_bytes()
        assert lab.test_file.read_bytes() == mine.test_file.read_bytes()
        assert lab.bugs == ()
    assert not [*pristine.rglob("KILL_MATRIX.md"), *pristine.rglob("bugs.toml")]


def test_its_documents_are_true(pristine):
    found = [*readmes_are_true(pristine), *untrue_texts(pristine), *broken_links(pristine)]
    assert [str(finding) for finding in found] == []
    assert len(commands(pristine)) > 20
    # The workflow knows no secrets and no hidden tests.
    text = (pristine / ".github/workflows/grade.yml").read_text()
    assert "persist-credentials: false" in text
    assert "contents: read" in text
    assert "secrets." not in text
    assert "overlay" not in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "Read the\nreference first.",
            "line 3: 'Read the\\nreference' is not for a student edition",
        ),
        ("`LAB_IMPL=bug:NAME`", "'LAB_IMPL=bug' is not for"),
        ("[a](#the-ladder-1)", "the link to #the-ladder-1: there is no such heading"),
        ("[a](labs/nowhere.md)", "the link to labs/nowhere.md leads nowhere"),
        ("[a](#what-holds-held) [b](README.md#what-holds-held) `[c](d)`", ""),
    ],
)
def test_an_untrue_document_is_found(tmp_path, line, said):
    (tmp_path / "README.md").write_text(f"## What holds `held`?\n\n{line}\n")
    found = [*untrue_texts(tmp_path), *broken_links(tmp_path)]
    assert len(found) == bool(said)
    assert said in "".join(map(str, found))


def test_a_marker_shows_a_text_in_one_edition_only():
    text = "a\n\n<!-- full -->\nb\n<!-- /full -->\n<!-- edition\nc\n-->\n\nd `<!-- full -->`\n"
    shown = student_edition.edition_text("README.md", text)
    assert shown == "a\n\nc\n\nd `<!-- full -->`\n"
    for wrong in ("<!-- full -->\nb\n", " <!-- edition\nc\n-->\n", "b <!-- /full -->\n"):
        with pytest.raises(UsageError, match=r"README.md: the marker '.*' has no counterpart"):
            student_edition.edition_text("README.md", wrong)


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
            assert f"make {target} needs what a student edition leaves out" in said or (
                target,
                "your instructor has them" in said,
            ) == ("solution", True)


def test_a_lab_runs_and_says_what_a_mistake_looks_like(edition):
    code, out = run(edition, "labkit", "lab", "--lab", "02")
    assert (code, "score       0/100" in out) == (1, True)
    solution = pick_lab(LABS, "02").solution.read_bytes()
    wrong = solution.replace(b'text.encode("utf-8")', b'text.encode("utf-8", "replace")', 1)
    pick_lab(find_labs(edition), "02").starter.write_bytes(wrong)
    code, out = run(edition, "labkit", "lab", "--lab", "02", "--task", "1")
    assert (code, "looks like:" in out) == (1, True)
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
        ("", "utf8_expected_len is not written yet"),
        ("solution", "LAB_IMPL=starter tests your own file"),
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


FINISH = 'return self._end("length")'
REASON = "return self._finish_reason\n"
# What is solved, an edit of lab 05's solution, and what make demo and make serve say of it.
STATES = {
    "nothing": ("", None, "builds on StreamingDetokenizer of lab-03, which does not pass"),
    "02 and 03": ("02 03", None, "builds on StopStringMatcher of lab-04, which does not pass"),
    "all but 05": ("02 03 04 01", None, "lab-05 task 1: feed is still to do. Go on with `make lab"),
    "task 1": ("03 04 01", (REASON, "raise NotImplementedError('2')\n"), ": 2 is still to do"),
    "tasks 1 and 2": ("03 04 01", (FINISH, "raise NotImplementedError('3')"), ""),
    "all": ("02 03 04 01 05", None, ""),
}


@pytest.mark.parametrize(("solved", "edit", "said"), STATES.values(), ids=STATES)
def test_demo_and_serve_run_from_task_2_of_lab_05_on_and_say_before_what_is_to_do(
    edition, solved, edit, said, monkeypatch, capsys
):
    solve(edition, *solved.split())
    if edit:
        source = pick_lab(LABS, "05").solution.read_text()
        assert edit[0] in source
        pick_lab(find_labs(edition), "05").starter.write_text(source.replace(*edit, 1))
    monkeypatch.setattr(sys, "argv", sys.argv)
    notes = []
    monkeypatch.setattr(serve, "serve", lambda *_, note, **__: notes.append(note) or 0)
    for words, implementation in ((["demo", "--text", "a END"], ""), (["serve"], "starter")):
        monkeypatch.setenv("LAB_IMPL", implementation)
        try:
            code = main(words, edition)
        except SystemExit as stopped:
            code = stopped.code
        out, errors = capsys.readouterr()
        assert (code, said in errors) == (2 if said else 0, True)
        whose = "".join(notes) if words == ["serve"] else out
        if not said:
            assert "Text path: starter.py of lab-05" in whose
            assert whose.count(": your own, lab-0") == 3
    monkeypatch.delenv("LAB_IMPL")
    assert main(["serve"], edition) == 0
    assert "the engine's own" in notes[-1]


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


def test_the_workflow_grades_what_was_begun(edition, tmp_path, why_not, need, monkeypatch):
    brief(monkeypatch)
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
