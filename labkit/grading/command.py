"""`python -m labkit grade PATH...`: read submissions, grade them, write the reports.

Exit codes: 0 graded, whatever the scores; 2 a mistake on the command line; 3 grading could not
continue, through no fault of any submission.

The modules of the grader are imported when the verb runs, so that every other verb starts without
them.
"""

import argparse
import os
import signal
import sys
import traceback
from contextlib import nullcontext
from dataclasses import fields
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.course.lab import find_labs, pick_lab
from labkit.errors import InfrastructureError, LabkitError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from labkit.course.lab import Lab
    from labkit.grading.feedback.recordings import Recordings
    from labkit.grading.reports.content import ReportContent
    from labkit.grading.reports.options import ReportOptions

GRADED, INFRASTRUCTURE = 0, 3
_MOST_NAMES = 5
# The points of a lab.
_POINTS = 100
_LAB_HELP = (
    "the lab, 03; overrides the names of files and the bundles; needed unless the path names the "
    "lab, or all of its content agrees on a lab"
)
_CSV_HELP = "write a gradebook: nbgrader's columns, then the points by task and by test"
_PROJECTOR_HELP = (
    "write a page to show in class: charts, the hardest tests, the common mistakes with a hint; "
    "without names, hidden tests and the seed"
)
_PAIRS_HELP = "write the pairs of similar submissions as CSV, or as JSON to a FILE.json"
_SHOW_HELP = (
    "for --feedback: record the first failure of each student again behind the walls; the page "
    "steps through it, without a network (up to 600 kB more)"
)
_EARLIER_HELP = "for --html and --pairs: compare with these as well"
_REGRADE_HELP = (
    "grade submissions again if their grade in the ledger is doubtful: their process was killed, "
    "perhaps by the machine"
)
_TIMES_HELP = (
    "times of submission: student,submitted_at; Moodle's grading worksheet as the roster has them; "
    "the ledger keeps them"
)
_LATE_HELP = (
    "late rule: '10%% per day, at most 50%%, 15 min grace'; the ledger keeps it until another is "
    "named"
)
_EXTENSIONS_HELP = (
    "extensions and excuses of the term: student,lab,extension,reason; an extension is '48 hours', "
    "'2 days', a time, or 'excused'; the ledger keeps them"
)
_LATE_DAYS_HELP = (
    "late days of each student over the term, used before anything is taken off; the ledger keeps "
    "them"
)
_TERM_HELP = "for --late-days: ledgers of the term's other labs, in which late days were used"
_SEED_HELP = (
    "seed of the randomised tests; the default is a secret seed, made at the first grading and "
    "kept in .labkit/grading-seed"
)


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the paths and options of the verb to its parser."""
    add = command.add_argument
    add(
        "paths",
        nargs="*",
        type=Path,
        metavar="PATH",
        help="a starter.py, a lab's folder, a bundle, or a folder or zip of submissions",
    )
    add("--lab", default="", metavar="N", help=_LAB_HELP)
    add("--seed", default="", metavar="S", help=_SEED_HELP)
    add("--overlay", type=Path, metavar="FOLDER", help="folder of hidden tests")
    _add_report_options(command)
    add("--quiet", action="store_true", help="print no report")
    how = command.add_mutually_exclusive_group()
    how.add_argument(
        "--container",
        action="store_true",
        help="this machine is a disposable container: use another user, limits and a pipe",
    )
    how.add_argument("--trust", action="store_true", help="use no walls: for your own code only")
    add("--jobs", type=int, default=_cpus(), metavar="J", help="submissions at once; default: CPUs")
    add("--ledger", type=Path, metavar="FILE", help="keep grades; continue a run that stopped")
    add("--regrade-doubtful", action="store_true", help=_REGRADE_HELP)
    add("--cluster", metavar="ADDRESS", help="address of a Dask scheduler; its workers grade")


def _add_report_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument_group("reports").add_argument
    add("--json", type=Path, metavar="FILE", help="write all grades with all tests")
    add("--csv", type=Path, metavar="FILE", help=_CSV_HELP)
    add("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    add("--html", type=Path, metavar="FILE", help="write a page with all results, for a browser")
    add("--projector", type=Path, metavar="FILE", help=_PROJECTOR_HELP)
    add("--pairs", type=Path, metavar="FILE", help=_PAIRS_HELP)
    add("--earlier", type=Path, metavar="PATH", help=_EARLIER_HELP)
    add(
        "--feedback",
        type=Path,
        metavar="PLACE",
        help="write a page and a text for each student, to a folder or to a .zip",
    )
    add("--show", action="store_true", help=_SHOW_HELP)
    add("--canvas", type=Path, metavar="FILE", help="write marks in Canvas's columns")
    add("--moodle", type=Path, metavar="FILE", help="write marks in Moodle's columns")
    add("--anonymous", action="store_true", help="name pseudonyms only, the same each time")
    add("--anonymous-key", type=Path, metavar="FILE", help="write a CSV of names and pseudonyms")
    add(
        "--diff",
        nargs=2,
        type=Path,
        metavar=("OLD.json", "NEW.json"),
        help="grade nothing; show the changes by a regrade",
    )
    add = command.add_argument_group("marks").add_argument
    add("--roster", type=Path, metavar="CSV", help="students: Canvas's or Moodle's export")
    add("--times", type=Path, metavar="CSV", help=_TIMES_HELP)
    add("--due", metavar="TIME", help="the due time, as 2026-11-22T23:59; the ledger keeps it")
    add("--late", metavar="RULE", help=_LATE_HELP)
    add("--points", type=Path, metavar="CSV", help="points given by hand: student,points,reason")
    add("--extensions", type=Path, metavar="CSV", help=_EXTENSIONS_HELP)
    add("--late-days", type=int, metavar="N", help=_LATE_DAYS_HELP)
    add("--term", type=Path, nargs="+", default=(), metavar="LEDGER", help=_TERM_HELP)


def report_options(args: argparse.Namespace) -> "ReportOptions":
    """Return the reports that a command line with the options of `add_options` requests."""
    from labkit.grading.marks.marking import MarkOptions
    from labkit.grading.reports.options import ReportOptions

    def chosen(options: type) -> dict[str, Any]:
        return {field.name: getattr(args, field.name) for field in fields(options)}

    args.marks = MarkOptions(**chosen(MarkOptions))
    return ReportOptions(**chosen(ReportOptions))


def run(args: argparse.Namespace, root: Path) -> int:
    """Grade the submissions of a command line; return the exit code.

    Raises:
        LabkitError: the command line is at fault, which is exit code 2.
    """
    if hasattr(signal, "SIGCHLD"):
        # If the parent process ignores this signal, the kernel reports no exit code of children.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        return _run(args, root)
    except InfrastructureError as error:
        print(f"labkit: {error}", file=sys.stderr)
    except (LabkitError, BrokenPipeError):
        raise
    except (OSError, MemoryError) as error:
        print(f"labkit: grading cannot continue: {str(error) or 'out of memory'}", file=sys.stderr)
    except Exception:
        # A bug in the grader must look neither like a grade nor like a mistake of its user.
        traceback.print_exc()
        print("labkit: grading cannot continue: this is a bug in the grader", file=sys.stderr)
    return INFRASTRUCTURE


def _run(args: argparse.Namespace, root: Path) -> int:
    from labkit.grading.assignment import Assignment
    from labkit.grading.cohort import grade_all
    from labkit.grading.marks.by_student import by_student
    from labkit.grading.overlay import read_overlay
    from labkit.grading.preflight import check_tests
    from labkit.grading.progress_line import ProgressLine
    from labkit.grading.reading.inputs import collect
    from labkit.grading.reading.one_student import Course
    from labkit.grading.report_files import check, write
    from labkit.grading.reports.content import ReportInputs
    from labkit.grading.seed import grading_seed
    from labkit.isolation.mode import choose_mode

    if args.diff is not None:
        return _show_diff(args)
    if not args.paths:
        raise UsageError("name the submissions: a file, a folder or a zip; see --help")
    if args.jobs < 1:
        raise UsageError(f"--jobs {args.jobs}: at least 1 is needed")
    if args.regrade_doubtful and args.ledger is None:
        raise UsageError("--regrade-doubtful needs --ledger FILE, which has the grades")
    options = report_options(args)
    check(options, args.paths)
    labs = find_labs(root)
    target = pick_lab(labs, args.lab) if args.lab else None
    unseen = [root, args.ledger, args.overlay, *args.paths]
    mode = choose_mode(trust=args.trust, container=args.container, unseen=unseen)
    submissions = by_student(collect(args.paths, Course(labs, target)), args.roster, labs)
    inputs = ReportInputs(options, submissions, root)
    for warning in inputs.warnings:
        print(f"labkit: {warning}", file=sys.stderr)
    by_name = {lab.name: lab for lab in labs}
    chosen = [by_name[name] for name in sorted({submission.lab for submission in submissions})]
    overlays = [args.overlay and read_overlay(args.overlay, lab) for lab in chosen]
    if args.overlay is not None and not any(overlays):
        raise UsageError(
            f"--overlay {args.overlay} has no hidden tests of {chosen[0].name}: they belong in "
            f"{args.overlay / chosen[0].name}"
        )
    assignments = {
        lab.name: Assignment.of(
            lab, labs, args.seed or grading_seed(lab, root, args.ledger), overlay
        )
        for lab, overlay in zip(chosen, overlays, strict=True)
    }
    for name, assignment in assignments.items():
        if (points := sum(test.points for test in assignment.tests)) != _POINTS:
            print(
                f"labkit: {name} has {points} points instead of {_POINTS}: give the points of a "
                "test that you dropped to another test",
                file=sys.stderr,
            )
    how = {"mode": mode, "jobs": args.jobs, "ledger": args.ledger, "cluster": args.cluster}
    if len(submissions) > 1 or args.overlay is not None:
        again = {**how, "regrade_doubtful": True}
        check_tests(assignments, partial(grade_all, assignments=assignments, **again))
    several = len(submissions) > 1
    with ProgressLine(len(submissions)) if several else nullcontext() as progress:
        grades = grade_all(
            submissions,
            assignments,
            **how,
            regrade_doubtful=args.regrade_doubtful,
            on_progress=progress,
        )
    recordings: Recordings = {}
    if options.show:
        from labkit.grading.feedback.recordings import record_all

        recordings = record_all(grades, submissions, assignments, mode, args.jobs)
    content = inputs.of(grades)
    changes = inputs.changes(grades)
    # The reports are written first: an error of the terminal costs none of them.
    written: list[Path] = []
    try:
        written.extend(write(options, content, labs, recordings))
    finally:
        _show(args, content, by_name, written)
    for line in changes:
        print(f"labkit: {line}", file=sys.stderr)
    return GRADED


def _show_diff(args: argparse.Namespace) -> int:
    """Print the changes by a regrade; return 0.

    Raises:
        UsageError: a file is not a report, or the command line also names submissions.
    """
    from labkit.grading.reports.diff import diff_text, read_report

    if args.paths:
        raise UsageError(f"--diff grades nothing: leave {args.paths[0]} to another run")
    old, new = map(read_report, args.diff)
    is_terminal, width = _screen()
    print(diff_text(old, new, colour=is_terminal, width=width))
    return GRADED


def _show(
    args: argparse.Namespace,
    content: "ReportContent",
    labs: "Mapping[str, Lab]",
    written: "Sequence[Path]",
) -> None:
    from labkit.grading.reports.summary import summary_text
    from labkit.grading.reports.terminal import report_text

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    # None if the parent process has closed it.
    if not args.quiet and sys.stdout is not None:
        is_terminal, width = _screen()
        marks = content.shown_marks
        print(report_text(content.grades, labs, colour=is_terminal, width=width, marks=marks))
        for path in written:
            print(f"wrote {path}")
        if len(content.grades) > 1:
            print(f"\n{summary_text(content, labs)}")
    doubtful = [grade.student for grade in content.grades if grade.doubt]
    if doubtful:
        more = ", …" if len(doubtful) > _MOST_NAMES else ""
        print(
            f"labkit: {len(doubtful)} doubtful, because processes were killed: "
            f"{', '.join(doubtful[:_MOST_NAMES])}{more}. Make sure that the machine has enough "
            "memory, then run the same command "
            f"{'with --regrade-doubtful' if args.ledger else 'again'}",
            file=sys.stderr,
        )


def _screen() -> tuple[bool, int]:
    """Return whether the output goes to a terminal, and the number of columns."""
    is_terminal = sys.stdout.isatty()
    return is_terminal, os.get_terminal_size().columns if is_terminal else 100


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
