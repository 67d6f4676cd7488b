"""What a hunt's report says besides its points: which test killed what, and how few would do."""

from rich.console import Console

from labkit.running.hunting import Hunted
from labkit.running.reporting.failures import print_wrapped

_MOST_NAMES = 12


def print_hunted(console: Console, hunted: Hunted) -> None:
    """Print what each test killed, and a small set of tests that kill as much as all of them."""
    console.print()
    for test in hunted.tests:
        print_wrapped(console, f"{test}: ", _what_it_did(hunted, test))
    enough = hunted.enough()
    if 0 < len(enough) < len([test for test in hunted.tests if hunted.killed_by(test)]):
        others = f"{', '.join(enough)}; the other tests kill nothing more"
        print_wrapped(console, "enough: ", others)


def _what_it_did(hunted: Hunted, test: str) -> str:
    if test in hunted.void:
        return f"does not count ({hunted.void[test].partition(': ')[0]})"
    if test in hunted.unwritten:
        return "is not written yet"
    names = [name.partition("-")[2] for name in hunted.killed_by(test)]
    if not names:
        return "kills nothing"
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"kills {len(names)}: {', '.join(names[:_MOST_NAMES])}{more}"
