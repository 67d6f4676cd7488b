"""The verbs behind the Makefile, on the tiny repository."""

import builtins
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from labkit import cli
from labkit.cli import main
from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.student.board import compared
from labkit.student.predict import _say
from labkit.student.progress import Progress, Record
from labkit.student.watch import Watcher

ATTEMPT = "tests/attempts/90"
VERBS = [verb for table in cli._tables() for verb in table.verbs]


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


def test_a_run_of_an_untouched_starter_begins_no_lab(tiny, tiny_lab, capsys):
    Progress(tiny).save_score(tiny_lab, 0, {1, 2})
    main(["progress"], tiny)
    assert "not started" in capsys.readouterr().out
    # The points of a file that is no longer there.
    Progress(tiny).save_score(tiny_lab, 68, {2})
    main(["progress"], tiny)
    assert re.search("68/100 +reset since", capsys.readouterr().out)
    tiny_lab.starter.write_text(tiny_lab.starter.read_text() + "# mine\n")
    main(["progress"], tiny)
    assert "in progress" in capsys.readouterr().out


def test_a_lab_passes_as_long_as_its_files_are_some_that_passed(passed, tiny_lab, capsys):
    mine = tiny_lab.starter.read_text()
    assert Progress(passed).passes(tiny_lab)
    tiny_lab.starter.write_text(mine + "# changed\n")
    assert not Progress(passed).passes(tiny_lab)
    main(["progress"], passed)
    assert "passed, edited since" in capsys.readouterr().out
    # The score of the edited file is not shown as that of a file that passed.
    Progress(passed).save_score(tiny_lab, 60, {2})
    main(["progress"], passed)
    assert "60/100  passed before" in capsys.readouterr().out
    # What passed once passes again when it is back, without a run.
    tiny_lab.starter.write_text(mine)
    main(["progress"], passed)
    assert "100/100  passed" in capsys.readouterr().out
    # But the last run of a file decides.
    Progress(passed).save_score(tiny_lab, 95, {1})
    assert not Progress(passed).passes(tiny_lab)


def test_progress_of_an_earlier_version_is_read_and_what_cannot_be_is_put_aside(passed, tiny_lab):
    file = passed / ".labkit" / "progress.json"
    data = json.loads(file.read_text())[tiny_lab.name]
    kept = {name: data[name] for name in ("score", "starter", "tests", "solved", "hints")}
    file.write_text(json.dumps({tiny_lab.name: kept}))
    assert Progress(passed).passes(tiny_lab)
    file.write_text("{ no json")
    assert Progress(passed).record(tiny_lab).score is None
    assert (passed / ".labkit" / "progress.unreadable.bak").exists()


def test_hints_go_one_level_deeper_each_time(tiny, capsys):
    said = []
    for _ in range(4):
        assert main(["hint", "--lab", "90", "--task", "2"], tiny) == 0
        said.append(capsys.readouterr().out)
    for level, out in zip((1, 2, 3, 3), said, strict=True):
        assert f"Text {level} of task 2." in out
    assert "task 2 (flush), hint 1 of 3" in said[0]
    assert "symptom 1" in said[0]
    assert "the last hint" in said[3]
    assert main(["hint", "--lab", "90", "--task", "7"], tiny) == 2
    assert "it has T=1, T=2" in capsys.readouterr().err
    main(["progress"], tiny)
    assert re.search(r"90 Pairs .* 3 +5 min", capsys.readouterr().out)


def test_a_hint_without_numbers_is_for_what_comes_next(tiny, tiny_lab, run_pytest, capsys):
    main(["hint"], tiny)
    assert "lab-90 task 1 (feed), hint 1 of 3" in capsys.readouterr().out
    tiny_lab.starter.write_text((tiny / ATTEMPT / "after_task_1.py").read_text())
    run_pytest("starter")
    main(["hint"], tiny)
    out = capsys.readouterr().out
    assert "lab-90 task 2 (flush), hint 1 of 3" in out
    assert "One level deeper: make hint N=90 T=2" in out
    tiny_lab.starter.write_text(tiny_lab.solution.read_text())
    run_pytest("starter")
    with pytest.raises(SystemExit, match="0"):
        main(["hint"], tiny)
    assert "Every lab passes. To go back to a lab, name it" in capsys.readouterr().out
    assert main(["hint", "--lab", "90"], tiny) == 0
    assert "it needs no hint" in capsys.readouterr().out


