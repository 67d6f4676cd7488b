"""How grades read in a terminal: one in full, many as a table with what they come to.

Colour only repeats what the words say; without a terminal it is plain text.
"""

import io
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import Lab
from labkit.running.report import WIDTH

_WAITING = ("unwritten", "load", "not-run")
_LONGEST_NOTE = 160


def report_text(
    grades: Sequence[dict[str, Any]], labs: Mapping[str, Lab], *, colour: bool, width: int = WIDTH
) -> str:
    """Return grades, as `Grade.as_dict` has them, for people.

    Args:
        grades: at least one.
        labs: by folder name, at least those of the grades.
        colour: whether to use colours.
        width: columns, for the table of many.
    """
    out = io.StringIO()
    one = len(grades) == 1
    console = Console(
        file=out, width=WIDTH if one else width, force_terminal=colour, highlight=False
    )
    if one:
        _print_one(console, grades[0], labs[grades[0]["lab"]])
    else:
        _print_many(console, grades, labs)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _print_one(console: Console, grade: dict[str, Any], lab: Lab) -> None:
    console.print(Text(f"{grade['lab']}, handed in by {grade['student']}"))
    console.print(Text(f"  {_mode(grade)}   seed {grade['seed']}"))
    console.print()
    if grade["fault"] is not None:
        console.print(Text(f"No test could run: {grade['fault']}\n"))
    else:
        console.print(_tasks_table(grade, lab))
        _print_failures(console, grade)
    bug = _bug(grade, lab)
    if bug:
        console.print(Text(f"looks like: {bug}"))
    console.print(Text(f"score       {grade['score']}/{grade['max_score']}", style="bold"))


def _tasks_table(grade: dict[str, Any], lab: Lab) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_edge=False)
    table.add_column("task", max_width=44, overflow="fold")
    table.add_column("tests", justify="right")
    table.add_column("points", justify="right")
    table.add_column("status")
    for task in lab.tasks:
        rows = [test for test in grade["tests"] if test["task"] == task.number]
        points = f"{sum(t['score'] for t in rows)}/{sum(t['max_score'] for t in rows)}"
        status = "PASS" if all(t["passed"] for t in rows) else "FAIL"
        style = "green" if status == "PASS" else "red"
        title = Text(f"{task.number} {task.title}")
        table.add_row(title, _tally(rows), points, Text(status, style=style))
    return table


def _print_failures(console: Console, grade: dict[str, Any]) -> None:
    waiting: dict[str, int] = {}
    for test in grade["tests"]:
        if test["passed"]:
            continue
        if test["kind"] in _WAITING:
            waiting[test["message"]] = waiting.get(test["message"], 0) + 1
            continue
        worth = f"task {test['task']}, {test['max_score']} points" if test["task"] else "given"
        if test["visibility"] != "visible":
            worth += f", {test['visibility']}"
        console.print()
        console.print(Text(f"FAIL {test['name']} ({worth})", style="bold red"))
        for line in test["detail"].splitlines():
            console.print(Text(f"  {line}"), soft_wrap=True)
    console.print()
    for message, count in waiting.items():
        tests = "1 test waits" if count == 1 else f"{count} tests wait"
        console.print(Text(f"{tests} for this: {message}"))


def _print_many(
    console: Console, grades: Sequence[dict[str, Any]], labs: Mapping[str, Lab]
) -> None:
    several = len({grade["lab"] for grade in grades}) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("student", overflow="fold", max_width=console.width // 2)
    if several:
        table.add_column("lab", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("tests by task", no_wrap=True)
    table.add_column("note", overflow="fold")
    for grade in grades:
        lab = labs[grade["lab"]]
        tallies = [
            _tally([test for test in grade["tests"] if test["task"] == task.number])
            for task in lab.tasks
        ]
        cells = [
            grade["student"],
            *([lab.label] if several else []),
            f"{grade['score']}/{grade['max_score']}",
            " ".join(tallies),
            _note(grade, lab),
        ]
        table.add_row(*map(Text, cells))
    console.print(table)
    console.print()
    console.print(Text("\n".join(_summary(grades))))


def _summary(grades: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for lab in sorted({grade["lab"] for grade in grades}):
        rows = [grade for grade in grades if grade["lab"] == lab]
        full = sum(grade["score"] == grade["max_score"] for grade in rows)
        none = sum(grade["score"] == 0 for grade in rows)
        middle = median(grade["score"] for grade in rows)
        lines.append(
            f"{lab}: {len(rows)} graded, {full} with every point, {none} with none, "
            f"median {middle:g} of {rows[0]['max_score']}"
        )
    lines.append(f"{_mode(grades[0])}   seed {grades[0]['seed']}")
    return lines


def _mode(grade: dict[str, Any]) -> str:
    mode = str(grade["mode"])
    return (
        "mode trust (NOT walled in: for your own code only)" if mode == "trust" else f"mode {mode}"
    )


def _note(grade: dict[str, Any], lab: Lab) -> str:
    """Return what to know about a grade in a few words: why nothing ran, or a known bug."""
    if grade["fault"] is not None:
        return _short(grade["fault"])
    worth = [test for test in grade["tests"] if test["max_score"]]
    if {test["kind"] for test in worth} == {"unwritten"}:
        return "nothing is written yet"
    messages = {test["message"] for test in worth}
    if grade["score"] == 0 and len(messages) == 1:
        return _short(min(messages))
    bug = _bug(grade, lab)
    return f"looks like: {_short(bug)}" if bug else ""


def _bug(grade: dict[str, Any], lab: Lab) -> str:
    titles = {bug.name: bug.title for bug in lab.bugs}
    return titles.get(grade["looks_like"] or "", "")


def _short(text: str) -> str:
    line = text.splitlines()[0]
    return line if len(line) <= _LONGEST_NOTE else line[: _LONGEST_NOTE - 1] + "…"


def _tally(rows: Sequence[dict[str, Any]]) -> str:
    return f"{sum(test['passed'] for test in rows)}/{len(rows)}"
