"""The rest of a hunt's report: the kills of each test, survivors, and a smallest set of tests."""

from dataclasses import dataclass

from rich.console import Console

from labkit.course.hunt import KILLED, Code, label_of
from labkit.running.hunting.rules import Hunted
from labkit.running.reporting.failures import print_wrapped
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun

_MOST_NAMES = 12


@dataclass(frozen=True, slots=True)
class HuntRow:
    """The outcome of one of a hunter's tests.

    Attributes:
        test: its name.
        outcome: the killed implementations, or the reason why the test is void or not written.
        why: the details for a void test; otherwise "".
    """

    test: str
    outcome: str
    why: str


def hunt_rows(run: LabRun) -> list[HuntRow]:
    """Return the outcome of each test, or of one lab's tests; no row if no test is written."""
    hunted = run.hunted
    if hunted is None or not set(hunted.tests) - hunted.unwritten.keys():
        return []
    known = {target.label for target in run.lab.pool.targets}
    labels = _labels_of_this_run(run)
    return [
        _row(hunted, test)
        for test in hunted.tests
        if label_of(test) in labels or label_of(test) not in known
    ]


def enough_of(run: LabRun) -> list[str]:
    """Return a small set of tests that kill as much as all; none if no test can be spared."""
    if run.hunted is None:
        return []
    labels = _labels_of_this_run(run)
    killers = [test for test in run.hunted.tests if run.hunted.killed_by(test)]
    of_run = [test for test in killers if label_of(test) in labels]
    enough = [test for test in run.hunted.enough() if test in of_run]
    return enough if len(enough) < len(of_run) else []


def first_survivor(run: LabRun) -> Code | None:
    """Return the first published wrong implementation that tests have not killed.

    It is of a task that has tests. None if no test is written.
    """
    if not hunt_rows(run):
        return None
    missed = {name for name, result in run.results.items() if result.kind is ResultKind.ASSERTION}
    wrong = run.lab.pool.wrong()
    return next((code for code in wrong if f"{KILLED}[{code.name}]" in missed), None)


def void_test(run: LabRun) -> str | None:
    """Return the first void test, by name, if no test of the first survivor's lab counts.

    None if no test is void.
    """
    rows = [row.test for row in hunt_rows(run) if run.hunted and row.test in run.hunted.void]
    survivor = first_survivor(run)
    if run.hunted is None or (survivor is not None and run.hunted.counted(survivor.target)):
        return None
    return next(iter(rows), None)


def print_hunted(console: Console, run: LabRun) -> None:
    """Print the kills of each test, or why it is void, and tests that kill as much as all."""
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
            "Keep them: the grader's pool is larger"
        )
        print_wrapped(console, "enough here: ", others)


def _labels_of_this_run(run: LabRun) -> set[str]:
    return {
        code.target.label
        for code in run.lab.pool.wrong()
        if f"{KILLED}[{code.name}]" in run.results
    }


def _row(hunted: Hunted, test: str) -> HuntRow:
    if test in hunted.void:
        reason, _, details = " ".join(hunted.void[test].splitlines()).partition(": ")
        return HuntRow(test, f"void: {reason}", details)
    return HuntRow(test, _what_it_did(hunted, test), "")


def _what_it_did(hunted: Hunted, test: str) -> str:
    if test in hunted.unwritten:
        return "is not written yet"
    names = [name.partition("-")[2] for name in hunted.killed_by(test)]
    if not names:
        return "kills nothing here"
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"kills {len(names)}: {', '.join(names[:_MOST_NAMES])}{more}"
