"""Grades and sources of students who never were, for tests of reports."""

import random
from dataclasses import replace
from hashlib import sha256

from disguise import invented

from labkit.grading.grade import Grade
from labkit.running.reporting.explain import GradedTest
from labkit.running.result_kind import ResultKind

TESTS = [("test_a", 1, 20), ("test_b", 1, 30), ("test_c", 2, 20), ("test_d", 2, 30)]


def made_test(name, task, points, kind="passed", message="", detail="", **changes):
    """What became of one test."""
    told = GradedTest(
        name, f"The rule of {name}.", task, ResultKind(kind), message, detail, detail, points
    )
    return replace(told, **changes)


def made_grade(student, tests, **changes):
    """A grade with these tests."""
    told = Grade(student, "lab-90-pairs", "5" * 64, "a" * 64, "0", "sandbox", None, None, (*tests,))
    return replace(told, **changes)


def with_tests(grade, **changes):
    """A grade whose every test is changed in this way."""
    return replace(grade, tests=tuple(replace(test, **changes) for test in grade.tests))


def made_cohort(count, **changes):
    """So many grades, and the sources by digest."""
    generator = random.Random(count)
    grades, sources = [], {}
    for number in range(count):
        source = invented(number)
        digest = sha256(source).hexdigest()
        sources[digest] = source
        tests = []
        for row in TESTS:
            if generator.random() < 0.3 + 0.6 * number / count:
                tests.append(made_test(*row))
            else:
                kind = generator.choice(["assertion", "raised", "unwritten"])
                tests.append(made_test(*row, kind, f"expected 1, got {number}"))
        grades.append(made_grade(f"s{number:03}", tests, submission=digest, **changes))
    return grades, sources
