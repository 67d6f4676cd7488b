"""A small process that outlives the test process, and speaks when that one no longer can.

A time limit interrupts a test in Python code. It cannot interrupt a regular expression gone wild,
code that catches its exception, or a process that has died. The watchdog is told when a test
begins; if no further word comes in time, or the pipe closes without a goodbye, it says what
happened and, if need be, ends the process.
"""

import contextlib
import os
import select
import signal
import sys
import time

from labkit.running.time_limit import REAL_TO_PROCESSOR, processor_seconds

_GOODBYE = b"\n"
_NO_LIMIT = 0.0
# How long after its limit a test that still runs counts as one that cannot be interrupted.
_GRACE_SECONDS = 3.0
_LOOK_SECONDS = 0.2
_LOOP = "Is there an endless loop, or an `except` that catches everything, in"
_EXIT = "Is there a call of os._exit, or a recursion without end, in"


class Watchdog:
    """Fork on creation; call `begin` at each test and `close` at the end.

    Args:
        out: a file descriptor to which the message is written.
        hint: who to blame, "starter.py".
    """

    def __init__(self, out: int, hint: str) -> None:
        reader, self._writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        test_process = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._writer)
            _watch(reader, out, hint, test_process)
        os.close(reader)

    def begin(self, test: str, limit: float) -> None:
        """Say that `test` starts and may use `limit` seconds of processor time (0: no limit)."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, f"{limit} {test}\n".encode())

    def pause(self, test: str) -> None:
        """Say that `test` is over; whatever comes next may take its time."""
        self.begin(test, _NO_LIMIT)

    def close(self) -> None:
        """Say goodbye and wait for the watchdog to go."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, _GOODBYE)
        os.close(self._writer)
        os.waitpid(self._pid, 0)


def _watch(reader: int, out: int, hint: str, test_process: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit, test = 60.0, "the start"
    used, began = processor_seconds(test_process), time.monotonic()
    while True:
        ready, _, _ = select.select([reader], [], [], _LOOK_SECONDS if limit else None)
        if not ready:
            late = processor_seconds(test_process) - used > limit + _GRACE_SECONDS
            if not late and time.monotonic() - began < limit * REAL_TO_PROCESSOR + _GRACE_SECONDS:
                continue
            _say(out, f"{test} did not end and could not be interrupted. {_LOOP} {hint}?")
            os.kill(test_process, signal.SIGKILL)
            os._exit(0)
        data = os.read(reader, 65536)
        if not data:
            _say(out, f"Python ended during {test}, before the report. {_EXIT} {hint}?")
            os._exit(0)
        if data.endswith(b"\n" + _GOODBYE) or data == _GOODBYE:
            os._exit(0)
        number, _, test = data.decode().splitlines()[-1].partition(" ")
        limit = float(number)
        used, began = processor_seconds(test_process), time.monotonic()


def _say(out: int, text: str) -> None:
    os.write(out, f"\n\nThe run was stopped: {text}\n".encode())
