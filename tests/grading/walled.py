"""Grading sources in tests: of the tiny repository's lab, in any mode."""

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from labkit.course.lab import find_labs
from labkit.grading import grader
from labkit.grading.assignment import Assignment
from labkit.grading.grader import grade
from labkit.grading.reading.submission import Submission
from labkit.isolation import host, isolated_run, meter

TINY = Path(__file__).parents[1] / "tiny_repo"
# Read at once, because tests of what a learner sees take it away.
IN_CI = bool(os.environ.get("CI")) and sys.platform == "linux"


def give_up(reason):
    """Skip a test, or fail it where nothing may be missing: in CI."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def hurried(patch, cpu=0.1, sleep=0.1):
    """Give submissions little time, and look often whether it is over."""
    patch.setattr(isolated_run, "TEST_LIMIT", cpu)
    patch.setattr(grader, "MOST_SECONDS", cpu)
    patch.setattr(meter, "_SLEEP_SECONDS", sleep)
    patch.setattr(host, "_TICK_SECONDS", 0.02)
    patch.setattr(host, "_END_SECONDS", 0.1)


def brief(patch, long="test_property_linear"):
    """Run the first test of a task in place of the long ones, which are those of linear cost.

    For tests of what is done with results, in this process; the scores are what they were.
    """
    whole = isolated_run.test_functions

    def test_functions(path):
        functions, firsts = {**whole(path)}, {}
        for name, function in whole(path).items():
            marks = getattr(function, "pytestmark", [])
            for task in (mark.args for mark in marks if mark.name == "task"):
                first = firsts.setdefault(task, function)
                if name.startswith(long):
                    functions[name] = first
        return functions

    patch.setattr(isolated_run, "test_functions", test_functions)


class NotedSandbox:
    """A sandbox, and which users the workers became that were started by this."""

    def __init__(self, sandbox):
        self.mode, self.of, self.users = sandbox.mode, sandbox, set()

    def start(self):
        worker = self.of.start()
        self.users.add(str(worker.user))
        return worker


class Grader:
    """Grades sources, each in a new worker.

    Args:
        sandbox: starts the workers.
        course: the repository whose labs are graded.
    """

    def __init__(self, sandbox, course=TINY):
        self.labs = find_labs(course)
        self.sandbox = NotedSandbox(sandbox)

    def grade(self, source, lab=None):
        """Return the grade as data."""
        lab = lab or self.labs[0]
        submission = Submission("someone", lab.name, {lab.name: source})
        return grade(submission, Assignment.of(lab, self.labs), self.sandbox).to_json()

    def honest(self):
        """Return the grade of the solution, as bytes."""
        return json.dumps(self.grade(self.labs[0].solution.read_bytes())).encode()

    def processes(self):
        """Return the numbers of the processes that this grader's workers are, or have left."""
        parents, left = {}, []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                status = Path(f"/proc/{name}/status").read_text()
                parents[int(name)] = int(re.search(r"^PPid:\t(\d+)", status, re.M)[1])
                if self.sandbox.users & {*re.search(r"^Uid:(.*)", status, re.M)[1].split()}:
                    left.append(int(name))
        top = self.sandbox.of._zygote._process.pid
        if self.sandbox.mode == "sandbox":
            # The zygote is the child of bubblewrap.
            top = next(child for child, its in parents.items() if its == top)
        found = [top]
        for parent in found:
            found += [child for child, its in parents.items() if its == parent]
        return left + found[1:]
