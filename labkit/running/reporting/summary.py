"""The report of a run over several labs: each lab under its name, and one board at the end."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import find_labs
from labkit.running.reporting import report
from labkit.running.reporting.failures import print_wrapped
from labkit.running.reporting.next_step import next_step
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun
from labkit.running.under_test import root_of


def header(runs: Sequence[LabRun]) -> str:
    """Return the header of a run over several labs."""
    labels = ", ".join(run.lab.label for run in runs)
    kind = runs[0].implementation.kind
    if kind == "solution":
        what = "UNDER TEST: THE REFERENCES, solution.py, not your code. For yours: LAB_IMPL=starter"
    else:
        what = f"under test  {runs[0].implementation.title} of each lab"
    return f"{len(runs)} labs: {labels}\n  {what}\n  seed        {runs[0].seed}"


def render(runs: Sequence[LabRun], *, colour: bool) -> str:
    """Return the report of each lab under its name, then the board, in the order of the ladder."""
    runs = sorted(runs, key=lambda run: (run.lab.place, run.lab.name))
    parts = []
    for run in runs:
        if not is_perfect(run):
            text = report.render(run, colour=colour, with_next=False)
            parts += [report.header(run), "", text, ""]
    board = report.drawn(lambda console: _print_board(console, runs), colour=colour)
    return "\n".join([*parts, board])


def is_perfect(run: LabRun) -> bool:
    """Whether every test passes, demonstrations included."""
    return run.perfect and not run.failed()


def _print_board(console: Console, runs: Sequence[LabRun]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("lab")
    table.add_column("score", justify="right")
    table.add_column("status")
    for run in runs:
        name = f"{run.lab.number} {run.lab.title}"
        style = "green" if is_perfect(run) else "yellow"
        table.add_row(name, _score(run), Text(_status(run), style=style))
    console.print(table)
    first = next((run for run in runs if not is_perfect(run)), runs[-1])
    if step := next_step(first, find_labs(root_of(first.lab))):
        console.print()
        print_wrapped(console, "next:       ", step)


def _score(run: LabRun) -> str:
    return f"{run.score}/{run.most}" if run.complete else "-"


def _status(run: LabRun) -> str:
    if is_perfect(run):
        return "passed"
    failed = run.failed()
    kinds = {result.kind for _, result in failed}
    if run.waits_for:
        return f"needs {run.waits_for} first"
    if ResultKind.LOAD in kinds:
        return "cannot be imported"
    ran = sum(test.name in run.results for test in run.tests)
    if not run.complete:
        return f"{len(failed)} of {ran} tests failed, {len(run.tests) - ran} did not run"
    if run.score == 0 and kinds <= {ResultKind.UNWRITTEN}:
        return "not started"
    tasks = sorted({test.task for test, _ in failed if test.task is not None})
    return f"task {tasks[0]} is next" if tasks else "a demonstration fails"
