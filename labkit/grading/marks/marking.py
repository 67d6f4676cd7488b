"""The rules that turn scores into marks: read before grading starts, applied when it has ended.

So a mistake in a roster or a table costs no hours. An oddity that is not a mistake is a warning.
"""

from collections.abc import Container, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from labkit.errors import UsageError
from labkit.grading.grade import Grade
from labkit.grading.ledger import Ledger
from labkit.grading.marks import given_points, history
from labkit.grading.marks.given_points import Adjustment
from labkit.grading.marks.history import LastMark
from labkit.grading.marks.late import (
    EXAMPLE,
    LateRule,
    has_times,
    read_rule,
    read_times,
    read_worksheet_times,
)
from labkit.grading.marks.mark import Mark
from labkit.grading.marks.roster import Roster, read_roster
from labkit.grading.marks.students import Student, Students, listed
from labkit.grading.reading.entry_name import read_entry_name

# The kind of the notes in a ledger.
KIND = "points"
_LATE = "marked as late in the name by the platform"
_UNKNOWN = "named in {} without a submission or a line of a roster"

Value = TypeVar("Value")


@dataclass(frozen=True)
class MarkOptions:
    """The inputs of marks besides scores. A missing input is None.

    Attributes:
        roster: the course's list of students, Canvas's or Moodle's export.
        times: the table of submission times.
        due: the due time, as `2026-11-22T23:59`.
        late: the rule for late work, as `labkit.grading.marks.late` reads it.
        points: the table of points given by hand.
        ledger: the ledger, which has the late rule, the times and the points given by hand of
            earlier gradings, and their marks.
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
        times: the times at which students handed in.
        adjustments: the points given by hand.
        last: the marks of the last grading, if the ledger has them.
        odd: oddities that are not mistakes: a description, and the students.
    """

    lab: str
    students: Students
    roster: Roster | None = None
    rule: LateRule | None = None
    times: dict[Student, datetime] = field(default_factory=dict)
    adjustments: dict[Student, tuple[Adjustment, ...]] = field(default_factory=dict)
    last: dict[Student, LastMark] = field(default_factory=dict)
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
                old, new = self.last.get(student), LastMark.of(grade, mark)
                if old is not None and (text := history.change(book, old, new, grade)):
                    texts.append(f"{student.name}: {text}")
                if old != new:
                    history.keep_mark(book, self.lab, grade.student, new)
        return texts

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


def read_markings(options: MarkOptions, entries: Mapping[str, Mapping[str, str]]) -> list[Marking]:
    """Return the calculation of marks for each lab.

    Args:
        options: the inputs of the marks.
        entries: by folder name of a lab and by student as its grades will name them, the digest of
            the files.

    Raises:
        UsageError: a file cannot be read or understood, a name fits two students, or an option for
            one lab is used with several.
    """
    for option in ("times", "points"):
        if option in options.files and len(entries) > 1:
            raise UsageError(f"--{option} is for one lab at a time; name the lab, as --lab 03")
    if (options.due is None) != (options.late is None):
        raise UsageError(f"--due and --late need each other: a time, and {EXAMPLE!r}")
    roster = None if options.roster is None else read_roster(options.roster)
    markings = []
    for lab, digests in sorted(entries.items()):
        marking = Marking(lab, Students(digests, roster), roster)
        if roster is not None:
            unlisted = marking.students.unlisted
            missing = [student.name for student in marking.students.all if student.entry is None]
            marking.odd.append((f"handed in without a line in {options.roster}", unlisted))
            marking.odd.append((f"on the roster handed in nothing for {lab}", missing))
        with nullcontext() if options.ledger is None else Ledger(options.ledger) as book:
            _add_times(marking, options, book, digests)
            _add_points(marking, options.points, options.ledger, book)
            if book is not None:
                marking.last = _by_student(marking, history.last_marks(book, lab), options.ledger)
        markings.append(marking)
    return markings


