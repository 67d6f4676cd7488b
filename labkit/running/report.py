"""How a run reads in a terminal: header, table of tasks, each failure in full, what to do next.

`print_tests` serves graders too, so a student and an instructor see the same table and failures. At
most 88 columns. Colour only repeats what the words say; without a terminal it is plain text.
"""

import io
import textwrap
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import Lab, Task
from labkit.running.explain import VISIBLE, WIDTH, GradedTest, graded_tests
from labkit.running.score import LabRun

PASS, FAIL, BLOCKED, NOT_RUN = "PASS", "FAIL", "BLOCKED", "NOT RUN"
# Many tests fail for one such reason, so it is told once.
_WAITING = ("unwritten", "load", "not-run")


def header(run: LabRun) -> str:
    """Return what is under test: file, hash, seed, absolute path, and where parts come from."""
    title = run.implementation.title
    lines = [run.lab.name]
    if run.implementation.kind == "solution":
        lines.append(
            f"  UNDER TEST: THE REFERENCE, {title}, not your code. For yours: LAB_IMPL=starter"
        )
    else:
        lines.append(f"  under test  {title}")
    lines.append(f"  file        {run.implementation.path}")
    lines.append(f"  hash        {run.digest}   seed {run.seed}")
    lines += (f"  part        {part}" for part in run.parts)
    return "\n".join(lines)


def render(run: LabRun, *, colour: bool) -> str:
    """Return the report of a finished run."""
    if run.score == 100 and not run.failed():
        return f"{run.lab.name}: 100/100 points, every test passes ({run.implementation.title})"
    return drawn(lambda console: _print_run(console, run), colour=colour)


def drawn(draw: Callable[[Console], None], *, colour: bool, width: int = WIDTH) -> str:
    """Return what a function prints to a console."""
    out = io.StringIO()
    draw(Console(file=out, width=width, force_terminal=colour, highlight=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _print_run(console: Console, run: LabRun) -> None:
    print_tests(console, run.lab, graded_tests(run))
    if run.mistake is not None:
        print_wrapped(console, "looks like: ", run.mistake.symptom)
        print_wrapped(console, "hint:       ", run.mistake.hint)
        print_command = f"make hint N={run.lab.number} T={run.mistake.task}"
        console.print(Text(f"more:       {print_command}"))
    print_score(console, run.score, 100)
    if not run.complete:
        left = sum(test.name not in run.results for test in run.lab.tests)
        console.print(Text(f"            {left} tests did not run and count as failed"))


def print_tests(console: Console, lab: Lab, tests: Sequence[GradedTest]) -> None:
    """Print the table of a lab's tasks, then each failure in full."""
    console.print(_table(lab, tests))
    waiting: dict[str, int] = {}
    for test in tests:
        if test.passed or not test.message:
            continue
        if test.kind in _WAITING:
            waiting[test.message] = waiting.get(test.message, 0) + 1
            continue
        worth = f"task {test.task}, {test.max_score} points" if test.task else "given"
        if test.visibility != VISIBLE:
            worth += f", {test.visibility}"
        console.print()
        console.print(Text(f"FAIL {test.name} ({worth})", style="bold red"))
        for line in test.detail.splitlines():
            console.print(Text("  " + line), soft_wrap=True)
    console.print()
    for message, count in waiting.items():
        those = "1 test waits" if count == 1 else f"{count} tests wait"
        print_wrapped(console, f"{those} for this: ", message)


def print_score(console: Console, score: int, most: int) -> None:
    """Print what was earned of what could be."""
    console.print(Text(f"score       {score}/{most}", style="bold"))


def of_task(tests: Sequence[GradedTest], number: int | None) -> list[GradedTest]:
    """Return the tests of a task; of no task (`given`) for None."""
    return [test for test in tests if test.task == number]


def tally(tests: Sequence[GradedTest]) -> str:
    """Return how many of these tests passed: `3/4`."""
    return f"{sum(test.passed for test in tests)}/{len(tests)}"


def _table(lab: Lab, tests: Sequence[GradedTest]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_edge=False)
    table.add_column("task", max_width=44, overflow="fold")
    table.add_column("tests", justify="right")
    table.add_column("points", justify="right")
    table.add_column("status")
    for task in lab.tasks:
        own = of_task(tests, task.number)
        points = f"{sum(test.score for test in own)}/{sum(test.max_score for test in own)}"
        status = _status(lab, task, tests)
        style = {PASS: "green", FAIL: "red"}.get(status, "yellow")
        title = Text(f"{task.number} {task.title}")
        table.add_row(title, tally(own), points, Text(status, style=style))
    if given := of_task(tests, None):
        status = PASS if all(test.passed for test in given) else FAIL
        table.add_row("  given, to look at", tally(given), "-", status)
    return table


def _status(lab: Lab, task: Task, tests: Sequence[GradedTest]) -> str:
    """Return PASS, FAIL, NOT RUN, or `BLOCKED by task k` for a task that waits for another."""
    own = of_task(tests, task.number)
    if all(test.passed for test in own):
        return PASS
    # Whatever ran and failed says why.
    if not any(test.passed or test.message for test in own):
        return NOT_RUN
    for blocker in sorted(lab.blockers(task.number)):
        if not all(test.passed for test in of_task(tests, blocker)):
            return f"{BLOCKED} by task {blocker}"
    return FAIL


def print_wrapped(console: Console, label: str, text: str) -> None:
    """Print a text behind a label, in lines that fit."""
    lines: list[str] = []
    for line in (label + text).splitlines():
        lines += textwrap.wrap(line, WIDTH, drop_whitespace=False, break_long_words=False) or [""]
    console.print(Text("\n".join(lines)), soft_wrap=True)
