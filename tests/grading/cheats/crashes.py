"""Crashes the interpreter."""

import ctypes

EARNS = 0


def feed(self, text):
    ctypes.string_at(0)
