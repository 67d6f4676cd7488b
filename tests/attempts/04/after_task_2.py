"""Lab 04: write the stop-string matcher here. README.md has the story and the tasks.

Check your work with `make lab N=04`; stuck? `make hint N=04`.
"""

from collections.abc import Collection


class StopStringMatcher:
    """Pass text through until a stop string completes.

    The stop that *ends first* wins; of several that end at the same character, the longest. Stops
    are compared character by character, as they are.

    Args:
        stops: non-empty strings in a list, a tuple or another collection, which is left as it is;
            if there are none, nothing is ever held.
        include_stop: show the stop itself too. Then there is nothing to hold back.

    Raises:
        ValueError: `stops` is a bare `str` (the message shows what to write, `["END"]`), or one of
            the stops is empty.

    >>> matcher = StopStringMatcher(["END"])
    >>> [matcher.feed(piece) for piece in ("so E", "N", "D of it")]
    ['so ', '', '']
    >>> matcher.matched
    'END'
    """

    def __init__(self, stops: Collection[str], *, include_stop: bool = False) -> None:
        self._stops = self._winnable(stops)
        self._include_stop = include_stop
        self._matched: str | None = None
        self._held = ""

    def _winnable(self, stops: Collection[str]) -> list[str]:
        """Return the stops without those that hold another stop before their own last character.

        Wherever such a stop would complete, the shorter one has completed earlier, so text would be
        held for nothing.
        """
        if isinstance(stops, str):
            raise ValueError(f'{stops!r} is one str; write ["END"]')
        stops = list(stops)
        if "" in stops:
            raise ValueError("an empty stop matches everywhere")
        return [stop for stop in stops if not any(other in stop[:-1] for other in stops)]

    @property
    def matched(self) -> str | None:
        """The stop that ended the stream, also after `flush`; None as long as none has."""
        raise NotImplementedError("lab-04 task 3: matched")

    @property
    def held(self) -> str:
        """The text that is held back: the longest end of the stream so far that begins a stop.

        Always `""` after a match, after `flush`, and with `include_stop`.
        """
        return self._held

    def feed(self, text: str) -> str:
        """Take the next piece of text, of any length; return what may be shown now.

        Returns:
            If a stop completes in this piece, the text up to it (with `include_stop`, through it);
            otherwise everything but `held`. After a match, always `""`. The work grows with the
            piece, however long the text before it and the stops are.

        >>> matcher = StopStringMatcher(["aab"])
        >>> [matcher.feed(char) for char in "aaab"], matcher.held, matcher.matched
        (['', '', 'a', ''], '', 'aab')
        """
        unshown = self._held + text
        tail = self._held
        for char in text:
            tail += char
            while tail and not any(stop.startswith(tail) for stop in self._stops):
                tail = tail[1:]
        self._held = tail
        return unshown[: len(unshown) - len(tail)]

    def flush(self) -> str:
        """End the stream: return what is held, as no stop can complete any more.

        A second `flush` returns `""`. Text that is fed later is a new stream, with no memory of
        this one; but after a match `feed` stays `""`, and `matched` stays what it is.

        >>> matcher = StopStringMatcher(["END"])
        >>> matcher.feed("the EN"), matcher.flush(), matcher.flush()
        ('the ', 'EN', '')
        """
        raise NotImplementedError("lab-04 task 4: flush")
