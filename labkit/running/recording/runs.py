"""The runs of a test as data, so that a failing test's case can be run again."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from labkit.running.trace import Call, New, Trace, written

# The most runs of a test that a case may have.
_MOST_RUNS = 500
# The most cases among which `shortened` lets choose.
MOST_CASES = 3
_MOST_COMPARED = 1_000
# The results and held texts of a run's calls, and the kind of the exception, "" for none.
Outcome = tuple[list[str], str]


class CaseRun(NamedTuple):
    """A run of a test, as data.

    Attributes:
        new: the objects to make.
        calls: the calls to make on them.
        watch: the attribute to read after each call, or "".
        outcome: the outcome of the run in the test; None if the run did not end, or if other runs
            follow it.
    """

    new: tuple[New, ...]
    calls: tuple[Call, ...]
    watch: str
    outcome: Outcome | None = None


class RunsOfTest:
    """The last runs of a test."""

    def __init__(self) -> None:
        self._runs: deque[CaseRun] = deque(maxlen=_MOST_RUNS)
        self._trace: Trace | None = None

    def note(
        self,
        perform: Callable[[], Trace],
        new: Sequence[New],
        calls: Sequence[Call],
        watch: str,
    ) -> Trace:
        """Carry out a run and note it; return its trace."""
        self._runs.append(CaseRun(tuple(new), tuple(calls), watch))
        self._trace = None
        self._trace = perform()
        return self._trace

    def take(self) -> list[CaseRun]:
        """Return the runs, the last run with its outcome, and forget them."""
        runs, trace = [*self._runs], self._trace
        self._runs.clear()
        if runs and trace is not None:
            runs[-1] = runs[-1]._replace(outcome=outcome_of(trace))
        return runs


def shortened(of_rule: list[CaseRun], of_test: list[CaseRun]) -> list[list[CaseRun]]:
    """Return the runs that may be the case of a failing test, from the fewest to all.

    Args:
        of_rule: the runs of the broken rule on its smallest case.
        of_test: the runs of the whole test.
    """
    if len(of_rule) == len(of_test) == 1:
        return [of_rule]
    # The last runs of the test may be those of smaller cases, which pass.
    longest = of_test if of_rule is of_test else [*of_test, *of_rule]
    return [of_rule[-1:], of_rule, longest]


def outcome_of(trace: Trace) -> Outcome:
    """Return the outcome of a run in words."""
    raised = "" if trace.raised is None else trace.raised.kind
    return [written((step.result, step.held), _MOST_COMPARED) for step in trace.steps], raised
