"""Statistics of a cohort's grades in a lab: which tests are hard, and which separate students.

- *Difficulty* of a test is the share that passed it (0 hard, 1 easy), as in Lord and Novick,
  Statistical Theories of Mental Test Scores, 1968, chapter 15.
- *Discrimination* is the point-biserial correlation of passing it with the score on all other
  tests (Henrysson, Psychometrika 28, 1963; the test itself is left out, or it would correlate with
  itself). Near 0, passing it says nothing about the rest of the work; below 0, it deserves a look.

These numbers judge tests, not students, and with few submissions they are noise.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labkit.course.lab import Lab
from labkit.grading.grade import Grade
from labkit.grading.reports.fitting import fit
from labkit.running.diagnose import Mistake, read_mistakes

BINS = 10


@dataclass(frozen=True)
class Item:
    """One test over a cohort.

    Attributes:
        name, rule, task, points, visibility: as in the grades.
        passed: how many attempts passed it.
        difficulty: the share of attempts that passed it.
        discrimination: -1 to 1; None if it is undefined: all or none passed the test, all scored
            the same on the others, or there are fewer than three attempts.
    """

    name: str
    rule: str
    task: int | None
    points: int
    visibility: str
    passed: int
    difficulty: float
    discrimination: float | None


@dataclass(frozen=True)
class Histogram:
    """How many scores are in each tenth of the points that can be reached.

    Attributes:
        counts: the tenths; the last includes the most points.
        max_score: the most points.
    """

    counts: tuple[int, ...]
    max_score: int

    @classmethod
    def of(cls, scores: Iterable[int], most: int) -> "Histogram":
        """Return the histogram of scores, which are at most `most`."""
        counts = Counter(min(score * BINS // most, BINS - 1) for score in scores if most)
        return cls(tuple(counts[number] for number in range(BINS)), most)


@dataclass(frozen=True)
class Statistics:
    """A lab's grades in numbers.

    Attributes:
        submissions: how many grades there are.
        attempts: how many of them have a test that got as far as the student's code; `items` and
            `tasks` count only these, because an untouched starter says nothing about a test.
        max_score: the points that can be reached.
        mean, median: of all scores; None without submissions.
        histogram: the histogram of all scores.
        items: the tests, in the order of the lab; empty without attempts.
        tasks: by task, the mean share of its points.
        task_histograms: by task, how many attempts are in each tenth of its points.
        mistakes: by common mistake, how many submissions look like it; the most frequent first.
        nobody: names of tests that no attempt passed.
    """

    submissions: int
    attempts: int
    max_score: int
    mean: float | None
    median: float | None
    histogram: Histogram
    items: tuple[Item, ...]
    tasks: dict[int, float]
    task_histograms: dict[int, Histogram]
    mistakes: dict[str, int]
    nobody: tuple[str, ...]


def by_lab(grades: Iterable[Grade]) -> list[list[Grade]]:
    """Return the grades of each lab, and of each version of its tests, fit for reports.

    Args:
        grades: the grades of one lab or several.
    """
    groups: dict[tuple[str, str], list[Grade]] = defaultdict(list)
    for grade in map(fit, grades):
        groups[grade.lab, grade.assignment].append(grade)
    return [groups[key] for key in sorted(groups)]


def lab_statistics(grades: Sequence[Grade]) -> Statistics:
    """Return the statistics of grades of one lab.

    Raises:
        ValueError: the grades are not of one lab with one set of tests.
    """
    if len({(g.lab, *(test.name for test in g.tests)) for g in grades}) > 1:
        raise ValueError("these grades are of several labs or versions; take one at a time")
    attempts = [grade for grade in grades if is_attempt(grade)]
    count = len(attempts[0].tests) if attempts else 0
    totals = [grade.score for grade in attempts]
    items = tuple(_item(attempts, totals, number) for number in range(count))
    scores = [grade.score for grade in grades]
    most = max((grade.max_score for grade in grades), default=0)
    made = Counter(grade.looks_like for grade in grades if grade.looks_like is not None)
    return Statistics(
        submissions=len(grades),
        attempts=len(attempts),
        max_score=most,
        mean=round(statistics.fmean(scores), 2) if scores else None,
        median=statistics.median(scores) if scores else None,
        histogram=Histogram.of(scores, most),
        items=items,
        tasks=_tasks(attempts),
        task_histograms=_task_histograms(attempts),
        mistakes=dict(sorted(made.items(), key=lambda pair: (-pair[1], pair[0]))),
        nobody=tuple(item.name for item in items if item.passed == 0),
    )


def failed_most(numbers: Statistics, most: int) -> list[Item]:
    """Return the tests with points that the fewest attempts passed, the hardest first.

    Tests that every attempt passed are left out.

    Args:
        numbers: the statistics of a lab.
        most: how many tests to return.
    """
    failed = [item for item in numbers.items if item.points and item.passed < numbers.attempts]
    return sorted(failed, key=lambda item: item.passed)[:most]


def common_mistakes(numbers: Statistics, lab: Lab) -> list[Mistake]:
    """Return the mistakes that several students made and that the lab explains, the most frequent
    first: a single student's mistake is not for the class.
    """
    return [
        mistake
        for mistake in mistakes_of(numbers, lab)
        if mistake.symptom and numbers.mistakes[mistake.name] > 1
    ]


def mistakes_of(numbers: Statistics, lab: Lab) -> list[Mistake]:
    """Return the common mistakes that a class made, the most frequent first.

    A mistake that the lab does not have any more has neither a symptom nor a hint.
    """
    known = {mistake.name: mistake for mistake in read_mistakes(lab.path)}
    return [
        known.get(name) or Mistake(name, 0, "", "", lambda _: False) for name in numbers.mistakes
    ]


def is_attempt(grade: Grade) -> bool:
    """Whether a test of this grade got as far as the student's code.

    Tests that need no submission pass for every student; they have no points and do not count.
    """
    tried = (test for test in grade.tests if test.task is not None)
    return grade.fault is None and any(not test.kind.is_waiting for test in tried)


def point_biserial(passed: Sequence[bool], scores: Sequence[int]) -> float | None:
    """Return the correlation of a yes-or-no value with a score, rounded to three digits.

    It is Pearson's r with 1 for yes and 0 for no. None if one of the two never varies, or there are
    fewer than three pairs.
    """
    if len(passed) < 3 or len(set(passed)) < 2 or len(set(scores)) < 2:
        return None
    # Adding 0.0 turns -0.0 into 0.0.
    return round(statistics.correlation([*map(float, passed)], scores), 3) + 0.0


def _item(attempts: Sequence[Grade], totals: Sequence[int], number: int) -> Item:
    results = [grade.tests[number] for grade in attempts]
    passed = [result.passed for result in results]
    rest = [total - result.score for total, result in zip(totals, results, strict=True)]
    first = results[0]
    return Item(
        name=first.name,
        rule=first.rule,
        task=first.task,
        points=first.max_score,
        visibility=first.visibility,
        passed=sum(passed),
        difficulty=round(statistics.fmean(passed), 3),
        discrimination=point_biserial(passed, rest),
    )


def _tasks(attempts: Sequence[Grade]) -> dict[int, float]:
    """Return by task the mean share of its points."""
    earned: Counter[int] = Counter()
    possible: Counter[int] = Counter()
    for grade in attempts:
        for test in grade.tests:
            if test.task is not None:
                earned[test.task] += test.score
                possible[test.task] += test.max_score
    return {task: round(earned[task] / possible[task], 3) for task in sorted(possible)}


def _task_histograms(attempts: Sequence[Grade]) -> dict[int, Histogram]:
    """Return the histogram of each task that has points."""
    points = Counter[int]()
    for test in attempts[0].tests if attempts else ():
        if test.task is not None:
            points[test.task] += test.max_score
    return {
        task: Histogram.of((score_in(grade, task) for grade in attempts), points[task])
        for task in sorted(points)
        if points[task]
    }


def score_in(grade: Grade, task: int) -> int:
    """Return the points that a grade has in a task."""
    return sum(test.score for test in grade.tests if test.task == task)
