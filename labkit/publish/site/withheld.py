"""What a student's site must not hold: a reference solution, or the list of a lab's known bugs."""

import html
import json
import re
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab
from labkit.errors import LabkitError
from labkit.running.lab_impl import Implementation

# So many lines in a row, of a reference and of no starter, are no accident.
_LINES = 3
_SAYS_NOTHING = re.compile(r'|"""|(?:import|from) .+')
_TAG = re.compile(r"<[^>]*>")
_Run = tuple[str, ...]


def check_withheld(folder: Path, labs: list[Lab]) -> None:
    """Look for solutions and bugs in all files of a site, archives unpacked.

    Args:
        folder: the site.
        labs: all labs, with their solutions.

    Raises:
        LabkitError: there are some; the message names file and lab.
    """
    secrets = {run: lab for lab in labs for run in _secret_runs(lab)}
    found = [
        f"{name} holds lines of {secrets[run].label}: {' / '.join(run)}"
        for name, text in _texts(folder)
        for run in _runs(text)
        if run in secrets
    ]
    if found:
        told = "\n".join(f"  {one}" for one in dict.fromkeys(found))
        raise LabkitError(f"the student's site would give solutions or bugs away:\n{told}")


def _secret_runs(lab: Lab) -> set[_Run]:
    """Return what no student may read of a lab: its reference, and that with each bug planted."""
    solution = lab.solution.read_text("utf-8")
    planted = (Implementation("bug", lab.solution, bug).source().decode() for bug in lab.bugs)
    secret = set().union(*map(_runs, (solution, *planted)))
    return secret - _runs(lab.pristine_starter.read_text("utf-8"))


def _runs(text: str) -> set[_Run]:
    """Return each run of consecutive lines of a text.

    Indentation, and lines that say nothing (blank ones, imports, the quotes around a docstring), do
    not count.
    """
    stripped = map(str.strip, text.splitlines())
    lines = [line for line in stripped if not _SAYS_NOTHING.fullmatch(line)]
    return {tuple(lines[at : at + _LINES]) for at in range(len(lines) - _LINES + 1)}


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield from _texts_of(path.relative_to(folder).as_posix(), path.read_bytes())


def _texts_of(name: str, data: bytes) -> Iterator[tuple[str, str]]:
    """Return the texts in a file, each with a name: those of an archive, the strings of JSON."""
    if data[:2] == b"PK" and zipfile.is_zipfile(BytesIO(data)):
        with zipfile.ZipFile(BytesIO(data)) as archive:
            for entry in archive.namelist():
                yield from _texts_of(f"{name}: {entry}", archive.read(entry))
        return
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    yield name, text
    if name.endswith(".json"):
        yield from ((name, value) for value in _strings(json.loads(text)))
    elif name.endswith(".html"):
        yield name, html.unescape(_TAG.sub("", text))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)
