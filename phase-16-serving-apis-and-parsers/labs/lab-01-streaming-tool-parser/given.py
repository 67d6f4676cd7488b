"""A reader of a parser: it drops the output, looks at its memory and at Python's limits."""

import gc
import sys
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any


class Reader:
    """A reader of one parser.

    Args:
        parser: the parser.
    """

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def feed_silently(self, pieces: Sequence[str]) -> None:
        """Feed pieces, read `held` after each, and drop all output."""
        for piece in pieces:
            self._parser.feed(piece)
            self._parser.held  # noqa: B018

    @property
    def weight(self) -> int:
        """The size in bytes of the parser, of its class's and its module's variables, and of all
        objects that these refer to.
        """
        kind = type(self._parser)
        module = getattr(kind.feed, "__globals__", {})
        seen: set[int] = set()
        own = [value for name, value in module.items() if not name.startswith("__")]
        total, rest = 0, [self._parser, *vars(kind).values(), *own]
        while rest:
            part = rest.pop()
            if id(part) not in seen and not isinstance(part, type | ModuleType | FunctionType):
                seen.add(id(part))
                total += sys.getsizeof(part)
                rest += gc.get_referents(part)
        return total

    def limits_after(self, pieces: Sequence[str], *limits: int) -> list[int]:
        """Set Python's limits of recursion and of the digits of an int, and feed pieces; return the
        limits after that.
        """
        before = sys.getrecursionlimit(), sys.get_int_max_str_digits()
        try:
            _set(*limits)
            self.feed_silently(pieces)
            return [sys.getrecursionlimit(), sys.get_int_max_str_digits()]
        finally:
            _set(*before)


def _set(recursion: int, digits: int) -> None:
    sys.setrecursionlimit(recursion)
    sys.set_int_max_str_digits(digits)
