"""A grade as data: the points that one submission earned in one lab, and why.

Equal submissions have grades that are equal to the byte: a grade holds no times and no paths.
"""

from dataclasses import dataclass, fields
from typing import Any

from labkit.running.reporting.explain import GradedTest
from labkit.running.result_kind import ResultKind

SCHEMA = "labkit/grade/v2"
# The values that a grade depends on: submission, lab, assignment, mode.
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Grade:
    """The points of a submission.

    Attributes:
        student: the name of the file or folder that was handed in.
        lab: folder name of the lab.
        submission: SHA-256 of the submitted files, see `Submission.digest`.
        assignment: SHA-256 of all else that the score depends on, see `Assignment.digest`.
        seed: the seed of the randomised tests.
        mode: the walls around the submission, see `labkit.isolation.sandbox`.
        fault: why no test could run, for people; None if tests ran.
        looks_like: the name of the common mistake that a probe showed, if any.
        tests: the result of each test, the lab's own first.
        doubt: why the score may not be the submission's fault, for people; None if there is no
            doubt.
        remarks: sentences about the files that were handed in, for their student and the
            instructor. A ledger does not keep them; each reading of the files makes them.
    """

    student: str
    lab: str
    submission: str
    assignment: str
    seed: str
    mode: str
    fault: str | None
    looks_like: str | None
    tests: tuple[GradedTest, ...]
    doubt: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        """The values that the grade depends on; the student is not among them."""
        return self.submission, self.lab, self.assignment, self.mode

    @property
    def score(self) -> int:
        """The points earned."""
        return sum(test.score for test in self.tests)

    @property
    def max_score(self) -> int:
        """The points to be earned."""
        return sum(test.max_score for test in self.tests)

    def to_json(self) -> dict[str, Any]:
        """Return the grade as JSON; `schemas/grade.schema.json` describes it."""
        return {
            "schema": SCHEMA,
            "student": self.student,
            "lab": self.lab,
            "submission": self.submission,
            "assignment": self.assignment,
            "seed": self.seed,
            "mode": self.mode,
            "score": self.score,
            "max_score": self.max_score,
            "fault": self.fault,
            "looks_like": self.looks_like,
            "doubt": self.doubt,
            "remarks": [*self.remarks],
            "tests": [_test_to_json(test) for test in self.tests],
        }

    @classmethod
    def from_json(cls, document: Any) -> "Grade":
        """Return the grade whose `to_json` is this document.

        Raises:
            ValueError, TypeError, LookupError: the document is not the JSON of a grade.
        """
        if document["schema"] != SCHEMA:
            raise ValueError(f"the schema is {document['schema']!r}; {SCHEMA!r} is read")
        facts = {
            field.name: document[field.name] for field in fields(cls) if field.name != "remarks"
        }
        # Grades made before there were remarks have none.
        facts["remarks"] = tuple(document.get("remarks", ()))
        return cls(**{**facts, "tests": tuple(map(_test_from_json, document["tests"]))})


def _test_to_json(test: GradedTest) -> dict[str, Any]:
    return {
        "name": test.name,
        "rule": test.rule,
        "task": test.task,
        "passed": test.passed,
        "kind": test.kind.value,
        "message": test.message,
        "detail": test.detail,
        "for_student": test.for_student,
        "score": test.score,
        "max_score": test.max_score,
        "visibility": test.visibility,
    }


def _test_from_json(row: Any) -> GradedTest:
    facts = {field.name: row[field.name] for field in fields(GradedTest)}
    return GradedTest(**{**facts, "kind": ResultKind(row["kind"])})
