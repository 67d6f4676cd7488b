"""What the workflow of a student's own repository runs on each push: every lab that was begun.

It writes a page and a JSON report per lab. The workflow is `templates/grade.yml`.

This is feedback, not a record: whoever owns a repository can change its tests and its workflow. So
it has no hidden tests, and scores that count come from the instructor's `python -m labkit grade`.
"""

import argparse
import sys
from pathlib import Path

from labkit.course.lab import ROOT, Lab, find_labs
from labkit.errors import LabkitError
from labkit.grading import grader
from labkit.grading.assignment import Assignment
from labkit.grading.slot import Slot
from labkit.publish.platforms import (
    best_mode,
    markdown,
    read_checkout,
    with_own_parts,
    write_json,
    write_text,
)

WORKFLOW = Path(__file__).parent / "templates/grade.yml"


def main(argv: list[str], root: Path = ROOT) -> int:
    """Grade the repository; return 0, or 3 if the grader could not do its work."""
    parser = argparse.ArgumentParser(description="Grade every lab that you have begun.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the reports")
    args = parser.parse_args(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        begun = [lab for lab in find_labs(root) if _is_begun(lab)]
        mode = best_mode()
        pages = []
        with Slot(mode) as slot:
            for lab in begun:
                submission = with_own_parts(read_checkout(root, lab), lab)
                grade = grader.grade(submission, Assignment(lab, {}), slot.sandbox)
                write_json(args.out / f"{lab.label}.json", grade.to_json())
                pages.append(markdown(grade, lab))
                print(f"{lab.name}: {grade.score} of {grade.max_score} points, {mode} mode")
        if not begun:
            pages = ["No lab was begun yet: every starter.py is as it was handed out.\n"]
            print(pages[0], end="")
        write_text(args.out / "summary.md", "\n".join(pages))
    except (LabkitError, OSError) as error:
        print(f"The grader cannot work here: {error}", file=sys.stderr)
        return 3
    return 0


def _is_begun(lab: Lab) -> bool:
    if not lab.starter.is_file() or not lab.pristine_starter.is_file():
        return True
    return lab.starter.read_bytes() != lab.pristine_starter.read_bytes()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
