"""One report whoever runs the labs: for several labs, from workers, in an edition, for editors."""

import json
import shutil

import pytest

from labkit.course.lab import find_labs
from labkit.running.source import MOST_SOURCE_BYTES
from labkit.student.progress import Progress

WRONG = ("text = self._held + text", "print(text); text = self._held + text + '!'")


@pytest.fixture
def second(tiny, tiny_lab):
    """A second lab, after the first one on the ladder and built on it."""
    folder = tiny_lab.path.with_name("lab-91-more")
    shutil.copytree(tiny_lab.path, folder)
    facts = (folder / "course/lab.toml").read_text().replace("place = 1", "place = 2")
    assert "place = 2" in facts
    (folder / "course/lab.toml").write_text(f'{facts}\n[parts]\nPairs = "{tiny_lab.name}"\n')
    # It has no class of its own: all is in the part.
    (folder / "starter.py").write_text("# The part is all.\n")
    return find_labs(tiny)[1]


def solve(lab, edit=("", "")):
    lab.starter.write_text(lab.solution.read_text().replace(*edit))


def without_references(*labs):
    for lab in labs:
        lab.solution.unlink()


def test_several_labs_are_named_over_their_tables_and_end_in_one_board(
    run_pytest, tiny_lab, second
):
    solve(second, ("return rest", "return ''"))
    out = run_pytest("starter", "-q", str(tiny_lab.path.parent)).stdout
    assert out.index("\nlab-90-pairs\n") < out.index("task 1: feed is not written yet")
    assert out.index("\nlab-91-more\n") < out.index("tests   points", out.index("lab-91-more\n"))
    board = out[out.index("score   status") :]
    assert "90 Pairs    0/100   not started" in board
    assert "91 Pairs   55/100   task 2 is next" in board
    assert out.count("next:") == 1
    assert "work on task 1: make lab N=90" in " ".join(board.split())


def test_a_file_that_the_grader_does_not_read_is_named_before_its_tests(run_pytest, tiny, tiny_lab):
    tiny_lab.starter.write_text(tiny_lab.solution.read_text().ljust(MOST_SOURCE_BYTES, "#"))
    assert "100/100" in run_pytest("starter", "-q").stdout
    tiny_lab.starter.write_text(tiny_lab.starter.read_text() + "#")
    starter = str(tiny_lab.starter)
    for words in (("starter",), (starter,), ("starter", "--lab-task", "2")):
        out = " ".join(run_pytest(*words, "-q").stdout.split())
        size = "starter.py has 65,537 bytes, and the grader reads at most 65,536: hand in your code"
        assert f"cannot run: {size}" in out
        assert "next: fix the error shown above, then" in out
        assert "FAIL test_" not in out


def test_without_the_options_of_the_project_each_lab_is_imported(run_pytest, tiny_lab, second):
    done = run_pytest("solution", "-q", "-o", "addopts=", str(tiny_lab.path.parent))
    assert done.returncode == 0, done.stdout


def test_a_diagnosis_shows_nothing_that_the_code_prints(run_pytest, tiny_lab):
    solve(tiny_lab, ("text = self._held + text", "print('ab' * 3); text = 'x'"))
    out = run_pytest("starter", "-q").stdout
    # What the tests print is shown with them, below the table.
    assert "ababab" not in out[: out.index("task  ")]
    assert "printed   ababab" in out


def test_a_lab_whose_part_is_missing_fails_alone_until_that_lab_passes(
    run_pytest, tiny, tiny_lab, second
):
    solution = tiny_lab.solution.read_text()
    without_references(tiny_lab, second)
    done = run_pytest(None, "-q", str(tiny_lab.path.parent))
    assert done.returncode == 1
    assert "LAB_IMPL is not set" in done.stdout
    assert "Pass it first: make lab N=90" in done.stdout
    assert "needs lab-90 first" in done.stdout
    assert "lab-91-more" not in (tiny / ".labkit/progress.json").read_text()
    # It passes in the same run, before the lab that needs it.
    tiny_lab.starter.write_text(solution)
    done = run_pytest("starter", "-q", str(tiny_lab.path.parent))
    assert done.returncode == 0, done.stdout
    done = run_pytest("solution", "-q", str(tiny_lab.path.parent))
    assert done.returncode == 4
    assert "a student edition leaves the references out" in done.stdout


def test_workers_send_their_results_to_one_report(run_pytest, tiny, tiny_lab, tmp_path):
    solve(tiny_lab, WRONG)
    file = tmp_path / "results.json"
    options = ("-q", "--lab-results", str(file))
    alone = run_pytest("starter", *options).stdout
    expected = json.loads(file.read_text())
    (tiny / ".labkit/progress.json").unlink()
    spread = run_pytest("starter", *options, "-p", "xdist", "-n", "2").stdout
    assert json.loads(file.read_text()) == expected
    # The same report to the last letter; below it is how long it took.
    report = alone[alone.index("task  ") : alone.index("7 failed")]
    assert "printed   abc" in report
    assert spread.count(report) == 1
    assert (tiny / ".labkit/progress.json").exists()


def test_a_score_that_cannot_be_saved_costs_a_line_and_not_the_report(run_pytest, tiny, tiny_lab):
    solve(tiny_lab)
    (tiny / ".labkit").write_text("no folder")
    done = run_pytest("starter", "-q")
    assert done.returncode == 0
    assert "100/100" in done.stdout
    assert "The score is not saved, so `make progress` will not show it" in done.stdout


def test_no_score_is_saved_of_a_part_of_the_tests(run_pytest, tiny, tiny_lab):
    solve(tiny_lab, WRONG)
    for options in (["-x"], ["-k", "flush"], ["--lab-task", "1"]):
        assert "score  " in run_pytest("starter", "-q", *options).stdout
        assert Progress(tiny).record(tiny_lab).score is None


def test_no_plugin_changes_the_order_of_a_labs_tests(run_pytest, tiny, tiny_lab):
    (tiny / "shuffle.py").write_text(
        "def pytest_collection_modifyitems(items):\n    items.reverse()\n"
    )
    done = run_pytest("starter", "-v", "-p", "shuffle", PYTHONPATH=str(tiny))
    names = [
        line.partition("::")[2].split()[0] for line in done.stdout.splitlines() if "::" in line
    ]
    assert names == [test.name for test in tiny_lab.tests]


def test_each_failure_tells_editors_what_the_report_tells(run_pytest, tiny, tiny_lab, tmp_path):
    solve(tiny_lab, WRONG)
    file = tmp_path / "junit.xml"
    run_pytest("starter", "-q", "--junit-xml", str(file))
    assert "rule      Characters are emitted two by two." in file.read_text()
