"""Making a failing case small before anybody reads it, by deleting pieces and halving."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from labkit.running.trace import Failure

_C = TypeVar("_C")
# Each try runs the implementation once; a few hundred take well under a second.
MOST_TRIES = 400


def check(rule: Callable[[_C], object], cases: Iterable[_C]) -> None:
    """Apply a rule to every case; fail with the smallest case found that breaks it.

    Args:
        rule: raises `Failure` where the implementation breaks it.
        cases: of `str`, `bytes`, or lists and tuples of those and of other values. A smaller case
            is one with pieces deleted, so a rule must hold for those too.

    Raises:
        Failure: of the smallest case that was found.
    """
    for case in cases:
        try:
            rule(case)
        except Failure as failure:
            raise _shrunk(rule, case, failure) from None


def _shrunk(rule: Callable[[_C], object], case: _C, failure: Failure) -> Failure:
    tries = 0
    smaller = _smaller(case)
    while (candidate := next(smaller, None)) is not None and tries < MOST_TRIES:
        tries += 1
        try:
            rule(candidate)
        except Failure as found:
            if _kind(found) == _kind(failure):
                case, failure, smaller = candidate, found, _smaller(candidate)
        except Exception:
            # The candidate is no case of this rule.
            continue
    return failure


def _kind(failure: Failure) -> str:
    """Return what went wrong: a wrong answer, or an exception of this kind."""
    return failure.raised.kind if failure.raised is not None else ""


def _smaller(case: Any) -> Iterator[Any]:
    """Yield cases with a half ... one of the pieces deleted, then with one piece made smaller."""
    if not isinstance(case, str | bytes | list | tuple):
        return
    size = len(case) // 2 or len(case)
    while size:
        for start in range(0, len(case), size):
            yield _without(case, start, start + size)
        size //= 2
    if isinstance(case, list | tuple):
        for number, piece in enumerate(case):
            for less in _smaller(piece):
                yield type(case)([*case[:number], less, *case[number + 1 :]])


def _without(case: Any, start: int, end: int) -> Any:
    return case[:start] + case[end:]