def test_hints_start_from_the_diagnosis_of_the_last_report(tiny, tiny_lab, run_pytest, capsys):
    right = tiny_lab.solution.read_text()
    eager = right.replace("len(text) // 2 * 2", "len(text)")

    def hint(*options):
        assert main(["hint", "--lab", "90", *options], tiny) == 0
        return " ".join(capsys.readouterr().out.split())

    tiny_lab.starter.write_text(eager)
    run_pytest("starter")
    first = hint()
    assert "task 1 (feed), from the last report, hint 1 of 4: The odd character is not" in first
    assert "the rest has to wait for the next feed" in first.lower()
    assert "One level deeper: make hint N=90 T=1" in first
    # The second hint of the task has this symptom, and the two others do not.
    second = hint("--task", "1")
    assert "symptom 2 Text 2 of task 1. The other hints of this task: make hint N=90 T=1" in second
    assert "hint 3 of 4: symptom 1 Text 1" in (third := hint())
    assert "One level deeper" not in third
    assert "symptom 3 Text 3 of task 1. This is the last hint of this task." in hint()
    # The report speaks of no other task.
    assert "task 2 (flush), hint 1 of 3: symptom 1 Text 1 of task 2" in hint("--task", "2")
    # A diagnosis without a hint of its symptom; then a report without a diagnosis.
    tiny_lab.starter.write_text(right.replace("//", "// 3 * 3 //"))
    run_pytest("starter", "--lab-task", "1")
    assert "task 1 (feed), hint 1 of 3: symptom 1" in hint()
    tiny_lab.starter.write_text(right.replace("return rest", "return ''"))
    run_pytest("starter")
    drops = hint()
    assert "hint 1 of 4: The last character is missing." in drops
    assert "The other hints of this task: make hint N=90 T=2" in drops
    assert "hint 2 of 4: symptom 1 Text 1 of task 2" in hint()
    # After a reset the report is about code that is not there any more.
    tiny_lab.starter.write_bytes(tiny_lab.pristine_starter.read_bytes())
    assert "from the last report" not in hint()


def test_what_is_at_work_is_the_lab_of_the_last_run_until_it_passes(tiny_lab, tmp_path):
    first, second = (
        replace(tiny_lab, path=tmp_path / name, place=n) for n, name in enumerate("ab")
    )
    for lab in (first, second):
        shutil.copytree(tiny_lab.path, lab.path)
    progress = Progress(tmp_path)
    assert progress.at_work([first, second]) == first
    progress.save_score(second, 20, {1})
    assert Progress(tmp_path).at_work([first, second]) == second
    progress.save_score(second, 100)
    assert progress.at_work([first, second]) == first


def test_tasks_that_ran_alone_count_for_what_comes_next(tiny, tiny_lab, run_pytest, capsys):
    tiny_lab.starter.write_text((tiny / ATTEMPT / "after_task_1.py").read_text())
    for task, following in ((1, 2), (2, 2)):
        run_pytest("starter", "--lab-task", str(task))
        main(["hint"], tiny)
        assert f"lab-90 task {following} " in capsys.readouterr().out
    tiny_lab.starter.write_text(tiny_lab.pristine_starter.read_text())
    run_pytest("starter", "--lab-task", "1")
    main(["hint"], tiny)
    assert "lab-90 task 1 " in capsys.readouterr().out


def test_a_read_only_folder_costs_a_hint_its_memory_only(tiny, monkeypatch, capsys):
    monkeypatch.setattr("pathlib.Path.mkdir", Mock(side_effect=OSError(30, "Read-only", ".labkit")))
    assert main(["hint", "--lab", "90"], tiny) == 0
    said = capsys.readouterr()
    assert "Text 1 of task 1." in said.out
    assert "your progress was not saved: .labkit: Read-only" in said.err


