"""A reader of a parser: it drops the output, and looks at Python's limits."""

import sys
from collections.abc import Sequence
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
