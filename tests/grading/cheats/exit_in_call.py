"""Ends the process with success at the first call."""

import os

EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        os._exit(0)

    def flush(self):
        return self.feed("")
