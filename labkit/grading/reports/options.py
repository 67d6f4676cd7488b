"""The reports that an instructor requests, and their places."""

from dataclasses import dataclass, field
from pathlib import Path

from labkit.grading.marks.marking import MarkOptions


@dataclass(frozen=True)
class ReportOptions:
    """The reports of a grading, and their places. A report without a place is not written.

    Attributes:
        json: the file for all grades with all tests.
        csv: the file for a gradebook with nbgrader's columns.
        junit: the file for JUnit XML.
        html: the file for the page about the cohort.
        projector: the file for the page for the class, without names.
        pairs: the file for the similar submissions: JSON if its name ends with `.json`, else CSV.
        canvas: the file for marks in Canvas's columns.
        moodle: the file for marks in Moodle's columns.
        anonymous_key: the file for names and pseudonyms, if reports have pseudonyms.
        feedback: the folder or zip for each student's page.
        earlier: a folder or zip of earlier submissions, which the page compares with the new ones.
        anonymous: whether reports have pseudonyms in place of names.
        show: whether each student's page steps through the first failure.
        marks: the inputs of marks.
    """

    json: Path | None = None
    csv: Path | None = None
    junit: Path | None = None
    html: Path | None = None
    projector: Path | None = None
    pairs: Path | None = None
    canvas: Path | None = None
    moodle: Path | None = None
    anonymous_key: Path | None = None
    feedback: Path | None = None
    earlier: Path | None = None
    anonymous: bool = False
    show: bool = False
    marks: MarkOptions = field(default_factory=MarkOptions)

    @property
    def files(self) -> dict[str, Path]:
        """The files that are written, by option."""
        names = (
            "json", "csv", "junit", "html", "projector", "pairs", "canvas", "moodle",
            "anonymous_key",
        )  # fmt: skip
        paths = ((name.replace("_", "-"), getattr(self, name)) for name in names)
        return {option: path for option, path in paths if path is not None}
