"""What grades a checkout for Classroom 50: it writes `result.json` and `release-body.md` there.

But: it has neither references nor hidden tests, since whatever it has can be fetched by students.
So a lab is graded on the student's own parts.
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

from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.errors import LabkitError
from labkit.grading.assignment import Assignment
from labkit.grading.grade import Grade
from labkit.grading.grader import grade
from labkit.isolation.sandbox import Sandbox, WorkerRoot
from labkit.publish.platforms import (
    best_mode,
    markdown,
    read_checkout,
    with_own_parts,
    write_json,
    write_text,
)

SCHEMA = "classroom50/result/v1"
_STAMP = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)[T-]?(\d\d)[:-]?(\d\d)[:-]?(\d\d)")
_UNKNOWN = "unknown"


def result(grade: Grade, facts: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Return a grade as Classroom 50 wants it; `classroom50.schema.json` describes it.

    Args:
        grade: what was earned.
        facts: the environment that the runner gives.
        now: when the submission was made, if its tag does not tell.
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", required=True)
    parser.add_argument("--checkout", type=Path, required=True)
    args = parser.parse_args(argv)
    try:
        lab = pick_lab(find_labs(root), args.lab)
        mode = best_mode()
        submission = with_own_parts(read_checkout(args.checkout, lab), lab)
        with WorkerRoot() as worker_root:
            told = grade(submission, Assignment(lab, {}), Sandbox(mode, worker_root), 0)
        write_json(args.checkout / "result.json", result(told, os.environ, datetime.now(UTC)))
        write_text(args.checkout / "release-body.md", markdown(told, lab))
    except (LabkitError, OSError) as error:
        print(f"The grader cannot work here: {error}", file=sys.stderr)
        return 3
    print(f"{lab.name}: {told.score} of {told.max_score} points, {mode} mode")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
