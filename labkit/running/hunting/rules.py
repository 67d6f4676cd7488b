"""The rules of a hunt: a student's tests on every implementation of a pool, and what comes of it.

A test counts if it passes on the right implementations, twice. It kills a wrong one on which it
fails, by whatever exception, or runs into the time limit. Tests and implementations may be in this
process (`labkit.running.hunting.here`) or in two others (`labkit.isolation.hunter`): what happens
is the same.
"""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labkit.course.hunt import Code, Pool, Target, label_of
from labkit.course.manifest import Test
from labkit.running.score import JudgedError, Result
from labkit.running.trace import New, Raised

# The name by which a test's argument is made, in this process or in another one.
MAKE = "hunt.make"
ROUNDS = 2
# All tests of a lab may together use so many times what an implementation may in one of them.
ROUND = 10
# After so many tests that run into the limit on right implementations, the others are not run.
_MOST_LATE = 3
MOST_SHOWN = 300
_TWICE = "run twice on one implementation, it fails once and passes once"


@dataclass(frozen=True)
class Verdict:
    """What one test said of one implementation.

    Attributes:
        kind: `passed`, `failed`, `unwritten`, `late` (computed for too long), or `slept` (waited).
        told: why it failed, for people.
    """

    kind: str
    told: str = ""


# Runs tests on an implementation, in rounds. The first has all; the second on a right one, too, and
# on a wrong one those that kill it. A test that is late is the last.
Run = Callable[[Code, Sequence[str]], list[dict[str, Verdict]]]
PASSED = Verdict("passed")


@dataclass
class Hunted:
    """What came of a hunt.

    Attributes:
        tests: the student's, in the order of the file.
        void: those that do not count, and why.
        unwritten: those that raise `NotImplementedError`, and what that says.
        kills: by wrong implementation, the tests that kill it.
    """

    tests: tuple[str, ...]
    void: dict[str, str] = field(default_factory=dict)
    unwritten: dict[str, str] = field(default_factory=dict)
    kills: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def killed_by(self, test: str) -> list[str]:
        """Return the wrong implementations that a test kills."""
        return [name for name, tests in self.kills.items() if test in tests]

    def counted(self, target: Target) -> list[str]:
        """Return the tests of a target that count."""
        out = self.void.keys() | self.unwritten.keys()
        return [test for test in self.tests if label_of(test) == target.label and test not in out]

    def enough(self) -> list[str]:
        """Return few tests that kill as much as all: each kills the most of what is left."""
        left = {name for name, tests in self.kills.items() if tests}
        chosen: list[str] = []
        while left:
            best = max(self.tests, key=lambda test: len(left.intersection(self.killed_by(test))))
            left.difference_update(self.killed_by(best))
            chosen.append(best)
        return sorted(chosen, key=self.tests.index)


