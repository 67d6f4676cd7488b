"""What this student has done so far: the last result of each lab, and how many hints were read.

It is kept in `.labkit/progress.json` in the repository. Deleting the file costs only a re-run; one
that cannot be read is put aside, and a fresh one begun.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labkit.course.hints import HINT_LEVELS
from labkit.course.lab import Lab
from labkit.running.lab_impl import short_hash


@dataclass
class Record:
    """The last full run of a lab's `starter.py`.

    Attributes:
        score: points of the last run, or None before the first.
        starter, tests: short hashes of the files that gave this score.
        solved: whether some run ever reached the full score.
        hints: task -> level read so far.
    """

    score: int | None = None
    starter: str = ""
    tests: str = ""
    solved: bool = False
    hints: dict[str, int] = field(default_factory=dict)


class Progress:
    """The records of one repository, saved at every change."""

    def __init__(self, root: Path) -> None:
        self._file = root / ".labkit" / "progress.json"
        self._records = self._read()

    def record(self, lab: Lab) -> Record:
        """Return what is known of `lab`: a fresh record if it never ran."""
        return self._records.setdefault(lab.name, Record())

    def passes(self, lab: Lab) -> bool:
        """Return whether the student's file, as it is now, passed the tests as they are now."""
        record = self.record(lab)
        return record.score == 100 and (record.starter, record.tests) == _hashes(lab)

    def save_score(self, lab: Lab, score: int) -> None:
        """Remember the score of the files as they are now."""
        record = self.record(lab)
        record.score = score
        record.starter, record.tests = _hashes(lab)
        record.solved = record.solved or score == 100
        self._write()

    def next_hint(self, lab: Lab, task: int) -> int:
        """Return the level of the next hint, from 1, and remember that it was read."""
        hints = self.record(lab).hints
        hints[str(task)] = min(hints.get(str(task), 0) + 1, HINT_LEVELS)
        self._write()
        return hints[str(task)]

    def _read(self) -> dict[str, Record]:
        try:
            data = json.loads(self._file.read_text(encoding="utf-8"))
            return {name: Record(**record) for name, record in data.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError):
            self._file.replace(self._file.with_suffix(".unreadable.bak"))
            return {}

    def _write(self) -> None:
        self._file.parent.mkdir(exist_ok=True)
        data = {name: asdict(record) for name, record in sorted(self._records.items())}
        scratch = self._file.with_suffix(f".{os.getpid()}.tmp")
        scratch.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        scratch.replace(self._file)


def next_unfinished(labs: list[Lab], progress: Progress) -> Lab | None:
    """Return the first lab of the ladder that does not pass as it is now."""
    return next((lab for lab in labs if not progress.passes(lab)), None)


def _hashes(lab: Lab) -> tuple[str, str]:
    files = (lab.starter, lab.test_file)
    first, second = (short_hash(file.read_bytes() if file.exists() else b"") for file in files)
    return first, second
