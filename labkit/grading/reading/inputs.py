"""From the paths that an instructor names to submissions, whatever the content of the paths.

A path is a `starter.py`, a lab's folder, one student's folder or zip (a bundle, a checkout, or just
the file), or a folder or zip with such entries of each student. The name of the entry is the name
of the student; the name in a bundle is only a claim, and is not used. Nothing is unpacked to disk.

Several entries are one student's if a platform's number in them is the same, or if their names are
the same without suffixes and without the ` (1)` of a second download: `kim.py`, `kim (1).py` and
`kim/`; they may be in different paths. Which of them is graded is up to
`labkit.grading.reading.choice`. Gradescope's and Classroom 50's lists of students are read by
`labkit.grading.reading.submitters`.

One path is for one lab: the lab in `Course.lab`, else the lab in the path's own name, else the lab
on which all of its content agrees. So a student cannot move a submission to another lab.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.grading.reading.choice import (
    NOTEBOOK,
    STARTER,
    SUFFIXES,
    TEXT_SUFFIX,
    chosen,
    listed,
)
from labkit.grading.reading.contents import with_remark
from labkit.grading.reading.entry_name import read_entry_name
from labkit.grading.reading.one_student import (
    MANIFEST,
    Course,
    faulty,
    is_submission,
    of_file,
    of_tree,
)
from labkit.grading.reading.submission import Remark, Submission, one_line
from labkit.grading.reading.submitters import GRADESCOPE, MOST_LIST_BYTES, submitters_of
from labkit.grading.reading.tree import Refused, Tree, file_tree, is_junk, read_file, read_folder
from labkit.grading.reading.zips import read_zip

MOST_COHORT_BYTES = 2 << 30
# A browser's mark of a second download, and a system's of a second copy.
_COPY = re.compile(r" ?\([0-9]{1,3}\)$")
# A student: the platform, and the number there or the name.
_Key = tuple[str, str]


def collect(paths: Iterable[Path], course: Course) -> list[Submission]:
    """Return all submissions that paths lead to, sorted by lab and student.

    Raises:
        UsageError: a path does not exist or holds nothing to grade, or the lab of a submission is
            unclear.
    """
    submissions: list[Submission] = []
    sources: list[Path] = []
    size = 0
    for path in paths:
        before = len(submissions)
        for submission in _of_one_lab(path, _at(path, course)):
            submissions.append(submission)
            size += sum(map(len, submission.sources.values()))
            if size > MOST_COHORT_BYTES:
                raise UsageError(f"{path}: too many submissions for one run; grade it in parts")
        if len(submissions) == before:
            raise UsageError(f"there is nothing to grade in {path}")
        sources += [path] * (len(submissions) - before)
    labs = {submission.lab for submission in submissions} - {""}
    submissions = [_with_lab(submission, labs) for submission in submissions]
    submissions = [
        with_remark(submission, course.labs)
        for submission in _one_each(submissions, sources, course)
    ]
    return sorted(submissions, key=lambda submission: (submission.lab, submission.student))


def _one_each(
    submissions: Sequence[Submission], sources: Sequence[Path], course: Course
) -> list[Submission]:
    """Return one submission for each student and lab, whether or not several paths have some.

    Args:
        submissions: the submissions.
        sources: the path of each submission.
        course: the course.
    """
    names = Counter(path.name for path in {*sources})
    options: dict[tuple[str, _Key], dict[str, Submission]] = {}
    for submission, path in zip(submissions, sources, strict=True):
        parts = read_entry_name(submission.student)
        key = (parts.platform, parts.id) if parts.platform else ("", submission.student)
        place = path.name if names[path.name] == 1 else path
        own = options.setdefault((submission.lab, key), {})
        own[f"{submission.student} in {place}"] = submission
    by_name = {lab.name: lab for lab in course.labs}
    return [chosen(own, by_name[lab]) for (lab, _), own in options.items()]


def _of_one_lab(path: Path, submissions: Iterable[Submission]) -> Iterator[Submission]:
    """Yield the submissions of one path; no text of a student moves them to another lab."""
    first: Submission | None = None
    for submission in submissions:
        first = first or (submission if submission.lab else None)
        if first is not None and submission.lab not in ("", first.lab):
            raise UsageError(
                f"{path}: the files of {first.student!r} are for {first.lab}, and those of "
                f"{submission.student!r} for {submission.lab}: name the lab that you grade, for "
                "example --lab 03"
            )
        yield submission


def _with_lab(submission: Submission, others: set[str]) -> Submission:
    """Return a submission with a lab; if nothing could be read, it gets the lab of all others."""
    if submission.lab:
        return submission
    if submission.fault is not None and len(others) == 1:
        return replace(submission, lab=min(others))
    why = "" if submission.fault is None else f" ({submission.fault})"
    raise UsageError(
        f"the lab of {submission.student!r} is unknown{why}: name the lab, for example --lab 03"
    )


def _at(argument: Path, course: Course) -> Iterator[Submission]:
    """Yield the submissions at a path of the command line; a link there is followed."""
    path = Path(os.path.abspath(argument))
    if not path.exists():
        raise UsageError(f"there is no {argument}")
    hint = course.lab_of(path.name, path.parent.name)
    labs = {lab.name for lab in course.labs}
    real = path.resolve()
    if real.is_dir():
        if _is_submission_folder(real, course):
            student = STARTER.removesuffix(".py") if path.name in labs else path.name
            yield _of_folder(student, real, course, hint)
        else:
            yield from _in_folder(real, course, hint)
    elif path.suffix.lower() == ".zip" and real.is_file():
        yield from _in_zip_file(path, real, course, hint)
    else:
        is_named = path.name != STARTER or path.parent.name in labs
        student = path.stem if is_named else path.parent.name
        yield of_file(student, path.name, file_tree(real, path.name), course, hint)


def _is_submission_folder(folder: Path, course: Course) -> bool:
    """Return whether a folder is one submission, as `is_submission` does, but list only a part."""
    own = [folder / STARTER, folder / MANIFEST]
    for lab in course.labs:
        for place in ("", "labs/", "phase-*/labs/"):
            own += folder.glob(f"{place}{lab.name}/{STARTER}")
    return any(map(os.path.lexists, own))


def _in_folder(folder: Path, course: Course, hint: Lab | None) -> Iterator[Submission]:
    entries = [entry for entry in os.scandir(folder) if not is_junk(entry.name)]
    kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}

    def read(student: str, name: str, lab: Lab | None) -> Submission:
        if kinds[name]:
            return _of_folder(student, folder / name, course, lab)
        return of_file(student, name, file_tree(folder / name, name), course, lab)

    def read_list(name: str) -> bytes:
        return read_file(folder / name, name, MOST_LIST_BYTES)

    yield from _by_student(kinds, read, read_list, course, hint)


def _of_folder(student: str, folder: Path, course: Course, hint: Lab | None) -> Submission:
    try:
        return of_tree(student, read_folder(folder), course, hint)
    except Refused as error:
        return faulty(student, hint, str(error))


def _in_zip_file(path: Path, real: Path, course: Course, hint: Lab | None) -> Iterator[Submission]:
    try:
        with real.open("rb") as file:
            yield from _in_zip(path.stem, read_zip(file), course, hint)
    except (Refused, PermissionError) as error:
        yield faulty(path.stem, hint, f"{path.name} cannot be read: {error}")


def _in_zip(student: str, tree: Tree, course: Course, hint: Lab | None) -> Iterator[Submission]:
    tree = _unwrapped(tree, course)
    if is_submission(tree, course):
        yield of_tree(student, tree, course, hint)
        return
    kinds = {top: top in tree.folders for top in tree.tops()}

    def read(student: str, top: str, lab: Lab | None) -> Submission:
        if kinds[top]:
            return of_tree(student, tree.below(top), course, lab)
        return of_file(student, top, tree, course, lab)

    def read_list(name: str) -> bytes:
        return tree.read(name, MOST_LIST_BYTES)

    yield from _by_student(kinds, read, read_list, course, hint)


def _unwrapped(tree: Tree, course: Course) -> Tree:
    """Return the content of a zip's only folder, unless that folder is itself a submission."""
    tops = tree.tops()
    if is_submission(tree, course) or len(tops) != 1 or tops[0] not in tree.folders:
        return tree
    inner = tree.below(tops[0])
    many = [top for top in inner.tops() if top in inner.folders or top.lower().endswith(SUFFIXES)]
    several = len(many) > 1 or GRADESCOPE in inner
    return inner if several and not is_submission(inner, course) else tree


