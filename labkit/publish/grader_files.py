"""The files of the course that graders on other machines need.

A lab's own solution and its known bugs are never packed for a grading of that lab.
"""

import re
from collections.abc import Collection
from pathlib import Path

from labkit.course.imports import imported_files
from labkit.course.lab import BUGS, FACTS, Lab
from labkit.errors import UsageError
from labkit.grading.assignment import GRADER
from labkit.running.diagnose import FILE as MISTAKES

# The packages that the grader imports, and their dependencies.
PACKAGES = (
    "iniconfig", "markdown-it-py", "mdurl", "packaging", "pluggy", "pygments", "pytest", "rich",
)  # fmt: skip


def grader_files(
    runner: str, lab: Lab, labs: list[Lab], root: Path, hidden: Collection[Path] = ()
) -> dict[str, bytes]:
    """Return the grader and the lab's tests by path in the repository, and `requirements.txt`.

    Args:
        runner: the file of labkit that runs there; it is packed with all that it imports.
        lab: the lab to grade.
        labs: all labs of the repository.
        root: the repository.
        hidden: files of hidden tests; their imports are packed, but the files are not.

    Raises:
        OSError: a file cannot be read.
        UsageError: a package is not locked.
    """
    code = [root / name for name in (runner, *GRADER)]
    own = [path for path in (lab.test_file, lab.path / MISTAKES) if path.exists()]
    programs = [path for path in lab.given_files if path.suffix == ".py"]
    files = imported_files([*code, *own, *programs, *hidden], root)
    for path in (
        *(other.path / FACTS for other in labs),
        # The grader chooses among several files, and knows another lab's, by names in starters.
        *(other.pristine_starter for other in labs if other.pristine_starter.exists()),
        *own,
        *lab.given_files,
        *lab.hunt_files,
    ):
        files[path.relative_to(root).as_posix()] = path.read_bytes()
    lock = (root / "requirements/core.txt").read_text("utf-8")
    files["requirements.txt"] = _only(lock, PACKAGES).encode()
    return files


def reference_files(lab: Lab, labs: list[Lab], root: Path) -> dict[str, bytes]:
    """Return the references of the labs that a lab builds on, by path in the repository.

    A hunt needs those of the labs that it hunts, and their known bugs.

    Raises:
        OSError: a reference cannot be read.
    """
    paths = [other.solution for other in labs if other.name in lab.parts.values()]
    hunted = [] if lab.hunt is None else [target.lab for target in lab.pool.targets]
    for other in labs:
        if other.name in hunted:
            paths += [other.solution, other.path / BUGS]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def _only(lock: str, packages: tuple[str, ...]) -> str:
    """Return the entries of a lock file with hashes that are of these packages."""
    matches = re.finditer(r"^(\S+)==.*(?:\n .*)*\n", lock, re.MULTILINE)
    entries = {match[1]: match[0] for match in matches}
    missing = set(packages) - set(entries)
    if missing:
        raise UsageError(f"requirements/core.txt has no {', '.join(sorted(missing))}: make lock")
    return "".join(entry for name, entry in entries.items() if name in packages)
