import math
import random
from dataclasses import replace

import made_grades
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.grading.reports.statistics import (
    failed_most,
    is_attempt,
    lab_statistics,
    point_biserial,
)


def made_grade(student, passed, *, kind="assertion", **changes):
    """A grade with one free test and one test of 20 points per flag; tasks 1, 1, 2, 2, ..."""
    tests = [made_grades.made_test("test_free", None, 0)]
    for number, good in enumerate(passed):
        told = "passed" if good else kind
        tests.append(made_grades.made_test(f"test_{number}", number // 2 + 1, 20, told))
    return made_grades.made_grade(student, tests, **changes)


COHORT = [
    made_grade("a", [True, True, True, True, True]),
    made_grade("b", [True, True, True, False, True], looks_like="drops"),
    made_grade("c", [True, True, False, False, False], looks_like="drops"),
    made_grade("d", [True, False, False, False, True], looks_like="early"),
]


def test_difficulty_is_the_share_that_passed_and_discrimination_leaves_the_test_itself_out():
    items = {item.name: item for item in lab_statistics(COHORT).items}
    assert [items[f"test_{n}"].difficulty for n in range(5)] == [1, 0.75, 0.5, 0.25, 0.75]
    assert items["test_2"].passed == 2
    # test_2: passed 1 1 0 0; the rest is 80 60 40 40.
    assert items["test_2"].discrimination == round(30 / math.sqrt(275) * 0.5, 3)
    # test_4: passed 1 1 0 1; the rest is 80 60 40 20: nearly nothing to do with the others.
    assert items["test_4"].discrimination == pytest.approx(0.258, abs=0.001)

    # It is undefined where nothing varies.
    assert items["test_0"].discrimination is None
    assert items["test_free"].discrimination is None
    assert all(item.discrimination is None for item in lab_statistics(COHORT[:2]).items)
    same_rest = [made_grade("a", [True, False]), made_grade("b", [False, False])] * 2
    assert lab_statistics(same_rest).items[1].discrimination is None


def textbook(passed, scores):
    """(M1 - M0) / s * sqrt(p q): the point-biserial formula as textbooks have it."""
    yes = [score for good, score in zip(passed, scores, strict=True) if good]
    no = [score for good, score in zip(passed, scores, strict=True) if not good]
    mean = sum(scores) / len(scores)
    spread = math.sqrt(sum((score - mean) ** 2 for score in scores) / len(scores))
    gap = sum(yes) / len(yes) - sum(no) / len(no)
    return gap / spread * math.sqrt(len(yes) * len(no)) / len(scores)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 100)), max_size=40))
def test_point_biserial_is_the_textbook_formula(pairs):
    passed, scores = [good for good, _ in pairs], [score for _, score in pairs]
    got = point_biserial(passed, scores)
    if len(pairs) < 3 or len(set(passed)) < 2 or len(set(scores)) < 2:
        assert got is None
    else:
        assert got == pytest.approx(textbook(passed, scores), abs=0.0006)


def test_scores_in_tenths_with_the_top_in_the_last():
    grades = [made_grade(str(n), [True] * n + [False] * (5 - n)) for n in range(6)]
    assert lab_statistics(grades).histogram.counts == (1, 0, 1, 0, 1, 0, 1, 0, 1, 1)


def test_mean_and_median_are_of_all_submissions():
    grades = [*COHORT, made_grade("e", [False] * 5, fault="no file")]
    got = lab_statistics(grades)
    assert (got.submissions, got.attempts, got.max_score) == (5, 4, 100)
    assert (got.mean, got.median) == (52, 40)


def test_untouched_starters_do_not_make_tests_look_hard():
    idle = [made_grade(f"idle{n}", [False] * 5, kind="unwritten") for n in range(10)]
    assert lab_statistics(COHORT + idle).items == lab_statistics(COHORT).items
    assert not is_attempt(idle[0])
    assert not is_attempt(made_grade("x", [False] * 5, kind="load"))
    assert is_attempt(made_grade("x", [False] * 5, kind="timeout"))


def test_tasks_mistakes_nobody():
    got = lab_statistics(COHORT)
    assert got.tasks == {1: 0.875, 2: 0.375, 3: 0.75}
    bars = {task: bars.counts for task, bars in got.task_histograms.items()}
    assert bars == {
        1: (0, 0, 0, 0, 0, 1, 0, 0, 0, 3),
        2: (2, 0, 0, 0, 0, 1, 0, 0, 0, 1),
        3: (1, 0, 0, 0, 0, 0, 0, 0, 0, 3),
    }
    assert [got.task_histograms[task].max_score for task in bars] == [40, 40, 20]
    # The hardest first, in the order of the lab if they are equally hard; none that all passed.
    assert [item.name for item in failed_most(got, 3)] == ["test_3", "test_2", "test_1"]
    assert {item.name for item in failed_most(got, 9)} == {"test_1", "test_2", "test_3", "test_4"}
    assert list(got.mistakes.items()) == [("drops", 2), ("early", 1)]
    free = made_grades.made_test("test_free", None, 0, "assertion")
    no_points = [replace(grade, tests=(free, *grade.tests[1:])) for grade in COHORT]
    assert "test_free" not in {item.name for item in failed_most(lab_statistics(no_points), 9)}
    assert got.nobody == ()
    assert lab_statistics(COHORT[2:]).nobody == ("test_2", "test_3")


def test_the_order_of_submissions_changes_nothing():
    flags = [[n % 2 < 1, n % 3 < 1, n > 5, n % 5 < 2, n % 7 < 3] for n in range(30)]
    grades = [made_grade(f"s{n}", passed) for n, passed in enumerate(flags)]
    wanted = lab_statistics(grades)
    for seed in range(5):
        random.Random(seed).shuffle(grades)
        assert lab_statistics(grades) == wanted


def test_no_grades_no_attempts_and_grades_of_two_labs():
    assert lab_statistics([]).mean is None
    assert lab_statistics([made_grade("x", [False], fault="no file")]).items == ()
    with pytest.raises(ValueError, match="several labs"):
        lab_statistics([*COHORT, replace(COHORT[0], lab="lab-91")])
