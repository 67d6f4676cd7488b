"""A failed expectation as data: what was expected, what came, and the run that shows it."""

from typing import Any


class Failure(AssertionError):
    """The implementation broke the rule under test. How it reads is up to `labkit.running.report`.

    Attributes:
        expected, actual: already in words or as `repr`.
        call: the call that shows it.
        trace: the run, or None.
    """

    def __init__(self, expected: str, actual: str, call: str = "", trace: Any = None) -> None:
        super().__init__(f"expected {expected}, got {actual}")
        self.expected = expected
        self.actual = actual
        self.call = call
        self.trace = trace
