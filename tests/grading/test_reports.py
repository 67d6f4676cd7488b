"""Reports: valid by their schemas, equal to the byte, and unharmed by what students write."""

import csv
import json
import re
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from made_grades import made_grade, made_test
from referencing import Registry, Resource

from labkit.course.lab import find_labs
from labkit.grading.assignment import Assignment
from labkit.grading.feedback import account
from labkit.grading.grade import Grade
from labkit.grading.grader import grade
from labkit.grading.marks.mark import Mark
from labkit.grading.reading.submission import Submission, one_line
from labkit.grading.reports.charts import KINDS, SHADES
from labkit.grading.reports.gradebooks import nbgrader_csv
from labkit.grading.reports.json_junit import report_json, report_junit
from labkit.grading.reports.terminal import report_text
from labkit.running.lab_impl import Implementation
from labkit.running.reporting import groups
from labkit.running.reporting.showing import MOST_CHARACTERS, printable, repeatable
from labkit.running.result_kind import ResultKind
from labkit.running.source import KEEP_SHORT, MOST_SOURCE_BYTES

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "labkit/grading/schemas"
HOSTILE = """
class Pairs:
    held = "<script>alert(1)</script>"
    def feed(self, text):
        raise ValueError("]]> <b>\\x1b[31mred\\x00 \\ud800 \\u202e" + repr(object()) + "x" * 99_999)
    def flush(self):
        return "<![CDATA["
"""
OF_FAULTS = {
    "empty": (b" \n", "is empty"),
    "long": (
        b"#" * (MOST_SOURCE_BYTES + 1),
        f"has 65,537 bytes, and the grader reads at most 65,536: {KEEP_SHORT}",
    ),
    "utf16": ("x = 1".encode("utf-16"), "is not UTF-8 (byte 3 is NUL); save it as UTF-8"),
    "latin1": (b"# one\nx = '\xe9'\n", "line 2 is not UTF-8 (byte 0xe9); save it as UTF-8"),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    root = tmp_path_factory.mktemp("reports") / "repo"
    shutil.copytree(ROOT / "tests/tiny_repo", root)
    return find_labs(root)[0]


@pytest.fixture(scope="module")
def grade_of(lab, sandbox_in):
    """Grade a source on the tiny lab."""
    sandbox = sandbox_in("trust")

    def of(source, student="ada"):
        handed_in = Submission(student, lab.name, {lab.name: source})
        return grade(handed_in, Assignment.of(lab, [lab]), sandbox)

    return of


def with_bug(lab):
    (bug,) = (bug for bug in lab.bugs if bug.name == "drops")
    return Implementation("bug", lab.solution, bug).source()


@pytest.fixture(scope="module")
def grades(lab, grade_of):
    """One grade of each sort, sorted by student."""
    sources = {
        "bug": with_bug(lab),
        "hostile": HOSTILE.encode(),
        "right": lab.solution.read_bytes(),
        "starter": lab.pristine_starter.read_bytes(),
        "syntax": b"def f(:",
        **{name: source for name, (source, _) in OF_FAULTS.items()},
    }
    return [grade_of(source, student) for student, source in sorted(sources.items())]


@pytest.fixture(scope="module")
def by_student(grades):
    return {one.student: one for one in grades}


@pytest.fixture(scope="module")
def validate():
    """Check a report by its schema."""
    read = {path.name: json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")}
    named = {name: Resource.from_contents(told) for name, told in read.items()}
    schema = named["report.schema.json"].contents
    jsonschema.Draft202012Validator.check_schema(schema)
    registry = Registry().with_resources(named.items())
    return jsonschema.Draft202012Validator(schema, registry=registry).validate


def test_json_is_as_its_schema_says_and_reads_back(grades, validate):
    report = json.loads(report_json(grades))
    validate(report)
    assert [Grade.from_json(one) for one in report["grades"]] == grades
    for one in report["grades"]:
        assert one["score"] == sum(test["score"] for test in one["tests"])
        assert one["max_score"] == sum(test["max_score"] for test in one["tests"]) == 100


@pytest.mark.parametrize(
    "change",
    [
        {"score": -1},
        {"mode": "none"},
        {"submission": "x"},
        {"time": 1},
        {"tests": []},
        {"fault": 3},
    ],
)
def test_the_schema_refuses_what_is_not_a_grade(by_student, validate, change):
    told = by_student["starter"].to_json()
    test = next(test for test in told["tests"] if not test["passed"])
    # Or a test that failed and has points.
    for other in (change, {"tests": [{**test, "score": 1}]}):
        with pytest.raises(jsonschema.ValidationError):
            validate({"schema": "labkit/report/v1", "grades": [{**told, **other}]})


def test_every_kind_of_result_has_its_words_its_colour_and_its_place_in_the_schema():
    schema = json.loads((SCHEMAS / "grade.schema.json").read_text())
    assert {*schema["$defs"]["test"]["properties"]["kind"]["enum"]} == {*ResultKind}
    # The page has a kind as its number, and takes the first one for a pass.
    assert [*KINDS] == [*ResultKind]
    assert sorted(kind for kinds in SHADES.values() for kind in kinds) == sorted(ResultKind)
    waiting = {kind for kind in ResultKind if kind.is_waiting}
    assert account.WAITS.keys() == groups.WAITS.keys() == waiting
    others = {ResultKind.PASSED, ResultKind.TEST_ERROR}
    assert {kind for kind in ResultKind if kind.is_wrong} == {*ResultKind} - waiting - others


def test_what_cannot_run_scores_0_and_says_why(by_student):
    for name, (_, fault) in OF_FAULTS.items():
        found = by_student[name]
        assert (found.score, found.fault) == (0, f"starter.py {fault}")
        assert {(test.kind, test.message) for test in found.tests} == {("not-run", found.fault)}


def test_a_declared_encoding_other_than_utf_8_is_not_a_fault(grade_of, lab):
    source = lab.solution.read_bytes() + b"\nNAME = '\xe9'\n"
    assert grade_of(b"# -*- coding: latin-1 -*-\n" + source).score == 100
    assert grade_of(source).score == 0


def test_a_failure_is_told_in_full_with_its_rule(by_student):
    tests = {test.name: test for test in by_student["bug"].tests}
    assert by_student["bug"].looks_like == "drops"
    for words in ("rule      flush returns the odd one.", "expected  ", "actual    ", "trace"):
        assert words in tests["test_flush"].detail
    assert tests["test_pairs"].detail == ""


def test_equal_work_gives_equal_bytes_though_addresses_differ(by_student, grade_of):
    again = grade_of(HOSTILE.encode(), "hostile")
    assert report_json([again]) == report_json([by_student["hostile"]])
    assert "object object at 0x…" in again.tests[1].message


def scored(grade):
    """The mark of a grade that is its score."""
    return Mark(grade.student, grade.lab, grade.score, grade.max_score)


REPORTS = {
    "json": lambda grades, lab: report_json(grades),
    "csv": lambda grades, lab: nbgrader_csv(map(scored, grades)),
    "junit": lambda grades, lab: report_junit(grades),
    "many": lambda grades, lab: report_text(grades, {lab.name: lab}, colour=False),
    "one": lambda grades, lab: report_text(
        [one for one in grades if one.student == "hostile"], {lab.name: lab}, colour=False
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_what_a_student_writes_reaches_no_terminal_and_breaks_no_file(
    by_student, grades, lab, name
):
    said = by_student["hostile"].tests[1].message
    assert r"]]> <b>\x1b[31mred\x00 \ud800 \u202e" in said
    assert len(said) < MOST_CHARACTERS + 100
    report = REPORTS[name](grades, lab)
    assert report.encode("utf-8")
    assert all(char.isprintable() or char in "\n\t" for char in report)
    assert str(lab.path.parents[3]) not in report
    assert str(ROOT) not in report


COLUMNS = """
assignment duedate timestamp student_id last_name first_name email raw_score late_submission_penalty
score max_score
""".split()  # noqa: SIM905


def test_csv_has_the_columns_of_nbgrader(grades):
    rows = [*csv.DictReader(StringIO(nbgrader_csv(map(scored, grades))))]
    assert [*rows[0]] == COLUMNS
    for row, one in zip(rows, grades, strict=True):
        assert (row["student_id"], row["assignment"]) == (one.student, one.lab)
        assert int(row["score"]) == int(row["raw_score"]) == one.score
        assert (row["max_score"], row["late_submission_penalty"]) == ("100", "0")
        assert row["email"] == row["timestamp"] == ""
    # A task's points, and a test's, are in columns of their own, if they can be more than 0.
    absent = Mark("zoe", lab_name := grades[0].lab, None, 100)
    other = replace(grades[0], lab="lab-91", tests=(made_test("test_other", 3, 20),))
    text = nbgrader_csv([*map(scored, [*grades, other]), absent], [*grades, other])
    rows = {(row["student_id"], row["assignment"]): row for row in csv.DictReader(StringIO(text))}
    own = [test.name for test in grades[0].tests if test.max_score]
    assert [*rows["bug", lab_name]] == [*COLUMNS, "task 1", "task 2", "task 3", *own, "test_other"]
    assert {row[name] for row in rows.values() for name in own} >= {"0", ""}
    bug = rows["bug", lab_name]
    assert [bug[name] for name in ("task 1", "task 2", "task 3", "test_flush")] == [
        "45",
        "10",
        "",
        "0",
    ]
    assert sum(int(bug[name]) for name in own) == int(bug["raw_score"]) == 55
    assert {rows["zoe", lab_name][name] for name in (*own, "task 1")} == {""}
    assert rows[other.student, "lab-91"]["task 3"] == "20"
    # A name is never a formula.
    for name in ('=HYPERLINK("x")', "+1", "-1", "@x", '"a,b"', "Ada, Lovelace"):
        (row,) = csv.DictReader(StringIO(nbgrader_csv([scored(replace(grades[0], student=name))])))
        assert row["student_id"] == (f"'{name}" if name[0] in "=+-@" else name)


def test_junit_counts_every_test_and_skips_none(grades):
    root = ElementTree.fromstring(report_junit(grades))
    suites = [*root]
    assert root.tag == "testsuites"
    assert [suite.get("name") for suite in suites] == [f"{g.lab}.{g.student}" for g in grades]
    for element in (root, *suites):
        cases = [*element.iter("testcase")]
        assert int(element.get("tests")) == len(cases) > 0
        for tag, count in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(element.get(count)) == len([*element.iter(tag)])
        assert element.get("skipped") == element.get("time") == "0"
    for suite, one in zip(suites, grades, strict=True):
        passed = [case.get("name") for case in suite if len(case) == 0]
        assert passed == [test.name for test in one.tests if test.passed]
        for case in suite:
            assert case.get("classname") == suite.get("name")
            assert case.get("time") == "0"
            assert all(told.get("message") and told.text for told in case)

    # It tells a broken rule from what could not run.
    suites = {suite.get("name").rpartition(".")[2]: suite for suite in root}
    assert (suites["bug"].get("failures"), suites["bug"].get("errors")) == ("3", "0")
    assert (suites["syntax"].get("failures"), suites["empty"].get("failures")) == ("0", "0")
    assert suites["empty"].get("errors") == "8"


@pytest.mark.parametrize("kind", ResultKind)
def test_junit_has_an_error_where_the_code_was_not_judged_and_a_failure_where_it_is_wrong(kind):
    grade = made_grade("ada", [made_test("test_a", 1, 20, kind, "no", "no")])
    cases = ElementTree.fromstring(report_junit([grade])).iter("testcase")
    tags = [problem.tag for case in cases for problem in case]
    others = {"passed": [], "load": ["error"], "not-run": ["error"], "test-error": ["error"]}
    assert tags == others.get(kind, ["failure"])


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ("bug", ["lab-90-pairs, handed in by bug", "mode trust (NOT walled in",
                 "1 feed 3/3 45/45 PASS", "2 flush 1/4 10/55 FAIL", "demonstrations 1/1 - PASS",
                 "FAIL test_flush (task 2, 15 points)", " rule flush returns the odd one.",
                 "looks like: The last character is missing.", "score 55/100"]),
        ("starter", ["1 feed 0/3 0/45 FAIL", "2 flush 0/4 0/55 BLOCKED by task 1", "score 0/100"]),
        ("empty", ["No test could run: starter.py is empty", "score 0/100"]),
    ],
)  # fmt: skip
def test_text_of_one_shows_tasks_failures_and_what_it_looks_like(by_student, lab, student, words):
    text = report_text([by_student[student]], {lab.name: lab}, colour=False)
    for some in words:
        assert some in re.sub(" +", " ", text)
    assert max(map(len, text.splitlines())) <= 88


def test_a_grader_and_a_students_own_run_show_the_same_table_and_failures(
    by_student, lab, tmp_path, run_pytest
):
    (tmp_path / "own.py").write_bytes(with_bug(lab))
    for student, own in (("bug", str(tmp_path / "own.py")), ("starter", "starter")):
        shown = run_pytest(own, "-q").stdout
        graded = report_text([by_student[student]], {lab.name: lab}, colour=False)
        parts = [text[text.index("task  ") : text.index("score  ")] for text in (shown, graded)]
        # What it looks like is told to students with a hint, to instructors without.
        assert parts[0].partition("looks like")[0] == parts[1].partition("looks like")[0]


def test_text_of_many_has_a_row_each_and_a_summary(grades, lab):
    text = report_text(grades, {lab.name: lab}, colour=False, width=120)
    rows = {line.split()[0]: " ".join(line.split()) for line in text.splitlines() if line}
    assert rows["right"] == "right 100/100 3/3 4/4"
    assert rows["bug"] == "bug 55/100 3/3 1/4 looks like: The last character is missing."
    assert rows["starter"] == "starter 0/100 0/3 0/4 nothing is written yet"
    assert rows["empty"] == "empty 0/100 0/3 0/4 starter.py is empty"
    assert "is not valid Python" in rows["syntax"]
    assert "lab-90-pairs: 9 graded, 1 with every point, 7 with none, median 0 of 100" in text
    assert text.endswith("mode trust (NOT walled in: for your own code only)   seed 0")


def test_colour_only_repeats_what_the_words_say(grades, lab):
    for shown in (grades, grades[:1]):
        plain = report_text(shown, {lab.name: lab}, colour=False)
        coloured = report_text(shown, {lab.name: lab}, colour=True)
        without = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        assert [line.rstrip() for line in without.splitlines()] == plain.splitlines()


@pytest.mark.parametrize(
    ("make", "text", "shown"),
    [
        *((printable, kept, kept) for kept in ("naïve 東京 👩\u200d🚀 می\u200cخواهم", "a\n\tb")),
        (printable, "e\u0301", "e\u0301"),
        (printable, "\x1b[2J\x00\x85\u2028\ufeff\ud800", r"\x1b[2J\x00\x85\u2028\ufeff\ud800"),
        (printable, "\uffff", r"\uffff"),
        (printable, "x" * 5_000, "x" * 4_000 + "… (5000 characters)"),
        (one_line, "a\nb\tc", r"a\nb\tc"),
        (repeatable, "<f at 0x7f3a5c0d1e20> 0xff", "<f at 0x…> 0xff"),
    ],
)
def test_text_of_others_is_shown_as_people_write_it_and_otherwise_escaped(make, text, shown):
    assert make(text) == shown
