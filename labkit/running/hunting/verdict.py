"""What one of a student's tests said of one implementation.

A `Result` is what a test of the course says of a student's code. Here a student's test judges the
course's code, so a failure may be what earns points, and `ResultKind` does not fit: the rules of a
hunt only ask whether a test failed, is not written, or would run for ever.
"""

from dataclasses import dataclass
from enum import Enum

from labkit.running.trace import Raised

# Seconds of processor time that the tests of a lab may use in one run.
FUSE = 30.0
MOST_SHOWN = 300


class VerdictKind(Enum):
    """What a test said.

    Attributes:
        PASSED: the implementation is as the test wants it.
        FAILED: it is not, or it worked more than it may. On a wrong implementation that kills; on a
            right one it makes the test void.
        UNWRITTEN: the test raises `NotImplementedError`. It earns nothing and is not void.
        ENDLESS: a fuse blew. The test is void, and the last one of its run.
    """

    PASSED = "passed"
    FAILED = "failed"
    UNWRITTEN = "unwritten"
    ENDLESS = "endless"


@dataclass(frozen=True)
class Verdict:
    """What one test said of one implementation.

    Attributes:
        kind: what it said.
        why: it failed, for people.
        seconds: of processor time that it took.
    """

    kind: VerdictKind
    why: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return self.kind is VerdictKind.PASSED


def verdict_of(raised: Raised | None) -> Verdict:
    """Return what a test said that ended like this."""
    if raised is None:
        return Verdict(VerdictKind.PASSED)
    if raised.kind == "NotImplementedError":
        return Verdict(VerdictKind.UNWRITTEN, raised.message.strip() or "it")
    what = f"{raised.kind}: {raised.message}" if raised.message else raised.kind
    line = f" ({raised.line})" if raised.line else ""
    return Verdict(VerdictKind.FAILED, f"{what:.{MOST_SHOWN}}{line:.{MOST_SHOWN}}")


def endless(why: str) -> Verdict:
    """Return the verdict of a test in which a fuse blew.

    Args:
        why: what it did for too long.
    """
    return Verdict(VerdictKind.ENDLESS, f"{why}: let it end on every implementation", FUSE)
