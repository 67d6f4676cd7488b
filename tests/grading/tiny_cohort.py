"""A cohort for the tiny lab: submissions that differ, and tests that count how often they run.

Some submissions make the trusted side fail, which no real one should be able to: the lab's tests
here do as they say. `DIE` kills the process that runs the tests, `DIE ONCE` only the first one.
"""

import json
import os
import shutil
from itertools import cycle, islice

import pytest

from labkit.course.lab import find_labs
from labkit.grading.assignment import Assignment
from labkit.grading.reading.submission import Submission
from labkit.running.lab_impl import Implementation

MODE = "sandbox" if shutil.which("bwrap") else "trust"
OBEY = '''

import os
from pathlib import Path

HERE = Path(__file__).parent


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("this cannot be told")


@pytest.mark.given
def test_obey(lab):
    """Count, and do what the submission says."""
    with open(HERE / "count", "ab") as file:
        file.write(b".")
    trace = lab.script(lab.new("Pairs"), [("feed", "obey")])
    said = trace.outputs[0] if trace.outputs else ""
    if said == "DIE ONCE" and not (HERE / "died").exists():
        (HERE / "died").touch()
        os.kill(os.getpid(), 9)
    if said == "DIE":
        os.kill(os.getpid(), 9)
    if said == "FAIL":
        raise Unspeakable
'''


def assignments(root):
    """Return the assignments of a tiny repository, whose tests are made to count first."""
    labs = find_labs(root)
    text = labs[0].test_file.read_text()
    if OBEY not in text:
        labs[0].test_file.write_text(text + OBEY)
    return {lab.name: Assignment.of(lab, labs) for lab in find_labs(root)}


def gradings(assignments):
    """Return how many gradings have begun."""
    (assignment,) = assignments.values()
    count = assignment.lab.path / "count"
    return count.stat().st_size if count.exists() else 0


def cohort(assignments, size):
    """Return submissions that all differ: the solution, the starter, and each bug in turn."""
    ((name, assignment),) = assignments.items()
    lab = assignment.lab
    # The slow one spends seconds to show what others show as well.
    bugs = [bug for bug in lab.bugs if bug.name != "slow"]
    sources = [
        lab.solution.read_bytes(),
        lab.pristine_starter.read_bytes(),
        *(Implementation("bug", lab.solution, bug).source() for bug in bugs),
    ]
    return [
        Submission(f"student-{number:04}", name, {name: source + b"\n# %d" % number})
        for number, source in enumerate(islice(cycle(sources), size))
    ]


def real_cohort(root):
    """Return the assignments of a real course, and for each the same kinds of submissions."""
    labs = find_labs(root)
    told = {lab.name: Assignment.of(lab, labs) for lab in labs}
    work = [item for lab in labs for item in cohort({lab.name: told[lab.name]}, len(lab.bugs) + 2)]
    return told, work


def saying(assignments, words, number=0):
    """Return a submission whose every answer is `words`; another number is another submission."""
    ((name, _),) = assignments.items()
    source = (
        f"class Pairs:\n    held = {number}\n    def feed(self, text):\n        return {words!r}\n"
    )
    return Submission("sayer", name, {name: source.encode()})


def text(grades):
    """Return grades as bytes that can be compared."""
    return json.dumps([grade.to_json() for grade in grades], indent=1)


def give_up(reason):
    """Skip a test, or fail it where nothing may be missing: in CI."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def alive(mark):
    """Return the processes that have `mark` in their environment."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as environment:
                if mark.encode() in environment.read():
                    found.append(int(name))
        except OSError:
            continue
    return found
