"""Lab 04: write the stop-string matcher here. README.md has the story, the tasks and the hints.

Check your work with `make lab N=04`.
"""

from collections.abc import Iterable


class StopStringMatcher:
    """Pass text through until a stop string completes.

    The stop that *ends first* wins; of several that end at one character, the longest.

    Args:
        stops: any iterable of non-empty strings; none at all means that nothing is ever held.
        include_stop: show the stop itself too. Then there is nothing to hold back.

    Raises:
        ValueError: `stops` is a bare `str` (the message shows `["END"]`, which is what was meant),
            or one of the stops is empty.

    >>> matcher = StopStringMatcher(["END"])
    >>> [matcher.feed(piece) for piece in ("so E", "N", "D of it")]
    ['so ', '', '']
    >>> matcher.matched
    'END'
    """

    def __init__(self, stops: Iterable[str], *, include_stop: bool = False) -> None:
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched: str | None = None
        self._held = ""

    def _winnable(self, stops: Iterable[str]) -> list[str]:
        """Return the stops without those that hold another stop before their own last character.

        Wherever such a stop would complete, the shorter one has completed earlier. Holding text for
        it would be holding for nothing.
        """
        raise NotImplementedError("lab-04 task 1: _winnable")

    @property
    def matched(self) -> str | None:
        """The stop that ended the stream, or None so far."""
        raise NotImplementedError("lab-04 task 3: matched")

    @property
    def held(self) -> str:
        """The text that is held back: the longest suffix so far that begins a stop.

        Always `""` after the end, and with `include_stop`.
        """
        raise NotImplementedError("lab-04 task 2: held")

    def feed(self, text: str) -> str:
        """Take the next piece of text, of any length; return what may be shown now.

        Returns:
            The text up to the stop (through it with `include_stop`) if one completes in this piece;
            else all but `held`; always `""` after a match.

        >>> matcher = StopStringMatcher(["aab"])
        >>> [matcher.feed(char) for char in "aaab"], matcher.held, matcher.matched
        (['', '', 'a', ''], '', 'aab')
        """
        raise NotImplementedError("lab-04 task 2: feed")

    def flush(self) -> str:
        """End the stream: return what is held, for no stop will complete it any more.

        A second `flush` returns `""`.

        >>> matcher = StopStringMatcher(["END"])
        >>> matcher.feed("the EN"), matcher.flush(), matcher.flush()
        ('the ', 'EN', '')
        """
        raise NotImplementedError("lab-04 task 4: flush")
