"""The autograder for Gradescope: `make gradescope N=03` writes the zip, `main` runs in it.

`setup.sh` and `run_autograder` are at the root of the zip, the files for grading under `course/`.
`run_autograder` grades each submission and writes `results.json`. The container is the outer wall,
`container` mode the inner wall. Students read `output`; printed text is for instructors.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from labkit.course.lab import ROOT, Lab, find_labs, pick_lab
from labkit.errors import LabkitError, UsageError
from labkit.grading import grader
from labkit.grading.assignment import Assignment
from labkit.grading.grade import SCHEMA, Grade
from labkit.grading.overlay import read_overlay
from labkit.grading.preflight import check_tests
from labkit.grading.reading.submission import Submission
from labkit.grading.retry import judged
from labkit.grading.seed import grading_seed
from labkit.grading.slot import Slot
from labkit.isolation.mode import choose_mode
from labkit.publish.grader_files import grader_files, reference_files
from labkit.publish.packing import write_zip
from labkit.publish.platforms import account, read_upload, summary, write_json
from labkit.running.score import PUBLIC_SEED

_TEMPLATES = Path(__file__).parent / "templates"


def make_autograder(
    lab: Lab, labs: list[Lab], root: Path, seed: str, overlay: Path | None = None
) -> dict[str, bytes]:
    """Return the files of the zip.

    Args:
        lab: the lab to grade.
        labs: all labs of the repository.
        root: the repository.
        seed: the seed of the randomised tests; letters and digits.
        overlay: the folder of hidden tests, see `labkit.grading.overlay`.

    Raises:
        UsageError: a file is missing, the seed has other characters, or the overlay has no tests of
            this lab.
    """
    if not seed.isalnum() or not seed.isascii():
        raise UsageError(f"the seed is {seed!r}; use letters and digits only")
    hidden = None if overlay is None else read_overlay(overlay, lab)
    if overlay is not None and hidden is None:
        raise UsageError(f"{overlay} has no hidden tests of {lab.name}")
    tests = [] if hidden is None else [hidden.path]
    course = grader_files("labkit/publish/gradescope.py", lab, labs, root, tests)
    course |= reference_files(lab, labs, root)
    for path in tests:
        course[f"overlay/{lab.name}/{path.name}"] = path.read_bytes()
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
    add("--seed", default="", metavar="S", help="seed of randomised tests; default: make grade's")
    add("--overlay", type=Path, metavar="FOLDER", help="hidden tests to include")
    add("--out", type=Path, metavar="FILE", help="default: gradescope-lab-NN.zip")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the zip and print the next step; return 0."""
    labs = find_labs(root)
    lab = pick_lab(labs, args.lab)
    seed = args.seed or grading_seed(lab, root)
    files = make_autograder(lab, labs, root, seed, args.overlay)
    hidden = None if args.overlay is None else read_overlay(args.overlay, lab)
    assignment = Assignment.of(lab, labs, seed, hidden)
    # Only the course's own code is graded here, so no walls are needed.
    with Slot("trust") as slot:
        check_tests(
            {lab.name: assignment},
            lambda work: (grader.grade(item, assignment, slot.sandbox) for item in work),
        )
    out = args.out or root / f"gradescope-{lab.label}.zip"
    write_zip(out, files, programs=("setup.sh", "run_autograder"))
    print(f"Wrote {os.path.relpath(out)}: {len(files)} files, {out.stat().st_size} bytes.")
    print(f"At Gradescope: a programming assignment, {lab.label}, 100 points; upload the zip under")
    print("Configure Autograder. Students upload starter.py, or the zip of make bundle.")
    return 0


def results(grade: Grade, lab: Lab) -> dict[str, Any]:
    """Return a grade in the form of Gradescope; `gradescope.schema.json` describes it."""
    tests = [
        {
            "name": row.name,
            "number": f"{row.task or 0}.{place}",
            "score": row.score,
            "max_score": row.max_score,
            "status": "passed" if row.passed else "failed",
            "output": account(row),
            "visibility": row.visibility,
        }
        for place, row in enumerate(grade.tests, start=1)
    ]
    return {
        "score": grade.score,
        "output": summary(grade, lab),
        "output_format": "text",
        "test_output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
        "extra_data": {
            "schema": SCHEMA,
            "mode": grade.mode,
            "submission": grade.submission,
            "assignment": grade.assignment,
        },
    }


def grade_one(slot: Slot, submission: Submission, assignment: Assignment) -> Grade:
    """Return the grade of the only submission, after another attempt if its process was killed.

    Raises:
        InfrastructureError: grading cannot continue.
    """
    ((_, grade),) = judged(
        [submission],
        {submission.lab: assignment},
        slot.sandbox.mode,
        lambda work, _: ((place, slot.attempt(item, assignment)) for place, item in work),
    )
    return grade


def main(argv: list[str], root: Path = ROOT) -> int:
    """Grade the uploaded files; return 0, or 3 if the grader could not do its work."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--seed", default=PUBLIC_SEED)
    parser.add_argument("--overlay", type=Path)
    parser.add_argument("--submission", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    args = parser.parse_args(argv)
    try:
        labs = find_labs(root)
        lab = pick_lab(labs, args.lab)
        overlay = None if args.overlay is None else read_overlay(args.overlay, lab)
        assignment = Assignment.of(lab, labs, args.seed, overlay)
        submission = read_upload(args.submission, lab, labs)
        mode = choose_mode(trust=False, container=True)
        with Slot(mode) as slot:
            grade = grade_one(slot, submission, assignment)
    except LabkitError as error:
        print(f"The grader cannot run here: {error}", file=sys.stderr)
        return 3
    write_json(args.results, results(grade, lab))
    print(f"{lab.name}: {grade.score} of {grade.max_score} points, {mode} mode")
    print(f"submission {grade.submission}\nassignment {grade.assignment}")
    print(f"fault: {grade.fault}")
    for row in grade.tests:
        print(f"{row.score:>3}/{row.max_score:<3} {row.kind:<10} {row.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
