"""The rules of a hunt: a student's tests on every implementation of a pool, and the outcome.

Each implementation has all tests of its lab in two runs at least. Each run imports the tests anew,
and the second has them in the opposite order. A verdict counts only if it is the same each time:

    on a right one     passes, passes    the test counts
                       fails, fails      the test is void: it earns nothing and costs nothing
    on a wrong one     fails, fails      a test that counts has killed it
    on either          fails, passes     the test is flaky: void, and it costs the points of a kill

An implementation that takes too many steps (`labkit.running.hunting.work`) fails the test. Time
kills nothing: it is a fuse against endless loops, and a test that blows the fuse is void. Tests and
implementations may be in this process (`labkit.running.hunting.here`) or in two others, new for
each run (`labkit.running.remote.apart`, and `labkit.isolation.hunter` with walls); the rules are
the same.
"""

import ast
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from math import ceil, floor

from labkit.course.hunt import Code, Pool, Target, label_of, labels_in
from labkit.running.hunting.verdict import Verdict, VerdictKind
from labkit.running.trace import New

# The name by which a test's argument is made, in this or another process.
MAKE = "hunt.make"
# The runs of each implementation; a correct one has up to `_MORE_RUNS` more, at random.
RUNS = 2
_MORE_RUNS = 2
# Seconds of processor time that the tests of a lab may use in all their runs.
FUSE_IN_ALL = 300.0
# After so many tests that blew a fuse, the others of the lab are not run.
_MOST_ENDLESS = 3
# A flaky test costs as many points as so many wrong implementations.
PRICE = 1
_FLAKY = "run twice on one implementation, it passes once and fails once"


# Runs tests on an implementation in a new process, in this order. The implementation is imported
# anew for each test. An endless test is the last.
Run = Callable[[Code, Sequence[str]], dict[str, Verdict]]


@dataclass
class Hunted:
    """The outcome of a hunt.

    Attributes:
        tests: the student's, in the order of the file.
        void: the tests that do not count, and why.
        flaky: the void tests that cost points.
        unwritten: the tests that raise `NotImplementedError`, and its message.
        kills: by wrong implementation, the tests that kill it.
        paid: by wrong implementation that other tests kill, the flaky test that costs this kill.
        short_of: by slow implementation that survives, how far the best test is from killing it.
    """

    tests: tuple[str, ...]
    void: dict[str, str] = field(default_factory=dict)
    flaky: list[str] = field(default_factory=list)
    unwritten: dict[str, str] = field(default_factory=dict)
    kills: dict[str, tuple[str, ...]] = field(default_factory=dict)
    paid: dict[str, str] = field(default_factory=dict)
    short_of: dict[str, str] = field(default_factory=dict)

    def killed_by(self, test: str) -> list[str]:
        """Return the wrong implementations that a test kills."""
        return [name for name, tests in self.kills.items() if test in tests]

    def counted(self, target: Target) -> list[str]:
        """Return the tests of a target that count."""
        out = self.void.keys() | self.unwritten.keys()
        return [test for test in self.tests if label_of(test) == target.label and test not in out]

    def enough(self) -> list[str]:
        """Return few tests that kill as much as all: each kills the most survivors so far."""
        left = {name for name, tests in self.kills.items() if tests}
        chosen: list[str] = []
        while left:
            best = max(self.tests, key=lambda test: len(left.intersection(self.killed_by(test))))
            left.difference_update(self.killed_by(best))
            chosen.append(best)
        return sorted(chosen, key=self.tests.index)


