"""The place of a run's first fault, and whether a wrong type is the fault."""

from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from labkit.running.reporting.showing import first_difference
from labkit.running.trace import Trace, a_type, joined, pieces_of
from mini_vllm.text.events import Malformed

# The most results among which a slice is looked for, and the most calls from one to the next.
_MOST_SLICED, _MOST_STRIDE = 1_000, 4


class Place(NamedTuple):
    """The place of a fault in a run.

    Attributes:
        at: the number of the step, or None if it is unknown.
        reason: the fault in words if a type is wrong; else "".
        item: the index of the first wrong item in the list that the step returned, or of the item
            that the list lacks; None if the step returned no list, or if no item is wrong.
        is_by_call: whether the compared value has one item for each call: its result, in which
            adjacent texts may be joined, or the held text after it.
    """

    at: int | None = None
    reason: str = ""
    item: int | None = None
    is_by_call: bool = False


def find(actual: Any, expected: Any, run: Trace | str, what: str) -> Place:
    """Return the first step that shows a difference.

    Args:
        actual: the run's outputs, held texts, text, events, or an attribute.
        expected: the correct value of the same.
        run: the run, or one call in words.
        what: the name of the compared value, if it is not the output.
    """
    if isinstance(run, str):
        reason = _wrong_type(f"{run.partition('(')[0]} returned", actual, expected)
        return Place(None, reason, _wrong_item(actual, expected))
    own = [n for n, step in enumerate(run.steps) if step.result is actual and _is_list(actual)]
    if len(own) == 1:
        return Place(own[0], item=_wrong_item(actual, expected))
    if _has_reasons(actual):
        steps = [step._replace(result=_without_reasons(step.result)) for step in run.steps]
        run, actual = replace(run, steps=steps), _without_reasons(actual)
        expected = _without_reasons(expected)
    if type(actual) is type(expected) is list:
        results = [step.result for step in run.steps[: len(actual)]]
        held = [step.held for step in run.steps[: len(actual)]]
        as_joined = [joined(result) if _is_list(result) else result for result in results]
        is_result = actual in (results, as_joined)
        if actual and (is_result or actual == held):
            at = min(first_difference(actual, expected), len(actual) - 1)
            call, right = run.steps[at].call, expected[at] if at < len(expected) else None
            returned = f"{call.name} returned" if call.args is not None else ""
            subject = returned if is_result else "`held` is"
            item = _wrong_item(results[at], right) if is_result else None
            return Place(at, _wrong_type(subject, actual[at], right), item, is_by_call=True)
        if (place := _place_in_slice(actual, expected, run)) is not None:
            return place
    read = _last_read(what, run) if what else None
    # A value with a name may be the text of all calls as well; an empty one says nothing.
    is_of_calls = read is None and (actual or not what)
    return _first_wrong_call(actual, expected, run) if is_of_calls else Place(read)


def _has_reasons(value: Any) -> bool:
    """Return whether events have reasons, in whose place a test puts a word of its own."""
    return any(map(_has_reasons, value)) if _is_list(value) else type(value) is Malformed


def _without_reasons(value: Any) -> Any:
    if _is_list(value):
        return [*map(_without_reasons, value)]
    return replace(value, reason="") if type(value) is Malformed else value


def _place_in_slice(actual: list[Any], expected: list[Any], run: Trace) -> Place | None:
    """Return the place of the first fault in a list that is a slice of the results: of the last
    calls, or of every second call, for example. None if it is not a slice, or may be several.

    Adjacent texts in the lists of events may be joined, which makes other lists of them.
    """
    results = [step.result for step in run.steps]
    if len(actual) < 2 or len(results) > _MOST_SLICED:
        # A single value may be equal to a result by chance.
        return None
    item = min(first_difference(actual, expected), len(actual) - 1)
    starts = _starts_of_slice([*map(id, actual)], [*map(id, results)])
    if not starts and all(map(_is_list, actual)):
        as_joined = [joined(result) if _is_list(result) else result for result in results]
        starts = _starts_of_slice(actual, as_joined)
    steps = {start + item * stride for start, stride in starts}
    if len(steps) != 1:
        return None
    (step,) = steps
    right = expected[item] if item < len(expected) else None
    return Place(step, item=_wrong_item(results[step], right))


def _starts_of_slice(actual: list[Any], results: list[Any]) -> list[tuple[int, int]]:
    """Return each place and stride at which some results are the compared values."""
    return [
        (start, stride)
        for stride in range(1, _MOST_STRIDE + 1)
        for start, result in enumerate(results)
        if result == actual[0] and results[start::stride][: len(actual)] == actual
    ]


def _first_wrong_call(actual: Any, expected: Any, run: Trace) -> Place:
    """Return the first call after which a text, or a list of events, is wrong."""
    calls = [number for number, step in enumerate(run.steps) if step.call.args is not None]
    pieces: list[Any] = []
    places: list[Place] = []
    for number in calls:
        result = run.steps[number].result
        items = [[event] for event in result] if _is_list(result) else [result]
        for item, own in enumerate(map(_pieces, items)):
            pieces += own
            places += [Place(number, item=item if _is_list(result) else None)] * len(own)
    own_pieces = _pieces(actual)
    if own_pieces != pieces[: len(own_pieces)] or not calls or (pieces and not own_pieces):
        return Place()
    return [*places, Place(calls[-1])][first_difference(own_pieces, _pieces(expected))]


def _wrong_item(actual: Any, expected: Any) -> int | None:
    """Return the index of the first item of a list that differs, or that it lacks; None if there is
    none.
    """
    if not (_is_list(actual) and _is_list(expected)):
        return None
    start = first_difference(actual, expected)
    items = range(start, len(actual))
    own = ((item, piece) for item in items for piece in pieces_of(actual[item]))
    right = (piece for event in expected[start:] for piece in pieces_of(event))
    pairs = zip(chain(own, [(len(actual), ...)]), chain(right, [...]), strict=False)
    return next((item for (item, piece), other in pairs if piece != other), None)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


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
