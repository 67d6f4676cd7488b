"""The name of an entry in a platform's zip, and the facts about the student in it.

- Moodle: `Ada Lovelace_4711_assignsubmission_file`, a folder; or a file, `_` and its name follow.
  The number is the participant's in this assignment. The group of all who are in no group has no
  number. A text typed on the page is an entry of its own, `..._assignsubmission_onlinetext`.
- Canvas: `lovelaceada_4711_90210_starter`, with `_LATE` before the first number or without. The
  first number is the user's id, the second the file's, so a student with two files has two entries.
  Files handed in again end with `-1`. A text typed on the page is `lovelaceada_4711_text`, and
  without names an entry begins with `anon_` and five letters and digits. A group's name may have
  `_` in it.
- Gradescope: as `labkit.grading.reading.submitters` makes them.

So the names are made by Moodle's `mod/assign/classes/downloader.php` and by Canvas's
`lib/content_zipper.rb`. When feedback is uploaded, both platforms find the student by these
numbers, so the names of feedback files contain them as well.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

_MOODLE = re.compile(
    r"([^_]*)_(?:([0-9]{1,12})_)?assign(?:submission|feedback)_[a-z]+(?:_(.*))?", re.S
)
_CANVAS = re.compile(
    r"([^_]*)(_LATE)?_([0-9]{1,18})_(?:([0-9]{1,18})(?:_(.*))?|(?:text|link)(?:\.html)?)", re.S
)
# Canvas takes `_` and digits out of names, but not `_`; so long a number is a file's.
_CANVAS_GROUP = re.compile(r"(.+?)(_LATE)?_([0-9]{1,18})_([0-9]{4,18})(?:_(.*))?", re.S)
_GRADESCOPE = re.compile(r"([^_]*)_(.*)_gradescope_([0-9A-Za-z]+)", re.S)
_CANVAS_ANONYMOUS = re.compile(r"(LATE_)?anon_([0-9A-Za-z]{5})_([0-9]{1,18})(?:_(.*))?", re.S)
_LAB = re.compile(r"^lab[-_ ]?[0-9]{1,2}[-_ ]|[-_ ]lab[-_ ]?[0-9]{1,2}$", re.I)


@dataclass(frozen=True)
class EntryName:
    """The name of an entry, taken apart.

    Attributes:
        platform: `moodle`, `canvas`, `gradescope`, or "" if the name has another form.
        name: the student's name, as far as the entry contains it.
        id: the student's number on the platform, or "".
        id_part: the part by which the platform finds the student; it ends with `_`.
        is_late: whether the platform has marked the entry as late; Moodle does not.
        file: the name of the student's own file, as far as the entry contains it.
        upload: the number of the file, which is larger for a later one, or 0.
    """

    platform: str
    name: str
    id: str
    id_part: str
    is_late: bool = False
    file: str = ""
    upload: int = 0


def read_entry_name(student: str) -> EntryName:
    """Return the parts of an entry's name, which is a grade's name of its student."""
    if match := _MOODLE.fullmatch(student):
        number = match[2] or ""
        id_part = f"{f'_{number}' * bool(number)}_assignsubmission_file_"
        return EntryName("moodle", match[1], number, id_part, file=match[3] or "")
    if match := _GRADESCOPE.fullmatch(student):
        return EntryName("gradescope", match[1], match[2], f"_{match[3]}_")
    if match := _CANVAS.fullmatch(student) or _CANVAS_GROUP.fullmatch(student):
        name, late, number, upload, file = match.groups()
        id_part = f"_{number}_{upload}_" if upload else f"_{number}_"
        is_late = late is not None
        return EntryName("canvas", name, number, id_part, is_late, file or "", int(upload or 0))
    if match := _CANVAS_ANONYMOUS.fullmatch(student):
        late, code, upload, file = match.groups()
        id_part = f"_anon_{code}_{upload}_"
        return EntryName(
            "canvas", f"anon {code}", code, id_part, late is not None, file or "", int(upload)
        )
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
