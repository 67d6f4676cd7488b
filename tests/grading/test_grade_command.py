"""`python -m labkit grade`: its options, reports, and exit codes."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from walled import brief

from labkit.cli import main
from labkit.course.lab import find_labs
from labkit.errors import InfrastructureError, UsageError
from labkit.grading import cohort as grading_cohort
from labkit.grading.command import add_options, report_options
from labkit.grading.grader import grade as grade_one

ROOT = Path(__file__).resolve().parents[2]
OVERLAY = Path(__file__).with_name("overlay")


@pytest.fixture
def cohort(tiny, tiny_lab):
    """A folder with three submissions: right, as handed out, and damaged."""
    folder = tiny / "hand-ins"
    folder.mkdir()
    (folder / "ada.py").write_bytes(tiny_lab.solution.read_bytes())
    (folder / "bob").mkdir()
    (folder / "bob" / "starter.py").write_bytes(tiny_lab.pristine_starter.read_bytes())
    (folder / "cy.zip").write_bytes(b"PK")
    return folder


@pytest.fixture
def grade(tiny):
    """Run the verb in this process; returns its exit code."""

    def run(*args):
        return main(["grade", "--trust", "--jobs", "1", *map(str, args)], tiny)

    return run


@pytest.fixture
def quick(monkeypatch, sandbox_in):
    """Grade in this process, for tests of what is done with grades."""

    def grade_all(submissions, assignments, *, mode, **options):
        sandbox = sandbox_in(mode)
        return [grade_one(one, assignments[one.lab], sandbox) for one in submissions]

    monkeypatch.setattr(grading_cohort, "grade_all", grade_all)


def first_points(text):
    return int(re.search(r"points\(([0-9]+)\)", text)[1])


def scores(path):
    return {one["student"]: one["score"] for one in json.loads(path.read_text())["grades"]}


def test_one_file_is_shown_in_full_unless_quiet_and_a_low_score_is_not_an_error(
    quick, grade, tiny_lab, capsys
):
    assert grade(tiny_lab.solution) == 0
    out = capsys.readouterr().out
    assert "lab-90-pairs, handed in by solution" in out
    assert "score       100/100" in out
    assert "mode trust" in out
    assert grade(tiny_lab.solution, "--quiet") == 0
    assert capsys.readouterr().out == ""
    assert grade(tiny_lab.starter) == 0
    assert "score       0/100" in capsys.readouterr().out


def test_reports_are_there_whatever_becomes_of_what_is_printed(
    quick, grade, tiny_lab, tmp_path, monkeypatch, capsys
):
    shown = Mock(side_effect=ValueError("this cannot be shown"))
    monkeypatch.setattr("labkit.grading.reports.terminal.report_text", shown)
    assert grade(tiny_lab.solution, "--json", tmp_path / "x.json") == 3
    assert scores(tmp_path / "x.json") == {"solution": 100}


def test_doubtful_grades_are_named_with_what_to_do(
    grade, tiny_lab, sandbox_in, tmp_path, monkeypatch, capsys
):
    def grade_all(submissions, assignments, *, regrade_doubtful, **options):
        sandbox = sandbox_in("trust")
        found = grade_one(submissions[0], assignments[tiny_lab.name], sandbox)
        return [found if regrade_doubtful else replace(found, doubt="it was killed")]

    monkeypatch.setattr(grading_cohort, "grade_all", grade_all)
    assert grade(tiny_lab.solution) == 0
    err = capsys.readouterr().err
    assert "1 doubtful, because processes were killed: solution. " in err
    assert "then run the same command again" in err
    ledger = ("--ledger", tmp_path / "ledger")
    assert grade(tiny_lab.solution, "--regrade-doubtful", *ledger) == 0
    assert "doubtful" not in capsys.readouterr().err


def test_every_file_that_is_written_is_tried_first_and_none_that_is_read_is_overwritten():
    parser = argparse.ArgumentParser()
    add_options(parser)
    options = [(action.metavar, action.option_strings) for action in parser._actions]
    written = {names[0] for metavar, names in options if metavar == "FILE"} - {"--ledger"}
    read = {names[0] for metavar, names in options if metavar == "CSV"} | {"--ledger"}
    chosen = report_options(parser.parse_args([f"{name}={name}" for name in written | read]))
    assert chosen.files == {name[2:]: Path(name) for name in written}
    assert chosen.marks.files == {name[2:]: Path(name) for name in read}


FORMATS = ("json", "csv", "junit", "html", "projector", "pairs")


def test_a_cohort_gives_a_table_and_reports(quick, grade, cohort, tmp_path, capsys):
    files = {name: tmp_path / f"grades.{name}" for name in FORMATS}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    assert grade(cohort, "--lab", "90", *options) == 0
    said = capsys.readouterr()
    assert "3 graded, 1 with every point, 2 with none" in said.out
    assert "\n\nlab-90, Pairs: 3 submissions\n  points    median 0, mean 33.33 of 100" in said.out
    assert [line for line in said.out.splitlines() if line.startswith("wrote ")] == [
        f"wrote {path}" for path in files.values()
    ]
    assert scores(files["json"]) == {"ada": 100, "bob": 0, "cy": 0}
    assert len(files["csv"].read_text().splitlines()) == 4
    assert files["junit"].read_text().startswith("<?xml")
    assert "ada" in files["html"].read_text()
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in files.values())
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "repo", *files.values()])


def test_runs_write_the_same_bytes_however_many_jobs_and_a_ledger_remembers(
    grade, cohort, tiny, tmp_path, monkeypatch, capsys
):
    written = []

    def run(*options):
        place = tmp_path / f"run-{len(written)}"
        place.mkdir()
        reports = [word for name in FORMATS for word in (f"--{name}", place / name)]
        assert grade("--lab", "90", "--quiet", *options, *reports, cohort) == 0
        written.append({path.name: path.read_bytes() for path in place.iterdir()})
        assert capsys.readouterr().err.splitlines()[-1] == "3 of 3 graded"

    run("--jobs", 2)
    run("--jobs", 1, "--ledger", tmp_path / "ledger")
    monkeypatch.setattr("labkit.grading.cohort.Pool", lambda *args: pytest.fail("graded again"))
    run("--ledger", tmp_path / "ledger")
    assert written[0] == written[1] == written[2]
    assert len(written[0]) == len(FORMATS)
    assert not any(str(tmp_path).encode() in data for data in written[0].values())


def test_a_lab_that_lost_points_is_named(quick, grade, tiny_lab, capsys):
    text = tiny_lab.test_file.read_text()
    assert grade(tiny_lab.solution) == 0
    assert "points instead of" not in capsys.readouterr().err
    tiny_lab.test_file.write_text(text.replace(f"points({first_points(text)})", "points(1)", 1))
    assert grade(tiny_lab.solution) == 0
    lost = first_points(text) - 1
    assert f"labkit: lab-90-pairs has {100 - lost} points instead of 100" in capsys.readouterr().err


def test_the_seed_is_told_and_part_of_what_was_graded(quick, grade, tiny_lab, tmp_path):
    found = []
    for seed in ("0", "7"):
        grade(tiny_lab.solution, "--seed", seed, "--json", tmp_path / "x.json")
        (one,) = json.loads((tmp_path / "x.json").read_text())["grades"]
        found.append((one["seed"], one["assignment"]))
    assert [seed for seed, _ in found] == ["0", "7"]
    assert found[0][1] != found[1][1]


def test_answers_from_a_table_fail_hidden_tests_only_and_these_are_marked(
    quick, tmp_path, monkeypatch, capsys
):
    """Right wherever the public tests have looked, wrong elsewhere."""
    brief(monkeypatch)
    (lab,) = (lab for lab in find_labs(ROOT) if lab.number == "02")
    right = "if token_id not in _SPECIAL_TEXT:"
    table = "if token_id not in (*_SPECIAL_TEXT, 10**20):"
    source, report = lab.solution.read_text(), tmp_path / "x.json"
    assert source.count(right) == 1
    (tmp_path / "lab-02.py").write_text(source.replace(right, table))
    words = ["--overlay", OVERLAY, "--json", report, tmp_path / "lab-02.py"]
    assert main(["grade", "--trust", "--seed", "0", *map(str, words)], ROOT) == 0
    (one,) = json.loads(report.read_text())["grades"]
    (failed,) = (test for test in one["tests"] if not test["passed"])
    told = (failed["name"], failed["max_score"], failed["visibility"])
    assert told == ("test_hidden_unknown_ids", 2, "hidden")
    assert (one["score"], one["max_score"]) == (98, 100)
    assert "FAIL test_hidden_unknown_ids (task 4, 2 points, hidden)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nowhere"], "there is no nowhere"),
        (["--lab", "77", "."], "there is no lab '77'"),
        (["--lab", "90", "empty"], "nothing to grade in empty"),
        (["hand-ins"], "is unknown: name the lab"),
        (["--lab", "90", "--jobs", "0", "hand-ins"], "--jobs 0"),
        (["--lab", "90", "--json", "no/where.json", "hand-ins"], "there is no folder no"),
        (["--lab", "90", "--csv", "empty", "hand-ins"], "empty is a folder"),
        (["--lab", "90", "--html", "/proc/x.html", "hand-ins"], "/proc"),
        (["--lab", "90", "--overlay", "no", "hand-ins"], "there is no overlay folder no"),
        ([], "name the submissions"),
        (["--diff", "no.json", "no.json"], "--diff no.json cannot be read"),
        (["--diff", "no.json", "no.json", "hand-ins"], "leave hand-ins to another run"),
        (["--lab", "90", "--anonymous", "--feedback", "f", "hand-ins"], "leave --anonymous to"),
        (["--lab", "90", "--earlier", ".", "hand-ins"], "--earlier needs --html"),
        (["--lab", "90", "--regrade-doubtful", "hand-ins"], "needs --ledger"),
        (["--lab", "90", "--overlay", "empty", "hand-ins"], "no hidden tests of lab-90-pairs"),
        (["--lab", "90", "--csv", "x", "--html", "./x", "hand-ins"], "would overwrite --csv x"),
        (["--lab", "90", "--json", "x", "--ledger", "x", "hand-ins"], "overwrite --ledger x"),
        (["--lab", "90", "--feedback", "x.zip", "x.zip"], "would overwrite x.zip"),
        (["--lab", "90", "--anonymous-key", "f", "hand-ins"], "needs --anonymous"),
        (["--lab", "90", "--canvas", "f", "hand-ins"], "--canvas needs --roster FILE"),
        (
            ["--lab", "90", "--feedback", "hand-ins", "hand-ins"],
            "is not feedback; name a new folder",
        ),
    ],
)
def test_a_mistake_on_the_command_line_is_one_line(
    grade, tiny, cohort, monkeypatch, capsys, args, words
):
    (tiny / "empty").mkdir()
    monkeypatch.chdir(tiny)
    assert grade(*args) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_children_can_be_waited_for_where_their_signal_was_ignored(grade):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert grade() == 2
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("args", [["--trust", "--container", "x"], ["--jobs", "many", "x"]])
def test_options_that_do_not_parse_are_a_mistake_too(tiny, args, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["grade", *args], tiny)
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"labkit: argument {args[0 if 'many' in args else 1]}: ")
    assert err.endswith("; `python -m labkit grade --help` shows its options\n")
    assert err.count("\n") == 1


def test_without_walls_it_refuses_and_says_how_to_get_them(tiny, tiny_lab, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tiny))
    assert main(["grade", str(tiny_lab.solution)], tiny) == 2
    said = capsys.readouterr()
    assert "apt install bubblewrap" in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (InfrastructureError("the sandbox died"), 3, "labkit: the sandbox died\n"),
        (OSError(28, "No space left on device"), 3, "No space left on device"),
        (MemoryError(), 3, "out of memory"),
        (ZeroDivisionError("a mistake"), 3, "this is a bug in the grader"),
        (UsageError("another grader is using the ledger"), 2, "another grader"),
    ],
)
def test_what_no_submission_is_to_blame_for_is_3(
    grade, tiny_lab, monkeypatch, capsys, error, code, words
):
    monkeypatch.setattr(grading_cohort, "grade_all", Mock(side_effect=error))
    assert grade(tiny_lab.solution) == code
    said = capsys.readouterr()
    assert words in said.err
    assert said.out == ""


@pytest.mark.parametrize(("place", "name"), [(tempfile, "mkstemp"), (os, "replace")])
def test_on_a_full_disk_a_report_stays_as_it_was(
    quick, grade, tiny_lab, tmp_path, monkeypatch, capsys, place, name
):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "x.json").write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(place, name, Mock(side_effect=OSError(28, "No space left on device")))
        assert grade(tiny_lab.solution, "--quiet", "--json", folder / "x.json") == 3
    assert "No space left on device" in capsys.readouterr().err
    assert (folder / "x.json").read_text() == "old"
    assert [*folder.iterdir()] == [folder / "x.json"]


def test_a_pipe_is_written_to_and_a_link_keeps_pointing_where_it_did(
    quick, grade, tiny_lab, tmp_path
):
    # Not a real device: tests run as root, and one that fails would replace it.
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    (tmp_path / "real.json").write_text("old")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    reports = ["--csv", tmp_path / "pipe", "--json", tmp_path / "link.json"]
    with open(reader, "rb") as pipe:
        assert grade(tiny_lab.solution, "--quiet", *reports) == 0
        assert pipe.read().startswith(b"assignment,")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link.json").is_symlink()
    assert scores(tmp_path / "real.json") == {"solution": 100}


def test_the_command_works_from_anywhere(tmp_path):
    (tmp_path / "ada-lab-02.py").write_text("import os\nos._exit(0)\n")
    command = [sys.executable, "-m", "labkit", "grade", "--trust", "--seed", "0", "ada-lab-02.py"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "score       0/100" in done.stdout
    assert done.stderr == ""
