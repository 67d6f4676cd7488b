"""A test that cannot end is ended before its limit; right code on a busy machine is not."""

import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from labkit.course.lab import ROOT
from labkit.running import platform
from labkit.running.drive import Run, perform
from labkit.running.limits.time_limit import OverdueError, Stuck, time_limit
from labkit.running.source import load_source
from labkit.running.trace import Call, New

CODE = b"""
import threading, time

class Matcher:
    def __init__(self): self.all = ""
    def loop(self, text):
        while True: pass
    def wait(self, text):
        lock = threading.Lock()
        with lock, lock: pass
    def wait_for_thread(self, text):
        thread = threading.Thread(target=self.wait, args=[text], daemon=True)
        thread.start()
        thread.join()
    def sleep(self, text): time.sleep(60)
    def search(self, text):
        self.all += text
        for _ in range(2_000): self.all.find("no such text")
    def doze(self, text):
        time.sleep(0.3)
        return sum(range(1_000_000))
"""
SECONDS = 6.0


def print_reason(method, pieces, *, again):
    """Print why a test was ended."""
    try:
        run(method, pieces, again=again)
    except OverdueError as error:
        print(error.reason)


def run(method, pieces, *, again=False):
    code = load_source(CODE, "starter.py", "starter.py", "stuck")
    calls = [Call(method, ("x" * 9,))] * pieces
    with time_limit(60.0, stuck=Stuck("starter.py", SECONDS, call_seconds=1.5, again=again)):
        return perform(vars(code).__getitem__, [New("Matcher", ())], calls, "")


@pytest.mark.parametrize(
    ("method", "pieces", "again", "reason"),
    [
        ("loop", 1, False, "makes a call that did not end after 1.5 s of processor time"),
        ("loop", 1, True, "makes a call that did not end after 0.5 s of processor time"),
        ("wait", 1, False, "waits for an event that cannot happen: no thread ran for 1.5 s"),
        ("wait_for_thread", 1, False, "an event that cannot happen: no thread ran for 1.5 s"),
        ("wait_for_thread", 1, True, "an event that cannot happen: no thread ran for 0.5 s"),
        ("sleep", 1, False, "sleeps, or waits"),
        (
            "search",
            500_000,
            False,
            r"made [\d,]+ of 500,000 calls in \d\.\d s, more and more slowly",
        ),
    ],
)
def test_a_test_that_cannot_end_is_ended_at_once_and_the_reason_is_named(
    method, pieces, again, reason
):
    """In a process of its own, as a lab's tests: threads of other tests would count as work."""
    program = f"import test_stuck; test_stuck.print_reason({method!r}, {pieces}, again={again})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(reason, done.stdout), done.stderr


def test_code_that_sleeps_and_works_is_not_stuck():
    assert len(run("doze", 10).steps) == 10


@pytest.mark.parametrize(
    ("waits", "is_stuck"),
    [
        (range(1, 9), True),
        # A busy machine gave the processor to others.
        ([5] * 8, False),
        # The code waited, then worked, and then waited again.
        ([1, 2, 3, 4, 4, 5, 6, 7], False),
        # The system does not count it.
        ([None] * 8, True),
    ],
)
def test_code_without_processor_time_is_stuck_only_if_it_waits(monkeypatch, waits, is_stuck):
    counts = iter(waits)
    monkeypatch.setattr(platform, "waits", lambda: next(counts))
    monkeypatch.setattr("time.process_time", lambda: 1.0)
    stuck = Stuck("starter.py", SECONDS)
    with pytest.raises(OverdueError) if is_stuck else nullcontext():
        for _ in range(7):
            stuck.check_idle()


@pytest.mark.parametrize(
    ("interval", "signals", "looks"),
    [
        (platform.TICK, 7, 7),
        # The system sends one a little early.
        (platform.TICK - 0.004, 7, 7),
        # A page's ticks are of real time, in which its Python works for a third of it.
        (platform.TICK / 3, 19, 7),
        # Delayed signals say nothing of the time between them.
        (4.0, 7, 7),
    ],
)
def test_signals_of_any_interval_measure_the_time_of_a_call(monkeypatch, interval, signals, looks):
    stuck = Stuck("starter.py", SECONDS, call_seconds=1.5)
    now = platform.processor_time()
    monkeypatch.setattr(platform, "processor_time", lambda: now)
    run = SimpleNamespace(trace=SimpleNamespace(steps=[]))
    names = {"self": run, "calls": []}
    within = SimpleNamespace(f_code=Run.carry_out.__code__, f_locals=names, f_back=None)
    code = compile("", "starter.py", "exec")
    frame = SimpleNamespace(f_code=code, f_locals={}, f_back=within)
    for _ in range(signals - 1):
        now += interval
        stuck.check_work(frame)
    assert len(stuck._made) == looks - 1
    now += interval
    with pytest.raises(OverdueError):
        stuck.check_work(frame)


# The calls made at each tick by code whose work for a call grows with the number of calls so far.
QUADRATIC = [900, 1_300, 1_560, 1_800, 2_010, 2_200, 2_380, 2_550]


@pytest.mark.parametrize(
    ("made", "calls", "again", "is_stuck"),
    [
        ([900, 1_600, 2_100, 2_500], 100_000, False, True),
        # The run began at the end of a tick.
        ([0, 900, 1_600, 2_000], 100_000, False, True),
        # At the speed of its first calls, the code can still end.
        ([900, 1_600, 2_100, 2_500], 10_000, False, False),
        # The calls do not take twice as long: the machine is slow, or the test.
        ([900, 1_800, 2_600, 3_400], 100_000, False, False),
        # A call took long.
        ([900, 1_800, 1_800, 1_900], 100_000, False, False),
        # The first calls cost more than the others.
        ([100, 200, 400, 900], 100_000, False, False),
        ([900, 1_600, 1_900], 100_000, False, False),
        # At the speed of its last calls, the code would take three times its limit.
        (QUADRATIC, 18_000, False, True),
        (QUADRATIC, 10_000, False, False),
        (QUADRATIC, 10_000, True, True),
        (QUADRATIC, 5_000, True, False),
        # That is not yet certain, since the calls do not take four times as long.
        (QUADRATIC[:4], 18_000, True, False),
    ],
)
def test_only_calls_that_get_slower_and_cannot_all_be_made_are_stuck(
    monkeypatch, made, calls, again, is_stuck
):
    stuck = Stuck("starter.py", SECONDS, again=again)
    stuck._made = made
    now = platform.processor_time() + len(made) * platform.TICK
    monkeypatch.setattr(platform, "processor_time", lambda: now)
    if is_stuck:
        with pytest.raises(OverdueError):
            stuck._check_run(calls)
    else:
        stuck._check_run(calls)
