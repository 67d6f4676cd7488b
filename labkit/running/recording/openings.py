"""The step at which a recording opens, and why: the one that shows the fault."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from labkit.running.recording.list_items import first_place, item_change, last_change
from labkit.running.recording.origins import (
    maker,
    setting_of_attribute,
    setting_of_getter,
    statement_step,
)
from labkit.running.recording.recording import EXCEPTION, RETURN, YIELD, Step
from labkit.running.recording.replay import Replay
from labkit.running.recording.values import text_of_value
from labkit.running.trace import EVENTS, Call

# So many functions run within each other only in a recursion.
_FEWEST_CALLS = 100
# The attribute that a test reads after each call, if it does not name another.
_HELD = "held"
NO_STEPS = "no line of the file ran in this case"


class Opening(NamedTuple):
    """Where to begin.

    Attributes:
        kind: as in a `Recording`.
        why: the reason, in words.
        step: the number of the step; None if there are no steps.
        marks: other steps to look at.
    """

    kind: str
    why: str
    step: int | None
    marks: Sequence[int] = ()


def at_exception(replay: Replay) -> Opening:
    """Open at the line that raised the exception which ended the case."""
    steps, errors = replay.recorder.steps, replay.recorder.errors
    raised = replay.trace.raised
    kind = "" if raised is None else raised.kind
    last = next((n for n in reversed(range(len(steps))) if errors[n]
                 and steps[n].value.partition(":")[0] == kind), None)  # fmt: skip
    # The recorder ends at the limit as well, perhaps before the exception is a step.
    if kind == "RecursionError" and (recursion := at_recursion(replay)) is not None:
        return recursion
    if raised is None or last is None or steps[last].call != steps[-1].call:
        opening = at_result(replay, None, raised.message if raised is not None else "")
        if raised is None or opening.step is None:
            return opening
        before = opening.why.removesuffix(", and the test fails")
        why = f"no line of the file raised {kind}: {raised.message}; the last step is {before}"
        return opening._replace(kind="exception", why=why)
    first = next(
        n for n, step in enumerate(steps)
        if errors[n] == errors[last] and step.call == steps[last].call
    )  # fmt: skip
    why = f"{_line(replay, steps[first])} raised {steps[first].value}"
    return Opening("exception", why, first)


def at_recursion(replay: Replay) -> Opening | None:
    """Open at the last line that calls its own function again, until Python's limit; None if no
    function calls itself so often.

    The limit counts the calls below the code as well. In the test there are more of them, so that
    the replay may just end before the limit.
    """
    steps = replay.recorder.steps
    deepest = max(range(len(steps)), key=lambda n: (steps[n].depth, n), default=None)
    if deepest is None or steps[deepest].depth < _FEWEST_CALLS:
        return None
    running = [deepest]
    for number in reversed(range(deepest)):
        step, inner = steps[number], steps[running[-1]]
        if step.thread == inner.thread and step.depth < inner.depth:
            running.append(number)
    # If functions call each other, this is the innermost.
    function, count = Counter(steps[number].function for number in running).most_common(1)[0]
    if count < 2:
        return None
    _, number, *_ = (n for n in running if steps[n].function == function)
    is_again = replay.trace.raised is not None
    until = "" if is_again else f", here {steps[deepest].depth:,} calls deep, in the test"
    why = f"{_line(replay, steps[number])}: {function} calls itself{until} until Python's limit"
    return Opening("exception", why, number)


def _at_end_of_recursion(replay: Replay) -> Opening | None:
    """Open where recursion ended the recording of code that catches the exception, or that is not
    so deep without the recorder; None if there is no recursion.
    """
    if (opening := at_recursion(replay)) is not None:
        return opening
    steps = replay.recorder.steps
    deepest = max(range(len(steps)), key=lambda n: (steps[n].depth, n))
    if steps[deepest].depth < _FEWEST_CALLS:
        return None
    why = (
        f"{_line(replay, steps[deepest])}: {steps[deepest].depth:,} functions run within each "
        "other, up to Python's limit of recursion, which ends the recording"
    )
    return Opening("exception", why, deepest)


def at_changed_argument(replay: Replay) -> Opening | None:
    """Open at the line that changed an argument of the test, in the innermost function; None if
    there is no such line.
    """
    steps = replay.recorder.steps
    lines = [
        (-step.depth, number, name, text)
        for text in replay.trace.changed
        for number, step in enumerate(steps)
        for name, (before, after) in step.changes.items()
        if before and after and text.endswith(f" became {after}")
    ]
    if not lines:
        return None
    _, number, name, text = min(lines)
    why = f"{_line(replay, steps[number])} of {steps[number].function} changes {name}: {text}"
    return Opening("difference", why, number)


def at_result(
    replay: Replay,
    wrong: tuple[int, Call] | None,
    reason: str = "",
    *,
    is_held: bool = False,
    item: int | None = None,
) -> Opening:
    """Open at the return of the wrong call, in the innermost function that made the value; if the
    value is a list, where its first wrong item was added to it.

    Functions of parts are left out: a part passes its own lab's tests.

    Args:
        replay: the case up to that call.
        wrong: the number of the wrong call and the call; -1 and the last call if it is unknown,
            None if there are no calls.
        reason: the fault in words, for a case in which no line ran.
        is_held: whether not the call's value is wrong, but the held text after it.
        item: the index of the first wrong item in the list that the wrong call returned, or of the
            item that the list lacks; None if it is unknown.
    """
    steps = replay.recorder.steps
    if not steps:
        return Opening("nothing", f"{NO_STEPS}: {reason}" if reason else NO_STEPS, None)
    if (other := next((n for n, step in enumerate(steps) if step.thread), None)) is not None:
        return _at_switch(steps, other)
    if is_held and steps[-1].event == EXCEPTION:
        errors = replay.recorder.errors
        raising = steps[errors.index(errors[-1])]
        why = f"{_line(replay, raising)} raised {raising.value}, while the test read the held text"
        return Opening("exception", why, errors.index(errors[-1]))
    # After a call, the test reads the held text.
    called = [n for n in range(len(steps)) if n not in replay.recorder.readings]
    last = steps[-1 if is_held or not called else called[-1]].call
    own = [n for n, step in enumerate(steps) if step.call == last and step.event in (RETURN, YIELD)]
    outer = [n for n in own if steps[n].depth == 1]
    if not outer and (recursion := _at_end_of_recursion(replay)) is not None:
        return recursion
    earlier = wrong if wrong is not None and last < wrong[0] else None
    if earlier is None:
        outer = [n for n in outer if n not in replay.recorder.awaits] or outer
    name = "" if wrong is None or earlier is not None else wrong[1].name
    named = [n for n in outer if steps[n].function == name]
    read = [n for n in outer if n in replay.recorder.readings and is_held]
    called = [n for n in outer if n not in replay.recorder.readings]
    number = [*own[-1:], *outer[-1:], *called[-1:], *named[-1:], *read[-1:]]
    is_call = wrong is None or wrong[1].args is not None
    attribute = _HELD if is_held else "" if wrong is None or is_call else wrong[1].name
    if attribute and not read:
        place = setting_of_attribute(replay, attribute, last)
        if place is not None:
            setter, value = place
            why = f"{_line(replay, steps[setter])}: {steps[setter].function} sets self.{attribute}"
            return Opening("difference", f"{why} to {value}, and the test fails", setter)
    if not number:
        return Opening("difference", "the last line that ran", len(steps) - 1)
    outermost, innermost = steps[number[-1]], maker(replay, number[-1])
    step, shown = steps[innermost], statement_step(replay, innermost)
    is_later = is_held and is_call and not read
    fails = "the held text after it is wrong" if is_later else "the test fails"
    if wrong is not None and wrong[0] < 0 and len(replay.trace.steps) > 1:
        # A result of any of the calls may be wrong.
        fails += f" after these {len(replay.trace.steps):,} calls"
    verb = "yields" if step.event == YIELD else "returns"
    does = "waits" if innermost in replay.recorder.awaits else f"{verb} {step.value}"
    result = replay.trace.steps[-1].result if replay.trace.steps else None
    if item is not None and type(result) is list and not is_held and earlier is None:
        text = text_of_value(result[item]) if item < len(result) else ""
        if item == len(result) and step.value == text_of_value(result):
            why = f"{_line(replay, steps[shown])}: {step.function} {verb} {step.value}, without "
            return Opening("difference", f"{why}the next item that the test expects", shown)
        if (taking := _at_first_place(replay, innermost, result, item)) is not None:
            return taking
        adding = item_change(replay.recorder, innermost, item, text)
        if adding is not None and text:
            adder, name = adding
            value = steps[adder].value
            adds = f"adds {text} to {name}," if name else f"returns {value},"
            adds += "" if name or value == text else " with"
            why = (
                f"{_line(replay, steps[adder])}: {steps[adder].function} {adds} the first wrong "
                f"item of the list that {step.function} {verb}, and {fails}"
            )
            return Opening("difference", why, adder, (innermost,))
    setting = setting_of_getter(steps, innermost) or last_change(steps, innermost)
    if setting is not None and earlier is None:
        setter, name = setting
        why = f"{_line(replay, steps[setter])}: {steps[setter].function} sets {name} to "
        why += f"{step.value}, which {step.function} returns, and {fails}"
        return Opening("difference", why, setter, (innermost,))
    why = f"{_line(replay, steps[shown])}: {step.function} {does}"
    if step.function != outermost.function:
        why += f", which {outermost.function} returns"
    if earlier is not None:
        words = earlier[1].render(as_bytes=True)
        why = (
            f"no line of the file ran in {words}, which is wrong; the last step before it is {why}"
        )
        return Opening("difference", why, shown)
    return Opening("difference", f"{why}, and {fails}", shown)


def _at_first_place(
    replay: Replay, number: int, result: Sequence[object], item: int
) -> Opening | None:
    """Open where a returned list's wrong event was put into an object or a list from which it was
    then taken; None if the returned list itself grew by the event, or if there is no such step.
    """
    steps, recorder = replay.recorder.steps, replay.recorder
    texts = [*map(text_of_value, result[: item + 1])]
    if item >= len(result) or type(result[item]) not in EVENTS or texts[item] in texts[:item]:
        return None
    adding = item_change(recorder, number, item, texts[item])
    if adding is not None and adding[1] and steps[adding[0]].changes[adding[1]][0]:
        return None
    place = first_place(steps, number, texts[item])
    if place is None or (adding is not None and place[0] >= adding[0]):
        return None
    step, name = steps[place[0]], place[1]
    is_event = step.changes[name][1] == texts[item]
    does = f"sets {name} to {texts[item]}" if is_event else f"puts {texts[item]} into {name}"
    why = (
        f"{_line(replay, step)}: {step.function} {does}, the first wrong item of the list that "
        f"{steps[number].function} returns, and the test fails"
    )
    return Opening("difference", why, place[0], (number,))


def _at_switch(steps: Sequence[Step], other: int) -> Opening:
    """Open at the line before which another thread ran its calls."""
    before = max((n for n in range(other) if not steps[n].thread), default=None)
    if before is None:
        return Opening("race", f"a second thread runs line {steps[other].line}", other, (other,))
    why = (
        f"one thread has run line {steps[before].line} of {steps[before].function}; now another "
        f"thread runs, from line {steps[other].line} of {steps[other].function} on"
    )
    return Opening("race", why, before, (other,))


def at_wait(replay: Replay) -> Opening:
    """Open at the calls that wait, which may be in several threads."""
    running = sorted(replay.running, key=lambda number: replay.recorder.steps[number].thread)
    if not running:
        return Opening("nothing", f"{NO_STEPS} while the test waited", None)
    steps = [replay.recorder.steps[number] for number in running]
    places = [f"{_line(replay, step)} of {step.function}" for step in steps]
    who = "the code waits" if len(places) == 1 else f"{len(places)} threads wait"
    return Opening("waiting", f"{who} forever: {' and '.join(places)}", running[0], running[1:])


def at_stop(replay: Replay, kind: str, words: str) -> Opening:
    """Open at the line after which there was no other event.

    Args:
        replay: the case up to that line.
        kind: as in a `Recording`.
        words: what happened in the line, as a verb.
    """
    steps = replay.recorder.steps
    if not steps:
        return Opening("nothing", f"{NO_STEPS}: it {words}", None)
    why = f"{_line(replay, steps[-1])} of {steps[-1].function} {words}"
    return Opening(kind, why, len(steps) - 1)


def _line(replay: Replay, step: Step) -> str:
    return replay.line_in_words((step.part, step.line))
