"""Gates and their findings."""

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from labkit.course.lab import Lab, find_labs


@dataclass(frozen=True)
class Finding:
    """A fault that a gate reports.

    Attributes:
        place: the file, or the lab.
        message: the fault and its remedy.
        is_note: true if it only informs.
    """

    place: str
    message: str
    is_note: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


# A gate takes a repository's folder and, unless it looks at the whole repository, labs.
Gate = Callable[..., Iterable[Finding]]


def of_labs(check: Callable[[Path, list[Lab]], Iterable[Finding]]) -> Gate:
    """Make a gate of a check of labs; called without labs, it checks all of a repository."""

    @functools.wraps(check)
    def gate(root: Path, labs: list[Lab] | None = None) -> Iterable[Finding]:
        return check(root, find_labs(root) if labs is None else labs)

    return gate


def takes_labs(gate: Gate) -> bool:
    """Return whether a gate can check some labs alone."""
    return "labs" in inspect.signature(gate).parameters
