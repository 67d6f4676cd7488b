"""Feedback: what a student reads, what nobody else's page says, and files that do no harm."""

import json
import os
import zipfile
from dataclasses import replace
from decimal import Decimal

import pytest
from browser import open_browser
from made_grades import made_grade, made_test

from labkit.course.lab import find_labs
from labkit.errors import UsageError
from labkit.grading.assignment import Assignment
from labkit.grading.feedback.account import account_of
from labkit.grading.feedback.files import check_place, file_names, write_files
from labkit.grading.feedback.pages import Pages, text
from labkit.grading.grader import record_first
from labkit.grading.marks.given_points import Adjustment
from labkit.grading.marks.mark import Mark
from labkit.grading.reading.submission import Submission
from labkit.running.recording.reading import packed, unpacked
from labkit.running.recording.recording import CallRow, Recording, Step
from labkit.running.result_kind import ResultKind

ATTACK = "</pre><script>document.title='taken'</script><img src=http://127.0.0.1:9/x onerror=x>"


@pytest.fixture
def lab(tiny):
    return find_labs(tiny)[0]


@pytest.fixture
def grade():
    """One test that passed, one that failed on a secret case, and a hidden one that failed."""
    failed = made_test("test_b", 2, 30, "assertion", "SECRET CASE", "SECRET DETAIL")
    hidden = made_test("test_hidden", 2, 20, "assertion", "HIDDEN", "HIDDEN")
    tests = (
        made_test("test_a", 1, 50),
        replace(failed, for_student=f"It passes with seed 0. {ATTACK}"),
        replace(hidden, visibility="after_published"),
    )
    return made_grade("Ada_7_assignsubmission_file", tests, seed="SECRET", looks_like="triples")


def both(account):
    return Pages().html(account), text(account)


def test_a_student_reads_their_points_rules_mistake_and_mark_and_nothing_secret(lab, grade):
    given = (Adjustment(Decimal(5), "talk"), Adjustment(Decimal(-1), ATTACK))
    mark = Mark(grade.student, lab.name, 50, 100, Decimal("2.5"), given)
    for told in both(account_of(grade, lab, "Ada Lovelace", mark)):
        for words in (
            "Ada Lovelace", "50", "of 100 points for the tests", "51.5", "-2.5 for being late",
            "+5 talk", "Text is emitted in threes.", "make hint N=90 T=2", "test_b",
            "task 2, 30 points",
            "It passes with seed 0.", "0 of 20", "not shown",
        ):  # fmt: skip
            assert words in told
        for words in ("SECRET", "HIDDEN", "test_hidden", "Ada_7", "test_a"):
            assert words not in told


def test_without_a_mark_only_the_score_is_told_and_a_right_one_has_no_hints(lab, grade):
    right = replace(grade, tests=grade.tests[:1], looks_like=None)
    for told in both(account_of(right, lab, "Ada", None)):
        assert "50 of 50" in told.replace("</b>", "")
        assert "mark" not in told.partition("</style>")[2].lower()
        assert "hint" not in told


def test_what_waits_for_one_thing_is_told_once_and_a_fault_alone(lab, grade):
    waiting = [
        replace(one, kind=ResultKind.UNWRITTEN, message="flush is not written")
        for one in grade.tests
    ]
    for told in both(account_of(replace(grade, tests=(*waiting,)), lab, "Ada", None)):
        assert told.count("flush is not written") == 1
        assert "2 tests wait for code that is not written yet" in told
    for told in both(account_of(replace(grade, fault=f"it is a zip {ATTACK}"), lab, "A", None)):
        assert "No test could run: it is a zip" in told
        assert "make hint" not in told
    # A hint for a task does not help with a file that cannot be imported.
    broken = [replace(one, kind=ResultKind.LOAD, message="line 3") for one in grade.tests]
    remarks = ("a.py was graded; b.py was not",)
    account = account_of(replace(grade, tests=(*broken,), remarks=remarks), lab, "Ada", None)
    for told in both(account):
        assert "make hint" not in told
        assert "make lab N=90 shows the line" in told
        assert "Remark: a.py was graded; b.py was not" in told


