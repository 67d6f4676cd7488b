"""The recording of a failing case: its steps, its calls, and the step at which to begin.

It needs neither pytest nor files, because it also runs in the process that holds a submission.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from labkit.running.limits.time_limit import WAITS
from labkit.running.recording.openings import (
    Opening,
    at_changed_argument,
    at_exception,
    at_recursion,
    at_result,
    at_stop,
    at_wait,
)
from labkit.running.recording.recorder import MOST_STEPS
from labkit.running.recording.recording import CallRow, Part, Recording
from labkit.running.recording.replay import (
    MOST_EVENTS,
    STOPPED,
    Case,
    Replay,
    replay,
    replay_up_to,
)
from labkit.running.recording.slow_openings import at_cost, at_loop
from labkit.running.recording.values import text_of_value
from labkit.running.reporting.showing import printable, show
from labkit.running.reporting.trace_table import last_rows
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun, Result
from labkit.running.trace import Call, Failure, Trace, written

# The most calls that a recording lists: the last calls of the case.
MOST_CALLS = 200
_MOST_TEXT = 4_000
_MOST_EXPECTED = 200
# A case that did not end, with fewer events, is in a line that does not end, not in a loop.
_FEW_EVENTS = 500
# So begins the expected value of a test of the held text.
_HELD = "held"
_OUTLIVES = (
    "an attribute of the class, a variable outside the function or a default argument outlives "
    "the object"
)
_REASON = re.compile(r"""reason=('[^']*'|"[^"]*")""")


class End(NamedTuple):
    """The last event of the recorder in a process that did not end by itself.

    Attributes:
        events: the number of the last event.
        is_at_limit: whether the recorder had ended the code at that event, in vain.
        kind: as in a `Recording`.
        words: how the process ended, as a verb.
    """

    events: int
    is_at_limit: bool
    kind: str
    words: str


class Facts(NamedTuple):
    """The facts about a failed test that decide where its recording opens.

    Attributes:
        last: the number of the wrong call among those of the case; None if it is unknown.
        is_overdue: whether the test ran into its time limit.
        is_count: whether a count is too high.
        message: the fault in one line.
        expected: the expected value of each call, as text; empty if the test does not compare the
            calls one by one.
        is_held: whether the held text is wrong.
        emitted: the result of each call as the report writes it, "" if that is the result itself.
        right, wrong: the expected and the actual value, as text; "" if they are unknown.
        item: the index of the first wrong item in the list that the wrong call returned, or of the
            item that the list lacks; None if it is unknown, or if the call returned no list.
        raised: the kind of the exception that ended the case in the test, or "".
        line: the line of the file under test at which the time limit ended the test; None if it is
            unknown.
    """

    last: int | None = None
    is_overdue: bool = False
    is_count: bool = False
    message: str = ""
    expected: Sequence[str] = ()
    is_held: bool = False
    emitted: Sequence[str] = ()
    right: str = ""
    wrong: str = ""
    item: int | None = None
    raised: str = ""
    line: int | None = None


def facts_of(result: Result, calls: Sequence[Call]) -> Facts:
    """Return the facts about a failed test.

    Args:
        result: its result.
        calls: the calls of its case.
    """
    failure = result.failure
    is_overdue = result.kind is ResultKind.TIMEOUT
    if failure is None:
        line = result.line if is_overdue else None
        return Facts(None, is_overdue, False, result.message, line=line)
    by_call = failure.by_call or ()
    expected = [printable(written(value, _MOST_EXPECTED)) for value in by_call]
    last = _number_of_call(failure, calls)
    # The value, its type, or an exception of its property may be wrong.
    is_held = failure.expected.startswith(_HELD) or failure.reason.startswith(f"`{_HELD}` is ")
    is_held = is_held or (failure.raised is not None and failure.raised.call == _HELD)
    emitted = _emitted(failure.trace, calls)
    return Facts(
        last, is_overdue, failure.is_count, result.message, expected, is_held, emitted,
        failure.expected, failure.actual, failure.item, _kind_of_error(failure),
    )  # fmt: skip


def _kind_of_error(failure: Failure) -> str:
    raised = None if failure.trace is None else failure.trace.raised
    return "" if raised is None else raised.kind


