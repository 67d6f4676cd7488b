"""A submission as data: whose it is, for which lab, and its sources, or why there are none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

MOST_SOURCE_BYTES = 1 << 20


@dataclass(frozen=True)
class Submission:
    """What one student handed in for one lab.

    Attributes:
        student: who, as the folder or file is named.
        lab: folder name of the lab.
        sources: by folder name of a lab, the bytes of its `starter.py`; that of `lab` is what is
            graded, the others are its parts.
        fault: why there is nothing to grade, for people; None if there is.
    """

    student: str
    lab: str
    sources: Mapping[str, bytes] = field(default_factory=dict)
    fault: str | None = None

    @property
    def digest(self) -> str:
        """Return the SHA-256 of all that was handed in, as hexadecimal digits."""
        hash = sha256((self.fault or "").encode())
        for name, data in sorted(self.sources.items()):
            hash.update(f"\n{name} {len(data)}\n".encode())
            hash.update(data)
        return hash.hexdigest()
