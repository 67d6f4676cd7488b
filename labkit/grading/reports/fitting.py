"""Grades fit for any report: short texts without characters that a report cannot contain.

Grading already makes them so; this module does not rely on that. Texts are cut before anything else
is done to them, so the time for a report is bounded by the number of tests and students.
"""

from dataclasses import replace

from labkit.grading.grade import Grade
from labkit.running.reporting.explain import GradedTest
from labkit.running.reporting.showing import MOST_CHARACTERS, clip, in_one_line, printable

# Room for a text of `MOST_CHARACTERS`, if not many of them are escaped.
_MOST = 3 * MOST_CHARACTERS
_MOST_WORD = 500


def fit(grade: Grade) -> Grade:
    """Return a grade with every text short and printable; such a text is not changed."""
    return replace(
        grade,
        student=line(grade.student, _MOST),
        lab=line(grade.lab),
        seed=line(grade.seed),
        mode=line(grade.mode),
        fault=None if grade.fault is None else _text(grade.fault) or "nothing can be graded",
        looks_like=None if grade.looks_like is None else line(grade.looks_like),
        doubt=None if grade.doubt is None else _text(grade.doubt),
        remarks=tuple(line(remark, _MOST) for remark in grade.remarks),
        tests=tuple(map(_fit_test, grade.tests)),
    )


def _fit_test(test: GradedTest) -> GradedTest:
    return replace(
        test,
        name=line(test.name),
        rule=_text(test.rule),
        message=_text(test.message),
        detail=_text(test.detail),
        for_student=_text(test.for_student),
        visibility=line(test.visibility),
    )


def _text(text: str, most: int = _MOST) -> str:
    # Nearly every text is fit, and this check is fast.
    if len(text) <= most and text.replace("\n", "").isprintable():
        return text
    return clip(printable(clip(text, most), most), most)


def line(text: str, most: int = _MOST_WORD) -> str:
    """Return a text as one line, short and printable."""
    return clip(in_one_line(_text(text, most)), most)
