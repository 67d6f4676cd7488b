"""`python -m labkit term LEDGER...`: the marks of several labs side by side, and their average.

Nothing is graded: the marks are those in the ledgers. The modules are imported when the verb runs,
as for `grade`.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.course.lab import find_labs
from labkit.errors import InfrastructureError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from labkit.grading.term.marks import Term
    from labkit.grading.term.reports import Row

_REPORTS = ("csv", "canvas", "moodle", "html")
_WEIGHTS_HELP = "weights of labs in the average: '02=1, 03=2.5'; a lab without a weight weighs 1"
_DROP_HELP = "leave each student's N lowest labs out of the average"


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the ledgers and options of the verb to its parser."""
    add = command.add_argument
    add(
        "ledgers",
        nargs="*",
        type=Path,
        metavar="LEDGER",
        help="the ledgers of the labs, as `grade --ledger` makes them; several may go together",
    )
    add("--roster", type=Path, metavar="CSV", help="students: Canvas's or Moodle's export")
    add("--weights", default="", metavar="WEIGHTS", help=_WEIGHTS_HELP)
    add("--drop", type=int, default=0, metavar="N", help=_DROP_HELP)
    add("--csv", type=Path, metavar="FILE", help="write a row for each student")
    add("--canvas", type=Path, metavar="FILE", help="write marks and average in Canvas's columns")
    add("--moodle", type=Path, metavar="FILE", help="write them in Moodle's columns")
    add("--html", type=Path, metavar="FILE", help="write a page for a browser")


def run(args: argparse.Namespace, root: Path) -> int:
    """Write the term of a command line; return the exit code, 0 or 3.

    Raises:
        UsageError: the command line is at fault, which is exit code 2.
    """
    try:
        return _run(args, root)
    except InfrastructureError as error:
        print(f"labkit: {error}", file=sys.stderr)
        return 3


def _run(args: argparse.Namespace, root: Path) -> int:
    from labkit.grading.marks.roster import read_roster
    from labkit.grading.report_files import check_file, write_file
    from labkit.grading.term.average import read_weights
    from labkit.grading.term.marks import Term
    from labkit.grading.term.reports import (
        check_form,
        rows_of,
        term_canvas,
        term_csv,
        term_moodle,
    )

    if not args.ledgers:
        raise UsageError("name the ledgers of the labs, as lab-*.ledger; see --help")
    if args.roster is None:
        raise UsageError("the marks of a term need --roster FILE, the list of your students")
    if args.drop < 0:
        raise UsageError(f"--drop {args.drop}: write a number of labs, 0 or more")
    # `lab-*` matches the keys beside the ledgers as well.
    ledgers = [path for path in args.ledgers if path.suffix != ".key"]
    roster = read_roster(args.roster)
    taken = {path.resolve() for path in [*args.ledgers, args.roster]}
    places = {name: getattr(args, name) for name in _REPORTS if getattr(args, name) is not None}
    for name, path in places.items():
        if name in ("canvas", "moodle"):
            check_form(f"--{name}", roster)
        check_file(path)
        if path.resolve() in taken:
            raise UsageError(f"--{name} {path} would overwrite a file that is named before")
        taken.add(path.resolve())
    term = Term(ledgers, roster, find_labs(root))
    weights = read_weights(args.weights, [lab.lab for lab in term.labs])
    rows = rows_of(term, weights, args.drop)
    for warning in term.warnings():
        print(f"labkit: {warning}", file=sys.stderr)
    texts = {
        "csv": lambda: term_csv(term, rows),
        "canvas": lambda: term_canvas(term, rows, roster),
        "moodle": lambda: term_moodle(term, rows, roster),
        "html": lambda: _page(term, rows, args),
    }
    _show(term, rows)
    for name, path in places.items():
        write_file(path, texts[name]())
        print(f"wrote {path}")
    return 0


def _page(term: "Term", rows: "Sequence[Row]", args: argparse.Namespace) -> str:
    # Templates take long to import.
    from labkit.grading.reports.page import environment_of

    rule = f"Weights: {args.weights}." if args.weights else "All labs weigh the same."
    if args.drop:
        rule += f" Lowest labs that are dropped: {args.drop}."
    templates = Path(__file__).resolve().parent / "templates"
    page = environment_of(templates).get_template("term.html.j2")
    return page.render(rows=rows, labs=term.labs, days=term.days, rule=rule) + "\n"


def _show(term: "Term", rows: "Sequence[Row]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from labkit.running.reporting.report import drawn

    def draw(console: Console) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_edge=False)
        table.add_column("student", overflow="fold")
        titles = [*(lab.lab.label for lab in term.labs)]
        titles += ["days left"] if term.days is not None else []
        for title in [*titles, "average"]:
            table.add_column(title, justify="right")
        for row in rows:
            cells = [row.student.name, *(mark.text for mark in row.marks.values())]
            cells += [str(row.days_left)] if term.days is not None else []
            table.add_row(*map(Text, [*cells, row.average_text]))
        console.print(table)

    print(drawn(draw, colour=False, width=100))
