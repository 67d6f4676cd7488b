"""How a run reads: header, table of tasks, each failure with its rule and trace, what to do next.

At most 88 columns. Colour only repeats what the words say; without a terminal it is plain text.
"""

import io
import textwrap

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.manifest import Test
from labkit.running.lab_run import FAIL, PASS, LabRun, Result
from labkit.running.trace import Step, Trace

WIDTH = 88
_ROWS = 12


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
    out = io.StringIO()
    console = Console(file=out, width=WIDTH, force_terminal=colour, highlight=False)
    console.print(_table(run))
    _print_failures(run, console)
    bug = run.looks_like()
    if bug is not None:
        _print_wrapped(console, "looks like: ", bug.symptom)
        console.print(Text(f"hint:       make hint N={run.lab.number} T={bug.task}"))
    console.print(Text(f"score       {run.score}/100", style="bold"))
    if not run.complete:
        left = sum(test.name not in run.results for test in run.lab.tests)
        console.print(Text(f"            {left} tests did not run and count as failed"))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _table(run: LabRun) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_edge=False)
    table.add_column("task", max_width=44, overflow="fold")
    table.add_column("tests", justify="right")
    table.add_column("points", justify="right")
    table.add_column("status")
    for task in run.lab.tasks:
        status = run.status(task)
        style = {PASS: "green", FAIL: "red"}.get(status, "yellow")
        cells = _tally(run, run.tests_of(task.number))
        table.add_row(Text(f"{task.number} {task.title}"), *cells, Text(status, style=style))
    if given := run.tests_of(None):
        tests, _ = _tally(run, given)
        status = PASS if all(map(run.passed, given)) else FAIL
        table.add_row("  given, to look at", tests, "-", status)
    return table


def _tally(run: LabRun, tests: list[Test]) -> tuple[str, str]:
    passed = [test for test in tests if run.passed(test)]
    points = f"{sum(t.points for t in passed)}/{sum(t.points for t in tests)}"
    return f"{len(passed)}/{len(tests)}", points


def _print_failures(run: LabRun, console: Console) -> None:
    waiting: dict[str, int] = {}
    for test, result in run.failed():
        if result.kind in ("unwritten", "load", "not-run"):
            waiting[result.message] = waiting.get(result.message, 0) + 1
            continue
        console.print()
        worth = f"task {test.task}, {test.points} points" if test.task else "given"
        console.print(Text(f"FAIL {test.name} ({worth})", style="bold red"))
        for line in explain(test, result).splitlines():
            console.print(Text("  " + line), soft_wrap=True)
    console.print()
    for message, count in waiting.items():
        tests = "1 test waits" if count == 1 else f"{count} tests wait"
        _print_wrapped(console, f"{tests} for this: ", message)


def explain(test: Test, result: Result) -> str:
    """Return one failure in full: the rule, the call, expected and actual, the trace."""
    lines = _labelled("rule", test.rule)
    failure = result.failure
    if failure is None:
        return "\n".join(lines + _labelled("but", result.message))
    if call := failure.call or _calls(failure.trace):
        lines += _labelled("call", call)
    lines += _labelled("expected", failure.expected) + _labelled("actual", failure.actual)
    if failure.trace is not None and failure.trace.steps:
        lines += _trace_rows(failure.trace)
    return "\n".join(lines)


def _labelled(label: str, text: str) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines() or [""]:
        lines += textwrap.wrap(line, WIDTH - 14, break_long_words=True) or [""]
    return [f"{label if not i else '':<10}{line}" for i, line in enumerate(lines)]


def _calls(trace: Trace | None) -> str:
    if trace is None:
        return ""
    words = [*map(str, trace.new), *(str(step.call) for step in trace.steps)]
    if len(words) > 6:
        words = [*words[:4], f"… {len(words) - 5} more …", words[-1]]
    return "; ".join(words)


def _trace_rows(trace: Trace) -> list[str]:
    steps: list[Step | None] = list(trace.steps)
    if len(steps) > _ROWS:
        steps = [*steps[: _ROWS - 3], None, *steps[-2:]]
    rows = [("trace", "call", "emitted", "held")]
    for step in steps:
        if step is None:
            rows.append(("", "…", "", ""))
        else:
            held = "" if step.held is None else repr(step.held)
            rows.append(("", str(step.call), repr(step.result), held))
    widths = [min(max(len(row[i]) for row in rows), 30) for i in (1, 2)]
    return [
        f"{a:<10}{_clip(b, 30):<{widths[0]}}  {_clip(c, 30):<{widths[1]}}  {_clip(d, 20)}".rstrip()
        for a, b, c, d in rows
    ]


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _print_wrapped(console: Console, label: str, text: str) -> None:
    lines: list[str] = []
    for line in (label + text).splitlines():
        lines += textwrap.wrap(line, WIDTH, drop_whitespace=False, break_long_words=False) or [""]
    console.print(Text("\n".join(lines)), soft_wrap=True)
