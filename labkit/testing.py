"""The tools of lab tests: expectations, chunkings, and small cases first.

No function here calls the implementation under test: all get data only, and `check` calls the
test's own rule.
"""

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from labkit.running.diagnose import mistake
from labkit.running.platform import processor_time
from labkit.running.reporting.locate import find
from labkit.running.reporting.showing import show, show_difference, show_pair
from labkit.running.trace import Call, Failure, Trace, Unreadable, joined, written

__all__ = [
    "Call", "Failure", "check", "chunkings", "cut", "cut_at", "decided", "decoded", "error_of",
    "expect", "expect_in", "expect_long", "expect_most", "expect_untouched", "is_viable_prefix",
    "joined", "mistake", "put_in", "show", "small_bytes", "small_strings", "undecided",
]  # fmt: skip

_C = TypeVar("_C")
# Each try runs the implementation once. A limit of tries makes the shrunk case reproducible; the
# limit of time only matters for slow code.
MOST_TRIES = 400
_MOST_PIECES = 100_000
_MOST_SECONDS = 1.0
_S = TypeVar("_S", str, bytes, list[int])


def expect(
    actual: Any, expected: Any, run: Trace | str, what: str = "", at: int | None = None
) -> None:
    """Fail unless `actual == expected`.

    Args:
        actual: the implementation's value.
        expected: the contract's value.
        run: the trace that shows it, or the call in words.
        what: the compared value, if it is not the output itself (`"held after feed(3)"`).
        at: the number of the wrong step of `run`; by default it is looked for.
    """
    if actual == expected and type(actual) is type(expected):
        return
    call, trace = (run, None) if isinstance(run, str) else ("", run)
    if isinstance(actual, Unreadable):
        raise actual.failure(call, trace)
    place = find(actual, expected, run, what)
    prefix = f"{what}: " if what else ""
    expected_text, actual_text = (prefix + text for text in show_pair(expected, actual))
    at = place.at if at is None else at
    failure = Failure(expected_text, actual_text, call, trace, place.reason, at=at)
    failure.item = place.item if at == place.at else None
    if trace is not None and type(expected) is list and len(expected) == len(trace.steps):
        failure.by_call = expected if place.is_by_call else None
    raise failure


def expect_long(actual: Any, expected: Any, call: str) -> None:
    """Fail unless `actual == expected`, for values that are too long to be shown.

    The failure shows the part of each at the first difference, and its place.
    """
    if actual == expected:
        return
    if isinstance(actual, Unreadable):
        raise actual.failure(call)
    place = find(actual, expected, call, "")
    failure = Failure(*show_difference(expected, actual), call, None, place.reason)
    failure.item = place.item
    raise failure


def expect_in(part: str, text: str, call: str) -> None:
    """Fail unless `part` occurs in `text` (an error message, say)."""
    if part not in text:
        raise Failure(f"a message that contains {part!r}", written(text, 1_000), call)


def expect_most(actual: Any, most: int, run: Trace | str, what: str) -> None:
    """Fail unless a count is a whole number, and at most `most`."""
    if type(actual) is not int or actual > most:
        call, trace = (run, None) if isinstance(run, str) else ("", run)
        is_short = type(actual) is int and abs(actual) < 10**18
        number = f"{actual:,}" if is_short else written(actual, 1_000)
        failure = Failure(f"at most {most:,} {what}", number, call, trace)
        failure.is_count = True
        raise failure


def expect_untouched(trace: Trace) -> None:
    """Fail if the implementation changed an argument, which is a copy only in tests, changed a list
    or dict that it had returned, or returned the same object again.
    """
    if trace.changed:
        change = trace.changed[0]
        raise Failure("arguments and results that stay unchanged", change, "", trace, change)


def error_of(run: Callable[..., object], *args: Any, **kwargs: Any) -> tuple[str, str]:
    """Return the kind and the text of the exception that a run raises; without one, ("", "").

    For probes of `mistakes.py`: `error_of(lab.call, "f", 1)`.
    """
    try:
        run(*args, **kwargs)
    except Failure as failure:
        if failure.raised is not None:
            return failure.raised.kind, failure.raised.message
    return "", ""


def small_strings(alphabet: Sequence[str], longest: int) -> Iterator[str]:
    """Yield every string over `alphabet`, shortest first, up to `longest` characters."""
    for length in range(longest + 1):
        yield from map("".join, itertools.product(alphabet, repeat=length))


def small_bytes(alphabet: Iterable[int], longest: int) -> Iterator[bytes]:
    """Yield every byte string over `alphabet`, shortest first, up to `longest` bytes."""
    values = sorted(alphabet)
    for length in range(longest + 1):
        yield from map(bytes, itertools.product(values, repeat=length))


def chunkings(whole: _S, generator: random.Random, bursts: int = 5) -> Iterator[list[_S]]:
    """Yield ways to cut `whole`: whole, one by one, every two-cut, random bursts, empty pieces."""
    yield [whole]
    yield [whole[i : i + 1] for i in range(len(whole))]
    for first in range(len(whole) + 1):
        for second in range(first, len(whole) + 1):
            yield [whole[:first], whole[first:second], whole[second:]]
    for _ in range(bursts):
        inner: list[int] = generator.choices(range(len(whole) + 1), k=generator.randint(1, 8))
        pieces = cut_at(whole, inner)
        yield pieces
        yield [part for piece in pieces for part in (whole[:0], piece)]


