"""Submissions by student, if a roster shows that entries are not one for each student.

A student with two entries, `ada` and `ada@example.edu`, has one submission: which of them is graded
is up to `labkit.grading.reading.choice`. And work of a group is handed in once: each member gets a
submission of their own, with the same files.

Moodle's zip has an entry for each group, `Pair 1_17_assignsubmission_file`. The number is the
group's, and may also be the number of a participant who has nothing to do with it. The grading
worksheet has the group of each participant. Equal files are graded once.

So does Moodle's `mod/assign/classes/downloader.php`; before there was that file, in Moodle 4.0 and
older, the zip had an entry for each member, `Pair 1-Ada Lovelace_4001_assignsubmission_file`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from labkit.course.lab import Lab
from labkit.grading.marks.roster import Person, Roster, folded, read_roster, words_of
from labkit.grading.marks.students import places_of
from labkit.grading.reading.choice import chosen
from labkit.grading.reading.entry_name import EntryName, read_entry_name
from labkit.grading.reading.submission import Remark, Submission, one_line

# The column of Moodle's worksheet, `submissionteam` in its language pack.
COLUMN = "group"


def by_student(
    submissions: Iterable[Submission], roster: Path | None, labs: Sequence[Lab]
) -> list[Submission]:
    """Return the submissions; each student of a roster has at most one for a lab.

    Args:
        submissions: the submissions.
        roster: the roster; only Moodle's grading worksheet has groups.
        labs: all labs of the course.

    Raises:
        UsageError: the roster cannot be read, or an entry matches two of its people.
    """
    if roster is None:
        return [*submissions]
    people = read_roster(roster)
    expanded = _of_members(submissions, people)
    places = places_of({submission.student for submission in expanded}, people)
    options: dict[tuple[str, int | str], dict[str, Submission]] = defaultdict(dict)
    for submission in expanded:
        place = places[submission.student]
        owner = submission.student if place is None else place
        options[submission.lab, owner][submission.student] = submission
    by_name = {lab.name: lab for lab in labs}
    merged = (chosen(own, by_name.get(lab)) for (lab, _), own in options.items())
    return sorted(merged, key=lambda submission: (submission.lab, submission.student))


def _of_members(submissions: Iterable[Submission], people: Roster) -> list[Submission]:
    """Return submissions in which each of a group's is replaced by one for each member."""
    members = _members(people)
    by_number = {person.id: person for person in people.people}
    return [
        member for submission in submissions for member in _expanded(submission, members, by_number)
    ]


def _members(roster: Roster) -> dict[str, list[Person]]:
    members: dict[str, list[Person]] = defaultdict(list)
    if roster.form == "worksheet" and COLUMN in roster.table.known:
        for person in roster.people:
            if (name := _plain(person.row.cells[COLUMN])) and person.id:
                members[name].append(person)
    return members


def _expanded(
    submission: Submission, members: dict[str, list[Person]], by_number: dict[str, Person]
) -> Iterator[Submission]:
    parts = read_entry_name(submission.student)
    group = members.get(_plain(parts.name), [])
    if parts.platform != "moodle" or not group or _is_of_one(parts, by_number):
        yield submission
        return
    remark = Remark(one_line(f"Handed in by the group {parts.name}"))
    for person in group:
        name = f"{person.name.replace('_', ' ')}_{person.id}_assignsubmission_file"
        remarks = (*submission.remarks, remark)
        yield replace(submission, student=one_line(name), remarks=remarks)


def _is_of_one(parts: EntryName, by_number: dict[str, Person]) -> bool:
    """Return whether an entry has the number and the name of one participant."""
    person = by_number.get(parts.id)
    return person is not None and words_of(person.name) == words_of(parts.name)


def _plain(name: str) -> str:
    """Return a group's name without the characters that Moodle takes out of names of files."""
    return " ".join(
        "".join(char if char.isalnum() else " " * (char in " _") for char in folded(name)).split()
    )
