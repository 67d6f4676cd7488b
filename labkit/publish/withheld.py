"""A search of files for students for lines of a reference solution, or of a lab's known bugs."""

import html
import json
import re
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from functools import lru_cache
from io import BytesIO
from typing import Any

from labkit.course.lab import Lab
from labkit.errors import LabkitError
from labkit.publish.likeness import Run, runs
from labkit.running.lab_impl import Implementation

_TAG = re.compile(r"<[^>]*>")
_PRE = re.compile(r"</?pre\b[^>]*>")
_Key = tuple[object, ...]


def check_withheld(files: Iterable[tuple[str, bytes]], labs: list[Lab], product: str) -> None:
    """Look for references and known bugs in files that students get, archives unpacked.

    Args:
        files: names and contents.
        labs: all labs, with their references.
        product: the name of the product that consists of these files, for the message.

    Raises:
        LabkitError: there are such lines; the message names file, lines and lab.
    """
    secrets: dict[_Key, str] = {}
    for lab in labs:
        secrets = _secrets(lab, labs) | secrets
    findings = {
        f"{name} lines {run.first}-{run.last} are like {secrets[run.key]}"
        for name, text in _texts(files)
        for run in runs(text)
        if run.key in secrets
    }
    if findings:
        listed = "\n".join(f"  {finding}" for finding in sorted(findings))
        raise LabkitError(
            f"{product} would reveal references. Write these lines in another way; other names "
            f"and another layout are not enough:\n{listed}"
        )


def _secrets(lab: Lab, labs: list[Lab]) -> dict[_Key, str]:
    """Return the runs of a lab that students must not read, and the place of each.

    They are the runs of the reference, and of the reference with each bug planted.
    """
    texts = {f"the reference of {lab.label}": lab.solution.read_text("utf-8")} | {
        f"bug {bug.name} of {lab.label}": Implementation("bug", lab.solution, bug).source().decode()
        for bug in lab.bugs
    }
    # The reference of a hunt consists of tests, and students have the tests of the other labs.
    others = [other.test_file for other in labs if lab.hunt is not None and other != lab]
    public = {
        run.key
        for path in (lab.pristine_starter, *others)
        for run in _runs_of_lab(path.read_text("utf-8"))
    }
    places: dict[_Key, str] = {}
    for title, text in texts.items():
        for run in _runs_of_lab(text):
            if run.key not in public:
                places.setdefault(run.key, f"lines {run.first}-{run.last} of {title}")
    return places


@lru_cache(maxsize=512)
def _runs_of_lab(text: str) -> tuple[Run, ...]:
    """Return the runs of a text of a lab: a site and an edition are searched for the same runs."""
    return tuple(runs(text))


def _texts(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, str]]:
    """Return the texts in files, each with a name: those of archives, the strings of JSON and TOML.

    Pages lose their tags, and have code between fences, as in Markdown.
    """
    for name, data in files:
        if data[:2] == b"PK" and zipfile.is_zipfile(BytesIO(data)):
            with zipfile.ZipFile(BytesIO(data)) as archive:
                entries = [(f"{name}: {each}", archive.read(each)) for each in archive.namelist()]
            yield from _texts(entries)
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        yield name, text
        if name.endswith(".json"):
            yield from ((name, value) for value in _strings(json.loads(text)))
        elif name.endswith(".toml"):
            yield from ((name, value) for value in _strings(tomllib.loads(text)))
        elif name.endswith(".html"):
            yield name, html.unescape(_TAG.sub("", _PRE.sub("\n```\n", text)))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)
