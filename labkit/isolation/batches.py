"""Having the runs of many cases carried out at one round trip.

`labkit.testing.check` applies a rule to one case after the other, and most rules make one run of
each. Here a rule is first begun on each of some cases, as far as its run; those runs are then sent
at once; and when the rule is applied in earnest, the trace that it asks for is there.

Nothing else changes: the runs keep their order, each has fresh objects, and those of the sample go
call by call. Where a worker does not answer a batch, each case makes its own run, so that the one
to blame is found as without. Rules that make more than one run, or draw at random, are left alone.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from labkit.isolation.host import Host, Plan, WorkerError
from labkit.running.result_kind import ResultKind
from labkit.running.trace import Call, New, Trace

_C = TypeVar("_C")
# A run, and what makes or returns its trace.
_Ready = tuple[Plan, Callable[[], Trace]]
# Of one batch. Each takes twice as many cases as the one before, so that little is done in vain
# where an early case fails.
_MOST_CASES = 256
_MOST_CALLS = 2_000


class _NotedError(BaseException):
    """A rule was begun, and is left at its first run. No `except Exception` swallows it."""


class Batches:
    """Carries out the runs of one test.

    Args:
        host: of the submission.

    Attributes:
        random: the test's generator, from which a rule may draw.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.random = random.Random()
        self._noted: list[Plan] | None = None
        self._ready: _Ready | None = None
        self._runs = 0

    def perform(self, new: Sequence[New], calls: Sequence[Call], watch: str) -> Trace:
        """Carry out a run, unless that is done; see `labkit.running.drive.perform`."""
        plan = new, calls, watch
        if self._noted is not None:
            self._noted.append(plan)
            raise _NotedError
        self._runs += 1
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == plan:
            return ready[1]()
        return self._host.perform(*plan)

    def cases(self, rule: Callable[[_C], object], cases: Iterable[_C]) -> Iterator[_C]:
        """Yield the cases, each when the run that `rule` makes first of it is ready."""
        left, size = _Left(cases), 1
        while group := left.take(size):
            plans = self._begun(rule, group) if size > 1 else []
            before, self._runs = self.random.getstate(), 0
            for case, ready in itertools.zip_longest(group, self._prepared(plans)):
                self._ready = ready
                yield case
            self._ready = None
            one_each = self._runs <= len(group) and self.random.getstate() == before
            size = min(2 * size, _MOST_CASES) if one_each and not self._host.alone else 1

    def _begun(self, rule: Callable[[_C], object], group: Sequence[_C]) -> list[Plan | None]:
        """Return the run that a rule makes first of each case, if it makes one."""
        before = self.random.getstate()
        plans: list[Plan | None] = []
        for case in group:
            self._noted = []
            # What else a rule raises, it raises again when it is applied.
            with suppress(_NotedError, Exception):
                rule(case)
            plans.append(self._noted[0] if self._noted else None)
        self._noted = None
        self.random.setstate(before)
        return plans

    def _prepared(self, plans: Sequence[Plan | None]) -> Iterator[_Ready | None]:
        """Yield what `perform` needs for each case, when its turn comes."""
        parts = [None if plan is None else self._host.sample.parts(len(plan[1])) for plan in plans]
        place = 0
        while place < len(plans) and not self._host.alone:
            plan, own = plans[place], parts[place]
            if plan is not None and own is not None:
                yield plan, partial(self._host.perform_in_parts, plan, own)
                place += 1
                continue
            end = _end_of_batch(plans, parts, place)
            batch = plans[place:end]
            traces = iter(self._carried_out([plan for plan in batch if plan is not None]))
            for plan in batch:
                trace = None if plan is None else next(traces, None)
                yield None if plan is None or trace is None else (plan, partial(_as_it_is, trace))
            place = end

    def _carried_out(self, plans: Sequence[Plan]) -> list[Trace]:
        """Return the traces of runs; none if the worker did not answer."""
        try:
            return self._host.perform_all(plans) if len(plans) > 1 else []
        except WorkerError:
            self._host.alone = True
        failure = self._host.load()
        if failure is not None:
            raise WorkerError(ResultKind.RAISED, failure)
        return []


def _end_of_batch(
    plans: Sequence[Plan | None], parts: Sequence[list[int] | None], start: int
) -> int:
    """Return the place of the first case that no longer belongs to the batch which begins here."""
    calls = 0
    for place in range(start, len(plans)):
        plan = plans[place]
        calls += 0 if plan is None else len(plan[1])
        if parts[place] is not None or calls > _MOST_CALLS:
            return max(place, start + 1)
    return len(plans)


def _as_it_is(trace: Trace) -> Trace:
    return trace


class _Left(Generic[_C]):
    """The cases that are left. What raises while they are made does so after those before it."""

    def __init__(self, cases: Iterable[_C]) -> None:
        self._cases = iter(cases)
        self._error: BaseException | None = None

    def take(self, count: int) -> list[_C]:
        """Return the next cases, none at the end."""
        taken: list[_C] = []
        try:
            for case in itertools.islice(self._cases, 0 if self._error else count):
                taken.append(case)
        except BaseException as error:
            self._error = error
        if self._error is not None and not taken:
            raise self._error
        return taken
