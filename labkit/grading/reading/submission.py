"""A submission as data: student, lab, and sources, or why there are none.

Names and faults are text that others chose. This module makes such text fit for reports: every
character is visible, and the text is the same every time. Quoting for HTML, XML or CSV is up to
each report.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from labkit.running.reporting.showing import in_one_line, printable


@dataclass(frozen=True)
class Remark:
    """A sentence about a submission, for its student and the instructor.

    Attributes:
        text: the sentence.
        is_doubt: whether perhaps another file should have been graded.
    """

    text: str
    is_doubt: bool = False


@dataclass(frozen=True)
class Submission:
    """One student's submission for one lab.

    Attributes:
        student: the name of the student's folder or file.
        lab: folder name of the lab.
        sources: by folder name of a lab, the bytes of its `starter.py`; the one for `lab` is
            graded, the others are its parts.
        fault: why the submission cannot be graded, for people; None if it can be.
        remarks: what people should know of the choice of its files; no grade depends on them.
        place: the path of the source for `lab` in the file or folder that was handed in, or "".
    """

    student: str
    lab: str
    sources: Mapping[str, bytes] = field(default_factory=dict)
    fault: str | None = None
    remarks: tuple[Remark, ...] = ()
    place: str = ""

    @property
    def remark_texts(self) -> tuple[str, ...]:
        """The remarks, fit for reports."""
        return tuple(one_line(remark.text) for remark in self.remarks)

    @property
    def digest(self) -> str:
        """The SHA-256 of the sources and of the lab's name, as hexadecimal digits."""
        faults = [] if self.fault is None else [("fault", self.fault)]
        sources = (("source", name, data) for name, data in sorted(self.sources.items()))
        return digest_of(("lab", self.lab), *faults, *sources)


def one_line(text: str) -> str:
    """Return `text` as `printable` does, with line breaks and tabs also as escapes."""
    return in_one_line(printable(text))


def digest_of(*fields: tuple[str | bytes, ...]) -> str:
    """Return the SHA-256 of fields, each a tag and its values, as hexadecimal digits.

    Every count and length is hashed before the counted items, so two different lists of fields are
    never hashed as the same bytes.
    """
    hash = sha256(b"%d\n" % len(fields))
    for values in fields:
        hash.update(b"%d\n" % len(values))
        for value in values:
            data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            hash.update(b"%d\n" % len(data))
            hash.update(data)
    return hash.hexdigest()
