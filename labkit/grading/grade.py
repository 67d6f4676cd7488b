"""Grading one submission: its lab's tests, run here, on its code, run behind a pipe.

A grade is plain data, equal to the byte for equal submissions: it holds no times and no paths.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab
from labkit.course.manifest import Test
from labkit.grading.overlay import VISIBLE, HiddenTest, Overlay
from labkit.grading.reading.plain import one_line, printable, repeatable
from labkit.grading.reading.submission import MOST_SOURCE_BYTES, Submission
from labkit.isolation.host import Host, Sources
from labkit.isolation.isolated_run import Planned, run_isolated
from labkit.isolation.sandbox import Sandbox
from labkit.running.lab_run import LabRun
from labkit.running.loader import Implementation, short_hash
from labkit.running.report import explain

SCHEMA = "labkit/grade/v1"
# A source in another encoding says so in its first two lines.
_ENCODING = re.compile(rb"[ \t\f]*#.*?coding[:=]")


@dataclass(frozen=True)
class Assignment:
    """A lab to grade, and what its parts are where a submission brings none.

    Attributes:
        lab: the lab.
        parts: by folder name of a lab, its reference.
        seed: of the randomised tests.
        overlay: its hidden tests, if it has any.
    """

    lab: Lab
    parts: Mapping[str, Implementation]
    seed: str = "0"
    overlay: Overlay | None = None

    @classmethod
    def of(
        cls, lab: Lab, labs: list[Lab], seed: str = "0", overlay: Overlay | None = None
    ) -> "Assignment":
        """Return the assignment of a lab among those of a repository."""
        solutions = {other.name: Implementation("solution", other.solution) for other in labs}
        return cls(lab, {name: solutions[name] for name in lab.parts.values()}, seed, overlay)

    @property
    def hidden(self) -> tuple[HiddenTest, ...]:
        """The tests that the students do not have."""
        return () if self.overlay is None else self.overlay.tests

    @property
    def tests(self) -> tuple[Test, ...]:
        """All tests with the points that they have here, the lab's own first."""
        if self.overlay is None:
            return self.lab.tests
        return (*self.overlay.public_tests(), *self.overlay.tests)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of all that a score depends on besides the submission."""
        hash = sha256(f"{self.seed} {sys.version_info[:2]}".encode())
        for path in (self.lab.test_file, self.lab.path / "lab.toml", *_grader_files()):
            hash.update(path.read_bytes())
        for bug in self.lab.bugs:
            # Of a known bug only this shows in a grade, and only this is handed on.
            hash.update(f"{bug.name} {sorted(bug.killed_by)}".encode())
        for name, part in sorted(self.parts.items()):
            hash.update(name.encode() + part.source())
        if self.overlay is not None:
            hash.update(self.overlay.digest.encode())
        return hash.hexdigest()


def grade(submission: Submission, assignment: Assignment, sandbox: Sandbox, slot: int) -> "Grade":
    """Return the grade of a submission; it has one whatever the submission does.

    Args:
        submission: what was handed in.
        assignment: what it is graded against.
        sandbox: starts the process that holds it.
        slot: a number that no other grading has at this time.
    """
    lab = assignment.lab
    source = submission.sources.get(lab.name)
    fault = submission.fault or _fault_of(source)
    run = LabRun(
        lab, Implementation("path", Path("starter.py")), short_hash(source or b""), assignment.seed
    )
    if fault is None and source is not None:
        host = Host(sandbox, _sources(source, submission, assignment), slot)
        try:
            run_isolated(run, host, _hidden(assignment))
        finally:
            host.close()
    return Grade(submission, assignment, sandbox.mode, run, fault)


@dataclass(frozen=True)
class Grade:
    """What a submission earned.

    Attributes:
        submission: what was graded.
        assignment: against what.
        mode: how it was walled in, see `labkit.isolation.sandbox`.
        run: the results of the tests; empty if there was a fault.
        fault: why no test could run, or None.
    """

    submission: Submission
    assignment: Assignment
    mode: str
    run: LabRun
    fault: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the grade as plain data; `schemas/grade.schema.json` describes it."""
        lab, run = self.assignment.lab, self.run
        bug = run.looks_like()
        tests = []
        for test in self.assignment.tests:
            result = run.results.get(test.name)
            passed = run.passed(test)
            tests.append(
                {
                    "name": test.name,
                    "rule": test.rule,
                    "task": test.task,
                    "passed": passed,
                    "kind": "not-run" if result is None else result.kind,
                    "message": repeatable((self.fault or "") if result is None else result.message),
                    "detail": repeatable(explain(test, result)) if result and not passed else "",
                    "score": test.points if passed else 0,
                    "max_score": test.points,
                    "visibility": getattr(test, "visibility", VISIBLE),
                }
            )
        return {
            "schema": SCHEMA,
            "student": one_line(self.submission.student),
            "lab": lab.name,
            "submission": self.submission.digest,
            "assignment": self.assignment.digest,
            "seed": self.assignment.seed,
            "mode": self.mode,
            "score": sum(row["score"] for row in tests),
            "max_score": sum(row["max_score"] for row in tests),
            "fault": None if self.fault is None else printable(self.fault),
            "looks_like": None if bug is None else bug.name,
            "tests": tests,
        }


def _fault_of(source: bytes | None) -> str | None:
    if source is None:
        return "there is no starter.py for this lab in it"
    if len(source) > MOST_SOURCE_BYTES:
        return f"starter.py has {len(source)} bytes; at most {MOST_SOURCE_BYTES} are read"
    if not source.strip():
        return "starter.py is empty"
    if b"\0" in source:
        return f"starter.py is not UTF-8 (byte {source.index(0)} is NUL); save it as UTF-8"
    if not any(map(_ENCODING.match, source.split(b"\n", 2)[:2])):
        try:
            source.decode("utf-8")
        except UnicodeDecodeError as error:
            line, byte = source.count(b"\n", 0, error.start) + 1, source[error.start]
            return f"starter.py line {line} is not UTF-8 (byte 0x{byte:02x}); save it as UTF-8"
    return None


def _hidden(assignment: Assignment) -> list[Planned]:
    overlay = assignment.overlay
    if overlay is None:
        return []
    functions, seed = overlay.functions(), f"{assignment.seed}/{overlay.digest}"
    return [(test, functions[test.name], seed) for test in overlay.tests]


def _sources(source: bytes, submission: Submission, assignment: Assignment) -> Sources:
    modules = {"submission": ("starter.py", "starter.py", source)}
    parts = {}
    for class_name, folder in assignment.lab.parts.items():
        own = submission.sources.get(folder)
        if own is None:
            part = assignment.parts[folder]
            modules[folder] = (part.path.name, part.filename, part.source())
        else:
            modules[folder] = ("starter.py", f"{folder}/starter.py", own)
        parts[class_name] = folder
    return Sources("submission", modules, parts)


def _grader_files() -> list[Path]:
    here = Path(__file__).resolve().parents[1]
    events = here.parent / "mini_vllm" / "text" / "events.py"
    own = Path(__file__).resolve()
    rooms = ("course", "running", "isolation")
    return [*sorted(file for room in rooms for file in (here / room).glob("*.py")), own, events]
