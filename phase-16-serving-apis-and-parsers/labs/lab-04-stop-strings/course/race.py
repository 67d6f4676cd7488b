"""The race of lab 04: a long answer in which text often looks like the beginning of a stop.

For years, engines worked as the naive version does: it keeps all text, searches all of it again for
each piece, and always holds as many characters as the longest stop has, minus one.
"""

import random

UNIT = "piece"
CLASS = "StopStringMatcher"
ARGUMENTS = (["\n\nUser:", "<|im_end|>", "Observation:"],)
NAIVE = "a fixed window"
_WORDS = ["the ", "of ", "model ", "Observ", "ation", "s ", "\n", "\n", "<", "|", "im_", "Use",
          "r ", "naïve ", "→ ", "token", ", "]  # fmt: skip


def workload() -> list[str]:
    """Return 20,000 pieces, none of which completes a stop."""
    return random.Random(4).choices(_WORDS, k=20_000)


class StopStringMatcher:
    """Keep all text, search all of it for each piece, and hold a fixed window."""

    def __init__(self, stops: list[str], *, include_stop: bool = False) -> None:
        self._stops = stops
        self._window = max(map(len, stops), default=1) - 1
        self._text = ""
        self._shown = 0
        self.matched: str | None = None
        self._include_stop = include_stop

    @property
    def held(self) -> str:
        """The last characters, whether they can begin a stop or not."""
        return self._text[self._shown :]

    def feed(self, text: str) -> str:
        """Feed a piece; return the text before the window that has not been emitted."""
        if self.matched is not None:
            return ""
        self._text += text
        for stop in self._stops:
            if stop in self._text:
                self.matched = stop
                start = self._text.index(stop)
                return self._show(start + len(stop) * self._include_stop, end=True)
        return self._show(max(self._shown, len(self._text) - self._window))

    def flush(self) -> str:
        """Return the held text."""
        return self._show(len(self._text))

    def _show(self, until: int, *, end: bool = False) -> str:
        shown = self._text[self._shown : until]
        self._shown = len(self._text) if end else until
        return shown
