"""The code of one lab in one session: its module, and the parts of a composed lab."""

import gc
import os
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.course.lab import FACTS, Lab, find_labs
from labkit.errors import LoadFailure, UsageError
from labkit.running.given import read_given
from labkit.running.lab_impl import NO_REFERENCE, Implementation, load
from labkit.running.source import load_given
from labkit.running.trace import GIVEN_PREFIX


def root_of(lab: Lab) -> Path:
    """Return the repository of a lab, whatever root pytest has."""
    return lab.path.parents[2]


class CodeUnderTest:
    """Finds names in the implementation under test, then in the lab's parts.

    A part is the student's own if the current file of that lab passes, else the reference.
    References are tested with references. `LAB_PARTS` overrides both; without references, `own`
    means the student's current parts. The choice is made when the first name is looked up: in a run
    of several labs, an earlier lab may just have passed.

    Args:
        lab: the lab.
        implementation: the code under test.
        root: the repository, which has the labs of the parts.
        passes: returns whether the student's current file of a lab passes.

    Attributes:
        given: the given programs and files of the lab.

    Raises:
        UsageError: `LAB_PARTS` is neither `own` nor `reference`; or it asks for references and
            there are none; or a part's lab is missing; or an environment variable names a file that
            cannot be read.
    """

    def __init__(
        self, lab: Lab, implementation: Implementation, root: Path, passes: Callable[[Lab], bool]
    ) -> None:
        self._lab = lab
        self._implementation = implementation
        self._passes = passes
        self._labs_of_parts = _labs_of_parts(lab, root)
        self._owner = owner_of_parts(implementation, self._labs_of_parts.values())
        self._modules: dict[str, ModuleType | LoadFailure] = {}
        self.given = read_given(lab, own=True)

    @cached_property
    def waits_for(self) -> Lab | None:
        """The lab that has to pass first, because it builds a part that has no reference; None if
        the tests that need no part can run.
        """
        if self._lab.starts_without_parts:
            return None
        return _first_without_reference(
            {name: lab for name, lab in self._labs_of_parts.items() if name not in self._parts}
        )

    @cached_property
    def _parts(self) -> dict[str, Implementation]:
        """The available parts, by name."""
        parts = {}
        as_they_are = os.environ.get("LAB_PARTS") == "own"
        for name, lab in self._labs_of_parts.items():
            if self._owner == "own" and self._passes(lab):
                parts[name] = Implementation("starter", lab.starter)
            elif lab.solution.exists():
                parts[name] = Implementation("solution", lab.solution)
            elif as_they_are:
                parts[name] = Implementation("starter", lab.starter)
        return parts

    @property
    def own_parts(self) -> list[Implementation]:
        """The parts that are the student's own files, each file once."""
        own = (part for part in self._parts.values() if not part.is_reference)
        return [*{part.path: part for part in own}.values()]

    def where_parts_come_from(self) -> list[str]:
        """Return a line for each part, for the header of the report."""
        lines = []
        for name, lab in self._labs_of_parts.items():
            part = self._parts.get(name)
            if part is None:
                lines.append(f"{name}: missing, as {lab.label} does not pass")
            else:
                owner = "the reference" if part.is_reference else "your own"
                lines.append(f"{name}: {owner}, {lab.name}/{part.path.name}")
        return lines

    def load(self) -> ModuleType:
        """Import the implementation under test, once.

        Raises:
            LoadFailure: it could not be imported, now or at an earlier call, or a part is missing.
        """
        if (first := self.waits_for) is not None:
            raise self._missing(first)
        return self._module(self._lab.label, self._implementation, self._lab)

    def forget(self) -> None:
        """Let go of the modules with all that they hold; the next use imports them anew."""
        for name, module in [*self._modules.items()]:
            if isinstance(module, ModuleType):
                # Frames of errors may still hold it.
                vars(module).clear()
                del self._modules[name]
        gc.collect()

    def resolve(self, name: str) -> Any:
        """Return the object called `name`; `given.NAME` is a name in the given module.

        Raises:
            AttributeError: neither the implementation nor a part has it.
            LoadFailure: the implementation could not be imported, or the part is missing.
        """
        if name.startswith(GIVEN_PREFIX):
            return getattr(self._given, name.removeprefix(GIVEN_PREFIX))
        module = self.load()
        if not hasattr(module, name) and name in self._parts:
            of_part = self._labs_of_parts[name]
            module = self._module(f"{self._lab.label}.{name}", self._parts[name], of_part)
        elif not hasattr(module, name) and name in self._labs_of_parts:
            raise self._missing(self._labs_of_parts[name])
        if not hasattr(module, name):
            raise AttributeError(f"{self._implementation.path.name} has no {name!r}")
        return getattr(module, name)

    def _missing(self, first: Lab) -> LoadFailure:
        """Return the failure of code that needs the parts of a lab that does not pass."""
        names = " and ".join(
            name for name, lab in self._labs_of_parts.items() if lab.path == first.path
        )
        return LoadFailure(
            f"{self._lab.label} builds on {names} of {first.label}, but your current "
            f"{first.label} does not pass. Pass it first: make lab N={first.number}. To use it as "
            f"it is: LAB_PARTS=own make lab N={self._lab.number}"
        )

    @cached_property
    def _given(self) -> ModuleType:
        return load_given(self.given, f"under_test.{self._lab.label}.given")

    def _module(self, name: str, implementation: Implementation, lab: Lab) -> ModuleType:
        if name not in self._modules:
            try:
                self._modules[name] = load(implementation, f"under_test.{name}", lab.given)
            except LoadFailure as error:
                self._modules[name] = error
        module = self._modules[name]
        if isinstance(module, LoadFailure):
            raise module
        return module


def owner_of_parts(implementation: Implementation, labs: Iterable[Lab]) -> str:
    """Return the owner of an implementation's parts, `own` or `reference`; `LAB_PARTS` overrides.

    Args:
        implementation: the code that the parts are for.
        labs: the labs that build parts.

    Raises:
        UsageError: `LAB_PARTS` is neither, or asks for references and there are none.
    """
    owner = os.environ.get("LAB_PARTS") or ("reference" if implementation.is_reference else "own")
    has_references = all(lab.solution.exists() for lab in labs)
    if owner == "reference" and not has_references:
        raise UsageError(f"LAB_PARTS=reference: {NO_REFERENCE}. Leave LAB_PARTS out")
    if owner not in ("own", "reference"):
        choices = "own or reference" if has_references else "own, or leave LAB_PARTS out"
        raise UsageError(f"LAB_PARTS={owner!r} is not known; use {choices}")
    return owner


def _labs_of_parts(lab: Lab, root: Path) -> dict[str, Lab]:
    if not lab.parts:
        return {}
    labs = {other.name: other for other in find_labs(root)}
    missing = [folder for folder in lab.parts.values() if folder not in labs]
    if missing:
        raise UsageError(f"{lab.path / FACTS}: parts: there is no lab {missing[0]!r}")
    return {name: labs[folder] for name, folder in lab.parts.items()}


def _first_without_reference(labs: dict[str, Lab]) -> Lab | None:
    return next((lab for lab in labs.values() if not lab.solution.exists()), None)
