"""Exports as platforms write them: who handed in which file, late or not, and what is in doubt.

The names of files and the columns are those of the platforms' own sources:

- Moodle: `mod/assign/classes/downloader.php`, `mod/assign/gradingtable.php` and
  `mod/assign/feedback/offline/importgradeslib.php` in `moodle/moodle`.
- Canvas: `lib/content_zipper.rb` and `lib/gradebook_exporter.rb` in `instructure/canvas-lms`.
- Gradescope: `submission_metadata.yml` as its exports have it.
- Classroom 50: `cli/gh-teacher/internal/download/download.go` in `foundation50/classroom50`.
"""

import csv
import hashlib
import json
import zipfile
from dataclasses import dataclass

import pytest
from made_grades import made_grade, made_test

from labkit.cli import main
from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.grading.marks.by_student import by_student
from labkit.grading.marks.inputs import read_markings
from labkit.grading.marks.marking import MarkOptions
from labkit.grading.reading.bundles import packed
from labkit.grading.reading.inputs import collect
from labkit.grading.reading.one_student import Course
from labkit.grading.reading.submission import one_line

LABS = find_labs(ROOT)
LAB = pick_lab(LABS, "03")
GOOD = LAB.solution.read_bytes()
OTHER = b"def utf8_expected_len(lead_byte):\n    return 1\n"
NOTES = b"my notes\n"
PLACE = LAB.path.relative_to(ROOT).as_posix()
DUE = ("2026-11-22T23:59", "10% per day")

MOODLE = """\
\ufeffIdentifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed",\
"Last modified (submission)","Last modified (grade)","Feedback comments"
Participant 101,"Ada Lovelace",ada@x.edu,"Submitted for grading",,100.00,Yes,\
"Sunday, 22 November 2026, 9:00 PM",-,
Participant 102,"Björk",bjork@x.edu,"Submitted for grading",,100.00,Yes,\
"Tuesday, 24 November 2026, 12:05 AM",-,
Participant 103,"Pat O'Brien",pat@x.edu,"No submission",,100.00,Yes,-,-,
"""
MOODLE_GROUPS = """\
Identifier,"Full name","Email address",Status,Group,Grade,"Maximum Grade",\
"Last modified (submission)","Last modified (grade)"
Participant 101,"Ada Lovelace",ada@x.edu,Submitted,"Pair 1",,100.00,\
"Sunday, 22 November 2026, 9:00 PM",-
Participant 102,"Björk",bjork@x.edu,Submitted,"Pair 1",,100.00,\
"Sunday, 22 November 2026, 9:00 PM",-
Participant 103,"Pat O'Brien",pat@x.edu,Submitted,"Default group",,100.00,\
"Monday, 23 November 2026, 9:00 AM",-
"""
MOODLE_BLIND = """\
Identifier,Status,Grade,"Maximum Grade","Last modified (submission)","Last modified (grade)"
Participant 101,Submitted,,100.00,"Sunday, 22 November 2026, 9:00 PM",-
Participant 102,Submitted,,100.00,"Monday, 23 November 2026, 9:00 AM",-
"""
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lab 03 (7001),Current Score
,,,,,Manual Posting,
    Points Possible,,,,,100,(read only)
"Lovelace, Ada",11,s1,ada,A,,
"Björk",12,s2,bjork,A,,
"Student, Test",14,,x14,A,,
"""
CANVAS_NAMES = """\
LastName,FirstName,ID,SIS Login ID,Section,Lab 03 (7001)
    Points Possible,,,,,100
Lovelace,Ada,11,ada,A,
"",Björk,12,bjork,A,
"""
CANVAS_TIMES = "student,submitted_at\n11,2026-11-22T20:00\n12,2026-11-23T08:00\n"
GRADESCOPE = """\
---
submission_409194023:
  :submitters:
  - :name: Ada Lovelace
    :sid: 's1'
    :email: ada@x.edu
  :created_at: 2026-11-22 17:34:00.861687000 Z
  :score: 2.0
  :status: processed
  :results:
    score: 2.0
    output: |-
      submission_1:
        :submitters:
