"""A stop-string matcher: shows text as it arrives, but never any part of a stop string.

The stops are the words of an Aho-Corasick automaton. Its state after a text is the longest suffix
of that text which begins a stop, so the state *is* what must be held back. There is no window and
no rescan. The matcher sees decoded text only; the id that ends a stream is lab-05's business.
"""

from collections import deque
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
        self._root = self._state = _automaton(self._stops)

    def _winnable(self, stops: Collection[str]) -> list[str]:
        """Return the stops without those that hold another stop before their own last character.

        Wherever such a stop would complete, the shorter one has completed earlier, so text would be
        held for nothing.
        """
        if isinstance(stops, str):
            raise ValueError(f'stops is the str {stops!r}; for one stop write ["END"], a list')
        stops = list(stops)
        if "" in stops:
            raise ValueError(f"stop number {stops.index('')} is empty: it would match everywhere")
        return [stop for stop in stops if not any(other in stop[:-1] for other in stops)]

    @property
    def matched(self) -> str | None:
        """The stop that ended the stream, also after `flush`; None as long as none has."""
        return self._matched

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
        """End the stream: return what is held, as no stop can complete any more.

        A second `flush` returns `""`. Text that is fed later is a new stream, with no memory of
        this one; but after a match `feed` stays `""`, and `matched` stays what it is.

        >>> matcher = StopStringMatcher(["END"])
        >>> matcher.feed("the EN"), matcher.flush(), matcher.flush()
        ('the ', 'EN', '')
        """
        text, self._held = self._held, ""
        self._state = self._root
        return text


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
