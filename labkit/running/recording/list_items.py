"""The steps at which a list that a function returns got its items."""

from collections.abc import Sequence

from labkit.running.recording.recorder import Recorder
from labkit.running.recording.recording import RETURN, Step

# Of a long text of a value, this replaces the middle.
_LEFT_OUT = "…"


def last_change(steps: Sequence[Step], number: int) -> tuple[int, str] | None:
    """Return the step that made a returned list, or gave it its last item, and the list's name.

    The step is of the same call and in the innermost function. None if the value is not a list with
    items, or was made by the line that returns it.

    Args:
        steps: the steps of a recording.
        number: the number of the step that returns.
    """
    step = steps[number]
    if not _is_list(step):
        return None
    changes = [
        (steps[n].depth, n, name)
        for n in _before(steps, number)
        for name, (_, after) in steps[n].changes.items()
        if after == step.value
    ]
    return max(changes)[1:] if changes else None


def item_change(
    recorder: Recorder, number: int, item: int, text: str, first: int = 0
) -> tuple[int, str] | None:
    """Return the step that added an item to a returned list, and the name of the list there.

    The step is of the same call and in the innermost function. If its line added the items of
    another list that a function had returned, or the value of a function, it is the step in that
    function; the name is "" if that is a return. None if no list with a name began as the returned
    list does and grew by the item.

    Args:
        recorder: the recorder of the case.
        number: the number of the step that returns.
        item: the index of the item.
        text: the item.
        first: the number of the first step to look at.
    """
    steps, sizes = recorder.steps, recorder.sizes
    if not _is_list(steps[number]):
        return None
    value, identity = steps[number].value, sizes[number].get("", (0, 0, 0))[2]
    places = [n for n in _before(steps, number) if n >= first]
    names = {
        (steps[n].frame, name)
        for n in places for name, change in sizes[n].items() if change[2] == identity
    }  # fmt: skip
    changes = [
        ((steps[n].frame, name) in names, steps[n].depth, n, name, before)
        for n in places
        for name, (before, after, _) in sizes[n].items()
        if name and before <= item < after and _is_start(steps[n].changes[name][1], value)
    ]
    if not changes:
        return None
    is_same, _, adder, name, before = max(changes)
    if first and not is_same:
        # A list of a part of the items may be any list.
        return None
    inner = _returned_within(steps, adder)
    if inner is None:
        return adder, name
    value, end = steps[inner].value, steps[adder].changes[name][1]
    is_item = (before, value) == (item, text)
    deeper = None
    if not is_item:
        deeper = item_change(recorder, inner, item - before, text, adder + 1)
    if deeper is None and (is_item or _is_end(value, end)):
        deeper = inner, ""
    return deeper or (adder, name)


def first_place(steps: Sequence[Step], number: int, event: str) -> tuple[int, str] | None:
    """Return the first step after which a value has an event, and the name of the value; None if
    there is none.

    The value may be any: an object with a list, a dict, or the event itself. The step is of the
    same call as another, before it, and in the innermost function.

    Args:
        steps: the steps of a recording.
        number: the number of the other step.
        event: the event as text.
    """
    places = [
        (n, name)
        for n in _before(steps, number)
        for name, (before, after) in steps[n].changes.items()
        if event in after and event not in before and _LEFT_OUT not in before
    ]
    inner = None
    for place in places:
        if inner is None or _is_within(steps, place[0], inner[0]):
            inner = place
    return inner


def _is_within(steps: Sequence[Step], number: int, outer: int) -> bool:
    """Return whether a step is of a function that the line of another step calls."""
    frame = steps[outer].frame
    return number > outer and all(step.frame != frame for step in steps[outer + 1 : number + 1])


def _is_list(step: Step) -> bool:
    """Return whether a step returns a list with items."""
    return step.event == RETURN and step.value.startswith("[") and step.value != "[]"


def _before(steps: Sequence[Step], number: int) -> list[int]:
    """Return the numbers of the steps before another, of the same call, thread and file."""
    step = steps[number]
    place = (step.call, step.thread, step.part)
    return [
        n for n, other in enumerate(steps[:number])
        if (other.call, other.thread, other.part) == place
    ]  # fmt: skip


def _is_start(text: str, whole: str) -> bool:
    """Return whether a list begins as another does, as far as their texts show it."""
    if not text.startswith("["):
        return False
    text = text.partition(_LEFT_OUT)[0] if _LEFT_OUT in text else text.removesuffix("]")
    start = whole.partition(_LEFT_OUT)[0]
    is_whole_item = start[len(text) : len(text) + 1] in ("", ",", "]")
    return start.startswith(text[: len(start)]) and is_whole_item


def _is_end(text: str, whole: str) -> bool:
    """Return whether a list ends as another does, both of which are shown in full."""
    is_in_full = text.startswith("[") and _LEFT_OUT not in text and _LEFT_OUT not in whole
    return is_in_full and (whole == text or whole.endswith(f" {text[1:]}"))


def _returned_within(steps: Sequence[Step], number: int) -> int | None:
    """Return the step in which the last function that a line called returned; None if there is
    none.
    """
    step = steps[number]
    last = None
    for n in range(number + 1, len(steps)):
        other = steps[n]
        if other.thread == step.thread and other.depth <= step.depth:
            break
        if other.thread == step.thread and other.depth == step.depth + 1 and other.event == RETURN:
            last = n
    return last
