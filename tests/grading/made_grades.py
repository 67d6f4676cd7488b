"""Grades and sources of students who never were, for tests of reports."""

import random
from hashlib import sha256

from disguise import invented

TESTS = [("test_a", 1, 20), ("test_b", 1, 30), ("test_c", 2, 20), ("test_d", 2, 30)]


def made_cohort(count, lab="lab-90-pairs"):
    """So many grades, as `Grade.as_dict()` has them, and the sources by digest."""
    generator = random.Random(count)
    grades, sources = [], {}
    for number in range(count):
        source = invented(number)
        digest = sha256(source).hexdigest()
        sources[digest] = source
        tests = []
        for name, task, points in TESTS:
            good = generator.random() < 0.3 + 0.6 * number / count
            kind = "passed" if good else generator.choice(["assertion", "raised", "unwritten"])
            tests.append(
                {"name": name, "rule": f"The rule of {name}.", "task": task, "passed": good,
                 "kind": kind, "message": "" if good else f"expected 1, got {number}",
                 "detail": "", "score": points * good, "max_score": points,
                 "visibility": "visible"}
            )  # fmt: skip
        grades.append(
            {"schema": "labkit/grade/v1", "student": f"s{number:03}", "lab": lab,
             "submission": digest, "assignment": "a" * 64, "seed": "0", "mode": "sandbox",
             "score": sum(test["score"] for test in tests), "max_score": 100, "fault": None,
             "looks_like": None, "tests": tests}
        )  # fmt: skip
    return grades, sources
