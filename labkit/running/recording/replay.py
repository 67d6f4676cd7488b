"""Makes the calls of a test's case again, while the recorder looks.

If the case has many steps, it is run twice: the first run counts the steps, and the second run
records the last of them.
"""

import linecache
import threading
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NoReturn

from labkit.running.drive import Resolve, Run, perform
from labkit.running.limits.time_limit import OverdueError, Stuck, time_limit
from labkit.running.recording.output import Output
from labkit.running.recording.recorder import (
    MOST_STEPS,
    Place,
    RecordedEnoughError,
    Recorder,
)
from labkit.running.recording.runs import CaseRun, outcome_of
from labkit.running.recording.statements import Statements, statements_of
from labkit.running.trace import Call, New, Trace

# The most processor time of the first run; under the recorder, code takes several times as long.
MOST_SECONDS = 15.0
# The same for a case that did not end in the test: its last steps are those of slow code anyway.
_OVERDUE_SECONDS = 5.0
# The most processor time to see whether a case goes wrong again.
AGAIN_SECONDS = 5.0
# The first run of a case keeps so many steps: most cases have no more, and to keep one takes far
# longer than to count it.
_MOST_AT_ONCE = 2_000
# The reason if the reader ended the recording; the steps so far are kept.
STOPPED = "stopped by Ctrl+C"
# The most events of a case that did not end in the test.
MOST_EVENTS = 300_000


