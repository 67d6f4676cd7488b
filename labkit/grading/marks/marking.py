"""The rules that turn scores into marks: read before grading starts, applied when it has ended.

So a mistake in a roster or a table costs no hours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from labkit.grading.grade import Grade
from labkit.grading.ledger import Ledger
from labkit.grading.marks import history
from labkit.grading.marks.extensions import Extension
from labkit.grading.marks.given_points import Adjustment
from labkit.grading.marks.history import LastMark
from labkit.grading.marks.late import LateRule
from labkit.grading.marks.late_days import DAY, days_for
from labkit.grading.marks.mark import Mark
from labkit.grading.marks.roster import Roster
from labkit.grading.marks.students import Student, Students, listed


@dataclass(frozen=True)
class MarkOptions:
    """The inputs of marks besides scores. A missing input is None.

    Attributes:
        roster: the course's list of students, Canvas's or Moodle's export.
        times: the table of submission times.
        due: the due time, as `2026-11-22T23:59`.
        late: the rule for late work, as `labkit.grading.marks.late` reads it.
        points: the table of points given by hand.
        extensions: the table of extensions and excuses.
        late_days: the late days of each student over the term.
        term: the ledgers of the term's other labs, in which late days may be used.
        ledger: the ledger, which has the late rule, the times, the points given by hand, the
            extensions and the late days of earlier gradings, and their marks.
    """

    roster: Path | None = None
    times: Path | None = None
    due: str | None = None
    late: str | None = None
    points: Path | None = None
    extensions: Path | None = None
    late_days: int | None = None
    term: Sequence[Path] = ()
    ledger: Path | None = None

    @property
    def files(self) -> dict[str, Path]:
        """The files that are read, by option."""
        names = ("ledger", "roster", "times", "points", "extensions")
        paths = ((name, getattr(self, name)) for name in names)
        return {option: path for option, path in paths if path is not None}


@dataclass
class Marking:
    """The calculation of the marks of a lab.

    Attributes:
        lab: folder name of the lab.
        students: the students who handed in, and those on the roster.
        roster: the course's list, if there is one.
        rule: the rule for late work, if there is one.
        times: the times at which students handed in.
        adjustments: the points given by hand.
        extensions: the extensions and excuses.
        due: the due times of the students with an extension.
        days_left: the late days that each student has left before this lab; empty without any.
        last: the marks of the last grading, if the ledger has them.
        odd: oddities that are not mistakes: a description, and the students.
    """

    lab: str
    students: Students
    roster: Roster | None = None
    rule: LateRule | None = None
    times: dict[Student, datetime] = field(default_factory=dict)
    adjustments: dict[Student, tuple[Adjustment, ...]] = field(default_factory=dict)
    extensions: dict[Student, Extension] = field(default_factory=dict)
    due: dict[Student, datetime] = field(default_factory=dict)
    days_left: dict[Student, int] = field(default_factory=dict)
    last: dict[Student, LastMark] = field(default_factory=dict)
    odd: list[tuple[str, list[str]]] = field(default_factory=list)

    @property
    def changes_scores(self) -> bool:
        """Whether a mark can differ from the score."""
        return self.rule is not None or bool(self.adjustments) or bool(self.extensions)

    def warnings(self, *, named: bool) -> list[str]:
        """Return the warnings for the instructor, with the students' names or without."""
        return [
            f"{len(names)} {text}" + (f": {listed(names)}" if named else "")
            for text, names in self.odd
            if names
        ]

    def marks(self, grades: Iterable[Grade]) -> dict[Student, Mark]:
        """Return the mark of every student, including those on the roster who handed in nothing.

        Args:
            grades: the grades; those of other labs are ignored.
        """
        scores = {grade.student: grade for grade in grades if grade.lab == self.lab}
        most = max((grade.max_score for grade in scores.values()), default=0)
        marks = {}
        for student in self.students.all:
            grade = None if student.entry is None else scores.get(student.entry)
            marks[student] = self._mark(student, grade, most)
        return marks

    def changes(self, grades: Iterable[Grade], ledger: Path) -> list[str]:
        """Return each mark that differs from the last grading, with the reason; make the ledger
        keep the new marks.

        Raises:
            InfrastructureError: the ledger cannot be written.
        """
        by_entry = {grade.student: grade for grade in grades if grade.lab == self.lab}
        texts = []
        with Ledger(ledger) as book:
            for student, mark in self.marks(by_entry.values()).items():
                grade = by_entry.get(student.entry or "")
                if grade is None:
                    continue
                old = self.last.get(student)
                person = student.person or old
                name, email = ("", "") if person is None else (person.name, person.email)
                new = LastMark.of(grade, mark, name, email)
                if old is not None and (text := history.change(book, old, new, grade)):
                    texts.append(f"{student.name}: {text}")
                if old != new:
                    history.keep_mark(book, self.lab, grade.student, new)
        return texts

    def _mark(self, student: Student, grade: Grade | None, most: int) -> Mark:
        person, time = student.person, self.times.get(student)
        extension = self.extensions.get(student)
        rule, late, days = self.rule, Decimal(0), 0
        if rule is not None:
            rule = replace(rule, due=self.due.get(student, rule.due))
        is_excused = extension is not None and extension.is_excuse
        if grade is not None and rule is not None and time is not None and not is_excused:
            days = days_for(rule, grade.max_score, time, self.days_left.get(student, 0))
            late = rule.penalty(grade.max_score, time - days * DAY)
        return Mark(
            student=student.name if grade is None else grade.student,
            lab=self.lab,
            score=None if grade is None else grade.score,
            max_score=most if grade is None else grade.max_score,
            late=late,
            adjustments=self.adjustments.get(student, ()),
            first="" if person is None else person.first,
            last="" if person is None else person.last,
            email="" if person is None else person.email,
            submitted="" if time is None else time.isoformat(),
            due="" if rule is None else rule.due.isoformat(),
            extension=None if extension is None or extension.changes_nothing else extension,
            days=days,
        )
