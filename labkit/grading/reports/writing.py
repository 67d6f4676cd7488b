"""The reports that an instructor asks for on the command line: where they go, and writing them."""

import argparse
import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from labkit.course.lab import Lab
    from labkit.grading.grade import Grade
    from labkit.grading.reading.submission import Submission

# Enough to need a block of the disk, which an empty file does not.
_TRIED_BYTES = 4096


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options that name reports to the parser of `grade`."""
    add = command.add_argument
    add("--json", type=Path, metavar="FILE", help="write all grades with all tests")
    add("--csv", type=Path, metavar="FILE", help="write a gradebook with nbgrader's columns")
    add("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    add("--html", type=Path, metavar="FILE", help="write one page with everything, for a browser")


def check(args: argparse.Namespace) -> None:
    """Find out before hours of work whether the reports can be written where they should go.

    Raises:
        UsageError: one cannot; the message says what to do.
        InfrastructureError: their disk is full.
    """
    for path in (args.json, args.csv, args.junit, args.html):
        if path is not None:
            _check_file(path)


def write(
    args: argparse.Namespace,
    grades: "Sequence[Grade]",
    submissions: "Sequence[Submission]",
    labs: "Sequence[Lab]",
) -> Iterator[Path]:
    """Write each report that `add_options` describes; yield where, when it is there.

    Raises:
        OSError: it cannot be written.
    """
    from labkit.grading.reports.csv_json_junit import report_csv, report_json, report_junit

    formats = ((args.json, report_json), (args.csv, report_csv), (args.junit, report_junit))
    for path, report in formats:
        if path is not None:
            _write(path, report(grades))
            yield path
    if args.html is not None:
        from labkit.grading.reports.html import write_html

        sources = {one.digest: one.sources.get(one.lab, b"") for one in submissions}
        write_html(grades, sources, args.html, labs)
        yield args.html


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


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, so that nobody reads half of it; write to a device as it is."""
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    descriptor, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(scratch, 0o644)
        os.replace(scratch, target)
    except BaseException:
        os.unlink(scratch)
        raise