def _add_times(
    marking: Marking, options: MarkOptions, book: Ledger | None, digests: Mapping[str, str]
) -> None:
    """Take the rule and the times of the command line and, if it has none, of the ledger.

    The last of a student's times counts: the time of the submission that is graded.
    """
    if options.late is not None and options.due is not None:
        marking.rule = read_rule(options.late, options.due)
    elif book is not None:
        marking.rule = history.last_rule(book, marking.lab)
    rule = marking.rule
    if rule is None:
        if options.times is not None:
            raise UsageError(f"--times needs --due and --late: a time, and {EXAMPLE!r}")
        marking.odd.append((f"{_LATE}, and no late rule is named: see --late", _late(marking, ())))
        return
    unknown = []
    if marking.roster is not None:
        of_people = {student.person: student for student in marking.students.all}
        for person, time in read_worksheet_times(marking.roster, rule.due):
            marking.times[of_people[person]] = time
    if options.times is not None:
        times: dict[Student, datetime] = {}
        for place, name, time in read_times(options.times, rule.due):
            student = marking.students.find(name, place)
            if student is None:
                unknown.append(name)
            else:
                times[student] = max(time, times.get(student, time))
        marking.times |= times
    changed = []
    if book is not None:
        earlier = _by_student(marking, history.last_times(book, marking.lab), options.ledger)
        for student, (time, digest) in earlier.items():
            if student in marking.times or (time.tzinfo is None) != (rule.due.tzinfo is None):
                continue
            marking.times[student] = time
            if student.entry is not None and digests[student.entry] != digest:
                changed.append(student.entry)
        history.keep_rule(book, marking.lab, rule)
        of_entries = [(student.entry, time) for student, time in marking.times.items()]
        history.keep_times(
            book,
            marking.lab,
            [(entry, time, digests[entry]) for entry, time in of_entries
             if entry is not None and entry not in changed],
        )  # fmt: skip
    elif options.times is None and not has_times(marking.roster):
        raise UsageError(
            "--late needs the times of submissions: --times FILE, or as the roster Moodle's "
            "grading worksheet, which has them; a ledger keeps them"
        )
    late = _late(marking, marking.times)
    entries = [student.entry for student in marking.students.all if student.entry is not None]
    timed = {student.entry for student in marking.times}
    source = options.times or (options.roster if has_times(marking.roster) else "the ledger")
    missing = [entry for entry in entries if entry not in timed and entry not in late]
    marking.odd.append((f"handed in without a time in {source}, taken as in time", missing))
    marking.odd.append((f"{_LATE}, without a time: nothing is taken off, see --times", late))
    early = [
        student.entry or ""
        for student, time in marking.times.items()
        if read_entry_name(student.entry or "").is_late and not rule.penalty(100, time)
    ]
    marking.odd.append((f"{_LATE}, but in time by --due {rule.due.isoformat()}", early))
    marking.odd.append(("handed in other files since the time in the ledger: see --times", changed))
    marking.odd.append((_UNKNOWN.format(options.times), unknown))


def _late(marking: Marking, times: Container[Student]) -> list[str]:
    """Return the entries that their platform marks as late and that have no time."""
    return [
        student.entry
        for student in marking.students.all
        if student.entry is not None
        and student not in times
        and read_entry_name(student.entry).is_late
    ]


def _by_student(
    marking: Marking, by_name: Mapping[str, Value], ledger: Path | None
) -> dict[Student, Value]:
    """Return a ledger's values by student; the values of students who are not here are left out."""
    values = {}
    for name, value in by_name.items():
        if (student := marking.students.find(name, f"--ledger {ledger}")) is not None:
            values[student] = value
    return values


def _add_points(
    marking: Marking, path: Path | None, ledger: Path | None, book: Ledger | None
) -> None:
    """Take the points in the file and, for students who are not in the file, in the ledger."""
    file_points = {} if path is None else given_points.read_points(path)
    ledger_points: Mapping[str, tuple[Adjustment, ...]] = {}
    if book is not None:
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
