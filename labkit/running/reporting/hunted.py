"""What a hunt's report says besides its points: which test killed what, and how few would do."""

from dataclasses import dataclass

from rich.console import Console

from labkit.course.hunt import KILLED, label_of
from labkit.running.hunting.rules import Hunted
from labkit.running.reporting.failures import print_wrapped
from labkit.running.score import LabRun

_MOST_NAMES = 12


@dataclass(frozen=True, slots=True)
class HuntRow:
    """What became of one of a hunter's tests.

    Attributes:
        test: its name.
        outcome: what it killed, or that it does not count or is not written.
        why: why it does not count, or "".
    """

    test: str
    outcome: str
    why: str


def hunt_rows(run: LabRun) -> list[HuntRow]:
    """Return what each test did, of a run of one task those of its lab; none if none is written."""
    hunted = run.hunted
    if hunted is None or not set(hunted.tests) - hunted.unwritten.keys():
        return []
    known = {target.label for target in run.lab.pool.targets}
    labels = _labels_of_this_run(run)
    return [
        HuntRow(test, _what_it_did(hunted, test), " ".join(hunted.void.get(test, "").splitlines()))
        for test in hunted.tests
        if label_of(test) in labels or label_of(test) not in known
    ]


def enough_of(run: LabRun) -> list[str]:
    """Return a small set of tests that kill as much as all; none where that says nothing."""
    if run.hunted is None:
        return []
    labels = _labels_of_this_run(run)
    killers = [test for test in run.hunted.tests if run.hunted.killed_by(test)]
    of_run = [test for test in killers if label_of(test) in labels]
    enough = [test for test in run.hunted.enough() if test in of_run]
    return enough if len(enough) < len(of_run) else []


def print_hunted(console: Console, run: LabRun) -> None:
    """Print what each test killed, or why it does not count, and how few kill as much as all."""
    rows = hunt_rows(run)
    if not rows:
        return
    console.print()
    for row in rows:
        print_wrapped(console, f"{row.test}: ", row.outcome)
        if row.why:
            print_wrapped(console, "    ", row.why)
    if enough := enough_of(run):
        others = (
            f"{', '.join(enough)}; the other tests kill nothing more of the published part. "
            "Keep them: where you are graded there is more to kill"
        )
        print_wrapped(console, "enough here: ", others)


def _labels_of_this_run(run: LabRun) -> set[str]:
    return {
        code.target.label
        for code in run.lab.pool.wrong()
        if f"{KILLED}[{code.name}]" in run.results
    }


def _what_it_did(hunted: Hunted, test: str) -> str:
    if test in hunted.void:
        return "does not count"
    if test in hunted.unwritten:
        return "is not written yet"
    names = [name.partition("-")[2] for name in hunted.killed_by(test)]
    if not names:
        return "kills nothing here"
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"kills {len(names)}: {', '.join(names[:_MOST_NAMES])}{more}"
