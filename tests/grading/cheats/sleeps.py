"""Sleeps at each call."""

import time

EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        time.sleep(1000)

    def flush(self):
        return self.feed("")
