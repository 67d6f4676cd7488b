"""One student's submission: a file, or a tree with a bundle or a `starter.py`.

Reading never fails: an unreadable file becomes a submission with a fault, because it also needs a
grade. Sources are not inspected here; only the process behind the pipe runs them.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.grading.reading.choice import (
    NOTEBOOK,
    STARTER,
    TEXT_SUFFIX,
    chosen,
    is_code,
    is_named,
    left_out,
)
from labkit.grading.reading.entry_name import read_entry_name
from labkit.grading.reading.submission import Remark, Submission, one_line
from labkit.grading.reading.tree import MOST_FILES, Refused, Tree
from labkit.grading.reading.zips import read_zip
from labkit.running.reporting.showing import printable
from labkit.running.source import MOST_SOURCE_BYTES
from mini_vllm.text.whole_json import load_json

MANIFEST = "submission.json"
MOST_ZIP_BYTES = 8 << 20
_MOST_MANIFEST_BYTES = 64 << 10
# The most files among which one is chosen.
_MOST_OPTIONS = 50
_SCHEMA = "labkit/submission/v1"


@dataclass(frozen=True)
class Course:
    """The course that submissions are read against.

    Attributes:
        labs: all labs of the course.
        lab: the lab to grade, or None if names and bundles decide.
    """

    labs: Sequence[Lab]
    lab: Lab | None = None

    def lab_of(self, *names: str) -> Lab | None:
        """Return the lab to grade, else the lab in the names, or None.

        Raises:
            UsageError: the names contain different labs.
        """
        if self.lab is not None:
            return self.lab
        labs: dict[str, Lab] = {}
        for name in names:
            digits = re.findall(r"(?<![a-z])lab[-_ ]?([0-9]{1,2})(?![0-9])", name.lower())
            numbers = set(map(int, digits))
            matches = [lab for lab in self.labs if int(lab.number) in numbers]
            if len(matches) == 1:
                labs.setdefault(matches[0].name, matches[0])
        if len(labs) > 1:
            raise UsageError(
                f"{names[0]!r} in {names[1]!r}: names contain {' and '.join(labs)}: name the lab "
                "that you grade, for example --lab 03"
            )
        return next(iter(labs.values()), None)


def is_submission(tree: Tree, course: Course) -> bool:
    """Return whether a tree is the submission of one student, and not of several."""
    if STARTER in tree.tops() or MANIFEST in tree.tops():
        return True
    names = "|".join(re.escape(lab.name) for lab in course.labs)
    own = re.compile(rf"((phase-[^/]+/)?labs/)?({names})/{re.escape(STARTER)}")
    return any(map(own.fullmatch, tree.paths()))


def of_file(student: str, name: str, tree: Tree, course: Course, hint: Lab | None) -> Submission:
    """Return the submission in a file of a tree: a source, or a zip that contains a source.

    Args:
        student: the student's name.
        name: the path of the file.
        tree: the tree that contains the file.
        course: the course that the file is read against.
        hint: the lab that names point to, or None.
    """
    try:
        if name.lower().endswith(".zip"):
            inner = read_zip(io.BytesIO(tree.read(name, MOST_ZIP_BYTES)), MOST_FILES)
            return _of_tree(student, inner, course, hint, may_open=False)
        if name.lower().endswith(NOTEBOOK):
            raise Refused(_notebook(name))
        if not is_code(name) and name in tree.files:
            raise Refused(f"{name} is neither a .py file nor a zip nor a folder")
        return _of_source(student, hint, name, tree)
    except Refused as error:
        return faulty(student, hint, str(error))


def of_tree(student: str, tree: Tree, course: Course, hint: Lab | None) -> Submission:
    """Return the submission in a folder or zip of one student; see `of_file`."""
    try:
        return _of_tree(student, tree, course, hint, may_open=True)
    except Refused as error:
        return faulty(student, hint, str(error))


def faulty(student: str, lab: Lab | None, why: str) -> Submission:
    """Return a submission that could not be read."""
    return Submission(one_line(student), "" if lab is None else lab.name, {}, printable(why))


def _of_source(student: str, lab: Lab | None, path: str, tree: Tree) -> Submission:
    # Without a lab, the caller must determine the lab.
    name = "" if lab is None else lab.name
    sources = {name: tree.read(path, MOST_SOURCE_BYTES)}
    if lab is not None:
        sources |= _parts(tree, path, lab)
    remarks: tuple[Remark, ...] = ()
    if path.lower().endswith(TEXT_SUFFIX):
        own = read_entry_name(path).file or path
        remarks = (Remark(f"{own} was graded; hand it in as {STARTER}, without .txt"),)
    return Submission(one_line(student), name, sources, remarks=remarks, place=path)


def _of_tree(
    student: str, tree: Tree, course: Course, hint: Lab | None, *, may_open: bool
) -> Submission:
    while (
        not is_submission(tree, course) and len(tree.tops()) == 1 and tree.tops()[0] in tree.folders
    ):
        tree = tree.below(tree.tops()[0])
    if MANIFEST in tree:
        return _of_bundle(student, tree, course)
    paths, lab = _places(tree, course, hint)
    options = {path: _at(student, path, tree, course, lab, may_open=may_open) for path in paths}
    submission = chosen(options, lab)
    left = _left_out(tree, submission.place, lab)
    if len(options) == 1 and left and submission.place in tree.files:
        submission = replace(
            submission, remarks=(*submission.remarks, left_out(submission.place, left))
        )
    return submission


def _at(
    student: str, path: str, tree: Tree, course: Course, lab: Lab | None, *, may_open: bool
) -> Submission:
    """Return the submission in one file of a tree."""
    if path.lower().endswith(".zip") and not may_open:
        return faulty(student, lab, f"{path} is a zip in a zip; hand in one zip")
    return of_file(student, path, tree, course, lab)


def _left_out(tree: Tree, place: str, lab: Lab | None) -> list[str]:
    """Return the files beside a source at the top of a tree that are not the course's own."""
    if "/" in place:
        return []
    own = set() if lab is None else {path.name for path in lab.path.iterdir()}
    return [path for path in tree.paths() if path != place and "/" not in path and path not in own]


