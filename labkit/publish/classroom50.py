"""`make classroom50 N=03`: the folder that Classroom 50 takes as an assignment's autograder.

It is a zip of `autograder.py` and what that needs. Unpacked into
`CLASSROOM/autograders/ASSIGNMENT/`, it grades each push in the student's own repository, and writes
`result.json` and `release-body.md`. What runs there is `labkit.publish.classroom50_run`.

But: students can fetch what is in it, so it holds neither references nor hidden tests.
"""

import argparse
import os
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.publish.course_files import grader_files
from labkit.publish.fixed_zip import write_zip

_TEMPLATE = Path(__file__).parent / "templates/classroom50_autograder.py"


def make_autograder(lab: Lab, labs: list[Lab], root: Path) -> dict[str, bytes]:
    """Return the files of the folder.

    Raises:
        UsageError: a file is missing, as in a student edition.
    """
    files = {f"course/{name}": data for name, data in grader_files(lab, labs, root).items()}
    program = _TEMPLATE.read_text(encoding="utf-8").replace("@LAB@", lab.number)
    files["autograder.py"] = program.encode()
    return files


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit classroom50`."""
    command.add_argument("--lab", default="", metavar="N", help="number of the lab, 03")
    command.add_argument("--out", type=Path, metavar="FILE", help="default: classroom50-lab-NN.zip")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the zip and say what to do with it; return 0."""
    labs = find_labs(root)
    lab = pick_lab(labs, args.lab)
    files = make_autograder(lab, labs, root)
    out = args.out or root / f"classroom50-{lab.label}.zip"
    write_zip(out, files)
    print(f"Wrote {os.path.relpath(out)}: {len(files)} files, {out.stat().st_size} bytes.")
    print("Unpack it into CLASSROOM/autograders/ASSIGNMENT/ of your classroom50 repository.")
    return 0
