"""A cohort for the tiny lab: submissions that differ, and tests that count how often they run.

Some submissions make the trusted side fail, which no real one should be able to: the lab's tests
here do as they say. `DIE` kills the process that runs the tests, `DIE ONCE` only the first one,
`SPEND` ends it as a system does when it has computed for too long, `FAIL` has the grader fail, and
`WAIT 1` has it wait for a file `GO 1`, so that a test can act at a moment of its choice.
"""

import json
import time
from itertools import cycle, islice

from labkit.course.lab import find_labs
from labkit.grading.assignment import Assignment
from labkit.grading.reading.submission import Submission
from labkit.running.lab_impl import Implementation

OBEY = '''

import os
import signal
import time
from pathlib import Path

from labkit.errors import InfrastructureError
from labkit.isolation import meter

HERE = Path(__file__).parent


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
    if said == "SPEND":
        os.kill(os.getpid(), signal.SIGXCPU)
    if said == "FAIL":
        raise InfrastructureError
    if said.startswith("WAIT"):
        # For however long it is: this process ends with its test.
        meter._SLEEP_SECONDS = meter._TOTAL_SLEEP_SECONDS = 1e9
        (HERE / f"{said} {os.getpid()}").touch()
        while not (HERE / said.replace("WAIT", "GO")).exists():
            time.sleep(0.01)
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


def real_cohort(root, whole):
    """Return the assignments of a real course, and for each the same kinds of submissions.

    The sample that is not whole has six submissions of one lab.
    """
    labs = find_labs(root)
    graded = labs if whole else labs[:1]
    told = {lab.name: Assignment.of(lab, labs) for lab in graded}
    work = [
        item
        for lab in graded
        for item in cohort({lab.name: told[lab.name]}, len(lab.bugs) + 2 if whole else 6)
    ]
    return told, work


def saying(assignments, words, number=0):
    """Return a submission whose every answer is `words`; another number is another submission."""
    ((name, _),) = assignments.items()
    source = (
        f"class Pairs:\n    held = {number}\n    def feed(self, text):\n        return {words!r}\n"
    )
    return Submission("sayer", name, {name: source.encode()})


def in_stages(assignments):
    """Return submissions of which 4 are graded, then 2 wait for `GO 1`, 3 more, 2 for `GO 2`."""
    good = cohort(assignments, 9)
    first, second = ([saying(assignments, f"WAIT {n}", i) for i in range(2)] for n in (1, 2))
    return [*good[:4], *first, *good[4:7], *second, *good[7:]]


def waiting(assignments, stage, number):
    """Return the processes that wait or have waited for a stage, as soon as there are so many."""
    (assignment,) = assignments.values()
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        found = [path.name.split()[-1] for path in assignment.lab.path.glob(f"WAIT {stage} *")]
        if len(found) >= number:
            return [*map(int, found)]
        time.sleep(0.01)
    raise AssertionError(f"{found} wait for stage {stage}; there should be {number}")


def go(assignments, stage):
    """Let those go on that wait for a stage."""
    (assignment,) = assignments.values()
    (assignment.lab.path / f"GO {stage}").touch()


def plain(grades):
    """Return grades as plain data."""
    return [grade.to_json() for grade in grades]


def text(grades):
    """Return grades as text, equal if they are equal to the byte."""
    return json.dumps(grades, indent=1)
