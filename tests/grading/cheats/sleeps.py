"""Sleeps at each call."""

import time

EARNS = 0


def feed(self, text):
    time.sleep(1000)