def _emitted(trace: Trace | None, calls: Sequence[Call]) -> list[str]:
    """Return the results that a test has read from bytes, by call, as the report writes them."""
    if trace is None or len(trace.steps) > MOST_CALLS:
        return []
    if [step.call for step in trace.steps] != [*calls[: len(trace.steps)]]:
        return []
    cells = [row.cells[1] for row in last_rows(trace, MOST_CALLS).rows]
    pairs = zip(trace.steps, cells, strict=False)
    return ["" if type(step.result) is bytes else cell for step, cell in pairs]


def _number_of_call(failure: Failure, calls: Sequence[Call]) -> int | None:
    """Return the number of the call that went wrong in a case; None if it is unknown.

    The trace of a failure may be that of one object among several that are used in turns.
    """
    trace = failure.trace
    if trace is None:
        return None
    at = len(trace.steps) if trace.raised is not None else failure.at
    if at is None and failure.by_call and len(failure.by_call) == len(trace.steps):
        pairs = zip(trace.steps, failure.by_call, strict=True)
        results = (_plain(step.result) == _plain(expected) for step, expected in pairs)
        at = next((n for n, is_equal in enumerate(results) if not is_equal), None)
    if at is None:
        return None
    if len(trace.steps) < len(calls) and trace.steps and trace.raised is None:
        own = [n for n, call in enumerate(calls) if call.object == trace.steps[0].call.object]
        return own[at] if at < len(own) else None
    return at if at < len(calls) else None


def _plain(value: Any) -> str:
    """Return a value as text, without the wording of reasons, which no test compares."""
    return _REASON.sub("reason=", written(value))


def without_case() -> Recording:
    """Return the recording of a test that makes no calls."""
    return Recording("nothing", "the test makes no calls that can be replayed")


def record(case: Case, facts: Facts, keep: int = MOST_STEPS) -> Recording:
    """Replay a case, and return the recording, without its test and its sources.

    Args:
        case: the case.
        facts: the facts about the failed test.
        keep: the most steps.
    """
    most = MOST_EVENTS if facts.is_overdue else None
    replayed = replay(case, facts.last, most, keep, facts.line)
    return recording_of_replay(replayed, _opening(replayed, facts, case), case, facts)


def record_up_to(
    case: Case, facts: Facts, end: End, keep: int, leave: Callable[[Recording], NoReturn]
) -> None:
    """Record a case whose code cannot be stopped, up to its last event.

    Args:
        case: the case.
        facts: the facts about the failed test.
        end: its last event.
        keep: the most steps.
        leave: gets the recording, and must end the process: the code would go on.
    """

    def leave_with(replayed: Replay) -> NoReturn:
        if end.is_at_limit:
            opening = _opening(replayed, facts, case)
            caught = "the code catches the exception that ends it"
            opening = opening._replace(why=f"{opening.why}; {caught}")
        else:
            opening = at_stop(replayed, end.kind, end.words)
        leave(recording_of_replay(replayed, opening, case, facts))

    replay_up_to(case, facts.last, end.events, keep, leave_with)


def recording_of_replay(replayed: Replay, opening: Opening, case: Case, facts: Facts) -> Recording:
    """Return the recording of a case that was run again."""
    is_stopped = replayed.reason == STOPPED
    why = f"{STOPPED}, so that the end is missing; {opening.why}" if is_stopped else opening.why
    counts: list[dict[int, int]] = [{} for _ in case.filenames]
    for (part, line), count in replayed.counter.lines.items():
        counts[part][line] = count
    form = _form_of_names(case)
    recording = Recording(
        opening.kind, printable(why), opening.step,
        objects=[form.format(n) + str(new) for n, new in enumerate(case.last.new, 1)],
        dropped=max(0, replayed.counter.total - len(replayed.recorder.steps)),
        steps=replayed.recorder.steps,
        counts=counts[0],
        marks=[*opening.marks],
        parts=[Part(counts=of_part) for of_part in counts[1:]],
    )  # fmt: skip
    _list_calls(recording, replayed, case, facts)
    return recording


