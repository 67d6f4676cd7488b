"""What a regrade changed."""

import json
from dataclasses import replace

import pytest
from made_grades import made_cohort, made_grade, made_test

from labkit.errors import UsageError
from labkit.grading.reports.diff import diff_text, read_report
from labkit.grading.reports.json_junit import report_json
from labkit.running.result_kind import ResultKind


@pytest.fixture
def diff(tmp_path):
    def run(old, new, marks=((), ())):
        reports = []
        for number, grades in enumerate((old, new)):
            path = tmp_path / f"{number}.json"
            told = json.loads(report_json(grades))
            rows = {"late_penalty": 5 * number, "points": [], "max_score": 100}
            told["marks"] = [
                {"student": name, "lab": grades[0].lab, "score": 0, "mark": mark, **rows}
                for name, mark in marks[number]
            ]
            path.write_text(json.dumps(told))
            reports.append(read_report(path))
        return diff_text(*reports, colour=False, width=120)

    return run


def passing(name, points, *, good=True, message="expected 1, got 2"):
    return made_test(name, 1, points) if good else made_test(name, 1, points, "assertion", message)


def graded(student, good, tests=None, **changes):
    names = ("test_a", "test_b", "test_c")
    own = (passing(name, 10 * place, good=name[-1] in good) for place, name in enumerate(names, 1))
    return made_grade(student, tests or own, **changes)


def words(text):
    return [" ".join(line.split()) for line in text.splitlines() if line]


def test_changes_are_sorted_by_size_with_the_tests_that_made_them(diff):
    old = [graded("ada", "abc"), graded("bob", "a"), graded("cy", "ab"), graded("dan", "c")]
    new = [graded("ada", "bc"), graded("bob", "ac"), graded("cy", "c"), graded("eve", "a")]
    assert words(diff(old, new)) == [
        "student score change why",
        "bob 10 -> 40 +30 test_c passes now (+30)",
        "ada 60 -> 50 -10 test_a fails now (-10): expected 1, got 2",
        "cy 30 -> 30 0 test_a fails now (-10): expected 1, got 2",
        "test_b fails now (-20): expected 1, got 2",
        "test_c passes now (+30)",
        "new: eve (lab-90-pairs) 10/60",
        "missing: dan (lab-90-pairs) 30/60",
        "lab-90-pairs: 1 with more points, 1 with fewer, 1 new, 1 missing, of 4",
        "tests, grader, references and seed are the same",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"assignment": "b" * 64},
            "tests, grader or references changed: aaaaaaaaaaaa -> bbbbbbbbbbbb",
        ),
        ({"seed": "SECRET", "assignment": "b" * 64}, "the seed changed"),
        ({"submission": "6" * 64}, "handed in something else"),
        ({"mode": "trust"}, "mode sandbox, now trust"),
        ({"fault": "starter.py is empty"}, "now no test runs: starter.py is empty"),
        ({"tests": (passing("test_a", 12),)}, "test_a is worth 12, not 10"),
        ({"tests": (passing("test_d", 5),)}, "test_d is new: 5 of 5"),
        ({"tests": (passing("test_d", 5),)}, "test_a is gone: 10 of 10"),
    ],
)
def test_what_else_changed_is_told(diff, change, said):
    text = diff([graded("ada", "abc")], [graded("ada", "abc", **change)])
    assert said in " ".join(words(text))
    assert "SECRET" not in text


def test_marks_are_compared_beside_scores(diff):
    grades = [graded("ada", "a"), graded("bob", "a")]
    text = words(diff(grades, grades, ([("ada", 10)], [("ada", 12.5), ("bob", 3)])))
    assert text[:3] == [
        "student score change mark why",
        "bob 10 -> 10 0 10 -> 3 late 0, now -5",
        "ada 10 -> 10 0 10 -> 12.5 late 0, now -5",
    ]
    # Where a report has no marks, the scores are the marks.
    text = diff(grades, grades, ([("ada", 10)], []))
    assert "ada" not in text


def test_many_changes_are_told_in_short(diff):
    old, _ = made_cohort(200)
    new = [replace(one, student=f"{one.student}\x1b[31m") for one in old]
    assert len(diff(old, old).splitlines()) == 2
    assert "\x1b" not in diff(old, new)
    tests = [passing(f"test_{n}", 1) for n in range(30)]
    failed = [replace(one, kind=ResultKind.RAISED, message="x" * 9_999) for one in tests]
    text = diff([made_grade("a", tests)], [made_grade("a", failed)])
    assert "and 26 more tests" in text
    assert len(text) < 2_000


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "null", "{", '{"schema": "x"}', "[" * 99_999, "9" * 9_999,
        '{"schema": "labkit/report/v1"}', '{"schema": "labkit/report/v1", "grades": [1]}',
        '{"schema": "labkit/report/v1", "grades": [], "marks": [1]}', "\xff", "assignment,score\n",
    ],
)  # fmt: skip
def test_what_is_no_report_is_said(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UsageError, match=r"x.json is not a report .*written by grade --json"):
        read_report(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_report(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"student": 1},
        {"seed": None},
        {"tests": [{"max_score": "1"}]},
        {"tests": [{"kind": "broken"}]},
        {"tests": [{"kind": []}]},
        {"tests": 7},
    ],
)
def test_a_grade_of_other_types_is_no_grade(tmp_path, change):
    path = tmp_path / "x.json"
    told = json.loads(report_json([graded("ada", "a"), graded("ada", "a")]))
    path.write_text(json.dumps(told))
    with pytest.raises(UsageError, match="has 'ada' twice for lab-90-pairs"):
        read_report(path)
    grade = told["grades"].pop()
    if isinstance(change.get("tests"), list):
        change = {"tests": [{**grade["tests"][0], **change["tests"][0]}]}
    path.write_text(json.dumps({**told, "grades": [{**grade, **change}]}))
    with pytest.raises(UsageError, match="is not a report"):
        read_report(path)
