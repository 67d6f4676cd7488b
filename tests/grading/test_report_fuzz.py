"""Every report bears every text: of any length, with any character, empty."""

import csv
import io
import json
import os
import textwrap
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_grades import made_grade, made_test

from labkit.course.lab import find_labs
from labkit.grading.feedback import pages
from labkit.grading.feedback.account import account_of
from labkit.grading.feedback.files import file_names
from labkit.grading.grade import Grade
from labkit.grading.marks.mark import Mark
from labkit.grading.marks.students import Students
from labkit.grading.reports.anonymous import Pseudonyms
from labkit.grading.reports.diff import Report, diff_text
from labkit.grading.reports.fitting import fit
from labkit.grading.reports.gradebooks import nbgrader_csv
from labkit.grading.reports.html import write_html
from labkit.grading.reports.json_junit import report_json, report_junit
from labkit.grading.reports.pairs import pairs_csv, similar_groups
from labkit.grading.reports.projector import write_projector
from labkit.grading.reports.terminal import report_text
from labkit.running.reporting import showing

HOSTILE = [
    "",
    "\n",
    " \t\r\n",
    "=cmd|' /C calc'!A0",
    "+1\t@x\r-2",
    "\x00\x01\x1b[2J\x7f\x85\u2028\ufeff\ufffe\uffff",
    "\u202e\u2066right to left\u2069",
    "\ud800 \udfff",
    "]]> <![CDATA[ <!-- --> & &#0; &lt;",
    "</script><script>alert(1)</script></pre></style>",
    "{{ 7 * 7 }} {% raw %} %s %(x)s {0} \\n",
    "[bold]rich[/bold] [/] :smile:",
    "../../etc/passwd",
    "1" + "0" * 5_000,
    "rule      a\n" + "expected  b\n" * 500,
]
WHERE = ("student", "fault", "looks_like", "message", "detail", "for_student", "rule")
# Besides what is printable: layout, and what written words need.
KEPT = "\n\t" + showing._JOINERS
HUGE = 15 << 20
# Of what a report comes to, and of what is wrapped at once.
MOST_BYTES, MOST_WRAPPED = 1 << 20, 13_000


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    from test_reports import ROOT

    return find_labs(ROOT / "tests" / "tiny_repo")[0]


def with_text(text, where=WHERE):
    """Two grades that have a text wherever one can be that others chose."""
    changes = dict.fromkeys(where, text)
    own = {name: changes.pop(name) for name in where if name in ("student", "fault", "looks_like")}
    failed = made_test("test_a", 1, 40, "assertion", "no", "no")
    waiting = replace(made_test("test_b", 2, 30, "load", "no"), max_score=10**18)
    tests = [replace(one, **changes) for one in (failed, waiting)]
    first = replace(made_grade("ada", tests), **own)
    return [first, replace(first, student="bob")]


def every_report(grades, lab, path):
    """Return each report as text, by name."""
    grades = [replace(grade, lab=lab.name) for grade in grades]
    marks = {(one.student, one.lab): Mark(one.student, one.lab, 1, 2) for one in grades}
    by_name = {lab.name: lab}
    sources = {
        grade.submission: (grade.student + "\n").encode("utf-8", "replace") for grade in grades
    }
    similar = similar_groups(grades, sources, [lab], {})
    write_html(similar, path, [lab], marks)
    projector = path.with_name("projector.html")
    write_projector(grades, projector, [lab], dict.fromkeys(marks, 1))
    passed = [replace(one, tests=(made_test("test_a", 1, 40),)) for one in grades]
    old, new = (
        Report(path, {(one.lab, one.student): one for one in map(fit, some)}, {})
        for some in (passed, grades)
    )
    account = account_of(grades[0], lab, grades[0].student, marks[grades[0].student, lab.name])
    pseudonyms = Pseudonyms(Students([one.student for one in grades]).all, b"key")
    return {
        "one": report_text(grades[:1], by_name, colour=False, marks=marks),
        "many": report_text(grades, by_name, colour=False, marks=marks),
        "json": report_json(grades, marks.values()),
        "csv": nbgrader_csv([marks[grade.student, grade.lab] for grade in grades], grades),
        "pairs": pairs_csv(similar),
        "junit": report_junit(grades),
        "html": path.read_text(encoding="utf-8"),
        "projector": projector.read_text(encoding="utf-8"),
        "page": pages.Pages().html(account),
        "text": pages.text(account),
        "diff": diff_text(old, new, colour=False),
        "anonymous": report_json([pseudonyms.grade(one) for one in grades]),
    }


def check(found, grades):
    for name, told in found.items():
        assert told.encode("utf-8"), name
        if name in ("one", "many", "text", "diff"):
            assert all(char.isprintable() or char in KEPT for char in told), name
    assert len([*csv.reader(io.StringIO(found["csv"]))]) == 3
    assert not [cell for name in ("csv", "pairs") for row in csv.reader(io.StringIO(found[name]))
                for cell in row if cell.startswith(("=", "+", "-", "@"))]  # fmt: skip
    assert len([*ElementTree.fromstring(found["junit"])]) == 2
    told = json.loads(found["json"])["grades"]
    assert [grade.score for grade in map(Grade.from_json, told)] == [g.score for g in grades]
    assert found["html"].count("<script") == 2
    assert found["page"].count("<script") == found["projector"].count("<script") == 0
    assert found["page"].count("</pre>") == found["page"].count("<pre")
    (names,) = {len({*file_names([g.student for g in grades], "lab-90").values()})}
    assert names == 2


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_every_report_bears_it(tmp_path, lab, text):
    grades = with_text(text)
    check(every_report(grades, lab, tmp_path / "x.html"), grades)


def test_a_text_of_15_mb_is_cut_before_anything_is_done_to_it(tmp_path, lab, monkeypatch):
    seen = []
    wrap, escape = textwrap.TextWrapper.wrap, showing._escape
    monkeypatch.setattr(
        textwrap.TextWrapper, "wrap", lambda self, text: seen.append(len(text)) or wrap(self, text)
    )
    monkeypatch.setattr(showing, "_escape", lambda char: seen.append(1) or escape(char))
    for text in ("\x00" * HUGE, " y" * (HUGE // 2)):
        grades = with_text(text, ("fault", "message", "detail", "for_student"))
        found = every_report(grades, lab, tmp_path / "x.html")
        check(found, grades)
        assert max(len(told) for told in found.values()) < MOST_BYTES
    assert max(seen) <= MOST_WRAPPED
    # Every test of every grade in every report, and not every character.
    assert sum(seen) < HUGE


CHARACTERS = st.characters() | st.sampled_from(
    "=+-@<>&'\"]\x00\x1b\ud800\ufffe\u202e\n\t\r_/\\.%{}["
)


@given(st.text(CHARACTERS, max_size=60), st.sets(st.sampled_from(WHERE), min_size=1))
@settings(
    max_examples=1_000 if os.environ.get("SOAK") else 12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_report_bears_any_text(tmp_path, lab, text, where):
    grades = with_text(text, tuple(where))
    check(every_report(grades, lab, tmp_path / "x.html"), grades)
