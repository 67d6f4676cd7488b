"""`make gradescope N=03`: the zip that a Gradescope assignment takes as its autograder.

`setup.sh` and `run_autograder` stand at its root, what grading needs under `course/`. The same
repository gives the same zip. What runs there is `labkit.publish.gradescope_run`.
"""

import argparse
import os
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.grading.overlay import read_overlay
from labkit.publish.course_files import grader_files, reference_files
from labkit.publish.fixed_zip import write_zip

_TEMPLATES = Path(__file__).parent / "templates"


def make_autograder(
    lab: Lab, labs: list[Lab], root: Path, seed: str, overlay: Path | None = None
) -> dict[str, bytes]:
    """Return the files of the zip.

    Args:
        lab: the lab to grade.
        labs: all labs of the repository.
        root: the repository.
        seed: of the randomised tests; letters and digits.
        overlay: the folder of hidden tests, see `labkit.grading.overlay`.

    Raises:
        UsageError: a file is missing, the seed has other characters, or the overlay has no tests of
            this lab.
    """
    if not seed.isalnum() or not seed.isascii():
        raise UsageError(f"the seed is {seed!r}; use letters and digits only")
    course = {**grader_files(lab, labs, root), **reference_files(lab, labs, root)}
    if overlay is not None:
        hidden = read_overlay(overlay, lab)
        if hidden is None:
            raise UsageError(f"{overlay} has no hidden tests of {lab.name}")
        course[f"overlay/{lab.name}/{hidden.path.name}"] = hidden.path.read_bytes()
    files = {f"course/{name}": data for name, data in course.items()}
    files["setup.sh"] = (_TEMPLATES / "gradescope_setup.sh").read_bytes()
    run = (_TEMPLATES / "gradescope_run.sh").read_text(encoding="utf-8")
    options = f"--lab {lab.number} --seed {seed}" + (" --overlay overlay" if overlay else "")
    files["run_autograder"] = run.replace("@OPTIONS@", options).encode()
    return files


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit gradescope`."""
    add = command.add_argument
    add("--lab", default="", metavar="N", help="number of the lab, 03")
    add("--seed", default="0", help="of the randomised tests (default: 0)")
    add("--overlay", type=Path, metavar="FOLDER", help="hidden tests to take along")
    add("--out", type=Path, metavar="FILE", help="default: gradescope-lab-NN.zip")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the zip and say what to do with it; return 0."""
    labs = find_labs(root)
    lab = pick_lab(labs, args.lab)
    files = make_autograder(lab, labs, root, args.seed, args.overlay)
    out = args.out or root / f"gradescope-{lab.label}.zip"
    write_zip(out, files, programs=("setup.sh", "run_autograder"))
    print(f"Wrote {os.path.relpath(out)}: {len(files)} files, {out.stat().st_size} bytes.")
    print(f"At Gradescope: a programming assignment, {lab.label}, 100 points; upload the zip under")
    print("Configure Autograder. Students upload starter.py, or the zip of make bundle.")
    return 0
