"""Ends the process with success at the first call."""

import os

EARNS = 0


def feed(self, text):
    os._exit(0)