submission_500000001:
  :submitters:
  - :name: "Bj\\xF6rk"
    :sid: s2
    :email: bjork@x.edu
  - :name: Pat O'Brien
    :email: pat@x.edu
  :created_at: 2026-11-23 08:00:00.000000000 Z
submission_600000002:
  :submitters: []
"""
GRADESCOPE_GRADES = """\
First Name,Last Name,SID,Email,Sections,Total Score,Max Points,Status,Submission ID,Submission Time
A.,Lovelace,s1,,,2.0,100.0,Graded,409194023,2026-11-22 17:34:00 +0000
Björk,,s2,bjork@x.edu,,0.0,100.0,Graded,500000001,2026-11-23 08:00:00 +0000
Patrick,O'Brien,,pat@x.edu,,0.0,100.0,Graded,500000001,2026-11-23 08:00:00 +0000
"""
GRADESCOPE_TIMES = "student,submitted_at\ns1,2026-11-22T17:34\ns2,2026-11-23T08:00\n"
CLASSROOM50 = """\
username,first_name,last_name,email,section,score,max_score,datetime,submission_tag,submitted_by,\
review_url,late,override
ada,Ada,Lovelace,ada@x.edu,A,2,100,2026-11-22T17:34:00Z,submit/2026-11-22T17-34-00Z-0a1b2c3,ada,\
https://g.example/o/cs-101-lab-03-ada/pull/1,false,false
bjork,Björk,,,A,,,,,,,,
dora,Dora,Dee,,A,,,,,,,,
b-bjork,B,Two,,A,9,100,2026-11-23T08:00:00Z,submit/2026-11-23T08-00-00Z-1a1b2c3,b-bjork,\
https://g.example/o/cs-101-lab-03-b-bjork/pull/1,true,false
"""
CLASSROOM50_GROUP = CLASSROOM50.replace(
    "bjork,Björk,,,A,,,,,,,,\n",
    "Bjork,Björk,,,A,2,100,2026-11-22T17:34:00Z,submit/2026-11-22T17-34-00Z-0a1b2c3,ada,"
    "https://g.example/o/cs-101-lab-03-ada/pull/1,false,false\n",
)
CLASSROOM50_ROSTER = """\
username,first_name,last_name,email,section,github_id
ada,Ada,Lovelace,ada@x.edu,A,7
bjork,Björk,,,A,8
dora,Dora,Dee,,A,10
b-bjork,B,Two,,A,9
"""
CLASSROOM50_TIMES = "student,submitted_at\nada,2026-11-22T17:34\nb-bjork,2026-11-23T08:00\n"
MOODLE_FILE = "_assignsubmission_file"
ADA, BJORK, PAT = (
    f"{name}{MOODLE_FILE}" for name in ("Ada Lovelace_101", "Björk_102", "Pat OBrien_103")
)
DOUBT = "may each be the file to grade"


@dataclass(frozen=True)
class Export:
    """An export, and what the grader makes of it.

    Attributes:
        files: by path.
        students: for each student who handed in, the source (or the fault), the points taken off
            for lateness, and words of each remark.
        roster, times: the lists for the grader.
        warnings: words of each warning.
        is_zip: whether the export is a zip, or a folder.
    """

    files: dict
    students: dict
    roster: str = ""
    times: str = ""
    warnings: tuple[str, ...] = ()
    is_zip: bool = True
    rule: tuple[str, ...] = DUE


def clone(name, source, **more):
    """A student's repository as `gh teacher download` leaves it."""
    return {
        f"{name}/{PLACE}/starter.py": source,
        f"{name}/README.md": b"# Labs\n",
        f"{name}/.git/HEAD": b"ref: refs/heads/main\n",
        f"{name}/result.json": b"{}",
        f"{name}/results.json": b"[]",
        **{f"{name}/{path}": data for path, data in more.items()},
    }


