"""What a hunt's report says besides its points: which test killed what, and how few would do."""

from rich.console import Console

from labkit.course.hunt import KILLED, Code, label_of
from labkit.running.hunting import Hunted
from labkit.running.reporting.failures import print_wrapped
from labkit.running.score import LabRun

_MOST_NAMES = 12


def print_hunted(console: Console, run: LabRun) -> None:
    """Print what each test killed, or why it does not count, and how few kill as much as all.

    Of a run of one task, that is about the tests of its lab; while none is written, about none.
    """
    hunted = run.hunted
    if hunted is None or not set(hunted.tests) - hunted.unwritten.keys():
        return
    labels = {code.target.label for code in _of_this_run(run)}
    known = {target.label for target in run.lab.pool.targets}
    console.print()
    for test in hunted.tests:
        if label_of(test) in labels or label_of(test) not in known:
            print_wrapped(console, f"{test}: ", _what_it_did(hunted, test))
            if test in hunted.void:
                print_wrapped(console, "    ", " ".join(hunted.void[test].splitlines()))
    of_labels = [test for test in hunted.tests if label_of(test) in labels]
    enough = [test for test in hunted.enough() if test in of_labels]
    if 0 < len(enough) < len([test for test in of_labels if hunted.killed_by(test)]):
        others = (
            f"{', '.join(enough)}; the other tests kill nothing more of the published part. "
            "Keep them: where you are graded there is more to kill"
        )
        print_wrapped(console, "enough here: ", others)


def _of_this_run(run: LabRun) -> list[Code]:
    return [code for code in run.lab.pool.wrong() if f"{KILLED}[{code.name}]" in run.results]


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
