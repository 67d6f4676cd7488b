"""The board of `make progress`: every lab of the ladder, the pipeline, and the next step."""

import io
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.course.lab import Lab
from labkit.course.tracks import track_done
from labkit.student.picture import picture
from labkit.student.progress import Progress, Record, is_untouched, next_unfinished

_RIGHT = ("step", "score")
_GAP = 2
# The columns to drop on a narrow terminal, in this order.
_SPARE = ("time", "hints", "predicted")
# Times closer than this are called equal.
_EQUAL = 1.15


def board(labs: list[Lab], progress: Progress, *, colour: bool, width: int = 80) -> str:
    """Return the board as text; a heading for each track, if there are two.

    Args:
        labs: in order.
        progress: the student's records.
        colour: whether to use colours for the status.
        width: the columns of the terminal; a narrow table leaves some columns out.
    """
    rows = [_cells(step, lab, progress) for step, lab in enumerate(labs, start=1)]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    columns = _columns(rows, width)
    for column in columns:
        table.add_column(column, justify="right" if column in _RIGHT else "left", no_wrap=True)
    several = len({lab.track for lab in labs}) > 1
    track = ""
    for lab, cells in zip(labs, rows, strict=True):
        if several and lab.track != track:
            track = lab.track
            table.add_row("", f"[bold]{track} track[/]")
        table.add_row(*(cells[column] for column in columns))
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=colour, highlight=False)
    console.print(table)
    if drawn := picture(labs, progress, width):
        console.print(f"\n{drawn}", markup=False)
    for line in _races(labs, progress):
        console.print(line)
    console.print(f"\n{_next(labs, progress)}")
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _columns(rows: list[dict[str, str]], width: int) -> list[str]:
    """Return the columns that fit; without predictions there is no column for them."""
    columns = ["step", "lab", "score", "status", "predicted", "hints", "time"]
    if all(cells["predicted"] == "-" for cells in rows):
        columns.remove("predicted")
    widths = {
        name: max(len(name), *(Text.from_markup(cells[name]).cell_len for cells in rows))
        for name in columns
    }
    for name in _SPARE:
        if sum(widths[name] + _GAP for name in columns) - _GAP > width and name in columns:
            columns.remove(name)
    return columns


def _next(labs: list[Lab], progress: Progress) -> str:
    following = next_unfinished(labs, progress)
    if following is None:
        return "Every lab passes. Well done."
    command = f"make lab N={following.number}"
    if done := track_done(labs, following):
        return f"{done}\nto continue with the {following.track} track: {command}"
    return f"next: {command}"


def _cells(step: int, lab: Lab, progress: Progress) -> dict[str, str]:
    record, status = progress.record(lab), _status(lab, progress)
    style = {"passed": "green", "not started": "dim"}.get(status, "yellow")
    # The last run may have been of another file than the current one.
    score = 100 if progress.passes(lab) else record.score
    return {
        "step": str(step),
        "lab": f"{lab.number} {lab.title}",
        "score": "-" if score is None else f"{score}/100",
        "status": f"[{style}]{status}[/]",
        "predicted": _predicted(record),
        "hints": str(sum(record.hints.values()) or "-"),
        "time": lab.time,
    }


def _predicted(record: Record) -> str:
    answers = record.predictions.values()
    return f"{sum(answer is True for answer in answers)}/{len(answers)}" if answers else "-"


def _races(labs: list[Lab], progress: Progress) -> Iterator[str]:
    """Yield a line for each lab whose code has raced."""
    raced = [(lab, race) for lab in labs if (race := progress.record(lab).race)]
    for number, (lab, race) in enumerate(raced):
        held = "" if race.held is None else f", {race.held:,.1f} {race.held_unit} held"
        yield (
            f"{'' if number else chr(10)}race {lab.number}: {race.ns:,.0f} ns per {race.unit}, "
            f"which {compared(race.ratio, race.rival)}{held}"
        )


def _status(lab: Lab, progress: Progress) -> str:
    record = progress.record(lab)
    if progress.passes(lab):
        return "passed"
    if record.solved:
        # The score is that of the last run: of the file that passed, or of the file as edited.
        last_passed = [record.starter, record.tests] in record.passing
        return "passed, edited since" if last_passed else "passed before"
    if is_untouched(lab):
        # The score is that of the file before.
        return "reset since" if record.score else "not started"
    return "no full run yet" if record.score is None else "in progress"


def compared(ratio: float, name: str) -> str:
    """Return a clause that compares a time with that of `name`, a noun or a class."""
    name = named(name)
    if ratio > _EQUAL:
        return f"takes {ratio:,.1f} times as long as {name}"
    if ratio < 1 / _EQUAL:
        return f"is {1 / ratio:,.1f} times as fast as {name}"
    return f"is as fast as {name}"


def named(name: str) -> str:
    """Return a noun with its article; the name of a class has no article."""
    return name if name[:1].isupper() else f"the {name}"