def predict(tiny, monkeypatch, *answers, lab=()):
    monkeypatch.setattr("builtins.input", Mock(side_effect=answers))
    return main(["predict", *lab], tiny)


def test_predictions_are_asked_explained_and_counted(tiny, monkeypatch, capsys):
    # By value without quotes; what is neither choice nor value; by label, a letter as the choices
    # are numbers; skipped.
    assert predict(tiny, monkeypatch, "ab", "7", "A", "") == 0
    # All questions of a lab have the same kind of label.
    assert [each.args for each in builtins.input.call_args_list] == [("your answer (a-c): ",)] * 4
    out = capsys.readouterr().out
    assert "Right. The odd one waits." in out
    assert "Type one of a, b, c, or the value" in out
    assert "No: 1. Two of the three have been emitted." in out
    assert "1 of 3 right, 1 not answered." in out
    main(["progress"], tiny)
    assert re.search(r"predicted .*\n.* 1/3 ", capsys.readouterr().out)


@pytest.mark.parametrize("ending", [KeyboardInterrupt, EOFError])
def test_predictions_end_politely_and_keep_what_was_answered(tiny, monkeypatch, capsys, ending):
    assert predict(tiny, monkeypatch, "b", ending) == 0
    out = capsys.readouterr().out
    assert "Stopped here; your answers are kept." in out
    assert "next: make lab N=90, after reading phase-90-tiny/labs/lab-90-pairs/README.md" in out
    main(["progress"], tiny)
    assert "1/3" in capsys.readouterr().out
    # The next time goes on from there, and after a lab nothing is left to read before it.
    monkeypatch.setattr(Progress, "passes", lambda *_: True)
    assert predict(tiny, monkeypatch, ending, lab=["--lab", "90"]) == 0
    out = capsys.readouterr().out
    assert "Stopped here.\n" in out
    assert "1 of 3 right, 2 not answered (with your earlier answers)." in out
    assert "next:" not in out


def test_a_path_after_predictions_stays_whole_to_be_copied(capsys):
    path = "phase-16-serving-apis-and-parsers/labs/lab-02-byte-tokenizer/README.md"
    _say(f"next: make lab N=02, after reading {path}")
    assert f"\n{path}\n" in capsys.readouterr().out


def race(tiny, tiny_lab, capsys, source):
    tiny_lab.starter.write_text(source)
    code = main(["race", "--lab", "90"], tiny)
    return code, capsys.readouterr().out


def test_a_race_compares_with_reference_and_naive_version(passed, tiny_lab, capsys):
    code, out = race(passed, tiny_lab, capsys, tiny_lab.solution.read_text())
    assert code == 0
    assert "lab-90 Pairs: 201 pieces, all in one run" in out
    rows = re.findall(r"^(\w[\w ()]+[\w)]) +[\d,]+ +█+ +([\d.]+)$", out, re.M)
    # Labs have different naive versions, so this one is named.
    late = [("naive version (all at the end)", "101.0"), ("library", "101.0")]
    assert rows == [("yours", "0.5"), ("reference", "0.5"), *late]
    # However the lines are broken: a slow machine has long numbers.
    assert re.search("Your code .* the reference.*; it holds 0.5 on average", " ".join(out.split()))
    main(["progress"], passed)
    line = r"race 90: [\d,]+ ns per piece, which .* the reference, 0.5 characters held"
    assert re.search(line, " ".join(capsys.readouterr().out.split()))
    assert "does not pass" not in out
    # A race needs the right output on its own input, and no points.
    code, out = race(passed, tiny_lab, capsys, tiny_lab.solution.read_text() + "# edited\n")
    assert (code, "0.5 on average" in " ".join(out.split())) == (0, True)
    assert "Your code does not pass lab-90 yet: the race shows only" in " ".join(out.split())


def test_a_race_is_told_in_words_that_fit_its_ratio():
    assert compared(0.016, "naive version") == "is 62.5 times as fast as the naive version"
    assert compared(1.04, "reference") == "is as fast as the reference"
    assert compared(1.0, "DecodeStream") == "is as fast as DecodeStream"
    assert compared(18.6, "reference") == "takes 18.6 times as long as the reference"