def describe(recording: Recording, run: LabRun, test: str, result: Result) -> None:
    """Add a failed test to its recording."""
    recording.lab, recording.test = run.lab.number, test
    recording.rule = next((other.rule for other in run.tests if other.name == test), "")
    if result.failure is not None:
        recording.expected = printable(result.failure.expected, _MOST_TEXT)
        recording.actual = printable(result.failure.actual, _MOST_TEXT)
        recording.case = printable(result.failure.call, _MOST_TEXT)
    else:
        recording.actual = printable(result.message, _MOST_TEXT)


def _opening(replayed: Replay, facts: Facts, case: Case) -> Opening:
    if not replayed.ended:
        if replayed.reason.startswith(WAITS):
            return at_wait(replayed)
        if replayed.running and replayed.counter.total < _FEW_EVENTS:
            return at_stop(replayed, "waiting", "does not end")
        return at_loop(replayed) if len(replayed.counter.by_call) < 3 else _slow(replayed)
    if replayed.trace.raised is not None:
        return at_exception(replayed)
    if facts.raised == "RecursionError" and (opening := at_recursion(replayed)) is not None:
        return opening
    if facts.is_overdue or facts.is_count:
        return at_cost(replayed)
    if (changing := at_changed_argument(replayed)) is not None:
        return changing
    if facts.last is None:
        last = len(case.last.calls) - 1
        wrong = (-1, case.last.calls[last]) if last >= 0 else None
    else:
        wrong = (facts.last, case.last.calls[facts.last])
    opening = at_result(replayed, wrong, facts.message, is_held=facts.is_held, item=facts.item)
    steps = replayed.trace.steps
    read = "" if facts.last is None else "".join(facts.emitted[facts.last : facts.last + 1])
    if read and steps and type(steps[-1].result) is bytes:
        value = text_of_value(steps[-1].result)
        if "…" in value:
            opening = opening._replace(why=opening.why.replace(value, f"the bytes of {read}"))
    name = steps[-1].call.name if steps else ""
    if facts.raised:
        here = f"{name} raises no {facts.raised} here, but in the test"
    elif facts.right != facts.wrong and steps and show(steps[-1].result) == facts.right:
        here = f"{name} returns the expected value here, and another value in the test"
    else:
        return opening
    return opening._replace(why=f"{here}, after other calls: {_OUTLIVES}")


def _form_of_names(case: Case) -> str:
    """Return the form of an object's name, to be put before its calls; "" if only one object has
    calls.
    """
    return "#{} " if len({call.object for call in case.last.calls}) > 1 else ""


def _slow(replayed: Replay) -> Opening:
    """Open at a loop if the last call runs most of the lines, else at the costliest line."""
    calls = replayed.counter.by_call
    return at_loop(replayed) if 2 * calls[max(calls)] > calls.total() else at_cost(replayed)


def _list_calls(recording: Recording, replayed: Replay, case: Case, facts: Facts) -> None:
    """List the last calls of the case, with their results and their numbers of lines."""
    table = last_rows(replayed.trace, MOST_CALLS)
    made = len(replayed.trace.steps) + (replayed.trace.raised is not None)
    form = _form_of_names(case)
    calls = case.last.calls
    recording.first_call = made - len(table.rows)
    recording.columns = [*table.columns[2:]]
    for number, row in enumerate(table.rows, recording.first_call):
        call, emitted, *held = row.cells
        shown = facts.expected[number] if number < len(facts.expected) else ""
        steps = replayed.trace.steps
        is_bytes = number < len(steps) and type(steps[number].result) is bytes
        if is_bytes and number < len(facts.emitted):
            emitted = facts.emitted[number] or emitted
        lines = replayed.counter.by_call[number]
        if replayed.counter.call >= 0:
            # Else an object could not be made.
            call = form.format(calls[number].object + 1) + call
        recording.calls.append(CallRow(call, emitted, tuple(held), shown, lines))
    if not replayed.ended and made < len(calls):
        words = calls[made].render(as_bytes=True)
        recording.calls.append(
            CallRow(
                form.format(calls[made].object + 1) + words, lines=replayed.counter.by_call[made]
            )
        )
