"""How a run reads in a terminal: header, table of tasks, failures, what to do next.

A student reads the failures of the first task that has some, a grader all of them. At most 88
columns. Colour only repeats what the words say; without a terminal it is plain text.
"""

import io
import re
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import Lab, Task, find_labs
from labkit.running.reporting.explain import WIDTH, GradedTest, graded_tests
from labkit.running.reporting.failures import print_all, print_first_task, print_wrapped
from labkit.running.reporting.hunted import print_hunted
from labkit.running.reporting.next_step import command, next_step
from labkit.running.score import LabRun

PASS, FAIL, BLOCKED, NOT_RUN = "PASS", "FAIL", "BLOCKED", "not run"


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


def render(run: LabRun, *, colour: bool, with_next: bool = True) -> str:
    """Return the report of a finished run.

    Args:
        run: the run.
        colour: whether to use colours.
        with_next: whether its last line says what to do next.
    """
    return drawn(lambda console: _print_run(console, run, with_next), colour=colour)


def drawn(draw: Callable[[Console], None], *, colour: bool, width: int = WIDTH) -> str:
    """Return what a function prints to a console."""
    out = io.StringIO()
    draw(Console(file=out, width=width, force_terminal=colour, highlight=False))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _print_run(console: Console, run: LabRun, with_next: bool) -> None:
    if run.score == 100 and not run.failed():
        title = run.implementation.title
        console.print(Text(f"{run.lab.name}: 100/100 points, every test passes ({title})"))
        print_hunted(console, run)
    else:
        _print_failed(console, run)
    labs = find_labs(run.lab.path.parents[2])
    if with_next and (step := next_step(run, labs)):
        print_wrapped(console, "next:       ", step)


def _print_failed(console: Console, run: LabRun) -> None:
    tests = graded_tests(run)
    console.print(_table(run.lab, tests))
    print_hunted(console, run)
    print_first_task(console, run.lab, tests, partial(command, run))
    if run.mistake is not None:
        print_wrapped(console, "looks like: ", run.mistake.symptom)
        print_wrapped(console, "hint:       ", run.mistake.hint)
    if run.complete:
        print_score(console, run.score, 100)
    else:
        left = sum(not test.ran for test in tests)
        those = "1 test is" if left == 1 else f"{left} tests are"
        console.print(Text(f"score       only of a whole run: {those} left out"))


def print_tests(console: Console, lab: Lab, tests: Sequence[GradedTest]) -> None:
    """Print the table of a lab's tasks, then each failure in full."""
    console.print(_table(lab, tests))
    print_all(console, tests)


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
        table.add_row(title, _tally_of_run(own), points, Text(status, style=style))
    if given := of_task(tests, None):
        ran = [test for test in given if test.ran and test.kind != "not-run"]
        failed = not all(test.passed for test in ran)
        status = FAIL if failed else PASS if ran else NOT_RUN
        table.add_row("  given, to look at", _tally_of_run(given), "-", status)
    return table


def _tally_of_run(tests: Sequence[GradedTest]) -> str:
    """Return `3/4`, or `1/1 of 4` where a choice of them ran."""
    ran = [test for test in tests if test.ran]
    return f"{tally(ran)} of {len(tests)}" if 0 < len(ran) < len(tests) else tally(tests)


def _status(lab: Lab, task: Task, tests: Sequence[GradedTest]) -> str:
    """Return PASS, FAIL, not run, or `BLOCKED by task k` for a task that waits for another."""
    own = [test for test in of_task(tests, task.number) if test.ran]
    missed = [test for test in own if not test.passed]
    if all(test.kind == "not-run" for test in own):
        return NOT_RUN
    if not missed:
        return PASS
    waits = [_waits_for(lab, task, test, tests) for test in missed]
    earlier = [number for number in waits if number is not None]
    return f"{BLOCKED} by task {min(earlier)}" if len(earlier) == len(waits) else FAIL


def _waits_for(lab: Lab, task: Task, test: GradedTest, tests: Sequence[GradedTest]) -> int | None:
    """Return the earlier task that a test waits for, if it does."""
    if test.kind != "unwritten":
        return None
    earlier = sorted(lab.blockers(task.number))
    named = re.search(r"\btask (\d+)\b", test.message)
    if named is not None:
        return int(named[1]) if int(named[1]) in earlier else None
    # It does not say whose function is missing.
    missed = [k for k in earlier if not all(one.passed for one in of_task(tests, k))]
    return missed[0] if missed else None
