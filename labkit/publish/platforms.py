"""Common code for platforms: reading one student's files from their folder, and writing results.

In a checkout, only files that have a place in this course are read.
"""

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.grading.grade import Grade
from labkit.grading.reading.choice import STARTER
from labkit.grading.reading.contents import with_remark
from labkit.grading.reading.one_student import Course, faulty, of_tree
from labkit.grading.reading.submission import Submission
from labkit.grading.reading.tree import Refused, read_folder
from labkit.isolation.mode import choose_mode
from labkit.running.diagnose import read_mistakes
from labkit.running.reporting.explain import GradedTest
from labkit.running.source import MOST_SOURCE_BYTES

_PROVISIONAL = (
    "This score is provisional: it uses the same cases as `make lab`. Your instructor grades "
    "again, with other cases."
)


def read_upload(folder: Path, lab: Lab, labs: list[Lab]) -> Submission:
    """Return a student's upload for a lab: a file, a bundle, or an unpacked zip of one."""
    try:
        return with_remark(of_tree("", read_folder(folder), Course(labs, lab), lab), labs)
    except Refused as error:
        return faulty("", lab, str(error))


def read_checkout(folder: Path, lab: Lab) -> Submission:
    """Return a student's repository as a submission.

    It contains the `starter.py` of the lab and of its parts, each at its place in this course, or
    only the lab's, in the top folder.
    """
    phase = lab.path.parent.parent.name
    sources: dict[str, bytes] = {}
    try:
        tree = read_folder(folder)
        for name in (lab.name, *lab.parts.values()):
            place = f"{phase}/labs/{name}/{STARTER}"
            if place in tree:
                sources[name] = tree.read(place, MOST_SOURCE_BYTES)
        if lab.name not in sources:
            sources[lab.name] = tree.read(STARTER, MOST_SOURCE_BYTES)
    except Refused as error:
        return faulty("", lab, str(error))
    return Submission("", lab.name, sources)


def with_own_parts(submission: Submission, lab: Lab) -> Submission:
    """Return a submission for a grader without references: a missing part is a fault."""
    missing = [name for name in lab.parts.values() if name not in submission.sources]
    if submission.fault is not None or not missing:
        return submission
    return faulty(
        "",
        lab,
        f"{lab.label} is graded with your own parts, and there is no starter.py of {missing[0]}",
    )


def best_mode() -> str:
    """Return `sandbox` if it works here, else `container`.

    Raises:
        UsageError: neither works here; the message gives the reason.
    """
    try:
        return choose_mode(trust=False, container=False)
    except UsageError as first:
        try:
            return choose_mode(trust=False, container=True)
        except UsageError as second:
            raise UsageError(f"{first}. {second}") from None


def write_text(path: Path, text: str) -> None:
    """Write a file in one step; it belongs to the owner of its folder, and all users may read it.

    A link of that name is replaced, never followed.
    """
    descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=".labkit-")
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(scratch, 0o644)
    if os.geteuid() == 0:
        # The user who started this with sudo needs access to the file.
        owner = path.parent.stat()
        os.chown(scratch, owner.st_uid, owner.st_gid)
    os.replace(scratch, path)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON in ASCII, as `write_text` does."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def account(row: GradedTest) -> str:
    """Return the text for the student about one row of a grade's tests."""
    return row.for_student or "\n".join(filter(None, (f"rule      {row.rule}", row.message)))


def summary(grade: Grade, lab: Lab) -> str:
    """Return the text above the tests: the mode, the reason why no test ran, a likely cause, and
    whether the student should hand in again because a process was killed.
    """
    lines = [f"{lab.name}, graded in {grade.mode} mode."]
    if grade.fault is not None:
        lines.append(f"No test could run: {grade.fault}.")
    lines += [f"Remark: {remark}" for remark in grade.remarks]
    if grade.doubt is not None:
        lines.append(
            f"This score is in doubt: {grade.doubt}. Perhaps this machine stopped the process, for "
            "example for lack of memory. Run the autograder again."
        )
    for mistake in read_mistakes(lab.path):
        if mistake.name == grade.looks_like:
            lines.append(f"This looks like: {mistake.symptom}")
            lines.append(f"A hint: {mistake.hint}")
            lines.append(f"More hints: make hint N={lab.number} T={mistake.task}")
    return "\n".join(lines)


def markdown(grade: Grade, lab: Lab) -> str:
    """Return a grade from its student's own repository as a page: the summary, a table, and each
    failure in full.
    """
    lines = [f"## {lab.label}: {grade.score} of {grade.max_score} points", "", _PROVISIONAL, ""]
    lines += [*_fenced(summary(grade, lab)), "", "| test | points | |", "|---|---|---|"]
    lines += (
        f"| `{row.name}` | {row.score}/{row.max_score} | {'✓' if row.passed else '✗'} |"
        for row in grade.tests
    )
    said = set()
    for row in grade.tests:
        text = account(row)
        # A failure that stopped a whole task is shown once.
        if row.passed or (row.kind, row.message) in said:
            continue
        said.add((row.kind, row.message))
        lines += ["", f"### {row.name}", "", *_fenced(text)]
    return "\n".join(lines) + "\n"


def _fenced(text: str) -> list[str]:
    """Return a text as a code block, with a fence that the text does not contain."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", text, fence]
