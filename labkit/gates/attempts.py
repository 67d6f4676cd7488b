"""Gate: what students write earns the score and gets the diagnosis that are on record.

`tests/attempts/NN` holds starters of lab NN as students write them, and `attempts.toml` beside them
says for each file its score and what it looks like.
"""

import tomllib
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab, find_labs
from labkit.gates.finding import Finding
from labkit.gates.runs import run_all

ATTEMPTS = "tests/attempts"


def attempts_score_as_told(root: Path) -> list[Finding]:
    """Check the score and the diagnosis of every attempt on record."""
    rows = [(lab, row) for lab in find_labs(root) for row in _rows(root, lab)]
    found: list[Finding] = []
    jobs = [(lab, str(_folder(root, lab) / row["file"])) for lab, row in rows]
    for (lab, row), outcome in zip(rows, run_all(root, jobs), strict=True):
        name = f"{ATTEMPTS}/{lab.number}/{row['file']}"
        if "error" in outcome:
            found.append(Finding(name, f"did not run: {outcome['error']}"))
            continue
        for what in ("score", "looks_like"):
            if outcome[what] != row[what]:
                told, seen = row[what], outcome[what]
                found.append(Finding(name, f"{what} is {seen!r}; attempts.toml says {told!r}"))
    for lab in find_labs(root):
        told = {row["file"] for row in _rows(root, lab)}
        there = {path.name for path in _folder(root, lab).glob("*.py")}
        for file in sorted(told ^ there):
            message = "is in attempts.toml only" if file in told else "is not in attempts.toml"
            found.append(Finding(f"{ATTEMPTS}/{lab.number}/{file}", message))
    return found


def _folder(root: Path, lab: Lab) -> Path:
    return root / ATTEMPTS / lab.number


def _rows(root: Path, lab: Lab) -> list[dict[str, Any]]:
    path = _folder(root, lab) / "attempts.toml"
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["attempt"]
    return rows