def bundle(source):
    path = f"labs/{LAB.name}/starter.py"
    manifest = {
        "schema": "labkit/submission/v1", "student": "x", "lab": LAB.name,
        "files": {path: hashlib.sha256(source).hexdigest()},
    }  # fmt: skip
    return packed({path: source, "submission.json": json.dumps(manifest).encode()})


NOBODY = "on the roster handed in nothing"
EXPORTS = {
    # Moodle.
    "moodle, folders": Export(
        {f"{ADA}/starter.py": GOOD, f"{BJORK}/starter.py": OTHER},
        {"Ada Lovelace": (GOOD, 0, []), "Björk": (OTHER, 20, [])},
        MOODLE, warnings=(f"1 {NOBODY} for {LAB.name}: \"Pat O'Brien\"",),
    ),
    "moodle, files": Export(
        {f"{ADA}_starter.py": GOOD, f"{ADA}_scratch.py": OTHER, f"{BJORK}_starter.py": OTHER,
         f"{BJORK}_notes.txt": NOTES, f"{PAT}_notes.txt": NOTES},
        {"Ada Lovelace": (GOOD, 0, ["starter.py was graded; scratch.py was not"]),
         "Björk": (OTHER, 20, ["starter.py was graded; notes.txt was not"]),
         "Pat O'Brien": ("is neither a .py file nor a zip nor a folder", 0, [])},
        MOODLE, warnings=("1 handed in without a time",),
    ),
    "moodle, several files in a folder": Export(
        {f"{ADA}/starter.py": GOOD, f"{ADA}/scratch.py": OTHER, f"{BJORK}/a.py": OTHER,
         f"{BJORK}/b.py": OTHER + b"#"},
        {"Ada Lovelace": (GOOD, 0, ["starter.py was graded; scratch.py was not"]),
         "Björk": (OTHER + b"#", 20, [DOUBT])},
        MOODLE, warnings=(NOBODY,),
    ),
    "moodle, wrong names": Export(
        {f"{ADA}/starter.py.txt": GOOD, f"{BJORK}/starter (1).py": OTHER,
         f"{PAT}/lab03.ipynb": b"{}"},
        {"Ada Lovelace": (GOOD, 0, ["hand it in as starter.py, without .txt"]),
         "Björk": (OTHER, 20, []),
         "Pat O'Brien": ("lab03.ipynb is a notebook", 0, [])},
        MOODLE, warnings=("1 handed in without a time",),
    ),
    "moodle, a text typed beside the file": Export(
        {f"{ADA}/starter.py": GOOD,
         "Ada Lovelace_101_assignsubmission_onlinetext/onlinetext.html": b"<p>done</p>"},
        {"Ada Lovelace": (GOOD, 0, ["was graded"])},
        MOODLE, warnings=(NOBODY,),
    ),
    "moodle, groups": Export(
        {f"Pair 1_17{MOODLE_FILE}/starter.py": GOOD},
        {"Ada Lovelace": (GOOD, 0, ["Handed in by the group Pair 1"]),
         "Björk": (GOOD, 0, ["Handed in by the group Pair 1"])},
        MOODLE_GROUPS, warnings=(NOBODY,),
    ),
    "moodle, the group of those in no group": Export(
        {f"Default group{MOODLE_FILE}/starter.py": OTHER},
        {"Pat O'Brien": (OTHER, 10, ["Handed in by the group Default group"])},
        MOODLE_GROUPS, warnings=(NOBODY,),
    ),
    "moodle, without names": Export(
        {f"Participant_101{MOODLE_FILE}/starter.py": GOOD,
         f"Participant_102{MOODLE_FILE}/starter.py": OTHER},
        {"Participant 101": (GOOD, 0, []), "Participant 102": (OTHER, 10, [])},
        MOODLE_BLIND,
    ),
    # Canvas.
    "canvas": Export(
        {"lovelaceada_11_900_starter.py": GOOD, "björk_LATE_12_901_starter.py": OTHER},
        {"Lovelace, Ada": (GOOD, 0, []), "Björk": (OTHER, 10, [])},
        CANVAS, CANVAS_TIMES, (NOBODY,),
    ),
    "canvas, late without a time": Export(
        {"lovelaceada_11_900_starter.py": GOOD, "björk_LATE_12_901_starter.py": OTHER},
        {"Lovelace, Ada": (GOOD, 0, []), "Björk": (OTHER, 0, [])},
        CANVAS, "student,submitted_at\n11,2026-11-22T20:00\n",
        (NOBODY, "1 marked as late in the name by the platform, without a time"),
    ),
    "canvas, two attachments": Export(
        {"lovelaceada_11_900_starter.py": GOOD, "lovelaceada_11_901_notes.txt": NOTES,
         "björk_12_902_essay.py": OTHER, "björk_12_903_final.py": OTHER + b"#"},
        {"Lovelace, Ada": (GOOD, 0, ["starter.py was graded; notes.txt was not"]),
         "Björk": (OTHER + b"#", 10, [DOUBT])},
        CANVAS, CANVAS_TIMES, (NOBODY,),
    ),
    "canvas, handed in again": Export(
        {"lovelaceada_11_905_starter-1.py": GOOD, "björk_LATE_12_906_starter (2)-3.py": OTHER},
        {"Lovelace, Ada": (GOOD, 0, []), "Björk": (OTHER, 10, [])},
        CANVAS, CANVAS_TIMES, (NOBODY,),
    ),
    "canvas, a bundle and a text": Export(
        {"lovelaceada_11_900_submission-lab-03.zip": bundle(GOOD),
         "björk_LATE_12_text.html": b"<p>x</p>"},
        {"Lovelace, Ada": (GOOD, 0, []), "Björk": ("is neither a .py file nor", 10, [])},
        CANVAS_NAMES, CANVAS_TIMES,
    ),
    "canvas, without names": Export(
        {"anon_aB3dE_900_starter.py": GOOD, "LATE_anon_Zz9yX_901_starter.py": OTHER},
        {"anon aB3dE": (GOOD, 0, []), "anon Zz9yX": (OTHER, 0, [])},
        warnings=("1 marked as late in the name by the platform, and no late rule",), rule=(),
    ),
    "canvas, groups": Export(
        {"team_a_11_90012_starter.py": GOOD, "team_b_LATE_12_90013_starter.py": OTHER},
        {"Lovelace, Ada": (GOOD, 0, []), "Björk": (OTHER, 10, [])},
        CANVAS, CANVAS_TIMES, (NOBODY,),
    ),
    # Gradescope.
    "gradescope": Export(
        {"assignment_9_export/submission_metadata.yml": GRADESCOPE.encode(),
         "assignment_9_export/submission_409194023/starter.py": GOOD,
         "assignment_9_export/submission_500000001/starter.py": OTHER,
         "assignment_9_export/submission_500000001/notes.txt": NOTES},
        {"A. Lovelace": (GOOD, 0, []),
         "Björk": (OTHER, 10, ["notes.txt was not", "Handed in by Björk and Pat O'Brien"]),
         "Patrick O'Brien": (OTHER, 0, ["notes.txt was not", "by Björk and Pat O'Brien"])},
        GRADESCOPE_GRADES, GRADESCOPE_TIMES, ("without a time in",),
    ),
    "gradescope, one submission and no roster": Export(
        {"assignment_9_export/submission_metadata.yml": GRADESCOPE.encode(),
         "assignment_9_export/submission_409194023/lab03.py": GOOD,
         "assignment_9_export/submission_409194023/old.py": OTHER},
        {"Ada Lovelace": (GOOD, 0, ["lab03.py was graded; old.py was not"])}, rule=(),
    ),
    "gradescope, unpacked, with a folder of nobody": Export(
        {"submission_metadata.yml": GRADESCOPE.encode(),
         "submission_409194023/starter.py": GOOD, "submission_600000002/starter.py": OTHER},
        {"A. Lovelace": (GOOD, 0, []), "submission_600000002": (OTHER, 0, [])},
        GRADESCOPE_GRADES, warnings=(NOBODY, "without a line in"), is_zip=False, rule=(),
    ),
    # Classroom 50.
    "classroom 50": Export(
        {"scores.csv": CLASSROOM50.encode(), **clone("cs-101-lab-03-ada", GOOD),
         **clone("cs-101-lab-03-b-bjork", OTHER),
         **clone("cs-101-lab-03-dora", OTHER + b"#")},
        {"Ada Lovelace": (GOOD, 0, []), "B Two": (OTHER, 10, []),
         "Dora Dee": (OTHER + b"#", 0, [])},
        CLASSROOM50_ROSTER, CLASSROOM50_TIMES,
        (f"{NOBODY} for {LAB.name}: 'Björk'", "without a time"), is_zip=False,
    ),
    "classroom 50, a group": Export(
        {"scores.csv": CLASSROOM50_GROUP.encode(), **clone("cs-101-lab-03-ada", GOOD),
         **clone("cs-101-lab-03-b-bjork", OTHER)},
        {"Ada Lovelace": (GOOD, 0, ["Handed in by ada and Bjork"]),
         "Björk": (GOOD, 0, ["Handed in by ada and Bjork"]), "B Two": (OTHER, 10, [])},
        CLASSROOM50_ROSTER, CLASSROOM50_TIMES, ("1 handed in without a time", NOBODY), is_zip=False,
    ),
    "classroom 50, without a list": Export(
        {**clone("cs-101-lab-03-ada", GOOD), **clone("cs-101-lab-03-bjork", OTHER)},
        {"cs-101-lab-03-ada": (GOOD, 0, []), "cs-101-lab-03-bjork": (OTHER, 0, [])},
        is_zip=False, rule=(),
    ),
}  # fmt: skip


