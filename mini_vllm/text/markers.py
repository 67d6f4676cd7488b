"""Finds the first of several markers in text that arrives in pieces, and holds as little as it can.

An Aho-Corasick automaton is the definition: its state after a text is the longest suffix that
begins a marker, so the state *is* the text to hold. It finds stop strings, reasoning tags and tool
calls alike; the caller decides what a match means.

A stream keeps one number, its state. The automaton is shared.
"""

import re
from collections import deque
from collections.abc import Collection, Iterable

# (text that is certain, next state, marker if one is complete, text after it)
Scan = tuple[str, int, str | None, str]


class MarkerScanner:
    """The automaton of a set of markers. The state before any text is 0.

    The marker that *ends first* wins. If several markers end together, the longest wins.

    Args:
        markers: non-empty strings. A marker that contains another marker before its own last
            character can never win, and nothing is held for it.
        visible: markers whose text may be shown like any other text: nothing is held for them, and
            a match shows them.
        keep_hopeless: also keep the markers that can never win, for a caller that ignores matches.

    Attributes:
        identity: represents the automaton in remembered positions, without keeping it alive.
        examined: characters that the automaton has looked at, for tests of the cost.
    """

    def __init__(
        self,
        markers: Iterable[str],
        visible: Iterable[str] = (),
        *,
        keep_hopeless: bool = False,
    ) -> None:
        hidden = set(markers)
        self._visible = set(visible) - hidden
        words = sorted(hidden | self._visible)
        if "" in words:
            raise ValueError("a marker is empty: it would match everywhere")
        if not keep_hopeless:
            words = [word for word in words if not any(other in word[:-1] for other in words)]
        self._build(words)
        firsts = "".join(sorted({re.escape(word[0]) for word in words}))
        self._first = re.compile(f"[{firsts}]" if firsts else "(?!)")
        self.identity = object()
        self.examined = 0

    def _build(self, words: Collection[str]) -> None:
        self._children: list[dict[str, int]] = [{}]
        # A state's text is a prefix of the marker in `_toward`; `_depth` is its length.
        self._toward = [""]
        self._depth = [0]
        self._word: list[str | None] = [None]
        self._hold = [0]
        for word in words:
            state = 0
            for depth, char in enumerate(word):
                if word not in self._visible:
                    self._hold[state] = depth
                state = self._child(state, char, word)
            self._word[state] = word
        self._fail = [0] * len(self._depth)
        queue = deque([0])
        while queue:
            state = queue.popleft()
            for char, child in self._children[state].items():
                queue.append(child)
                fail = self._after(self._fail[state], char) if state else 0
                self._fail[child] = fail
                self._word[child] = self._word[child] or self._word[fail]
                self._hold[child] = self._hold[child] or self._hold[fail]

    def _child(self, state: int, char: str, word: str) -> int:
        child = self._children[state].setdefault(char, len(self._depth))
        if child == len(self._depth):
            self._children.append({})
            self._toward.append(word)
            self._depth.append(self._depth[state] + 1)
            self._word.append(None)
            self._hold.append(0)
        return child

    def _after(self, state: int, char: str) -> int:
        while state and char not in self._children[state]:
            state = self._fail[state]
        return self._children[state].get(char, 0)

    def matching(self, state: int) -> str:
        """Return the text of a state: a prefix of a marker, hidden or visible."""
        return self._toward[state][: self._depth[state]]

    def held(self, state: int) -> str:
        """Return the text that is held back in a state: a proper prefix of a marker."""
        depth = self._depth[state]
        return self._toward[state][depth - self._hold[state] : depth]

    def scan(self, state: int, text: str, ignored: int = 0) -> Scan:
        """Take the next piece of text.

        Args:
            state: the state before `text`.
            text: the next piece.
            ignored: a match that ends within this many characters of `text` does not count.

        Returns:
            (text that is certain, the next state, the marker or None, the text after it). The
            certain text ends before a hidden marker, and after a visible marker. After a match
            the next state is 0.
        """
        if not state and self._first.search(text) is None:
            return text, 0, None, ""
        held = self.held(state)
        place = 0
        while place < len(text):
            if state == 0:
                start = self._first.search(text, place)
                if start is None:
                    break
                place = start.start()
            state = self._after(state, text[place])
            place += 1
            self.examined += 1
            word = self._word[state]
            if word is not None and place > ignored:
                whole = held + text[:place]
                shown = whole if word in self._visible else whole[: len(whole) - len(word)]
                return shown, 0, word, text[place:]
        whole = held + text
        return whole[: len(whole) - self._hold[state]], state, None, ""
