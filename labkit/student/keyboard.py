"""Keys of a terminal, one by one."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_ESCAPES = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
}  # fmt: skip
# A terminal writes the bytes of an arrow key at once.
_MOST_BYTES = 8
# All sizes since the last look are one change.
_MOST_SIGNALS = 1024


def has_keys() -> bool:
    """Return whether keys can be read: standard input and output are a terminal of POSIX."""
    try:
        import termios  # noqa: F401
    except ImportError:
        return False
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def raw_keys() -> Iterator[Iterator[str]]:
    """Yield an iterator of keys: characters, or `up`, `down`, `left` and `right`; and `resize`
    when the terminal has another size.

    Ctrl-C raises KeyboardInterrupt, and the end of the input ends the iterator. Afterwards the
    terminal is as before.
    """
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        with _sizes() as sizes:
            yield _keys(number, sizes)
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


@contextmanager
def _sizes() -> Iterator[int]:
    """Yield a file descriptor from which a byte can be read after each change of the size."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # Python writes a signal's number to the descriptor only if the signal has a handler.
    handler = signal.signal(signal.SIGWINCH, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGWINCH, handler)
        os.close(reader)
        os.close(writer)


def _keys(number: int, sizes: int) -> Iterator[str]:
    while True:
        ready, _, _ = select.select([number, sizes], [], [])
        if sizes in ready:
            os.read(sizes, _MOST_SIGNALS)
            yield "resize"
            continue
        data = os.read(number, _MOST_BYTES)
        if not data:
            return
        text = data.decode("utf-8", "replace")
        yield _ESCAPES.get(text, text[:1])
