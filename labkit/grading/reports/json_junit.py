"""Grades as files for other programs: everything in JSON, and JUnit XML.

Equal grades make equal bytes.
"""

import json
from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as Xml

from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark
from labkit.grading.reports.fitting import fit
from labkit.running.result_kind import ResultKind

SCHEMA = "labkit/report/v1"


def report_json(grades: Sequence[Grade], marks: Iterable[Mark] | None = None) -> str:
    """Return grades as JSON in ASCII; `schemas/report.schema.json` describes it.

    Args:
        grades: the grades.
        marks: the marks, if they can differ from the scores.
    """
    report = {"schema": SCHEMA, "grades": [fit(grade).to_json() for grade in grades]}
    if marks is not None:
        report["marks"] = [mark.to_json() for mark in marks]
    return json.dumps(report, indent=1) + "\n"


def report_junit(grades: Sequence[Grade]) -> str:
    """Return grades as JUnit XML in ASCII, laid out as pytest does: a case per test.

    A broken rule is a `failure`; a test that could not run on the submission is an `error`, so that
    no reader takes it for a pass. Times are 0, because equal work gives equal files. JUnit does not
    have points: read scores from JSON or CSV.
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
        # A test that waits for a function has run, so it is not an error.
        failed = test.kind.is_wrong or test.kind is ResultKind.UNWRITTEN
        tag = "failure" if failed else "error"
        counts[f"{tag}s"] += 1
        problem = Xml.SubElement(case, tag, type=test.kind, message=test.message)
        problem.text = test.detail or test.message
    _set(suite, counts)
    return counts


def _set(element: Xml.Element, counts: dict[str, int]) -> None:
    for name, count in {**counts, "skipped": 0, "time": 0}.items():
        element.set(name, str(count))
