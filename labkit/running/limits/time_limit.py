"""The time limit of a lab's test, in processor time, so that a busy machine fails no test."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType

from labkit.running import platform
from labkit.running.drive import Run
from labkit.running.source import is_given

# Python may discard the exception, for example in a callback of the garbage collector.
_AGAIN_SECONDS = 0.5
_DEBUGGERS = ("pydevd", "_pydevd_bundle")
# Our own tracer: it needs a limit.
_RECORDER = "labkit.running.recording.recorder"
# A page waits so long for the end of a test that was interrupted.
PAGE_SECONDS = 3.0
# A process that only waits uses less processor time between two ticks, even after the caches of an
# idle machine have forgotten it.
_IDLE_SECONDS = 0.001
_IDLE_TICKS = 6
# A signal may arrive so much before its tick is over.
_EARLY_SECONDS = 0.05
# So many ticks show how fast the calls of a run are.
_RUN_TICKS = 4
# A run is abandoned as well once its calls take so many times as long as its fastest calls, if the
# rest would take so many times the limit. The slow phase of a run that can end in time is shorter.
_SLOWDOWN, _EXCESS = 4, 3
# The part of these times that is enough after another test of the lab ran into its limit. The same
# fault would cost a reader the whole time again and again.
_LATER_SHARE = 1 / 3
# How the reason begins if a test only waits.
WAITS = "sleeps, or waits for an event that cannot happen"


class OverdueError(BaseException):
    """The test used more time than it may. No `except Exception` swallows it.

    Attributes:
        reason: the fault of the test, as a verb and its objects.
    """

    def __init__(self, message: str, reason: str = "did not end within its time limit") -> None:
        super().__init__(message)
        self.reason = reason


class Stuck:
    """Sees that a test cannot end within its limit, before the limit ends it.

    Processor time, waits, and ticks decide. If the machine is busy or stands still, no tick
    arrives, or the code gets no processor time without having waited, so right code is never stuck.

    Args:
        code: the file name of the code under test.
        seconds: the limit of the test, in processor time.
        call_seconds: the processor time that a single call of the code may use; None if there is no
            limit but that of the test.
        again: whether another test of the lab was ended already, so that less time is enough.
    """

    def __init__(
        self,
        code: str,
        seconds: float,
        call_seconds: float | None = None,
        *,
        again: bool = False,
    ) -> None:
        self._code = code
        self._seconds = seconds
        share = _LATER_SHARE if again else 1
        self._call_seconds = None if call_seconds is None else share * call_seconds
        self._most_idle_ticks = math.ceil(share * _IDLE_TICKS)
        self._excess = share * _EXCESS
        self._begin = platform.processor_time()
        self._used = time.process_time()
        self._waits = platform.waits()
        self._idle_ticks = 0
        self._looked = self._begin
        self._call: FrameType | None = None
        self._seconds_of_call = 0.0
        self._run: Run | None = None
        self._seconds_of_tick = 0.0
        # How many calls of the run had been made at each tick.
        self._made: list[int] = []

    def check_idle(self) -> None:
        """Look at the processor time after each `platform.TICK` of real time.

        Raises:
            OverdueError: no thread has run for several ticks.
        """
        used, waits = time.process_time(), platform.waits()
        # Code that works may get no processor time between two ticks of a busy machine.
        has_waited = waits is None or waits != self._waits
        is_idle = used - self._used < _IDLE_SECONDS and has_waited
        self._idle_ticks = self._idle_ticks + 1 if is_idle else 0
        self._used, self._waits = time.process_time(), waits
        if self._idle_ticks >= self._most_idle_ticks:
            seconds = f"{self._most_idle_ticks * platform.TICK:g} s"
            reason = f"{WAITS}: no thread ran for {seconds}"
            raise OverdueError(f"Timeout (>{seconds} without work)", reason)

    def check_work(self, frame: FrameType | None) -> None:
        """Look at the stack after each `platform.TICK` of processor time, or more often.

        Raises:
            OverdueError: the same call has been running for too long, or the calls get slower and
                cannot all be made within the limit.
        """
        now = platform.processor_time()
        # A machine that stands still, or a page in the background, delays signals.
        seconds = min(now - self._looked, platform.TICK)
        self._looked = now
        call = run = None
        calls: Sequence[object] = ()
        while frame is not None:
            if frame.f_code.co_filename == self._code:
                call = frame
            elif frame.f_code is Run.carry_out.__code__:
                run, calls = frame.f_locals["self"], frame.f_locals["calls"]
            frame = frame.f_back
        self._check_call(call, seconds)
        self._seconds_of_tick += seconds
        is_new = run is not self._run
        if is_new:
            self._run, self._made = run, []
        elif self._seconds_of_tick < platform.TICK - _EARLY_SECONDS:
            return
        self._seconds_of_tick = 0.0
        if run is not None and isinstance(calls, list):
            self._made.append(len(run.trace.steps))
            self._check_run(len(calls))

    def _check_call(self, call: FrameType | None, seconds_since: float) -> None:
        is_same = call is not None and call is self._call
        self._call = call
        self._seconds_of_call = self._seconds_of_call + seconds_since if is_same else 0.0
        if (
            self._call_seconds is not None
            and self._seconds_of_call >= self._call_seconds - _EARLY_SECONDS
        ):
            seconds = f"{self._call_seconds:g} s"
            reason = f"makes a call that did not end after {seconds} of processor time"
            raise OverdueError(f"Timeout (>{seconds} in a call)", reason)

    def _check_run(self, calls: int) -> None:
        """Estimate the time of the rest of the run, once its calls take twice as long."""
        if len(self._made) < _RUN_TICKS:
            return
        # The run began within the first tick.
        in_ticks = [after - before for before, after in pairwise(self._made)]
        fastest, slowest, last = max(self._made[0], *in_ticks), min(in_ticks), in_ticks[-1]
        # In a tick without calls, a call took long, which says nothing of the others.
        if slowest < 1 or 2 * last > fastest:
            return
        made = self._made[-1]
        used = platform.processor_time() - self._begin
        left = (calls - made) * platform.TICK
        at_fastest, at_last = left / fastest, left / last
        if at_fastest > self._seconds - used:
            rest = "even at the highest speed so far, the rest would exceed"
        elif _SLOWDOWN * last <= fastest and at_last > self._excess * self._seconds:
            rest = f"at the last speed, the rest would take {at_last:.0f} s, more than"
        else:
            return
        limit = f"{self._seconds:g} s"
        reason = (
            f"made {made:,} of {calls:,} calls in {used:.1f} s, more and more slowly: {rest} its "
            f"limit of {limit}"
        )
        raise OverdueError(f"Timeout (>{limit} of processor time)", reason)


def is_traced() -> bool:
    """Return whether a debugger or another tracer is active, so that no test can be called late.

    The tests of a lab may trace the code under test themselves.
    """
    monitoring = getattr(sys, "monitoring", None)
    trace = sys.gettrace()
    is_ours = trace is not None and (
        getattr(trace, "__module__", "") == _RECORDER or is_given(getattr(trace, "__globals__", {}))
    )
    return (
        (trace is not None and not is_ours)
        or any(name in sys.modules for name in _DEBUGGERS)
        or (monitoring is not None and any(map(monitoring.get_tool, range(6))))
    )


@contextmanager
def time_limit(
    seconds: float,
    when_traced: Callable[[], None] | None = None,
    stuck: Stuck | None = None,
) -> Iterator[None]:
    """Raise `OverdueError` in the body once it has used `seconds` of processor time.

    It is also raised after `platform.REAL_TO_PROCESSOR` times as much real time, for code that only
    waits. There is no limit under a debugger, outside of the main thread, and on platforms without
    such timers (Windows).

    Args:
        seconds: of processor time.
        when_traced: called instead, if a debugger was started meanwhile.
        stuck: raises it sooner, if the body cannot end.
    """
    timers = platform.timers()
    here = threading.current_thread() is threading.main_thread()
    if not here or not timers or is_traced():
        yield
        return
    by_signal = {timer.number: timer for timer in timers}
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal is_interrupted
        try:
            stop(number, frame)
        except OverdueError:
            around = platform.page()
            if around is not None and not is_interrupted:
                around.hurry(PAGE_SECONDS)
            is_interrupted = True
            raise

    def stop(number: int, frame: FrameType | None) -> None:
        timer = by_signal[number]
        is_due = timer.is_due()
        if not is_due and stuck is None:
            return
        if is_traced():
            end_time_limit()
            if when_traced is not None:
                when_traced()
        elif is_due:
            raise OverdueError(f"Timeout (>{seconds * timer.times:g} s {timer.unit})")
        elif stuck is not None and timer.sees_work:
            stuck.check_work(frame)
        elif stuck is not None:
            stuck.check_idle()

    before = {number: signal.signal(number, interrupt) for number in by_signal}
    left = [timer.set(seconds * timer.times, _AGAIN_SECONDS) for timer in timers]
    try:
        yield
    finally:
        end_time_limit()
        for number, handler in before.items():
            signal.signal(number, handler)
        # An enclosing limit continues.
        for timer, (rest, again) in zip(timers, left, strict=True):
            timer.set(rest, again)


def end_time_limit() -> None:
    """End all limits of this process."""
    for timer in platform.timers():
        timer.set(0)


def processor_seconds(process: int) -> float:
    """Return the processor time of all threads of a process, in seconds; 0 if it is unknown.

    Only Linux reports it.
    """
    try:
        # How Linux numbers the clock of a process: see clock_getcpuclockid.
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        return 0.0