def test_a_race_without_a_reference_is_against_the_naive_version(passed, tiny_lab, capsys):
    source = tiny_lab.solution.read_text()
    tiny_lab.solution.unlink()
    code, out = race(passed, tiny_lab, capsys, source)
    assert code == 0
    assert re.findall("^(reference|naive version) ", out, re.M) == ["naive version"]
    beside = "There is no reference here: your code runs beside the naive version (all at the end)"
    assert " ".join(out.split()).endswith(f"{beside} and the library.")


@pytest.mark.parametrize(
    ("find", "replace", "said"),
    [
        ("return text[:even]", "return text[:even].upper()", "at piece 2, 'b', your output 'AB'"),
        ("return rest", "return rest + 'x'", "at flush, your output 'kx'"),
        ("return rest", "return ''", "at flush, your output ''"),
        ("even =", "even = 1 / 0 #", "starter.py raised ZeroDivisionError at piece 1, 'a'"),
        ("even =", "raise NotImplementedError('lab-90 task 1') #", "lab-90 task 1 is not written"),
        ("class Pairs", "class Other", "starter.py has no class Pairs"),
        ("class Pairs", "import numpy\nclass Pairs", "imports 'numpy'"),
    ],
)
def test_what_is_wrong_does_not_race(tiny, tiny_lab, capsys, find, replace, said):
    code, out = race(
        tiny, tiny_lab, capsys, tiny_lab.solution.read_text().replace(find, replace, 1)
    )
    assert (code, "ns per" in out) == (1, False)
    assert said in out
    assert "needs the right output on the race's input: make lab N=90" in out


def test_only_labs_with_a_race_have_one(tiny, tiny_lab, capsys):
    assert main(["race"], tiny) == 1
    assert "the labs with a race are N=90." in capsys.readouterr().out
    (tiny_lab.path / "course/race.py").unlink()
    assert main(["race", "--lab", "90"], tiny) == 1
    assert "lab-90 has no race; the labs with a race are none." in capsys.readouterr().out


def test_solution_is_shown_only_after_passing(tiny, tiny_lab, capsys):
    assert main(["solution", "--lab", "90"], tiny) == 1
    assert "once your code passes" in capsys.readouterr().out
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
    assert "unchanged since it was handed out" in capsys.readouterr().out


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
    facts = (tiny_lab.path / "course/lab.toml").read_text()
    for text, said in (
        ("title = ", "lab.toml"),
        ('title = "x"', "missing"),
        (f"{facts}\n[given]\nmodules = 'json'", "lab.toml: [given] holds modules"),
        (
            f"{facts}\n[given]\nmodules = ['mini_vllm.gone']",
            "'mini_vllm.gone', which is not a module",
        ),
    ):
        (tiny_lab.path / "course/lab.toml").write_text(text)
        assert main(["progress"], tiny) == 2
        assert said in capsys.readouterr().err


class Run:
    """A run of a lab that ends when the test says so."""

    def __init__(self):
        self.returncode, self.told_to_end = None, False

    def poll(self):
        return self.returncode

    def terminate(self):
        self.told_to_end, self.returncode = True, -15

    def wait(self, timeout=None):
        return self.returncode


def watch(labs, root, script, *, goes_on=True):
    """Watch `labs[0]` while `script` yields what was saved since the last look."""
    runs = []

    def start(lab):
        runs.append((lab.number, Run()))
        return runs[-1][1]

    watcher = Watcher(labs, root, start, goes_on=goes_on)
    watcher.watch(labs[0], script(runs))
    watcher.stop()
    return runs


@pytest.fixture
def two_labs(tiny, tiny_lab):
    """The tiny lab and a copy of it as lab 91, the next step of the ladder."""
    copy = shutil.copytree(tiny_lab.path, tiny_lab.path.with_name("lab-91-more-pairs"))
    facts = (copy / "course/lab.toml").read_text()
    (copy / "course/lab.toml").write_text(facts.replace("place = 1", "place = 2"))
    return find_labs(tiny)


