"""Grades as files for other programs: a gradebook in CSV, everything in JSON, JUnit XML.

Equal grades make equal bytes.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as Xml

from labkit.grading.grade import Grade
from labkit.grading.marks.csv_files import inert
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.reports.fitting import fit, line

SCHEMA = "labkit/report/v1"
# Those of nbgrader's export.
COLUMNS = (
    "assignment",
    "duedate",
    "timestamp",
    "student_id",
    "last_name",
    "first_name",
    "email",
    "raw_score",
    "late_submission_penalty",
    "score",
    "max_score",
)
# What a spreadsheet takes.
_LONGEST_CELL = 32_000
# What JUnit calls a failure; all else that is not a pass is an error.
_FAILURES = frozenset(["assertion", "raised", "unwritten", "timeout"])


def report_csv(
    grades: Sequence[Grade],
    marks: Mapping[tuple[str, str], Mark] | None = None,
    others: Iterable[Mark] = (),
) -> str:
    """Return grades as CSV, a row each: `raw_score` is what the tests earned, `score` the mark.

    Args:
        grades: what was graded.
        marks: by student and lab; without one, names and dates are empty and the mark is the score.
        others: of those who handed in nothing; their cells of scores are empty.
    """
    out = io.StringIO()
    rows = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    rows.writeheader()
    for grade in map(fit, grades):
        mark = (marks or {}).get((grade.student, grade.lab))
        rows.writerow(_row(mark or Mark(grade.student, grade.lab, grade.score, grade.max_score)))
    rows.writerows(map(_row, others))
    return out.getvalue()


def _row(mark: Mark) -> dict[str, object]:
    return {
        "assignment": mark.lab,
        "duedate": mark.due,
        "timestamp": mark.submitted,
        "student_id": _cell(mark.student),
        "last_name": _cell(mark.last),
        "first_name": _cell(mark.first),
        "email": _cell(mark.email),
        "raw_score": "" if mark.score is None else mark.score,
        "late_submission_penalty": plain(mark.late),
        "score": plain(mark.total) if mark.exists else "",
        "max_score": mark.max_score,
    }


def _cell(text: str) -> str:
    return inert(line(text, _LONGEST_CELL))


def report_json(grades: Sequence[Grade], marks: Iterable[Mark] | None = None) -> str:
    """Return grades as JSON in ASCII; `schemas/report.schema.json` describes it.

    Args:
        grades: what was graded.
        marks: if they can be other than the scores.
    """
    report = {"schema": SCHEMA, "grades": [fit(grade).to_json() for grade in grades]}
    if marks is not None:
        report["marks"] = [mark.to_json() for mark in marks]
    return json.dumps(report, indent=1) + "\n"


def report_junit(grades: Sequence[Grade]) -> str:
    """Return grades as JUnit XML in ASCII, laid out as pytest does: a case per test.

    A broken rule is a `failure`; a test that could not run on the submission is an `error`, so that
    no reader takes it for a pass. Times are 0, because equal work gives equal files. JUnit knows no
    points: read scores from JSON or CSV.
    """
    root = Xml.Element("testsuites", name="labkit grade")
    total = {"tests": 0, "failures": 0, "errors": 0}
    for grade in map(fit, grades):
        counts = _add_suite(root, grade)
        total = {name: total[name] + counts[name] for name in total}
    _set(root, total)
    Xml.indent(root)
    data: bytes = Xml.tostring(root, "us-ascii", xml_declaration=True)
    return data.decode("ascii") + "\n"


def _add_suite(root: Xml.Element, grade: Grade) -> dict[str, int]:
    name = f"{grade.lab}.{grade.student}"
    suite = Xml.SubElement(root, "testsuite", name=name)
    counts = {"tests": len(grade.tests), "failures": 0, "errors": 0}
    for test in grade.tests:
        case = Xml.SubElement(suite, "testcase", classname=name, name=test.name, time="0")
        if test.passed:
            continue
        tag = "failure" if test.kind in _FAILURES else "error"
        counts[f"{tag}s"] += 1
        problem = Xml.SubElement(case, tag, type=test.kind, message=test.message)
        problem.text = test.detail or test.message
    _set(suite, counts)
    return counts


def _set(element: Xml.Element, counts: dict[str, int]) -> None:
    for name, count in {**counts, "skipped": 0, "time": 0}.items():
        element.set(name, str(count))
