"""A browser's Python says of the same code what this Python says: verdicts, points, diagnosis.

`make site ARGS=--test` compares every reference and starter, and a bug and an attempt of each lab,
and `make soak` every bug and five attempts.
"""

import os
from pathlib import Path

import pytest
from interpreter import LONG

from labkit.course.lab import ROOT, find_labs
from labkit.gates.attempts import folder_of, read_attempts
from labkit.gates.attempts import source_of as source_of_attempt
from labkit.gates.lab_runs.runs import run_lab
from labkit.running.lab_impl import Implementation

LABS = find_labs(ROOT)
BY_NUMBER = {lab.number: lab for lab in LABS}
SOAK = bool(os.environ.get("SOAK"))
ATTEMPTS = 5 if SOAK else 1


def implementations(lab, folder):
    bugs = [f"bug:{bug.name}" for bug in lab.bugs]
    attempts = [str(path) for path in write_attempts(lab, folder)]
    return ["solution", str(lab.pristine_starter), *(bugs if SOAK else bugs[:1]), *attempts]


def write_attempts(lab, folder):
    """Yield the files of some attempts, from all over the list."""
    place = folder_of(ROOT, lab)
    attempts = read_attempts(place)
    for attempt in attempts[len(attempts) // (2 * ATTEMPTS) :: len(attempts) // ATTEMPTS]:
        path = folder / attempt.file
        path.write_bytes(source_of_attempt(place, attempt))
        yield path


def source_of(lab, chosen):
    if not chosen.startswith("bug:"):
        path = lab.solution if chosen == "solution" else Path(chosen)
        return path.read_text("utf-8")
    bug = next(bug for bug in lab.bugs if f"bug:{bug.name}" == chosen)
    return Implementation("bug", lab.solution, bug).source().decode()


def said_here(lab, chosen):
    """Return kinds, points and diagnosis of this Python, of the tests that a browser can run."""
    told = run_lab(ROOT, lab, chosen)
    assert "error" not in told, told
    names = {test.name: test.points for test in lab.tests if not test.needs}
    kinds = {name: told["tests"][name]["kind"] for name in names}
    score = sum(points for name, points in names.items() if kinds[name] == "passed")
    # What only tests with a need see is not looked for there.
    return kinds, score, told["looks_like"] if {*kinds.values()} != {"passed"} else ""


def said_there(python, lab, chosen):
    # A page has a fresh Python for each run. Here each lab has one, since a boot takes a second.
    told = python.run(lab.number, source_of(lab, chosen), fresh=chosen == "solution")
    assert "result" in told, told
    report = told["result"]
    looks_like = (report["looks_like"] or {"name": ""})["name"]
    return report["verdicts"], report["score"], looks_like


def forgive_late(here, there):
    """Let both sides fail alike where one ended slow code: when depends on the load."""
    for name, kind in here.items():
        both = {kind, there.get(name)}
        if "timeout" in both and "passed" not in both:
            here[name] = there[name] = "timeout"


@LONG
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", BY_NUMBER)
def test_every_reference_starter_bug_and_attempt_says_the_same(python, number, tmp_path):
    lab, different = BY_NUMBER[number], {}
    for chosen in implementations(lab, tmp_path):
        there, here = said_there(python, lab, chosen), said_here(lab, chosen)
        if chosen.startswith(str(tmp_path)):
            forgive_late(here[0], there[0])
        if there != here:
            kinds = {name: (there[0].get(name), kind) for name, kind in here[0].items()
                     if there[0].get(name) != kind}  # fmt: skip
            different[chosen] = kinds, there[1:], here[1:]
    assert not different
