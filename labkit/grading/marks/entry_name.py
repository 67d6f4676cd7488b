"""What a platform's zip says about a student in the name of an entry.

- Moodle: `Ada Lovelace_4711_assignsubmission_file`, a folder, with or without `_` or the name of a
  file behind it. The number is the participant's in this assignment.
- Canvas: `lovelaceada_4711_90210_starter`, with `_LATE` before the first number or without. The
  first number is the user's id, the second that of the file. Files handed in again end with `-1`.

Both platforms find the student by these numbers when feedback is uploaded, so it has them too.
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
        platform: `moodle`, `canvas`, or "" where the name is nobody's form.
        name: the student's, as far as it tells.
        id: the student's number there, or "".
        id_part: what a platform needs of the name to find the student by; it ends with `_`.
    """

    platform: str
    name: str
    id: str
    id_part: str


def read_entry_name(student: str) -> EntryName:
    """Return what the name of an entry says, with which a grade calls its student."""
    if match := _MOODLE.fullmatch(student):
        return EntryName("moodle", match[1], match[2], f"_{match[2]}_assignsubmission_file_")
    if match := _CANVAS.fullmatch(student):
        return EntryName("canvas", match[1], match[2], f"_{match[2]}_{match[3]}_")
    return EntryName("", _LAB.sub("", student), "", "_")


def short_names(entries: Collection[str]) -> dict[str, str]:
    """Return what a list for people calls each entry: the student's name, where just one has it.

    Of several students of one name, those of a platform have their number behind it.
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
