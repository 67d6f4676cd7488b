"""The verbs of `python -m labkit`: their names, options and functions.

Each audience has a table, in a file of its own. Only the verb that was called declares its options,
so `make lab` does not import the grader.
"""

import argparse
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
        example: one of the verbs, with options.
        verbs: by name, in the order of `--help`: the description of a verb, and the function that
            declares its options or the name of its module, which has `add_options(command)` and
            `run(args, root)`.
    """

    audience: str
    example: str
    verbs: dict[str, tuple[str, Declare | str]]


def here(run: Run, *declare: Option) -> Declare:
    """Return the declaration of a verb: `run`, and a function for each option."""

    def declare_all(command: argparse.ArgumentParser) -> Run:
        for add in declare:
            add(command)
        return run

    return declare_all


def option(name: str, **facts: Any) -> Option:
    """Return a function that adds an option to a verb."""
    return lambda command: command.add_argument(name, **facts)
