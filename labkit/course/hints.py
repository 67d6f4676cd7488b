"""Hints are read from the lab's README: under `## Hints`, three folded levels for each task."""

import re
from dataclasses import dataclass

from labkit.course.lab import Lab

HINT_LEVELS = 3

_SECTION = re.compile(r"^## Hints\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_TASK = re.compile(r"^### Task (\d+).*?\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_FOLD = re.compile(r"<details><summary>(?:Hint \d: )?(.*?)</summary>\n(.*?)</details>", re.DOTALL)


@dataclass(frozen=True)
class Hint:
    """One folded hint: the symptom that calls for it, and the text (Markdown)."""

    symptom: str
    text: str


def read_hints(lab: Lab) -> dict[int, list[Hint]]:
    """Return the hints of each task, from the mildest to the plainest."""
    section = _SECTION.search(lab.readme.read_text(encoding="utf-8"))
    return {
        int(number): [Hint(symptom.strip(), text.strip()) for symptom, text in _FOLD.findall(body)]
        for number, body in _TASK.findall(section[1] if section else "")
    }
