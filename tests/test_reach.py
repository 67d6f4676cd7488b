"""What a changed file can reach: which gates run, for which labs; and that it is all they read."""

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch

import pytest

from labkit.cli import main
from labkit.course.lab import ROOT, find_labs
from labkit.gates import GATES, RUNNING
from labkit.gates.finding import takes_labs
from labkit.gates.lab_runs import runs
from labkit.gates.reach import READS, Reach

LAB = "phase-90-tiny/labs/lab-90-pairs"
ALL = {*GATES}
# They look at the whole repository, so any change reaches them.
WHOLE = {name for name in GATES if name not in READS}
# A changed file, and the gates that it reaches besides those, here for all labs.
CHANGES = [
    (f"{LAB}/test_lab.py", {"marks", "readmes", "tables", "pools", *RUNNING}),
    (f"{LAB}/course/bugs.toml", {"bugs", "diagnoses", "clients", "pools", "readmes"}),
    (f"{LAB}/course/hints.toml", {"readmes"}),
    (f"{LAB}/README.md", {"readmes"}),
    (f"{LAB}/course/predict.toml", {"predictions", "readmes"}),
    (f"{LAB}/course/race.py", {"races", "readmes"}),
    (f"{LAB}/starter.py", {"pristine", "readmes"}),
    (f"{LAB}/course/starter.py.orig",
     {"pristine", "signatures", "arrows", "starter", "order", "readmes"}),
    (f"{LAB}/course/mistakes.py", {"diagnoses", "readmes", *RUNNING}),
    (f"{LAB}/notes.txt", ALL),
    ("tests/attempts/90/echoes.py", {"order", "attempts"}),
    ("tests/attempts/90/attempts.toml", {"order", "attempts"}),
    ("tests/attempts/91/echoes.py", ALL),
    ("tests/text/test_utf8.py", set()),
    ("tests/grading/cheats_walls.py", set()),
    ("labkit/running/racing.py", {"races", "arrows"}),
    ("labkit/gates/tables.py", {"tables", "arrows"}),
    ("labkit/gates/lab_runs/hurry.py", {"arrows", *RUNNING}),
    ("labkit/isolation/worker.py", {"arrows"}),
    ("labkit/publish/bundle.py", {"arrows"}),
    ("labkit/gates/__init__.py", ALL),
    ("labkit/course/lab.py", ALL),
    ("labkit/course/gone.py", ALL),
    ("conftest.py", {*RUNNING}),
    ("pyproject.toml", ALL),
    ("requirements/dev.txt", ALL),
    ("Makefile", {"readmes"}),
    ("docs/what.md", {"readmes"}),
    ("what.bin", ALL),
]  # fmt: skip


@pytest.mark.parametrize(("file", "gates"), CHANGES)
def test_a_change_reaches_the_gates_that_read_the_file(tiny, file, gates):
    reach = Reach(tiny, find_labs(tiny))
    reached = reach.of([file])
    # What a document promises may depend on any file but these.
    promises = set() if file.startswith("tests/attempts") else {"promises"}
    assert {gate for gate, labs in reached.items() if labs != []} == gates | promises | WHOLE
    assert reach.unknown == ([file] if gates == ALL else [])


# (file of the repository, a gate, the labs that it reaches)
OF_LABS = [
    ("labs/lab-03-streaming-detokenizer/solution.py", "bugs", {"03", "05", "12"}),
    ("labs/lab-03-streaming-detokenizer/course/hints.toml", "bugs", set()),
    ("labs/lab-04-stop-strings/course/bugs.toml", "pools", {"04", "12"}),
    ("labs/lab-12-bug-hunt/adapters/lab03.py", "attempts", {"12"}),
    ("labs/lab-12-bug-hunt/pool.toml", "solution", {"12"}),
    ("tokenizers/byte_level.json", "bugs", {"06", "07", "08"}),
]


@pytest.mark.parametrize(("file", "gate", "numbers"), OF_LABS)
def test_a_change_reaches_the_labs_that_use_the_file(file, gate, numbers):
    labs = find_labs(ROOT)
    (phase,) = {lab.path.parents[1].name for lab in labs}
    reached = Reach(ROOT, labs).of([f"{phase}/{file}"])[gate]
    assert {lab.number for lab in reached} == numbers


def test_a_module_of_the_engine_reaches_the_labs_that_import_it():
    reached = Reach(ROOT, find_labs(ROOT)).of(["mini_vllm/text/utf8.py"])
    assert "12" in {lab.number for lab in reached["pools"]}
    assert "02" not in {lab.number for lab in reached["bugs"]}
    assert reached["arrows"] is None


