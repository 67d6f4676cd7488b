"""`LAB_IMPL`: which code is under test. It is read here, and the code is imported here."""

import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from labkit.course.lab import Bug, Lab
from labkit.course.rows import edited
from labkit.errors import LoadFailure, UsageError
from labkit.running.platform import deep_stack
from labkit.running.source import GIVEN, Rewrite, load_source, too_long

NO_REFERENCE = "there is no solution.py here: a student edition leaves the references out"


@dataclass(frozen=True)
class Implementation:
    """The code under test.

    Attributes:
        kind: `solution`, `starter`, `bug` or `path`.
        path: the file of the code (for a bug: the edited solution).
        bug: the bug that is planted, if any.
    """

    kind: str
    path: Path
    bug: Bug | None = None

    @property
    def title(self) -> str:
        """How reports name it."""
        return f"{self.path.name} with bug {self.bug.name!r}" if self.bug else self.path.name

    @property
    def filename(self) -> str:
        """The name in tracebacks; with a planted bug, it is the name of another file."""
        return str(self.path) if self.bug is None else f"{self.path}[{self.bug.name}]"

    @property
    def is_reference(self) -> bool:
        """Whether this is the course's own solution, and not the work of a student."""
        return self.kind in ("solution", "bug")

    def source(self) -> bytes:
        """Return the bytes of the code, with the bug planted.

        Raises:
            LoadFailure: the file is missing.
        """
        try:
            data = self.path.read_bytes()
        except OSError as error:
            fix = "`make reset` writes a fresh starter.py" if self.kind == "starter" else "check it"
            if self.is_reference and not self.path.exists():
                raise LoadFailure(f"{self.path.parent.name}: {NO_REFERENCE}") from None
            raise LoadFailure(f"{self.path} cannot be read ({error.strerror}): {fix}") from None
        if self.bug is None:
            return data
        try:
            text = edited(
                data.decode(), self.bug.find, self.bug.replace,
                f"bug {self.bug.name!r} of {self.path.name}",
            )  # fmt: skip
        except ValueError as error:
            raise LoadFailure(f"{error}") from None
        return text.encode()


def short_hash(data: bytes) -> str:
    """Return the 8 hex digits that identify a file in reports and progress."""
    return hashlib.sha256(data).hexdigest()[:8]


def lab_impl() -> str:
    """Return the value of `LAB_IMPL`, empty if it is unset."""
    return os.environ.get("LAB_IMPL", "").strip()


def is_student_edition(labs: list[Lab]) -> bool:
    """Return whether no lab of the course has a reference."""
    return not any(any(lab.path.parent.glob("*/solution.py")) for lab in labs)


def choose(value: str, labs: list[Lab], cwd: Path) -> dict[Path, Implementation]:
    """Return the implementation that `LAB_IMPL=value` selects for each lab, by lab folder.

    Empty means the solution; in a student edition, which has no solutions, it means the starter.

    Raises:
        UsageError: the value is not allowed, names one file while several labs are collected, or
            asks for a reference that does not exist.
    """
    if not value and is_student_edition(labs):
        value = "starter"
    if value in ("", "solution") or value.startswith("bug:"):
        missing = next((lab for lab in labs if not lab.solution.exists()), None)
        if missing is not None:
            raise UsageError(
                f"{missing.label}: {NO_REFERENCE}. LAB_IMPL=starter tests your own file"
            )
    if value in ("", "solution"):
        return {lab.path: Implementation("solution", lab.solution) for lab in labs}
    if value == "starter":
        return {lab.path: Implementation("starter", lab.starter) for lab in labs}
    path = cwd / value
    if not value.startswith("bug:") and not path.is_file():
        raise UsageError(
            f"LAB_IMPL={value!r} is neither a known word nor a file; use {_choices(labs)}"
        )
    if len(labs) > 1:
        raise UsageError(
            f"LAB_IMPL={value!r} is for one lab, but {len(labs)} labs are collected: "
            "name one lab's folder on the command line"
        )
    return {lab.path: _choose_one(value, path, lab) for lab in labs}


def _choices(labs: list[Lab]) -> str:
    """Return the values of `LAB_IMPL` that fit all these labs."""
    words = ["starter"]
    if all(lab.solution.exists() for lab in labs):
        words.append("solution")
        if any(lab.bugs for lab in labs):
            words.append("bug:NAME")
    return ", ".join([*words, "or the path of a Python file"])


def _choose_one(value: str, path: Path, lab: Lab) -> Implementation:
    if not value.startswith("bug:"):
        return Implementation("path", path.resolve())
    name = value.removeprefix("bug:")
    for bug in lab.bugs:
        if bug.name == name:
            return Implementation("bug", lab.solution, bug)
    have = ", ".join(bug.name for bug in lab.bugs) or "none"
    raise UsageError(f"LAB_IMPL={value!r}: {lab.name} has no such bug; its bugs: {have}")


def load(
    implementation: Implementation,
    name: str,
    importable: Collection[str] = GIVEN,
    rewrite: Rewrite | None = None,
) -> ModuleType:
    """Import the code under test as module `name`; see `load_source`.

    Raises:
        LoadFailure: it is missing, too long for the grader, does not parse, imports a forbidden
            module, or stops while imported.
    """
    path = implementation.path
    source = implementation.source()
    if (fault := too_long(source, path.name)) is not None:
        raise LoadFailure(fault)
    with deep_stack():
        return load_source(source, path.name, implementation.filename, name, importable, rewrite)
