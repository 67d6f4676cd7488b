"""Matching students: submissions, lines of a roster, and the names of students in other tables.

Nothing is guessed. A student is matched by the whole text (the entry's name, an id, a login, an
email), else by the platform's number in it, else by the name or number in it, else by the words of
their full name. The first of these that matches decides; if it matches two students, that is an
error which names both.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from labkit.errors import UsageError
from labkit.grading.marks.roster import OPTION, Person, Roster, folded, words_of
from labkit.grading.reading.entry_name import read_entry_name

_MOST_NAMED = 10
# By form of a roster, the platform whose zip of submissions uses the same numbers.
_PLATFORMS = {"canvas": "canvas", "worksheet": "moodle"}


@dataclass(frozen=True, eq=False)
class Student:
    """A student who handed in, or is on the roster, or both.

    Attributes:
        entry: the name in a grade; None if the student handed in nothing.
        person: the student's line of the roster, or None.
    """

    entry: str | None
    person: Person | None

    @property
    def name(self) -> str:
        """The name for people."""
        person, entry = self.person, self.entry or ""
        if person is not None and person.name:
            return person.name
        own = read_entry_name(entry).name or entry
        return own if person is None or own else person.email or min(person.keys, default=person.id)


class Identity(NamedTuple):
    """A student in another grading, whose entry may have another name there.

    Attributes:
        entry: the name in the grade.
        name, email: as in that grading's roster, or "".
    """

    entry: str
    name: str = ""
    email: str = ""


class Students:
    """All students of a grading.

    Args:
        entries: the students who handed in, as grades name them.
        roster: the course's list, if there is one.

    Raises:
        UsageError: an entry matches two people of the roster, or a person two entries.
    """

    def __init__(self, entries: Iterable[str], roster: Roster | None = None) -> None:
        people = () if roster is None else roster.people
        self.unlisted: list[str] = []
        form = "" if roster is None else roster.form
        matches: dict[int, str] = {}
        for entry, place in places_of(entries, roster).items():
            if place is None:
                self.unlisted.append(entry)
            elif place in matches:
                raise UsageError(
                    f"{OPTION}: {_label(people[place])} handed in both {matches[place]!r} and "
                    f"{entry!r}; remove one"
                )
            else:
                matches[place] = entry
        self.all: Sequence[Student] = [
            *(Student(matches.get(place), person) for place, person in enumerate(people)),
            *(Student(entry, None) for entry in self.unlisted),
        ]
        self._index = _Index(_known_by(student, form) for student in self.all)

    def find(self, text: str, where: str) -> Student | None:
        """Return the student in a cell of another table, or None.

        Args:
            text: the cell.
            where: the place of the cell, for messages.

        Raises:
            UsageError: the cell matches several students.
        """
        place = self._index.find(text, f"{where}: {text!r}", lambda n: repr(self.all[n].name))
        return None if place is None else self.all[place]

    def identified(self, identity: Identity, where: str) -> Student | None:
        """Return the student of another grading, or None.

        Moodle has other numbers in each assignment, so there the email and the name decide.

        Raises:
            UsageError: the name fits several students.
        """
        parts = read_entry_name(identity.entry)
        by_name = (identity.name or parts.name) if parts.platform != "canvas" else ""
        texts = (identity.email, identity.entry, by_name)
        matches = (self.find(text, where) for text in texts if text)
        return next((student for student in matches if student is not None), None)


def places_of(entries: Iterable[str], roster: Roster | None) -> dict[str, int | None]:
    """Return by entry the place of its student in a roster, or None.

    Raises:
        UsageError: an entry matches two people of the roster.
    """
    people = () if roster is None else roster.people
    form = "" if roster is None else roster.form
    owners = _Index(_known_by(Student(None, person), form) for person in people)
    return {
        entry: owners.find(
            entry, f"{OPTION}: the submission {entry!r}", lambda n: _label(people[n])
        )
        for entry in entries
    }


class _Known(NamedTuple):
    """The identifiers of a student, the surest first."""

    whole: set[str]
    numbers: set[tuple[str, str]]
    exact: set[str]
    names: set[tuple[str, ...]]

    def tiers(self) -> tuple[set[Any], ...]:
        """Return the identifiers in order."""
        return self.whole, self.numbers, self.exact, self.names


class _Index:
    """Places of students, by their identifiers."""

    def __init__(self, known: Iterable[_Known]) -> None:
        self._tiers: list[dict[Hashable, list[int]]] = [defaultdict(list) for _ in _Known._fields]
        self._platforms = set[str]()
        for place, identity in enumerate(known):
            self._platforms |= {platform for platform, _ in identity.numbers}
            for index, keys in zip(self._tiers, identity.tiers(), strict=True):
                for key in keys:
                    index[key].append(place)

    def find(self, text: str, what: str, label: Callable[[int], str]) -> int | None:
        """Return the place that a text matches, or None.

        Raises:
            UsageError: the text matches several; the message says `what` the text is, and names
                the students.
        """
        for index, keys in zip(self._tiers, _known_as(text).tiers(), strict=True):
            places = sorted({place for key in keys for place in index.get(key, ())})
            if len(places) > 1:
                who = " or ".join(map(label, places[:3]))
                raise UsageError(f"{what} may be {who}: name one of them by id or email")
            if places:
                return places[0]
            if index is self._tiers[1] and {platform for platform, _ in keys} & self._platforms:
                # The platform's own number is not known, so a student of this name is another.
                return None
        return None


def _known_as(text: str) -> _Known:
    """Return the identifiers in a text, which is an entry's name or a cell."""
    parts = read_entry_name(text)
    numbers = {(parts.platform, parts.id)} if parts.platform else set()
    exact = {folded(text), folded(parts.name), parts.id} - {""}
    return _Known({folded(text)}, numbers, exact, {words_of(parts.name)} - {()})


def _known_by(student: Student, form: str) -> _Known:
    known = _Known(set(), set(), set(), set())
    if student.entry is not None:
        known = _known_as(student.entry)
    person = student.person
    if person is None:
        return known
    platform = _PLATFORMS.get(form)
    numbers = {(platform, person.id)} if platform and person.id else set()
    return _Known(
        known.whole | person.keys,
        known.numbers | numbers,
        known.exact | person.keys | ({person.id} - {""}),
        known.names | ({words_of(person.name)} - {()}),
    )


def listed(names: Sequence[str]) -> str:
    """Return names for a message; if there are many, only the first few."""
    shown = ", ".join(map(repr, names[:_MOST_NAMED]))
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _label(person: Person) -> str:
    return f"{person.name!r} ({person.row.place.rpartition(' ')[2]})"