def test_a_save_ends_the_run_and_starts_one_of_the_lab_that_was_saved(tiny, two_labs, capsys):
    first, second = two_labs

    def script(runs):
        yield set()
        yield {first.starter}
        assert runs[0][1].told_to_end
        runs[1][1].returncode = 1
        # Nothing happens after a run that failed.
        yield set()
        assert len(runs) == 2
        yield {second.starter}
        runs[2][1].returncode = 1
        yield set()
        yield {second.starter}

    runs = watch(two_labs, tiny, script)
    assert [number for number, _ in runs] == ["90", "90", "91", "91"]
    assert [run.told_to_end for _, run in runs] == [True, False, False, True]
    out = capsys.readouterr().out
    assert out.index("Watching") < out.index("running lab-90 again") < out.index("lab-91")


def test_watch_goes_on_to_the_next_lab_when_one_passes(tiny, two_labs, capsys):
    def script(runs):
        for lab in two_labs:
            Progress(tiny).save_score(lab, 100)
            runs[-1][1].returncode = 0
            yield set()
        pytest.fail("it goes on although every lab passes")

    runs = watch(two_labs, tiny, script)
    assert [number for number, _ in runs] == ["90", "91"]
    out = capsys.readouterr().out
    assert "Next is lab-91, Pairs: read phase-90-tiny/labs/lab-91-more-pairs/README.md" in out
    assert "Every lab passes" in out


@pytest.fixture
def two_tracks(tiny, two_labs):
    """The same two labs, the second of them in the advanced track."""
    file = two_labs[1].path / "course/lab.toml"
    file.write_text(f'track = "advanced"\n{file.read_text()}')
    return find_labs(tiny)


def test_the_board_shows_two_tracks_and_the_first_may_be_the_last(tiny, two_tracks, capsys):
    main(["progress"], tiny)
    before = capsys.readouterr().out
    assert re.search(r"core track\n +1 .*90 Pairs.*\n +advanced track\n +2 .*91 Pairs", before)
    assert before.endswith("\n\nnext: make lab N=90\n")
    Progress(tiny).save_score(two_tracks[0], 100)
    main(["progress"], tiny)
    done = "the core track is done, a complete course: see it work with make demo"
    after = " ".join(capsys.readouterr().out.split())
    assert done in after
    assert after.endswith("to continue with the advanced track: make lab N=91")
    Progress(tiny).save_score(two_tracks[1], 100)
    main(["progress"], tiny)
    assert "Every lab passes" in capsys.readouterr().out

    def script(runs):
        Progress(tiny).save_score(two_tracks[0], 100)
        runs[-1][1].returncode = 0
        yield set()

    Progress(tiny).save_score(two_tracks[1], 0)
    watch(two_tracks, tiny, script)
    out = capsys.readouterr().out
    assert f"\nT{done[1:]}" in out
    assert out.index("complete course") < out.index("Next is lab-91")


@pytest.mark.parametrize("width", [36, 60, 80])
@pytest.mark.parametrize(
    ("passing", "own"),
    [
        ("", []),
        ("02 03", ["tokens 03"]),
        ("03 04 01 05", ["tokens 03", "stops 04", "calls 01", "pipeline 05"]),
        ("03 07 09 11", ["tokens 07", "reasoning 09", "calls 09", "frames 11"]),
    ],
)
def test_the_board_fits_its_terminal_and_fills_the_boxes_of_ones_own_layers(
    passing, own, width, monkeypatch, capsys
):
    passes = passing.split()
    monkeypatch.setattr(Progress, "passes", lambda _, lab: lab.number in passes)
    record = Record(score=55, predictions={"1": True}, hints={"1": 2})
    monkeypatch.setattr(Progress, "record", lambda *_: record)
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["progress"], ROOT) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert "\x1b" not in out
    # A row for each lab and for each track, and the head.
    assert len(out.partition("\n\n")[0].splitlines()) == len(find_labs(ROOT)) + 3
    assert ("06 The incremental detokenizer" in out) == (width > 36)
    extra = [word for word in ("predicted", "hints", "time") if word in out]
    assert extra == (["predicted", "hints"] if width == 80 else [])
    filled = re.findall(r"│▓+ (\w+) ▓+│", out)
    assert filled == [each.split()[0] for each in own if "pipeline" not in each]
    assert ("▓ pipeline, lab 05 ▓" in out) == ("pipeline 05" in own)
    for role, number in map(str.split, own):
        assert f"lab {number}" in out.partition(f" {role}")[2]


