"""Marks in the columns of a gradebook, as CSV; equal marks make equal bytes.

- nbgrader: its export's columns, a row for each mark; after them, the points in each task and in
  each test that has points.
- Canvas (Grades, Import): `Student`, `ID` and the other columns that name students, and a column
  for the lab. If a title of the export names the lab, that column is used, so Canvas fills that
  assignment; otherwise Canvas's import asks for the assignment.
- Moodle: the grading worksheet as it was exported, with `Grade` filled in (in the assignment:
  Upload grading worksheet), or the columns that name students, and a column for the lab (in the
  gradebook: Import, CSV file).

The gradebooks for Canvas and Moodle list the students of the platform's own export. A student
without a mark keeps the cell of the export: a missing submission is not a 0, and an empty cell
would delete a grade, as Canvas's `lib/gradebook_importer.rb` and Moodle's
`grade/import/csv/classes/load_data.php` read it. The instructor may enter a 0.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.grading.grade import Grade
from labkit.grading.marks.csv_files import inert, title_of
from labkit.grading.marks.mark import Mark, plain
from labkit.grading.marks.marking import Marking
from labkit.grading.marks.roster import Person, Roster
from labkit.grading.marks.students import Student
from labkit.grading.reports.fitting import line
from labkit.grading.reports.statistics import score_in

# By column of nbgrader's export, the value for a mark.
_NBGRADER: Mapping[str, Callable[[Mark], object]] = {
    "assignment": lambda mark: mark.lab,
    "duedate": lambda mark: mark.due,
    "timestamp": lambda mark: mark.submitted,
    "student_id": lambda mark: _name(mark.student),
    "last_name": lambda mark: _name(mark.last),
    "first_name": lambda mark: _name(mark.first),
    "email": lambda mark: _name(mark.email),
    "raw_score": lambda mark: mark.score,
    "late_submission_penalty": lambda mark: plain(mark.late),
    "score": lambda mark: _points(mark),
    "max_score": lambda mark: mark.max_score,
}
_CANVAS = (
    "student",
    "lastname",
    "firstname",
    "id",
    "sis user id",
    "sis login id",
    "integration id",
    "root account",
    "section",
)
_MOODLE = (
    "first name", "last name", "surname", "full name", "id number", "username", "institution",
    "department", "email address",
)  # fmt: skip
# Neither platform finds students by these columns, and students may choose their content.
_NAMES = frozenset(
    ["student", "lastname", "firstname", "first name", "last name", "surname", "full name"]
)
_TASK = "task "
_POINTS_POSSIBLE = "    Points Possible"
# The limit of spreadsheets.
_LONGEST_CELL = 32_000
# How Canvas writes that a student is excused from an assignment.
_EXCUSED = "EX"


def nbgrader_csv(marks: Iterable[Mark], grades: Iterable[Grade] = ()) -> str:
    """Return marks in nbgrader's columns, then the points by task and by test.

    `raw_score` is the sum of the tests, `score` the mark. If a student handed in nothing, the cells
    of the points are empty. With several labs, the cells of other labs' tests are empty.

    Args:
        marks: the marks.
        grades: the grades; they have the tests.
    """
    by_who = {(grade.student, grade.lab): grade for grade in grades}
    points = {who: _points_in(grade) for who, grade in by_who.items()}
    titles = dict.fromkeys(title for own in points.values() for title in own)
    # Several labs have a task 1, so its column is beside those of the other tasks.
    titles_in_order = sorted(titles, key=lambda title: not title.startswith(_TASK))
    return csv_text(
        [*_NBGRADER, *map(_name, titles_in_order)],
        [
            [cell(mark) for cell in _NBGRADER.values()]
            + [points.get((mark.student, mark.lab), {}).get(title, "") for title in titles_in_order]
            for mark in marks
        ],
    )


def _points_in(grade: Grade) -> dict[str, int]:
    """Return the points of a grade by title of a column: the tasks, then the tests with points."""
    tests = [test for test in grade.tests if test.max_score]
    tasks = sorted({test.task for test in tests if test.task is not None})
    by_task = {f"{_TASK}{task}": score_in(grade, task) for task in tasks}
    return by_task | {test.name: test.score for test in tests}


def _name(text: str) -> str:
    return inert(line(text, _LONGEST_CELL))


def check_roster(option: str, roster: Roster | None) -> None:
    """Check that a gradebook can be written for the students of a roster.

    Raises:
        UsageError: the roster is missing, or is another platform's.
    """
    forms = {"--canvas": ("canvas",), "--moodle": ("moodle", "worksheet")}[option]
    exports = {
        "--canvas": "Canvas's gradebook (Grades, Export)",
        "--moodle": "Moodle's grading worksheet or grader report",
    }
    if roster is None or roster.form not in forms:
        raise UsageError(f"{option} needs --roster FILE with the export of {exports[option]}")


@dataclass(frozen=True, eq=False)
class Column:
    """A column of marks in a platform's gradebook.

    Attributes:
        title: the title.
        most: the points possible.
        cells: by the line of the roster; an excused student's cell is empty. Other students without
            a mark have none.
    """

    title: str
    most: str
    cells: Mapping[Person | None, str]


def canvas_csv(marking: Marking, marks: Mapping[Student, Mark], lab: Lab) -> str:
    """Return marks as Canvas's gradebook imports them."""
    return canvas_columns(_roster(marking), [_column(marking, marks, lab)])


