"""Work of a group, handed in once: each member gets a submission of their own, with the same files.

Moodle's zip has an entry for each group, `Pair 1_17_assignsubmission_file`. The number is the
group's, and may also be the number of a participant who has nothing to do with it. The grading
worksheet has the group of each participant. Equal files are graded once.

So does Moodle's `mod/assign/classes/downloader.php`; before there was that file, in Moodle 4.0 and
older, the zip had an entry for each member, `Pair 1-Ada Lovelace_4001_assignsubmission_file`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from labkit.grading.marks.roster import Person, Roster, folded, read_roster, words_of
from labkit.grading.reading.entry_name import EntryName, read_entry_name
from labkit.grading.reading.submission import Remark, Submission, one_line

# The column of Moodle's worksheet, `submissionteam` in its language pack.
COLUMN = "group"


def of_members(submissions: Iterable[Submission], roster: Path | None) -> list[Submission]:
    """Return submissions in which each of a group's is replaced by one for each member.

    Args:
        submissions: the submissions.
        roster: Moodle's grading worksheet; with another roster, or none, nothing is replaced.

    Raises:
        UsageError: the roster cannot be read.
    """
    people = None if roster is None else read_roster(roster)
    members = {} if people is None else _members(people)
    if people is None or not members:
        return [*submissions]
    by_number = {person.id: person for person in people.people}
    expanded = (
        member for submission in submissions for member in _expanded(submission, members, by_number)
    )
    return sorted(expanded, key=lambda submission: (submission.lab, submission.student))


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
