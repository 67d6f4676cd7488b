"""The verbs of `python -m labkit`: what each is called, takes, and does.

Each audience has a table, in a file of its own. Only the verb that was called declares its options,
so `make lab` does not import the grader.
"""

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Run = Callable[[argparse.Namespace, Path], int]
Declare = Callable[[argparse.ArgumentParser], Run]
Option = Callable[[argparse.ArgumentParser], object]


class Table(NamedTuple):
    """The verbs for an audience.

    Attributes:
        audience: "For students".
        example: a verb of them with options.
        verbs: by name, in the order of `--help`: what a verb does, and what declares its options.
    """

    audience: str
    example: str
    verbs: dict[str, tuple[str, Declare]]


def here(run: Run, *declare: Option) -> Declare:
    """Return what declares a verb that `run` runs: its options, each by a function."""

    def declare_all(command: argparse.ArgumentParser) -> Run:
        for add in declare:
            add(command)
        return run

    return declare_all


def option(name: str, **facts: Any) -> Option:
    """Return what adds an option to a verb."""
    return lambda command: command.add_argument(name, **facts)


def in_module(module: str) -> Declare:
    """Return what declares a verb whose module has `add_options(command)` and `run(args, root)`."""

    def declare(command: argparse.ArgumentParser) -> Run:
        verb = importlib.import_module(module)
        verb.add_options(command)
        run: Run = verb.run
        return run

    return declare
