"""The failures of a lab as data: the failures of one reason are one group, with their points."""

import re
from collections import Counter
from collections.abc import Sequence

from labkit.course.lab import Lab
from labkit.running.reporting.explain import VISIBLE, GradedTest
from labkit.running.reporting.showing import counted
from labkit.running.result_kind import ResultKind

# The words for tests of a waiting kind, for one test and for several.
WAITS = {
    ResultKind.UNWRITTEN: ("waits for this", "wait for this"),
    ResultKind.LOAD: ("cannot run", "cannot run"),
    ResultKind.NOT_RUN: ("was not run", "were not run"),
}
Group = list[GradedTest]
# In a browser, later tests are ended sooner.
_SECONDS = re.compile(r"(?<= after )[\d.]+ s(?= of processor time)")


def first_open_task(lab: Lab, tests: Sequence[GradedTest]) -> int | None:
    """Return the number of the first task with a test that ran and did not pass."""
    missed = {test.task for test in tests if test.ran and not test.passed}
    return next((task.number for task in lab.tasks if task.number in missed), None)


def groups(tests: Sequence[GradedTest]) -> list[Group]:
    """Return the failed tests, grouped by reason."""
    by_reason: dict[tuple[str, ...], Group] = {}
    for test in tests:
        if test.ran and not test.passed and not test.kind.is_waiting:
            by_reason.setdefault(_reason(test), []).append(test)
    return [*by_reason.values()]


def _reason(test: GradedTest) -> tuple[str, ...]:
    """Return why a test fails: by its message, or by the exception and the line that raised it."""
    text, _, line = test.message.rpartition("\n")
    if test.kind is ResultKind.RAISED and line.startswith("line "):
        return test.kind, text.partition(":")[0], line
    return test.kind, _SECONDS.sub("", test.message)


def worth(group: Sequence[GradedTest]) -> str:
    """Return the task and the points of the first test of a group, in parentheses."""
    test = group[0]
    words = (
        f"task {test.task}, {counted(test.max_score, 'point')}" if test.task else "demonstration"
    )
    return f"({words}, {test.visibility})" if test.visibility != VISIBLE else f"({words})"


def of_first_task(lab: Lab, tests: Sequence[GradedTest]) -> list[Group]:
    """Return the groups of the first task that has some, and those without a task.

    An earlier task may only wait for code that is not written: it has no groups.
    """
    all_groups = groups(tests)
    numbers = {group[0].task for group in all_groups}
    first = next((task.number for task in lab.tasks if task.number in numbers), None)
    return [group for group in all_groups if group[0].task in (first, None)]


def of_later_tasks(lab: Lab, tests: Sequence[GradedTest]) -> Counter[int | None]:
    """Return, by task, how many failing tests are not in a group of the first task."""
    of_first = {test.name for group in of_first_task(lab, tests) for test in group}
    return Counter(
        test.task for group in groups(tests) for test in group if test.name not in of_first
    )


def waiting(tests: Sequence[GradedTest]) -> list[tuple[str, str]]:
    """Return the tests that wait, as a count (`3 tests wait for this: `), and the reason."""
    counts = Counter((test.kind, test.message) for test in tests if test.kind.is_waiting)
    return [
        (f"{counted(count, 'test')} {WAITS[kind][count > 1]}: ", message)
        for (kind, message), count in counts.items()
        if message
    ]
