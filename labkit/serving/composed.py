"""The path that the labs make together: the lab of each layer, and the owner of its code.

A layer is the student's own if its lab passes, else the reference. A student edition has no
references: there the layer is the engine's own. If several labs have a layer, the latest of them
that passes serves, so lab 07 replaces lab 03 as soon as lab 07 passes.
"""

import os
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.course.lab import FACTS, PIPELINE, ROLES, TEXT_PATH, TRACKS, Lab, Serves, find_labs
from labkit.errors import LoadFailure, UsageError
from labkit.running.lab_impl import Implementation, choose, load
from labkit.running.limits.time_limit import OverdueError, time_limit
from labkit.running.under_test import owner_of_parts
from labkit.serving import engine_layers
from labkit.student.progress import Progress

CORE, ADVANCED = TRACKS
# The values of `LAB_IMPL` that choose each layer by the labs that pass.
LAYER_BY_LAYER = ("", "starter")
# The roles that a text path needs. The server has its own channel and frames.
_NEEDED = ("tokens", "stops", "calls", PIPELINE)
_IMPORT_SECONDS = 5.0


@dataclass(frozen=True)
class Part:
    """One layer: a class and its owner.

    Attributes:
        lab: the lab that builds such a layer.
        serves: how the class becomes a layer.
        implementation: the code of that lab; None for the engine's own layer.
    """

    lab: Lab
    serves: Serves
    implementation: Implementation | None

    @property
    def is_own(self) -> bool:
        """Whether it is a student's work, and neither a reference nor the engine's."""
        return self.implementation is not None and not self.implementation.is_reference

    @property
    def owner(self) -> str:
        """The owner, in words."""
        if self.implementation is None:
            return "the engine's"
        return "yours" if self.is_own else "the reference"

    @property
    def only_bytes(self) -> bool:
        """Whether it is a layer from ids to text that takes bytes and no other ids."""
        return self.implementation is not None and not self.serves.vocabulary

    @cached_property
    def _module(self) -> ModuleType:
        if self.implementation is None:
            return engine_layers
        return load(self.implementation, f"under_test.{self.lab.label}", self.lab.given)

    def resolve(self, name: str) -> Any:
        """Return the object `name` of the lab's file, or of the module of the engine's layers.

        Raises:
            LoadFailure: the file cannot be imported.
            AttributeError: the file has no such name.
        """
        if not hasattr(self._module, name):
            raise AttributeError(f"{Path(str(self._module.__file__)).name} has no {name!r}")
        return getattr(self._module, name)


@dataclass(frozen=True)
class Composed:
    """The layers that the labs make.

    Attributes:
        parts: by role, in the order in which a token meets them.
        waiting: by role, the lab that makes a layer the student's own when it passes.
        broken: the import errors of files of these labs, a line each.
    """

    parts: Mapping[str, Part]
    waiting: Mapping[str, Lab] = field(default_factory=dict)
    broken: tuple[str, ...] = ()

    def header(self, roles: Sequence[str] = ROLES) -> str:
        """Return the owners of some layers, and the lab that makes the next layer yours.

        A layer without a part, and without a lab in `waiting`, is the server's own.
        """
        lines = ["Whose code each layer is:"]
        waiting = {role: self.waiting[role] for role in roles if role in self.waiting}
        for role in roles:
            part, lab = self.parts.get(role), waiting.get(role)
            if lab is not None:
                owner = "the engine's" if part is None else part.owner
                lines.append(f"  {role:<10} {owner:<14} until lab {lab.number} passes")
            elif part is not None and part.implementation is not None:
                where = f"{part.lab.label}/{part.implementation.title}"
                lines.append(f"  {role:<10} {part.owner:<14} {where}")
        lines += self.broken
        if waiting:
            lab = min(waiting.values(), key=lambda lab: lab.place)
            layers = " and ".join(role for role, other in waiting.items() if other == lab)
            lines.append(f"To make {layers} yours, pass lab {lab.number}: make lab N={lab.number}")
        return "\n".join(lines)

    @property
    def lab(self) -> Lab:
        """The lab that composes the others."""
        return self.parts[PIPELINE].lab

    @property
    def vocabulary(self) -> Path | None:
        """The tokenizer to show these layers with; None for the tokenizer whose ids are bytes."""
        tokens = self.parts["tokens"]
        return tokens.lab.vocabulary(tokens.serves)

    def takes(self, value: str) -> bool:
        """Return whether a layer of the text path is made with a value of that name."""
        return any(value in part.serves.arguments.values() for part in self.parts.values())


def wanted_track() -> str:
    """Return the value of `LAB_TRACK`, empty if it is unset."""
    return os.environ.get("LAB_TRACK", "").strip()