def test_names_are_the_platforms_and_no_file_systems(tmp_path):
    entries = {
        "Ada Lovelace_101_assignsubmission_file": "Ada Lovelace_101_assignsubmission_file_",
        "Ada Lovelace_102_assignsubmission_file_starter": "Ada Lovelace_102_assignsubmission_file_",
        "lovelaceada_LATE_11_900_starter-1": "lovelaceada_11_900_",
        "12_13_14_starter": "student 12_13_14_",
        "ada": "ada_",
        "CON": "student CON_",
        "con.x": "student con.x_",
        "..": "student_",
        "../../etc/passwd": "etc-passwd_",
        "a_7_8_b/../c": "a_7_8_",
        ".hidden": "hidden_",
        "-rf": "rf_",
        "a\x00b\n\u202ec": "a-b--c_",
        "東京 é": "東京 é_",
    }
    names = file_names(entries, "lab-90")
    assert names == {entry: f"{name}feedback-lab-90" for entry, name in entries.items()}


def test_no_two_names_are_equal_whatever_tells_them_apart(tmp_path):
    entries = [
        "Ada",
        "ada",
        "ADA",
        "é",
        "e\u0301",
        "a/b",
        "a\\b",
        "x" * 300,
        "x" * 400,
        "\ufb01",
        "fi",
    ]
    entries += ["東" * 300, "\ud800", "?"]
    names = [*file_names(entries, "lab-90").values()]
    assert len({name.casefold() for name in names}) == len(names) == len(entries)
    assert max(len(f"{name}.html".encode()) for name in names) < 255
    folder = tmp_path / "new"
    write_files(folder, {f"{name}.txt": name for name in names}, ["lab-90"])
    assert sorted(path.read_text() for path in folder.iterdir()) == sorted(names)


def test_a_folder_of_feedback_is_written_anew_and_one_of_other_things_is_left_alone(tmp_path):
    folder = tmp_path / "feedback"
    write_files(
        folder, {"ada_feedback-lab-90.txt": "1", "bob_feedback-lab-90.txt": "1"}, ["lab-90"]
    )
    write_files(folder, {"ada_feedback-lab-91.txt": "1"}, ["lab-91"])
    write_files(folder, {"ada_feedback-lab-90.txt": "2"}, ["lab-90"])
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found == {"ada_feedback-lab-90.txt": "2", "ada_feedback-lab-91.txt": "1"}
    (folder / "notes.txt").write_text("mine")
    for place in (folder, tmp_path / "no" / "feedback", folder / "notes.txt"):
        with pytest.raises(UsageError, match=r"name a new|make it first"):
            check_place(place)


