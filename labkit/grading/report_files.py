"""The files of reports: checking before the grading that they can be written, and writing them.

A mistake that appeared only after the grading would cost hours of work.
"""

import errno
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from labkit.course.lab import Lab
from labkit.errors import InfrastructureError, UsageError
from labkit.grading.feedback.files import check_place
from labkit.grading.marks.csv_files import inert
from labkit.grading.reports.content import ReportContent
from labkit.grading.reports.gradebooks import canvas_csv, moodle_csv, nbgrader_csv
from labkit.grading.reports.json_junit import report_json, report_junit
from labkit.grading.reports.options import ReportOptions
from labkit.grading.reports.pairs import pairs_csv, pairs_json, similar_groups

if TYPE_CHECKING:
    from labkit.grading.feedback.recordings import Recordings

# Enough to need a block of the disk; an empty file needs none.
_TRIED_BYTES = 4096


def check(options: ReportOptions, paths: Sequence[Path]) -> None:
    """Check that the options fit together, and that each report can be written to its place.

    Args:
        options: the reports and their places.
        paths: the paths to grade; no report may overwrite them.

    Raises:
        UsageError: an option does not fit the others, or a report cannot be written to its place;
            the message says what to do.
        InfrastructureError: the disk of a report is full.
    """
    _check_together(options)
    for path in options.files.values():
        check_file(path)
    if options.feedback is not None:
        check_place(options.feedback)
        _try_to_write(options.feedback.resolve().parent, f"write {options.feedback.name} to it")
    _check_apart(options, paths)


def _check_together(options: ReportOptions) -> None:
    with_names = {
        "feedback": options.feedback,
        "canvas": options.canvas,
        "moodle": options.moodle,
        "earlier": options.earlier,
    }
    for option, path in with_names.items():
        if options.anonymous and path is not None:
            raise UsageError(f"--{option} is for named students: leave --anonymous to another run")
    if options.show and options.feedback is None:
        raise UsageError("--show needs --feedback PLACE, which has the pages that it adds to")
    if options.anonymous_key is not None and not options.anonymous:
        raise UsageError("--anonymous-key needs --anonymous")
    if options.earlier is not None and options.html is None and options.pairs is None:
        raise UsageError("--earlier needs --html FILE or --pairs FILE, which have the pairs")


def _check_apart(options: ReportOptions, paths: Sequence[Path]) -> None:
    """Check that no report overwrites another report, or a file that is read."""
    taken = {path.resolve(): str(path) for path in paths}
    for option, path in options.marks.files.items():
        taken.setdefault(path.resolve(), f"--{option} {path}")
    for path in options.marks.term:
        taken.setdefault(path.resolve(), f"--term {path}")
    written = (
        options.files
        if options.feedback is None
        else {**options.files, "feedback": options.feedback}
    )
    for option, path in written.items():
        if _is_device(path):
            continue
        place = path.resolve()
        if place in taken:
            raise UsageError(f"--{option} {path} would overwrite {taken[place]}: name another file")
        taken[place] = f"--{option} {path}"


def write(
    options: ReportOptions,
    content: ReportContent,
    labs: Sequence[Lab],
    recordings: "Recordings" = MappingProxyType({}),
) -> Iterator[Path]:
    """Write each requested report; yield its path when it is written.

    Args:
        options: the reports and their places.
        content: the content of the reports.
        labs: at least the labs of the grades.
        recordings: the recordings for feedback.

    Raises:
        OSError: a report cannot be written.
    """
    grades = content.grades
    if options.json is not None:
        write_file(options.json, report_json(grades, content.listed_marks))
        yield options.json
    if options.csv is not None:
        of_grades = (content.marks[grade.student, grade.lab] for grade in grades)
        write_file(options.csv, nbgrader_csv([*of_grades, *content.others], grades))
        yield options.csv
    if options.junit is not None:
        write_file(options.junit, report_junit(grades))
        yield options.junit
    yield from _write_on_the_class(options, content, labs)
    yield from _write_for_platforms(options, content, labs, recordings)


def _write_on_the_class(
    options: ReportOptions, content: ReportContent, labs: Sequence[Lab]
) -> Iterator[Path]:
    """Write the pages about the class, and the pairs of similar submissions."""
    # Templates, here and for feedback, take long to import.
    if options.html is not None or options.pairs is not None:
        similar = similar_groups(content.grades, content.sources, labs, content.earlier)
    if options.html is not None:
        from labkit.grading.reports.html import write_html

        write_html(similar, options.html, labs, content.shown_marks, content.before)
        yield options.html
    if options.projector is not None:
        from labkit.grading.reports.projector import write_projector

        write_projector(content.grades, options.projector, labs, content.before)
        yield options.projector
    if options.pairs is not None:
        is_json = options.pairs.suffix.lower() == ".json"
        write_file(options.pairs, (pairs_json if is_json else pairs_csv)(similar))
        yield options.pairs


def _write_for_platforms(
    options: ReportOptions,
    content: ReportContent,
    labs: Sequence[Lab],
    recordings: "Recordings",
) -> Iterator[Path]:
    """Write the feedback for students, the gradebooks, and the key of the pseudonyms."""
    by_name = {lab.name: lab for lab in labs}
    for path, gradebook in ((options.canvas, canvas_csv), (options.moodle, moodle_csv)):
        if path is not None:
            ((marking, marks),) = content.by_student
            write_file(path, gradebook(marking, marks, by_name[marking.lab]))
            yield path
    if options.feedback is not None:
        from labkit.grading.feedback.write import write_feedback

        write_feedback(options.feedback, content, by_name, recordings)
        yield options.feedback
    if options.anonymous_key is not None:
        rows = [f"{name},{_quoted(who)}\n" for name, who in content.key.items()]
        write_file(options.anonymous_key, "pseudonym,student\n" + "".join(rows), mode=0o600)
        yield options.anonymous_key


def _quoted(text: str) -> str:
    return '"' + inert(text).replace('"', '""') + '"'


def write_file(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step, so that no reader sees half of it; write to a device directly."""
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


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def check_file(path: Path) -> None:
    """Check that a report can be written to a place.

    Raises:
        UsageError: it cannot be written; the message says what to do.
        InfrastructureError: the disk is full.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} to write {path.name} to; make it first")
    if path.is_file() or not path.exists():
        _try_to_write(path.resolve().parent, f"write {path.name} to it")


def _try_to_write(folder: Path, purpose: str) -> None:
    """Write a scratch file to a folder and remove it, the only sure test that writing works.

    Raises:
        UsageError: the folder cannot be written to; the message gives the reason and the purpose.
        InfrastructureError: the disk is full.
    """
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".labkit-") as file:
            file.write(bytes(_TRIED_BYTES))
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (InfrastructureError if full else UsageError)(
            f"nothing can be written to {folder} ({error.strerror}): "
            f"{'make room' if full else 'name another folder'} to {purpose}"
        ) from None