def hunt(
    source: bytes, pool: Pool, most_tests: int, run: Run, seed: str, at_a_time: int = 1
) -> Hunted:
    """Run a student's tests on the implementations of the labs that they name.

    Args:
        source: the file that holds the tests.
        pool: the implementations.
        most_tests: how many tests of one lab count.
        run: runs some of the tests on one implementation.
        seed: the seed for the order of the runs, and of the tests in each run.
        at_a_time: how many labs' tests to run at a time, each in a thread.
    """
    functions = _test_functions(source)
    hunted = Hunted(tuple(dict.fromkeys(function.name for function in functions)))
    for number, function in enumerate(functions):
        if why := _never_runs(function, functions[:number], pool):
            hunted.void[function.name] = why
    seed = f"{seed}/{sha256(source).hexdigest()}"
    one_lab = partial(_hunt_target, hunted, pool, most_tests, run, seed)
    if at_a_time == 1:
        parts = [*map(one_lab, pool.targets)]
    else:
        threads = ThreadPoolExecutor(at_a_time)
        # The longest begin first, so that none runs alone at the end for long.
        by_length = sorted(pool.targets, key=lambda target: -len(pool.wrong(target)))
        try:
            by_target = dict(zip(by_length, threads.map(one_lab, by_length), strict=True))
            parts = [by_target[target] for target in pool.targets]
        finally:
            # After Ctrl-C, the maker of `run` ends its runs.
            threads.shutdown(wait=False, cancel_futures=True)
    for part in parts:
        hunted.void |= part.void
        hunted.unwritten |= part.unwritten
        hunted.kills |= part.kills
        hunted.short_of |= part.short_of
        hunted.flaky += part.flaky
    _charge(hunted)
    return hunted


def _hunt_target(
    begun: Hunted, pool: Pool, most_tests: int, run: Run, seed: str, target: Target
) -> Hunted:
    """Return the outcome of the tests of one target.

    Args:
        begun: the tests, and those that never run.
        pool, most_tests, run: as `hunt` takes them.
        seed: the seed, and the digest of the source.
        target: the target.
    """
    hunted = Hunted(begun.tests, dict(begun.void))
    for test in hunted.counted(target)[most_tests:]:
        hunted.void[test] = f"only {most_tests} tests of {target.label} are run"
    said = _run_all(target, pool, run, hunted, random.Random(f"{seed}/{target.label}"))
    for test in hunted.counted(target):
        _judge(test, pool.right(target), pool.wrong(target), said, hunted)
    for code in pool.wrong(target):
        counted = hunted.counted(target)
        killers = (test for test in counted if not said[code.name][test][0].passed)
        hunted.kills[code.name] = tuple(killers)
        if code.cost and not hunted.kills[code.name]:
            hunted.short_of[code.name] = _distance(counted, said[code.name], said, pool, target)
    return hunted


def _distance(
    tests: Sequence[str],
    slow: dict[str, list[Verdict]],
    said: "_Said",
    pool: Pool,
    target: Target,
) -> str:
    """Return how far tests are from killing a slow implementation, in a sentence; "" if unknown.

    Args:
        tests: those that count.
        slow: their verdicts on the slow implementation.
        said: all verdicts on the implementations of the target.
        pool, target: of the hunt.
    """
    best = (1.0, 0.0, "")
    for test in tests:
        usual = max((said[code.name][test][0].steps for code in pool.right(target)), default=0)
        verdict = slow[test][0]
        if usual:
            best = max(best, (verdict.steps / usual, verdict.allowed / usual, test))
    times, needed, test = best
    if not test:
        return ""
    return (
        f"{test} shows {floor(10 * times) / 10:g} times the correct implementation's work; more "
        f"than {ceil(10 * needed) / 10:g} times is needed: feed more and shorter pieces"
    )


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
    if len(named := labels_in(function.name)) > 1:
        return f"its name has more than one lab, {' and '.join(named)}: name the lab that it tests"
    for other in earlier:
        if other.name == function.name:
            return (
                f"lines {other.lineno} and {function.lineno} define two tests of this name, so "
                "Python drops the first: give each test its own name"
            )
    if isinstance(function, ast.AsyncFunctionDef):
        return f"line {function.lineno} makes it async, so a call does not run it: write def"
    return ""


# The verdicts of all runs, by implementation and test.
_Said = dict[str, dict[str, list[Verdict]]]


