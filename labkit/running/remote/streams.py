"""Guesses of an object's next calls, from the streams that a test has sent to its class before.

For `feed("ab")`, `flush()`, and then `feed("a")` of another object, the guess is `feed("b")`,
`flush()`: many tests send a text whole and then in smaller pieces, and end all streams alike.
"""

from dataclasses import dataclass, field
from typing import Any

MOST_GUESSES = 256
# After so many wrong guesses of a kind no more are made.
MOST_MISSES = 8
# So many calls without arguments are guessed at the end of a stream.
_MOST_ENDS = 4


@dataclass
class Streams:
    """The streams to the objects of a class.

    Attributes:
        text: of the last stream.
        ends: by the method of the last call with arguments, the calls without arguments after it.
        single: by method, whether it was called once in its last stream.
        other_cuts: how often a piece was not as long as the first piece.
        other_ends: how often a stream did not end as the previous stream.
    """

    text: str = ""
    ends: dict[str, list[str]] = field(default_factory=dict)
    single: dict[str, bool] = field(default_factory=dict)
    other_cuts: int = 0
    other_ends: int = 0


class Stream:
    """The calls of an object since its last stream has ended.

    Args:
        earlier: the streams to its class.
    """

    def __init__(self, earlier: Streams) -> None:
        self._earlier = earlier
        self._method = ""
        self._count = 0
        self._pieces: list[str] = []
        self._length = 0
        # Whether the text of the previous stream begins with these pieces.
        self._is_again = True
        self._ends: list[str] = []

    def note(self, method: str, args: tuple[Any, ...], has_options: bool) -> None:
        """Note the next call: a text is a piece of a stream, and calls without arguments end it."""
        earlier = self._earlier
        if not (args or has_options):
            if not self._ends:
                earlier.single[self._method] = self._count == 1
                if self._pieces:
                    earlier.text = "".join(self._pieces)
                self._count, self._pieces, self._length, self._is_again = 0, [], 0, True
            if len(self._ends) < _MOST_ENDS:
                self._ends.append(method)
            earlier.ends[self._method] = self._ends
            return
        self._ends, self._method = [], method
        self._count += 1
        if len(args) == 1 and type(args[0]) is str:
            (piece,) = args
            self._is_again = self._is_again and earlier.text.startswith(piece, self._length)
            self._pieces.append(piece)
            self._length += len(piece)

    def pieces(self) -> tuple[list[str], bool]:
        """Return guesses of the next pieces, and whether the stream ends after them."""
        text, begin = self._earlier.text, self._length
        size = len(self._pieces[-1]) if self._pieces else 0
        if not size or not self._is_again or self._earlier.other_cuts > MOST_MISSES:
            return [], self._count == 1 and self._earlier.single.get(self._method, False)
        end = min(len(text), begin + size * MOST_GUESSES)
        return [text[start : start + size] for start in range(begin, end, size)], end == len(text)

    def ends(self) -> list[str]:
        """Return the methods that are guessed to be called without arguments after the pieces."""
        if self._earlier.other_ends > MOST_MISSES:
            return []
        return self._earlier.ends.get(self._method, [])
