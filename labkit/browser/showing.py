"""The recording of a failing test in the page's Python."""

from typing import Any

from labkit.course.lab import ROOT, Lab
from labkit.errors import UsageError
from labkit.running.recording.failing_case import first_failure, recording_of

# A page has little memory, and a reader looks at the last steps.
_MOST_STEPS = 5_000


def recording_of_test(lab: Lab, test: str) -> dict[str, Any]:
    """Return the recording of the smallest failing case of a test, as JSON's types.

    Raises:
        UsageError: the lab has no such test, or the code does not fail it.
    """
    failing = first_failure(lab, ROOT, "starter", test=test)
    if failing.result is not None:
        return recording_of(failing, _MOST_STEPS).as_dict()
    waiting = [] if failing.run is None else [result for _, result in failing.run.failed()]
    why = waiting[0].message if waiting else "this code passes it"
    raise UsageError(f"There is nothing to show of {test}: {why}. Run the lab again.")