def test_watch_stays_with_a_task_and_with_a_lab_whose_score_was_not_saved(tiny, two_labs):
    def script(runs):
        runs[-1][1].returncode = 0
        yield set()
        yield set()

    assert len(watch(two_labs, tiny, script)) == 1
    Progress(tiny).save_score(two_labs[0], 100)
    assert len(watch(two_labs, tiny, script, goes_on=False)) == 1


def test_watch_starts_runs_and_ends_them_with_ctrl_c(tiny, tiny_lab, monkeypatch, capsys):
    runs, looks, masks = [Run(), Run()], [], []

    def start(*_, **__):
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        return runs[len(masks) - 1]

    def changes(*folders, watch_filter, **options):
        looks.append(folders)
        looks.extend(watch_filter(1, str(folders[0] / name)) for name in ("starter.py", "x.py"))
        yield {(1, str(tiny_lab.starter))}
        raise KeyboardInterrupt

    popen = Mock(side_effect=start)
    monkeypatch.setattr("subprocess.Popen", popen)
    monkeypatch.setattr("watchfiles.watch", changes)
    assert main(["watch", "--task", "2", "--", "-s"], tiny) == 0
    commands = [args[0][1:] for args, _ in popen.call_args_list]
    assert commands == [["-m", "labkit", "lab", "--lab", "90", "--task", "2", "--", "-s"]] * 2
    assert looks == [(tiny_lab.path,), True, False]
    assert all(run.told_to_end for run in runs)
    # A run that Ctrl-C reaches while it starts would end with a traceback.
    assert all(signal.SIGINT in mask for mask in masks)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "Stopped." in capsys.readouterr().out


def test_watch_ends_by_a_ctrl_c_that_comes_while_a_run_starts(tiny, tiny_lab, monkeypatch):
    run = Run()

    def start(*_, **__):
        os.kill(os.getpid(), signal.SIGINT)
        return run

    monkeypatch.setattr("subprocess.Popen", start)
    monkeypatch.setattr("watchfiles.watch", lambda *_, **__: map(pytest.fail, ["it goes on"]))
    assert main(["watch"], tiny) == 0
    assert run.told_to_end
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_run_that_is_told_to_end_says_nothing():
    code = """
import os, pathlib, signal
from labkit.running.limits.watchdog import Watchdog
Watchdog(os.dup(1), pathlib.Path("starter.py")).begin("test_slow", 5.0)
os.kill(os.getpid(), signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (143, "")


@pytest.mark.parametrize(
    ("verb", "code", "env", "ends_quietly"),
    [
        ("lab", 1, {}, True),
        ("lab", 137, {}, True),
        ("lab", 1, {"CI": "true"}, False),
        ("demo", 2, {}, False),
        ("hint", 2, {}, False),
        ("grade", 2, {}, False),
    ],
)
def test_make_adds_nothing_to_what_a_students_verb_says_but_in_ci(verb, code, env, ends_quietly):
    # Nothing is set up or run: the verb is a shell that ends with this code.
    command = ["make", verb, "PYTHON=true", f"labkit=sh -c 'exit {code}'"]
    env = {"PATH": os.environ["PATH"], **env}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if ends_quietly:
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
    else:
        assert done.returncode == 2
        assert f"Error {code}" in done.stderr


@pytest.mark.parametrize("name", ["labkit.cli", "labkit.student.show", "pytest"])
def test_ctrl_c_while_a_verb_is_imported_shows_no_traceback(name):
    # Some imports swallow a KeyboardInterrupt, as this one does.
    code = f"""
