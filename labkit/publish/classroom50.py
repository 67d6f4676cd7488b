"""The autograder for Classroom 50: `make classroom50 N=03` writes the zip, `main` runs in it.

The zip contains `autograder.py` and its dependencies. Unpacked into
`CLASSROOM/autograders/ASSIGNMENT/`, it grades each push in the student's own repository, and writes
`result.json` and `release-body.md` there.

Students can download the zip, so it contains neither references nor hidden tests, and a lab is
graded with the student's own parts.
"""

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit.course.lab import ROOT, Lab, find_labs, pick_lab
from labkit.errors import LabkitError
from labkit.grading import grader
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.slot import Slot
from labkit.publish.grader_files import grader_files
from labkit.publish.packing import write_zip
from labkit.publish.platforms import (
    best_mode,
    markdown,
    read_checkout,
    with_own_parts,
    write_json,
    write_text,
)

SCHEMA = "classroom50/result/v1"
_TEMPLATE = Path(__file__).parent / "templates/classroom50_autograder.py"
_STAMP = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T-]?(\d\d)[:-]?(\d\d)[:-]?(\d\d)")
_UNKNOWN = "unknown"


def make_autograder(lab: Lab, labs: list[Lab], root: Path) -> dict[str, bytes]:
    """Return the files of the folder.

    Raises:
        UsageError: a file is missing, as in a student edition.
    """
    course = grader_files("labkit/publish/classroom50.py", lab, labs, root)
    files = {f"course/{name}": data for name, data in course.items()}
    program = _TEMPLATE.read_text(encoding="utf-8").replace("@LAB@", lab.number)
    files["autograder.py"] = program.encode()
    return files


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit classroom50`."""
    command.add_argument("--lab", default="", metavar="N", help="number of the lab, 03")
    command.add_argument("--out", type=Path, metavar="FILE", help="default: classroom50-lab-NN.zip")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the zip and print the next step; return 0."""
    labs = find_labs(root)
    lab = pick_lab(labs, args.lab)
    files = make_autograder(lab, labs, root)
    out = args.out or root / f"classroom50-{lab.label}.zip"
    write_zip(out, files)
    print(f"Wrote {os.path.relpath(out)}: {len(files)} files, {out.stat().st_size} bytes.")
    print("Unpack it into CLASSROOM/autograders/ASSIGNMENT/ of your classroom50 repository.")
    return 0


def result(grade: Grade, facts: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Return a grade in the form of Classroom 50; `classroom50.schema.json` describes it.

    Args:
        grade: the grade.
        facts: the environment that the runner sets.
        now: the time of the submission if its tag has no time.
    """
    commit = facts.get("COMMIT_URL", "")
    return {
        "schema": SCHEMA,
        "classroom": facts.get("CLASSROOM") or _UNKNOWN,
        "assignment": facts.get("ASSIGNMENT") or _UNKNOWN,
        "submission": facts.get("SUBMISSION_TAG") or _UNKNOWN,
        "commit": commit,
        "release": facts.get("RELEASE_URL", ""),
        "review": facts.get("REVIEW_URL") or commit,
        "datetime": _submitted(facts.get("SUBMISSION_TAG", ""), now),
        "score": grade.score,
        "max-score": grade.max_score,
        "tests": [
            {
                "test-name": row.name,
                "passed": row.passed,
                "score": row.score,
                "max-score": row.max_score,
            }
            for row in grade.tests
        ],
    }


def _submitted(tag: str, now: datetime) -> str:
    match = _STAMP.search(tag)
    if match is not None:
        with contextlib.suppress(ValueError):
            now = datetime.strptime("".join(match.groups()), "%Y%m%d%H%M%S")
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def main(argv: list[str], root: Path = ROOT) -> int:
    """Grade a checkout; return 0, or 3 if the grader could not do its work."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--checkout", type=Path, required=True)
    args = parser.parse_args(argv)
    try:
        lab = pick_lab(find_labs(root), args.lab)
        mode = best_mode()
        submission = with_own_parts(read_checkout(args.checkout, lab), lab)
        with Slot(mode) as slot:
            grade = grader.grade(submission, Assignment(lab, {}), slot.sandbox)
        write_json(args.checkout / "result.json", result(grade, os.environ, datetime.now(UTC)))
        write_text(args.checkout / "release-body.md", markdown(grade, lab))
    except (LabkitError, OSError) as error:
        print(f"The grader cannot run here: {error}", file=sys.stderr)
        return 3
    print(f"{lab.name}: {grade.score} of {grade.max_score} points, {mode} mode")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