def _run_all(target: Target, pool: Pool, run: Run, hunted: Hunted, drawn: random.Random) -> _Said:
    """Run the tests of a target on each of its implementations; void those that blow a fuse."""
    schedule = []
    for code in (*pool.right(target), *pool.wrong(target)):
        more = 0 if code.wrong else drawn.randint(0, _MORE_RUNS)
        schedule += [code] * (RUNS + more)
    drawn.shuffle(schedule)
    order = hunted.counted(target)
    drawn.shuffle(order)
    said: _Said = {code.name: {test: [] for test in order} for code in schedule}
    runs = dict.fromkeys(said, 0)
    seconds, blown_fuses = 0.0, 0
    for code in schedule:
        # Each of any two tests runs once before the other.
        waiting = order if runs[code.name] % 2 == 0 else order[::-1]
        runs[code.name] += 1
        while waiting := [test for test in waiting if test not in hunted.void]:
            verdicts = run(code, waiting)
            for test, verdict in verdicts.items():
                said[code.name][test].append(verdict)
                seconds += verdict.seconds
                if verdict.kind is VerdictKind.ENDLESS:
                    hunted.void[test] = verdict.why
                    blown_fuses += 1
            _give_up(target, hunted, seconds, blown_fuses)
            waiting = [test for test in waiting if test not in verdicts]
        if not code.wrong:
            # Tests that do not count are not run again.
            order = [test for test in order if not _fails(said[code.name][test])]
    return said


def _fails(verdicts: Sequence[Verdict]) -> bool:
    return len(verdicts) >= RUNS and not any(verdict.passed for verdict in verdicts)


def _give_up(target: Target, hunted: Hunted, seconds: float, blown_fuses: int) -> None:
    """Void the remaining tests of a target if its tests have used their time."""
    why = ""
    if blown_fuses >= _MOST_ENDLESS:
        why = f"not run to the end: {blown_fuses} other tests of {target.label} never end"
    elif seconds > FUSE_IN_ALL:
        why = (
            f"the tests of {target.label} used more than {FUSE_IN_ALL:g} s of processor time on "
            "all implementations: reduce their work"
        )
    for test in hunted.counted(target) if why else ():
        hunted.void[test] = why


def _judge(
    test: str, right: Sequence[Code], wrong: Sequence[Code], said: _Said, hunted: Hunted
) -> None:
    """Sort out a test that is not written, fails on a right implementation, or is flaky."""
    for code in (*right, *wrong):
        verdicts = said[code.name][test]
        failed = next((verdict for verdict in verdicts if not verdict.passed), None)
        if failed is None:
            continue
        if any(verdict.passed for verdict in verdicts):
            price = f"It costs the points of {PRICE} killed implementation"
            hunted.void[test] = f"{_FLAKY}: {failed.why}. {price}"
            hunted.flaky.append(test)
            return
        if code.wrong:
            continue
        if failed.kind is VerdictKind.UNWRITTEN:
            hunted.unwritten[test] = failed.why
        else:
            steps = f" ({failed.steps:,} steps, {failed.allowed:,} are allowed)"
            why = failed.why + steps * (failed.steps > failed.allowed)
            hunted.void[test] = f"it also fails on a correct implementation: {why}"
        return


def _charge(hunted: Hunted) -> None:
    """Take back a killed implementation for each flaky test, of its own lab if there is one.

    The price exceeds the gain of tests that fail at random. To kill, such a test has to fail in
    both runs on one implementation, and may not fail in only one run on any other. That is much
    rarer than to be flaky, whatever the probability of failure.
    """
    for test in hunted.flaky:
        dead = [name for name, tests in hunted.kills.items() if tests]
        own = [name for name in dead if name.startswith(label_of(test))]
        for name in (own or dead)[-PRICE:]:
            hunted.kills[name], hunted.paid[name] = (), test


def plan(test: str) -> list[New]:
    """Return the recipe that runs a test: an object made by the test from its argument."""
    return [New(test, (New(MAKE),))]
