"""Hints, from `hints.toml`: three levels for each task of a lab, the mildest first."""

from dataclasses import dataclass

from labkit.course.lab import COURSE, Lab
from labkit.course.rows import build, read_toml
from labkit.errors import LabFolderError

FILE = f"{COURSE}/hints.toml"
HINT_LEVELS = 3


@dataclass(frozen=True)
class Hint:
    """One level of help.

    Attributes:
        task: the number of the task that it helps with.
        symptom: the observation that calls for this hint.
        text: the advice, in Markdown.
        looks_like: the diagnoses, by name, of code that has this symptom.
    """

    task: int
    symptom: str
    text: str
    looks_like: tuple[str, ...] = ()


def read_hints(lab: Lab) -> dict[int, list[Hint]]:
    """Return the hints of each task, the mildest first.

    Raises:
        LabFolderError: the file is missing or malformed, or a task does not have three hints.
    """
    file = lab.path / FILE
    hints: dict[int, list[Hint]] = {task.number: [] for task in lab.tasks}
    for row in read_toml(file).get("hint", []):
        hint = build(Hint, row, file, looks_like=tuple)
        if hint.task not in hints:
            raise LabFolderError(f"{file}: a hint is for task {hint.task}, which lab.toml lacks")
        hints[hint.task].append(hint)
    for task, levels in hints.items():
        if len(levels) != HINT_LEVELS:
            message = f"task {task} has {len(levels)} hints; it must have {HINT_LEVELS}"
            raise LabFolderError(f"{file}: {message}")
    return hints
