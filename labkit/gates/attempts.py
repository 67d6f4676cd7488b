"""Gate: starters as students write them earn the score and get the diagnosis on record.

`tests/attempts/NN` holds starters of lab NN as students write them, and `attempts.toml` beside them
has the score and the diagnosis of each. An attempt that differs little from another is described by
its edits.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labkit.course.lab import Lab
from labkit.course.rows import build, edited, read_toml
from labkit.errors import LabFolderError
from labkit.gates.finding import Finding, of_labs
from labkit.gates.lab_runs.runs import Outcome, Question, answers
from labkit.running.diagnose import read_mistakes

FOLDER = "tests/attempts"
FEWEST_A_TASK = 4
STUB, MOST_FOR_A_STUB = "stub_", 5


@dataclass(frozen=True)
class Edit:
    """A change of a source: `find` occurs in it exactly once."""

    find: str
    replace: str


@dataclass(frozen=True)
class Attempt:
    """A starter as a student writes it.

    Attributes:
        file: the name of the file. Names of stubs, which answer without looking at their input,
            begin with `stub_`.
        of: the file that `edit` changes, "" if the attempt has a file of its own.
        edit: the changes, one after the other.
        score: the points that it earns.
        looks_like: its diagnosis, "" for none.
        what: the mistake, in a line.
    """

    file: str
    score: int
    looks_like: str
    what: str = ""
    of: str = ""
    edit: tuple[Edit, ...] = ()


def folder_of(root: Path, lab: Lab) -> Path:
    """Return the folder of the attempts at a lab."""
    return root / FOLDER / lab.number


@of_labs
def attempts_score_as_recorded(root: Path, labs: list[Lab]) -> Iterator[Finding]:
    """Check the score and the diagnosis of every attempt on record, and that there are enough.

    The attempts at a lab are run once their list is in order.
    """
    jobs: list[tuple[Lab, Attempt, bytes]] = []
    for lab in labs:
        faults, sources = [], []
        folder = folder_of(root, lab)
        try:
            attempts = read_attempts(folder)
            faults += _incomplete(folder, lab, attempts)
        except LabFolderError as error:
            attempts = []
            faults.append(str(error).replace(f"{folder}/", ""))
        for attempt in attempts:
            try:
                sources.append((lab, attempt, source_of(folder, attempt)))
            except LabFolderError as error:
                faults.append(str(error))
        yield from (Finding(f"{FOLDER}/{lab.number}", fault) for fault in faults)
        jobs += [] if faults else sources
    with tempfile.TemporaryDirectory() as scratch:
        questions = [
            Question(
                lab,
                _written(Path(scratch) / lab.number / attempt.file, source),
                partial(_differences, attempt),
            )
            for lab, attempt, source in jobs
        ]
        every = answers(root, questions)
    for (lab, attempt, _), faults in zip(jobs, every, strict=True):
        for fault in faults:
            yield Finding(f"{FOLDER}/{lab.number}/{attempt.file}", fault)


def _differences(attempt: Attempt, outcome: Outcome) -> Iterator[str]:
    for what in ("score", "looks_like"):
        on_record, seen = getattr(attempt, what), outcome[what]
        if on_record != seen:
            yield f"{what} is {seen!r}; attempts.toml says {on_record!r}"


def source_of(folder: Path, attempt: Attempt) -> bytes:
    """Return the source of an attempt.

    Raises:
        LabFolderError: its file, or the file that its edits change, is missing; or an edit does not
            fit.
    """
    path = folder / (attempt.of or attempt.file)
    try:
        source = path.read_bytes()
        for number, edit in enumerate(attempt.edit, start=1):
            where = f"{attempt.file}, edit {number}"
            source = edited(source.decode(), edit.find, edit.replace, where).encode()
    except OSError:
        raise LabFolderError(f"{path.name} is in attempts.toml only") from None
    except ValueError as error:
        raise LabFolderError(f"{error}") from None
    return source


def _written(path: Path, source: bytes) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(source)
    return str(path)


def read_attempts(folder: Path) -> list[Attempt]:
    """Return the attempts on record in a folder.

    Raises:
        LabFolderError: there is no attempts.toml, or it is not as it must be.
    """
    file = folder / "attempts.toml"
    return [
        build(Attempt, row, file, edit=lambda rows: tuple(build(Edit, row, file) for row in rows))
        for row in read_toml(file).get("attempt", [])
    ]


def _incomplete(folder: Path, lab: Lab, attempts: list[Attempt]) -> list[str]:
    faults: list[str] = []
    fewest = FEWEST_A_TASK * len(lab.tasks)
    if len(attempts) < fewest:
        faults.append(f"{len(attempts)} attempts; {fewest} is the least for {len(lab.tasks)} tasks")
    entries = {attempt.file for attempt in attempts if not attempt.of}
    there = {path.name for path in folder.glob("*.py")}
    faults += [f"{file} is not in attempts.toml" for file in sorted(there - entries)]
    faults += [
        f"{attempt.file} has edits and no `of`, or an `of` and no edits"
        for attempt in attempts
        if bool(attempt.of) != bool(attempt.edit)
    ]
    faults += [
        f"{attempt.file} earns {attempt.score} points; a stub earns at most {MOST_FOR_A_STUB}"
        for attempt in attempts
        if attempt.file.startswith(STUB) and attempt.score > MOST_FOR_A_STUB
    ]
    names = Counter(attempt.file for attempt in attempts)
    faults += [f"{names[name]} attempts are called {name}" for name in names if names[name] > 1]
    mistakes = {"", *(mistake.name for mistake in read_mistakes(lab.path))}
    faults += [
        f"{attempt.file} looks like {attempt.looks_like}, which has no probe"
        for attempt in attempts
        if attempt.looks_like not in mistakes
    ]
    return faults
