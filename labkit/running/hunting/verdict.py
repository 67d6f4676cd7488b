"""The verdict of one of a student's tests on one implementation.

A `Result` is the verdict of the course's test on a student's code. Here a student's test judges the
course's code, so a failure may earn points, and `ResultKind` does not fit: the rules of a hunt only
ask whether a test failed, is not written, or would run forever.
"""

from dataclasses import dataclass
from enum import Enum

from labkit.running.trace import Raised

# Seconds of processor time that the tests of a lab may use in one run.
FUSE = 30.0
# The same in a page, in seconds of a terminal. The tests are in the process of the implementation
# there, so a call costs a tenth.
PAGE_FUSE = FUSE / 10
MOST_SHOWN = 300


class VerdictKind(Enum):
    """The kind of a verdict.

    Attributes:
        PASSED: the test accepts the implementation.
        FAILED: the test rejects the implementation, or the implementation took too many steps. On a
            wrong implementation, the test kills it; on a correct one, the test becomes void.
        UNWRITTEN: the test raises `NotImplementedError`. It earns nothing and is not void.
        ENDLESS: a fuse blew. The test is void, and the run ends with it.
    """

    PASSED = "passed"
    FAILED = "failed"
    UNWRITTEN = "unwritten"
    ENDLESS = "endless"


@dataclass(frozen=True)
class Verdict:
    """The verdict of one test on one implementation.

    Attributes:
        kind: the kind of verdict.
        why: the reason of a failure, for people.
        seconds: the processor time that the test took.
        steps: the steps that the implementation took, if they are known.
        allowed: the steps that it could take.
    """

    kind: VerdictKind
    why: str = ""
    seconds: float = 0.0
    steps: int = 0
    allowed: int = 0

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return self.kind is VerdictKind.PASSED


def verdict_of(raised: Raised | None) -> Verdict:
    """Return the verdict of a test that ended with this exception, or None."""
    if raised is None:
        return Verdict(VerdictKind.PASSED)
    if raised.kind == "NotImplementedError":
        return Verdict(VerdictKind.UNWRITTEN, raised.message.strip() or "it")
    what = f"{raised.kind}: {raised.message}" if raised.message else raised.kind
    line = f" ({raised.line})" if raised.line else ""
    return Verdict(VerdictKind.FAILED, f"{what:.{MOST_SHOWN}}{line:.{MOST_SHOWN}}")


def fuse_blown(fuse: float) -> Verdict:
    """Return the verdict of the test that was running when the tests of its lab had used up their
    time: `fuse` seconds of processor time in one run.
    """
    return endless(
        f"it was running when the tests of its lab had used their {fuse:g} s of processor time on "
        "one implementation. Its own loops count as well"
    )


def endless(why: str) -> Verdict:
    """Return the verdict of a test in which a fuse blew.

    Args:
        why: a clause that names what took too long.
    """
    return Verdict(VerdictKind.ENDLESS, f"{why}: make it end on every implementation", FUSE)
