"""Your tests. Write as many functions as you like:

    def test_lab03_ascii_passes(make):
        detokenizer = make("StreamingDetokenizer")
        assert detokenizer.feed(0x41) == "A"
        assert detokenizer.held == b""

A name begins with `test_` and the lab. A test states one rule of that lab, and any exception counts
as a failure. `make("Class", ...)` makes an object: call its methods and read its attributes.
`make.call("function", ...)` calls a function. `make.each(detokenizer.feed, [65] * 5_000)` yields
the result of each call, and is quick.
"""

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)


def refuses(function, *args, **kwargs):
    """Return the message of the `ValueError` that a call raises; fail if it does not raise."""
    try:
        function(*args, **kwargs)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"no ValueError for {args}")


def test_lab03_first(make):
    raise NotImplementedError("lab-12 task 1: a test of lab 03")


def test_lab04_first(make):
    raise NotImplementedError("lab-12 task 2: a test of lab 04")


def test_lab01_first(make):
    raise NotImplementedError("lab-12 task 3: a test of lab 01")


def test_lab07_first(make):
    raise NotImplementedError("lab-12 task 4: a test of lab 07")


def test_lab09_first(make):
    raise NotImplementedError("lab-12 task 5: a test of lab 09")
