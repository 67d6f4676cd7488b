"""Prints without end."""

import os
import sys

for _ in range(200):
    sys.stdout.write("score: 100\n" * 100_000)
    os.write(2, b"!" * 1_000_000)

EARNS = 40
