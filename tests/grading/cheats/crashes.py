"""Crashes the interpreter."""

import ctypes

EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        ctypes.string_at(0)

    def flush(self):
        return self.feed("")