def canvas_columns(roster: Roster, columns: Sequence[Column]) -> str:
    """Return columns of marks as Canvas's gradebook imports them."""
    titles = [title for title in roster.table.titles if title_of(title) in _CANVAS]
    columns = [
        replace(column, cells={who: cell or _EXCUSED for who, cell in column.cells.items()})
        for column in columns
    ]
    most = [column.most for column in columns]
    rows = [[_POINTS_POSSIBLE, *[""] * (len(titles) - 1), *most]]
    if title_of(titles[0]) not in ("student", "lastname"):
        rows = []
    return _with_columns(roster, titles, rows, columns)


def moodle_csv(marking: Marking, marks: Mapping[Student, Mark], lab: Lab) -> str:
    """Return marks as Moodle's assignment or gradebook imports them."""
    roster = _roster(marking)
    if roster.form == "worksheet":
        titles = [*roster.table.titles]
        place = [*map(title_of, titles)].index("grade")
        rows = []
        for student in _listed(marking):
            cells = _cells(student.person, titles)
            cells[place] = _points(marks.get(student)) or cells[place]
            rows.append(cells)
        return csv_text(titles, rows)
    return moodle_columns(roster, [_column(marking, marks, lab)])


def moodle_columns(roster: Roster, columns: Sequence[Column]) -> str:
    """Return columns of marks as Moodle's gradebook imports them."""
    titles = [title for title in roster.table.titles if title_of(title) in _MOODLE]
    return _with_columns(roster, titles, [], columns)


def _column(marking: Marking, marks: Mapping[Student, Mark], lab: Lab) -> Column:
    cells = {
        student.person: _points(mark)
        for student, mark in marks.items()
        if mark.exists or mark.is_excused
    }
    return Column(lab_column(_roster(marking), lab), str(_most(marks)), cells)


def _roster(marking: Marking) -> Roster:
    if marking.roster is None:
        raise UsageError("a gradebook needs --roster FILE")
    return marking.roster


def _listed(marking: Marking) -> list[Student]:
    return [student for student in marking.students.all if student.person is not None]


def _with_columns(
    roster: Roster, titles: list[str], rows: list[list[str]], columns: Sequence[Column]
) -> str:
    """Return rows, and a row for each student of the roster: some cells of its line, and the marks.

    Without a mark, a cell is that of the roster's column, if there is one: an empty cell would
    delete the platform's mark.
    """
    own = [column.title for column in columns]
    for person in roster.people:
        present = dict(zip(own, _cells(person, own), strict=True))
        marks = [column.cells.get(person, present[column.title]) for column in columns]
        rows.append([*_cells(person, titles), *marks])
    return csv_text([*titles, *own], rows)


def _cells(person: Person | None, titles: list[str]) -> list[str]:
    """Return a line of the roster unchanged, except that names cannot be formulas."""
    row = person.row.cells if person is not None else {}
    cells = []
    for title in map(title_of, titles):
        cell = row.get(title, "")
        cells.append(inert(cell) if title in _NAMES else cell)
    return cells


def _points(mark: Mark | None) -> str:
    """Return the cell of a mark; without a mark it is empty."""
    return plain(mark.total) if mark is not None and mark.exists else ""


def _most(marks: Mapping[Student, Mark]) -> int:
    return max((mark.max_score for mark in marks.values()), default=0)


def lab_column(roster: Roster, lab: Lab) -> str:
    """Return the title of the roster that names the lab, if only one does, else the short name."""
    own = re.compile(rf"(?<![a-z])lab[-_ ]?0*{int(lab.number)}(?![0-9])", re.IGNORECASE)
    matches = [title for title in roster.table.titles if own.search(title)]
    real = [title for title in matches if "(real)" in title.casefold()] or matches
    return real[0] if len(real) == 1 else lab.label


def csv_text(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(rows)
    return out.getvalue()
