"""Values and texts as people read them: clipped, from their first difference, with code points.

The shown text is fit for any terminal and file, and the same in every run.
"""

import re
from collections.abc import Sequence
from typing import Any

from labkit.running.trace import EVENTS, MOST_WRITTEN, fields_of, written

# The most characters of a value; a longer one is shown around its first difference.
_MOST = 240
_BEFORE = 80
_MOST_NAMES = 6
# The shown part of a long value, in characters or items, and how much of it is before the
# difference.
_AROUND = 40
_JUST_BEFORE = 12
_NOTHING = object()
_UNITS = {str: "character", bytes: "byte", list: "item", tuple: "item"}
# The most characters of a text that the code under test may have chosen.
MOST_CHARACTERS = 4_000
# Written words need these, though Python counts them as not printable.
_JOINERS = "\u00a0\u200c\u200d\u3000"
_ADDRESS = re.compile(r"\b0x[0-9a-f]{8,}\b")


def show(value: Any) -> str:
    """Return `repr(value)`, clipped, followed by the code points of its non-ASCII characters."""
    return _window(written(value), 0)


def show_pair(one: Any, other: Any) -> tuple[str, str]:
    """Return two values as `show` does; long texts begin shortly before their first difference."""
    texts = written(one), written(other)
    if max(map(len, texts)) <= _MOST:
        return show(one), show(other)
    start = max(0, first_difference(*texts) - _BEFORE)
    return _window(texts[0], start), _window(texts[1], start)


def first_difference(one: Any, other: Any) -> int:
    """Return the first place at which two sequences differ: the shorter length if one is a
    beginning of the other.
    """
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def show_difference(one: Any, other: Any) -> tuple[str, str]:
    """Return two values, which may be long, as the part of each at their first difference.

    The place of a part follows it: `'ab' from index 7 on (9 characters in all)`. The part of a list
    of events is the first event that differs, and that of two events of one kind is a field.
    """
    kind = type(one)
    if kind is not type(other):
        return _start_of(one), _start_of(other)
    if kind in EVENTS:
        for name, *fields in zip(EVENTS[kind], fields_of(one), fields_of(other), strict=True):
            if fields[0] != fields[1]:
                texts = show_difference(*fields)
                subject = f"{kind.__name__}.{name} = "
                return subject + texts[0], subject + texts[1]
    if kind not in _UNITS:
        return show(one), show(other)
    at = _same_until(one, other)
    if kind is list and not (_is_plain(one) and _is_plain(other)):
        there = [items[at] if at < len(items) else _NOTHING for items in (one, other)]
        texts = show_difference(*there)
        if max(len(one), len(other)) == 1:
            return texts
        left, right = (
            f"{text} at index {at:,} ({_count(items)})"
            for text, items in zip(texts, (one, other), strict=True)
        )
        return left, right
    return _part(one, at), _part(other, at)


def _is_plain(items: Sequence[Any]) -> bool:
    """Return whether a part of a list is legible as a row of items."""
    return all(type(item) in (int, bool, type(None)) for item in items[:_AROUND])


def _same_until(one: Sequence[Any], other: Sequence[Any]) -> int:
    """Return `first_difference` of two sequences that may have millions of items."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _start_of(value: Any) -> str:
    return (
        _part(value, 0)
        if type(value) in _UNITS
        else "nothing"
        if value is _NOTHING
        else show(value)
    )


def _part(value: Any, at: int) -> str:
    """Return a sequence, or its part that begins shortly before `at`."""
    if len(value) <= _AROUND:
        return show(value)
    start = max(0, at - _JUST_BEFORE)
    place = f" from index {start:,} on" if start else ""
    return f"{show(value[start : start + _AROUND])}{place} ({_count(value)})"


def _count(value: Sequence[Any]) -> str:
    return f"{len(value):,} {_UNITS[type(value)]}{'s' * (len(value) != 1)} in all"


def printable(text: str, most: int = MOST_CHARACTERS) -> str:
    r"""Return `text` fit for any terminal and file.

    Control characters, marks of writing direction and lone surrogates become escapes, `\x1b`; line
    endings and tabs stay. A text of more than `most` characters is cut.
    """
    if len(text) > most:
        text = f"{text[:most]}… ({len(text)} characters)"
    return "".join(c if c.isprintable() or c in "\n\t" + _JOINERS else _escape(c) for c in text)


def repeatable(text: str) -> str:
    """Return `text` as `printable` does, without addresses in memory: they change at each run."""
    return _ADDRESS.sub("0x…", printable(text))


def in_one_line(text: str) -> str:
    r"""Return `text` with escapes, `\n`, for line endings and tabs."""
    return text.replace("\n", r"\n").replace("\t", r"\t")


def counted(number: float, noun: str) -> str:
    """Return the number and its noun, such as "1 point" and "2 points"."""
    return f"{number:g} {noun}" if number == 1 else f"{number:g} {noun}s"


def clip(text: str, width: int) -> str:
    """Return a text of at most `width` characters."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _window(text: str, start: int) -> str:
    shown = text[start : start + _MOST]
    special = list(dict.fromkeys(char for char in shown if ord(char) > 126))
    names = " ".join(f"{char}=U+{ord(char):04X}" for char in special[:_MOST_NAMES])
    if len(shown) < len(text):
        ends = "…" if start else "", "…" if start + _MOST < len(text) else ""
        all_of_it = len(text) if len(text) <= MOST_WRITTEN else f"more than {MOST_WRITTEN}"
        shown = f"{ends[0]}{shown}{ends[1]} ({all_of_it} characters in all)"
    return f"{shown}   {names}" if names else shown
