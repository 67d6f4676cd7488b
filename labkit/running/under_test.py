"""The code of one lab in one session: its module, and where a composed lab's parts come from."""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from labkit.course.lab import Lab, find_labs
from labkit.errors import LoadFailure, UsageError
from labkit.running.lab_impl import NO_REFERENCE, Implementation, load


class CodeUnderTest:
    """Finds names in the implementation under test, then in the lab's parts.

    A part is the student's own where that lab passes as it is now, else the reference. References
    are tested with references; `LAB_PARTS` overrides.

    Args:
        lab: the lab.
        implementation: of it.
        root: the repository, where the labs of the parts are.
        passes: whether the student's own file of a lab passes as it is now.

    Raises:
        UsageError: `LAB_PARTS` is neither `own` nor `reference`, or a part's lab is missing, or a
            part needs its reference where there are none.
    """

    def __init__(
        self, lab: Lab, implementation: Implementation, root: Path, passes: Callable[[Lab], bool]
    ) -> None:
        self._lab = lab
        self._implementation = implementation
        self._parts = _choose_parts(lab, implementation, root, passes)
        self._modules: dict[str, ModuleType | LoadFailure] = {}

    def where_parts_come_from(self) -> list[str]:
        """Return a line for each part, for the header."""
        owners = {True: "the reference", False: "your own"}
        return [
            f"{name}: {owners[part.is_reference]}, {part.path.parent.name}/{part.path.name}"
            for name, part in self._parts.items()
        ]

    def load(self) -> ModuleType:
        """Import the implementation under test, once.

        Raises:
            LoadFailure: it could not be imported, now or at an earlier call.
        """
        return self._module(self._lab.label, self._implementation)

    def resolve(self, name: str) -> Any:
        """Return the object called `name`.

        Raises:
            AttributeError: neither the implementation nor a part has it.
        """
        module = self.load()
        if not hasattr(module, name) and name in self._parts:
            module = self._module(f"{self._lab.label}.{name}", self._parts[name])
        if not hasattr(module, name):
            raise AttributeError(f"{self._implementation.path.name} has no {name!r}")
        return getattr(module, name)

    def _module(self, name: str, implementation: Implementation) -> ModuleType:
        if name not in self._modules:
            try:
                self._modules[name] = load(implementation, f"under_test.{name}")
            except LoadFailure as error:
                self._modules[name] = error
        module = self._modules[name]
        if isinstance(module, LoadFailure):
            raise module
        return module


def _choose_parts(
    lab: Lab, implementation: Implementation, root: Path, passes: Callable[[Lab], bool]
) -> dict[str, Implementation]:
    wanted = os.environ.get("LAB_PARTS") or ("reference" if implementation.is_reference else "own")
    if wanted not in ("own", "reference"):
        raise UsageError(f"LAB_PARTS={wanted!r} is not known; use own or reference")
    if not lab.parts:
        return {}
    labs = {other.name: other for other in find_labs(root)}
    parts = {}
    for name, folder in lab.parts.items():
        if folder not in labs:
            raise UsageError(f"{lab.path / 'lab.toml'}: parts: there is no lab {folder!r}")
        if wanted == "own" and passes(labs[folder]):
            parts[name] = Implementation("starter", labs[folder].starter)
        elif not labs[folder].solution.exists():
            raise UsageError(_why_no_part(lab, name, labs[folder], wanted))
        else:
            parts[name] = Implementation("solution", labs[folder].solution)
    return parts


def _why_no_part(lab: Lab, name: str, part: Lab, wanted: str) -> str:
    if wanted == "reference":
        return f"LAB_PARTS=reference: {NO_REFERENCE}. Leave LAB_PARTS out"
    return (
        f"{lab.label} builds on {name} of {part.label}, which does not pass as it is now. "
        f"Do that first: make lab N={part.number}"
    )
