"""The list of a course's students, as a platform exports it, or as `student,id,name,email`.

The titles of the columns identify the form:

| form | exported by | identifying titles |
|---|---|---|
| `canvas` | Canvas: Grades, Export | `Student` or `LastName`, `ID`, `Section` or a `SIS` title |
| `worksheet` | Moodle: the assignment, Download grading worksheet | `Identifier`, `Grade` |
| `moodle` | Moodle: grader report or participants, as CSV | `Email address` or `ID number` |
| `plain` | by hand | `student`: the name of the entry, a login, or a number |
| `plain` | Gradescope: Download Grades; Classroom 50: `roster.csv` | `SID`, `Email`; `username` |
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import UsageError
from labkit.grading.marks.csv_files import Row, Table, read_csv

OPTION = "--roster"
# Columns that identify a student exactly.
_KEYS = (
    "id", "id number", "sid", "sis user id", "sis login id", "integration id", "username", "login",
    "email", "email address", "github username",
)  # fmt: skip
_EMAILS = ("email", "email address")
_PARTICIPANT = re.compile(r"\D*([0-9]+)")


@dataclass(frozen=True, eq=False)
class Person:
    """A student of the course.

    Attributes:
        id: the student's number in the platform's zip of submissions, or "".
        keys: other exact identifiers, as `folded` returns them.
        name: the name in the roster, or "".
        first, last: the parts of the name, if the roster separates them.
        email: the address, or "".
        row: the line of the roster.
    """

    id: str
    keys: frozenset[str]
    name: str
    first: str
    last: str
    email: str
    row: Row


@dataclass(frozen=True)
class Roster:
    """The students of a course, in the order of the file."""

    form: str
    table: Table
    people: tuple[Person, ...]


def folded(text: str) -> str:
    """Return a name in the form for comparisons: without capitals, in one Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name, sorted: `Lovelace, Ada` and `Ada Lovelace` have the same."""
    return tuple(sorted(folded(name).replace(",", " ").split()))


def read_roster(path: Path) -> Roster:
    """Return the roster in a file.

    Raises:
        UsageError: the file is not CSV, or lacks the columns of a roster.
    """
    table = read_csv(path, OPTION)
    form = _form(table)
    rows = (row for row in table.rows if not _is_of_the_gradebook(row, form))
    people = tuple(_person(row, form) for row in rows)
    if not people:
        raise UsageError(f"{OPTION} {path} does not name any student")
    return Roster(form, table, people)


def _form(table: Table) -> str:
    known = table.known
    names = {"student", "lastname"} & known
    if names and "id" in known and known & {"sis user id", "sis login id", "section"}:
        return "canvas"
    if {"identifier", "grade"} <= known:
        return "worksheet"
    if known & {"email address", "id number"}:
        return "moodle"
    if "student" in known or "username" in known or {"sid", "email"} <= known:
        return "plain"
    raise UsageError(
        f"{OPTION} {table.path} has the columns {', '.join(table.titles)}: export Canvas's "
        "gradebook, Moodle's grading worksheet or grader report in English, or make a file with "
        "the columns student,id,name,email"
    )


def _is_of_the_gradebook(row: Row, form: str) -> bool:
    """Return whether a line is about columns, not about a student."""
    return form == "canvas" and not row.cells["id"]


def _person(row: Row, form: str) -> Person:
    cells = row.cells
    first = cells.get("first name", "")
    last = cells.get("last name", "") or cells.get("surname", "")
    name = cells.get("full name", "") or cells.get("name", "") or f"{first} {last}".strip()
    number = ""
    if form == "canvas":
        name, number = cells.get("student", ""), cells["id"]
        parts = (cells.get("lastname", ""), cells.get("firstname", ""))
        name = name or ", ".join(filter(None, parts))
        last, _, first = (part.strip() for part in name.partition(","))
    elif form == "worksheet":
        match = _PARTICIPANT.fullmatch(cells["identifier"])
        number = match[1] if match else ""
        # Without names, as Moodle exports them for anonymous marking.
        name = name or cells["identifier"]
    email = next((cells[title] for title in _EMAILS if cells.get(title)), "")
    return Person(number, frozenset(_keys(row, form, email)), name, first, last, email, row)


def _keys(row: Row, form: str, email: str) -> Iterator[str]:
    titles = ("student", *_KEYS) if form == "plain" else _KEYS
    for title in titles:
        if row.cells.get(title):
            yield folded(row.cells[title])
    if "@" in email:
        yield folded(email.partition("@")[0])
