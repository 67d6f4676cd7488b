"""Returns a value that is nested very deep."""

import sys

sys.setrecursionlimit(100_000)

EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        value = []
        for _ in range(50_000):
            value = [value]
        return value

    def flush(self):
        return self.feed("")
