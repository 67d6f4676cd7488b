"""The place of a run's first fault, and whether a wrong type is the fault."""

from typing import Any, NamedTuple

from labkit.running.reporting.showing import first_difference
from labkit.running.trace import Trace, a_type, pieces_of


class Place(NamedTuple):
    """The place of a fault in a run.

    Attributes:
        at: the number of the step, or None if it is unknown.
        reason: the fault in words if a type is wrong; else "".
    """

    at: int | None = None
    reason: str = ""


def find(actual: Any, expected: Any, run: Trace | str, what: str) -> Place:
    """Return the first step that shows a difference.

    Args:
        actual: the run's outputs, held texts, text, events, or an attribute.
        expected: the correct value of the same.
        run: the run, or one call in words.
        what: the name of the compared value, if it is not the output.
    """
    if isinstance(run, str):
        return Place(None, _wrong_type(f"{run.partition('(')[0]} returned", actual, expected))
    if type(actual) is type(expected) is list:
        results = [step.result for step in run.steps[: len(actual)]]
        held = [step.held for step in run.steps[: len(actual)]]
        if actual and actual in (results, held):
            at = min(first_difference(actual, expected), len(actual) - 1)
            call = run.steps[at].call
            returned = f"{call.name} returned" if call.args is not None else ""
            subject = returned if actual == results else "`held` is"
            item = expected[at] if at < len(expected) else None
            return Place(at, _wrong_type(subject, actual[at], item))
    return Place(_last_read(what, run) if what else _first_wrong_call(actual, expected, run))


def _first_wrong_call(actual: Any, expected: Any, run: Trace) -> int | None:
    """Return the first call after which a text, or a list of events, is wrong."""
    calls = [number for number, step in enumerate(run.steps) if step.call.args is not None]
    pieces, numbers = [], []
    for number in calls:
        own = _pieces(run.steps[number].result)
        pieces += own
        numbers += [number] * len(own)
    if _pieces(actual) != pieces or not calls:
        return None
    return [*numbers, calls[-1]][first_difference(pieces, _pieces(expected))]


def _pieces(value: Any) -> list[Any]:
    """Return a text as its characters; split a list of events into events of one character."""
    if isinstance(value, str):
        return [*value]
    if not isinstance(value, list):
        return []
    return [piece for event in value for piece in pieces_of(event)]


def _last_read(what: str, run: Trace) -> int | None:
    """Return the last reading of an attribute."""
    reads = [n for n, step in enumerate(run.steps) if step.call[:2] == (what, None)]
    return reads[-1] if reads else None


def _wrong_type(subject: str, actual: Any, expected: Any) -> str:
    """Return a clause about a value's type that begins with `subject`; "" if the type is right."""
    if not subject or expected is None or type(actual) is type(expected):
        return ""
    return f"{subject} {a_type(actual)}; expected {a_type(expected)}"