# Runs a gate, and each run of a lab that it asks for, and writes down which files are opened.
WATCH = """
import os, sys
from pathlib import Path
gate, root, log = sys.argv[1:]
opened = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def watch(event, args):
    if event == "open" and isinstance(args[0], (str, os.PathLike)):
        path = os.path.abspath(args[0])
        if path.startswith(root):
            os.write(opened, (path[len(root) + 1:] + "\\n").encode())
import pytest
from labkit.gates import GATES
from labkit.gates.lab_runs import runs
def run_lab(root, lab, implementation, hurry=1.0, collected=None):
    if (pid := os.fork()) == 0:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        os.environ |= {"LAB_IMPL": implementation, "LAB_PARTS": "reference"}
        os.chdir(root)
        pytest.main([*runs._arguments(root, lab, hurry)])
        os._exit(0)
    os.waitpid(pid, 0)
    return {"error": "only watched"}
runs.run_lab = run_lab
sys.addaudithook(watch)
for finding in GATES[gate](Path(root)):
    pass
"""
# What a run reads to say which labs pass, and whether the solution may be shown: no gate asks.
TOLD = ("starter.py",)


@pytest.mark.parametrize("gate", READS)
def test_a_gate_reads_of_a_lab_what_is_declared_and_no_more(tiny, tmp_path, gate):
    log = tmp_path / "opened"
    subprocess.run([sys.executable, "-B", "-c", WATCH, gate, str(tiny), str(log)],
                   cwd=ROOT, check=True)  # fmt: skip
    opened = set(log.read_text().split("\n")) if log.exists() else set()
    names = {path.removeprefix(f"{LAB}/") for path in opened
             if path.startswith(f"{LAB}/") and "__pycache__" not in path}  # fmt: skip
    allowed = (*READS[gate], *(TOLD if gate in RUNNING else ()))
    assert not {n for n in names if not any(fnmatch(n, pattern) for pattern in allowed)}
    attempts = {path for path in opened if path.startswith("tests/attempts/")}
    assert bool(attempts) == (gate in ("order", "attempts"))
    if gate in ("bugs", "attempts", "readmes"):
        assert names


def changed(tiny, *arguments):
    for command in arguments:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", *command.split()],
            cwd=tiny, check=True, capture_output=True,
        )  # fmt: skip


def test_check_runs_what_changes_reach_and_says_what_it_leaves_out(tiny, tiny_lab, capsys):
    assert main(["check", "marks", "--changed"], tiny) == 2
    assert "which knows no commit in" in capsys.readouterr().err
    changed(tiny, "init -q", "add -A", "commit -qm first", "tag first")
    gates = ["marks", "predictions", "races", "signatures"]
    assert main(["check", *gates, "--changed"], tiny) == 0
    out = capsys.readouterr().out
    assert "0 files differ from HEAD." in out
    assert f"Left out, because no change reaches them: {', '.join(gates)}." in out
    predict = tiny_lab.path / "course/predict.toml"
    predict.write_text(predict.read_text().replace('answer = "1"', 'answer = "3"'))
    # It counts as changed in the working tree, as a commit of the branch, and as against a commit.
    for commands, base in ([], ""), (["add -A", "commit -qm second"], "first"):
        changed(tiny, *commands)
        assert main(["check", *gates, "--changed", *filter(None, [base])], tiny) == 1
        out = capsys.readouterr().out
        assert "Left out, because no change reaches them: marks, races, signatures." in out
        assert "predictions: only lab-90." in out
        assert "question 2: the reference gives 1" in out
    assert main(["check", "marks", "--changed", "nowhere"], tiny) == 2
    assert "--changed nowhere: git knows no commit" in capsys.readouterr().err
    (tiny / "what.bin").write_bytes(b"")
    assert main(["check", "marks", "--changed"], tiny) == 0
    out = capsys.readouterr().out
    assert "what.bin: its readers are not known, so everything runs." in out
    assert re.search(r"^marks +ok", out, re.MULTILINE)


def test_check_of_a_lab_leaves_the_others_alone(tiny, tiny_lab, capsys):
    other = tiny_lab.path.with_name("lab-91-other")
    shutil.copytree(tiny_lab.path, other)
    text = (other / "test_lab.py").read_text()
    (other / "test_lab.py").write_text(text.replace("points(10)", "points(11)"))
    assert main(["check", "marks", "edition", "--lab", "90"], tiny) == 0
    assert "because they look at the whole repository: edition" in capsys.readouterr().out
    for option in (["--lab", "90,91"], ["--lab", "90", "--lab", "91"], ["--lab", "lab-91"]):
        assert main(["check", "marks", *option], tiny) == 1
        assert "marks: lab-91-other/test_lab.py: the points add up" in capsys.readouterr().out
    changed(tiny, "init -q", "add -A", "commit -qm first")
    for path in (tiny_lab.test_file, other / "test_lab.py"):
        path.write_text(f"{path.read_text()}# changed\n")
    assert main(["check", "marks", "--changed", "--lab", "90"], tiny) == 0
    capsys.readouterr()
    assert main(["check", "marks", "--lab", "90,04"], tiny) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "labkit: there is no lab '04'; the labs are N=90, N=91"


@pytest.mark.parametrize("gate", [name for name in GATES if takes_labs(GATES[name])])
def test_a_gate_of_no_lab_finds_nothing(tiny, gate, monkeypatch):
    monkeypatch.setattr(runs, "run_lab", None)
    assert [*GATES[gate](tiny, [])] == []
