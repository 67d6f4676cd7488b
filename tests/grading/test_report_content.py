"""Options of reports put together: what is written where, with names and without."""

import argparse
import csv
import json
import re
import zipfile
from dataclasses import replace

import jsonschema
import pytest
from made_grades import made_grade, made_test
from referencing import Registry, Resource
from test_reports import SCHEMAS

from labkit.course.lab import find_labs
from labkit.errors import UsageError
from labkit.grading.command import add_options, report_options
from labkit.grading.reading.submission import Submission
from labkit.grading.report_files import check, write
from labkit.grading.reports.content import ReportInputs
from labkit.grading.reports.summary import summary_text
from labkit.grading.reports.terminal import report_text

ENTRIES = [f"{name}_{100 + n}_assignsubmission_file" for n, name in enumerate(
    ["Ada Lovelace", "Björk", "Cy Young", "Dan Brown", "Eve Online"])]  # fmt: skip
WORKSHEET = "Identifier,Full name,Email address,Grade,Last modified (grade)\n" + "".join(
    f"Participant {100 + n},{name},{name.split()[0].lower()}@x.edu,,-\n"
    for n, name in enumerate(["Ada Lovelace", "Björk", "Cy Young", "Dan Brown"])
) + "Participant 999,Zoe Absent,zoe@x.edu,,-\n"  # fmt: skip
NAMES = frozenset(
    [
        "ada",
        "lovelace",
        "björk",
        "bjork",
        "young",
        "brown",
        "eve",
        "online",
        "zoe",
        "absent",
        "assignsubmission",
    ]
)
ROSTER, POINTS = "<roster.csv", "<points.csv"
MARKS = ("--times", "<times.csv", "--due", "2026-11-22T23:59", "--late", "10% per day")
FILES = (
    "--json", "@x.json", "--csv", "@x.csv", "--junit", "@x.xml", "--html", "@x.html",
    "--projector", "@y.html", "--pairs", "@y.csv",
)  # fmt: skip


@pytest.fixture
def tell(tiny, tmp_path):
    """Write the reports of a cohort; returns what is told, and what a terminal shows.

    Files that are written begin with `@`, those that are read with `<`.
    """
    (tmp_path / "roster.csv").write_text(WORKSHEET)
    (tmp_path / "times.csv").write_text("student,submitted_at\nBjörk,2026-11-23T10:00\n")
    (tmp_path / "points.csv").write_text(
        "student,points,reason\nada@x.edu,5,helped Cy Young\nZoe Absent,1,x\n"
    )
    labs = find_labs(tiny)
    lab = labs[0].name
    parser = argparse.ArgumentParser()
    add_options(parser)
    source = b"# by Cy Young\nclass Pairs:\n    pass\n"
    submissions = [Submission(entry, lab, {lab: source}) for entry in ENTRIES]
    said = f"printed  {ENTRIES[0]}, Ada Lovelace and BJÖRK"
    tests = [made_test("test_a", 1, 60), made_test("test_b", 2, 40, "assertion", said, said)]
    grades = [made_grade(one.student, tests, lab=lab, submission=one.digest) for one in submissions]
    grades[4] = replace(grades[4], fault=f"{ENTRIES[4]}/x.docx is no .py file")

    def run(*words):
        args = parser.parse_args([re.sub("^[@<]", f"{tmp_path}/", word) for word in words])
        options = report_options(args)
        check(options, args.paths)
        inputs = ReportInputs(options, submissions, tiny)
        told = inputs.of(grades)
        written = [*write(options, told, labs)]
        inputs.changes(grades)
        assert len(written) == sum(word.startswith("@") for word in words)
        by_name = {lab: labs[0]}
        shown = report_text(told.grades, by_name, colour=False, marks=told.shown_marks)
        return told, shown + "\n".join(inputs.warnings)

    run.grades = grades
    return run


def table(path):
    return [*csv.DictReader(path.open(encoding="utf-8"))]


def test_names_marks_and_feedback_go_to_every_report_that_has_a_place_for_them(tell, tmp_path):
    places = (*FILES[:6], "--feedback", "@f.zip", "--moodle", "@m.csv")
    _, shown = tell(*places, "--roster", ROSTER, "--points", POINTS, *MARKS)
    told = json.loads((tmp_path / "x.json").read_text())["marks"]
    assert [row["mark"] for row in told] == [65, 50, 60, 60, 60, 1]
    rows = table(tmp_path / "x.csv")
    assert [row["score"] for row in rows] == ["65", "50", "60", "60", "60", "1"]
    assert [row["raw_score"] for row in rows] == ["60"] * 5 + [""]
    assert rows[1]["late_submission_penalty"] == "10"
    assert rows[0]["email"] == "ada@x.edu"
    assert [row["Grade"] for row in table(tmp_path / "m.csv")] == ["65", "50", "60", "60", "1"]
    with zipfile.ZipFile(tmp_path / "f.zip") as archive:
        assert len(archive.namelist()) == 2 * len(ENTRIES)
        page = archive.read(f"{ENTRIES[0]}_feedback-lab-90.txt").decode()
    assert "Feedback for Ada Lovelace" in page
    assert "+5 helped Cy Young" in page
    assert "'Zoe Absent'" in shown
    assert f"{ENTRIES[4]!r}" in shown


