"""A term as rows, and in the columns of gradebooks; equal marks make equal bytes.

In the gradebooks of Canvas and Moodle, a lab has the cell that `grade` writes for it: empty if the
student is excused or handed in nothing. In our own CSV and on the page, work that was not handed in
is a 0, as in the average.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from labkit.errors import UsageError
from labkit.grading.marks.csv_files import inert
from labkit.grading.marks.mark import plain
from labkit.grading.marks.roster import Roster
from labkit.grading.marks.students import Student
from labkit.grading.reports.gradebooks import (
    Column,
    canvas_columns,
    csv_text,
    lab_column,
    moodle_columns,
)
from labkit.grading.term.average import average
from labkit.grading.term.marks import LabMark, Term

AVERAGE = "Average of the labs"


@dataclass(frozen=True)
class Row:
    """A student's term.

    Attributes:
        student: the student.
        marks: by folder name of a lab.
        average: the average, or None if no lab counts.
        dropped: the labs that do not count since they are the lowest.
        days_used: the late days used.
        days_left: the late days left; None without a budget.
    """

    student: Student
    marks: Mapping[str, LabMark]
    average: Decimal | None
    dropped: tuple[str, ...]
    days_used: int
    days_left: int | None

    @property
    def average_text(self) -> str:
        """The average, or ""."""
        return "" if self.average is None else plain(self.average)


def rows_of(term: Term, weights: Mapping[str, Fraction], drop: int) -> list[Row]:
    """Return a row for each student of the roster, in its order."""
    rows = []
    for student in term.students:
        percentages = {lab.lab.name: lab.percentage(student) for lab in term.labs}
        counting = {name: share for name, share in percentages.items() if share is not None}
        mean, dropped = average(counting, weights, drop)
        used = term.days_used(student)
        left = None if term.days is None else max(term.days - used, 0)
        marks = {lab.lab.name: lab.of(student) for lab in term.labs}
        rows.append(Row(student, marks, mean, dropped, used, left))
    return rows


def term_csv(term: Term, rows: Sequence[Row]) -> str:
    """Return the term as CSV, a row for each student of the roster."""
    labs = [lab.lab for lab in term.labs]
    titles = ["student", "email", *(lab.label for lab in labs)]
    titles += ["dropped", "late_days_used", "late_days_left", "average"]
    cells = []
    for row in rows:
        person = row.student.person
        marks = [row.marks[lab.name] for lab in labs]
        cells.append([
            inert(row.student.name),
            "" if person is None else inert(person.email),
            *("" if mark.is_excused else mark.text for mark in marks),
            " ".join(lab.label for lab in labs if lab.name in row.dropped),
            str(row.days_used),
            "" if row.days_left is None else str(row.days_left),
            row.average_text,
        ])  # fmt: skip
    return csv_text(titles, cells)


def term_canvas(term: Term, rows: Sequence[Row], roster: Roster) -> str:
    """Return the labs and the average as Canvas's gradebook imports them."""
    return canvas_columns(roster, _columns(term, rows, roster))


def term_moodle(term: Term, rows: Sequence[Row], roster: Roster) -> str:
    """Return the labs and the average as Moodle's gradebook imports them."""
    return moodle_columns(roster, _columns(term, rows, roster))


def check_form(option: str, roster: Roster) -> None:
    """Check that a gradebook can be written for the students of a roster.

    Raises:
        UsageError: the roster is another platform's, or a worksheet for one assignment.
    """
    form, export = {
        "--canvas": ("canvas", "Canvas's gradebook (Grades, Export)"),
        "--moodle": ("moodle", "Moodle's grader report; a grading worksheet is for one assignment"),
    }[option]
    if roster.form != form:
        raise UsageError(f"{option} needs --roster FILE with the export of {export}")


def _columns(term: Term, rows: Sequence[Row], roster: Roster) -> list[Column]:
    columns = []
    for lab in term.labs:
        marks = [(row.student.person, row.marks[lab.lab.name]) for row in rows]
        cells = {
            person: "" if mark.total is None else plain(mark.total)
            for person, mark in marks
            if mark.total is not None or mark.is_excused
        }
        columns.append(Column(lab_column(roster, lab.lab), str(lab.max_score), cells))
    averages = {row.student.person: row.average_text for row in rows if row.average_text}
    return [*columns, Column(AVERAGE, "100", averages)]
