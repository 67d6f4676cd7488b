"""The time limits of a session's tests, which end as soon as a debugger is used.

It is a plugin of the session, because pytest calls a hook of plugins when its debugger starts.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from labkit.running import platform
from labkit.running.limits.time_limit import (
    OverdueError,
    Stuck,
    end_time_limit,
    is_traced,
    time_limit,
)
from labkit.running.limits.watchdog import PageWatchdog, Watchdog

_QUIT = "you quit the debugger, which ended the run: nothing is scored"


class Limits:
    """Holds tests to their limits by timers in this process and by a watchdog beside it.

    Args:
        config: the session's.

    Attributes:
        off: whether limits are no longer enforced.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._watchdog: Watchdog | PageWatchdog | None = None
        self._debugger: Any = None
        self.off: bool = is_traced() or config.option.usepdb or config.option.trace

    def start_watchdog(self, code: Path) -> None:
        """Start a watchdog, if the platform allows one; its messages name the file under test."""
        page = platform.page()
        if self.off or not (page or platform.can_fork()):
            return
        if page is not None:
            self._watchdog = PageWatchdog(page, code)
            return
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            out = os.dup(2)
        self._watchdog = Watchdog(out, code)

    def begin(self, test: str, seconds: float) -> None:
        """Tell the watchdog that `test` starts and may use so many seconds of processor time."""
        if self._watchdog is not None and not self.off:
            self._watchdog.begin(test, seconds)

    def pause(self, test: str) -> None:
        """Tell the watchdog that `test` is over."""
        if self._watchdog is not None:
            self._watchdog.pause(test)

    def close(self) -> None:
        """End the watchdog."""
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    @contextmanager
    def enforce(self, seconds: float, stuck: Stuck | None = None) -> Iterator[None]:
        """Raise `OverdueError` in the body if it takes longer, or is stuck."""
        if self.off:
            yield
            return
        with time_limit(seconds, self._lift, stuck):
            yield

    @contextmanager
    def enforce_quietly(self, what: str, seconds: float, stuck: Stuck) -> Iterator[None]:
        """Abandon the body if it takes longer, or is stuck."""
        self.begin(what, seconds)
        with suppress(OverdueError), self.enforce(seconds, stuck):
            yield
        self.pause(what)

    def pytest_enter_pdb(self, pdb: Any) -> None:
        """Enforce no limit from now on: debugging takes time."""
        # The code under test may have caught the exception that quitting the debugger raised.
        self.leave_if_quit()
        # A debugger of `--trace` runs the whole test, and ends as if it were quit.
        self._debugger = None if self._config.option.trace else pdb
        self._lift()

    def _lift(self) -> None:
        self.off = True
        end_time_limit()
        self.pause("the debugger")

    def leave_if_quit(self, raised: str = "") -> None:
        """End the run if the debugger was quit.

        Quitting raises an exception in the code under test, which may be caught there or by us.

        Args:
            raised: the kind of exception that the code under test ended with, if any.
        """
        if raised == "BdbQuit" or getattr(self._debugger, "quitting", False):
            pytest.exit(_QUIT)
