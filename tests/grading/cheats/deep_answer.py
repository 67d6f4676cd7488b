"""Returns a value that is nested very deep."""

import sys

sys.setrecursionlimit(100_000)

EARNS = 0


def feed(self, text):
    value = []
    for _ in range(50_000):
        value = [value]
    return value
