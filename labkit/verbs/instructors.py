"""The verbs for instructors."""

import argparse
from pathlib import Path

from labkit.course.lab import find_labs, pick_lab
from labkit.errors import UsageError
from labkit.student.pick import add_lab
from labkit.verbs import Table, here, option
from labkit.verbs.students import run_pytest


def _bug(args: argparse.Namespace, root: Path) -> int:
    lab = pick_lab(find_labs(root), args.lab)
    if args.bug:
        return run_pytest(lab, root, f"bug:{args.bug}")
    if not lab.bugs:
        raise UsageError(f"{lab.label} has no known bugs here")
    for bug in lab.bugs:
        print(f"{bug.name:<22} {bug.title}")
    print(f"\nmake bug N={lab.number} B={lab.bugs[0].name}   runs the lab's tests on one")
    return 0


_BUG = option("--bug", default="", metavar="NAME", help="name of a bug")

TABLE = Table("For instructors", "grade submissions.zip --lab 03 --csv grades.csv", {
    "bug": ("list a lab's known bugs, or run its tests on one", here(_bug, add_lab, _BUG)),
    "grade": ("grade submissions in a sandbox: one file or a whole cohort",
              "labkit.grading.command"),
    "term": ("write the marks of several labs side by side, from their ledgers",
             "labkit.grading.term.command"),
    "student-edition": ("write the course without solutions, to hand out",
                        "labkit.publish.student_edition"),
    "site": ("write the course as a static site, with a bench on each lab's page; or serve it",
             "labkit.publish.site.command"),
    "gradescope": ("write the autograder zip of a lab for Gradescope",
                   "labkit.publish.gradescope"),
    "classroom50": ("write the autograder of a lab for Classroom 50",
                    "labkit.publish.classroom50"),
})  # fmt: skip
