"""`make race N=04`: your code, the reference and the naive version on the same input, in one run.

A race has no points: it shows the cost of an idea in time and in held text.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from labkit.course.lab import Lab, find_labs, pick_lab
from labkit.errors import LoadFailure
from labkit.running.lab_impl import Implementation
from labkit.running.racing import (
    FILE,
    Make,
    Race,
    StumbleError,
    Walk,
    best_times,
    first_difference,
    maker,
    read_race,
    walk,
    where,
)
from labkit.student.board import compared, named
from labkit.student.pick import add_lab, remember
from labkit.student.progress import Progress, RaceResult

YOURS, REFERENCE = "yours", "reference"
_WIDTH = 88
_BAR = 24


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `python -m labkit race`."""
    add_lab(command)


def run(args: argparse.Namespace, root: Path) -> int:
    """Race and show the figures; return 0, or 1 with the reason if there is no race."""
    lab, race = _lab_with_race(args.lab, root)
    if lab is None or race is None:
        return 1
    try:
        makers, walks = _walk_all(lab, race)
        _compare(race, walks)
    except (StumbleError, LoadFailure) as error:
        print(f"No race: {error}")
        print(
            "To race, your code needs the right output on the race's input: "
            f"make lab N={lab.number}"
        )
        return 1
    progress = Progress(root)
    times = best_times(race, makers)
    _show(lab, race, times, walks, passes=progress.passes(lab))
    rival = REFERENCE if REFERENCE in times else race.naive_version
    ratio = times[YOURS] / times[rival]
    yours = walks[YOURS]
    result = RaceResult(race.unit, times[YOURS], yours.held, yours.held_unit, rival, ratio)
    remember(partial(progress.save_race, lab, result))
    return 0


def _lab_with_race(number: str, root: Path) -> tuple[Lab | None, Race | None]:
    labs = find_labs(root)
    have = ", ".join(f"N={lab.number}" for lab in labs if (lab.path / FILE).exists())
    if not number:
        print(f"Name a lab; the labs with a race are {have or 'none'}.")
        return None, None
    lab = pick_lab(labs, number)
    race = read_race(lab)
    if race is None:
        print(f"{lab.label} has no race; the labs with a race are {have or 'none'}.")
    return lab, race


def _walk_all(lab: Lab, race: Race) -> tuple[dict[str, Make], dict[str, Walk]]:
    sources = {YOURS: Implementation("starter", lab.starter)}
    if lab.solution.exists():
        sources[REFERENCE] = Implementation("solution", lab.solution)
    makers = {name: maker(race, source) for name, source in sources.items()}
    for name, make in {race.naive_version: race.naive, **race.others}.items():
        makers[name] = make
        sources[name] = Implementation("path", lab.path / FILE)
    return makers, {name: walk(race, makers[name], sources[name]) for name in makers}


def _compare(race: Race, walks: dict[str, Walk]) -> None:
    """Raise StumbleError if the student's output is not that of the reference."""
    rival = REFERENCE if REFERENCE in walks else race.naive_version
    number = first_difference(walks[YOURS].outputs, walks[rival].outputs)
    if number is not None:
        ours = repr(walks[YOURS].outputs[number])[:60]
        at = where(race, number)
        raise StumbleError(f"at {at}, your output {ours} differs from that of the {rival}")


def _show(
    lab: Lab, race: Race, times: dict[str, float], walks: dict[str, Walk], *, passes: bool
) -> None:
    console = Console(width=_WIDTH if not sys.stdout.isatty() else None, highlight=False)
    console.print(f"{lab.label} {lab.title}: {len(race.pieces):,} {race.unit}s, all in one run\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("", f"ns per {race.unit}", "", f"{walks[YOURS].held_unit or 'text'} held"):
        table.add_column(column, justify="left" if not column else "right")
    most = max(times.values())
    for name, ns in times.items():
        bar = "█" * max(1, round(_BAR * ns / most))
        held = walks[name].held
        table.add_row(name, f"{ns:,.0f}", bar, "-" if held is None else f"{held:,.1f}")
    console.print(table)
    console.print(f"\n{_landing(times, walks)}")
    if REFERENCE not in times:
        rivals = " and ".join(named(name) for name in times if name != YOURS)
        console.print(f"There is no reference here: your code runs beside {rivals}.")
    if not passes:
        console.print(
            f"Your code does not pass {lab.label} yet: the race shows only that its output is "
            "right on this input."
        )


def _landing(times: dict[str, float], walks: dict[str, Walk]) -> str:
    """Return the result of the student's code in one sentence."""
    rivals = [name for name in times if name != YOURS]
    said = ", and ".join(compared(times[YOURS] / times[name], name) for name in rivals)
    held = {name: f"{run.held:,.1f}" for name, run in walks.items() if run.held is not None}
    if YOURS not in held or len(held) == 1:
        return f"Your code {said}."
    others = ", ".join(f"the {name} {held[name]}" for name in rivals if name in held)
    return f"Your code {said}; it holds {held[YOURS]} on average, {others}."
