"""Rosters, late work, points by hand, and what a gradebook gets."""

import csv
import io
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from made_grades import made_grade, made_test

from labkit.course.lab import find_labs
from labkit.errors import UsageError
from labkit.grading.ledger import Ledger
from labkit.grading.marks.by_student import by_student
from labkit.grading.marks.csv_files import read_csv
from labkit.grading.marks.inputs import read_markings
from labkit.grading.marks.late import read_rule, read_time, read_times
from labkit.grading.marks.late_days import days_for
from labkit.grading.marks.marking import MarkOptions
from labkit.grading.marks.roster import read_roster
from labkit.grading.marks.students import Students
from labkit.grading.reading.entry_name import short_names
from labkit.grading.reading.submission import Submission
from labkit.grading.reports.gradebooks import canvas_csv, check_roster, moodle_csv

LAB = "lab-90-pairs"
DUE = "2026-11-22T23:59"
CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lab 90 (7001),Lab 91 (7002),Final Score
    Points Possible,,,,,100,100,(read only)
"Lovelace, Ada",11,s1,ada,A,,50,1
"Björk",12,s2,bjork,A,70,,2
"=HYPERLINK(""x"")",13,s3,eve,A,,,3
"Student, Test",14,,x14,A,,,
"""
WORKSHEET = """\
\ufeffIdentifier,"Full name","Email address",Status,Grade,"Maximum Grade","Last modified (grade)"
Participant 101,"Ada Lovelace",ada@x.edu,Submitted,,100.00,-
Participant 102,Björk,bjork@x.edu,Submitted,,100.00,-
Participant 103,"Ada Lovelace",ada2@x.edu,"No submission",12,100.00,-
"""
MOODLE = "First name\tSurname\tID number\tEmail address\tAssignment: Lab 90 (Real)\tx (Real)\n"
PLAIN = "student;id;name;email\nada;11;Ada Lovelace;ada@x.edu\nbob;12;Bob Ross;bob@x.edu\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def marking_of(entries, **given):
    (marking,) = read_markings(MarkOptions(**given), {LAB: dict.fromkeys(entries, "5" * 64)})
    return marking


def graded(student, score):
    rest = made_test("test_b", 1, 100 - score, "assertion", "no")
    return made_grade(student, [made_test("test_a", 1, score), rest])


def marks_of(marking, *grades):
    return {student.name: mark for student, mark in marking.marks(grades).items()}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty; its first line names the columns"),
        (b"a,b\n1,2,3\n", "line 2 has 3 cells, and the first line 2"),
        (b"a\n\xff\xe9\n", "line 2 is not UTF-8; save it as CSV in UTF-8"),
        (b"a\n\0\n", "is not text; export it as CSV"),
        (b'a,b\n"1,2\n', "is not CSV"),
        (b"a\n" * (9 << 20), "has more than 16777216 bytes"),
    ],
)
def test_a_file_that_is_no_table_is_named_with_what_to_do(file, data, words):
    with pytest.raises(UsageError) as error:
        read_csv(file(data), "--points")
    assert words in str(error.value)
    assert str(error.value).startswith("--points ")
    with pytest.raises(UsageError, match="cannot be read"):
        read_csv(Path("/none"), "--points")


def test_tables_are_read_whatever_separates_and_encodes_them(file):
    for data in ("A_b,c\n 1 ,é\n\n", "\ufeffA b;c\r\n1;é\r\n", "a B\tc\n1\té\n".encode("utf-16")):
        (row,) = read_csv(file(data), "x").rows
        assert row.cells == {"a b": "1", "c": "é"}


@pytest.mark.parametrize(
    ("text", "form", "who"),
    [
        (CANVAS, "canvas", ("11", "Lovelace, Ada", "Ada", "Lovelace", "")),
        (WORKSHEET, "worksheet", ("101", "Ada Lovelace", "", "", "ada@x.edu")),
        (MOODLE + "Ada\tLovelace\t\tada@x.edu\t\t\n", "moodle",
         ("", "Ada Lovelace", "Ada", "Lovelace", "ada@x.edu")),
        (PLAIN, "plain", ("", "Ada Lovelace", "", "", "ada@x.edu")),
        ("LastName,FirstName,ID,SIS Login ID,Section\nLovelace,Ada,11,ada,A\n", "canvas",
         ("11", "Lovelace, Ada", "Ada", "Lovelace", "")),
        ("First Name,Last Name,SID,Email,Sections,Total Score\nAda,Lovelace,s1,ada@x.edu,A,9\n",
         "plain", ("", "Ada Lovelace", "Ada", "Lovelace", "ada@x.edu")),
        ("username,first_name,last_name,email,section,github_id\nada,Ada,Lovelace,,A,7\n", "plain",
         ("", "Ada Lovelace", "Ada", "Lovelace", "")),
    ],
)  # fmt: skip
def test_a_roster_is_known_by_its_titles(file, text, form, who):
    roster = read_roster(file(text))
    first = roster.people[0]
    assert roster.form == form
    assert (first.id, first.name, first.first, first.last, first.email) == who


@pytest.mark.parametrize("text", ["Vorname,Nachname\nAda,L\n", "student\n", "a\n1\n"])
def test_what_is_no_roster_says_which_files_are(file, text):
    with pytest.raises(UsageError, match=r"student,id,name,email|does not name any student"):
        read_roster(file(text))


@pytest.mark.parametrize(
    ("roster", "entry", "name"),
    [
        (WORKSHEET, "Ada Lovelace_103_assignsubmission_file", "ada2@x.edu"),
        (WORKSHEET, "Somebody Else_102_assignsubmission_file_starter", "bjork@x.edu"),
        (WORKSHEET, "Björk_999_assignsubmission_file", None),
        (CANVAS, "lovelaceada_LATE_11_900_starter-1", "11"),
        (CANVAS, "lovelaceada_99_900_starter", None),
        (CANVAS, "BJORK", "12"),
        (PLAIN, "ada", "ada@x.edu"),
        (PLAIN, "lab-90-ada", "ada@x.edu"),
        (PLAIN, "ADA@X.edu", "ada@x.edu"),
        (PLAIN, "Lovelace, Ada", "ada@x.edu"),
        (PLAIN, "Ada Lovelace_5_assignsubmission_file", "ada@x.edu"),
        (PLAIN, "ad", None),
        (PLAIN, "Ada", "ada@x.edu"),
    ],
)
def test_who_handed_in_is_found_by_number_key_or_name_and_never_guessed(file, roster, entry, name):
    students = Students([entry], read_roster(file(roster)))
    found = [one.person for one in students.all if one.entry == entry]
    shown = {one.email or one.id for one in found if one is not None}
    assert shown == ({name} if name else set())
    assert students.unlisted == ([] if name else [entry])


def test_who_may_be_two_is_an_error_that_names_both(file):
    roster = read_roster(file(WORKSHEET))
    with pytest.raises(UsageError, match=r"'Ada Lovelace' \(2\) or 'Ada Lovelace' \(4\)"):
        Students(["Ada Lovelace"], roster)
    with pytest.raises(UsageError, match="handed in both 'bjork' and 'Björk'"):
        Students(["bjork", "Björk"], roster)
    points = file("student,points,reason\nAda Lovelace,5,talk\n", "points.csv")
    with pytest.raises(UsageError, match=r"points.csv line 2: 'Ada Lovelace' may be"):
        marking_of([], roster=file(WORKSHEET), points=points)


def test_lists_for_people_call_students_by_name_where_just_one_has_it():
    entries = ["Ada_1_assignsubmission_file", "Bo_2_assignsubmission_file", "x_3_4_starter", "Bo"]
    assert [*short_names(entries).values()] == ["Ada", "Bo (2)", "x", "Bo"]
    twice = ["Ada_1_assignsubmission_file", "Ada_1_assignsubmission_file_starter"]
    assert [*short_names(twice).values()] == twice


@pytest.mark.parametrize(
    ("rule", "late", "points"),
    [
        ("10% per day", timedelta(0), 0),
        ("10% per day", timedelta(seconds=1), 10),
        ("10% per day", timedelta(days=1), 10),
        ("10% per day", timedelta(days=1, seconds=1), 20),
        ("10% per day", timedelta(days=50), 100),
        ("10% per day", timedelta(days=-3), 0),
        ("10% per day, at most 50%, 15 min grace", timedelta(minutes=15), 0),
        ("10% per day, at most 50%, 15 min grace", timedelta(minutes=16), 10),
        ("10% per day, at most 50%, 15 min grace", timedelta(days=9), 50),
        ("at most 7 points,2.5 points per hour", timedelta(hours=2), 5),
        ("at most 7 points,2.5 points per hour", timedelta(hours=3), 7),
        ("2 Days grace,  1 point per DAY", timedelta(days=2, hours=1), 3),
    ],
)
def test_what_being_late_costs(rule, late, points):
    rule = read_rule(rule, DUE)
    assert rule.penalty(100, read_time(DUE, "") + late) == Decimal(points)


@pytest.mark.parametrize(
    ("rule", "due", "words"),
    [
        ("10% a day", DUE, "'10% a day' is not part of a rule; write '10% per day, at most 50%"),
        ("at most 50%", DUE, "lacks an amount per day"),
        ("10% per day, 20% per day", DUE, "says '10% per day' and '20% per day'; write only one"),
        ("10% per day", "tomorrow", "--due: 'tomorrow' is not a time; write 2026-11-22T23:59"),
        ("10% per day", "2026-11-22", "is not a time"),
    ],
)
def test_a_rule_that_cannot_be_understood_says_how_to_write_one(rule, due, words):
    with pytest.raises(UsageError) as error:
        read_rule(rule, due)
    assert words in str(error.value)


def test_times_with_and_without_an_offset_are_not_compared(file):
    times = file("student,submitted at\nada,2026-11-22T10:00+01:00\n")
    with pytest.raises(UsageError, match=r"line 2.*has no offset from UTC"):
        read_times(times, datetime.fromisoformat(DUE))
    with pytest.raises(UsageError, match="student,submitted_at"):
        read_times(file("student,time\n"), datetime.fromisoformat(DUE))


def test_a_mark_is_the_score_less_lateness_and_then_the_points_by_hand(file):
    times = file(
        "student,submitted_at\nada,2026-11-23T10:00\nada,2026-11-22T10:00\nbob,2026-12-24T10:00\n"
        "nobody,2026-11-23T10:00\n",
        "times.csv",
    )
    points = file(
        "student,points,reason\nada,5,talk\nada,2.5,\nbob,4,oral\ndan,-60,copied\n"
        "zoe,7,oral\nx,1,\n",
        "p.csv",
    )
    roster = file("student\nada\nbob\nzoe\ncy\n", "roster.csv")
    marking = marking_of(
        ["ada", "bob", "dan"],
        roster=roster,
        times=times,
        due=DUE,
        late="10% per day, at most 30%",
        points=points,
    )
    marks = marks_of(marking, graded("ada", 80), graded("bob", 20), graded("dan", 50))
    told = {name: (mark.score, mark.late, mark.by_hand, mark.total) for name, mark in marks.items()}
    assert told == {
        "ada": (80, 10, Decimal("7.5"), Decimal("77.5")),
        "bob": (20, 30, 4, 4),
        "zoe": (None, 0, 7, 7),
        "cy": (None, 0, 0, 0),
        "dan": (50, 0, -60, 0),
    }
    assert [name for name, mark in marks.items() if not mark.exists] == ["cy"]
    assert marks["ada"].lines() == ["80 for the tests", "-10 for being late", "+5 talk", "+2.5"]
    warnings = " ".join(marking.warnings(named=True))
    for words in ("'dan'", "'zoe', 'cy'", "'nobody'", "'x'"):
        assert words in warnings
    assert "'" not in " ".join(marking.warnings(named=False))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("student,points\nada,5\n", "needs the columns student,points,reason"),
        ("student,points,reason\nada,five,x\n", "line 2: 'five' is not a number of points"),
        ("student,points,reason\nada,1e99,x\n", "line 2: '1e99' is not a number of points"),
        ("student,points,reason\nada,NaN,x\n", "'NaN' is not a number of points"),
    ],
)
def test_points_that_are_none_are_named_with_their_line(file, text, words):
    with pytest.raises(UsageError) as error:
        marking_of(["ada"], points=file(text))
    assert words in str(error.value)


def test_a_ledger_keeps_points_until_a_file_has_others(file, tmp_path):
    ledger = tmp_path / "ledger"

    def total(points=None):
        given = {} if points is None else {"points": file(points)}
        marking = marking_of(["ada", "bob"], ledger=ledger, **given)
        marks = marks_of(marking, graded("ada", 50), graded("bob", 50))
        return [int(mark.total) for mark in marks.values()]

    assert total() == [50, 50]
    assert total("student,points,reason\nada,5,talk\nbob,1,\n") == [55, 51]
    size = ledger.stat().st_size
    assert total() == [55, 51]
    assert total("student,points,reason\nada,5,talk\n") == [55, 51]
    assert ledger.stat().st_size == size
    assert total("student,points,reason\nada,0,\n") == [50, 51]
    assert total() == [50, 51]
    # Whom nobody knows without a roster is not forgotten in silence.
    assert total("student,points,reason\nx@example.edu,7,talk\n") == [50, 51]
    for names in ("ada", "bob"), ("x@example.edu",):
        said = marking_of(names, ledger=ledger).warnings(named=True)
        assert any("are kept: 'x@example.edu'" in text for text in said) == ("ada" in names)
    with Ledger(ledger) as book:
        assert {note["lab"] for note in book.notes("points")} == {LAB}


WORKSHEET_TIMES = """\
Identifier,"Full name",Status,Grade,"Maximum Grade","Last modified (submission)"
Participant 101,"Ada L","Submitted for grading",,100.00,"Tuesday, 24 November 2026, 12:05 AM"
Participant 102,Bo,"Submitted for grading",,100.00,"Sunday, November 22, 2026, 11:59 PM"
Participant 103,Cy,"No submission",,100.00,-
Participant 104,Di,"Submitted for grading",,100.00,"Monday, 23 November 2026, 12:05 PM"
"""
ADA, BO, DI = (f"{name}_assignsubmission_file" for name in ("Ada L_101", "Bo_102", "Di_104"))


def test_a_worksheet_says_when_each_student_handed_in_and_a_file_of_times_says_it_better(file):
    given = {"roster": file(WORKSHEET_TIMES), "due": DUE, "late": "10% per day"}
    grades = [graded(entry, 80) for entry in (ADA, BO, DI)]
    marking = marking_of([ADA, BO, DI], **given)
    assert {n: int(m.late) for n, m in marks_of(marking, *grades).items()} == {
        "Ada L": 20, "Bo": 0, "Cy": 0, "Di": 10,
    }  # fmt: skip
    assert marking.warnings(named=True) == [f"1 on the roster handed in nothing for {LAB}: 'Cy'"]
    times = file("student,submitted_at\nAda L,2026-11-22T10:00\n", "times.csv")
    assert not any(m.late for m in marks_of(marking_of([ADA], **given, times=times)).values())
    with pytest.raises(UsageError, match="write --due as Moodle shows it to you, without offset"):
        marking_of([ADA], **{**given, "due": f"{DUE}+01:00"})
    for cell in ("Montag, 23. November 2026, 10:30", "31 November 2026, 10:00", "soon"):
        text = WORKSHEET_TIMES.replace("Tuesday, 24 November 2026, 12:05 AM", cell)
        with pytest.raises(UsageError, match=r"line 2: .* is not a time as Moodle writes it"):
            marking_of([ADA], **{**given, "roster": file(text)})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "1 marked as late in the name by the platform, and no late rule is named: see --late"),
        ({"times": "bo_2_3_starter,2026-11-22T10:00"}, "without a time: nothing is taken off"),
        ({"times": "ada_LATE_1_2_starter,2026-11-22T10:00"}, "but in time by --due 2026-11-22T23"),
        ({"times": "ada_LATE_1_2_starter,2026-11-23T10:00"}, None),
    ],
)
def test_work_that_its_platform_calls_late_is_never_silently_in_time(file, options, words):
    if options:
        times = file(f"student,submitted_at\n{options['times']}\nbo_2_3_starter,2026-11-22T10:00\n")
        options = {"times": times, "due": DUE, "late": "10% per day"}
    told = [text for text in marking_of(["ada_LATE_1_2_starter", "bo_2_3_starter"], **options)
            .warnings(named=True) if "late" in text]  # fmt: skip
    assert len(told) == (words is not None)
    assert words is None or words in told[0]
    assert words is None or "'ada_LATE_1_2_starter'" in told[0]


def test_a_ledger_keeps_the_rule_and_the_times_until_the_files_are_others(file, tmp_path):
    ledger = tmp_path / "ledger"
    rule = {"due": DUE, "late": "10% per day"}
    times = file("student,submitted_at\nada,2026-11-24T10:00\nbob,2026-11-22T10:00\n")

    def marked(score=80, files="5", **options):
        entries = {LAB: dict.fromkeys(("ada", "bob"), files * 64)}
        (marking,) = read_markings(MarkOptions(ledger=ledger, **options), entries)
        grades = [
            replace(graded(name, score), submission=files * 64, mode=f"m{score}")
            for name in ("ada", "bob")
        ]
        with Ledger(ledger) as book:
            for grade in grades[:1]:
                book.add(grade)
        marks = marks_of(marking, *grades)
        return (
            [int(mark.total) for mark in marks.values()],
            marking,
            marking.changes(grades, ledger),
        )

    assert marked(times=times, **rule)[::2] == ([60, 80], [])
    size = ledger.stat().st_size
    assert marked()[::2] == ([60, 80], [])
    grade_line = max(map(len, ledger.read_bytes().splitlines())) + 1
    assert ledger.stat().st_size <= size + grade_line
    # A change is reported with its reason, once.
    assert marked(score=70)[::2] == ([50, 70], [
        "ada: 60 -> 50: score 80 -> 70 in test_a (the same files were graded again)",
        "bob: 80 -> 70: score 80 -> 70 in test_a (the same files were graded again)",
    ])  # fmt: skip
    assert marked(score=70)[2] == []
    assert marked(score=70, due="2026-11-23T23:59", late="10% per day")[2] == [
        "ada: 50 -> 60: taken off for being late 20 -> 10"
    ]
    points = file("student,points,reason\nbob,5,talk\n", "points.csv")
    assert marked(score=70, points=points)[2] == ["bob: 70 -> 75: points by hand 0 -> 5"]
    # The old times say nothing about other files.
    totals, marking, changes = marked(score=90, files="6")
    assert totals == [80, 95]
    assert "(other files were handed in)" in changes[0]
    (told,) = marking.warnings(named=True)
    assert told.startswith("2 handed in other files since the time in the ledger: see --times")


GROUPS = """\
Identifier,"Full name",Status,Group,Grade,"Maximum Grade","Last modified (submission)"
Participant 101,"Ada L",Submitted,"Pair_1: x",,100.00,"Tuesday, 24 November 2026, 12:05 AM"
Participant 17,Bo,Submitted,Duo,,100.00,-
Participant 103,Cy,Submitted,"Pair_1: x",,100.00,"Tuesday, 24 November 2026, 12:05 AM"
Participant 104,Duo,Submitted,Duo,,100.00,-
"""
PAIR, SOLO = "Pair 1 x_17_assignsubmission_file", "Duo_104_assignsubmission_file"


def test_what_a_group_handed_in_is_graded_for_each_member_and_for_nobody_else(file):
    work = [Submission(name, LAB, {LAB: name.encode()}) for name in (PAIR, SOLO)]
    # The group's number is that of a participant who is not in it.
    expanded = by_student(work, file(GROUPS), [])
    assert [one.student for one in expanded] == [
        "Ada L_101_assignsubmission_file", "Cy_103_assignsubmission_file", SOLO,
    ]  # fmt: skip
    assert {one.digest for one in expanded[:2]} == {work[0].digest}
    assert expanded[0].remark_texts == ("Handed in by the group Pair 1 x",)
    assert expanded[2] == work[1]
    marking = marking_of([one.student for one in expanded], roster=file(GROUPS), due=DUE,
                         late="10% per day")  # fmt: skip
    grades = [graded(one.student, 80) for one in expanded]
    totals = {name: int(mark.total) for name, mark in marks_of(marking, *grades).items()}
    assert totals == {"Ada L": 60, "Bo": 0, "Cy": 60, "Duo": 80}
    for roster in (None, file(PLAIN), file(WORKSHEET)):
        assert {one.student for one in by_student(work, roster, [])} == {PAIR, SOLO}


def test_two_entries_of_one_student_are_that_students_choice_and_not_the_class_s(file):
    names = {"ada": b"a", "ADA@X.edu": b"b", "bob": b"b", "zoe": b"z"}
    work = [Submission(name, LAB, {LAB: source}) for name, source in names.items()]
    students = {one.student: one for one in by_student(work, file(PLAIN), [])}
    assert set(students) == {"ada", "bob", "zoe"}
    (remark,) = students["ada"].remarks
    assert remark.is_doubt
    assert remark.text.startswith("ada and ADA@X.edu may each be the file to grade. ada was graded")
    assert students["bob"] == work[2]
    Students(students, read_roster(file(PLAIN)))


def test_options_that_need_others_say_which(file):
    with pytest.raises(UsageError, match="--due and --late need each other"):
        marking_of([], due=DUE)
    with pytest.raises(UsageError, match="--times needs --due and --late"):
        marking_of([], times=file("student,submitted_at\n"))
    with pytest.raises(UsageError, match="--late needs the times of submissions: --times FILE, or"):
        marking_of([], due=DUE, late="10% per day", roster=file(PLAIN))
    with pytest.raises(UsageError, match="--points is for one lab at a time"):
        read_markings(MarkOptions(points=file("x\n")), {LAB: {}, "lab-91-more": {}})
    with pytest.raises(UsageError, match="--canvas needs --roster FILE with the export of Canvas"):
        check_roster("--canvas", read_roster(file(PLAIN)))
    with pytest.raises(UsageError, match="--moodle needs --roster FILE with the export of Moodle"):
        check_roster("--moodle", None)


@pytest.fixture
def lab(tiny):
    return find_labs(tiny)[0]


def rows(text):
    return [*csv.reader(io.StringIO(text))]


def test_canvas_gets_its_own_columns_back_with_the_labs(file, lab):
    marking = marking_of(["x_11_900_starter", "eve"], roster=file(CANVAS))
    marks = marking.marks([graded("x_11_900_starter", 80), graded("eve", 0)])
    assert rows(canvas_csv(marking, marks, lab)) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Lab 90 (7001)"],
        ["    Points Possible", "", "", "", "", "100"],
        ["Lovelace, Ada", "11", "s1", "ada", "A", "80"],
        ["Björk", "12", "s2", "bjork", "A", "70"],
        ['\'=HYPERLINK("x")', "13", "s3", "eve", "A", "0"],
        ["Student, Test", "14", "", "x14", "A", ""],
    ]


def test_canvas_gets_first_and_last_names_back(file, lab):
    text = "LastName,FirstName,ID,SIS Login ID,Section,Lab 90 (7001)\nLovelace,Ada,11,ada,A,\n"
    marking = marking_of(["x_11_900_starter"], roster=file(text))
    marks = marking.marks([graded("x_11_900_starter", 80)])
    assert rows(canvas_csv(marking, marks, lab)) == [
        ["LastName", "FirstName", "ID", "SIS Login ID", "Section", "Lab 90 (7001)"],
        ["    Points Possible", "", "", "", "", "100"],
        ["Lovelace", "Ada", "11", "ada", "A", "80"],
    ]


def test_moodle_gets_its_worksheet_back_filled_in(file, lab):
    entry = "Björk_102_assignsubmission_file"
    marking = marking_of([entry], roster=file(WORKSHEET))
    told = rows(moodle_csv(marking, marking.marks([graded(entry, 80)]), lab))
    before = rows(WORKSHEET.removeprefix("\ufeff"))
    before[2][4] = "80"
    assert told == before


def test_moodles_gradebook_gets_one_column(file, lab):
    text = MOODLE + "Ada\tLovelace\t7\tada@x.edu\t\t3\nBob\tRoss\t8\tbob@x.edu\t35.00\t\n"
    marking = marking_of(["ada"], roster=file(text))
    assert rows(moodle_csv(marking, marking.marks([graded("ada", 80)]), lab)) == [
        ["First name", "Surname", "ID number", "Email address", "Assignment: Lab 90 (Real)"],
        ["Ada", "Lovelace", "7", "ada@x.edu", "80"],
        ["Bob", "Ross", "8", "bob@x.edu", "35.00"],
    ]


def test_an_extension_moves_one_students_due_time_and_an_excuse_leaves_the_lab_out(file, tiny):
    times = file(
        "student,submitted_at\n"
        + "".join(f"{name},2026-11-24T10:00\n" for name in ("ada", "bob", "cy", "dan", "eve")),
        "times.csv",
    )
    table = file(
        "student,lab,extension,reason\nada,90,24 hours,ill\nada,90,48 hours,ill\nbob,Lab 90,1 d,\n"
        "cy,lab-90,2026-11-24T10:00,trip\ndan,90,Excused,ill\nfay,90,excused,left\nnobody,90,3,\n",
        "extensions.csv",
    )  # fmt: skip
    names = ["ada", "bob", "cy", "dan", "eve"]
    roster = file("student\n" + "\n".join([*names, "fay"]), "roster.csv")
    given = {"times": times, "due": DUE, "late": "10% per day", "roster": roster}
    (marking,) = read_markings(
        MarkOptions(**given, extensions=table), {LAB: dict.fromkeys(names, "5" * 64)},
        find_labs(tiny),
    )  # fmt: skip
    marks = marks_of(marking, *(graded(name, 80) for name in names))
    assert {name: (mark.text, mark.exists, mark.lines()) for name, mark in marks.items()} == {
        "ada": ("80", True, ["80 for the tests", "due 2026-11-24T23:59:00: ill"]),
        "bob": ("70", True, [
            "80 for the tests", "-10 for being late", "due 2026-11-23T23:59:00"]),
        "cy": ("80", True, ["80 for the tests", "due 2026-11-24T10:00:00: trip"]),
        "dan": ("excused", False, ["excused: ill"]),
        "eve": ("60", True, ["80 for the tests", "-20 for being late"]),
        "fay": ("excused", False, ["excused: left"]),
    }  # fmt: skip
    assert "'nobody'" in " ".join(marking.warnings(named=True))
    assert marks["dan"].to_json()["mark"] is None
    assert marks["dan"].to_json()["extension"] == "excused"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("ada,77,2 days,", "line 2: there is no lab '77'; the labs are 90"),
        ("ada,,2 days,", "line 2: there is no lab ''; the labs are 90"),
        ("ada,90,two days,", "line 2: 'two days' is not an extension; write 48 hours, 2 days"),
        ("ada,90,2026-11-25,", "line 2: '2026-11-25' is not an extension"),
        ("ada,90,2026-11-25T12:00+01:00,", "cannot be compared, since one has no offset from UTC"),
        (None, "needs the columns student,lab,extension,reason"),
    ],
)  # fmt: skip
def test_an_extension_that_cannot_be_read_is_named_with_its_line(file, tiny, row, words):
    table = file("student,lab\n" if row is None else f"student,lab,extension,reason\n{row}\n", "e")
    times = file("student,submitted_at\n", "times.csv")
    given = {"times": times, "due": DUE, "late": "10% per day", "extensions": table}
    with pytest.raises(UsageError) as error:
        read_markings(MarkOptions(**given), {LAB: {"ada": "5" * 64}}, find_labs(tiny))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("rule", "hours", "left", "days"),
    [
        ("10% per day", 0, 5, 0),
        ("10% per day", 1, 5, 1),
        ("10% per day", 24, 5, 1),
        ("10% per day", 25, 5, 2),
        ("10% per day", 25, 1, 1),
        ("10% per day", 25, 0, 0),
        # The most that the rule takes is taken with or without these days.
        ("10% per day, at most 30%", 24 * 9, 5, 0),
        ("10% per day, at most 30%", 24 * 4, 2, 2),
        # A day moves the due time, and the grace with it.
        ("10% per day, 60 min grace", 25, 5, 1),
    ],
)  # fmt: skip
def test_late_days_are_used_as_far_as_they_lower_what_is_taken_off(rule, hours, left, days):
    late = read_time(DUE, "") + timedelta(hours=hours)
    assert days_for(read_rule(rule, DUE), 100, late, left) == days


def test_late_days_of_other_ledgers_count_by_the_order_of_due_times(file, tmp_path):
    names = {"lab-90-pairs": ["ada_7_1_starter", "bob_8_2_starter"],
             "lab-91-more": ["ada_7_3_starter", "bob_8_4_starter"]}  # fmt: skip
    due = {"lab-90-pairs": "2026-11-22T23:59", "lab-91-more": "2026-11-29T23:59"}
    ledgers = {lab: tmp_path / lab for lab in names}

    def marked(lab, days_late=None, **options):
        entries = {lab: dict.fromkeys(names[lab], "5" * 64)}
        if days_late is not None:
            time = read_time(due[lab], "") + timedelta(days=days_late)
            text = "".join(f"{name},{time.isoformat()}\n" for name in names[lab][:1])
            times = file("student,submitted_at\n" + text, "times.csv")
            options |= {"times": times, "due": due[lab], "late": "10% per day"}
        (marking,) = read_markings(MarkOptions(ledger=ledgers[lab], **options), entries)
        grades = [replace(graded(name, 80), lab=lab) for name in names[lab]]
        changes = marking.changes(grades, ledgers[lab])
        return [(mark.days, int(mark.total)) for mark in marking.marks(grades).values()], changes

    first, second = names
    term = {"late_days": 3, "term": [*ledgers.values()][:1]}
    assert marked(first, 2, late_days=3)[0] == [(2, 80), (0, 80)]
    assert marked(second, 2, **term)[0] == [(1, 70), (0, 80)]
    # A regrade keeps them, and the lab that was due first does not lose days to the second.
    assert marked(second) == ([(1, 70), (0, 80)], [])
    both = {"late_days": 3, "term": [*ledgers.values()]}
    assert marked(first, **both) == ([(2, 80), (0, 80)], [])
    assert marked(first, 1, **both)[0] == [(1, 80), (0, 80)]
    again = marked(second, **both)
    assert again == ([(2, 80), (0, 80)], ["ada: 70 -> 80: taken off for being late 10 -> 0"])
    # Files that were handed in again have another name, and are one submission all the same.
    names[first][0] = "ada_7_9_starter-1"
    assert marked(first, 3, **both)[0] == [(3, 80), (0, 80)]
    assert marked(second, **both)[0] == [(0, 60), (0, 80)]
    with pytest.raises(UsageError, match="there is no such ledger"):
        marked(second, late_days=3, term=[tmp_path / "none"])
    with pytest.raises(UsageError, match="--term needs --late-days N"):
        marked(second, term=[ledgers[first]])
    with pytest.raises(UsageError, match="--late-days -1: write a number of days from 0 to 365"):
        marked(second, late_days=-1)
    with pytest.raises(UsageError, match="--late-days needs --due and --late"):
        marking_of([], late_days=1)
