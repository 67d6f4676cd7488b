"""The student's progress: results of labs, hints read, predictions made, races run.

It is kept in `.labkit/progress.json` in the repository. Deleting the file costs only a new run; a
file that cannot be read is renamed, and a new file is begun.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from labkit.course.hunt import Code
from labkit.course.lab import Lab
from labkit.running.lab_impl import short_hash


@dataclass(frozen=True)
class RaceResult:
    """The last race of a lab's `starter.py`.

    Attributes:
        unit: the unit of its input, "piece" or "token".
        ns: nanoseconds per unit.
        held: the length of the held text after a unit, on average; None if unknown.
        held_unit: "characters" or "bytes".
        rival: its opponent, "reference" or the naive version by its name.
        ratio: its time divided by that of the rival.
    """

    unit: str
    ns: float
    held: float | None
    held_unit: str
    rival: str
    ratio: float


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a lab's last report.

    Attributes:
        name: the name of the mistake.
        task: the task in which students make it.
        symptom, hint: as the report prints them.
    """

    name: str
    task: int
    symptom: str
    hint: str


@dataclass
class Record:
    """The record of one lab.

    Attributes:
        score: points of the last full run of `starter.py`, or None before the first.
        starter, tests: short hashes of the files that gave this score.
        solved: whether some run ever reached the full score.
        hints: task, diagnosis or wrong implementation -> level read so far.
        unfinished: the tasks with a test that did not pass in their last run.
        passing: the (starter, tests) hashes that reached the full score.
        predictions: number of a question -> whether its last answer was right, None if skipped.
        race: the last race.
        alive: the wrong implementations that the last run of a hunt did not kill.
        turn: the number of this lab's last run among the runs of all labs, from 1; 0 before it.
        looks_like: the diagnosis of the last report.
    """

    score: int | None = None
    starter: str = ""
    tests: str = ""
    solved: bool = False
    hints: dict[str, int] = field(default_factory=dict)
    unfinished: list[int] = field(default_factory=list)
    passing: list[list[str]] = field(default_factory=list)
    predictions: dict[str, bool | None] = field(default_factory=dict)
    race: RaceResult | None = None
    alive: list[str] = field(default_factory=list)
    turn: int = 0
    looks_like: Diagnosis | None = None


