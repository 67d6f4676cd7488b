"""`make bundle N=03`: write the zip to hand in, see `labkit.grading.reading.bundles`.

Nothing is graded: the printed score is that of the last run on this machine.
"""

import argparse
import os
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.grading.reading.bundles import make_bundle, source_of
from labkit.publish.packing import write_zip
from labkit.running.lab_impl import short_hash
from labkit.student.progress import Progress


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
    add("--lab", default="", metavar="N", help="number of the lab, such as 03")
    add("--student", default="", metavar="NAME", help="your name, if your instructor asks for it")
    add("--out", type=Path, metavar="FILE", help="default: submission-lab-NN.zip")
    add("--force", action="store_true", help="write the zip even if starter.py is unchanged")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the bundle of a lab and print its content; return 0."""
    labs = find_labs(root)
    lab = pick_lab(labs, args.lab)
    files = make_bundle(lab, labs, root, args.student)
    if not args.force and source_of(lab) == lab.pristine_starter.read_bytes():
        raise UsageError(
            f"{lab.label}/starter.py is unchanged, so there is nothing to hand in. "
            f"To hand it in anyway: make bundle N={lab.number} ARGS=--force"
        )
    out = args.out or root / f"submission-{lab.label}.zip"
    write_zip(out, files)
    print(f"Wrote {os.path.relpath(out)}; hand in this file. It contains:")
    for name, data in files.items():
        print(f"  {name:<56} {len(data):>7} bytes")
    for name, folder in lab.parts.items():
        if f"labs/{folder}/starter.py" not in files:
            print(f"  ({name} is left out: your current {folder} does not pass)")
    print(f"Score of {lab.label}: {_local_score(lab, root)}.")
    return 0
