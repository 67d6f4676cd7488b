"""`make show N=03`: step through the first failing case in the student's own code.

The failing test's smallest case is run again under a recorder. In a terminal, keys go through its
steps; without one, the steps around the fault are printed.
"""

import argparse
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from labkit.course.lab import Lab
from labkit.errors import UsageError
from labkit.running.recording.failing_case import (
    FirstFailure,
    first_failure,
    only_test,
    recording_of,
)
from labkit.running.recording.recording import Recording
from labkit.student.keyboard import has_keys, raw_keys
from labkit.student.pick import add_lab, add_task, lab_or_next, task_of
from labkit.student.show_page import page_of
from labkit.student.stepping import heading, move, print_around, screen_of

_WIDTH = 100
# The steps that are printed around the opening step, without a terminal.
_BEFORE, _AFTER = 12, 2


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit show`."""
    add_lab(command)
    add_task(command)
    command.add_argument("--test", default="", metavar="NAME", help="only this test of the lab")
    command.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page to FILE that opens without a network",
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="write the recording to FILE as "
                         "JSON, and show nothing; its schema is recording.schema.json in "
                         "labkit/running/recording")  # fmt: skip
    command.add_argument("--impl", default="starter", help="as LAB_IMPL (default: starter)")


def run(args: argparse.Namespace, root: Path) -> int:
    """Record the first failing case and show it.

    Returns:
        0; 1 if tests fail and there is no step to show; 2 for a usage error of pytest.

    Raises:
        UsageError: the lab has no such task or test, or is a hunt.
    """
    lab = lab_or_next(args.lab, root)
    failing = first_failure(lab, root, args.impl, *_options(lab, args))
    if failing.code == pytest.ExitCode.USAGE_ERROR:
        # pytest has printed the error.
        return 2
    if failing.code == pytest.ExitCode.INTERRUPTED:
        print(f"{lab.label}: stopped before a test failed, so there is no failure to show.")
        return failing.code
    if failing.result is None:
        print(_why_not(lab, failing))
        return int(failing.run is None or any(failing.run.failed()))
    recording = recording_of(failing)
    if args.json is not None:
        text = json.dumps(recording.as_dict(), ensure_ascii=True, indent=1)
        args.json.write_text(f"{text}\n", encoding="utf-8")
        print(f"{args.json}: {recording.kind}, {recording.why}")
    elif args.html is not None:
        args.html.write_text(page_of(recording), encoding="utf-8")
        print(f"{args.html}: {recording.why}")
    elif has_keys() and recording.opens is not None:
        _walk(recording)
    else:
        _print(recording)
    return 0 if recording.opens is not None else 1


def _options(lab: Lab, args: argparse.Namespace) -> list[str]:
    """Return the options of pytest that choose the tests."""
    if lab.hunt is not None:
        raise UsageError(
            f"{lab.label} is a hunt: its report shows why each of your tests is void, and "
            f"`make lab N={lab.number} ARGS=--pdb` stops in a test"
        )
    options = ["--lab-task", str(task_of(lab, args.task))] if args.task else []
    if args.test:
        options += only_test(lab, args.test)
    return options


def _why_not(lab: Lab, failing: FirstFailure) -> str:
    """Return why there is no failing case."""
    run = failing.run
    again = f"make lab N={lab.number}"
    if run is None:
        return f"{lab.label}: no test ran. See why: {again}"
    waiting = [result for _, result in run.failed() if result.kind.is_waiting]
    if waiting:
        return f"{lab.label}: no failure to show. {waiting[0].message}. See all: {again}"
    return f"{lab.label}: every test that ran passes, so there is no failure to show."


def _print(recording: Recording) -> None:
    console = Console(
        width=_WIDTH if not sys.stdout.isatty() else None, highlight=False, markup=False
    )
    console.print(heading(recording))
    console.print()
    print_around(console, recording, _BEFORE, _AFTER)


def _walk(recording: Recording) -> None:
    """Let the keys move through the steps, until q is pressed."""
    console = Console(highlight=False, markup=False)
    number = recording.opens or 0
    with raw_keys() as keys, console.screen() as screen:
        screen.update(screen_of(recording, number, console.height))
        for key in keys:
            if key == "q":
                return
            number = move(recording, number, key)
            screen.update(screen_of(recording, number, console.height))
