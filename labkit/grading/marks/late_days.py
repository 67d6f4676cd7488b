"""Late days: each student may hand in so many days late over the term, for no points.

A late day moves a student's due time by 24 hours. Days are used by themselves, for the lab that was
due first before the others, and only as far as they lower the penalty: if a student's penalty is
the most that the rule takes, with the remaining days and without, no day is used.

The ledgers of the term's other labs have the days that are used there. A ledger keeps the budget
and those days, so a regrade needs neither.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from labkit.errors import UsageError
from labkit.grading.ledger import Ledger
from labkit.grading.marks.history import LastMark, last_marks, last_rule
from labkit.grading.marks.late import LateRule
from labkit.grading.marks.students import Identity, Student, Students
from labkit.grading.reading.entry_name import read_entry_name

OPTION = "--late-days"
# The kind of the notes in a ledger.
KIND = "days"
MOST = 365
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Budget:
    """The late days of a term, before one lab.

    Attributes:
        days: of each student over the term.
        used: for the labs that were due before, who used how many of them. If a lab has a student
            twice, under two names, the last counts.
    """

    days: int
    used: tuple[tuple[str, Identity, int], ...] = ()

    def left(self, students: Students, where: str) -> dict[Student, int]:
        """Return how many days each student has left, at least 0.

        Raises:
            UsageError: a name fits two students.
        """
        used: dict[tuple[str, Student], int] = {}
        for lab, identity, days in self.used:
            if (student := students.identified(identity, where)) is not None:
                used[lab, student] = days
        left = dict.fromkeys(students.all, self.days)
        for (_, student), days in used.items():
            left[student] -= days
        return {student: max(days, 0) for student, days in left.items()}


def days_for(rule: LateRule, max_score: int, submitted: datetime, left: int) -> int:
    """Return how many late days work uses: the fewest that lower its penalty the most."""
    penalties = [rule.penalty(max_score, submitted - days * DAY) for days in range(left + 1)]
    return penalties.index(min(penalties))


class Due(NamedTuple):
    """The place of a lab in the order in which late days are used."""

    time: datetime
    lab: str


def used_before(due: Due, books: Iterable[Ledger]) -> tuple[tuple[str, Identity, int], ...]:
    """Return who used how many late days in each lab that was due before another.

    Raises:
        UsageError: only one of two due times has an offset from UTC.
    """
    used: list[tuple[str, Identity, int]] = []
    for book in books:
        for lab in labs_in(book):
            other = due_of(book, lab)
            if other is not None and lab != due.lab and is_before(other, due):
                marks = latest(book, lab)
                used += [(lab, identity, mark.days) for identity, mark in marks if mark.days]
    return tuple(used)


def latest(book: Ledger, lab: str) -> list[tuple[Identity, LastMark]]:
    """Return the marks of a lab, the latest last: of each student's entries only the last."""
    marks: dict[str, tuple[Identity, LastMark]] = {}
    for entry, mark in last_marks(book, lab).items():
        parts, identity = read_entry_name(entry), mark.identity(entry)
        name = parts.id or identity.email or parts.name
        marks.pop(name, None)
        marks[name] = identity, mark
    return [*marks.values()]


def due_of(book: Ledger, lab: str) -> Due | None:
    """Return when a lab of a ledger was due; None without a late rule."""
    rule = last_rule(book, lab)
    return None if rule is None else Due(rule.due, lab)


def is_before(due: Due, other: Due) -> bool:
    """Return whether a lab was due before another, or at the same time and before it by name.

    Raises:
        UsageError: only one of the times has an offset from UTC.
    """
    if (due.time.tzinfo is None) != (other.time.tzinfo is None):
        raise UsageError(
            f"{due.lab} was due {due.time.isoformat()} and {other.lab} {other.time.isoformat()}: "
            "one has no offset from UTC, so late days cannot be counted; grade one of them again "
            "with another --due"
        )
    return due < other


def labs_in(book: Ledger) -> list[str]:
    """Return the folder names of the labs whose marks a ledger has."""
    return sorted({note["lab"] for note in book.notes("mark")})


@contextmanager
def opened(path: Path, option: str) -> Iterator[Ledger]:
    """Open a ledger that exists.

    Raises:
        UsageError: there is no such file, or see `Ledger`.
        InfrastructureError: see `Ledger`.
    """
    if not path.is_file():
        raise UsageError(f"{option} {path}: there is no such ledger; `grade --ledger` makes one")
    with Ledger(path) as book:
        yield book


def last_budget(book: Ledger, lab: str) -> Budget | None:
    """Return the late days before a lab, as of its last grading that had a budget."""
    notes = [note for note in book.notes(KIND) if note["lab"] == lab]
    return _from_json(notes[-1]) if notes else None


def keep_budget(book: Ledger, lab: str, budget: Budget) -> None:
    """Make a ledger keep the late days before a lab."""
    if last_budget(book, lab) != budget:
        used = [[lab, *identity, days] for lab, identity, days in budget.used]
        book.note(KIND, {"lab": lab, "days": budget.days, "used": used})


def _from_json(note: Mapping[str, Any]) -> Budget:
    used = tuple((lab, Identity(*identity), days) for lab, *identity, days in note["used"])
    return Budget(note["days"], used)