def find_composed(root: Path, lab_impl: str, track: str = "") -> Composed:
    """Return the layers that the labs of a repository make.

    Args:
        root: the repository.
        lab_impl: the code, as a value of `LAB_IMPL`. Empty or `starter`: each layer is the
            student's own if its lab passes. Other values are about the lab that composes the
            others, whose layers are then chosen as for its tests; `bug:NAME` may be a bug of any
            layer's lab.
        track: the track of the labs, `core` or `advanced`. Layers that no lab of the advanced
            track builds are those of the core track. Empty means the same as `advanced`, but the
            vocabulary of the engine's own layers is then that of bytes.

    Raises:
        UsageError: there is no such track, no lab composes others, `lab_impl` is unknown, or
            `LAB_PARTS` asks for references and there are none.
    """
    if track not in ("", CORE, ADVANCED):
        raise UsageError(f"there is no track {track!r}; the tracks are {CORE} and {ADVANCED}")
    rows = [
        (lab, serves)
        for lab in find_labs(root)
        for serves in lab.serves
        if track != CORE or lab.track == CORE
    ]
    if missing := [role for role in _NEEDED if role not in {row.role for _, row in rows}]:
        raise UsageError(
            f"no lab.toml has [[serves]] with the role {missing[0]}: no lab has a pipeline"
        )
    composing = next(lab for lab, serves in reversed(rows) if serves.role == PIPELINE)
    planted: dict[str, Implementation] = {}
    asked_for = Implementation("starter", composing.starter)
    if lab_impl not in LAYER_BY_LAYER:
        ill = _lab_with_bug(lab_impl, composing, rows)
        asked_for = choose(lab_impl, [ill], Path.cwd())[ill.path]
        planted = {composing.name: Implementation("solution", composing.solution)}
        planted[ill.name] = asked_for
    progress = Progress(root)
    own = owner_of_parts(asked_for, (lab for lab, _ in rows)) == "own"
    parts, waiting = {}, {}
    for role in ROLES:
        candidates = [row for row in rows if row[1].role == role]
        # `LAB_PARTS` is about the composed layers, and not about the composing pipeline.
        may_be_own = own or (role == PIPELINE and lab_impl in LAYER_BY_LAYER)
        if part := _choose(candidates, planted, progress if may_be_own else None, track):
            parts[role] = part
        if may_be_own and candidates and not (part and part.is_own):
            waiting[role] = candidates[0][0]
    labs = {lab.name: lab for lab in waiting.values()}
    return Composed(parts, waiting, tuple(filter(None, map(_trouble, labs.values()))))


def _lab_with_bug(lab_impl: str, composing: Lab, rows: list[tuple[Lab, Serves]]) -> Lab:
    """Return the lab of `bug:NAME`: the composing lab if it has the bug, else the latest one.

    For any other word, return the composing lab.
    """
    name = lab_impl.removeprefix("bug:")
    if name == lab_impl:
        return composing
    labs = [composing, *(lab for lab, _ in reversed(rows))]
    return next((lab for lab in labs if any(bug.name == name for bug in lab.bugs)), composing)


def _choose(
    rows: list[tuple[Lab, Serves]],
    planted: Mapping[str, Implementation],
    progress: Progress | None,
    track: str,
) -> Part | None:
    """Return the part of a role: the planted one, else that of the latest lab that passes.

    If no lab passes, it is the latest reference or, without references, the engine's own layer.
    None if neither the track nor the server needs a layer.
    """
    latest = [*reversed(rows)]
    for lab, serves in latest:
        if lab.name in planted:
            return Part(lab, serves, planted[lab.name])
    for lab, serves in latest:
        if progress is not None and progress.passes(lab):
            return Part(lab, serves, Implementation("starter", lab.starter))
    for lab, serves in latest:
        if lab.solution.exists():
            return Part(lab, serves, Implementation("solution", lab.solution))
    if not rows or rows[0][1].role not in TEXT_PATH:
        return None
    lab, serves = latest[0]
    vocabulary = serves.vocabulary if track == ADVANCED else ""
    return Part(lab, engine_layers.row(serves.role, vocabulary), None)


def _trouble(lab: Lab) -> str:
    """Return why a student's file cannot be imported; "" if it can, or if it is unchanged."""
    try:
        if lab.starter.read_bytes() == lab.pristine_starter.read_bytes():
            return ""
    except OSError:
        pass
    try:
        with time_limit(_IMPORT_SECONDS):
            load(Implementation("starter", lab.starter), f"under_test.{lab.label}", lab.given)
    except (LoadFailure, OverdueError) as error:
        return f"{lab.label} cannot be imported: {str(error).splitlines()[0]}"
    return ""


def why_not_ready(composed: Composed, what: str, error: BaseException) -> UsageError:
    """Return the error for the author of code that cannot be shown or served.

    Args:
        composed: the labs' code.
        what: the state that was tried, such as "ready to serve".
        error: the exception of the code.
    """
    lab = _lab_of(error, composed.parts.values()) or composed.lab
    if isinstance(error, NotImplementedError):
        said = (
            f"{error} is not written yet. Go on with"
            if str(error)
            else "a task is not written yet:"
        )
        return UsageError(f"{lab.label} is not {what}: {said} `make lab N={lab.number}`")
    return UsageError(
        f"{lab.label} is not {what}: it raised {in_words(error)}. See `make lab N={lab.number}`"
    )


def _lab_of(error: BaseException, parts: Iterable[Part]) -> Lab | None:
    """Return the lab whose file raised the error, or None."""
    labs = {part.implementation.filename: part.lab for part in parts if part.implementation}
    frames = traceback.extract_tb(error.__traceback__)
    return next(
        (labs[frame.filename] for frame in reversed(frames) if frame.filename in labs), None
    )


def in_words(error: BaseException) -> str:
    """Return an exception in words, with the deepest line of its traceback in a lab's folder."""
    words = f"{type(error).__name__}: {error}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if (path.parent / FACTS).exists():
            file = f"{path.parent.name}/{path.name}"
            return f"{words} in {file}, line {frame.lineno} (`{frame.line}`)"
    return words