def cut(whole: _S, generator: random.Random) -> list[_S]:
    """Draw two to five pieces that make up `whole`; some may be empty."""
    inner: list[int] = generator.choices(range(len(whole) + 1), k=generator.randint(1, 4))
    return cut_at(whole, inner)


def cut_at(whole: _S, places: Iterable[int]) -> list[_S]:
    """Return the pieces of `whole`, cut at these places; a place that occurs twice cuts out "".

    Places after the end are ignored, so that a shrunk case stays valid.
    """
    ends = [0, *sorted(place for place in places if place <= len(whole)), len(whole)]
    return [whole[a:b] for a, b in itertools.pairwise(ends)]


def put_in(items: Iterable[Any], others: Iterable[Any], generator: random.Random) -> list[Any]:
    """Return the items, with one to four of the others inserted at random places."""
    mixed = [*items]
    for other in generator.choices([*others], k=generator.randint(1, 4)):
        mixed.insert(generator.randint(0, len(mixed)), other)
    return mixed


def decoded(data: bytes) -> str:
    """Return the reference text of a byte string: one U+FFFD per maximal subpart (WHATWG)."""
    return data.decode("utf-8", "replace")


def undecided(data: bytes) -> bytes:
    """Return the end of `data` that some continuation could still complete to one character."""
    for tail in range(min(3, len(data)), 0, -1):
        if is_viable_prefix(data[-tail:]):
            return data[-tail:]
    return b""


def decided(data: bytes) -> str:
    """Return the longest text that the bytes so far determine, whatever bytes follow."""
    return decoded(data[: len(data) - len(undecided(data))])


@functools.cache
def is_viable_prefix(data: bytes) -> bool:
    """Return whether some continuation of `data` is exactly one well-formed UTF-8 character."""
    return any(
        _is_character(data + filler * count) for filler in (b"\x80", b"\xbf") for count in (1, 2, 3)
    )


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def check(rule: Callable[[_C], object], cases: Iterable[_C]) -> None:
    """Apply a rule to every case; fail with a smallest case that breaks it.

    Args:
        rule: raises `Failure` if the implementation breaks it.
        cases: made of `str`, `bytes`, numbers, or lists, tuples and dicts of those. Smaller cases
            have pieces deleted and numbers halved, so a rule must hold for those too; a text stays
            a text of at least one character. A smaller case that makes the rule itself raise is
            skipped.

    Raises:
        Failure: the failure of the smallest case; `shrunk` is true if it was made smaller.
    """
    for case in cases:
        try:
            rule(case)
        except Failure as failure:
            raise _smallest(rule, case, failure) from None


def _smallest(rule: Callable[[_C], object], case: _C, failure: Failure) -> Failure:
    end = processor_time() + _MOST_SECONDS
    pieces = _MOST_PIECES
    smaller = _smaller(case)
    for _ in range(MOST_TRIES):
        candidate = next(smaller, None)
        pieces -= _size(candidate)
        if candidate is None or pieces < 0 or processor_time() > end:
            break
        try:
            rule(candidate)
        except Failure as other:
            if _kind(other) == _kind(failure):
                case, failure, smaller = candidate, other, _smaller(candidate)
                failure.shrunk = True
        except Exception:
            # The candidate is not a valid case of this rule.
            continue
    failure.again = functools.partial(rule, case)
    return failure


def _kind(failure: Failure) -> str:
    """Return the kind of a failure: that of an exception, a wrong type, or "" for a wrong value."""
    return failure.raised.kind if failure.raised is not None else failure.reason


def _size(case: Any) -> int:
    if isinstance(case, dict):
        case = [*case.values()]
    if isinstance(case, list | tuple):
        return sum(map(_size, case))
    return len(case) if isinstance(case, str | bytes) else 1


def _smaller(case: Any) -> Iterator[Any]:
    """Yield cases with a half ... one of the pieces deleted, then with one piece made smaller."""
    if isinstance(case, dict):
        for keys in _without_some([*case]):
            yield {key: case[key] for key in keys}
        for key, value in case.items():
            for less in _smaller_part(value):
                yield {**case, key: less}
    elif isinstance(case, str | bytes):
        # An empty text is a case of another kind.
        yield from filter(None, _without_some(case))
    elif isinstance(case, list):
        yield from _without_some(case)
        for number, piece in enumerate(case):
            for less in _smaller(piece):
                yield [*case[:number], less, *case[number + 1 :]]
    elif isinstance(case, tuple):
        yield from _without_some(case)
        for number, piece in enumerate(case):
            for less in _smaller_part(piece):
                yield (*case[:number], less, *case[number + 1 :])


def _without_some(case: Any) -> Iterator[Any]:
    size = (len(case) + 1) // 2
    while size:
        for start in range(0, len(case), size):
            yield case[:start] + case[start + size :]
        size //= 2


def _smaller_part(value: Any) -> Iterator[Any]:
    """Yield smaller values of a part of a record, in which a number is a place or a count.

    A number in a list is an id, and has no smaller values.
    """
    if type(value) is int and value > 0:
        yield from sorted({0, value // 2, value - 1})
    else:
        yield from _smaller(value)