def written(folder, export):
    """Write an export as its platform does; return its path."""
    if not export.is_zip:
        for name, data in export.files.items():
            path = folder / "export" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder / "export"
    path = folder / "submissions.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in export.files.items():
            archive.writestr(name, data)
    return path


def table(folder, name, text):
    if not text:
        return None
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_gives_each_student_the_right_file_and_lateness(tmp_path, name):
    export = EXPORTS[name]
    roster, times = (
        table(tmp_path, f"{kind}.csv", getattr(export, kind)) for kind in ("roster", "times")
    )
    submissions = by_student(collect([written(tmp_path, export)], Course(LABS, LAB)), roster, LABS)
    entries = {LAB.name: {one_line(one.student): one.digest for one in submissions}}
    due, late = export.rule or (None, None)
    options = MarkOptions(roster=roster, times=times, due=due, late=late)
    (marking,) = read_markings(options, entries)
    tests = [made_test("test_a", 1, 80), made_test("test_b", 1, 20, "assertion")]
    grades = [made_grade(one, tests, lab=LAB.name) for one in entries[LAB.name]]
    marks = {student.entry: mark for student, mark in marking.marks(grades).items()}
    called = {student.entry: student.name for student in marking.students.all}
    actual, remarks = {}, {}
    for one in submissions:
        who = called[one_line(one.student)]
        actual[who] = (one.fault or one.sources[LAB.name], int(marks[one.student].late))
        remarks[who] = one.remark_texts
        assert any(remark.is_doubt for remark in one.remarks) == (DOUBT in str(remarks[who]))
    expected = {who: told[:2] for who, told in export.students.items()}
    faults = {who for who, (source, _) in expected.items() if isinstance(source, str)}
    for who in faults & actual.keys():
        assert expected[who][0] in actual[who][0]
        actual[who] = (expected[who][0], actual[who][1])
    assert actual == expected
    for who, (_, _, words) in export.students.items():
        own = [text for text in remarks[who] if "which lab-03 asks for" not in text]
        assert len(own) == len(words), own
        assert all(word in text for word, text in zip(words, own, strict=True)), own
    warnings = marking.warnings(named=True)
    assert len(warnings) == len(export.warnings), warnings
    assert all(any(word in text for text in warnings) for word in export.warnings), warnings


