"""Lab 04: write the stop-string matcher here. README.md has the story and the tasks.

Check your work with `make lab N=04`; stuck? `make hint N=04`.
"""

from collections.abc import Collection


class StopStringMatcher:
    """Pass text through until a stop string completes.

    The stop that *ends first* wins; if several end at the same character, the longest wins. Stops
    are compared character by character, exactly as they are: a stop may have any character of
    Python's `str`, even half of a surrogate pair, and any character may follow it.

    Args:
        stops: non-empty strings in a list, a tuple or another collection such as a set, which is
            not changed. The matcher keeps its own copy: what the caller does to the list later
            changes nothing. Without stops, all text passes at once.
        include_stop: emit the stop too. Then no text is ever held.

    Raises:
        ValueError: `stops` is a bare `str`, even an empty one (the message shows the list to
            write, such as `["END"]`, or `[stops]` as Python or JSON writes it), or one of the
            stops is empty.

    >>> matcher = StopStringMatcher(["END"])
    >>> [matcher.feed(piece) for piece in ("so E", "N", "D of it")]
    ['so ', '', '']
    >>> matcher.matched
    'END'
    """

    def __init__(self, stops: Collection[str], *, include_stop: bool = False) -> None:
        self._stops = list(stops)
        self._include_stop = include_stop
        self._matched: str | None = None
        self._held = ""

    @property
    def matched(self) -> str | None:
        """The stop that ended the stream; None if none has. `flush` does not change it."""
        raise NotImplementedError("lab-04 task 2: matched")

    @property
    def held(self) -> str:
        """The held text: the longest suffix of the stream so far that is a proper prefix of a stop.

        Only stops that can still win count. `""` after a match, after `flush`, and with
        `include_stop`.
        """
        raise NotImplementedError("lab-04 task 1: held")

    def feed(self, text: str) -> str:
        """Take the next piece of text, of any length; return the text that is now certain.

        Text is emitted unchanged: no space, line ending or invisible character is lost or replaced.

        Returns:
            If a stop completes in this piece, the text up to the stop (with `include_stop`, up to
            the end of the stop); otherwise all text but `held`. After a match, always `""`.

        The work grows with the length of the piece, but not with that of the earlier text or of a
        stop.

        >>> matcher = StopStringMatcher(["aab"])
        >>> [matcher.feed(char) for char in "aaab"], matcher.held, matcher.matched
        (['', '', 'a', ''], '', 'aab')
        """
        raise NotImplementedError("lab-04 task 1: feed")

    def flush(self) -> str:
        """End the stream and return the held text: no stop can complete any more.

        A second `flush` returns `""`. The next `feed` begins a new stream, with no memory of this
        one. After a match, `feed` still returns `""` and `matched` stays.

        >>> matcher = StopStringMatcher(["END"])
        >>> matcher.feed("the EN"), matcher.flush(), matcher.flush()
        ('the ', 'EN', '')
        """
        raise NotImplementedError("lab-04 task 4: flush")
