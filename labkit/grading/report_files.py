"""The reports that an instructor asks for on the command line: where they go, and writing them."""

import argparse
import errno
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from labkit.course.lab import Lab
    from labkit.grading.reports.telling import ReportContent

_REPORTS = ("json", "csv", "junit", "html", "canvas", "moodle", "anonymous-key")
_READ = ("ledger", "roster", "times", "points")
# Enough to need a block of the disk, which an empty file does not.
_TRIED_BYTES = 4096


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options that name reports, and what they tell, to the parser of `grade`."""
    add = command.add_argument_group("reports").add_argument
    add("--json", type=Path, metavar="FILE", help="write all grades with all tests")
    add("--csv", type=Path, metavar="FILE", help="write a gradebook with nbgrader's columns")
    add("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    add("--html", type=Path, metavar="FILE", help="write one page with everything, for a browser")
    add("--earlier", type=Path, metavar="PATH", help="for --html: compare with these, too")
    add(
        "--feedback",
        type=Path,
        metavar="PLACE",
        help="write a page and a text for each student, to a folder or to a .zip",
    )
    add("--canvas", type=Path, metavar="FILE", help="write marks in Canvas's columns")
    add("--moodle", type=Path, metavar="FILE", help="write marks in Moodle's columns")
    add("--anonymous", action="store_true", help="name nobody: pseudonyms, the same each time")
    add("--anonymous-key", type=Path, metavar="FILE", help="write a CSV of who is who")
    add(
        "--diff",
        nargs=2,
        type=Path,
        metavar=("OLD.json", "NEW.json"),
        help="grade nothing; show what a regrade changed",
    )
    add = command.add_argument_group("marks").add_argument
    add("--roster", type=Path, metavar="CSV", help="students: Canvas's or Moodle's export")
    add("--times", type=Path, metavar="CSV", help="when work came: student,submitted_at")
    add("--due", metavar="TIME", help="when it was due, as 2026-11-22T23:59")
    add("--late", metavar="RULE", help="for late work: '10%% per day, at most 50%%, 15 min grace'")
    add("--points", type=Path, metavar="CSV", help="points by hand: student,points,reason")


def check(args: argparse.Namespace) -> None:
    """Find out before hours of work whether the reports can be written where they should go.

    Raises:
        UsageError: one cannot, or options do not go together; the message says what to do.
        InfrastructureError: their disk is full.
    """
    named = [
        name
        for name in ("feedback", "canvas", "moodle", "earlier")
        if getattr(args, name) is not None
    ]
    if args.anonymous and named:
        raise UsageError(f"--{named[0]} is for named students: leave --anonymous to another run")
    if args.anonymous_key is not None and not args.anonymous:
        raise UsageError("--anonymous-key goes with --anonymous")
    if args.earlier is not None and args.html is None:
        raise UsageError("--earlier goes with --html FILE, which has the pairs")
    for option in _REPORTS:
        if (path := _path_of(args, option)) is not None:
            _check_file(path)
    if args.feedback is not None:
        from labkit.grading.feedback.files import check_place

        check_place(args.feedback)
        try_to_write(args.feedback.resolve().parent, f"write {args.feedback.name} to it")
    _check_apart(args)


def _path_of(args: argparse.Namespace, option: str) -> Path | None:
    path: Path | None = getattr(args, option.replace("-", "_"), None)
    return path


def _check_apart(args: argparse.Namespace) -> None:
    """Check that no report overwrites another one, or a file that is read."""
    taken = {path.resolve(): str(path) for path in args.paths}
    for option in (*_READ, *_REPORTS, "feedback"):
        if (path := _path_of(args, option)) is None or _is_device(path):
            continue
        place = path.resolve()
        if place in taken and option not in _READ:
            raise UsageError(f"--{option} {path} would overwrite {taken[place]}: name another file")
        taken.setdefault(place, f"--{option} {path}")


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def show_diff(args: argparse.Namespace) -> int:
    """Print what a regrade changed; return 0.

    Raises:
        UsageError: a file is no report, or there is something to grade as well.
    """
    from labkit.grading.reports.diff import diff_text, read_report

    if args.paths:
        raise UsageError(f"--diff grades nothing: leave {args.paths[0]} to another run")
    old, new = map(read_report, args.diff)
    terminal = sys.stdout.isatty()
    width = os.get_terminal_size().columns if terminal else 100
    print(diff_text(old, new, colour=terminal, width=width))
    return 0


def write(
    args: argparse.Namespace, content: "ReportContent", labs: "Sequence[Lab]"
) -> Iterator[Path]:
    """Write each report that `add_options` describes; yield where, when it is there.

    Raises:
        OSError: it cannot be written.
    """
    from labkit.grading.reports.gradebooks import nbgrader_csv
    from labkit.grading.reports.json_junit import report_json, report_junit

    grades, marks = content.grades, content.shown_marks
    if args.json is not None:
        _write(args.json, report_json(grades, content.listed_marks))
        yield args.json
    if args.csv is not None:
        _write(args.csv, nbgrader_csv(grades, content.marks, content.others))
        yield args.csv
    if args.junit is not None:
        _write(args.junit, report_junit(grades))
        yield args.junit
    if args.html is not None:
        from labkit.grading.reports.html import write_html

        write_html(grades, content.sources, args.html, labs, marks, content.earlier)
        yield args.html
    yield from _write_for_platforms(args, content, labs)


def _write_for_platforms(
    args: argparse.Namespace, content: "ReportContent", labs: "Sequence[Lab]"
) -> Iterator[Path]:
    """Write what goes back to students and gradebooks, and who is who."""
    from labkit.grading.feedback.write import write_feedback
    from labkit.grading.reports.gradebooks import canvas_csv, moodle_csv

    by_name = {lab.name: lab for lab in labs}
    for path, gradebook in ((args.canvas, canvas_csv), (args.moodle, moodle_csv)):
        if path is not None:
            ((marking, marks),) = content.by_student
            _write(path, gradebook(marking, marks, by_name[marking.lab]))
            yield path
    if args.feedback is not None:
        write_feedback(args.feedback, content, by_name)
        yield args.feedback
    if args.anonymous_key is not None:
        rows = [f"{name},{_quoted(who)}\n" for name, who in content.key.items()]
        _write(args.anonymous_key, "pseudonym,student\n" + "".join(rows), mode=0o600)
        yield args.anonymous_key


def _quoted(text: str) -> str:
    from labkit.grading.marks.csv_files import inert

    return '"' + inert(text).replace('"', '""') + '"'


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} to write {path.name} to; make it first")
    if path.is_file() or not path.exists():
        try_to_write(path.resolve().parent, f"write {path.name} to it")


def try_to_write(folder: Path, purpose: str) -> None:
    """Write a scratch file to a folder and remove it: nothing else tells if that can be done.

    Raises:
        UsageError: the folder does not take it; the message says why and for what it was to be.
        InfrastructureError: the disk is full.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".labkit-") as file:
            file.write(bytes(_TRIED_BYTES))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (InfrastructureError if full else UsageError)(
            f"nothing can be written to {folder} ({error.strerror}): "
            f"{'make room' if full else 'take another folder'} to {purpose}"
        ) from None


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file as a whole, so that nobody reads half of it; write to a device as it is."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    descriptor, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(scratch, mode)
        os.replace(scratch, target)
    except BaseException as error:
        os.unlink(scratch)
        if isinstance(error, OSError):
            raise InfrastructureError(f"{path} cannot be written: {error.strerror}") from None
        raise
