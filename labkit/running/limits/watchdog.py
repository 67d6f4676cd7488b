"""A small process that outlives the test process, and speaks when that one no longer can.

A time limit interrupts a test in Python code. It cannot interrupt a regular expression gone wild,
code that catches its exception, or a process that has died. The watchdog is told when a test
begins; if no further word comes in time, or the pipe closes without a goodbye, it says what
happened and, if need be, ends the process.
"""

import contextlib
import faulthandler
import os
import re
import select
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from labkit.running.limits.time_limit import processor_seconds
from labkit.running.platform import REAL_TO_PROCESSOR, SLOWER, Page

_GOODBYE = b"\n"
_NO_LIMIT = 0.0
# How long after its limit a test that still runs counts as one that cannot be interrupted: at most
# so long, and less after a small limit.
_MOST_GRACE_SECONDS = 3.0
_LOOK_SECONDS = 0.2
_MOST_FILES = 4096
_STOPPED = "The run was stopped: "
_LOOP = "Is there an endless loop, or an `except` that catches everything, in"
_EXIT = "Is there a call of os._exit, a recursion without end, or an endless nest of lists, in"


class Watchdog:
    """Fork on creation; call `begin` at each test and `close` at the end.

    Args:
        out: a file descriptor to which the message is written; it is closed here.
        code: who to blame, starter.py.
    """

    def __init__(self, out: int, code: Path) -> None:
        # If Python crashes it writes here where it was, for the watchdog to read.
        self._crash = tempfile.TemporaryFile()  # noqa: SIM115
        faulthandler.enable(self._crash)
        reader, self._writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        test_process = os.getpid()
        with warnings.catch_warnings():
            # Python warns of forks where there are threads, as in a worker of pytest-xdist. The
            # child takes no locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            try:
                _close_all_but(reader, out, self._crash.fileno())
                _watch(reader, out, code, test_process, self._crash)
            finally:
                os._exit(1)
        os.close(reader)
        os.close(out)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._leave)

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
        faulthandler.disable()
        self._crash.close()

    def _leave(self, number: int, frame: FrameType | None) -> NoReturn:
        """End because somebody asks for it, `make watch` for one: there is nothing to explain."""
        self.close()
        os._exit(128 + number)


class PageWatchdog:
    """The page as a watchdog, with the methods of `Watchdog`: it ends the worker of the run.

    Args:
        page: the page.
        code: who to blame, starter.py.
    """

    def __init__(self, page: Page, code: Path) -> None:
        self._page = page
        self._code = code

    def begin(self, test: str, limit: float) -> None:
        """Say that `test` starts and may use `limit` seconds of processor time (0: no limit)."""
        if not limit:
            self.pause(test)
            return
        seconds = limit * SLOWER
        messages = {"late": _endless(test, self._code), "gone": ended(test, self._code)}
        self._page.watch(
            seconds + _grace(seconds), {k: f"{_STOPPED}{v}" for k, v in messages.items()}
        )

    def pause(self, test: str) -> None:
        """Say that `test` is over; whatever comes next may take its time."""
        gone = ended("the end of the run", self._code)
        self._page.watch(_NO_LIMIT, {"gone": f"{_STOPPED}{gone}"})

    def close(self) -> None:
        """Send the watchdog home."""
        self.pause("")


def _close_all_but(*descriptors: int) -> None:
    """Close what others wait for: the pipes of a worker end when nobody has them open."""
    low = 0
    for number in sorted(descriptors):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, _MOST_FILES)


def _watch(reader: int, out: int, code: Path, test_process: int, crash: IO[bytes]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit, test = 60.0, "the start"
    used, began = processor_seconds(test_process), time.monotonic()
    while True:
        ready, _, _ = select.select([reader], [], [], _LOOK_SECONDS if limit else None)
        if not ready:
            grace = _grace(limit * REAL_TO_PROCESSOR)
            late = processor_seconds(test_process) - used > limit + grace
            if not late and time.monotonic() - began < limit * REAL_TO_PROCESSOR + grace:
                continue
            _say(out, _endless(test, code))
            os.kill(test_process, signal.SIGKILL)
            os._exit(0)
        data = os.read(reader, 65536)
        if not data:
            _say(out, _crashed(crash, test, code) or ended(test, code))
            os._exit(0)
        if data.endswith(b"\n" + _GOODBYE) or data == _GOODBYE:
            os._exit(0)
        number, _, test = data.decode().splitlines()[-1].partition(" ")
        limit = float(number)
        used, began = processor_seconds(test_process), time.monotonic()


def _grace(seconds: float) -> float:
    """Return how long to wait after a limit in seconds of real time."""
    return min(_MOST_GRACE_SECONDS, seconds)


def _endless(test: str, code: Path) -> str:
    return f"{test} did not end and could not be interrupted. {_LOOP} {code.name}?"


def ended(test: str, code: Path) -> str:
    """Return that Python is gone, in words for the author of `code`."""
    return f"Python ended during {test}, before the report. {_EXIT} {code.name}?"


def _crashed(crash: IO[bytes], test: str, code: Path) -> str:
    """Return how and where Python crashed; empty if it did not."""
    crash.seek(0)
    report = crash.read().decode(errors="replace")
    how = report.partition("\n")[0].rpartition(": ")[2].lower()
    lines = re.findall(rf'File "{re.escape(str(code))}", line (\d+)', report)
    at = f"at line {lines[0]} of {code.name}" if lines else f"in what {code.name} calls"
    return f"Python crashed during {test}, {at}: {how}." if report else ""


def _say(out: int, text: str) -> None:
    os.write(out, f"\n\n{_STOPPED}{text}\n".encode())
