"""The marks of a term: for each student of the roster and each lab, the mark in the lab's ledger.

It is the mark that the last `grade --ledger` wrote, with its deductions and its points by hand.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.grading.ledger import Ledger
from labkit.grading.marks import extensions, given_points
from labkit.grading.marks.extensions import EXCUSED
from labkit.grading.marks.history import LastMark
from labkit.grading.marks.inputs import KIND
from labkit.grading.marks.late_days import (
    Budget,
    Due,
    due_of,
    is_before,
    labs_in,
    last_budget,
    latest,
    opened,
)
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.marks.roster import Roster
from labkit.grading.marks.students import Student, Students, listed

_MOST_POINTS = 100


@dataclass(frozen=True)
class LabMark:
    """A student's mark for a lab of the term.

    Attributes:
        total: the mark; None if the student has none: excused, or nothing was handed in.
        is_excused: whether the lab does not count for the student.
        late: the points taken off for being late.
        days: the late days used.
    """

    total: Decimal | None = None
    is_excused: bool = False
    late: Decimal = Decimal(0)
    days: int = 0

    @property
    def text(self) -> str:
        """The mark for people: `excused`, 0 if nothing was handed in."""
        return EXCUSED if self.is_excused else plain(self.total or Decimal(0))


@dataclass
class TermLab:
    """A lab of the term.

    Attributes:
        lab: the lab.
        max_score: the points of all tests.
        marks: the marks; a student without one handed in nothing.
        due: the due time, if there is a late rule.
        budget: the late days before the lab, as of its last grading, if there are any.
    """

    lab: Lab
    max_score: int = 0
    marks: dict[Student, LabMark] = field(default_factory=dict)
    due: Due | None = None
    budget: Budget | None = None

    def of(self, student: Student) -> LabMark:
        """Return a student's mark."""
        return self.marks.get(student, LabMark())

    def percentage(self, student: Student) -> Fraction | None:
        """Return a student's percentage of the points, or None if the student is excused."""
        mark = self.of(student)
        if mark.is_excused:
            return None
        return Fraction(mark.total or 0) * 100 / (self.max_score or _MOST_POINTS)


class Term:
    """The labs of a term, in the order of the course, and the students of the roster.

    Args:
        ledgers: the paths of the ledgers.
        roster: the list of students.
        labs: all labs of the course.

    Raises:
        UsageError: a ledger does not exist or has no marks, or a name fits two students.
        InfrastructureError: a ledger cannot be read.
    """

    def __init__(self, ledgers: Sequence[Path], roster: Roster, labs: Sequence[Lab]) -> None:
        self._students = Students((), roster)
        self.students = self._students.all
        self._by_name = {lab.name: TermLab(lab) for lab in labs}
        self._unlisted: dict[str, list[str]] = defaultdict(list)
        self._twice: dict[str, list[str]] = defaultdict(list)
        names = set[str]()
        for path in ledgers:
            with opened(path, "term") as book:
                if not (own := labs_in(book)):
                    raise UsageError(f"{path} has no marks; grade with --ledger {path} first")
                if strange := {*own} - {*self._by_name}:
                    raise UsageError(f"{path} has marks for {min(strange)!r}, which is not a lab")
                for name in own:
                    self._add(path, book, self._by_name[name])
                names |= {*own}
        self.labs = [lab for lab in self._by_name.values() if lab.lab.name in names]

    @property
    def days(self) -> int | None:
        """The late days of each student, by the lab that was due last; None without any."""
        with_days = [lab for lab in self.labs if lab.budget is not None and lab.due is not None]
        last: TermLab | None = None
        for lab in with_days:
            if last is None or (lab.due and last.due and is_before(last.due, lab.due)):
                last = lab
        return last.budget.days if last is not None and last.budget is not None else None

    def days_used(self, student: Student) -> int:
        """Return how many late days a student used."""
        return sum(lab.of(student).days for lab in self.labs)

    def warnings(self) -> list[str]:
        """Return oddities that are not mistakes, for the instructor."""
        texts = [
            f"{len(names)} with a mark for {lab} without a line in the roster: {listed(names)}"
            for lab, names in self._unlisted.items()
        ]
        texts += [
            f"{len(names)} with marks for {lab} in several ledgers; the last ledger that is "
            f"named counts: {listed(names)}"
            for lab, names in self._twice.items()
        ]
        for lab in self.labs:
            if names := self._with_other_days(lab):
                texts.append(
                    f"{len(names)} had other late days left for {lab.lab.name} than by the labs "
                    f"before it now; grade it again with --late-days and --term: {listed(names)}"
                )
        return texts

    def _with_other_days(self, lab: TermLab) -> list[str]:
        """Return the students of a lab whose late days before it have changed since its grading."""
        if lab.budget is None or lab.due is None:
            return []
        left = lab.budget.left(self._students, "term")
        before = [other for other in self.labs if other.due and is_before(other.due, lab.due)]
        names = []
        for student, mark in lab.marks.items():
            used = sum(other.of(student).days for other in before)
            now = max(lab.budget.days - used, 0)
            if (mark.days or mark.late) and left[student] != now:
                names.append(student.name)
        return names

    def _add(self, path: Path, book: Ledger, lab: TermLab) -> None:
        name = lab.lab.name
        lab.due, lab.budget = due_of(book, name) or lab.due, last_budget(book, name) or lab.budget
        own: dict[Student, LabMark] = {}
        for identity, last in latest(book, name):
            grade = book.find(last.key)
            lab.max_score = max(lab.max_score, 0 if grade is None else grade.max_score)
            student = self._students.identified(identity, f"{path}: {identity.entry!r}")
            if student is None:
                self._unlisted[name].append(identity.name or identity.entry)
            else:
                own[student] = _mark(last)
        # Students who handed in nothing have no line of their own in the ledger.
        for who, points in given_points.points_in(book.notes(KIND), name).items():
            student = self._students.find(who, f"{path}: {who!r}")
            mark = Mark(who, name, None, lab.max_score, adjustments=points)
            if student is not None and student not in own and mark.exists:
                own[student] = LabMark(mark.total)
        for who, extension in extensions.extensions_in(book.notes(extensions.KIND), name).items():
            student = self._students.find(who, f"{path}: {who!r}")
            if student is not None and own.get(student, LabMark()).total is None:
                own[student] = LabMark(is_excused=extension.is_excuse)
        self._twice[name] += [student.name for student in own if student in lab.marks]
        self._twice = defaultdict(list, {lab: names for lab, names in self._twice.items() if names})
        lab.marks |= own


def _mark(last: LastMark) -> LabMark:
    total = None if last.is_excused else last.total
    return LabMark(total, last.is_excused, last.late, last.days)
