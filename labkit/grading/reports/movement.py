"""How the scores of a class moved: each student's score before its last change, and now.

A ledger keeps the score of each grading as a note. Equal gradings add no note, so the movement
stays the same if a grading is repeated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from labkit.grading.grade import Grade
from labkit.grading.ledger import Ledger
from labkit.grading.marks.history import MARK
from labkit.grading.marks.marking import Marking
from labkit.grading.reports.statistics import Histogram


@dataclass(frozen=True)
class Movement:
    """The movement of a class in a lab.

    Attributes:
        more, fewer: how many students have more points than before, and fewer.
        same: how many students are in an earlier grading, and their score never changed.
        before, now: the scores of these students before and after the last change.
        median_before, median_now: their medians.
    """

    more: int
    fewer: int
    same: int
    before: Histogram
    now: Histogram
    median_before: float
    median_now: float


def movement_of(grades: Sequence[Grade], before: Mapping[tuple[str, str], int]) -> Movement | None:
    """Return the movement of one lab, or None if no score has changed.

    Args:
        grades: the grades of one lab.
        before: by student and lab, the score before its last change, as `scores_before` returns it.
    """
    pairs = [
        (before[grade.student, grade.lab], grade.score)
        for grade in grades
        if (grade.student, grade.lab) in before
    ]
    if all(old == new for old, new in pairs):
        return None
    most = grades[0].max_score
    earlier, now = zip(*pairs, strict=True)
    return Movement(
        more=sum(old < new for old, new in pairs),
        fewer=sum(old > new for old, new in pairs),
        same=sum(old == new for old, new in pairs),
        before=Histogram.of((min(score, most) for score in earlier), most),
        now=Histogram.of(now, most),
        median_before=median(earlier),
        median_now=median(now),
    )


def scores_before(
    path: Path, markings: Iterable[Marking], grades: Iterable[Grade]
) -> dict[tuple[str, str], int]:
    """Return by student and lab the score before its last change; the score itself if it never
    changed. Students who are not in an earlier grading are left out.

    Args:
        path: the ledger.
        markings: of each lab; a student is recognised by any name that the platform gave the files.
        grades: the grades of the labs.
    """
    now = {(grade.student, grade.lab): grade.score for grade in grades}
    before: dict[tuple[str, str], int] = {}
    with Ledger(path) as book:
        notes = book.notes(MARK)
    for marking in markings:
        history: dict[str, list[int]] = {}
        for note in notes:
            if note["lab"] != marking.lab:
                continue
            student = marking.students.find(note["student"], f"--ledger {path}")
            if student is not None and student.entry is not None:
                history.setdefault(student.entry, []).append(note["score"])
        for entry, scores in history.items():
            if (score := now.get((entry, marking.lab))) is not None:
                others = [old for old in scores if old != score]
                before[entry, marking.lab] = others[-1] if others else score
    return before
