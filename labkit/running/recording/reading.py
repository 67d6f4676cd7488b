"""A recording as text of a limited size, and reading such a text from a submission's process."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from labkit.running.recording.recording import (
    EXCEPTION,
    LINE,
    RETURN,
    YIELD,
    CallRow,
    Part,
    Recording,
    Step,
)
from labkit.running.recording.values import MOST_CHARACTERS
from labkit.running.reporting.showing import printable

_KINDS = ("exception", "difference", "loop", "cost", "race", "waiting", "nothing")
_EVENTS = (LINE, RETURN, YIELD, EXCEPTION)
_MOST_TEXT, _MOST_PRINTED = 4_000, 2_000
_MOST_ITEMS, _MOST_NAMES = 20_000, 1_000
# A text of a value ends with the size of the value, a text of an exception begins with its class.
_MOST_VALUE = MOST_CHARACTERS + 200
_MOST_NUMBER = 2**53


def packed(recording: Recording, most: int) -> str:
    """Return a recording as JSON with at most so many characters, with fewer steps if need be.

    The steps around the opening step are kept.

    Raises:
        ValueError: it has too many characters with the opening step alone.
    """
    count = len(recording.steps)
    while True:
        text = json.dumps(recording.around(count).as_dict(), separators=(",", ":"))
        if len(text) <= most:
            return text
        if count <= 1:
            raise ValueError(f"a recording of {len(text):,} characters; the most is {most:,}")
        count //= 2


def unpacked(text: str) -> Recording:
    """Return the recording of some JSON, after checking each type and size.

    Its texts are printable. The lab, the test, the results and the sources are left out: the reader
    knows them.

    Raises:
        ValueError: it is not a recording; the message names the key.
    """
    try:
        data = json.loads(text)
    except RecursionError:
        raise ValueError("the recording is nested too deep") from None
    recording = Recording(_word(data, "kind", _KINDS), _text(data, "why"))
    recording.dropped = _number(data, "dropped")
    recording.first_call = _number(data, "first_call")
    recording.objects = _texts(data, "objects")
    recording.columns = _texts(data, "columns")
    recording.calls = [_call(item) for item in _items(data, "calls")]
    recording.steps = [_step(item) for item in _items(data, "steps")]
    recording.counts = _counts(data)
    recording.parts = [Part(counts=_counts(item)) for item in _items(data, "parts", _MOST_NAMES)]
    steps = len(recording.steps)
    recording.marks = [_below(mark, steps, "marks") for mark in _items(data, "marks", _MOST_NAMES)]
    opens = _of(data, "opens")
    recording.opens = None if opens is None else _below(opens, steps, "opens")
    if (opens is None) != (recording.kind == "nothing") or (steps and opens is None):
        raise ValueError("opens does not fit the steps")
    if any(step.part > len(recording.parts) for step in recording.steps):
        raise ValueError("a step has no such part")
    return recording


def _step(data: Any) -> Step:
    names = {field.name for field in fields(Step)}
    if type(data) is not dict or not names.issuperset(data):
        raise ValueError("a step has other keys")
    changes = _named(data, "changes")
    for pair in changes.values():
        if type(pair) is not list or len(pair) != 2:
            raise ValueError("changes are pairs of texts")
    return Step(
        _number(data, "line", 1), _word(data, "event", _EVENTS), _text(data, "function", 200),
        _number(data, "frame"), _number(data, "depth", 1), _number(data, "thread"),
        _number(data, "call", -1),
        {key: (_shown(old, "changes"), _shown(new, "changes"))
         for key, (old, new) in changes.items()},
        {key: _shown(value, "values") for key, value in _named(data, "values").items()},
        _shown(data.get("value", ""), "value", _MOST_TEXT),
        _shown(data.get("printed", ""), "printed", _MOST_PRINTED),
        _number({"part": data.get("part", 0)}, "part"),
    )  # fmt: skip


def _call(data: Any) -> CallRow:
    held = tuple(_texts(data, "held"))
    return CallRow(
        _text(data, "call"), _text(data, "emitted"), held, _text(data, "expected"),
        _number(data, "lines"),
    )  # fmt: skip


def _of(data: Any, key: str) -> Any:
    if type(data) is not dict or key not in data:
        raise ValueError(f"{key} is missing")
    return data[key]


def _items(data: Any, key: str, most: int = _MOST_ITEMS) -> list[Any]:
    items = _of(data, key)
    if type(items) is not list or len(items) > most:
        raise ValueError(f"{key} is not a list of at most {most:,} items")
    return items


def _named(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    named = data.get(key, {})
    if type(named) is not dict or len(named) > _MOST_NAMES:
        raise ValueError(f"{key} is not an object of at most {_MOST_NAMES:,} names")
    return {printable(name[:200]): value for name, value in named.items()}


def _texts(data: Any, key: str) -> list[str]:
    return [_shown(item, key, _MOST_TEXT) for item in _items(data, key, _MOST_NAMES)]


def _text(data: Any, key: str, most: int = _MOST_TEXT) -> str:
    return _shown(_of(data, key), key, most)


def _shown(value: Any, key: str, most: int = _MOST_VALUE) -> str:
    if type(value) is not str or len(value) > most:
        raise ValueError(f"{key} is not a text of at most {most:,} characters")
    return printable(value, most)


def _word(data: Any, key: str, words: tuple[str, ...]) -> str:
    word = _of(data, key)
    if word not in words:
        raise ValueError(f"{key} is not one of {', '.join(words)}")
    return str(word)


def _number(data: Any, key: str, least: int = 0) -> int:
    number = _of(data, key)
    if type(number) is not int or not least <= number <= _MOST_NUMBER:
        raise ValueError(f"{key} is not a number from {least} on")
    return number


def _below(number: Any, most: int, key: str) -> int:
    if type(number) is not int or not 0 <= number < most:
        raise ValueError(f"{key} is not the number of a step")
    return number


def _counts(data: Any) -> dict[int, int]:
    counts = _of(data, "counts")
    if type(counts) is not dict or len(counts) > _MOST_ITEMS:
        raise ValueError("counts is not an object of lines")
    lines = {line: _number(counts, line, 1) for line in counts}
    if not all(line.isascii() and line.isdigit() and len(line) < 8 for line in lines):
        raise ValueError("counts has other keys than numbers of lines")
    return {int(line): count for line, count in lines.items()}
