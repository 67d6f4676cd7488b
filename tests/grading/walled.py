"""Grading sources in tests: of the tiny repository's lab, in any mode."""

import ast
import json
import os
from pathlib import Path

from labkit.course.lab import find_labs
from labkit.grading.grade import Assignment, grade
from labkit.grading.reading.submission import Submission
from labkit.isolation.sandbox import Sandbox, WorkerRoot

# Workers of a slot share a user, and so can end each other: no two test runs share a slot.
SLOT = 1_000 + os.getpid()
TINY = Path(__file__).parents[1] / "tiny_repo"
CHEATS = sorted(Path(__file__).with_name("cheats").glob("*.py"))


class Grader:
    """Grades in one mode; use it with `with`."""

    def __init__(self, mode, root=TINY):
        self.labs = find_labs(root)
        self._root = WorkerRoot()
        self.sandbox = Sandbox(mode, self._root)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._root.__exit__()

    def grade(self, source, lab=None):
        """Return the grade as data."""
        lab = lab or self.labs[0]
        submission = Submission("someone", lab.name, {lab.name: source})
        return grade(submission, Assignment.of(lab, self.labs), self.sandbox, SLOT).as_dict()

    def honest(self):
        """Return the grade of the solution, as bytes."""
        return json.dumps(self.grade(self.labs[0].solution.read_bytes())).encode()


def earns(cheat):
    """Return what a cheat says that its honest work earns."""
    for node in ast.parse(cheat.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EARNS":
            return ast.literal_eval(node.value)
    raise AssertionError(f"{cheat} does not say what it earns")
