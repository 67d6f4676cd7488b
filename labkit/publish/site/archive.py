"""The archives for a browser's Python: the course's own files, and the packages that they import.

Modules are not listed but derived: they are those that the browser's verbs import, directly or
through others.
"""

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

from labkit.browser.labs import page_starter
from labkit.course.hints import FILE as HINTS
from labkit.course.imports import imported_files
from labkit.course.lab import FACTS, Lab, find_labs
from labkit.course.predictions import FILE as PREDICTIONS
from labkit.errors import UsageError
from labkit.publish.grader_files import PACKAGES
from labkit.running.diagnose import FILE as MISTAKES
from labkit.running.racing import FILE as RACE
from labkit.serving.plugin_file import adapter_files

_ROOTS = (
    "labkit/browser/verbs.py",
    "labkit/testing.py",
    "labkit/student/score_keeper.py",
    "conftest.py",
)
_SETTINGS = ("conftest.py", "pyproject.toml")
_LAB_FILES = (FACTS, "test_lab.py", HINTS, PREDICTIONS, MISTAKES, RACE)
# Parts of packages for people, for type checkers, for their own tests, or to be run from a shell.
_NO_SUFFIXES = (".pyc", ".pyi", ".typed", ".so", ".exe", ".rst", ".md")
_NO_FOLDERS = ("__pycache__", "tests", "bin", "sboms")
# Reports and solutions, Python in a terminal's colours, need only these files of these folders.
_FILES_KEPT = {
    PurePosixPath("pygments/lexers"): (
        "__init__.py", "_mapping.py", "python.py", "special.py", "data.py", "diff.py",
    ),
    PurePosixPath("pygments/formatters"): ("__init__.py", "_mapping.py", "terminal.py"),
    PurePosixPath("pygments/styles"): ("__init__.py", "_mapping.py", "default.py", "monokai.py"),
}  # fmt: skip
# The widths of characters by version of Unicode; rich reads only the last version.
_WIDTHS = re.compile(r"rich/_unicode_data/unicode(\d+)-(\d+)-(\d+)\.py")


def make_archive(course: Path, root: Path) -> dict[str, bytes]:
    """Return the files of the course by path, which a browser unpacks into a folder.

    Args:
        course: the source of the labs: the repository, or a student edition. The archive lacks the
            files that the edition lacks.
        root: the repository, for the code: student editions lack the browser's code.

    Raises:
        UsageError: a file is missing.
    """
    labs = find_labs(course)
    programs = [lab.path / MISTAKES for lab in labs if (lab.path / MISTAKES).exists()]
    programs += [path for lab in labs for path in lab.given_files if path.suffix == ".py"]
    try:
        files = imported_files([*(root / name for name in _ROOTS), *programs], root)
        paths = [course / name for name in _SETTINGS]
        paths += adapter_files(course)
        paths += [path for lab in labs for path in _lab_paths(lab)]
        files |= {path.relative_to(course).as_posix(): path.read_bytes() for path in paths}
        for lab in labs:
            starter, pristine = (
                path.relative_to(course).as_posix() for path in (lab.starter, lab.pristine_starter)
            )
            text = page_starter(files[pristine].decode("utf-8"))
            files[starter] = files[pristine] = text.encode()
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}; the site needs it") from None
    return dict(sorted(files.items()))


def _lab_paths(lab: Lab) -> Iterator[Path]:
    """Yield the files that a lab's run and its strip read."""
    yield from (lab.path / name for name in _LAB_FILES if (lab.path / name).exists())
    yield lab.pristine_starter
    yield from lab.given_files
    yield from lab.hunt_files
    yield from filter(None, map(lab.vocabulary, lab.serves))
    if lab.solution.exists():
        yield lab.solution


def make_packages() -> dict[str, bytes]:
    """Return the files of the packages by path, as they are installed here.

    Raises:
        UsageError: a package is missing.
    """
    files = {}
    for name in PACKAGES:
        for path in distribution(name).files or ():
            place = PurePosixPath(path)
            if _is_kept(place):
                files[place.as_posix()] = Path(str(path.locate())).read_bytes()
    widths = {name: match for name in files if (match := _WIDTHS.fullmatch(name))}
    for name in sorted(widths, key=lambda name: [*map(int, widths[name].groups())])[:-1]:
        del files[name]
    if not files:
        raise UsageError("pytest and its packages are not installed here: make site installs them")
    return dict(sorted(files.items()))


def _is_kept(path: PurePosixPath) -> bool:
    if ".." in path.parts or path.suffix in _NO_SUFFIXES or set(path.parts) & {*_NO_FOLDERS}:
        return False
    if path.parts[0].endswith(".dist-info"):
        return path.name in ("METADATA", "entry_points.txt") or "licenses" in path.parts
    return path.name in _FILES_KEPT.get(path.parent, (path.name,))
