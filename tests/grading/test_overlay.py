import shutil
from functools import cache, partial
from pathlib import Path

import pytest
from walled import brief

from labkit.course.lab import find_labs
from labkit.errors import UsageError
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.overlay import VISIBILITIES, read_overlay
from labkit.grading.reading.submission import Submission
from labkit.running.drive import Driver, perform
from labkit.running.lab_impl import Implementation
from labkit.running.score import classify
from labkit.running.source import load_source
from labkit.running.trace import Failure

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = Path(__file__).resolve().parent / "overlay"
LABS = {lab.label: lab for lab in find_labs(ROOT)}
# Each hidden test, and a bug of the kill matrix that it must find.
KILLS = {
    "lab-02": {
        "test_hidden_scripts": "code-points",
        "test_hidden_unknown_ids": "unknown-ignored",
        "test_hidden_specials_anywhere": "skip-breaks",
    },
    "lab-04": {
        "test_hidden_overlapping_starts": "restart",
        "test_hidden_ties": "shortest-wins",
        "test_hidden_exact_and_eager": "keeps-hopeless",
        "test_hidden_chunk_invariant": "list-order",
    },
}


def assignment_of(label, folder=EXAMPLE):
    lab = LABS[label]
    return Assignment.of(lab, [*LABS.values()], "0", read_overlay(folder, lab))


def source_of(label, bug=""):
    lab = LABS[label]
    known = next((row for row in lab.bugs if row.name == bug), None)
    return Implementation("bug" if bug else "solution", lab.solution, known).source()


@pytest.fixture(scope="module")
def graded(sandbox_in):
    """Grade the solution of lab 02 or a bug with the hidden tests; each only once."""

    @cache
    def of(bug="", folder=EXAMPLE):
        told = assignment_of("lab-02", folder)
        submission = Submission("ada", told.lab.name, {told.lab.name: source_of("lab-02", bug)})
        with pytest.MonkeyPatch.context() as patch:
            brief(patch)
            return grade(submission, told, sandbox_in("trust"))

    return of


def kinds_of_hidden_tests(label, bug=""):
    """The results of the hidden tests only, on an implementation in this process."""
    overlay = assignment_of(label).overlay
    module = load_source(source_of(label, bug), "solution.py", f"{label}.py", "under_test.hidden")
    found = {}
    for test in overlay.tests:
        driver = Driver(partial(perform, vars(module).__getitem__), f"0/{test.name}")
        try:
            overlay.functions()[test.name](driver)
            found[test.name] = "passed"
        except Failure as failure:
            found[test.name] = classify(failure).kind
    return found


@pytest.mark.parametrize("label", KILLS)
def test_each_hidden_test_passes_the_solution_and_finds_a_known_bug(label):
    assert kinds_of_hidden_tests(label) == dict.fromkeys(KILLS[label], "passed")
    for test, bug in KILLS[label].items():
        assert kinds_of_hidden_tests(label, bug)[test] in ("assertion", "raised"), (test, bug)


def test_the_solution_has_all_points_and_hidden_tests_run_after_all_that_students_may_see(graded):
    """Else a submission could remember hidden data and tell it in a visible test's message."""
    got = graded()
    assert [test.name for test in got.tests if not test.passed] == []
    assert (got.score, got.max_score) == (100, 100)
    assert {test.name for test in got.tests} >= {*KILLS["lab-02"]}
    order = [VISIBILITIES.index(test.visibility) for test in got.tests]
    assert order == sorted(order)
    assert order[-1] == VISIBILITIES.index("hidden")
    # The first of its file, though it may be seen from the start.
    assert read_overlay(EXAMPLE, LABS["lab-04"]).tests[0].visibility == "visible"


def test_a_known_bug_is_named_though_hidden_tests_fail_too(graded):
    got = graded("skip-breaks")
    kinds = {test.name: test.kind for test in got.tests}
    assert kinds["test_hidden_specials_anywhere"] in ("assertion", "raised")
    assert got.looks_like == "skip-breaks"


