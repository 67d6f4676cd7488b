"""Closes everything that is open."""

import os
import time

EARNS = 0


def feed(self, text):
    os.closerange(0, 1000)
    time.sleep(1000)