def test_links_are_not_followed(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    folder, link = tmp_path / "feedback", tmp_path / "link"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    link.symlink_to(tmp_path / "elsewhere")
    (folder / "ada_feedback-lab-90.txt").symlink_to(mine)
    for place in (folder, link):
        with pytest.raises(UsageError, match="name a new"):
            write_files(place, {"ada_feedback-lab-90.txt": "2"}, ["lab-90"])
    archive = tmp_path / "out.zip"
    archive.symlink_to(mine)
    write_files(archive, {"ada_feedback-lab-90.txt": "2"}, ["lab-90"])
    assert mine.read_text() == "mine"
    assert os.path.islink(folder / "ada_feedback-lab-90.txt")
    assert zipfile.ZipFile(archive).read("ada_feedback-lab-90.txt") == b"2"


def test_in_a_browser_nothing_runs_and_nothing_is_fetched(tmp_path, lab, grade):
    path = tmp_path / "page.html"
    account = account_of(replace(grade, fault=ATTACK), lab, ATTACK, None)
    path.write_text(Pages().html(account), encoding="utf-8")
    with open_browser() as browser:
        browser.get_log("browser")
        browser.get(path.as_uri())
        assert browser.title == "Feedback on lab-90"
        assert browser.get_log("browser") == []
        assert browser.find_elements("css selector", "img, script") == []
        assert ATTACK in browser.find_element("css selector", "pre").get_property("textContent")


def a_recording():
    """A recording of two calls, which opens at its last step."""
    steps = [
        Step(2, "line", "feed", 1, 1, 0, 0, {"n": ("", "1")}, {"text": "'a'"}),
        Step(3, "line", "feed", 1, 1, 0, 0, printed=ATTACK),
        Step(3, "return", "feed", 1, 1, 0, 0, value="''"),
    ]
    recording = Recording("difference", f"line 3 {ATTACK}", 2, steps=steps, counts={2: 1, 3: 1})
    recording.calls = [CallRow("feed('a')", "''", (), "'a'", 3)]
    return recording


def test_a_page_with_a_recording_draws_it_and_runs_nothing_else(tmp_path, lab, grade):
    """Texts of a submission are shown as texts, and the page loads nothing."""
    path, recording = tmp_path / "page.html", a_recording()
    recording.test = "test_b"
    recording.take_sources([("starter.py", f"# {ATTACK}\nn = 1\nreturn ''\n".encode())])
    account = account_of(grade, lab, "Ada", None)
    path.write_text(Pages().html(account, recording), encoding="utf-8")
    with open_browser() as browser:
        browser.get_log("browser")
        browser.get(path.as_uri())
        assert browser.title == "Feedback on lab-90"
        shown = browser.find_element("css selector", ".failure .steps")
        assert "Step 3 of 3, in feed: line 3 returns ''" in shown.text
        browser.find_element("css selector", "[data-key=ArrowLeft]").click()
        assert ATTACK in shown.text
        assert browser.find_elements("css selector", "img") == []
        assert browser.get_log("browser") == []


def changed(path, value):
    """Return the JSON of a recording in which one value is another."""
    data = json.loads(packed(a_recording(), 10_000))
    *folders, name = path
    place = data
    for folder in folders:
        place = place[folder]
    place[name] = value
    return json.dumps(data)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["kind"], "best", "kind is not one of exception"),
        (["why"], 1, "why is not a text"),
        (["why"], "x" * 5_000, "why is not a text of at most 4,000"),
        (["opens"], 3, "opens is not the number of a step"),
        (["opens"], None, "opens does not fit"),
        (["marks"], [True], "marks is not the number"),
        (["steps"], {}, "steps is not a list"),
        (["steps"], [0] * 20_001, "steps is not a list of at most 20,000"),
        (["steps", 0], {"html": "x"}, "a step has other keys"),
        (["steps", 0, "line"], 0, "line is not a number from 1"),
        (["steps", 0, "line"], 2**60, "line is not a number"),
        (["steps", 0, "part"], 1, "a step has no such part"),
        (["steps", 0, "changes"], {"n": ["1"]}, "changes are pairs"),
        (["steps", 0, "values"], {"n": "x" * 500}, "values is not a text"),
        (["steps", 0, "printed"], "x" * 3_000, "printed is not a text"),
        (["counts"], {"2e3": 1}, "counts has other keys"),
        (["counts"], {"2": -1}, "2 is not a number"),
        (["calls", 0, "held"], [{}], "held is not a text"),
        (["parts"], [[]], "counts is missing"),
    ],
)
def test_a_recording_from_a_submission_is_checked(path, value, message):
    """Each value of another type or size is refused by the name of its key."""
    assert unpacked(changed(["kind"], "difference")).as_dict()["steps"][2]["value"] == "''"
    with pytest.raises(ValueError, match=message):
        unpacked(changed(path, value))


def test_a_recording_is_cut_around_its_opening_and_keeps_its_values():
    """A size that is too small costs steps, and the first step left has all values."""
    recording = a_recording()
    recording.steps += [Step(2, "line", "feed", 1, 1, 0, 0) for _ in range(500)]
    short = unpacked(packed(recording, 4_000))
    opening = short.steps[short.opens]
    assert (opening.event, short.dropped) == ("return", recording.opens - short.opens)
    assert len(short.steps) < 100
    assert short.values_at(short.opens) == {"text": "'a'", "n": "1"}
    with pytest.raises(ValueError, match="the most is 300"):
        packed(recording, 300)


WRONG = b"""
class Pairs:
    held = ""
    def feed(self, text):
        whole = text * 2
        return whole
    def flush(self):
        return ""
"""
# Code that answers in place of the recorder.
FORGED = (
    WRONG
    + b"""
import labkit.running.recording.reading as reading
reading.packed = lambda *_: '{"kind": "<script>"}'
"""
)


def test_the_first_failure_is_recorded_behind_the_walls(lab, tiny, mode, sandbox_in):
    """The recording has the submission's steps and lines; a forged one is refused."""

    def recorded(source, name):
        submission = Submission("someone", lab.name, {lab.name: source})
        assignment = Assignment.of(lab, find_labs(tiny))
        return record_first(submission, assignment, sandbox_in(mode), name)

    recording = recorded(WRONG, "test_pairs")
    assert recording.source == WRONG.decode().splitlines()
    step = recording.steps[recording.opens]
    assert (step.function, step.line) == ("feed", 6)
    assert "'abcabc'" in step.value
    assert recording.expected != recording.actual != ""
    assert recorded(WRONG, "test_two_is_even") is None
    assert recorded(FORGED, "test_pairs") is None
