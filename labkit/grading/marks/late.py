"""Late work: when each student handed in, and the points that a rule takes off.

A rule consists of parts between commas, in any order:

    10% per day, at most 50%, 15 min grace

- `N% per day`, or `per hour`: taken off for each day that has begun; a percentage of the lab's
  points, or `N points`.
- `at most N%`, or `N points`: the most that is taken off. Without it: all points.
- `N min grace`, or `hours`, `days`: a submission within the grace is in time. A later submission is
  late from the due time on.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from labkit.errors import UsageError
from labkit.grading.marks.csv_files import read_csv
from labkit.grading.marks.roster import Person, Roster

OPTION = "--late"
EXAMPLE = "10% per day, at most 50%, 15 min grace"
_NUMBER = r"([0-9]{1,4}(?:\.[0-9]{1,2})?)"
_PER = re.compile(rf"{_NUMBER} ?(%|points?) per (day|hour)")
_MOST = re.compile(rf"at most {_NUMBER} ?(%|points?)")
_GRACE = re.compile(r"([0-9]{1,4}) ?(min|minutes?|h|hours?|days?) grace")
_FORMS = (_PER, _MOST, _GRACE)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_COLUMNS = ("student", "submitted at")
# The column of Moodle's grading worksheet, `lastmodifiedsubmission` in its language pack, and the
# cell of a student who handed in nothing.
WORKSHEET_COLUMN, _NOTHING = "last modified (submission)", ("", "-")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
# Moodle's `strftimedaydatetime`: `Monday, 23 November 2026, 10:30 AM`; in the American pack the
# month is before the day.
_DAY = re.compile(
    r"(?:[a-z]+,? )?(?:([0-9]{1,2}) ([a-z]+)|([a-z]+) ([0-9]{1,2}),?) ([0-9]{4}),? "
    r"([0-9]{1,2}):([0-9]{2})(?::[0-9]{2})? ?(am|pm)?"
)


@dataclass(frozen=True)
class _Amount:
    """A number of points, or a percentage of all points."""

    number: Decimal
    in_percent: bool

    def of(self, max_score: int) -> Decimal:
        """Return the amount in points."""
        return self.number * max_score / 100 if self.in_percent else self.number


_ALL = _Amount(Decimal(100), in_percent=True)


@dataclass(frozen=True)
class LateRule:
    """The points taken off late work.

    Attributes:
        text: the rule as the instructor wrote it.
        due: the due time.
        amount: taken off for each `unit` that has begun.
        most: the most that is taken off.
        grace: the time after `due` that still counts as in time.
    """

    text: str
    due: datetime
    amount: _Amount
    unit: timedelta
    most: _Amount
    grace: timedelta

    def penalty(self, max_score: int, submitted: datetime) -> Decimal:
        """Return how many points are taken off, at most all."""
        late = submitted - self.due
        if late <= self.grace:
            return Decimal(0)
        begun = -(-late // self.unit)
        return min(self.amount.of(max_score) * begun, self.most.of(max_score), Decimal(max_score))


def read_rule(text: str, due: str) -> LateRule:
    """Return the rule in a text.

    Args:
        text: see the module.
        due: a time in ISO 8601.

    Raises:
        UsageError: the text or the time cannot be read.
    """
    matches: dict[re.Pattern[str], re.Match[str]] = {}
    for part in map(str.strip, " ".join(text.lower().split()).split(",")):
        match = next((match for form in _FORMS if (match := form.fullmatch(part))), None)
        if match is None:
            raise UsageError(
                f"{OPTION} {text!r}: {part!r} is not part of a rule; write {EXAMPLE!r}"
            )
        if match.re in matches:
            raise UsageError(
                f"{OPTION} {text!r} says {matches[match.re][0]!r} and {part!r}; write only one"
            )
        matches[match.re] = match
    if _PER not in matches:
        raise UsageError(f"{OPTION} {text!r} lacks an amount per day; write {EXAMPLE!r}")
    grace = matches.get(_GRACE)
    return LateRule(
        text=text,
        due=read_time(due, "--due"),
        amount=_amount(matches[_PER]),
        unit=_UNITS[matches[_PER][3][0]],
        most=_amount(matches[_MOST]) if _MOST in matches else _ALL,
        grace=int(grace[1]) * _UNITS[grace[2][0]] if grace else timedelta(0),
    )


def _amount(match: re.Match[str]) -> _Amount:
    return _Amount(Decimal(match[1]), in_percent=match[2] == "%")


def read_time(text: str, where: str) -> datetime:
    """Return a time in ISO 8601, with an offset or without.

    Raises:
        UsageError: the text is not a time.
    """
    try:
        if len(text.strip()) <= len("2026-11-22"):
            raise ValueError("a date alone is not a time")
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{where}: {text!r} is not a time; write 2026-11-22T23:59 or 2026-11-22T23:59+01:00"
        ) from None


def read_worksheet_times(roster: Roster, due: datetime) -> list[tuple[Person, datetime]]:
    """Return the times in Moodle's grading worksheet, to the minute.

    Args:
        roster: the worksheet; another roster has no times.
        due: the due time.

    Raises:
        UsageError: a cell is not a time as Moodle writes it in English, or `due` has an offset.
    """
    if not has_times(roster):
        return []
    if due.tzinfo is not None:
        raise UsageError(
            f"--due {due.isoformat()!r} has an offset from UTC, and the times in "
            f"{roster.table.path} have none: write --due as Moodle shows it to you, without offset"
        )
    return [
        (person, _moodle_time(cell, person.row.place))
        for person in roster.people
        if (cell := person.row.cells[WORKSHEET_COLUMN]) not in _NOTHING
    ]


def has_times(roster: Roster | None) -> bool:
    """Return whether a roster has the times of submissions: Moodle's grading worksheet has them."""
    return roster is not None and WORKSHEET_COLUMN in roster.table.known


def _moodle_time(cell: str, place: str) -> datetime:
    text = " ".join(cell.lower().split())
    match = _DAY.fullmatch(text)
    if match is not None:
        day, month, month_first, day_second, year, hour, minute, half = match.groups()
        name = month or month_first
        number = next((n for n, full in enumerate(_MONTHS, 1) if full.startswith(name)), 0)
        hours = int(hour) % 12 + 12 * (half == "pm") if half else int(hour)
        with suppress(ValueError):
            return datetime(int(year), number, int(day or day_second), hours, int(minute))
    with suppress(ValueError):
        return datetime.fromisoformat(cell).replace(tzinfo=None)
    raise UsageError(
        f"{place}: {cell!r} is not a time as Moodle writes it in English; export the worksheet in "
        "English, or remove its column 'Last modified (submission)' and give --times"
    )


def read_times(path: Path, due: datetime) -> list[tuple[str, str, datetime]]:
    """Return the place, the student and the time of each line of a file.

    Raises:
        UsageError: the file lacks a column, a cell is not a time, or only one of a cell and `due`
            has an offset.
    """
    table = read_csv(path, "--times")
    if not {*_COLUMNS} <= table.known:
        raise UsageError(f"--times {path} needs the columns student,submitted_at")
    times = []
    for row in table.rows:
        time = read_time(row.cells["submitted at"], row.place)
        if (time.tzinfo is None) != (due.tzinfo is None):
            raise UsageError(
                f"{row.place}: {row.cells['submitted at']!r} and --due {due.isoformat()!r} cannot "
                "be compared, since one has no offset from UTC; write +00:00 or such after both"
            )
        times.append((row.place, row.cells["student"], time))
    return times
