"""`make bundle N=03`: what a student hands in, as one zip; equal work gives equal bytes.

It holds `starter.py` of the lab, `starter.py` of each lab that the lab builds on and that passes,
and `submission.json`, which lists both. Nothing else is taken along. Nothing is graded either: the
score that is shown is the one of the last run on this machine.
"""

import argparse
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.grading.reading.submission import KEEP_SHORT, MOST_SOURCE_BYTES
from labkit.publish.packing import write_zip
from labkit.running.lab_impl import short_hash
from labkit.student.progress import Progress

SCHEMA = "labkit/submission/v1"


def make_bundle(lab: Lab, labs: list[Lab], root: Path, student: str) -> dict[str, bytes]:
    """Return the files of a bundle, by path in the zip; `submission.schema.json` describes them.

    Args:
        lab: the lab to hand in.
        labs: all labs of the repository.
        root: the repository, for what has passed.
        student: who hands in, or "".

    Raises:
        UsageError: `starter.py` cannot be read, or is longer than a grader reads.
    """
    progress = Progress(root)
    parts = [other for other in labs if other.name in lab.parts.values() and progress.passes(other)]
    sources = {f"labs/{one.name}/starter.py": _source(one) for one in (lab, *parts)}
    told: dict[str, Any] = {
        "schema": SCHEMA,
        "student": student,
        "lab": lab.name,
        "files": {name: sha256(data).hexdigest() for name, data in sorted(sources.items())},
    }
    text = json.dumps(told, indent=1) + "\n"
    return {**sources, "submission.json": text.encode("ascii")}


def _source(lab: Lab) -> bytes:
    try:
        with lab.starter.open("rb") as file:
            data = file.read(MOST_SOURCE_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"{lab.label}/starter.py cannot be read ({error.strerror}): "
            f"make reset N={lab.number} brings the fresh one back"
        ) from None
    if len(data) > MOST_SOURCE_BYTES:
        raise UsageError(
            f"{lab.label}/starter.py has more than {MOST_SOURCE_BYTES} bytes: {KEEP_SHORT}"
        )
    return data


def _local_score(lab: Lab, root: Path) -> str:
    record = Progress(root).record(lab)
    now = tuple(short_hash(file.read_bytes()) for file in (lab.starter, lab.test_file))
    if record.score is None or now != (record.starter, record.tests):
        return f"this file has not been run here yet: make lab N={lab.number}"
    more = ", on more implementations" if lab.hunt is not None else ""
    return f"{record.score}/100 when it last ran here; the grader runs it again{more}"


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit bundle`."""
    add = command.add_argument
    add("--lab", default="", metavar="N", help="number of the lab, 03")
    add("--student", default="", metavar="NAME", help="your name, if your instructor asks for it")
    add("--out", type=Path, metavar="FILE", help="default: submission-lab-NN.zip")
    add("--force", action="store_true", help="even if starter.py is untouched")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the bundle of a lab and say what is in it; return 0."""
    labs = find_labs(root)
    lab = pick_lab(labs, args.lab)
    files = make_bundle(lab, labs, root, args.student)
    if not args.force and _source(lab) == lab.pristine_starter.read_bytes():
        raise UsageError(
            f"{lab.label}/starter.py is as it was handed out, so there is nothing to hand in. "
            f"To hand it in all the same: make bundle N={lab.number} ARGS=--force"
        )
    out = args.out or root / f"submission-{lab.label}.zip"
    write_zip(out, files)
    print(f"Wrote {os.path.relpath(out)}; hand in this file. It holds:")
    for name, data in files.items():
        print(f"  {name:<56} {len(data):>7} bytes")
    for name, folder in lab.parts.items():
        if f"labs/{folder}/starter.py" not in files:
            print(f"  ({name} is left out: your {folder} does not pass as it is now)")
    print(f"Score of {lab.label}: {_local_score(lab, root)}.")
    return 0
