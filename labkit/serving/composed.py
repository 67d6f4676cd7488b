"""The path that the labs make together: which lab is which layer, and whose code that is.

A layer is the student's own where its lab passes, else the reference; where several labs have one,
the later serves, so lab 07 comes before lab 03 where both pass.
"""

import os
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from labkit.course.lab import ROLES, TRACKS, Lab, Serves, find_labs
from labkit.errors import LoadFailure, UsageError
from labkit.running.lab_impl import Implementation, choose, load
from labkit.running.under_test import owner_of_parts
from labkit.student.progress import Progress

PIPELINE = "pipeline"
CORE, ADVANCED = TRACKS
# Without these there is no text path. The server has its own channel and frames.
_NEEDED = ("tokens", "stops", "calls", PIPELINE)


@dataclass(frozen=True)
class Part:
    """One layer: a class of a lab, and whose it is.

    Attributes:
        lab: the lab.
        serves: its row.
        implementation: whose code.
    """

    lab: Lab
    serves: Serves
    implementation: Implementation

    @property
    def header_line(self) -> str:
        """Whose it is, as a line of the header."""
        owner = "the reference" if self.implementation.is_reference else "your own"
        where = f"{self.lab.name}/{self.implementation.title}"
        return f"{self.serves.role:<10} {self.serves.class_name}: {owner}, {where}"

    @cached_property
    def _module(self) -> ModuleType:
        return load(self.implementation, f"under_test.{self.lab.label}", self.lab.given)

    def resolve(self, name: str) -> Any:
        """Return what the lab's file calls `name`.

        Raises:
            LoadFailure: the file cannot be imported.
            AttributeError: it has nothing of that name.
        """
        if not hasattr(self._module, name):
            raise AttributeError(f"{self.implementation.path.name} has no {name!r}")
        return getattr(self._module, name)


@dataclass(frozen=True)
class Composed:
    """The layers that the labs make.

    Attributes:
        parts: by role, in the order in which a token meets them.
    """

    parts: Mapping[str, Part]

    @property
    def header(self) -> str:
        """Whose code that is, a line for each."""
        head = f"Text path: {self.parts[PIPELINE].implementation.title} of {self.lab.name}"
        lines = [part.header_line for role, part in self.parts.items() if role != PIPELINE]
        return "\n  ".join([head, *lines])

    @property
    def lab(self) -> Lab:
        """The lab that composes the others."""
        return self.parts[PIPELINE].lab

    @property
    def vocabulary(self) -> Path | None:
        """The tokenizer to show these layers with; None where the ids must be bytes."""
        tokens = self.parts["tokens"]
        return tokens.lab.vocabulary(tokens.serves)

    def takes(self, value: str) -> bool:
        """Return whether some layer of the text path is made with a value of that name."""
        return any(value in part.serves.arguments.values() for part in self.parts.values())


def wanted_track() -> str:
    """Return the value of `LAB_TRACK`, empty where it is unset."""
    return os.environ.get("LAB_TRACK", "").strip()


