"""Makes the calls of a test's case again, while the recorder looks.

If the case has more steps than a recording, it is run twice: the first run counts the steps, and
the second run records the last of them.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labkit.running.drive import Resolve, Run, perform
from labkit.running.limits.time_limit import OverdueError, Stuck, time_limit
from labkit.running.recording.recorder import MOST_STEPS, RecordedEnoughError, Recorder
from labkit.running.trace import Call, New, Trace, written

# The most real time of the first run; under the recorder, code takes several times as long.
MOST_SECONDS = 15.0
# The most events of a case that did not end in the test.
MOST_EVENTS = 300_000
_MOST_COMPARED = 1_000


class CaseRun(NamedTuple):
    """A run of a test, as data.

    Attributes:
        new: the objects to make.
        calls: the calls to make on them.
        watch: the attribute to read after each call, or "".
        outcome: the trace of the run in the test; None if the run did not end.
    """

    new: tuple[New, ...]
    calls: tuple[Call, ...]
    watch: str
    outcome: Trace | None = None


@dataclass(frozen=True)
class Case:
    """A failing case: its runs; the last run went wrong.

    Attributes:
        code: imports the code under test anew, and returns a function that returns the class or the
            function of a name.
        filename: of the code under test, in tracebacks.
        runs: the runs; the earlier runs matter only if state survives a run.
    """

    code: Callable[[], Resolve]
    filename: str
    runs: Sequence[CaseRun]

    @property
    def last(self) -> CaseRun:
        """The run that went wrong."""
        return self.runs[-1]


@dataclass(frozen=True)
class Replay:
    """A case that was run again.

    Attributes:
        trace: the calls that were made, with their results.
        counter: the counts of the whole case.
        recorder: the last steps.
        ended: whether the calls ended within the limits.
        reason: why they did not, in words; "" if the recorder's own limit ended them.
        running: the numbers of the last steps of functions that still run, if they did not end.
    """

    trace: Trace
    counter: Recorder
    recorder: Recorder
    ended: bool
    reason: str
    running: Sequence[int]


def replay(case: Case, last: int | None, most: int | None = None) -> Replay:
    """Run a case again. Limits of time need the main thread.

    Args:
        case: the case.
        last: the number of the last call to make; None for all.
        most: the most events: lines, returns and exceptions; None if there is no limit.
    """
    calls = case.last.calls if last is None else case.last.calls[: last + 1]
    counter = recorder = Recorder(case.filename, 0, MOST_SECONDS, most)
    trace, ended, reason = _carry_out(case, calls, counter)
    if counter.total > MOST_STEPS:
        total = None if ended else counter.total
        recorder = Recorder(case.filename, counter.total - MOST_STEPS, 2 * MOST_SECONDS, total)
        trace, ended, reason = _carry_out(case, calls, recorder)
    running = [] if ended else recorder.running()
    return Replay(trace, counter, recorder, ended, reason, running)


def is_repeatable(case: Case) -> bool:
    """Return whether repeating the runs of a case gives the last run the result that it had."""
    expected = case.last.outcome
    if expected is None:
        return True
    resolve = case.code()
    for run in case.runs:
        trace = perform(resolve, run.new, run.calls, run.watch)
    return _in_words(trace) == _in_words(expected)


def _in_words(trace: Trace) -> tuple[list[str], str]:
    raised = "" if trace.raised is None else trace.raised.kind
    return [written((step.result, step.held), _MOST_COMPARED) for step in trace.steps], raised


def _carry_out(case: Case, calls: Iterable[Call], recorder: Recorder) -> tuple[Trace, bool, str]:
    """Return the trace so far, whether the calls ended, and the reason if they did not."""

    def numbered() -> Iterator[Call]:
        for number, call in enumerate(calls):
            recorder.call = number
            yield call

    resolve, (new, _, watch, _) = case.code(), case.last
    trace = Trace(new, [])
    here = threading.current_thread() is threading.main_thread()
    stuck = Stuck(case.filename, MOST_SECONDS) if here else None
    try:
        with time_limit(MOST_SECONDS, stuck=stuck):
            for earlier in case.runs[:-1]:
                perform(resolve, earlier.new, earlier.calls, earlier.watch)
        with time_limit(MOST_SECONDS, stuck=stuck), recorder.active():
            run = Run(resolve, new, watch)
            trace = run.trace
            run.carry_out(numbered())
            trace = run.end()
    except RecordedEnoughError:
        return trace, False, ""
    except OverdueError as error:
        return trace, False, error.reason
    return trace, True, ""
