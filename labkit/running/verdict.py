"""What became of a test, from the error that ended it. Equal for every way to run tests."""

from labkit.errors import LoadFailure
from labkit.running.failure import Failure
from labkit.running.lab_run import Result

TEST_LIMIT = 5.0
TIMEOUTS_ALLOWED = 2
ENOUGH_TIMEOUTS = f"{TIMEOUTS_ALLOWED} tests ran into the time limit; mend those first"
TOO_LONG = "Is there an endless loop, or work that grows with the square of the input?"


class NotRunError(Exception):
    """The test was not run because others of its lab ran into the time limit."""


def classify(error: BaseException) -> Result:
    """Return the result of a test that ended with an error."""
    if isinstance(error, NotRunError):
        return Result("not-run", str(error))
    if isinstance(error, LoadFailure):
        return Result("load", str(error))
    if isinstance(error, Failure):
        raised = error.trace.raised if error.trace is not None else None
        if raised is None:
            return Result("assertion", str(error), error)
        if raised.kind == "NotImplementedError":
            return Result("unwritten", f"{raised.message} is not written yet")
        return Result("raised", str(raised), error)
    return Result("test-error", f"{type(error).__name__}: {error}")