def find_composed(root: Path, lab_impl: str, track: str = "") -> Composed:
    """Return the layers that the labs of a repository make.

    Args:
        root: the repository.
        lab_impl: which code of the lab that composes the others, as `LAB_IMPL` says it; the layers
            are then chosen as they are for its tests. Empty is the student's own where that
            passes, else what it means elsewhere; `bug:NAME` may be a bug of any layer's lab.
        track: of the labs that take part, `core` or `advanced`; of the latter come those layers
            that it builds, and the others of the former. Empty means the same as `advanced`.

    Raises:
        UsageError: there is no such track, no lab composes others, `lab_impl` is unknown, or
            `LAB_PARTS` asks for references where there are none.
        LoadFailure: a layer does not pass, and there is no reference for it.
    """
    if track not in ("", CORE, ADVANCED):
        raise UsageError(f"there is no track {track!r}; the tracks are {CORE} and {ADVANCED}")
    rows = [
        (lab, serves)
        for lab in find_labs(root)
        for serves in lab.serves
        if track != CORE or lab.track == CORE
    ]
    composing = [(lab, serves) for lab, serves in rows if serves.role == PIPELINE]
    if not composing:
        raise UsageError("no lab.toml has [[serves]] of a pipeline, so no lab makes one")
    lab, serves = composing[-1]
    progress = Progress(root)
    if not lab_impl and progress.passes(lab):
        lab_impl = "starter"
    ill = _lab_with_bug(lab_impl, lab, rows)
    planted = choose(lab_impl, [ill], Path.cwd())[ill.path]
    implementation = planted if ill == lab else Implementation("solution", lab.solution)
    own = owner_of_parts(implementation, (lab for lab, _ in rows)) == "own"
    parts = {}
    for role in ROLES:
        candidates = [row for row in rows if row[1].role == role]
        with_bug = [serves for other, serves in candidates if other == ill != lab]
        if role == PIPELINE:
            parts[role] = Part(lab, serves, implementation)
        elif with_bug:
            parts[role] = Part(ill, with_bug[0], planted)
        elif part := _choose(candidates, progress, own=own):
            parts[role] = part
        elif role in _NEEDED:
            _miss(lab, candidates)
    return Composed(parts)


def _lab_with_bug(lab_impl: str, composing: Lab, rows: list[tuple[Lab, Serves]]) -> Lab:
    """Return the lab that `bug:NAME` is about: the one that composes, else the latest that has it.

    For any other word it is the one that composes.
    """
    name = lab_impl.removeprefix("bug:")
    if name == lab_impl:
        return composing
    labs = [composing, *(lab for lab, _ in reversed(rows))]
    return next((lab for lab in labs if any(bug.name == name for bug in lab.bugs)), composing)


def _choose(rows: list[tuple[Lab, Serves]], progress: Progress, *, own: bool) -> Part | None:
    """Return the layer that serves: the latest that passes, else the latest with a reference."""
    if own:
        for lab, serves in reversed(rows):
            if progress.passes(lab):
                return Part(lab, serves, Implementation("starter", lab.starter))
    for lab, serves in reversed(rows):
        if lab.solution.exists():
            return Part(lab, serves, Implementation("solution", lab.solution))
    return None


def _miss(composing: Lab, rows: list[tuple[Lab, Serves]]) -> NoReturn:
    """Say which lab to do first, for a layer that nobody has built yet."""
    if not rows:
        raise UsageError("no lab.toml has a [[serves]] of every layer that a pipeline needs")
    lab, serves = rows[0]
    raise LoadFailure(
        f"{composing.label} builds on {serves.class_name} of {lab.label}, which does not pass as "
        f"it is now. Do that first: make lab N={lab.number}"
    )


def why_not_ready(composed: Composed, what: str, error: BaseException) -> UsageError:
    """Return what to tell the author of code that cannot be shown or served.

    Args:
        composed: whose code.
        what: was tried, as in "ready to serve".
        error: that it raised.
    """
    lab = _lab_of(error, composed.parts.values()) or composed.lab
    if isinstance(error, NotImplementedError):
        said = f"{error} is still to do. Go on with" if str(error) else "a task is still to do:"
        return UsageError(f"{lab.label} is not {what}: {said} `make lab N={lab.number}`")
    return UsageError(
        f"{lab.label} is not {what}: it raised {type(error).__name__}: "
        f"{error}{_where(error, lab.path.parent)}. See `make lab N={lab.number}`"
    )


def _lab_of(error: BaseException, parts: Iterable[Part]) -> Lab | None:
    """Return the lab whose file raised, if one of them did."""
    labs = {part.implementation.filename: part.lab for part in parts}
    frames = traceback.extract_tb(error.__traceback__)
    return next(
        (labs[frame.filename] for frame in reversed(frames) if frame.filename in labs), None
    )


def _where(error: BaseException, labs: Path) -> str:
    """Return the deepest line of the traceback that is in a lab's folder, in words."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if labs in path.parents:
            return f" in {path.relative_to(labs)}, line {frame.lineno} (`{frame.line}`)"
    return ""