def _by_student(
    kinds: Mapping[str, bool],
    read: Callable[[str, str, Lab | None], Submission],
    read_list: Callable[[str], bytes],
    course: Course,
    hint: Lab | None,
) -> Iterator[Submission]:
    """Yield the submission of each student whose entries these are.

    Args:
        kinds: entry -> whether it is a folder.
        read: returns the submission in an entry, from the student, the entry and the lab.
        read_list: returns the content of an entry that is a platform's list of students.
        course: the course that the entries are read against.
        hint: the lab that other names point to, or None.
    """
    files = [name for name, is_folder in kinds.items() if not is_folder]
    of_platform, submitters = submitters_of([*kinds], read_list) if files else ("", {})
    kinds = {name: kind for name, kind in kinds.items() if name != of_platform}
    by_submitter: dict[str, dict[str, Submission]] = {}
    for name, submission in _of_entries(kinds, read, course, hint):
        students = submitters.get(name, [])
        together = Remark(one_line(f"Handed in by {listed([*map(_plain, students)])}"))
        for student in students:
            remarks = (*submission.remarks, together) if len(students) > 1 else submission.remarks
            by_submitter.setdefault(student, {})[name] = replace(
                submission, student=one_line(student), remarks=remarks
            )
        if not students:
            yield submission
    for options in by_submitter.values():
        yield chosen(options, hint or _lab_in(options.values(), course))


