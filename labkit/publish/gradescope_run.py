"""What runs for each submission in Gradescope's container: it grades, and writes `results.json`.

The container is the outer wall, `container` mode the inner one. Students read `output`; what is
printed is for instructors.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from labkit.course.lab import ROOT, Lab, find_labs, pick_lab
from labkit.errors import LabkitError
from labkit.grading.assignment import Assignment
from labkit.grading.grade import SCHEMA, Grade
from labkit.grading.grader import grade
from labkit.grading.overlay import read_overlay
from labkit.isolation.sandbox import Sandbox, WorkerRoot, choose_mode
from labkit.publish.platforms import account, read_upload, summary, write_json


def results(grade: Grade, lab: Lab) -> dict[str, Any]:
    """Return a grade as Gradescope wants it; `gradescope.schema.json` describes it."""
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
            "seed": grade.seed,
            "submission": grade.submission,
            "assignment": grade.assignment,
        },
    }


def main(argv: list[str], root: Path = ROOT) -> int:
    """Grade; return 0, or 3 if the grader could not do its work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--overlay", type=Path)
    parser.add_argument("--submission", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    args = parser.parse_args(argv)
    try:
        labs = find_labs(root)
        lab = pick_lab(labs, args.lab)
        overlay = None if args.overlay is None else read_overlay(args.overlay, lab)
        assignment = Assignment.of(lab, labs, args.seed, overlay)
        mode = choose_mode(trust=False, container=True)
    except LabkitError as error:
        print(f"The grader cannot work here: {error}", file=sys.stderr)
        return 3
    submission = read_upload(args.submission, lab, labs)
    with WorkerRoot() as worker_root:
        told = grade(submission, assignment, Sandbox(mode, worker_root), 0)
    write_json(args.results, results(told, lab))
    print(f"{lab.name}: {told.score} of {told.max_score} points, {mode} mode")
    print(f"submission {told.submission}\nassignment {told.assignment}")
    print(f"fault: {told.fault}")
    for row in told.tests:
        print(f"{row.score:>3}/{row.max_score:<3} {row.kind:<10} {row.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
