"""Keys of a terminal, one by one."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_ESCAPES = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
}  # fmt: skip
# A terminal writes the bytes of an arrow key at once.
_MOST_BYTES = 8


def has_keys() -> bool:
    """Return whether keys can be read: standard input and output are a terminal of POSIX."""
    try:
        import termios  # noqa: F401
    except ImportError:
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def raw_keys() -> Iterator[Iterator[str]]:
    """Yield an iterator of keys: characters, or `up`, `down`, `left` and `right`.

    Ctrl-C raises KeyboardInterrupt, and the end of the input ends the iterator. Afterwards the
    terminal is as before.
    """
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield _keys(number)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _keys(number: int) -> Iterator[str]:
    while data := os.read(number, _MOST_BYTES):
        text = data.decode("utf-8", "replace")
        yield _ESCAPES.get(text, text[:1])