def hunt(source: bytes, pool: Pool, most_tests: int, run: Run) -> Hunted:
    """Run a student's tests on the implementations of the labs that they name.

    Args:
        source: the file that holds the tests.
        pool: the implementations.
        most_tests: how many of one lab count.
        run: runs some of them on one implementation.
    """
    functions = _test_functions(source)
    hunted = Hunted(tuple(dict.fromkeys(function.name for function in functions)))
    for number, function in enumerate(functions):
        if why := _never_runs(function, functions[:number], pool):
            hunted.void[function.name] = why
    for target in pool.targets:
        _hunt_one(target, pool, most_tests, run, hunted)
    return hunted


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _test_functions(source: bytes) -> list[_Function]:
    """Return the test functions of a source in order; none if it does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        node for node in tree.body if isinstance(node, _Function) and node.name.startswith("test")
    ]


def _never_runs(function: _Function, earlier: Sequence[_Function], pool: Pool) -> str:
    """Return why a test is not run, or ""."""
    labels = [target.label for target in pool.targets]
    if label_of(function.name) not in labels:
        names = " or ".join(f"test_{label}_..." for label in labels)
        return f"its name does not say which lab it tests: call it {names}"
    for other in earlier:
        if other.name == function.name:
            return (
                f"lines {other.lineno} and {function.lineno} define two tests of this name, so "
                "Python forgets the first: give each a name of its own"
            )
    if isinstance(function, ast.AsyncFunctionDef):
        return f"line {function.lineno} makes it async, so a call does not run it: write def"
    return ""


def _hunt_one(target: Target, pool: Pool, most_tests: int, run: Run, hunted: Hunted) -> None:
    for test in hunted.counted(target)[most_tests:]:
        hunted.void[test] = f"only {most_tests} tests of {target.label} are run"
    for code in pool.right(target):
        _try_on_right(code, run, hunted)
    for code in pool.wrong(target):
        counted = hunted.counted(target)
        rounds = run(code, counted) if counted else []
        killers = [test for test in counted if any(_kills(done, test) for done in rounds)]
        for test in counted:
            if why := _does_not_count(code, [done[test] for done in rounds if test in done]):
                hunted.void[test] = why
        hunted.kills[code.name] = tuple(killers)
    # What is void may have killed before that was seen.
    for name, tests in hunted.kills.items():
        hunted.kills[name] = tuple(test for test in tests if test not in hunted.void)


def _try_on_right(code: Code, run: Run, hunted: Hunted) -> None:
    """Sort out the tests that fail on a right implementation, or are not written."""
    late = 0
    while tests := hunted.counted(code.target):
        rounds = run(code, tests)
        again = False
        for test in tests:
            verdicts = [done.get(test, PASSED) for done in rounds]
            bad = next((verdict for verdict in verdicts if verdict.kind != "passed"), None)
            if bad is None:
                continue
            if bad.kind == "unwritten":
                hunted.unwritten[test] = bad.told
            elif verdicts[0].kind != verdicts[-1].kind and bad.kind == "failed":
                hunted.void[test] = f"{_TWICE}: {bad.told}"
            else:
                hunted.void[test] = f"on a right implementation: {bad.told}"
            # Those behind one that was late have not been run.
            again = again or bad.kind in ("late", "slept")
        if not again:
            return
        late += 1
        if late == _MOST_LATE:
            for test in hunted.counted(code.target):
                hunted.void[test] = f"not run: {late} others ran into the time limit"


def _kills(done: Mapping[str, Verdict], test: str) -> bool:
    return test in done and done[test].kind in ("failed", "unwritten", "late")


def _does_not_count(code: Code, verdicts: Sequence[Verdict]) -> str:
    """Return why a test is void because of what it said of a wrong implementation, or ""."""
    kinds = {verdict.kind for verdict in verdicts}
    if "slept" in kinds:
        return f"it waits instead of computing: {verdicts[-1].told}"
    if "passed" in kinds and kinds & {"failed", "unwritten"}:
        return f"{_TWICE}: draw from a seed"
    return ""


def once_more(
    code: Code, tests: Sequence[str], rounds: Sequence[Mapping[str, Verdict]]
) -> list[str]:
    """Return which tests the next round has."""
    return [
        test
        for test in tests
        if not (code.wrong and rounds and rounds[-1].get(test, PASSED).kind == "passed")
    ]


def verdict_of(raised: Raised | None) -> Verdict:
    """Return what a test said that ended like this."""
    if raised is None:
        return PASSED
    if raised.kind == "NotImplementedError":
        return Verdict("unwritten", raised.message.strip() or "it")
    what = f"{raised.kind}: {raised.message}" if raised.message else raised.kind
    line = f" ({raised.line})" if raised.line else ""
    return Verdict("failed", f"{what:.{MOST_SHOWN}}{line:.{MOST_SHOWN}}")


def late(seconds: float) -> str:
    """Return that an implementation computed for too long in one test."""
    return f"the implementation computed for more than {seconds:g} s in it"


def in_all(seconds: float) -> str:
    """Return that the tests of a lab were too long together."""
    return f"the tests of a lab used more than {ROUND * seconds:g} s in all when it was on"


def plan(test: str) -> list[New]:
    """Return what to make to have a test run: its result, of the argument that it takes."""
    return [New(test, (New(MAKE),))]


class Hunting:
    """What the tests of a hunt ask.

    Args:
        pool: its implementations.
        hunted: what came of it.
    """

    def __init__(self, pool: Pool, hunted: Hunted) -> None:
        self._codes = {code.name: code for code in pool.wrong()}
        self._hunted = hunted

    def expect_killed(self, name: str) -> None:
        """Fail unless a wrong implementation is dead."""
        _end(result_of(self._codes[name], self._hunted))

    def expect_no_void(self) -> None:
        """Fail if one of the student's tests does not count; the report says why at each."""
        if self._hunted.void:
            _end(Result("assertion", _no_count(self._hunted)))


def _end(result: Result) -> None:
    if not result.passed:
        raise JudgedError(result)


def result_of(code: Code, hunted: Hunted) -> Result:
    """Return what became of a wrong implementation: it passes as a test if it is dead."""
    killers = hunted.kills.get(code.name, ())
    if killers:
        others = f" and {len(killers) - 1} more" if len(killers) > 1 else ""
        return Result("passed", f"killed by {killers[0]}{others}")
    label, counted = code.target.label, hunted.counted(code.target)
    waiting = [hunted.unwritten[test] for test in hunted.unwritten if label_of(test) == label]
    if not counted and waiting:
        return Result("unwritten", f"{waiting[0]} is not written yet")
    tried = f"no test of {label} counts"
    if counted:
        those = (
            f"1 test of {label} passes"
            if len(counted) == 1
            else f"{len(counted)} tests of {label} pass"
        )
        tried = f"{those} on it"
    return Result("assertion", f"alive: {code.symptom} ({tried})")


def result_of_void(hunted: Hunted) -> Result:
    """Return whether all of a student's tests count; if not, which do not, and then why."""
    if not hunted.void:
        return Result("passed")
    told = "; ".join(f"{test}: {why}" for test, why in hunted.void.items())
    return Result("assertion", f"{_no_count(hunted)}. {told}")


def _no_count(hunted: Hunted) -> str:
    return f"these tests do not count: {', '.join(hunted.void)}"


def results_of(tests: Iterable[Test], pool: Pool, hunted: Hunted) -> dict[str, Result]:
    """Return what became of the tests of a hunt, by name."""
    codes = {code.name: code for code in pool.wrong()}
    results = {}
    for test in tests:
        code = codes.get(test.name.partition("[")[2].rstrip("]"))
        results[test.name] = result_of_void(hunted) if code is None else result_of(code, hunted)
    return results
