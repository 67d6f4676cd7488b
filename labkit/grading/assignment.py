"""The assignment that submissions are graded against: lab, parts, hidden tests, seed, digest.

The digest decides whether a grade in a ledger is still valid, and whether a worker on another
machine has the same course.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from labkit.course.hunt import Pool
from labkit.course.imports import imported_files
from labkit.course.lab import FACTS, ROOT, Lab
from labkit.course.manifest import Test
from labkit.grading.overlay import HiddenTest, Overlay
from labkit.grading.reading.submission import digest_of
from labkit.running.diagnose import FILE as MISTAKES
from labkit.running.hunting.hidden_pool import whole_pool
from labkit.running.lab_impl import Implementation
from labkit.running.score import PUBLIC_SEED

# The entry points of grading: reading a submission, grading it, and the process that holds it.
GRADER = (
    "labkit/grading/reading/inputs.py",
    "labkit/grading/grader.py",
    "labkit/isolation/worker.py",
)


@dataclass(frozen=True)
class Assignment:
    """A lab to grade, and the parts for submissions that bring none.

    Attributes:
        lab: the lab.
        parts: by folder name of a lab, its reference.
        seed: the seed of the randomised tests.
        overlay: the lab's hidden tests, if it has any.
        whole: all implementations of a hunt; if None, the published ones.
    """

    lab: Lab
    parts: Mapping[str, Implementation]
    seed: str = PUBLIC_SEED
    overlay: Overlay | None = None
    whole: Pool | None = None

    @classmethod
    def of(
        cls, lab: Lab, labs: list[Lab], seed: str = PUBLIC_SEED, overlay: Overlay | None = None
    ) -> "Assignment":
        """Return the assignment of a lab among those of a repository."""
        solutions = {other.name: Implementation("solution", other.solution) for other in labs}
        whole = None if lab.hunt is None else whole_pool(lab, labs)
        parts = {name: solutions[name] for name in lab.parts.values()}
        return cls(lab, parts, seed, overlay, whole)

    @property
    def pool(self) -> Pool | None:
        """The implementations of a hunt."""
        return None if self.lab.hunt is None else self.whole or self.lab.pool

    @property
    def hidden(self) -> tuple[HiddenTest, ...]:
        """The tests that the students do not have."""
        return () if self.overlay is None else self.overlay.tests

    @property
    def tests(self) -> tuple[Test, ...]:
        """All tests with the points that they have here, the lab's own first."""
        if self.pool is not None:
            return self.tests_when(())
        if self.overlay is None:
            return self.lab.tests
        return (*self.overlay.public_tests(), *self.overlay.tests)

    def tests_when(self, dead: Collection[str]) -> tuple[Test, ...]:
        """Return the tests of a hunt in which some wrong implementations are dead.

        There may be more than 100 implementations, so the dead ones decide which tests have a
        point. Nothing else depends on `dead`.
        """
        assert self.pool is not None
        return self.lab.tests_of(self.pool, dead)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything that a grade depends on, except the submission.

        It is the same in every copy of the course, whatever its folder.
        """
        return digest_of(("seed", self.seed), ("python", str(sys.version_info[:2])), *self._files())

    def _files(self) -> Iterator[tuple[str | bytes, ...]]:
        lab = self.lab
        tests = [lab.test_file] if self.overlay is None else [lab.test_file, self.overlay.path]
        mistakes = [lab.path / MISTAKES] if (lab.path / MISTAKES).exists() else []
        programs = [path for path in lab.given_files if path.suffix == ".py"]
        roots = [*(ROOT / name for name in GRADER), *tests, *mistakes, *programs]
        for name, data in imported_files(roots, ROOT).items():
            yield "course", name, data
        for path in (lab.path / FACTS, *tests, *mistakes):
            yield "lab", path.name, path.read_bytes()
        for path in lab.given_files:
            yield "given", path.name, path.read_bytes()
        for name, part in sorted(self.parts.items()):
            yield "part", name, part.path.name, part.source()
        for code in self.pool.codes if self.pool is not None else ():
            yield "pool", code.target.lab, code.name, code.program()
