"""The lab and the task of a verb: those that are named, else the next lab or task."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import UsageError
from labkit.student.progress import Progress, next_unfinished


def add_lab(command: ArgumentParser) -> None:
    """Add the option that names a lab."""
    command.add_argument("--lab", default="", metavar="N", help="number of the lab, such as 03")


def add_task(command: ArgumentParser) -> None:
    """Add the option that names a task."""
    command.add_argument("--task", default="", metavar="T", help="number of a task, such as 2")


def add_pytest(command: ArgumentParser) -> None:
    """Add the options that are passed through to pytest."""
    command.add_argument(
        "pytest", nargs="*", metavar="-- OPTION", help="options for pytest: -- -s -k flush"
    )


def lab_or_next(number: str, root: Path) -> Lab:
    """Return the lab that `N=number` means; for "", the first of the ladder that does not pass.

    Raises:
        UsageError: there is no such lab.
        SystemExit: every lab passes.
    """
    labs = find_labs(root)
    lab = pick_lab(labs, number) if number else next_unfinished(labs, Progress(root))
    if lab is None:
        print("Every lab passes. To go back to a lab, name it, for example N=03.")
        raise SystemExit(0)
    return lab


def task_of(lab: Lab, number: str) -> int:
    """Return the task that `T=number` means.

    Raises:
        UsageError: the lab has no such task.
    """
    numbers = [task.number for task in lab.tasks]
    if number.isdecimal() and int(number) in numbers:
        return int(number)
    have = ", ".join(f"T={number}" for number in numbers)
    raise UsageError(f"{lab.label} has no task {number!r}; it has {have}")


def remember(save: Callable[[], None]) -> None:
    """Save something of the student's progress; if it cannot be written, only print a warning."""
    try:
        save()
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"labkit: your progress was not saved: {said}", file=sys.stderr)
