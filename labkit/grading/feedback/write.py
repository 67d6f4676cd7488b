"""Writing the feedback of all students."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from labkit.course.lab import Lab
from labkit.grading.feedback.account import account_of
from labkit.grading.feedback.files import file_names, write_files
from labkit.grading.feedback.pages import Pages, text
from labkit.grading.feedback.recordings import Recordings
from labkit.grading.grade import Grade
from labkit.grading.reports.content import ReportContent


def write_feedback(
    place: Path, content: ReportContent, labs: Mapping[str, Lab], recordings: Recordings
) -> None:
    """Write a page and a text for each grade.

    Args:
        place: a folder or a zip, see `feedback.files`.
        content: the grades, with names.
        labs: labs by folder name, at least those of the grades.
        recordings: the recordings for the pages.

    Raises:
        UsageError, OSError: see `write_files`.
    """
    pages = Pages()
    files: dict[str, str] = {}
    by_lab: dict[str, list[Grade]] = defaultdict(list)
    for grade in content.grades:
        by_lab[grade.lab].append(grade)
    for lab_name, grades in by_lab.items():
        lab = labs[lab_name]
        names = file_names((grade.student for grade in grades), lab.label)
        people = _names(content, lab_name)
        for grade in grades:
            mark = (content.shown_marks or {}).get((grade.student, grade.lab))
            account = account_of(grade, lab, people[grade.student], mark)
            recording = recordings.get((grade.lab, grade.submission))
            files[f"{names[grade.student]}.html"] = pages.html(account, recording)
            files[f"{names[grade.student]}.txt"] = text(account)
    write_files(place, files, (labs[name].label for name in by_lab))


def _names(content: ReportContent, lab: str) -> dict[str, str]:
    """Return the name of each entry's student."""
    (marking,) = (marking for marking, _ in content.by_student if marking.lab == lab)
    return {
        student.entry: student.name for student in marking.students.all if student.entry is not None
    }
