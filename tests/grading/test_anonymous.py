"""Reports without names: pseudonyms that stay, and no name left in what students wrote."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from made_grades import made_grade, made_test

from labkit.errors import UsageError
from labkit.grading.marks.given_points import Adjustment
from labkit.grading.marks.mark import Mark
from labkit.grading.marks.roster import read_roster
from labkit.grading.marks.students import Students
from labkit.grading.reports.anonymous import Pseudonyms, read_key

KEY = b"k" * 64
ADA, BJORK, MAX, WEI, PLAIN = ENTRIES = (
    "Ada Lovelace_101_assignsubmission_file",
    "björkgudmundsdottir_22_900_starter",
    "Max Will_103_assignsubmission_file",
    "王 伟_104_assignsubmission_file",
    "s1234567",
)


@pytest.fixture
def students(tmp_path):
    roster = tmp_path / "roster.csv"
    roster.write_text(
        "Student,ID,SIS Login ID,Section\n"
        '"Guðmundsdóttir, Björk",22,bjork.g,A\n"Hopper, G",23,ghopper,A\n'
    )
    return Students(ENTRIES, read_roster(roster)).all


@pytest.fixture
def pseudonyms(students):
    return Pseudonyms(students, KEY)


def called(pseudonyms, entry):
    return next(name for one, name in pseudonyms.names.items() if one.entry == entry)


def test_a_pseudonym_is_the_same_each_time_and_only_with_the_same_key(students, pseudonyms):
    assert Pseudonyms(students[::-1], KEY).names == pseudonyms.names
    others = Pseudonyms(students, b"x" * 64).names
    assert not {*others.values()} & {*pseudonyms.names.values()}
    assert len({*pseudonyms.names.values()}) == len(students) == 6


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("there is no Ada Lovelace_101_assignsubmission_file/x", "there is no {ADA}/x"),
        ("by Ada Lovelace, ADA, ada_lovelace and AdaLovelace", "by {ADA}, {ADA}, {ADA} and {ADA}"),
        ("lovelace.ada@x.edu alovelace", "{ADA}@x.edu {ADA}"),
        ("# Bjo\u0308rk Guðmundsdóttir, Bjork, bjork.g", "# {BJORK}, {BJORK}, {BJORK}.g"),
        ("ask G. Hopper or ghopper", "ask G. {HOPPER} or {HOPPER}"),
        ("Max and max will; max(will)", "{MAX} and {MAX}; max(will)"),
        ("max(1) will do; Will, max", "max(1) will do; {MAX}, {MAX}"),
        ("王 伟 and s1234567", "{WEI} and {PLAIN}"),
        ("adamant lovelaces 101", "adamant lovelaces 101"),
        ("", ""),
    ],
)
def test_names_in_texts_become_pseudonyms_and_other_words_stay(pseudonyms, students, text, shown):
    author = next(one for one in students if one.entry == PLAIN)
    names = {
        name: called(pseudonyms, globals()[name])
        for name in ("ADA", "BJORK", "MAX", "WEI", "PLAIN")
    }
    names["HOPPER"] = called(pseudonyms, None)
    assert pseudonyms.text(text, author) == shown.format(**names)


def test_a_grade_a_mark_and_a_source_name_nobody(pseudonyms):
    told = "printed   Ada Lovelace and Björk were here"
    failed = made_test("test_a", 1, 20, "assertion", told, told)
    grade = made_grade(ADA, [failed], fault=f"{ADA}/essay.docx is no .py file; see Max")
    student = next(one for one in pseudonyms.names if one.entry == ADA)
    given = (Adjustment(Decimal(-5), "copied from Björk"),)
    mark = Mark(
        ADA, grade.lab, 20, 20, adjustments=given, first="Ada", last="Lovelace", email="a@x"
    )
    source = "# Ada Lovelace\nclass Pairs:\n    björk = max(1, 2)\n".encode()
    shown = (
        str(pseudonyms.grade(grade)),
        str(pseudonyms.mark(mark, student)),
        pseudonyms.source(source, ADA).decode(),
    )
    for text in shown:
        assert pseudonyms.names[student] in text
        for name in ("ada", "lovelace", "jörk", "101", "a@x", "see max"):
            assert name not in text.lower()
    # Rules are the course's own words.
    assert "The rule of test_a." in shown[0]
    assert "class Pairs:" in shown[2]
    assert replace(grade, student="") == replace(pseudonyms.grade(grade), student="",
        fault=grade.fault, tests=grade.tests)  # fmt: skip


def test_words_of_the_graders_own_texts_are_no_names_there(tmp_path):
    """A pseudonym in their place would tell the surname."""
    roster = tmp_path / "roster.csv"
    roster.write_text('Student,ID,Section\n"Empty, Bob",7,A\n"Text, Ann",8,A\n"Moe, Cy",9,A\n')
    students = Students(["emptybob_7_900_starter", "Text", "line"], read_roster(roster)).all
    pseudonyms = Pseudonyms(students, KEY)
    bob, line = (called(pseudonyms, entry) for entry in (students[0].entry, "line"))
    fault = "starter.py is empty; line 3: Bob Empty asked Cy Moe. Text, text; Empty"
    test = replace(made_test("test_a", 1, 20, "assertion", "Ann's text"), rule="Text is emitted.")
    for entry, text in (
        (students[0].entry, "is empty"),
        ("Text", "Text, text"),
        ("line", "line 3"),
    ):
        shown = pseudonyms.grade(made_grade(entry, [test], fault=fault))
        assert text in shown.fault
        assert "Moe" not in shown.fault
        assert f"{bob} asked" in shown.fault
        assert re.fullmatch("student_[0-9a-f]{10}'s text", shown.tests[0].message)
    # The student's own source is not the grader's text.
    assert pseudonyms.source(b"# by Empty", students[0].entry).decode() == f"# by {bob}"
    assert pseudonyms.source(b"line = 'line'", "line").decode() == f"{line} = '{line}'"


def test_a_source_stays_code_with_the_same_tokens(pseudonyms):
    source = b"def ada_lovelace(ada, max):\n    return max(ada)\n"
    shown = pseudonyms.source(source, ADA)
    compile(shown, "starter.py", "exec")
    assert b"ada" not in shown


def test_the_key_is_made_once_and_kept_for_its_owner(tmp_path):
    path = tmp_path / ".labkit" / "pseudonyms-key"
    key = read_key(path)
    assert read_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("short")
    with pytest.raises(UsageError, match="does not contain the key"):
        read_key(path)
