"""The verbs behind the Makefile, on the tiny repository."""

import re
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import pytest

from labkit.cli import main
from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.student.progress import Progress

VERBS = [
    *("lab", "progress", "hint", "watch", "solution", "reset", "demo", "serve", "bundle"),
    *("bug", "grade", "student-edition", "gradescope", "classroom50"),
    *("check", "soak", "matrix"),
]


@pytest.fixture(autouse=True)
def _no_wishes_of_the_caller(monkeypatch):
    for name in ("LAB_IMPL", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def passed(tiny, tiny_lab):
    """The student has passed the lab."""
    tiny_lab.starter.write_text(tiny_lab.solution.read_text())
    Progress(tiny).save_score(tiny_lab, 100)
    return tiny


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["progress"], ["90 Pairs", "not started", "next: make lab N=90"]),
        (["bug", "--lab", "90"], ["triples                Threes instead of twos"]),
    ],
)
def test_the_ladder_and_known_bugs_are_shown(tiny, capsys, args, said):
    assert main(args, tiny) == 0
    out = capsys.readouterr().out
    assert [words for words in said if words not in out] == []


def test_a_lab_passes_only_as_long_as_its_files_are_unchanged(passed, tiny_lab, capsys):
    assert Progress(passed).passes(tiny_lab)
    tiny_lab.starter.write_text(tiny_lab.starter.read_text() + "# changed\n")
    assert not Progress(passed).passes(tiny_lab)
    main(["progress"], passed)
    assert "passed before, edited since" in capsys.readouterr().out
    # An unreadable file is put aside.
    (passed / ".labkit" / "progress.json").write_text("{ no json")
    assert Progress(passed).record(tiny_lab).score is None
    assert (passed / ".labkit" / "progress.unreadable.bak").exists()


def test_hints_go_one_level_deeper_each_time(tiny, capsys):
    said = []
    for _ in range(4):
        assert main(["hint", "--lab", "90", "--task", "2"], tiny) == 0
        said.append(capsys.readouterr().out)
    for level, out in zip((1, 2, 3, 3), said, strict=True):
        assert f"Text {level} of task 2." in out
    assert "hint 1 of 3: symptom 1" in said[0]
    assert "the last hint" in said[3]
    assert main(["hint", "--lab", "", "--task", ""], tiny) == 2
    assert "name a lab, for example N=90" in capsys.readouterr().err
    assert main(["hint", "--lab", "90", "--task", "7"], tiny) == 2
    assert "it has T=1, T=2" in capsys.readouterr().err


def test_solution_is_shown_only_after_passing(tiny, tiny_lab, capsys):
    assert main(["solution", "--lab", "90"], tiny) == 1
    assert "once your own passes" in capsys.readouterr().out
    Progress(tiny).save_score(tiny_lab, 100)
    assert main(["solution", "--lab", "90"], tiny) == 0
    assert tiny_lab.solution.read_text() in capsys.readouterr().out


def test_reset_asks_keeps_a_backup_and_restores(passed, tiny_lab, monkeypatch, capsys):
    mine = tiny_lab.starter.read_text()
    monkeypatch.setattr("builtins.input", Mock(side_effect=["n", EOFError, "y"]))
    # No, and no answer.
    for _ in range(2):
        assert main(["reset", "--lab", "90"], passed) == 1
        assert tiny_lab.starter.read_text() == mine
    assert main(["reset", "--lab", "90"], passed) == 0
    assert tiny_lab.starter.read_bytes() == tiny_lab.pristine_starter.read_bytes()
    (backup,) = tiny_lab.path.glob("starter.*.bak")
    assert backup.read_text() == mine
    assert main(["reset", "--lab", "90"], passed) == 0
    assert "already as it was handed out" in capsys.readouterr().out


def test_labs_are_found_by_any_spelling_of_their_number_and_listed_for_others(tiny, capsys):
    labs = find_labs(tiny)
    assert {pick_lab(labs, text).name for text in ("90", "lab-90", "90-pairs")} == {"lab-90-pairs"}
    assert main(["lab", "--lab", "77"], tiny) == 2
    assert "there is no lab '77'; the labs are N=90" in capsys.readouterr().err


def test_check_runs_the_named_gates_and_fails_on_findings(tiny, tiny_lab, capsys):
    assert main(["check", "marks", "signatures"], tiny) == 0
    assert "Every gate is ok." in capsys.readouterr().out
    text = tiny_lab.test_file.read_text().replace("points(15)", "points(14)", 1)
    tiny_lab.test_file.write_text(text)
    assert main(["check", "marks"], tiny) == 1
    assert "add up to 99, not 100" in capsys.readouterr().out
    assert main(["check", "beauty"], tiny) == 2


def test_a_broken_lab_folder_names_the_file_and_the_fix(tiny, tiny_lab, capsys):
    for text, said in (("title = ", "lab.toml"), ('title = "x"', "missing")):
        (tiny_lab.path / "lab.toml").write_text(text)
        assert main(["progress"], tiny) == 2
        assert said in capsys.readouterr().err


def test_watch_runs_again_when_the_starter_is_saved(tiny, tiny_lab, monkeypatch, capsys):
    stopped, run = threading.Event(), Mock(side_effect=[None, KeyboardInterrupt])

    def save():
        while not stopped.wait(0.1):
            (tiny_lab.path / "notes.txt").write_text(str(time.monotonic()))
            tiny_lab.starter.write_text(f"# {time.monotonic()}")

    monkeypatch.setattr("subprocess.run", run)
    editor = threading.Thread(target=save)
    editor.start()
    try:
        assert main(["watch", "--task", "2"], tiny) == 130
    finally:
        stopped.set()
        editor.join()
    runs = [args[0][1:] for args, _ in run.call_args_list]
    assert runs == [["-m", "labkit", "lab", "--lab", "90", "--task", "2"]] * 2
    out = capsys.readouterr().out
    assert out.index("Watching") < out.index("Saved; running lab-90 again")


def test_help_lists_every_verb_by_audience(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    out = capsys.readouterr().out
    listed = re.findall(r"^  ([a-z][a-z0-9-]*) {2,}\S", out[out.index("For students") :], re.M)
    assert listed == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([verb, "--help"])
    assert "usage: " in capsys.readouterr().out


def test_a_lab_does_not_wait_for_what_other_verbs_need():
    """Only what every verb needs is imported with the command line."""
    code = "import sys, labkit.cli; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "labkit.running.lab_impl" in loaded
    rooms = ("grading", "publish", "serving", "gates", "isolation")
    assert not loaded & {"pytest", "rich", *(f"labkit.{room}" for room in rooms)}
