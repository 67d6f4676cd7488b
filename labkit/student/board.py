"""The board of `make progress`: every lab of the ladder, its last score, and what to do next."""

import io

from rich.console import Console
from rich.table import Table

from labkit.course.lab import Lab
from labkit.student.progress import Progress, next_unfinished


def board(labs: list[Lab], progress: Progress, *, colour: bool) -> str:
    """Return the board as text, at most 88 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("step", "lab", "score", "status", "hints", "time"):
        table.add_column(column, justify="right" if column in ("step", "score") else "left")
    for step, lab in enumerate(labs, start=1):
        record = progress.record(lab)
        score = "-" if record.score is None else f"{record.score}/100"
        hints = sum(record.hints.values())
        status = _status(lab, progress)
        style = {"passed": "green", "not started": "dim"}.get(status, "yellow")
        name = f"{lab.number} {lab.title}"
        table.add_row(str(step), name, score, f"[{style}]{status}[/]", str(hints or "-"), lab.time)
    out = io.StringIO()
    console = Console(file=out, width=88, force_terminal=colour, highlight=False)
    console.print(table)
    following = next_unfinished(labs, progress)
    console.print(
        f"\nnext: make lab N={following.number}" if following else "\nEvery lab passes. Well done."
    )
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


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
    return "passed before, edited since" if record.solved else "in progress"
