"""Gate: a table of answers earns little with another seed.

A table is a submission that has recorded a right answer for every call of the tests with the seed
that students know. Its keys are all earlier calls on an object. If it has no answer, it guesses. It
is tried in two ways: unchanged, and so that, before it guesses, characters and numbers are renamed
in the order in which they appear, because a test that only draws other letters is not enough.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from labkit.course.lab import Lab
from labkit.course.manifest import Test
from labkit.gates.finding import Finding, of_labs
from labkit.gates.pools import exemptions
from labkit.gates.renaming import Names
from labkit.running.drive import Driver, perform
from labkit.running.given import for_tests, read_given
from labkit.running.import_file import test_functions
from labkit.running.lab_impl import Implementation
from labkit.running.score import PUBLIC_SEED
from labkit.running.trace import Call, New, Raised, Step, Trace
from labkit.running.under_test import CodeUnderTest

MOST_POINTS = 25
SECRET_SEED = "a seed that nobody knows"
# A table is a submitted file of limited size, so it has no answers of long runs.
_MOST_CALLS = 100
_MOST_ATOMS = 1_000

_History = tuple[Any, ...]
_Table = dict[Any, Any]
_Guess = Callable[[Any], Any]


@of_labs
def tables_earn_little(root: Path, labs: list[Lab]) -> list[Finding]:
    """Check the points that tables of answers earn in each lab that has a reference."""
    findings = exemptions("tables", labs)
    for lab in labs:
        if lab.solution.exists() and lab.hunt is None:
            table = _Recorder(lab, root).record()
            tried = [
                (_passed(lab, _Replay(table, GUESSES[guess], renames)), guess, renames)
                for guess in GUESSES
                for renames in (False, True)
            ]
            passed, guess, renames = max(tried, key=lambda trial: _points(trial[0]))
            if _points(passed) > MOST_POINTS:
                findings.append(Finding(lab.name, _message(passed, guess, renames)))
    return findings


def _points(tests: list[Test]) -> int:
    return sum(test.points for test in tests)


def _message(passed: list[Test], guess: str, renames: bool) -> str:
    how = "in which characters are renamed " if renames else ""
    names = ", ".join(f"{test.name} ({test.points})" for test in passed)
    return (
        f"a table of answers {how}that guesses {guess} earns {_points(passed)} points with a seed "
        f"that it does not know; {MOST_POINTS} are the most: draw cases from lab.random in {names}"
    )


def _echo(argument: Any) -> Any:
    return argument


def _nothing(argument: Any) -> Any:
    return argument[:0] if isinstance(argument, str | list | bytes) else ""


def _refuse(argument: Any) -> Any:
    raise ValueError(f"this is in no table: {argument!r}")


GUESSES: Mapping[str, _Guess] = {
    "its argument": _echo,
    "nothing": _nothing,
    "a ValueError": _refuse,
}


class _Recorder:
    """Runs the lab's tests, except tests of cost, on the reference, and keeps its answers."""

    def __init__(self, lab: Lab, root: Path) -> None:
        self._lab = lab
        solution = Implementation("solution", lab.solution)
        code = CodeUnderTest(lab, solution, root, lambda _: False)
        self._resolve, self._given = code.resolve, partial(for_tests, code.given)
        self._table: _Table = {}

    def record(self) -> _Table:
        """Return the answers by the earlier calls on an object, unchanged and renamed."""
        for test, function in _functions(self._lab):
            if test.timeout is None:
                function(Driver(self._perform, f"{PUBLIC_SEED}/{test.name}", self._given))
        return self._table

    def _perform(self, new: Sequence[New], calls: Iterable[Call], watch: str) -> Trace:
        calls = [*calls]
        trace = perform(self._resolve, new, calls, watch)
        answers: list[Any] = [(step.result, step.held) for step in trace.steps]
        if trace.raised is not None:
            answers.append(trace.raised.message)
        for history, answer in zip(_histories(new, calls), answers, strict=False):
            for renames in (False, True):
                names = Names(renames)
                key = names.out(history)
                self._table[key] = names.out(answer, learn=False)
        return trace


class _Replay:
    """The answers of a table, as the `perform` of a driver."""

    def __init__(self, table: _Table, guess: _Guess, renames: bool) -> None:
        self._table = table
        self._guess = guess
        self._renames = renames

    def __call__(self, new: Sequence[New], calls: Iterable[Call], watch: str) -> Trace:
        calls = [*calls]
        trace = Trace(tuple(new), [])
        for call, history in zip_longest(calls, _histories(new, calls)):
            try:
                result, held = self._answer(call, history)
            except ValueError as error:
                trace.raised = Raised("ValueError", str(error))
                break
            if call is not None:
                trace.steps.append(Step(call, result, held if watch else None))
        return trace

    def _answer(self, call: Call | None, history: _History | None) -> tuple[Any, Any]:
        for names in [Names(renames) for renames in (False, True)[: 1 + self._renames]]:
            entry = None if history is None else self._table.get(names.out(history))
            if entry is not None:
                answer = names.back(entry)
                if isinstance(answer, str):
                    raise ValueError(answer)
                result, held = answer
                return result, held
        return self._guess(call.args[-1] if call is not None and call.args else ""), ""


def _passed(lab: Lab, replay: _Replay) -> list[Test]:
    passed = []
    given = partial(for_tests, read_given(lab))
    for test, function in _functions(lab):
        try:
            function(Driver(replay, f"{SECRET_SEED}/{test.name}", given))
        except Exception:
            # A test may fail on an answer of another type.
            continue
        passed.append(test)
    return passed


def _functions(lab: Lab) -> Iterator[tuple[Test, Any]]:
    functions = test_functions(lab.test_file)
    return ((test, functions[test.name]) for test in lab.tests if not test.given)


def _histories(new: Sequence[New], calls: Sequence[Call]) -> Iterator[_History]:
    """Yield for each call the earlier calls on its object; for a new object, no calls."""
    done: dict[int, list[Any]] = {}
    if not calls:
        yield tuple(new)
    atoms = 0
    for call in calls[:_MOST_CALLS]:
        atoms += sum(len(part) for part in call.args or () if isinstance(part, str | list))
        if atoms > _MOST_ATOMS:
            return
        own = done.setdefault(call.object, [*new[call.object : call.object + 1]])
        own.append(call)
        yield tuple(step._replace(object=0) if type(step) is Call else step for step in own)
