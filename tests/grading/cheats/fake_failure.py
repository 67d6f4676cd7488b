"""Raises an error that is named like those of labkit and lies about what it says."""


class NotRunError(Exception):
    kind = "passed"

    def __str__(self):
        return type("Text", (str,), {"__eq__": lambda self, other: True})("passed")

    __hash__ = None


EARNS = 0


def feed(self, text):
    raise NotRunError
