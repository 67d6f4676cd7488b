"""The report of a run in a terminal: header, table of tasks, failures, the next step.

A student's report has the failures of the first task that has some; a grader's has all. A line has
at most 88 columns. Colour adds no information; without a terminal, the report is plain text.
"""

import io
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import Lab, find_labs
from labkit.running.platform import NEEDS
from labkit.running.reporting.explain import WIDTH, GradedTest, graded_tests, in_brief
from labkit.running.reporting.failures import print_all, print_first_task, print_wrapped
from labkit.running.reporting.hunted import print_hunted
from labkit.running.reporting.next_step import command, next_step
from labkit.running.reporting.showing import counted
from labkit.running.reporting.tasks import FAIL, PASS, given_row, task_rows
from labkit.running.score import LabRun
from labkit.running.under_test import root_of


def header(run: LabRun) -> str:
    """Return the header, which names the code under test: file, hash, seed, path, and parts."""
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


def render(run: LabRun, *, colour: bool, with_next: bool = True) -> str:
    """Return the report of a finished run.

    Args:
        run: the run.
        colour: whether to use colours.
        with_next: whether its last line is the next step.
    """
    return drawn(lambda console: _print_run(console, run, with_next), colour=colour)


def left_out(run: LabRun) -> list[str]:
    """Return the lines about the tests that cannot run on this platform, one for each reason."""
    lines = []
    for need in dict.fromkeys(test.needs for test in run.left_out):
        own = [test for test in run.left_out if test.needs == need]
        points = sum(test.points for test in own)
        names = ", ".join(test.name for test in own)
        lines.append(
            f"{names} ({counted(points, 'point')}): {NEEDS[need]}; a checkout runs the whole lab"
        )
    return lines


def drawn(draw: Callable[[Console], None], *, colour: bool, width: int = WIDTH) -> str:
    """Return the output of a function that prints to a console."""
    out = io.StringIO()
    draw(Console(file=out, width=width, force_terminal=colour, highlight=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _print_run(console: Console, run: LabRun, with_next: bool) -> None:
    if run.perfect and not run.failed():
        title, score = run.implementation.title, f"{run.score}/{run.most}"
        console.print(Text(f"{run.lab.name}: {score} points, every test passes ({title})"))
        print_hunted(console, run)
    else:
        _print_failed(console, run)
    for line in left_out(run):
        print_wrapped(console, "left out:   ", line)
    if with_next and (step := next_step(run, find_labs(root_of(run.lab)))):
        print_wrapped(console, "next:       ", step)


def _print_failed(console: Console, run: LabRun) -> None:
    tests = graded_tests(run)
    console.print(_table(run.lab, tests, run.waits_for))
    print_hunted(console, run)
    print_first_task(
        console, run.lab, tests, lambda name: in_brief(run.results[name]), partial(command, run)
    )
    if run.mistake is not None:
        print_wrapped(console, "looks like: ", run.mistake.symptom)
        print_wrapped(console, "hint:       ", run.mistake.hint)
    if run.complete:
        print_score(console, run.score, run.most)
    else:
        left = sum(not test.ran for test in tests)
        tests_left = counted(left, "test")
        console.print(Text(f"score       shown for a full run only ({tests_left} not run)"))


def print_tests(console: Console, lab: Lab, tests: Sequence[GradedTest]) -> None:
    """Print the table of a lab's tasks, then each failure in full."""
    console.print(_table(lab, tests))
    print_all(console, tests)


def print_score(console: Console, score: int, most: int) -> None:
    """Print the score."""
    console.print(Text(f"score       {score}/{most}", style="bold"))


def _table(lab: Lab, tests: Sequence[GradedTest], waits_for: str = "") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_edge=False)
    table.add_column("task", max_width=44, overflow="fold")
    table.add_column("tests", justify="right")
    table.add_column("points", justify="right")
    table.add_column("status")
    for row in task_rows(lab, tests):
        style = {PASS: "green", FAIL: "red"}.get(row.status, "yellow")
        status = Text(row.status, style=style)
        table.add_row(
            Text(f"{row.number} {row.title}"), row.tally, f"{row.points}/{row.most}", status
        )
    if given := given_row(tests, waits_for):
        table.add_row(f"  {given.title}", given.tally, "-", given.status)
    return table