class Progress:
    """The records of one repository, saved at every change.

    Methods that save raise `OSError` if the file cannot be written.
    """

    def __init__(self, root: Path) -> None:
        self._file = root / ".labkit" / "progress.json"
        self._records = self._read()

    def record(self, lab: Lab) -> Record:
        """Return the record of `lab`: a fresh record if it never ran."""
        return self._records.setdefault(lab.name, Record())

    def passes(self, lab: Lab) -> bool:
        """Return whether the student's current file has passed the current tests."""
        return _hashes(lab) in self.record(lab).passing

    def save_score(
        self, lab: Lab, score: int, unfinished: Iterable[int] = (), most: int = 100
    ) -> None:
        """Remember the result of the current files.

        Args:
            lab: the lab, which was run in full.
            score: the points it earned.
            unfinished: the tasks with a test that did not pass.
            most: the points that can be earned here: some tests may need another platform.
        """
        record, now = self.record(lab), _hashes(lab)
        record.score = score
        record.starter, record.tests = now
        record.solved = record.solved or score == most
        record.unfinished = sorted(unfinished)
        self._take_turn(record)
        # The last run decides: its random cases may show a fault that earlier cases missed.
        record.passing = [before for before in record.passing if before != now]
        if score == most:
            record.passing.append(now)
        self._write()

    def save_tasks(self, lab: Lab, finished: Iterable[int], unfinished: Iterable[int]) -> None:
        """Remember the tasks that a run of some of a lab's tests finished.

        Args:
            lab: the lab.
            finished: the tasks whose tests all passed.
            unfinished: the tasks with a test that ran and did not pass.
        """
        record = self.record(lab)
        before = record.unfinished or [task.number for task in lab.tasks if not record.turn]
        record.unfinished = sorted({*before, *unfinished}.difference(finished))
        self._take_turn(record)
        self._write()

    def _take_turn(self, record: Record) -> None:
        record.turn = 1 + max(other.turn for other in self._records.values())

    def at_work(self, labs: list[Lab]) -> Lab | None:
        """Return the lab of the last run if it does not pass, else the next of the ladder."""
        last = max(labs, key=lambda lab: self.record(lab).turn, default=None)
        if last is not None and self.record(last).turn and not self.passes(last):
            return last
        return next_unfinished(labs, self)

    def next_task(self, lab: Lab) -> int:
        """Return the first task that is known to be unfinished; if none is, the first task."""
        return min(self.record(lab).unfinished, default=lab.tasks[0].number)

    def next_hint(self, lab: Lab, about: int | str, most: int) -> int:
        """Return the level of the next hint, from 1 to `most`.

        The hint is about a task or, in a hunt, about a wrong implementation.
        """
        return min(self.record(lab).hints.get(str(about), 0) + 1, most)

    def save_hint(self, lab: Lab, about: int | str, level: int) -> None:
        """Remember that a hint was read."""
        self.record(lab).hints[str(about)] = level
        self._write()

    def save_alive(self, lab: Lab, names: Iterable[str]) -> None:
        """Remember which wrong implementations of a hunt are alive."""
        self.record(lab).alive = [*names]
        self._write()

    def diagnosis(self, lab: Lab, task: int | None = None) -> Diagnosis | None:
        """Return the diagnosis of the last report, if hints start from it.

        None if the lab passes or its starter was reset since, and if `task` is neither the task of
        the diagnosis nor the first unfinished task, whose failures the report shows.
        """
        diagnosis = self.record(lab).looks_like
        if diagnosis is None or self.passes(lab) or is_untouched(lab):
            return None
        return diagnosis if task in (None, diagnosis.task, self.next_task(lab)) else None

    def save_diagnosis(self, lab: Lab, diagnosis: Diagnosis | None) -> None:
        """Remember the diagnosis of the last report."""
        self.record(lab).looks_like = diagnosis
        self._write()

    def save_predictions(self, lab: Lab, answers: Sequence[bool | None]) -> None:
        """Remember which questions were answered correctly; None is a skipped question."""
        numbers = map(str, range(1, len(answers) + 1))
        self.record(lab).predictions = dict(zip(numbers, answers, strict=True))
        self._write()

    def save_race(self, lab: Lab, result: RaceResult) -> None:
        """Remember the last race."""
        self.record(lab).race = result
        self._write()

    def _read(self) -> dict[str, Record]:
        try:
            data = json.loads(self._file.read_text(encoding="utf-8"))
            return {name: _record(**row) for name, row in data.items()}
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


def is_untouched(lab: Lab) -> bool:
    """Return whether a lab's starter is there as it was handed out."""
    files = (lab.pristine_starter, lab.starter)
    return all(file.exists() for file in files) and len({file.read_bytes() for file in files}) == 1


def next_unfinished(labs: list[Lab], progress: Progress) -> Lab | None:
    """Return the first lab of the ladder whose current file does not pass."""
    return next((lab for lab in labs if not progress.passes(lab)), None)


def next_alive(lab: Lab, task: int, progress: Progress) -> Code | None:
    """Return the wrong implementation of a hunt that a hint is about, if one is known to be alive.

    It is the task's first one with an unread hint, else the task's first.
    """
    if lab.hunt is None:
        return None
    record = progress.record(lab)
    alive = [
        code for code in lab.pool.wrong() if code.target.task == task and code.name in record.alive
    ]
    left = [code for code in alive if record.hints.get(code.name, 0) < len(code.hints)]
    return next(iter(left or alive), None)


def _record(
    race: dict[str, object] | None = None,
    looks_like: dict[str, object] | None = None,
    **row: object,
) -> Record:
    record = Record(**row)  # type: ignore[arg-type]
    record.race = RaceResult(**race) if race else None  # type: ignore[arg-type]
    record.looks_like = Diagnosis(**looks_like) if looks_like else None  # type: ignore[arg-type]
    # A file of an earlier version has only the hashes of the last run.
    if record.score == 100 and not record.passing:
        record.passing = [[record.starter, record.tests]]
    return record


def _hashes(lab: Lab) -> list[str]:
    files = (lab.starter, lab.test_file)
    return [short_hash(file.read_bytes() if file.exists() else b"") for file in files]
