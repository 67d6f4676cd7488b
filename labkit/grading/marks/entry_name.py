"""The name of an entry in a platform's zip, and the facts about the student in it.

- Moodle: `Ada Lovelace_4711_assignsubmission_file`, a folder; `_` or the name of a file may follow.
  The number is the participant's in this assignment.
- Canvas: `lovelaceada_4711_90210_starter`, with `_LATE` before the first number or without. The
  first number is the user's id, the second the file's. Files handed in again end with `-1`.

When feedback is uploaded, both platforms find the student by these numbers, so the names of
feedback files contain them as well.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

_MOODLE = re.compile(r"([^_]*)_([0-9]{1,12})_assign(?:submission|feedback)_[a-z]+(?:_.*)?", re.S)
_CANVAS = re.compile(r"([^_]*)(?:_LATE)?_([0-9]{1,18})_([0-9]{1,18})(?:_.*)?", re.S)
_LAB = re.compile(r"^lab[-_ ]?[0-9]{1,2}[-_ ]|[-_ ]lab[-_ ]?[0-9]{1,2}$", re.I)


@dataclass(frozen=True)
class EntryName:
    """The name of an entry, taken apart.

    Attributes:
        platform: `moodle`, `canvas`, or "" if the name has another form.
        name: the student's name, as far as the entry contains it.
        id: the student's number on the platform, or "".
        id_part: the part by which the platform finds the student; it ends with `_`.
    """

    platform: str
    name: str
    id: str
    id_part: str


def read_entry_name(student: str) -> EntryName:
    """Return the parts of an entry's name, which is a grade's name of its student."""
    if match := _MOODLE.fullmatch(student):
        return EntryName("moodle", match[1], match[2], f"_{match[2]}_assignsubmission_file_")
    if match := _CANVAS.fullmatch(student):
        return EntryName("canvas", match[1], match[2], f"_{match[2]}_{match[3]}_")
    return EntryName("", _LAB.sub("", student), "", "_")


def short_names(entries: Collection[str]) -> dict[str, str]:
    """Return a short name of each entry, for lists: the student's name if only one student has it.

    If several students have one name, their platform's number follows the name.
    """
    entry_names = {entry: read_entry_name(entry) for entry in entries}
    names = {
        entry: parts.name if parts.platform and parts.name else entry
        for entry, parts in entry_names.items()
    }
    taken = Counter(names.values())
    for entry, parts in entry_names.items():
        if parts.platform and taken[names[entry]] > 1:
            names[entry] = f"{parts.name} ({parts.id})"
    counts = Counter(names.values())
    return {entry: name if counts[name] == 1 else entry for entry, name in names.items()}
