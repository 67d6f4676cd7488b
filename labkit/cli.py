"""`python -m labkit`: the verbs of `labkit/verbs` in one parser.

A student edition has only the table of the students' verbs and the modules that this table needs.
So the tables are looked up by name, and no import here needs the others.
"""

import argparse
import errno
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from labkit.course.lab import ROOT
from labkit.errors import LabkitError
from labkit.interrupt import INTERRUPTED, STOPPED, ends_at_once
from labkit.verbs import Declare, Run, Table

_AUDIENCES = ("students", "instructors", "maintainers")
# The words after these verbs are parsed elsewhere.
_PASSED_ON = ("demo", "serve")
# The errors of an output whose disk is full.
_FULL = (errno.ENOSPC, errno.EDQUOT)


def main(argv: list[str], root: Path = ROOT) -> int:
    """Run one verb; return its exit code.

    The code is 0, 1 (tests or gates failed), 2 (usage), 3 (grading broke off) or 130 (Ctrl+C).
    """
    try:
        with ends_at_once():
            args = _parse(argv, root)
        run: Run = args.run
        code = run(args, root)
        sys.stdout.flush()
        return code
    except LabkitError as error:
        print(f"labkit: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has ended (`make lab | head`).
        _discard_output()
        return 1
    except OSError as error:
        if error.filename is None and error.errno not in _FULL:
            raise
        print(f"labkit: {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)
        if error.filename is None:
            _discard_output()
        return 2


def _discard_output() -> None:
    """Have no later flush fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """A parser whose error is one line, like all our errors; subparsers are of this class too."""

    def error(self, message: str) -> NoReturn:
        """Print the error and the command for help; exit with 2."""
        self.exit(2, f"labkit: {message}; `{self.prog} --help` shows its options\n")


def _parse(argv: list[str], root: Path) -> argparse.Namespace:
    """Return the options of the verb that was called, with its function `run`."""
    tables = _tables()
    shown = _shown(tables, root)
    parser = _Parser(
        prog="python -m labkit",
        description="Run, check and grade the labs. `VERB --help` shows the options of a verb.",
        epilog=_list_of_verbs(shown),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = {name: row for table in tables for name, row in table.verbs.items()}
    if argv and not argv[0].startswith("-") and argv[0] not in verbs:
        names = ", ".join(name for table in shown for name in table.verbs)
        parser.error(f"there is no verb {argv[0]!r}; the verbs are {names}")
    commands = parser.add_subparsers(
        required=True, metavar="VERB", help="a verb of the lists below"
    )
    for name, (does, declare) in verbs.items():
        command = commands.add_parser(name, description=f"{does[0].upper()}{does[1:]}.")
        if name in argv[:1]:
            command.set_defaults(run=_declared(declare, command))
    if argv[:1] and argv[0] in _PASSED_ON:
        return parser.parse_args(argv[:1], argparse.Namespace(words=argv[1:]))
    return parser.parse_args(argv)


def _declared(declare: Declare | str, command: argparse.ArgumentParser) -> Run:
    """Declare the options of a verb; return the function that runs it."""
    if not isinstance(declare, str):
        return declare(command)
    module = import_module(declare)
    module.add_options(command)
    run: Run = module.run
    return run


def _tables() -> list[Table]:
    modules = [f"labkit.verbs.{audience}" for audience in _AUDIENCES]
    return [import_module(module).TABLE for module in modules if find_spec(module)]


def _shown(tables: list[Table], root: Path) -> list[Table]:
    """Return the verbs that `--help` lists: without references, those that need none."""
    if any(root.glob("phase-*/labs/*/solution.py")):
        return tables
    audience, example, verbs = tables[0]
    return [Table(audience, example, {name: verbs[name] for name in verbs if name != "solution"})]


def _list_of_verbs(tables: list[Table]) -> str:
    """Return the verbs by audience, with their descriptions."""
    lines = []
    for table in tables:
        lines += ["", f"{table.audience}, for example `python -m labkit {table.example}`:"]
        lines += (f"  {name:<16} {does}" for name, (does, _) in table.verbs.items())
    return "\n".join(lines[1:])
