"""The verbs behind the Makefile, on the tiny repository."""

import os

import pytest

from labkit.cli import main
from labkit.course.lab import find_labs
from labkit.student.progress import Progress


@pytest.fixture
def passed(tiny, tiny_lab):
    """The student has passed the lab."""
    tiny_lab.starter.write_text(tiny_lab.solution.read_text())
    Progress(tiny).save_score(tiny_lab, 100)
    return tiny


def test_progress_shows_the_ladder_and_what_is_next(tiny, capsys):
    assert main(["progress"], tiny) == 0
    out = capsys.readouterr().out
    assert "90 Pairs" in out
    assert "not started" in out
    assert "next: make lab N=90" in out


def test_a_lab_passes_only_as_long_as_its_files_are_unchanged(passed, tiny_lab, capsys):
    assert Progress(passed).passes(tiny_lab)
    tiny_lab.starter.write_text(tiny_lab.starter.read_text() + "# changed\n")
    assert not Progress(passed).passes(tiny_lab)
    main(["progress"], passed)
    assert "passed before, edited since" in capsys.readouterr().out


def test_an_unreadable_progress_file_is_put_aside(passed, tiny_lab):
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


def test_hint_needs_lab_and_task(tiny, capsys):
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
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert main(["reset", "--lab", "90"], passed) == 1
    assert tiny_lab.starter.read_text() == mine
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert main(["reset", "--lab", "90"], passed) == 0
    assert tiny_lab.starter.read_bytes() == tiny_lab.pristine_starter.read_bytes()
    (backup,) = tiny_lab.path.glob("starter.*.bak")
    assert backup.read_text() == mine
    assert main(["reset", "--lab", "90"], passed) == 0
    assert "already as it was handed out" in capsys.readouterr().out


def test_reset_without_an_answer_changes_nothing(passed, tiny_lab, monkeypatch):
    def no_input(question):
        raise EOFError

    monkeypatch.setattr("builtins.input", no_input)
    mine = tiny_lab.starter.read_text()
    assert main(["reset", "--lab", "90"], passed) == 1
    assert tiny_lab.starter.read_text() == mine


def test_an_unknown_lab_lists_the_known_ones(tiny, capsys):
    assert main(["lab", "--lab", "77"], tiny) == 2
    assert "there is no lab '77'; there is N=90" in capsys.readouterr().err


def test_labs_are_found_by_any_spelling_of_their_number(tiny):
    from labkit.course.lab import pick_lab

    labs = find_labs(tiny)
    assert {pick_lab(labs, text).name for text in ("90", "lab-90", "90-pairs")} == {"lab-90-pairs"}


def test_bug_lists_the_known_bugs(tiny, capsys):
    assert main(["bug", "--lab", "90"], tiny) == 0
    assert "triples                Threes instead of twos" in capsys.readouterr().out


def test_check_runs_the_named_gates_and_fails_on_findings(tiny, tiny_lab, capsys):
    assert main(["check", "marks", "signatures"], tiny) == 0
    assert "Every gate is ok." in capsys.readouterr().out
    text = tiny_lab.test_file.read_text().replace("points(15)", "points(14)", 1)
    tiny_lab.test_file.write_text(text)
    assert main(["check", "marks"], tiny) == 1
    assert "add up to 99, not 100" in capsys.readouterr().out
    assert main(["check", "beauty"], tiny) == 2


def test_a_broken_lab_folder_names_the_file_and_the_fix(tiny, tiny_lab, capsys):
    (tiny_lab.path / "lab.toml").write_text("title = ")
    assert main(["progress"], tiny) == 2
    assert "lab.toml" in capsys.readouterr().err
    (tiny_lab.path / "lab.toml").write_text('title = "x"')
    assert main(["progress"], tiny) == 2
    assert "missing" in capsys.readouterr().err


def test_watch_runs_again_when_the_starter_is_saved(tiny, tiny_lab):
    import subprocess
    import sys
    import time
    from pathlib import Path

    here = Path(__file__).resolve().parents[1]
    code = f"import labkit.cli, pathlib; labkit.cli.main(['watch'], pathlib.Path({str(tiny)!r}))"
    log = tiny / "log"
    env = {**os.environ, "PYTHONPATH": f"{here}:{tiny}", "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", code]
    with log.open("w") as out:
        watcher = subprocess.Popen(command, cwd=tiny, env=env, stdout=out, stderr=out)

    def wait_for(text):
        for _ in range(200):
            if text in log.read_text():
                return True
            time.sleep(0.1)
        return False

    try:
        assert wait_for("Watching")
        time.sleep(2)
        tiny_lab.starter.write_text(tiny_lab.solution.read_text())
        assert wait_for("Saved; running lab-90 again")
    finally:
        watcher.terminate()
        watcher.wait(timeout=20)