@dataclass(frozen=True)
class Case:
    """A failing case: its runs; the last run went wrong.

    Attributes:
        code: imports the code under test anew, and returns a function that returns the class or the
            function of a name.
        filenames: of the code under test, then of the student's own parts, in tracebacks.
        runs: the runs; the earlier runs matter only if state survives a run.
        follow: returns the calls of a run, and notes which is the current one.
        place: where the recorder is, see `Recorder`.
    """

    code: Callable[[], Resolve]
    filenames: Sequence[str]
    runs: Sequence[CaseRun]
    follow: Callable[[Sequence[Call]], Iterable[Call]] = iter
    place: MutableSequence[int] | None = None

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
        files: the recorded files: the file under test, then the student's parts, with their
            folders.
        filenames: their names in tracebacks.
    """

    trace: Trace
    counter: Recorder
    recorder: Recorder
    ended: bool
    reason: str
    running: Sequence[int]
    files: Sequence[str]
    filenames: Sequence[str]

    def statements_of(self, part: int) -> Statements:
        """Return the statements of a recorded file."""
        return statements_of("".join(linecache.getlines(self.filenames[part])))

    def line_in_words(self, place: Place) -> str:
        """Return a line in words; a line of a part with its file."""
        part, line = place
        return f"line {line} of {self.files[part]}" if part else f"line {line}"


class _RecordedRun(Run):
    """A run that tells a recorder when the held text is read."""

    def __init__(
        self, recorder: Recorder, resolve: Resolve, new: Sequence[New], watch: str
    ) -> None:
        self._recorder = recorder
        super().__init__(resolve, new, watch)

    def read_watch(self, target: Any) -> Any:
        """Return the value of the attribute `watch` of an object, or `Unreadable`."""
        self._recorder.begin_reading()
        return super().read_watch(target)


def replay(
    case: Case,
    last: int | None,
    most: int | None = None,
    keep: int = MOST_STEPS,
    until: int | None = None,
) -> Replay:
    """Run a case again. Limits of time need the main thread.

    Args:
        case: the case.
        last: the number of the last call to make; None for all.
        most: the most events: lines, returns and exceptions; None if there is no limit.
        keep: the most steps of the recording.
        until: a line of the file under test: if it does not run within the most events, only time
            is a limit. None if there is no such line.
    """
    calls = case.last.calls if last is None else case.last.calls[: last + 1]
    at_once = min(keep, _MOST_AT_ONCE)
    seconds = MOST_SECONDS if most is None else _OVERDUE_SECONDS
    counter = recorder = Recorder(case.filenames, 0, seconds, most, at_once, case.place)
    trace, ended, reason = _carry_out(case, calls, counter)
    if counter.total == most and until is not None and (0, until) not in counter.lines:
        counter = recorder = Recorder(case.filenames, 0, seconds, None, at_once, case.place)
        trace, ended, reason = _carry_out(case, calls, counter)
    if counter.total > at_once and reason != STOPPED:
        total = None if ended else counter.total
        first = max(0, counter.total - keep)
        starts = None if counter.has_threads() else counter.starts
        recorder = Recorder(
            case.filenames, first, 2 * MOST_SECONDS, total, keep, case.place, starts=starts
        )
        trace, ended, reason = _carry_out(case, calls, recorder)
        if reason == STOPPED and not recorder.steps:
            # The first steps are better than none.
            recorder = counter
    return _replay_of(case, trace, counter, recorder, ended, reason)


def replay_up_to(
    case: Case, last: int | None, events: int, keep: int, leave: Callable[[Replay], NoReturn]
) -> None:
    """Run a case again up to an event after which it cannot be stopped.

    Args:
        case: the case.
        last: the number of the last call to make; None for all.
        events: the number of the event.
        keep: the most steps of the recording.
        leave: gets the replay, and must end the process: the code would go on.
    """
    calls = case.last.calls if last is None else case.last.calls[: last + 1]
    traces: list[Trace] = []

    def at_end() -> None:
        leave(_replay_of(case, traces[-1], recorder, recorder, False, ""))

    recorder = Recorder(
        case.filenames, max(0, events - keep), MOST_SECONDS, events, keep, case.place, at_end
    )
    _carry_out(case, calls, recorder, traces)


def _replay_of(
    case: Case, trace: Trace, counter: Recorder, recorder: Recorder, ended: bool, reason: str
) -> Replay:
    running = [] if ended else recorder.running()
    files = ["/".join(PurePath(name).parts[-2:]) for name in case.filenames]
    return Replay(trace, counter, recorder, ended, reason, running, files, case.filenames)


def first_repeatable(cases: Sequence[Case]) -> Case:
    """Return the first case that goes wrong again as it did in the test; if none does, the first.

    Limits of time need the main thread.
    """
    for case in cases:
        with silence(), suppress(Exception, OverdueError), time_limit(AGAIN_SECONDS):
            if _is_repeatable(case):
                return case
    return cases[0]


@contextmanager
def silence() -> Iterator[None]:
    """Discard the output of the body."""
    output = Output(lambda text: None)
    with redirect_stdout(output), redirect_stderr(output):
        yield


def _is_repeatable(case: Case) -> bool:
    """Return whether repeating the runs of a case gives the last run the result that it had."""
    expected = case.last.outcome
    if expected is None:
        return True
    resolve = case.code()
    for run in case.runs:
        trace = perform(resolve, run.new, case.follow(run.calls), run.watch)
    return outcome_of(trace) == expected


def _carry_out(
    case: Case, calls: Sequence[Call], recorder: Recorder, traces: list[Trace] | None = None
) -> tuple[Trace, bool, str]:
    """Return the trace so far, whether the calls ended, and the reason if they did not.

    Args:
        case: the case.
        calls: the calls of its last run.
        recorder: the recorder of that run.
        traces: the trace is added, once before and once after the objects are made.
    """

    def numbered() -> Iterator[Call]:
        for number, call in enumerate(case.follow(calls)):
            recorder.begin_call(number)
            yield call

    resolve, (new, _, watch, _) = case.code(), case.last
    trace = Trace(new, [])
    traces = [] if traces is None else traces
    traces.append(trace)
    here = threading.current_thread() is threading.main_thread()
    stuck = Stuck(case.filenames[0], MOST_SECONDS) if here else None
    try:
        with time_limit(MOST_SECONDS, stuck=stuck):
            for earlier in case.runs[:-1]:
                perform(resolve, earlier.new, case.follow(earlier.calls), earlier.watch)
        with time_limit(MOST_SECONDS, stuck=stuck), recorder.active():
            run = _RecordedRun(recorder, resolve, new, watch)
            trace = run.trace
            traces.append(trace)
            run.carry_out(numbered())
            trace = run.end()
    except RecordedEnoughError:
        return trace, False, ""
    except OverdueError as error:
        return trace, False, error.reason
    except KeyboardInterrupt:
        return trace, False, STOPPED
    return trace, True, ""
