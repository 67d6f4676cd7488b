"""Gate: what students write earns the score and gets the diagnosis that are on record.

`tests/attempts/NN` holds starters of lab NN as students write them, and `attempts.toml` beside them
says for each file its score and what it looks like.
"""

from dataclasses import dataclass
from pathlib import Path

from labkit.course.lab import Lab, find_labs
from labkit.course.rows import build, read_toml
from labkit.errors import LabFolderError
from labkit.gates.finding import Finding
from labkit.gates.runs import run_all

FOLDER = "tests/attempts"
FEWEST_A_TASK = 4
# Students' code may be slower than the reference and linear all the same.
_HURRY = 0.5
STUB, MOST_FOR_A_STUB = "stub_", 5


@dataclass(frozen=True)
class Attempt:
    """A starter as a student writes it.

    Attributes:
        file: its name. Those of stubs, which answer without looking, begin with `stub_`.
        score: what it earns.
        looks_like: its diagnosis, "" for none.
        what: what is wrong with it, in a line.
    """

    file: str
    score: int
    looks_like: str
    what: str = ""


def folder_of(root: Path, lab: Lab) -> Path:
    """Return where the attempts at a lab are."""
    return root / FOLDER / lab.number


def attempts_score_as_told(root: Path) -> list[Finding]:
    """Check the score and the diagnosis of every attempt on record, and that there are enough."""
    found: list[Finding] = []
    jobs: list[tuple[Lab, Attempt]] = []
    for lab in find_labs(root):
        try:
            attempts = _read(root, lab)
        except LabFolderError as error:
            message = str(error).replace(f"{folder_of(root, lab)}/", "")
            found.append(Finding(f"{FOLDER}/{lab.number}", message))
            continue
        there = (attempt for attempt in attempts if _path(root, lab, attempt).exists())
        jobs += [(lab, attempt) for attempt in there]
        found += [
            Finding(f"{FOLDER}/{lab.number}", text) for text in _incomplete(root, lab, attempts)
        ]
    files = [(lab, str(_path(root, lab, attempt))) for lab, attempt in jobs]
    for (lab, attempt), outcome in zip(jobs, run_all(root, files, hurry=_HURRY), strict=True):
        name = f"{FOLDER}/{lab.number}/{attempt.file}"
        if "error" in outcome:
            found.append(Finding(name, f"did not run: {outcome['error']}"))
            continue
        for what in ("score", "looks_like"):
            told, seen = getattr(attempt, what), outcome[what]
            if told != seen:
                found.append(Finding(name, f"{what} is {seen!r}; attempts.toml says {told!r}"))
    return found


def _path(root: Path, lab: Lab, attempt: Attempt) -> Path:
    return folder_of(root, lab) / attempt.file


def _read(root: Path, lab: Lab) -> list[Attempt]:
    file = folder_of(root, lab) / "attempts.toml"
    return [build(Attempt, row, file) for row in read_toml(file).get("attempt", [])]


def _incomplete(root: Path, lab: Lab, attempts: list[Attempt]) -> list[str]:
    found: list[str] = []
    fewest = FEWEST_A_TASK * len(lab.tasks)
    if len(attempts) < fewest:
        found.append(f"{len(attempts)} attempts; {fewest} is the least for {len(lab.tasks)} tasks")
    told = {attempt.file for attempt in attempts}
    there = {path.name for path in folder_of(root, lab).glob("*.py")}
    found += [f"{file} is not in attempts.toml" for file in sorted(there - told)]
    found += [f"{file} is in attempts.toml only" for file in sorted(told - there)]
    found += [
        f"{attempt.file} earns {attempt.score} points; a stub earns at most {MOST_FOR_A_STUB}"
        for attempt in attempts
        if attempt.file.startswith(STUB) and attempt.score > MOST_FOR_A_STUB
    ]
    return found
