"""The rules that turn scores into marks: read before grading starts, applied when it has ended.

So a mistake in a roster or a table costs no hours. An oddity that is not a mistake is a warning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from labkit.errors import UsageError
from labkit.grading.grade import Grade
from labkit.grading.ledger import Ledger
from labkit.grading.marks import given_points
from labkit.grading.marks.given_points import Adjustment
from labkit.grading.marks.late import EXAMPLE, LateRule, read_rule, read_times
from labkit.grading.marks.mark import Mark
from labkit.grading.marks.roster import Roster, read_roster
from labkit.grading.marks.students import Student, Students, listed

# The kind of the notes in a ledger.
KIND = "points"
_UNKNOWN = "named in {} without a submission or a line of a roster"


@dataclass(frozen=True)
class MarkOptions:
    """The inputs of marks besides scores. A missing input is None.

    Attributes:
        roster: the course's list of students, Canvas's or Moodle's export.
        times: the table of submission times.
        due: the due time, as `2026-11-22T23:59`.
        late: the rule for late work, as `labkit.grading.marks.late` reads it.
        points: the table of points given by hand.
        ledger: the ledger, which has the points given by hand in earlier gradings.
    """

    roster: Path | None = None
    times: Path | None = None
    due: str | None = None
    late: str | None = None
    points: Path | None = None
    ledger: Path | None = None

    @property
    def files(self) -> dict[str, Path]:
        """The files that are read, by option."""
        paths = ((name, getattr(self, name)) for name in ("ledger", "roster", "times", "points"))
        return {option: path for option, path in paths if path is not None}


@dataclass
class Marking:
    """The calculation of the marks of a lab.

    Attributes:
        lab: folder name of the lab.
        students: the students who handed in, and those on the roster.
        roster: the course's list, if there is one.
        rule: the rule for late work, if there is one.
        times: when students handed in.
        adjustments: the points given by hand.
        odd: oddities that are not mistakes: a description, and the students.
    """

    lab: str
    students: Students
    roster: Roster | None = None
    rule: LateRule | None = None
    times: dict[Student, datetime] = field(default_factory=dict)
    adjustments: dict[Student, tuple[Adjustment, ...]] = field(default_factory=dict)
    odd: list[tuple[str, list[str]]] = field(default_factory=list)

    @property
    def changes_scores(self) -> bool:
        """Whether a mark can differ from the score."""
        return self.rule is not None or bool(self.adjustments)

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

    def _mark(self, student: Student, grade: Grade | None, most: int) -> Mark:
        person, time = student.person, self.times.get(student)
        late = Decimal(0)
        if grade is not None and self.rule is not None and time is not None:
            late = self.rule.penalty(grade.max_score, time)
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
            due="" if self.rule is None else self.rule.due.isoformat(),
        )


def read_markings(options: MarkOptions, entries: Mapping[str, Sequence[str]]) -> list[Marking]:
    """Return the calculation of marks for each lab.

    Args:
        options: the inputs of the marks.
        entries: by folder name of a lab, the students as its grades will name them.

    Raises:
        UsageError: a file cannot be read or understood, a name fits two students, or an option for
            one lab is used with several.
    """
    for option in ("times", "points"):
        if option in options.files and len(entries) > 1:
            raise UsageError(f"--{option} is for one lab at a time; name the lab, as --lab 03")
    if len({option is None for option in (options.times, options.due, options.late)}) > 1:
        raise UsageError(
            f"--times, --due and --late need each other: a file of times, a time, and {EXAMPLE!r}"
        )
    roster = None if options.roster is None else read_roster(options.roster)
    markings = []
    for lab, names in sorted(entries.items()):
        marking = Marking(lab, Students(names, roster), roster)
        if roster is not None:
            unlisted = marking.students.unlisted
            missing = [student.name for student in marking.students.all if student.entry is None]
            marking.odd.append((f"handed in without a line in {options.roster}", unlisted))
            marking.odd.append((f"on the roster handed in nothing for {lab}", missing))
        if options.times is not None and options.late is not None and options.due is not None:
            _add_times(marking, options.times, read_rule(options.late, options.due))
        _add_points(marking, options.points, options.ledger)
        markings.append(marking)
    return markings


def _add_times(marking: Marking, path: Path, rule: LateRule) -> None:
    """Take the last time of each student: the time of the submission that is graded."""
    marking.rule = rule
    unknown = []
    for place, name, time in read_times(path, rule.due):
        student = marking.students.find(name, place)
        if student is None:
            unknown.append(name)
        else:
            marking.times[student] = max(time, marking.times.get(student, time))
    entries = [student for student in marking.students.all if student.entry is not None]
    missing = [student.entry or "" for student in entries if student not in marking.times]
    marking.odd.append((f"handed in without a time in {path}, taken as in time", missing))
    marking.odd.append((_UNKNOWN.format(path), unknown))


def _add_points(marking: Marking, path: Path | None, ledger: Path | None) -> None:
    """Take the points in the file and, for students who are not in the file, in the ledger."""
    file_points = {} if path is None else given_points.read_points(path)
    ledger_points: Mapping[str, tuple[Adjustment, ...]] = {}
    if ledger is not None:
        with Ledger(ledger) as book:
            ledger_points = given_points.points_in(book.notes(KIND), marking.lab)
            for name, (_, points) in file_points.items():
                if ledger_points.get(name) != points:
                    book.note(KIND, given_points.note_of(marking.lab, name, points))
    unknown, waiting = [], []
    for name, points in ledger_points.items():
        if (student := marking.students.find(name, f"--ledger {ledger}")) is not None:
            marking.adjustments[student] = points
        elif name not in file_points and any(adjustment.points for adjustment in points):
            waiting.append(name)
    for name, (place, points) in file_points.items():
        if (student := marking.students.find(name, place)) is None:
            unknown.append(name)
        else:
            marking.adjustments[student] = points
    marking.odd.append((_UNKNOWN.format(path), unknown))
    marking.odd.append((_UNKNOWN.format(ledger) + ", so their points by hand are kept", waiting))
