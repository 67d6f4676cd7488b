"""The failures of a lab for people: each reason is printed once, with its points."""

import re
import textwrap
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from labkit.course.lab import Lab
from labkit.running.reporting.explain import WIDTH, GradedTest
from labkit.running.reporting.groups import (
    groups,
    of_first_task,
    of_later_tasks,
    waiting,
    worth,
)
from labkit.running.reporting.showing import clip, counted

# The most lines in full for a student, and the most failures after them in two lines each.
_MOST_LINES = 60
_MOST_SHORT = 8
_MOST_NAMES = 3
_COMMAND = re.compile(r"(LAB_IMPL=\w+ )?make [a-z-]+( [A-Z]+=[\w-]+)*|--lab-task \d+")
_NO_BREAK = "\N{NO-BREAK SPACE}"


def print_all(console: Console, tests: Sequence[GradedTest]) -> None:
    """Print every failure in full, equal failures once, then the reasons for which tests wait."""
    for group in groups(tests):
        _print_group(console, group, len(group))
    _print_waiting(console, tests)


def print_first_task(
    console: Console,
    lab: Lab,
    tests: Sequence[GradedTest],
    brief: Callable[[str], str],
    more: Callable[[int | None], str],
) -> None:
    """Print the failures of the first task that has some, and the number in later tasks.

    Args:
        console: to print to.
        lab: the lab.
        tests: of the lab.
        brief: returns the failure of a test, by name, in one line.
        more: returns the command that shows the failures of a task.
    """
    now = of_first_task(lab, tests)
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
            for line in (f"FAIL {group[0].name} {worth(group)}", f"  {brief(group[0].name)}"):
                console.print(Text(clip(line, WIDTH)), soft_wrap=True)
    if short > _MOST_SHORT:
        left = short - _MOST_SHORT
        console.print(Text(f"and {left} more failure{'s' * (left > 1)} of this task"))
    _print_waiting(console, tests)
    if later := of_later_tasks(lab, tests):
        first = next(iter(later))
        words = ", ".join(f"{count} of task {task}" for task, count in later.items())
        see = f"to see those of task {first}: {more(first)}"
        print_wrapped(console, "also failing: ", f"{words}; {see}")
        console.print()


def print_wrapped(console: Console, label: str, text: str) -> None:
    """Print a text after a label, in lines that fit."""
    lines: list[str] = []
    # A command stays on one line, so that it can be copied.
    text = _COMMAND.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
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


def _print_group(console: Console, group: Sequence[GradedTest], most_names: int) -> None:
    console.print()
    console.print(Text(f"FAIL {group[0].name} {worth(group)}", style="bold red"))
    for line in group[0].detail.splitlines():
        console.print(Text("  " + line), soft_wrap=True)
    if others := group[1:]:
        points = sum(test.max_score for test in others)
        names = ", ".join(test.name for test in others[:most_names])
        names += ", …" if len(others) > most_names else ""
        text = f"and {len(others)} more for the same reason ({counted(points, 'point')}): {names}"
        console.print(Text(textwrap.indent("\n".join(textwrap.wrap(text, WIDTH - 4)), "  ")))


def _print_waiting(console: Console, tests: Sequence[GradedTest]) -> None:
    reasons = waiting(tests)
    console.print()
    for those, message in reasons:
        print_wrapped(console, those, message)
    if reasons:
        console.print()
