"""The bundle, a zip that a student hands in and that grading reads; equal work gives equal bytes.

It contains the lab's `starter.py`, the `starter.py` of each passing lab that the lab builds on, and
`submission.json`, which lists these files. It contains nothing else.
"""

import io
import json
import zipfile
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.running.source import KEEP_SHORT, MOST_SOURCE_BYTES
from labkit.student.progress import Progress

SCHEMA = "labkit/submission/v1"
_DATE = (1980, 1, 1, 0, 0, 0)
_UNIX = 3


def make_bundle(lab: Lab, labs: list[Lab], root: Path, student: str) -> dict[str, bytes]:
    """Return the files of a bundle, by path in the zip; `submission.schema.json` describes them.

    Args:
        lab: the lab to hand in.
        labs: all labs of the repository.
        root: the repository, which knows the labs that have passed.
        student: the name of the student, or "".

    Raises:
        UsageError: `starter.py` cannot be read, or is longer than a grader reads.
    """
    progress = Progress(root)
    parts = [other for other in labs if other.name in lab.parts.values() and progress.passes(other)]
    sources = {f"labs/{member.name}/starter.py": source_of(member) for member in (lab, *parts)}
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "student": student,
        "lab": lab.name,
        "files": {name: sha256(data).hexdigest() for name, data in sorted(sources.items())},
    }
    text = json.dumps(manifest, indent=1) + "\n"
    return {**sources, "submission.json": text.encode("ascii")}


def source_of(lab: Lab) -> bytes:
    """Return the `starter.py` of a lab.

    Raises:
        UsageError: see `make_bundle`.
    """
    try:
        with lab.starter.open("rb") as file:
            data = file.read(MOST_SOURCE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{lab.label}/starter.py cannot be read ({error.strerror}): "
            f"make reset N={lab.number} writes a fresh copy"
        ) from None
    if len(data) > MOST_SOURCE_BYTES:
        raise UsageError(
            f"{lab.label}/starter.py has more than {MOST_SOURCE_BYTES} bytes: {KEEP_SHORT}"
        )
    return data


def packed(
    files: Mapping[str, bytes], programs: Collection[str] = (), *, compressed: bool = False
) -> bytes:
    """Return a zip, equal to the byte wherever it is made.

    Args:
        files: by path in the zip, with `/`.
        programs: the names of those that are executable.
        compressed: makes it smaller, and its bytes depend on the version of zlib.
    """
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system = _UNIX
            entry.external_attr = (0o100755 if name in programs else 0o100644) << 16
            archive.writestr(entry, data, method)
    return out.getvalue()
