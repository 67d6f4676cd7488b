"""The failures of a lab for people: what fails for one reason is told once, with what it costs."""

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from labkit.course.lab import Lab
from labkit.running.reporting.explain import VISIBLE, WIDTH, GradedTest
from labkit.running.reporting.showing import clip

# Many tests fail for one such reason; there is nothing to show of each.
WAITING = ("unwritten", "load", "not-run")
_WAITS = {
    "unwritten": ("waits for this", "wait for this"),
    "load": ("cannot run", "cannot run"),
    "not-run": ("was not run", "were not run"),
}
# Of what a student reads in full, and of the failures behind it.
_MOST_LINES = 60
_MOST_SHORT = 8
_MOST_NAMES = 3
_COMMAND = re.compile(r"(LAB_IMPL=\w+ )?make [a-z-]+( [A-Z]+=[\w-]+)*|--lab-task \d+")
_NO_BREAK = "\N{NO-BREAK SPACE}"


def print_all(console: Console, tests: Sequence[GradedTest]) -> None:
    """Print every failure in full, equal ones once, then what tests wait for."""
    for group in _groups(tests):
        _print_group(console, group, len(group))
    _print_waiting(console, tests)


def print_first_task(
    console: Console, lab: Lab, tests: Sequence[GradedTest], more: Callable[[int | None], str]
) -> None:
    """Print the failures of the first task that has some, and how many later ones have.

    Args:
        console: to print to.
        lab: the lab.
        tests: of the lab.
        more: returns the command that shows those of a task.
    """
    groups = _groups(tests)
    first = first_open_task(lab, tests)
    now = [group for group in groups if group[0].task in (first, None)]
    lines, short = 0, 0
    for group in now:
        lines += len(group[0].detail.splitlines()) + 3
        if lines <= _MOST_LINES:
            _print_group(console, group, _MOST_NAMES)
            continue
        short += 1
        if short == 1:
            console.print()
        if short <= _MOST_SHORT:
            line = " ".join(f"FAIL {group[0].name} {_worth(group)}: {group[0].message}".split())
            console.print(Text(clip(line, WIDTH)), soft_wrap=True)
    if short > _MOST_SHORT:
        console.print(Text(f"and {short - _MOST_SHORT} more failures of this task"))
    told = {test.name for group in now for test in group}
    later = [test for group in groups for test in group if test.name not in told]
    _print_waiting(console, tests)
    if later:
        counts = Counter(test.task for test in later)
        words = ", ".join(f"{count} of task {task}" for task, count in counts.items())
        see = f"to see those of task {later[0].task}: {more(later[0].task)}"
        print_wrapped(console, "also failing: ", f"{words}; {see}")
        console.print()


def first_open_task(lab: Lab, tests: Sequence[GradedTest]) -> int | None:
    """Return the number of the first task of which a test ran and did not pass."""
    missed = {test.task for test in tests if test.ran and not test.passed}
    return next((task.number for task in lab.tasks if task.number in missed), None)


def print_wrapped(console: Console, label: str, text: str) -> None:
    """Print a text behind a label, in lines that fit."""
    lines: list[str] = []
    # A command stays on one line, to be copied.
    text = _COMMAND.sub(lambda found: found[0].replace(" ", _NO_BREAK), text)
    for line in (label + text).splitlines():
        indent = "" if lines else " " * len(label)
        lines += (
            textwrap.wrap(
                line,
                WIDTH,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
            if len(line) > WIDTH
            else [line]
        )
    console.print(Text("\n".join(lines).replace(_NO_BREAK, " ")), soft_wrap=True)


def _groups(tests: Sequence[GradedTest]) -> list[list[GradedTest]]:
    """Return the failed tests, those that fail for one reason together."""
    groups: dict[tuple[str, ...], list[GradedTest]] = {}
    for test in tests:
        if test.ran and not test.passed and test.kind not in WAITING:
            groups.setdefault(_reason(test), []).append(test)
    return [*groups.values()]


def _reason(test: GradedTest) -> tuple[str, ...]:
    """Return why a test fails: by its message, or by the exception and the line that raised it."""
    text, _, line = test.message.rpartition("\n")
    if test.kind == "raised" and line.startswith("line "):
        return test.kind, text.partition(":")[0], line
    return test.kind, test.message


def _worth(group: Sequence[GradedTest]) -> str:
    test = group[0]
    worth = f"task {test.task}, {test.max_score} points" if test.task else "given"
    return f"({worth}, {test.visibility})" if test.visibility != VISIBLE else f"({worth})"


def _print_group(console: Console, group: Sequence[GradedTest], most_names: int) -> None:
    console.print()
    console.print(Text(f"FAIL {group[0].name} {_worth(group)}", style="bold red"))
    for line in group[0].detail.splitlines():
        console.print(Text("  " + line), soft_wrap=True)
    if others := group[1:]:
        points = sum(test.max_score for test in others)
        names = ", ".join(test.name for test in others[:most_names])
        names += ", …" if len(others) > most_names else ""
        text = f"and {len(others)} more for the same reason ({points} points): {names}"
        console.print(Text(textwrap.indent("\n".join(textwrap.wrap(text, WIDTH - 4)), "  ")))


def _print_waiting(console: Console, tests: Sequence[GradedTest]) -> None:
    waiting = Counter((test.kind, test.message) for test in tests if test.kind in WAITING)
    console.print()
    for (kind, message), count in waiting.items():
        if message:
            those = "1 test" if count == 1 else f"{count} tests"
            waits = _WAITS[kind][count > 1]
            print_wrapped(console, f"{those} {waits}: ", message)
    if any(message for _, message in waiting):
        console.print()