def _plain(student: str) -> str:
    return read_entry_name(student).name or student


def _of_entries(
    kinds: Mapping[str, bool],
    read: Callable[[str, str, Lab | None], Submission],
    course: Course,
    hint: Lab | None,
) -> Iterator[tuple[str, Submission]]:
    """Yield the first entry of each student, and the submission in all of the student's entries.

    Args:
        kinds, read, course, hint: see `_by_student`.
    """
    for key, names in _entries_of(kinds).items():
        options = {
            name: read(_student(key, name, kinds), name, hint or course.lab_of(name))
            for name in names
        }
        yield names[0], chosen(options, hint or _lab_in(options.values(), course))


def _lab_in(options: Iterable[Submission], course: Course) -> Lab | None:
    names = {option.lab for option in options} - {""}
    return next((lab for lab in course.labs if {lab.name} == names), None)


def _entries_of(kinds: Mapping[str, bool]) -> dict[_Key, list[str]]:
    """Return the entries of each student.

    Args:
        kinds: entry -> whether it is a folder.
    """
    keys: dict[str, _Key] = {}
    for name in kinds:
        parts = read_entry_name(_stem(name, kinds))
        plain = name if kinds[name] else _COPY.sub("", _stem(name, kinds)) or name
        keys[name] = (parts.platform, parts.id) if parts.platform else ("", plain)
    known = {*keys.values()}
    entries: dict[_Key, list[str]] = {}
    for name in sorted(kinds):
        # A file of another kind is a student's own only beside the student's code.
        beside = "", name.rpartition(".")[0]
        key = beside if keys[name] == ("", name) and beside in known else keys[name]
        entries.setdefault(key, []).append(name)
    return entries


def _student(key: _Key, name: str, kinds: Mapping[str, bool]) -> str:
    """Return the student's name; feedback needs the platform's own name of the entry."""
    platform, plain = key
    return _stem(name, kinds) if platform else plain


def _stem(name: str, kinds: Mapping[str, bool]) -> str:
    if kinds[name]:
        return name
    suffixes = (TEXT_SUFFIX, *SUFFIXES, NOTEBOOK)
    suffix = next((end for end in suffixes if name.lower().endswith(end)), "")
    return name[: len(name) - len(suffix)] or name
