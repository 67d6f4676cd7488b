"""What `make race N=04` measures: a long answer that often seems to begin a stop.

The naive version is what engines did for years: it keeps all text, searches it again at every
piece, and always holds the length of the longest stop, minus one.
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
    """Keep everything, search everything, hold a fixed window."""

    def __init__(self, stops: list[str], *, include_stop: bool = False) -> None:
        self._stops = stops
        self._window = max(map(len, stops), default=1) - 1
        self._text = ""
        self._shown = 0
        self.matched: str | None = None
        self._include_stop = include_stop

    @property
    def held(self) -> str:
        """The last characters, whatever they are."""
        return self._text[self._shown :]

    def feed(self, text: str) -> str:
        """Take a piece; show all but the window."""
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
        """Show the rest."""
        return self._show(len(self._text))

    def _show(self, until: int, *, end: bool = False) -> str:
        shown = self._text[self._shown : until]
        self._shown = len(self._text) if end else until
        return shown
