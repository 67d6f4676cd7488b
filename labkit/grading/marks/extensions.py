"""Extensions and excuses: another due time for one student and lab, or no mark at all, from a CSV.

One file serves the whole term: lines for other labs are left out. A ledger keeps those of its lab,
so the CSV need be named only once. If a later file has a line for a student, that line replaces the
earlier one; `0 hours` takes an extension or an excuse back.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab, pick_lab
from labkit.errors import UsageError
from labkit.grading.marks.csv_files import read_csv
from labkit.grading.marks.late import read_time
from labkit.running.reporting.showing import printable

OPTION = "--extensions"
# The kind of the notes in a ledger.
KIND = "extension"
EXCUSED = "excused"
_COLUMNS = frozenset(["student", "lab", "extension", "reason"])
_LENGTH = re.compile(r"([0-9]{1,4})(?: ?(h|hours?|d|days?))?")
_LAB = re.compile(r"^lab[-_ ]*")
_MOST_REASON = 500


@dataclass(frozen=True)
class Extension:
    """Another due time for a student, or an excuse.

    Attributes:
        text: the cell: hours, days, a time, or `excused`.
        reason: the reason, as the student reads it.
    """

    text: str
    reason: str = ""

    @property
    def is_excuse(self) -> bool:
        """Whether the lab does not count for the student."""
        return self.text == EXCUSED

    @property
    def changes_nothing(self) -> bool:
        """Whether the extension only takes an earlier one back."""
        return not self.is_excuse and self._length() == timedelta(0)

    def due(self, due: datetime, where: str) -> datetime:
        """Return the student's due time, which is never before that of the class.

        Args:
            due: the due time of the class.
            where: the place of the extension, for messages.

        Raises:
            UsageError: only one of the two times has an offset from UTC.
        """
        if self.is_excuse:
            return due
        if (length := self._length()) is not None:
            return due + length
        own = read_time(self.text, where)
        if (own.tzinfo is None) != (due.tzinfo is None):
            raise UsageError(
                f"{where}: {self.text!r} and --due {due.isoformat()!r} cannot be compared, since "
                "one has no offset from UTC; write +00:00 or such after both, or a number of hours"
            )
        return max(own, due)

    def _length(self) -> timedelta | None:
        match = _LENGTH.fullmatch(self.text)
        if match is None:
            return None
        return timedelta(hours=int(match[1]) * (24 if (match[2] or "h")[0] == "d" else 1))


def read_extensions(path: Path, labs: Sequence[Lab]) -> dict[str, dict[str, tuple[str, Extension]]]:
    """Return the extensions in a file: by folder name of a lab and by the file's name of a student,
    the place and the extension.

    Args:
        path: of the file.
        labs: all labs of the course.

    Raises:
        UsageError: the file lacks a column, or a cell is not a lab or an extension.
    """
    table = read_csv(path, OPTION)
    if not table.known >= _COLUMNS:
        raise UsageError(f"{OPTION} {path} needs the columns student,lab,extension,reason")
    extensions: dict[str, dict[str, tuple[str, Extension]]] = {}
    for row in table.rows:
        try:
            lab = pick_lab([*labs], _LAB.sub("", row.cells["lab"].casefold()) or "''")
        except UsageError:
            have = ", ".join(lab.number for lab in labs)
            raise UsageError(
                f"{row.place}: there is no lab {row.cells['lab']!r}; the labs are {have}"
            ) from None
        reason = " ".join(printable(row.cells["reason"], _MOST_REASON).split())
        extension = _read(row.cells["extension"], reason, row.place)
        extensions.setdefault(lab.name, {})[row.cells["student"]] = row.place, extension
    return extensions


def _read(cell: str, reason: str, place: str) -> Extension:
    text = " ".join(cell.casefold().split())
    if text != EXCUSED and not _LENGTH.fullmatch(text):
        try:
            text = read_time(cell, place).isoformat()
        except UsageError:
            raise UsageError(
                f"{place}: {cell!r} is not an extension; write 48 hours, 2 days, a time as "
                f"2026-11-25T12:00, or {EXCUSED}"
            ) from None
    return Extension(text, reason)


def extensions_in(notes: Iterable[Any], lab: str) -> Mapping[str, Extension]:
    """Return by student the extensions for a lab in a ledger's notes; the last note counts."""
    return {
        note["student"]: Extension(note["extension"], note["reason"])
        for note in notes
        if note["lab"] == lab
    }


def note_of(lab: str, student: str, extension: Extension) -> dict[str, str]:
    """Return the note that makes a ledger keep a student's extension."""
    values = {"extension": extension.text, "reason": extension.reason}
    return {"lab": lab, "student": student, **values}
