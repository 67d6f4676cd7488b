"""The steps at which returned values and attributes were made."""

from collections.abc import Sequence

from labkit.running.recording.recording import LINE, RETURN, YIELD, Step
from labkit.running.recording.replay import Replay
from labkit.running.recording.values import text_of_value


def maker(replay: Replay, number: int) -> int:
    """Return the step at which a returned value was made: functions outside of it only return it,
    by a line that calls the next one.
    """
    steps = replay.recorder.steps
    while number:
        step, statement = steps[number], statement_step(replay, number)
        if not replay.statements_of(step.part).only_calls(steps[statement].line):
            break
        last = _last_within(replay, statement, number)
        inner = steps[last]
        called = (step.depth + 1, step.thread, step.part)
        is_call = (inner.depth, inner.thread, inner.part) == called
        if not is_call or inner.event not in (RETURN, YIELD) or inner.value != step.value:
            break
        number = last
    return number


def _last_within(replay: Replay, statement: int, number: int) -> int:
    """Return the last step of the functions that a `return` statement called; the step of the
    statement if it called none. One statement may be several steps of its own function.
    """
    steps, frame = replay.recorder.steps, replay.recorder.steps[number].frame
    statements = replay.statements_of(steps[number].part)
    node = statements.return_at(steps[statement].line)
    after = (n for n in range(statement + 1, number) if steps[n].frame == frame)
    last = None
    for n in reversed(range(next(after, number))):
        if steps[n].frame != frame:
            last = n if last is None else last
        elif steps[n].event != LINE or statements.return_at(steps[n].line) is not node:
            break
        elif last is not None:
            return last
    return statement


def statement_step(replay: Replay, number: int) -> int:
    """Return the step of the `return` statement by which a function returns, if it then ran lines
    of a `with` or a `finally`; else the number of the step itself.
    """
    steps, step = replay.recorder.steps, replay.recorder.steps[number]
    statements = replay.statements_of(step.part)
    if step.event != RETURN or statements.return_at(step.line) is not None:
        return number
    for n in reversed(range(number)):
        other = steps[n]
        if other.frame != step.frame or (other.event == LINE and statements.is_left(other.line)):
            continue
        node = statements.return_at(other.line)
        is_cause = other.event == LINE and node is not None and statements.leaves(step.line, node)
        return n if is_cause else number
    return number


def setting_of_getter(steps: Sequence[Step], number: int) -> tuple[int, str] | None:
    """Return the step that set the attribute which a function only returns, and its name; None if
    the function does more.
    """
    step, before = steps[number], number - 1
    is_getter = before >= 0 and steps[before].frame == step.frame and bool(steps[before].values)
    if not is_getter or steps[before].line != step.line or step.event != RETURN:
        return None
    names = [name for name, text in steps[before].values.items()
             if name.startswith("self.") and text == step.value]  # fmt: skip
    return next(
        ((n, name) for n in reversed(range(before)) for name in names
         if steps[n].changes.get(name, ("", ""))[1] == step.value and steps[n].call >= 0
         and steps[n].part == step.part),
        None,
    )  # fmt: skip


def setting_of_attribute(replay: Replay, name: str, last: int) -> tuple[int, str] | None:
    """Return the step that set an attribute which no function computes, and its value as text; None
    if there is none. The held text must have been set in the last call.

    Args:
        replay: the case up to the reading of the attribute.
        name: the attribute, read by the last call or, as held text, after it.
        last: the number of the last call in which a line ran, but for the reading.
    """
    calls, steps = replay.trace.steps, replay.recorder.steps
    if not calls or last < 0:
        return None
    is_read = calls[-1].call[:2] == (name, None)
    if is_read and last == len(calls) - 1:
        # A function ran.
        return None
    key, text = f"self.{name}", text_of_value(calls[-1].result if is_read else calls[-1].held)
    numbers = (n for n in reversed(range(len(steps))) if key in steps[n].changes)
    number = next((n for n in numbers if steps[n].part == 0), None)
    if number is None or steps[number].call < (0 if is_read else last):
        return None
    return (number, text) if steps[number].changes[key][1] == text else None
