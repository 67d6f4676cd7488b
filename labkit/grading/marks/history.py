"""The late rule, the times and the marks of earlier gradings of a lab, which a ledger keeps.

So a regrade without `--times` takes off the same points for late work, and each mark that differs
from that of the last grading is reported with the reason. A time belongs to the files that were
handed in then: if a student hands in other files later, an old time says nothing about them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from labkit.grading.grade import Grade, Key
from labkit.grading.ledger import Ledger
from labkit.grading.marks.extensions import EXCUSED
from labkit.grading.marks.late import LateRule, read_rule
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.marks.students import Identity

# The kinds of the notes in a ledger.
RULE, TIME, MARK = "late", "time", "mark"
_MOST_TESTS = 4
# Ledgers of earlier versions lack these.
_OPTIONAL = ("days", "is_excused", "name", "email")


@dataclass(frozen=True)
class LastMark:
    """A student's mark in the last grading.

    Attributes:
        key: the ledger's key of the grade.
        score: the points of the tests.
        late: the points taken off for being late.
        by_hand: the points given by hand.
        total: the mark.
        days: the late days that the student used.
        is_excused: whether the lab does not count for the student.
        name, email: as in the roster of the grading, or "".
    """

    key: Key
    score: int
    late: Decimal
    by_hand: Decimal
    total: Decimal
    days: int = 0
    is_excused: bool = False
    name: str = ""
    email: str = ""

    @classmethod
    def of(cls, grade: Grade, mark: Mark, name: str, email: str) -> "LastMark":
        """Return the mark of a grade for a ledger."""
        amounts = mark.late, mark.by_hand, mark.total
        return cls(grade.key, grade.score, *amounts, mark.days, mark.is_excused, name, email)

    @property
    def text(self) -> str:
        """The mark for people."""
        return EXCUSED if self.is_excused else plain(self.total)

    def identity(self, entry: str) -> Identity:
        """Return the student of the mark, whose entry had this name."""
        return Identity(entry, self.name, self.email)

    def to_json(self) -> dict[str, Any]:
        """Return the mark in the form for a ledger."""
        amounts = {"late": self.late, "by_hand": self.by_hand, "total": self.total}
        rest = {name: getattr(self, name) for name in _OPTIONAL if getattr(self, name)}
        numbers = {name: str(amount) for name, amount in amounts.items()}
        return {"key": [*self.key], "score": self.score, **numbers, **rest}

    @classmethod
    def from_json(cls, note: Mapping[str, Any]) -> "LastMark":
        """Return the mark whose `to_json` is in this note."""
        submission, lab, assignment, mode = note["key"]
        late, by_hand, total = (Decimal(note[name]) for name in ("late", "by_hand", "total"))
        rest = {name: note[name] for name in _OPTIONAL if name in note}
        key = submission, lab, assignment, mode
        return cls(key, note["score"], late, by_hand, total, **rest)


def last_rule(book: Ledger, lab: str) -> LateRule | None:
    """Return the late rule of the last grading of a lab that had a rule."""
    rules = [note for note in book.notes(RULE) if note["lab"] == lab]
    return read_rule(rules[-1]["rule"], rules[-1]["due"]) if rules else None


def keep_rule(book: Ledger, lab: str, rule: LateRule) -> None:
    """Make a ledger keep the late rule of a lab."""
    note = {"lab": lab, "rule": rule.text, "due": rule.due.isoformat()}
    if [other for other in book.notes(RULE) if other["lab"] == lab][-1:] != [note]:
        book.note(RULE, note)


def last_times(book: Ledger, lab: str) -> dict[str, tuple[datetime, str]]:
    """Return by the name of an entry the last time, and the digest of the files of that time."""
    return {
        note["student"]: (datetime.fromisoformat(note["time"]), note["submission"])
        for note in book.notes(TIME)
        if note["lab"] == lab
    }


def keep_times(book: Ledger, lab: str, times: Iterable[tuple[str, datetime, str]]) -> None:
    """Make a ledger keep times: each an entry's name, the time, and the digest of its files."""
    before = last_times(book, lab)
    for entry, time, submission in times:
        if before.get(entry) != (time, submission):
            values = {"student": entry, "time": time.isoformat(), "submission": submission}
            book.note(TIME, {"lab": lab, **values})


def last_marks(book: Ledger, lab: str) -> dict[str, LastMark]:
    """Return by the name of an entry the mark of the last grading of a lab, the latest last."""
    marks: dict[str, LastMark] = {}
    for note in book.notes(MARK):
        if note["lab"] == lab:
            marks.pop(note["student"], None)
            marks[note["student"]] = LastMark.from_json(note)
    return marks


def keep_mark(book: Ledger, lab: str, entry: str, mark: LastMark) -> None:
    """Make a ledger keep a mark."""
    book.note(MARK, {"lab": lab, "student": entry, **mark.to_json()})


def change(book: Ledger, old: LastMark, new: LastMark, grade: Grade) -> str:
    """Return how a mark changed and why, in words; "" if it did not.

    Args:
        book: the ledger, which has the grade of the last grading.
        old, new: the marks.
        grade: the new grade.
    """
    if old.text == new.text:
        return ""
    return f"{old.text} -> {new.text}: {'; '.join(_reasons(book, old, new, grade))}"


def _reasons(book: Ledger, old: LastMark, new: LastMark, grade: Grade) -> Iterator[str]:
    if old.score != new.score:
        tests = _tests(book, old, grade)
        yield f"score {old.score} -> {new.score}{tests} ({_cause(old.key, new.key)})"
    if old.late != new.late:
        yield f"taken off for being late {plain(old.late)} -> {plain(new.late)}"
    if old.by_hand != new.by_hand:
        yield f"points by hand {plain(old.by_hand)} -> {plain(new.by_hand)}"
    if old.is_excused != new.is_excused:
        yield "excused" if new.is_excused else "no longer excused"


def _cause(old: Key, new: Key) -> str:
    if old[0] != new[0]:
        return "other files were handed in"
    if old[2] != new[2]:
        return "the tests, the seed or the grader changed"
    return "the same files were graded again"


def _tests(book: Ledger, old: LastMark, grade: Grade) -> str:
    before = book.find(old.key)
    if before is None:
        return ""
    scores = {test.name: test.score for test in before.tests}
    names = [test.name for test in grade.tests if scores.get(test.name, 0) != test.score]
    names += [*scores.keys() - {test.name for test in grade.tests}]
    if len(names) > _MOST_TESTS:
        names[_MOST_TESTS:] = [f"{len(names) - _MOST_TESTS} more"]
    return f" in {', '.join(names)}" if names else ""