import importlib.abc, runpy, signal, sys
class Press(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                pass
sys.meta_path.insert(0, Press())
sys.argv = ["labkit", "show", "--help"]
runpy.run_module("labkit", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nStopped.\n")


def test_a_terminal_without_unicode_can_be_asked_predictions():
    # Most of lab 02's are about characters of several bytes.
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "predict", "--lab", "02"],
        cwd=ROOT, env={"PATH": os.environ["PATH"], "PYTHONIOENCODING": "ascii"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_named_is_soaked_and_a_failure_is_shown(tiny, tiny_lab, capfd):
    assert main(["soak", "labs", "--seeds", "1"], tiny) == 0
    assert capfd.readouterr().out == "All labs with seed 1 of 1\n"
    shutil.copy(tiny_lab.pristine_starter, tiny_lab.solution)
    (tiny / "tests/test_soak.py").write_text(
        "import os\n\ndef test_soak():\n    assert os.environ['SOAK'] == '1'\n"
    )
    assert main(["soak", "tests/test_soak.py", "labs", "--seeds", "1"], tiny) == 1
    out = capfd.readouterr().out
    assert "Many more examples of tests/test_soak.py\n" in out
    assert "1 passed" in out
    assert "lab-90 task 1" in out
    for name in ("mutant", "tests/no.py", "labkit", "../tests"):
        assert main(["soak", name], tiny) == 2
        parts = "labs, mutants, recordings, tests, or paths in tests/"
        said = f"labkit: there is no {name!r} to soak; name {parts}\n"
        assert capfd.readouterr().err == said


def test_lab_passes_options_on_to_pytest(tiny, monkeypatch):
    run = Mock(return_value=1)
    monkeypatch.setattr("pytest.main", run)
    monkeypatch.setattr("os.chdir", Mock())
    monkeypatch.setenv("LAB_IMPL", "")
    assert main(["lab", "--lab", "90", "--task", "2", "--", "-s", "-k", "flush"], tiny) == 1
    assert run.call_args[0][0][-5:] == ["--lab-task", "2", "-s", "-k", "flush"]


def listed_verbs(root, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"], root)
    out = capsys.readouterr().out
    return re.findall(r"^  ([a-z][a-z0-9-]*) {2,}\S", out[out.index("For students") :], re.M)


def test_without_known_bugs_none_are_listed(tiny, tiny_lab, capsys):
    (tiny_lab.path / "course/bugs.toml").unlink()
    assert main(["bug", "--lab", "90"], tiny) == 2
    assert "lab-90 has no known bugs here" in capsys.readouterr().err


def test_help_lists_every_verb_by_audience(capsys):
    assert listed_verbs(ROOT, capsys) == VERBS


def test_without_references_help_lists_no_verb_that_needs_them(tiny, tiny_lab, capsys):
    tiny_lab.solution.unlink()
    first = VERBS[: VERBS.index("bug")]
    listed = [verb for verb in first if verb != "solution"]
    assert listed_verbs(tiny, capsys) == listed
    with pytest.raises(SystemExit, match="2"):
        main(["labs"], tiny)
    offer = f"there is no verb 'labs'; the verbs are {', '.join(listed)}; `"
    assert offer in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([verb, "--help"])
    assert "usage: " in capsys.readouterr().out


def test_a_lab_does_not_wait_for_what_other_verbs_need():
    """Only what every verb needs is imported with the command line."""
    code = "import sys; from labkit.cli import _tables; _tables(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "labkit.running.lab_impl" in loaded
    rooms = ("grading", "publish", "serving", "gates", "isolation")
    assert not loaded & {"pytest", "rich", *(f"labkit.{room}" for room in rooms)}


@pytest.mark.parametrize(
    ("output", "code", "words"),
    [
        (">&-", 0, ""),
        pytest.param(
            ">/dev/full", 2, "labkit: the output: No space left on device\n",
            marks=pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full"),
        ),
    ],
)  # fmt: skip
def test_an_output_that_is_closed_or_full_is_no_traceback(output, code, words):
    command = f"exec '{sys.executable}' -m labkit progress {output}"
    done = subprocess.run(command, shell=True, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (code, words)
