"""Points given or taken by hand, from a CSV: extra credit, an oral exam, a deduction.

A ledger keeps them, so the CSV need be named only once. If a later file names a student, its lines
replace the student's earlier lines; a line of 0 points takes the earlier points back.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from labkit.errors import UsageError
from labkit.grading.marks.csv_files import read_csv
from labkit.running.reporting.showing import printable

OPTION = "--points"
_COLUMNS = frozenset(["student", "points", "reason"])
_NUMBER = re.compile(r"[-+]?[0-9]{1,4}(\.[0-9]{1,2})?")
_MOST_REASON = 500


@dataclass(frozen=True)
class Adjustment:
    """Points with the reason for them, as the student reads it."""

    points: Decimal
    reason: str

    def to_json(self) -> list[str]:
        """Return the points in the form for a ledger."""
        return [str(self.points), self.reason]

    @classmethod
    def from_json(cls, pair: Any) -> "Adjustment":
        """Return the points whose `to_json` is this pair.

        Raises:
            ValueError: the pair has another form.
        """
        points, reason = pair
        if not _NUMBER.fullmatch(points) or type(reason) is not str:
            raise ValueError("this is not a pair of points and a reason")
        return cls(Decimal(points), reason)


def read_points(path: Path) -> dict[str, tuple[str, tuple[Adjustment, ...]]]:
    """Return the points in a file: by the file's name of a student, the first place and the points.

    Raises:
        UsageError: the file lacks a column, or a cell is not a number of points.
    """
    table = read_csv(path, OPTION)
    if not table.known >= _COLUMNS:
        raise UsageError(f"{OPTION} {path} needs the columns student,points,reason")
    adjustments: dict[str, tuple[str, tuple[Adjustment, ...]]] = {}
    for row in table.rows:
        cell = row.cells["points"]
        if not _NUMBER.fullmatch(cell):
            raise UsageError(
                f"{row.place}: {cell!r} is not a number of points; write 5, -10 or 2.5, with at "
                "most 4 digits before the point and 2 after it"
            )
        place, before = adjustments.get(row.cells["student"], (row.place, ()))
        reason = " ".join(printable(row.cells["reason"], _MOST_REASON).split())
        adjustment = Adjustment(Decimal(cell), reason)
        adjustments[row.cells["student"]] = place, (*before, adjustment)
    return adjustments


def points_in(notes: Iterable[Any], lab: str) -> Mapping[str, tuple[Adjustment, ...]]:
    """Return by student the points for a lab in a ledger's notes; the last note counts."""
    adjustments = {}
    for note in notes:
        if note["lab"] == lab:
            adjustments[note["student"]] = tuple(map(Adjustment.from_json, note["points"]))
    return adjustments


def note_of(lab: str, student: str, points: Iterable[Adjustment]) -> dict[str, Any]:
    """Return the note that makes a ledger keep a student's points."""
    return {
        "lab": lab,
        "student": student,
        "points": [adjustment.to_json() for adjustment in points],
    }
