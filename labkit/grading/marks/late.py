"""Late work: when each student handed in, and what a rule takes off.

A rule is parts between commas, in any order:

    10% per day, at most 50%, 15 min grace

- `N% per day`, or `per hour`: taken off for each day that has begun; a percentage of the lab's
  points, or `N points`.
- `at most N%`, or `N points`: never more than that. Without it: all points.
- `N min grace`, or `hours`, `days`: whoever is no later than that is in time. Whoever is later is
  late from the due time on.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from labkit.errors import UsageError
from labkit.grading.marks.csv_files import read_csv

OPTION = "--late"
EXAMPLE = "10% per day, at most 50%, 15 min grace"
_NUMBER = r"([0-9]{1,4}(?:\.[0-9]{1,2})?)"
_PER = re.compile(rf"{_NUMBER} ?(%|points?) per (day|hour)")
_MOST = re.compile(rf"at most {_NUMBER} ?(%|points?)")
_GRACE = re.compile(r"([0-9]{1,4}) ?(min|minutes?|h|hours?|days?) grace")
_FORMS = (_PER, _MOST, _GRACE)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_COLUMNS = ("student", "submitted at")


@dataclass(frozen=True)
class _Amount:
    """So many points, or percent of all that can be had."""

    number: Decimal
    in_percent: bool

    def of(self, max_score: int) -> Decimal:
        """Return it in points."""
        return self.number * max_score / 100 if self.in_percent else self.number


_ALL = _Amount(Decimal(100), in_percent=True)


@dataclass(frozen=True)
class LateRule:
    """What is taken off late work.

    Attributes:
        text: as it was given.
        due: when work was due.
        amount: taken off for each `unit` that has begun.
        most: never more than that.
        grace: how late is still in time.
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
    """Return the rule that a text says.

    Args:
        text: see the module.
        due: a time in ISO 8601.

    Raises:
        UsageError: one of them cannot be understood.
    """
    matches: dict[re.Pattern[str], re.Match[str]] = {}
    for part in map(str.strip, " ".join(text.lower().split()).split(",")):
        match = next((match for form in _FORMS if (match := form.fullmatch(part))), None)
        if match is None:
            raise UsageError(f"{OPTION} {text!r}: {part!r} is no part of a rule; say {EXAMPLE!r}")
        if match.re in matches:
            raise UsageError(
                f"{OPTION} {text!r} says {matches[match.re][0]!r} and {part!r}; say one"
            )
        matches[match.re] = match
    if _PER not in matches:
        raise UsageError(f"{OPTION} {text!r} does not say how much per day; say {EXAMPLE!r}")
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
        UsageError: it is none.
    """
    try:
        if len(text.strip()) <= len("2026-11-22"):
            raise ValueError("a day alone does not say when in it")
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{where}: {text!r} is no time; write it as 2026-11-22T23:59 or 2026-11-22T23:59+01:00"
        ) from None


def read_times(path: Path, due: datetime) -> list[tuple[str, str, datetime]]:
    """Return the place, the student and the time of each line of a file.

    Raises:
        UsageError: it lacks a column, a cell is no time, or only one of it and `due` has an offset.
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
                "be compared, since one has no offset from UTC; write +00:00 or such behind both"
            )
        times.append((row.place, row.cells["student"], time))
    return times