def test_a_report_with_marks_is_as_its_schema_says(tell, tmp_path):
    tell("--json", "@x.json", "--points", POINTS, "--roster", ROSTER)
    read = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    named = ((name, Resource.from_contents(told)) for name, told in read.items())
    registry = Registry().with_resources(named)
    schema = jsonschema.Draft202012Validator(read["report.schema.json"], registry=registry)
    schema.validate(json.loads((tmp_path / "x.json").read_text()))


@pytest.mark.parametrize("tables", [(), ("--roster", ROSTER, "--points", POINTS)])
def test_no_name_is_left_anywhere_and_no_place_tells_who_it_is(tell, tmp_path, tables):
    told, shown = tell(*FILES, "--anonymous-key", "@key.csv", "--anonymous", *tables)
    names = [f"x.{kind}" for kind in ("json", "csv", "xml", "html")] + ["y.html", "y.csv"]
    texts = [shown.replace(str(tmp_path), ""), *((tmp_path / name).read_text() for name in names)]
    for text in texts:
        # Not in what browsers check the page's own script by.
        words = {*re.findall(r"[^\W_]+", re.sub("'sha256-[^']*'", "", text.lower()))}
        assert not words & NAMES
    assert b"Young" not in b"".join(told.sources.values())
    students = [grade.student for grade in told.grades]
    assert students == sorted(students)
    key = table(tmp_path / "key.csv")
    assert {row["student"] for row in key} >= {*ENTRIES}
    assert {row["pseudonym"] for row in key} >= {*students}
    assert (tmp_path / "key.csv").stat().st_mode & 0o777 == 0o600
    again, _ = tell("--anonymous", *tables)
    assert [grade.student for grade in again.grades] == students


@pytest.mark.parametrize("option", ["feedback", "canvas", "moodle"])
def test_what_is_for_named_students_is_not_anonymous(tell, option):
    with pytest.raises(UsageError, match=f"--{option} is for named students"):
        tell("--anonymous", f"--{option}", "@x")


def test_scores_that_moved_between_two_gradings_are_shown_with_names_and_without(
    tell, tmp_path, tiny
):
    """A repeated grading shows the same movement, and a first grading shows none."""
    ledger, places = ("--ledger", "<ledger"), ("--html", "@x.html", "--projector", "@y.html")

    def graded(*scores, options=ledger):
        """Grade once with these scores; return the pages, and keep the marks."""
        tell.grades[:] = [
            replace(tell.grades[n], student=ENTRIES[n], fault=None,
                    tests=(made_test("test_a", 1, score), made_test("test_b", 2, 100 - score,
                           "assertion")))
            for n, score in enumerate(scores)
        ]  # fmt: skip
        tell(*places, *options)
        return [(tmp_path / name).read_text() for name in ("x.html", "y.html")]

    first = graded(60, 60, 60, 60, 60)
    assert "Movement" not in first[0]
    assert "Before (outlines)" not in first[1]
    moved = graded(80, 60, 60, 40, 60)
    assert graded(80, 60, 60, 40, 60) == moved
    assert "<li>Ada Lovelace: 60 → 80</li>\n<li>Dan Brown: 60 → 40</li>" in moved[0]
    words = "1 with more points than before, 1 with fewer, 3 with the same score in each grading"
    assert f"{words}; median 60, now 60." in moved[0]
    assert "1 with more points, 1 with fewer; median 60, now 60" in moved[1]
    assert "Dan" not in moved[1]
    anonymous = graded(80, 60, 60, 40, 60, options=(*ledger, "--anonymous"))
    assert re.search(r"<li>student_\w+: 60 → 80</li>", anonymous[0])
    assert words in anonymous[0]
    # The score before the last change, whenever that was.
    last = graded(90, 60, 60, 40, 60)[0]
    assert "<li>Ada Lovelace: 80 → 90</li>\n<li>Dan Brown: 60 → 40</li>" in last


# One that a single student made is not for the class.
MISTAKES = ["triples", "triples", "drops", None, None]
SUMMARY = """\
lab-90, Pairs: 5 submissions
  points    median 60, mean 60 of 109; 0 with every point, 0 with none
  marks     1 late with a deduction, 1 with points by hand
  tasks     1 feed 100%; 2 flush 0%
  hard      0 of 4 passed: The rule of test_b.
  mistake   in 2 submissions: Text is emitted in threes."""


def test_a_summary_for_a_mail_has_no_names_and_no_hidden_tests(tell, tiny):
    labs = {lab.name: lab for lab in find_labs(tiny)}
    options = ("--roster", ROSTER, "--points", POINTS, *MARKS)
    hidden = made_test("test_hidden", 2, 9, "assertion", "no", visibility="hidden")
    tell.grades[:] = [
        replace(
            grade,
            tests=(*grade.tests, hidden),
            looks_like="triples" if n < 2 else "drops" if n < 3 else None,
        )
        for n, grade in enumerate(tell.grades)
    ]
    told, _ = tell(*options)
    assert summary_text(told, labs) == SUMMARY
    before = {(grade.student, grade.lab): 50 for grade in told.grades[:3]}
    moved = "\n  before    3 with more points now, 0 with fewer; median 50, now 60\n"
    assert moved in summary_text(replace(told, before=before), labs)
    long = replace(told.grades[0].tests[1], rule="many words " * 30)
    told.grades[0] = replace(told.grades[0], tests=(told.grades[0].tests[0], long, hidden))
    assert max(map(len, summary_text(told, labs).splitlines())) <= 72
