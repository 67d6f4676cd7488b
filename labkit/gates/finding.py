"""What a gate returns."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        place: the file, or the lab.
        message: what is wrong and what to do.
        is_note: true if it only informs.
    """

    place: str
    message: str
    is_note: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


Gate = Callable[[Path], list[Finding]]
