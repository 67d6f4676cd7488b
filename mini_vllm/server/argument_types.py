"""Converters for command-line options, for `type` of argparse: they return the value or raise."""

import argparse

import msgspec

_LAST_PORT = 65535


def key(text: str) -> str:
    """Return a key that is not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the key is empty; leave the option out for no key")
    return text.strip()


def name(text: str) -> str:
    """Return a name that is not empty."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; leave the option out, or give a name")
    return text.strip()


def origins(text: str) -> list[str]:
    """Return the origins of a JSON list."""
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.DecodeError:
        problem = f"{text!r} is not a JSON list of texts, such as " + """'["*"]'"""
        raise argparse.ArgumentTypeError(problem) from None


def port(text: str) -> int:
    """Return a port; 0 means any free port."""
    value = whole(text)
    if not 0 <= value <= _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{value} is not a port: ports are 0 to {_LAST_PORT}")
    return value


def positive(text: str) -> int:
    """Return a whole number from 1 up."""
    value = whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value


def count(text: str) -> int:
    """Return a whole number from 0 up."""
    value = whole(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is below 0")
    return value


def whole(text: str) -> int:
    """Return a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def seconds(text: str) -> float:
    """Return a number of seconds from 0 up."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 0 up")
    return value
