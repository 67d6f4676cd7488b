"""A report as plain data, for other renderers than the terminal.

It contains the same rows, groups and explanations as the terminal's report.
"""

import re
from collections.abc import Sequence
from typing import Any

from labkit.course.lab import find_labs
from labkit.running.platform import NEEDS
from labkit.running.reporting import report
from labkit.running.reporting.explain import (
    GOAL,
    RULE,
    GradedTest,
    Label,
    explanation,
    graded_tests,
)
from labkit.running.reporting.groups import Group, of_first_task, of_later_tasks, waiting
from labkit.running.reporting.hunted import enough_of, hunt_rows
from labkit.running.reporting.next_step import next_step
from labkit.running.reporting.showing import repeatable
from labkit.running.reporting.tasks import TaskRow, given_row, task_rows
from labkit.running.reporting.trace_table import TraceTable
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun
from labkit.running.under_test import root_of

# The words of a checkout's commands that a page does not have. It has a button for `make lab` and
# `make hint`, so these stay.
_ON_A_PAGE = {
    r"see it work(:| with) make demo, then LAB_IMPL=starter make serve": (
        'see it work under "Your code, live", at the end of the text of lab 05'
    ),
    r" To use it as it is: LAB_PARTS=own make lab N=\d\d": "",
}


def report_data(run: LabRun, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report of a finished run, made of JSON's types.

    Args:
        run: the run.
        notes: further lines.

    Returns:
        `header`, `score` of `most`, `complete`; `tasks` and `given`; `verdicts`, the kind of each
        test's result by name, to compare runs; `failures` of the first task that has some; the
        reasons for which tests are `waiting`, and the `line` of the import error; how many fail
        `later`; the mistake that it `looks_like`; the outcome of a hunt, `hunted`; the rules that
        are `shown` if every test that ran passes; the `next` step; the tests that are `left_out`
        here; `notes`; and the whole report as `text`.
    """
    tests = graded_tests(run)
    given = given_row(tests, run.waits_for)
    labs = find_labs(root_of(run.lab))
    return {
        "header": _header(run),
        "score": run.score,
        "most": run.most,
        "complete": run.complete,
        "tasks": [_task(row) for row in task_rows(run.lab, tests)],
        "given": None if given is None else _task(given),
        "verdicts": {test.name: test.kind.value for test in tests},
        "failures": [_failure(run, group) for group in of_first_task(run.lab, tests)],
        "waiting": [_on_a_page(f"{those}{message}") for those, message in waiting(tests)],
        "line": next(
            (run.results[test.name].line for test in tests if test.kind is ResultKind.LOAD), None
        ),
        "later": [
            {"task": task, "count": count} for task, count in of_later_tasks(run.lab, tests).items()
        ],
        "looks_like": _looks_like(run),
        "hunted": None if run.hunted is None else _hunted(run),
        "shown": _shown(tests),
        "next": _on_a_page(next_step(run, labs)),
        "left_out": left_out(run.left_out),
        "notes": [*notes],
        "text": f"{report.header(run)}\n\n{report.render(run, colour=False)}",
    }


def _on_a_page(text: str) -> str:
    """Return a text without the commands that only a checkout has."""
    for words, instead in _ON_A_PAGE.items():
        text = re.sub(words, instead, text)
    return text


def left_out(tests: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the tests of a lab that cannot run on a platform, and why."""
    return [{"name": test.name, "points": test.points, "why": NEEDS[test.needs]} for test in tests]


def _header(run: LabRun) -> dict[str, Any]:
    return {
        "lab": run.lab.number,
        "hash": run.digest,
        "seed": run.seed,
        "parts": run.parts,
    }


def _task(row: TaskRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "title": row.title,
        "tests": row.tally,
        "points": row.points,
        "max": row.most,
        "status": row.status,
    }


def _failure(run: LabRun, group: Group) -> dict[str, Any]:
    """Return the failures of one reason, the first of them in full."""
    first = group[0]
    result = run.results[first.name]
    test = next(test for test in run.tests if test.name == first.name)
    details = explanation(test, result)
    # The rule has a place of its own.
    rules = (RULE, GOAL)
    labels = [row for row in (*details.labels, *details.after) if row.label not in rules]
    return {
        "task": first.task,
        "worth": first.max_score,
        "points": sum(test.max_score for test in group),
        "tests": [test.name for test in group],
        "rule": first.rule,
        "labels": [*map(_label, labels)],
        "trace": None if details.trace is None else _trace(details.trace),
        "shrunk": details.shrunk,
        "line": result.line,
    }


def _label(label: Label) -> dict[str, str]:
    return {"label": label.label, "text": repeatable(label.text)}


def _trace(table: TraceTable) -> dict[str, Any]:
    return {
        "columns": [*table.columns],
        "rows": [
            {
                "cells": [] if row.is_gap else [*row.cells],
                "mark": row.marked,
                "gap": row.cells[0] if row.is_gap else None,
            }
            for row in table.rows
        ],
    }


def _shown(tests: Sequence[GradedTest]) -> list[str]:
    """Return the first sentence of each rule that a run without a failure has shown to hold."""
    ran = [test for test in tests if test.ran and test.task is not None]
    if not all(test.passed for test in ran):
        return []
    return [re.split(r"(?<=\.) ", test.rule, maxsplit=1)[0] for test in ran]


def _looks_like(run: LabRun) -> dict[str, str] | None:
    if run.mistake is None:
        return None
    return {"name": run.mistake.name, "symptom": run.mistake.symptom, "hint": run.mistake.hint}


def _hunted(run: LabRun) -> dict[str, Any]:
    tests = [{"test": row.test, "told": row.outcome, "why": row.why} for row in hunt_rows(run)]
    return {"tests": tests, "enough": enough_of(run)}