def test_points_move_from_the_test_that_is_varied():
    lab = LABS["lab-04"]
    public = {test.name: test.points for test in read_overlay(EXAMPLE, lab).public_tests()}
    before = {test.name: test.points for test in lab.tests}
    moved = {name: before[name] - points for name, points in public.items()}
    assert {name: points for name, points in moved.items() if points} == {
        "test_overlapping_starts": 2,
        "test_longest_wins_a_tie": 3,
        "test_property_ends_where_a_stop_does": 3,
        "test_property_chunk_invariant": 3,
    }
    assert sum(test.points for test in assignment_of("lab-04").tests) == 100


VARIED = {test.name: test.points for test in LABS["lab-04"].tests}["test_rejects_a_bare_string"]
# A hidden test may take all points but one of the test that it varies.
TAKES = f"points({VARIED - 1})"
GOOD = f"""
import pytest
from labkit.testing import expect


@pytest.mark.task(4)
@pytest.mark.{TAKES}
@pytest.mark.varies("test_rejects_a_bare_string")
@pytest.mark.visibility("hidden")
def test_hidden_one(lab):
    lab.rejects(lab.new("StopStringMatcher", "STOP"))
"""


def write(tmp_path, text):
    folder = tmp_path / LABS["lab-04"].name
    folder.mkdir(parents=True)
    (folder / "test_hidden.py").write_text(text, encoding="utf-8")
    return read_overlay(tmp_path, LABS["lab-04"])


def test_a_good_overlay_is_read(tmp_path):
    (test,) = write(tmp_path, GOOD).tests
    (varied,) = (known for known in LABS["lab-04"].tests if known.name == test.varies)
    assert varied.name == "test_rejects_a_bare_string"
    assert (test.rule, test.points, test.visibility) == (varied.rule, VARIED - 1, "hidden")


@pytest.mark.parametrize(
    ("find", "replace", "message"),
    [
        ('varies("test_rejects_a_bare_string")', 'varies("test_new_rule")', "NAME one of"),
        ('@pytest.mark.varies("test_rejects_a_bare_string")\n', "", "name the test that it varies"),
        ("test_rejects_a_bare_string", "test_naive_check_leaks_the_stop", "NAME one of"),
        ("task(4)", "task(2)", "is of task 4"),
        (TAKES, "points(0)", "at least 1"),
        (TAKES, f"points({VARIED})", f"take {VARIED} of its {VARIED} points"),
        (TAKES, "points(99)", f"take 99 of its {VARIED} points"),
        ('visibility("hidden")', 'visibility("secret")', "'secret' is unknown"),
        ("    lab.rejects", '    """A new rule."""\n    lab.rejects', "remove its docstring"),
        ("def test_hidden_one", "def test_flush_once", "rename"),
        ('@pytest.mark.visibility("hidden")', "@pytest.mark.skip", "'skip' does not belong"),
        ("def test_hidden_one", "def hidden_one", "has no test"),
        ("import expect", "import expects", "cannot be imported: ImportError"),
        ("def test_hidden_one(lab):", "def test_hidden_one(lab)", "line 10"),
        ("import pytest\n", "import pytest\npytest.skip('')\n", "cannot be imported: Skipped"),
        (GOOD, GOOD.replace(TAKES, "points(1)") * 2, "defined twice"),
    ],
)
def test_an_overlay_that_breaks_a_rule_is_refused(tmp_path, find, replace, message):
    assert find in GOOD
    with pytest.raises(UsageError, match="test_hidden") as error:
        write(tmp_path, GOOD.replace(find, replace))
    assert message in str(error.value)


def test_a_missing_folder_or_file_is_named_but_a_lab_needs_no_hidden_tests(tmp_path):
    assert read_overlay(EXAMPLE, LABS["lab-03"]) is None
    with pytest.raises(UsageError, match="no overlay folder"):
        read_overlay(tmp_path / "nowhere", LABS["lab-04"])
    (tmp_path / LABS["lab-04"].name).mkdir()
    with pytest.raises(UsageError, match=r"has no test_hidden\.py"):
        read_overlay(tmp_path, LABS["lab-04"])


def test_an_overlay_elsewhere_works_the_same(tmp_path, graded):
    shutil.copytree(EXAMPLE, tmp_path / "copy")
    assert graded("skip-breaks", tmp_path / "copy") == graded("skip-breaks")