def _parts(tree: Tree, path: str, lab: Lab) -> dict[str, bytes]:
    """Return a lab's parts in a checkout, which has all labs at their places in the course."""
    place, end = f"/{path}", f"/labs/{lab.name}/{STARTER}"
    if not place.endswith(end):
        return {}
    labs = path.removesuffix(f"{lab.name}/{STARTER}")
    places = {name: f"{labs}{name}/{STARTER}" for name in lab.parts.values()}
    return {name: tree.read(at, MOST_SOURCE_BYTES) for name, at in places.items() if at in tree}


def _places(tree: Tree, course: Course, hint: Lab | None) -> tuple[list[str], Lab | None]:
    """Return the paths of the sources among which one is chosen, in a tree without a manifest, and
    their lab.
    """
    if STARTER in tree.tops():
        return [STARTER, *_copies(tree)], hint
    by_lab = {lab.name: _starters(tree, lab) for lab in course.labs}
    present = [lab for lab in course.labs if by_lab[lab.name]]
    lab = hint or (present[0] if len(present) == 1 else None)
    if lab is not None and by_lab[lab.name]:
        nearest = by_lab[lab.name][0].count("/")
        return [path for path in by_lab[lab.name] if path.count("/") == nearest], lab
    if len(present) > 1 and hint is None:
        raise Refused("it has several labs; name the lab to grade, for example --lab 03")
    sources = [path for path in tree.paths() if is_code(path)]
    if 0 < len(sources) <= _MOST_OPTIONS and not present:
        return sources, hint
    notebooks = [path for path in tree.paths() if path.lower().endswith(NOTEBOOK)]
    if notebooks and not sources:
        raise Refused(_notebook(notebooks[0]))
    if present or not sources:
        links = next(iter(sorted(tree.refused.values())), "")
        raise Refused(f"it contains no {STARTER} of this lab" + (f": {links}" if links else ""))
    raise Refused(f"it has several files ({sources[0]}, {sources[1]}); rename yours to {STARTER}")


def _copies(tree: Tree) -> list[str]:
    """Return the files at the top of a tree that are also named as the lab's, `starter (1).py`."""
    return [path for path in tree.files if "/" not in path and path != STARTER and is_named(path)]


def _notebook(path: str) -> str:
    return (
        f"{path} is a notebook; hand in {STARTER}, a file of Python (in Jupyter: File, Save and "
        "Export Notebook As, Executable Script)"
    )


def _starters(tree: Tree, lab: Lab) -> list[str]:
    """Return the paths of a lab's `starter.py`, the nearest first."""
    end = f"/{lab.name}/{STARTER}"
    paths = [path for path in tree.paths() if f"/{path}".endswith(end)]
    return sorted(paths, key=lambda path: (path.count("/"), path))


def _of_bundle(student: str, tree: Tree, course: Course) -> Submission:
    manifest = _read_manifest(tree.read(MANIFEST, _MOST_MANIFEST_BYTES))
    lab = next((lab for lab in course.labs if lab.name == manifest.lab), None)
    if lab is None:
        raise Refused(f"it was made for {manifest.lab}, which this course does not have")
    if course.lab not in (None, lab):
        raise Refused(f"it was made for {lab.name}, not for {course.lab.name}")
    sources = {}
    for name in (lab.name, *lab.parts.values()):
        path = f"labs/{name}/{STARTER}"
        if path not in manifest.files and name != lab.name:
            continue
        sources[name] = tree.read(path, MOST_SOURCE_BYTES)
        if sha256(sources[name]).hexdigest() != manifest.files.get(path):
            raise Refused(f"{path} is not the file that {MANIFEST} lists; make the bundle again")
    return Submission(one_line(student), lab.name, sources, place=f"labs/{lab.name}/{STARTER}")


class _Manifest(NamedTuple):
    """The used fields of a bundle's list of contents; none of them is trusted."""

    lab: str
    files: Mapping[str, object]


def _read_manifest(data: bytes) -> _Manifest:
    try:
        manifest = load_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise Refused(f"{MANIFEST} is not JSON: {error}") from None
    if type(manifest) is not dict or manifest.get("schema") != _SCHEMA:
        raise Refused(f"{MANIFEST} lacks the schema {_SCHEMA!r}; make the bundle with make bundle")
    if type(manifest.get("lab")) is not str or type(manifest.get("files")) is not dict:
        raise Refused(f"{MANIFEST} lacks lab or files; make the bundle with make bundle")
    return _Manifest(manifest["lab"], manifest["files"])
