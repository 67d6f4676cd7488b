"""The board of `make progress`: every lab of the ladder, its last score, and what to do next."""

import io
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from labkit.course.lab import Lab
from labkit.course.tracks import track_done
from labkit.student.progress import Progress, Record, next_unfinished

_RIGHT = ("step", "score")
# Times closer than this are called equal.
_EQUAL = 1.15


def board(labs: list[Lab], progress: Progress, *, colour: bool) -> str:
    """Return the board as text, at most 88 columns; a heading for each track, if there are two."""
    columns = ["step", "lab", "score", "status", "hints", "time"]
    predicted = any(progress.record(lab).predictions for lab in labs)
    if predicted:
        columns.insert(4, "predicted")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in _RIGHT else "left")
    several = len({lab.track for lab in labs}) > 1
    track = ""
    for step, lab in enumerate(labs, start=1):
        if several and lab.track != track:
            track = lab.track
            table.add_row("", f"[bold]{track} track[/]")
        cells = _cells(step, lab, progress)
        table.add_row(*(cells[column] for column in columns))
    out = io.StringIO()
    console = Console(file=out, width=88, force_terminal=colour, highlight=False)
    console.print(table)
    for line in _races(labs, progress):
        console.print(line)
    console.print(f"\n{_next(labs, progress)}")
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def _next(labs: list[Lab], progress: Progress) -> str:
    following = next_unfinished(labs, progress)
    if following is None:
        return "Every lab passes. Well done."
    command = f"make lab N={following.number}"
    if done := track_done(labs, following):
        return f"{done}\nto go on with the {following.track} track: {command}"
    return f"next: {command}"


def _cells(step: int, lab: Lab, progress: Progress) -> dict[str, str]:
    record, status = progress.record(lab), _status(lab, progress)
    style = {"passed": "green", "not started": "dim"}.get(status, "yellow")
    # The last run may have been of another file than the one that is there now.
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
    if record.score is None:
        pristine = lab.pristine_starter
        same = pristine.exists() and lab.starter.exists() and (
            lab.starter.read_bytes() == pristine.read_bytes()
        )  # fmt: skip
        return "not started" if same else "not run yet"
    return "passed, edited since" if record.solved else "in progress"


def compared(ratio: float, name: str) -> str:
    """Return in words how long one takes beside the other called `name`, a noun or a class."""
    name = name if name[:1].isupper() else f"the {name}"
    if ratio > _EQUAL:
        return f"takes {ratio:,.1f} times as long as {name}"
    if ratio < 1 / _EQUAL:
        return f"is {1 / ratio:,.1f} times as fast as {name}"
    return f"is as fast as {name}"
