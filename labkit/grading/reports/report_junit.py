"""Grades as JUnit XML, laid out as pytest does: a suite per submission, a case per test.

A broken rule is a `failure`; a test that could not be run on the submission is an `error`, so that
no reader takes it for a pass. Times are 0, because equal work gives equal files.

But: JUnit knows no points. Read scores from the JSON report.
"""

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as Xml

_FAILURES = frozenset(["assertion", "raised", "unwritten", "timeout"])


def report_junit(grades: Sequence[dict[str, Any]]) -> str:
    """Return grades, as `Grade.as_dict` has them, as JUnit XML in ASCII."""
    root = Xml.Element("testsuites", name="labkit grade")
    total = {"tests": 0, "failures": 0, "errors": 0}
    for grade in grades:
        counts = _add_suite(root, grade)
        total = {name: total[name] + counts[name] for name in total}
    _set(root, total)
    Xml.indent(root)
    data: bytes = Xml.tostring(root, "us-ascii", xml_declaration=True)
    return data.decode("ascii") + "\n"


def _add_suite(root: Xml.Element, grade: dict[str, Any]) -> dict[str, int]:
    suite = Xml.SubElement(root, "testsuite", name=f"{grade['lab']}.{grade['student']}")
    counts = {"tests": len(grade["tests"]), "failures": 0, "errors": 0}
    for test in grade["tests"]:
        where = f"{grade['lab']}.{grade['student']}"
        case = Xml.SubElement(suite, "testcase", classname=where, name=test["name"], time="0")
        if test["passed"]:
            continue
        tag = "failure" if test["kind"] in _FAILURES else "error"
        counts[f"{tag}s"] += 1
        message = test["message"]
        told = Xml.SubElement(case, tag, type=test["kind"], message=message)
        told.text = test["detail"] or message
    _set(suite, counts)
    return counts


def _set(element: Xml.Element, counts: dict[str, int]) -> None:
    for name, count in {**counts, "skipped": 0, "time": 0}.items():
        element.set(name, str(count))
