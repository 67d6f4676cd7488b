"""Reads the inputs of marks: the roster, and the rules and tables of the command line and a ledger.

An oddity that is not a mistake is a warning.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.grading.ledger import Ledger
from labkit.grading.marks import extensions, given_points, history, late_days
from labkit.grading.marks.extensions import Extension
from labkit.grading.marks.given_points import Adjustment
from labkit.grading.marks.late import (
    EXAMPLE,
    has_times,
    read_rule,
    read_times,
    read_worksheet_times,
)
from labkit.grading.marks.marking import Marking, MarkOptions
from labkit.grading.marks.roster import read_roster
from labkit.grading.marks.students import Student, Students
from labkit.grading.reading.entry_name import read_entry_name

# The kind of the notes in a ledger.
KIND = "points"
_LATE = "marked as late in the name by the platform"
_UNKNOWN = "named in {} without a submission or a line of a roster"
_ONE_LAB = ("times", "points", "late_days")

Value = TypeVar("Value")


def read_markings(
    options: MarkOptions, entries: Mapping[str, Mapping[str, str]], labs: Sequence[Lab] = ()
) -> list[Marking]:
    """Return the calculation of marks for each lab.

    Args:
        options: the inputs of the marks.
        entries: by folder name of a lab and by student as its grades will name them, the digest of
            the files.
        labs: all labs of the course, which a table of extensions may name.

    Raises:
        UsageError: a file cannot be read or understood, a name fits two students, or an option for
            one lab is used with several.
    """
    for option in _ONE_LAB:
        if getattr(options, option) is not None and len(entries) > 1:
            name = option.replace("_", "-")
            raise UsageError(f"--{name} is for one lab at a time; name the lab, as --lab 03")
    if (options.due is None) != (options.late is None):
        raise UsageError(f"--due and --late need each other: a time, and {EXAMPLE!r}")
    if options.late_days is not None and not 0 <= options.late_days <= late_days.MOST:
        raise UsageError(
            f"--late-days {options.late_days}: write a number of days from 0 to {late_days.MOST}"
        )
    if options.term and options.late_days is None:
        raise UsageError("--term needs --late-days N, the late days of each student over the term")
    roster = None if options.roster is None else read_roster(options.roster)
    tables = {}
    if options.extensions is not None:
        tables = extensions.read_extensions(options.extensions, labs)
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
            _add_extensions(marking, tables.get(lab, {}), options, book)
            _add_late_days(marking, options, book)
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
    marking.adjustments = _merged(
        marking,
        file_points,
        (ledger_points, lambda points: any(adjustment.points for adjustment in points)),
        (path, ledger, "points by hand"),
    )


def _add_extensions(
    marking: Marking,
    file_extensions: Mapping[str, tuple[str, Extension]],
    options: MarkOptions,
    book: Ledger | None,
) -> None:
    """Take the extensions in the file and, for students who are not in the file, in the ledger."""
    ledger_extensions: Mapping[str, Extension] = {}
    if book is not None:
        ledger_extensions = extensions.extensions_in(book.notes(extensions.KIND), marking.lab)
        for name, (_, extension) in file_extensions.items():
            if ledger_extensions.get(name) != extension:
                book.note(extensions.KIND, extensions.note_of(marking.lab, name, extension))
    marking.extensions = _merged(
        marking,
        file_extensions,
        (ledger_extensions, lambda extension: not extension.changes_nothing),
        (options.extensions, options.ledger, "extensions"),
    )
    if marking.rule is not None:
        places = {marking.students.find(name, place): place
                  for name, (place, _) in file_extensions.items()}  # fmt: skip
        for student, extension in marking.extensions.items():
            where = places.get(student, f"--ledger {options.ledger}: {student.name!r}")
            marking.due[student] = extension.due(marking.rule.due, where)


def _add_late_days(marking: Marking, options: MarkOptions, book: Ledger | None) -> None:
    """Take the late days of the command line and, if it has none, of the ledger."""
    budget = None if book is None else late_days.last_budget(book, marking.lab)
    if options.late_days is not None:
        if marking.rule is None:
            raise UsageError(f"--late-days needs --due and --late: a time, and {EXAMPLE!r}")
        due = late_days.Due(marking.rule.due, marking.lab)
        own = options.ledger and options.ledger.resolve()
        with ExitStack() as stack:
            others = [
                stack.enter_context(late_days.opened(path, "--term"))
                for path in {path.resolve(): path for path in options.term if path.resolve() != own}
            ]
            books = others if book is None else [book, *others]
            budget = late_days.Budget(options.late_days, late_days.used_before(due, books))
        if book is not None:
            late_days.keep_budget(book, marking.lab, budget)
    if budget is not None and marking.rule is not None:
        marking.days_left = budget.left(marking.students, late_days.OPTION)


def _merged(
    marking: Marking,
    file_values: Mapping[str, tuple[str, Value]],
    of_ledger: tuple[Mapping[str, Value], Callable[[Value], bool]],
    sources: tuple[Path | None, Path | None, str],
) -> dict[Student, Value]:
    """Return values by student; the file's replaces the ledger's.

    Args:
        marking: the marking; names that no student has are added to its oddities.
        file_values: by the file's name of a student, the place and the value.
        of_ledger: by the name of a student, the value; and whether such a value matters.
        sources: the file, the ledger, and the name of the values.
    """
    path, ledger, noun = sources
    ledger_values, matters = of_ledger
    values, unknown, waiting = {}, [], []
    for name, value in ledger_values.items():
        if (student := marking.students.find(name, f"--ledger {ledger}")) is not None:
            values[student] = value
        elif name not in file_values and matters(value):
            waiting.append(name)
    for name, (place, value) in file_values.items():
        if (student := marking.students.find(name, place)) is None:
            unknown.append(name)
        else:
            values[student] = value
    marking.odd.append((_UNKNOWN.format(path), unknown))
    marking.odd.append((_UNKNOWN.format(ledger) + f", so their {noun} are kept", waiting))
    return values
