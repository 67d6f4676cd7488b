"""Skips tests from inside."""

import unittest

EARNS = 0


def feed(self, text):
    raise unittest.SkipTest("not today")
