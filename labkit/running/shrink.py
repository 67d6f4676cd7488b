"""Making a failing case small before anybody reads it, by deleting pieces and halving."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from labkit.running.trace import Failure

_C = TypeVar("_C")
# Each try runs the implementation once; a few hundred take well under a second.
MOST_TRIES = 400
# Of processor time, where each run takes long.
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
    end = time.process_time() + _MOST_SECONDS
    smaller = _smaller(case)
    for _ in range(MOST_TRIES):
        candidate = next(smaller, None)
        if candidate is None or time.process_time() > end:
            break
        try:
            rule(candidate)
        except Failure as found:
            if _kind(found) == _kind(failure):
                case, failure, smaller = candidate, found, _smaller(candidate)
                failure.shrunk = True
        except Exception:
            # The candidate is no case of this rule.
            continue
    return failure


def _kind(failure: Failure) -> str:
    """Return what went wrong: a wrong answer, or an exception of this kind."""
    return failure.raised.kind if failure.raised is not None else ""


def _smaller(case: Any) -> Iterator[Any]:
    """Yield cases with a half ... one of the pieces deleted, then with one piece made smaller."""
    if isinstance(case, dict):
        for pairs in _smaller([*case.items()]):
            if all(type(pair) is tuple and len(pair) == 2 for pair in pairs):
                yield dict(pairs)
    elif isinstance(case, str | bytes | list | tuple):
        size = (len(case) + 1) // 2
        while size:
            for start in range(0, len(case), size):
                yield case[:start] + case[start + size :]
            size //= 2
        if isinstance(case, list | tuple):
            for number, piece in enumerate(case):
                for less in _smaller(piece):
                    yield type(case)([*case[:number], less, *case[number + 1 :]])
    elif type(case) is int and case > 0:
        yield from sorted({0, case // 2, case - 1})
