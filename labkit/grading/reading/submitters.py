"""The students in the lists that Gradescope and Classroom 50 export beside the submissions.

Their entries have numbers or names of repositories, and a list says who handed in each:

- Gradescope (*Export Submissions*): `submission_45678/`, and `submission_metadata.yml` with the
  `:submitters:` of each folder, several for a group. A student is called
  `Ada Lovelace_4711_gradescope_45678`: with the student's id, or the email if there is none.
- Classroom 50 (`gh teacher download`): `CLASSROOM-ASSIGNMENT-USERNAME/`, and `scores.csv` with the
  user names. Members of a group have the same `submission_tag` and `review_url` in it, and only the
  owner has a repository. A student is called by the user name.

Classroom 50's columns are those of `cli/gh-teacher/internal/download/download.go` in
`foundation50/classroom50`; Gradescope describes its list nowhere, and the form here is that of its
exports.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

import yaml

from labkit.errors import UsageError

GRADESCOPE, CLASSROOM50 = "submission_metadata.yml", "scores.csv"
# Gradescope's list has the output of each test.
MOST_LIST_BYTES = 256 << 20
_COLUMNS = frozenset(["username", "submission_tag", "review_url"])
_FIX = "export the submissions again, or remove the file: then students are called as the folders"


def submitters_of(
    names: Collection[str], read: Callable[[str], bytes]
) -> tuple[str, Mapping[str, list[str]]]:
    """Return the name of the list among entries, or "", and by entry the students it names.

    Args:
        names: the names of the entries.
        read: returns the content of an entry that is a file.

    Raises:
        UsageError: a list has another form.
    """
    if GRADESCOPE in names:
        return GRADESCOPE, _of_gradescope(read(GRADESCOPE))
    if CLASSROOM50 in names:
        table = _of_classroom50(read(CLASSROOM50), names)
        return (CLASSROOM50, table) if table is not None else ("", {})
    return "", {}


def _of_gradescope(data: bytes) -> dict[str, list[str]]:
    # This loader makes texts only, whatever the list contains.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        table = yaml.load(data, loader)
        return {
            folder: [_gradescope_name(folder, student) for student in facts[":submitters"]]
            for folder, facts in table.items()
        }
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError) as error:
        why = str(error).partition("\n")[0]
        raise UsageError(f"{GRADESCOPE} is not Gradescope's list ({why}): {_FIX}") from None


def _gradescope_name(folder: str, student: Mapping[str, str]) -> str:
    name = student.get(":name", "").replace("_", " ").replace("/", " ")
    key = student.get(":sid") or student.get(":email") or name
    return f"{name}_{key}_gradescope_{folder.rpartition('_')[2]}"


def _of_classroom50(data: bytes, names: Collection[str]) -> dict[str, list[str]] | None:
    """Return the students of each repository; None if the file is not Classroom 50's list."""
    lines = csv.DictReader(io.StringIO(data.decode("utf-8-sig", "replace"), newline=""))
    if not _COLUMNS.issubset(lines.fieldnames or ()):
        return None
    work: dict[tuple[str, str], list[str]] = defaultdict(list)
    users: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        user, key = line["username"], (line["submission_tag"] or "", line["review_url"] or "")
        users.setdefault(user, []).append(key)
        if all(key) and user not in work[key]:
            work[key].append(user)
    owners = {}
    for name in names:
        ends = (user for user in users if user and name.lower().endswith(f"-{user.lower()}"))
        if owner := max(ends, key=len, default=""):
            members = [member for key in users[owner] for member in work.get(key, ())]
            owners[name] = [*dict.fromkeys([owner, *members])]
    return owners
