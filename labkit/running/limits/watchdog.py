"""A small process that outlives the test process, and reports if the test process cannot.

A time limit interrupts a test in Python code. It cannot interrupt an endless match of a regular
expression, code that catches its exception, or a process that has died. The watchdog receives a
message when a test begins. If no further message arrives in time, or the pipe closes without a
goodbye, it prints the reason and, if need be, ends the process.
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

from labkit.running.limits.time_limit import PAGE_SECONDS, processor_seconds
from labkit.running.platform import REAL_TO_PROCESSOR, SLOWER, Page

_GOODBYE = b"\n"
_NO_LIMIT = 0.0
# A test that still runs so long after its limit counts as one that cannot be interrupted. After a
# small limit, the time is less.
_MOST_GRACE_SECONDS = 2.0
_LOOK_SECONDS = 0.2
_MOST_LOOK_SECONDS = 2 * _LOOK_SECONDS
# A test that has run for so long is shown on the terminal.
_SHOWN_SECONDS = 1.5
# A hunt, whose limit is longer, shows itself how far it is.
_MOST_SHOWN_LIMIT = 60.0
_ERASED = "\r\x1b[K"
_MOST_FILES = 4096
_STOPPED = "The run was stopped: "
_LOOP = "Is there an endless loop, or an `except` that catches everything, in"
_EXIT = "Is there a call of os._exit, an endless recursion, or an endless nesting of lists, in"


class Watchdog:
    """Fork on creation; call `begin` at each test and `close` at the end.

    Args:
        out: a file descriptor to which the message is written; it is closed here.
        code: the file to name in messages, starter.py.
    """

    def __init__(self, out: int, code: Path) -> None:
        # If Python crashes, it writes the traceback here, and the watchdog reads it.
        self._crash = tempfile.TemporaryFile()  # noqa: SIM115
        faulthandler.enable(self._crash)
        reader, self._writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        test_process = os.getpid()
        with warnings.catch_warnings():
            # Python warns of forks if there are threads, as in a worker of pytest-xdist. The
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
        """Say that `test` is over; until the next one begins, there is no limit."""
        self.begin(test, _NO_LIMIT)

    def close(self) -> None:
        """Say goodbye and wait for the watchdog to end."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writer, _GOODBYE)
        os.close(self._writer)
        os.waitpid(self._pid, 0)
        faulthandler.disable()
        self._crash.close()

    def _leave(self, number: int, frame: FrameType | None) -> NoReturn:
        """End on request, for example of `make watch`, without a message."""
        self.close()
        os._exit(128 + number)


class PageWatchdog:
    """The page as a watchdog, with the methods of `Watchdog`: it ends the worker of the run.

    Args:
        page: the page.
        code: the file to name in messages, starter.py.
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
            seconds + min(PAGE_SECONDS, seconds),
            {kind: f"{_STOPPED}{text}" for kind, text in messages.items()},
        )

    def pause(self, test: str) -> None:
        """Say that `test` is over; until the next one begins, there is no limit."""
        gone = ended("the end of the run", self._code)
        self._page.watch(_NO_LIMIT, {"gone": f"{_STOPPED}{gone}"})

    def close(self) -> None:
        """End the watch."""
        self.pause("")


def _close_all_but(*descriptors: int) -> None:
    """Close the pipes of others: a worker's pipe ends only when every process has closed it."""
    low = 0
    for number in sorted(descriptors):
        os.closerange(low, number)
        low = number + 1
    os.closerange(low, _MOST_FILES)


def _watch(reader: int, out: int, code: Path, test_process: int, crash: IO[bytes]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit, test = 60.0, "the start"
    used, seconds, looked = processor_seconds(test_process), 0.0, time.monotonic()
    line = _Line(out)
    while True:
        ready, _, _ = select.select([reader], [], [], _LOOK_SECONDS if limit else None)
        if not ready:
            computed = processor_seconds(test_process) - used
            now = time.monotonic()
            # While the machine stands still, no test runs.
            seconds += min(now - looked, _MOST_LOOK_SECONDS)
            looked = now
            if computed < limit + _grace(limit * REAL_TO_PROCESSOR) and seconds < _real(limit):
                if seconds > _SHOWN_SECONDS and limit < _MOST_SHOWN_LIMIT:
                    line.show(f"{test}: {seconds:.0f} s ({limit:g} s of processor time at most)")
                continue
            line.erase()
            _say(out, _endless(test, code))
            os.kill(test_process, signal.SIGKILL)
            os._exit(0)
        line.erase()
        data = os.read(reader, 65536)
        if not data:
            _say(out, _crashed(crash, test, code) or ended(test, code))
            os._exit(0)
        if data.endswith(b"\n" + _GOODBYE) or data == _GOODBYE:
            os._exit(0)
        number, _, test = data.decode().splitlines()[-1].partition(" ")
        limit = float(number)
        used, seconds, looked = processor_seconds(test_process), 0.0, time.monotonic()


class _Line:
    """A line of the terminal that names the running test, until the test is over.

    Args:
        out: a file descriptor; nothing is shown if it is not a terminal.
    """

    def __init__(self, out: int) -> None:
        self._out = out if os.isatty(out) else None
        self._is_shown = False

    def show(self, text: str) -> None:
        """Replace the text of the line."""
        if self._out is not None:
            columns = os.get_terminal_size(self._out).columns
            os.write(self._out, f"{_ERASED}{text[: columns - 1]}".encode())
            self._is_shown = True

    def erase(self) -> None:
        """Take the text away."""
        if self._out is not None and self._is_shown:
            os.write(self._out, _ERASED.encode())
            self._is_shown = False


def _grace(seconds: float) -> float:
    """Return the processor time to wait after a limit."""
    return min(_MOST_GRACE_SECONDS, seconds)


def _real(limit: float) -> float:
    """Return the real time after which a test cannot be interrupted: it must end by itself before,
    even if the machine is so busy that this takes long.
    """
    seconds = limit * REAL_TO_PROCESSOR
    return seconds + min(_MOST_GRACE_SECONDS * REAL_TO_PROCESSOR, seconds)


def _endless(test: str, code: Path) -> str:
    return f"{test} did not end and could not be interrupted. {_LOOP} {code.name}?"


def ended(test: str, code: Path) -> str:
    """Return the message that Python is gone, for the author of `code`."""
    return f"Python ended during {test}, before the report. {_EXIT} {code.name}?"


def _crashed(crash: IO[bytes], test: str, code: Path) -> str:
    """Return the cause and the line of a crash of Python; empty without a crash."""
    crash.seek(0)
    report = crash.read().decode(errors="replace")
    how = report.partition("\n")[0].rpartition(": ")[2].lower()
    lines = re.findall(rf'File "{re.escape(str(code))}", line (\d+)', report)
    at = f"at line {lines[0]} of {code.name}" if lines else f"in a function that {code.name} calls"
    return f"Python crashed during {test}, {at}: {how}." if report else ""


def _say(out: int, text: str) -> None:
    os.write(out, f"\n\n{_STOPPED}{text}\n".encode())
