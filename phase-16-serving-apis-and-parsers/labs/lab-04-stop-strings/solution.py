"""A stop-string matcher: emits text as it arrives, but never any part of a stop string.

The stops are the words of an Aho-Corasick automaton. Its state after a text is the longest suffix
of that text that is a prefix of a stop, so the state *is* the text to hold. There is no window and
no rescan. The matcher sees decoded text only; the id that ends a stream belongs to lab-05.
"""

from collections import deque
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
        self._stops = _winnable(_checked(stops))
        self._include_stop = include_stop
        self._matched: str | None = None
        self._held = ""
        self._root = self._state = _automaton(self._stops)

    @property
    def matched(self) -> str | None:
        """The stop that ended the stream; None if none has. `flush` does not change it."""
        return self._matched

    @property
    def held(self) -> str:
        """The held text: the longest suffix of the stream so far that is a proper prefix of a stop.

        Only stops that can still win count. `""` after a match, after `flush`, and with
        `include_stop`.
        """
        return self._held

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
        if self._matched is not None:
            return ""
        unshown = self._held + text
        for end, char in enumerate(text, start=len(self._held) + 1):
            self._state = self._state.after(char)
            if self._state.stop:
                self._matched, self._held = self._state.stop, ""
                return unshown[: end if self._include_stop else end - len(self._matched)]
        hold = 0 if self._include_stop else self._state.depth
        shown = len(unshown) - hold
        self._held = unshown[shown:]
        return unshown[:shown]

    def flush(self) -> str:
        """End the stream and return the held text: no stop can complete any more.

        A second `flush` returns `""`. The next `feed` begins a new stream, with no memory of this
        one. After a match, `feed` still returns `""` and `matched` stays.

        >>> matcher = StopStringMatcher(["END"])
        >>> matcher.feed("the EN"), matcher.flush(), matcher.flush()
        ('the ', 'EN', '')
        """
        text, self._held = self._held, ""
        self._state = self._root
        return text


def _checked(stops: Collection[str]) -> list[str]:
    """Return the stops in a list of their own; raise ValueError for a bare str or an empty stop."""
    if isinstance(stops, str):
        raise ValueError(f'stops is the str {stops!r}; for one stop write ["END"], a list')
    stops = list(stops)
    if "" in stops:
        raise ValueError(f"stop number {stops.index('')} is empty: it would match everywhere")
    return stops


def _winnable(stops: list[str]) -> list[str]:
    """Return the stops without those that contain another stop before their own last character.

    The inner stop always completes first, so holding text for the outer one would be pointless.
    """
    return [stop for stop in stops if not any(other in stop[:-1] for other in stops)]


class _Node:
    """A state of the automaton: a prefix of a stop, `depth` characters long."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.children: dict[str, _Node] = {}
        self.fail: _Node | None = None  # the longest proper suffix that is also a prefix
        self.stop = ""  # the stop that is complete here, if any

    def after(self, char: str) -> "_Node":
        """Return the state after one more character."""
        node = self
        while char not in node.children and node.fail:
            node = node.fail
        return node.children.get(char, node)


def _automaton(stops: list[str]) -> _Node:
    """Return the start state of the automaton for `stops` (Aho and Corasick, 1975)."""
    root = _Node(0)
    for stop in stops:
        node = root
        for depth, char in enumerate(stop, start=1):
            node = node.children.setdefault(char, _Node(depth))
        node.stop = stop
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for char, child in node.children.items():
            child.fail = node.fail.after(char) if node.fail else root
            queue.append(child)
    return root
