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
from labkit.running.recording.apart import record_apart
from labkit.running.recording.failing_case import FirstFailure
from labkit.running.recording.recording import Recording
from labkit.student.keyboard import has_keys, raw_keys
from labkit.student.pick import add_lab, add_task, lab_or_next, task_of
from labkit.student.show_page import page_of
from labkit.student.stepping import heading, move, print_around, screen_of

_HELP = """\
It runs the tests up to the first failure, runs the smallest failing case again and notes each line.
It opens at the step that shows the fault. In a terminal, keys move through the steps:
  left, right  one line back or on        n, p  the next call of the test, the call before
  up, down     another call of a function o     the step where it opened
  q            quit
Without a terminal, the steps before that step are printed.

  make show N=03                            the first failure of lab 03
  make show N=03 T=2                        the first failure of its task 2
  make show N=03 ARGS='--test test_x'       the failure of one test
  make show N=03 ARGS='--html steps.html'   a page with the steps, to open in a browser
"""
_WAIT = "running the tests up to the first failure. Slow code may take a minute; Ctrl+C stops it."
_WIDTH = 100
# The steps that are printed around the opening step, without a terminal.
_BEFORE, _AFTER = 12, 2


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit show`."""
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = _HELP
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
        UsageError: the lab has no such task or test, or is a hunt; or the file to write is a
            folder, or in none, or cannot be written.
    """
    lab = lab_or_next(args.lab, root)
    options = _options(lab, args)
    for path in filter(None, (args.html, args.json)):
        _check_folder(path)
    if sys.stderr.isatty():
        print(f"{lab.label}: {_WAIT}", file=sys.stderr, flush=True)
    recording = record_apart(lab, root, args.impl, options, args.test, _why_not)
    if not isinstance(recording, Recording):
        code, words = recording
        # pytest itself prints a usage error.
        print(words, end="\n" if words else "")
        return code
    if args.json is not None:
        text = json.dumps(recording.as_dict(), ensure_ascii=True, indent=1)
        _write(args.json, f"{text}\n")
        print(f"{args.json}: {recording.kind}, {recording.why}")
    elif args.html is not None:
        _write(args.html, page_of(recording))
        print(f"{args.html}: {recording.why}")
    elif has_keys() and recording.opens is not None:
        _walk(recording)
    else:
        _print(recording)
    return 0 if recording.opens is not None else 1


def _options(lab: Lab, args: argparse.Namespace) -> list[str]:
    """Return the options of pytest that choose the tests of a task."""
    if lab.hunt is not None:
        raise UsageError(
            f"{lab.label} is a hunt: its report shows why each of your tests is void, and "
            f"`make lab N={lab.number} ARGS=--pdb` stops in a test"
        )
    return ["--lab-task", str(task_of(lab, args.task))] if args.task else []


def _check_folder(path: Path) -> None:
    """Check that a file can be written, before the tests take their time."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}; make it first")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        # The error of a full disk does not name the file.
        raise UsageError(f"{path}: {error.strerror}; write the steps to another file") from None


def _why_not(lab: Lab, failing: FirstFailure) -> tuple[int, str] | None:
    """Return an exit code and why there is no failing case; None if there is one."""
    run = failing.run
    again = f"make lab N={lab.number}"
    if failing.code == pytest.ExitCode.USAGE_ERROR:
        return 2, ""
    if failing.code == pytest.ExitCode.INTERRUPTED:
        words = "stopped before a test failed, so there is no failure to show."
        return failing.code, f"{lab.label}: {words}"
    if failing.result is not None:
        return None
    if run is None:
        return 1, f"{lab.label}: no test ran. See why: {again}"
    waiting = [result for _, result in run.failed() if result.kind.is_waiting]
    if waiting:
        # The message may show a line of the file.
        message = waiting[0].message
        see = f"\nSee all: {again}" if "\n" in message else f". See all: {again}"
        return 1, f"{lab.label}: no failure to show. {message}{see}"
    words = "every test that ran passes, so there is no failure to show."
    return int(any(run.failed())), f"{lab.label}: {words}"


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
