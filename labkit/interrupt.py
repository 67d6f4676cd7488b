"""Ctrl+C while modules are imported."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

# The exit code of a command that Ctrl+C ended.
INTERRUPTED = 128 + signal.SIGINT
STOPPED = "\nStopped."


@contextmanager
def ends_at_once() -> Iterator[None]:
    """Let Ctrl+C end the process without a traceback while the body imports modules.

    There is nothing to tidy up then. A `KeyboardInterrupt` would not do: some code that runs during
    an import prints it and goes on.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    os.write(2, f"{STOPPED}\n".encode())
    os._exit(INTERRUPTED)
