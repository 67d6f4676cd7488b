"""The results of a hunt's lab: a test passes if the wrong implementation that it names is killed.

`labkit.running.hunting.rules` decides which are killed, and knows nothing of results.
"""

from collections.abc import Iterable

from labkit.course.hunt import Code, Pool, label_of
from labkit.course.manifest import Test
from labkit.running.hunting.rules import Hunted
from labkit.running.result_kind import ResultKind
from labkit.running.score import JudgedError, Result


class Hunting:
    """The checks that the tests of a hunt call.

    Args:
        pool: its implementations.
        hunted: its outcome.
    """

    def __init__(self, pool: Pool, hunted: Hunted) -> None:
        self._codes = {code.name: code for code in pool.wrong()}
        self._hunted = hunted

    def expect_killed(self, name: str) -> None:
        """Fail unless a wrong implementation is killed."""
        _end(result_of(self._codes[name], self._hunted))

    def expect_no_void(self) -> None:
        """Fail if one of the student's tests is void; the report gives the reason for each."""
        if self._hunted.void:
            _end(Result(ResultKind.ASSERTION, _void_tests(self._hunted)))


def _end(result: Result) -> None:
    if not result.passed:
        raise JudgedError(result)


def result_of(code: Code, hunted: Hunted) -> Result:
    """Return the result of a wrong implementation: it passes as a test if it is killed."""
    killers = hunted.kills.get(code.name, ())
    if code.name in hunted.paid:
        why = "is flaky, which costs the points of one killed implementation"
        return Result(ResultKind.ASSERTION, f"survives: {hunted.paid[code.name]} {why}")
    if killers:
        others = f" and {len(killers) - 1} more" if len(killers) > 1 else ""
        return Result(ResultKind.PASSED, f"killed by {killers[0]}{others}")
    label, counted = code.target.label, hunted.counted(code.target)
    waiting = [hunted.unwritten[test] for test in hunted.unwritten if label_of(test) == label]
    if not counted and waiting:
        return Result(ResultKind.UNWRITTEN, f"{waiting[0]} is not written yet")
    tried = f"no test of {label} counts"
    if counted:
        those = (
            f"1 test of {label} passes"
            if len(counted) == 1
            else f"{len(counted)} tests of {label} pass"
        )
        tried = f"{those} on it"
    if distance := hunted.short_of.get(code.name):
        tried += f". {distance}"
    return Result(ResultKind.ASSERTION, f"survives: {code.symptom} ({tried})")


def result_of_void(hunted: Hunted) -> Result:
    """Return whether none of a student's tests is void; otherwise name them, then the reasons."""
    if not hunted.void:
        return Result(ResultKind.PASSED)
    reasons = "; ".join(f"{test}: {why}" for test, why in hunted.void.items())
    return Result(ResultKind.ASSERTION, f"{_void_tests(hunted)}. {reasons}")


def _void_tests(hunted: Hunted) -> str:
    return f"these tests are void: {', '.join(hunted.void)}"


def results_of(tests: Iterable[Test], pool: Pool, hunted: Hunted) -> dict[str, Result]:
    """Return the results of the tests of a hunt, by name."""
    codes = {code.name: code for code in pool.wrong()}
    results = {}
    for test in tests:
        code = codes.get(test.name.partition("[")[2].rstrip("]"))
        results[test.name] = result_of_void(hunted) if code is None else result_of(code, hunted)
    return results