FORMS = [b"{", b"- a\n", b"a:\n  b: c\n", b"a:\n  :submitters: [x]\n", b"\xff"]


@pytest.mark.parametrize("data", FORMS)
def test_a_list_of_another_form_is_named_with_what_to_do(tmp_path, data):
    export = Export({"submission_metadata.yml": data, "submission_1/starter.py": GOOD}, {})
    with pytest.raises(
        UsageError, match=r"submission_metadata.yml is not Gradescope's list .*: exp"
    ):
        collect([written(tmp_path, export)], Course(LABS, LAB))


def test_a_table_that_is_no_list_of_students_is_an_entry_as_any_other(tmp_path):
    export = Export({"scores.csv": b"a,b\n1,2\n", "ada.py": GOOD}, {})
    found = collect([written(tmp_path, export)], Course(LABS, LAB))
    assert [(one.student, one.fault is None) for one in found] == [
        ("ada", True),
        ("scores.csv", False),
    ]


@pytest.mark.parametrize("name", ["gradescope", "canvas"])
def test_an_export_is_graded_by_the_commands_of_the_instructors_page(tmp_path, name, need, capsys):
    """Behind the walls, with each report; a mark is the score less the penalty for lateness."""
    need("sandbox")
    export = EXPORTS[name]
    roster, times = (
        table(tmp_path, f"{kind}.csv", getattr(export, kind)) for kind in ("roster", "times")
    )
    place, ledger = written(tmp_path, export), tmp_path / "lab-03.ledger"
    lists = ["--roster", roster, "--times", times, "--due", DUE[0], "--late", DUE[1]]
    reports = {kind: tmp_path / f"lab-03.{kind}" for kind in ("csv", "html", "projector", "pairs")}
    if name == "canvas":
        reports |= {"canvas": tmp_path / "canvas.csv", "feedback": tmp_path / "feedback.zip"}
    files = [word for kind, path in reports.items() for word in (f"--{kind}", path)]
    words = ["grade", place, "--lab", "03", "--seed", "0", "--ledger", ledger, *lists, *files]
    assert main([*map(str, words)], ROOT) == 0
    with reports["csv"].open(encoding="utf-8", newline="") as lines:
        rows = {row["student_id"]: row for row in csv.DictReader(lines)}
    good = [row for row in rows.values() if row["raw_score"] == "100"]
    late = [row for row in rows.values() if row["late_submission_penalty"] == "10"]
    assert len(good) == len(late) == 1
    assert good[0]["score"] == "100"
    bad = int(late[0]["raw_score"])
    assert bad < 30
    assert late[0]["score"] == str(max(0, bad - 10))
    out = capsys.readouterr().out
    assert "lab-03, The streaming detokenizer" in out
    assert "lovelace" not in reports["projector"].read_text().lower()
    pairs = reports["pairs"].read_text()
    assert "known source,1.0,ada lovelace_s1" in pairs.lower() or name == "canvas"
    if name == "canvas":
        with reports["canvas"].open(encoding="utf-8", newline="") as lines:
            marks = {row["ID"]: row["Lab 03 (7001)"] for row in csv.DictReader(lines)}
        assert marks == {"": "100", "11": "100", "12": str(max(0, bad - 10)), "14": ""}
        with zipfile.ZipFile(reports["feedback"]) as archive:
            # Canvas finds the student by these numbers.
            assert {entry.partition("_feedback")[0] for entry in archive.namelist()} == {
                "lovelaceada_11_900", "björk_12_901"
            }  # fmt: skip
