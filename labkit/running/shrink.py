"""Making a failing case small before anybody reads it, by deleting pieces and halving."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from labkit.running.platform import processor_time
from labkit.running.trace import Failure

_C = TypeVar("_C")
# Each try runs the implementation once. By these, equal code gives an equal case; by time it does
# only where the code is slow.
MOST_TRIES = 400
_MOST_PIECES = 100_000
_MOST_SECONDS = 1.0


def check(rule: Callable[[_C], object], cases: Iterable[_C]) -> None:
    """Apply a rule to every case; fail with the smallest case found that breaks it.

    Args:
        rule: raises `Failure` where the implementation breaks it.
        cases: of `str`, `bytes`, numbers, or lists, tuples and dicts of those. A smaller case is
            one with pieces deleted and numbers halved, so a rule must hold for those too; a case
            that makes the rule itself raise is left alone.

    Raises:
        Failure: of the smallest case that was found; `shrunk` says whether that is another one.
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
            # The candidate is no case of this rule.
            continue
    return failure


def _kind(failure: Failure) -> str:
    """Return what went wrong: an exception of this kind, a type, or else a wrong answer."""
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
    elif isinstance(case, str | bytes | list):
        yield from _without_some(case)
        if isinstance(case, list):
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
    """Yield less of a part of a record, where a number is a place or a count; in a list it is an
    id, of which there is no less.
    """
    if type(value) is int and value > 0:
        yield from sorted({0, value // 2, value - 1})
    else:
        yield from _smaller(value)
