"""A death is the submission's only if it comes again when nothing else is graded."""

import pytest
from made_grades import made_grade, made_test
from walled import Grader

from labkit.grading.assignment import Assignment
from labkit.grading.reading.submission import Submission
from labkit.grading.retry import judged

CLEAN = made_grade("", [made_test("test_a", 1, 100)])


def killed(where):
    return made_grade("", [made_test("test_a", 1, 100, "raised", where)], doubt=where)


AGAIN = ", and again when it was graded alone"


@pytest.mark.parametrize(
    ("ends", "tries", "score", "doubt"),
    [
        ([CLEAN], 1, 100, None),
        ([killed("in a"), CLEAN], 2, 100, None),
        (["died", CLEAN], 2, 100, None),
        ([killed("in a"), killed("in a")], 2, 0, "in a" + AGAIN),
        (["died", "died"], 2, 0, "died"),
        ([killed("in a"), "died", CLEAN], 3, 100, None),
        ([killed("in a"), killed("in b"), killed("in a")], 3, 0, "in a" + AGAIN),
        (["died", killed("in b"), "failed"], 3, 0, "failed"),
    ],
)
def test_only_the_same_end_again_counts(tiny_lab, ends, tries, score, doubt):
    work, left, asked = [Submission("ann", "lab-90"), Submission("bob", "lab-90")], [*ends], []

    def outcomes(items, alone):
        asked.append(([place for place, _ in items], alone))
        for place, submission in items:
            assert submission == work[place]
            yield place, CLEAN if place == 1 else left.pop(0)

    grades = dict(judged(work, {"lab-90": Assignment(tiny_lab, {})}, "trust", outcomes))
    assert (grades[0].score, grades[0].doubt, grades[1]) == (score, doubt, CLEAN)
    assert asked == [([0, 1], False), *[([0], True)] * (tries - 1)]


@pytest.mark.parametrize(
    ("act", "doubt"),
    [
        ("os.kill(os.getpid(), 9)", "its process was killed in test_pairs and 6 more"),
        ("os.kill(os.getpid(), 11)", None),
        ("os._exit(9)", None),
    ],
)
def test_a_signal_that_may_come_from_elsewhere_is_noted(sandbox_in, act, doubt):
    grader = Grader(sandbox_in("trust"))
    source = grader.labs[0].solution.read_text().replace("even =", f"import os; {act}; even =")
    told = grader.grade(source.encode())
    assert told["doubt"] == doubt
