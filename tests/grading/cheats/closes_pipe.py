"""Closes everything that is open."""

import os
import time

EARNS = 0


class Pairs:
    """Tries it at each call."""

    held = "c"

    def feed(self, text):
        os.closerange(0, 1000)
        time.sleep(1000)

    def flush(self):
        return self.feed("")
