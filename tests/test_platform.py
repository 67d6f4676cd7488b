"""A page in place of an operating system: its timer, its watch, and tests that it cannot run."""

import itertools
import signal
import time

import pytest

from labkit.course.lab import ROOT, find_labs, pick_lab
from labkit.running import platform
from labkit.running.lab_impl import Implementation
from labkit.running.limits.time_limit import OverdueError, Stuck, time_limit
from labkit.running.limits.watchdog import PageWatchdog
from labkit.running.reporting.as_data import report_data
from labkit.running.result_kind import ResultKind
from labkit.running.score import LabRun, Result

LAB = pick_lab(find_labs(ROOT), "10")


@pytest.fixture
def told():
    """The events that a page is told."""
    told = []
    platform.set_page(platform.Page(told.append, interrupts=True))
    yield told
    platform.set_page(None)


def announced(told):
    return [event["seconds"] for event in told if event["event"] == "limit"]


def test_a_limit_is_announced_by_its_first_tick_and_taken_back(told):
    with time_limit(2):
        assert announced(told)[-1] == told[-1]["again"] == platform.TICK
    assert announced(told)[-1] is None


def raise_signals():
    end = time.monotonic() + 60
    while time.monotonic() < end:
        signal.raise_signal(signal.SIGALRM)


def test_the_pages_signal_is_an_overdue_test_and_an_early_one_is_nothing(told):
    with pytest.raises(OverdueError), time_limit(0.001):
        raise_signals()
    with time_limit(60):
        # It is what an earlier limit asked for.
        signal.raise_signal(signal.SIGALRM)


def test_a_limit_around_another_goes_on(told):
    def within():
        with time_limit(60):
            pass
        raise_signals()

    with pytest.raises(OverdueError), time_limit(0.05):
        within()


@pytest.mark.parametrize(("sees_work", "ticks"), [(False, 40), (True, 1)])
def test_a_limit_of_real_time_counts_ticks_and_no_time_in_which_the_machine_stands_still(
    sees_work, ticks
):
    """One call in C may take long, so that its processor time is counted whole."""
    now = itertools.count(step=1000)
    timer = platform.Timer(
        lambda *_: None, lambda: next(now), number=0, times=1, unit="", sees_work=sees_work
    )
    timer.set(40 * platform.TICK)
    assert [timer.is_due() for _ in range(ticks)] == [*[False] * (ticks - 1), True]


def test_a_stuck_test_is_seen_at_the_ticks_of_a_page(told):
    stuck = Stuck(__file__, 60, call_seconds=0.5)
    with pytest.raises(OverdueError) as ended, time_limit(60, stuck=stuck):
        raise_signals()
    assert ended.value.reason == "makes a call that did not end after 0.5 s of processor time"


def test_without_shared_memory_no_limit_is_announced():
    told = []
    platform.set_page(platform.Page(told.append, interrupts=False))
    try:
        with time_limit(1):
            assert told == []
    finally:
        platform.set_page(None)


def test_the_page_is_told_how_long_to_wait_and_what_to_say(told):
    watchdog = PageWatchdog(platform.page(), LAB.starter)
    watchdog.begin("test_it", 5)
    assert told[-1]["seconds"] > 5 * platform.SLOWER
    assert "test_it did not end and could not be interrupted" in told[-1]["told"]["late"]
    assert "Python ended during test_it" in told[-1]["told"]["gone"]
    watchdog.pause("test_it")
    assert told[-1]["seconds"] is None


@pytest.fixture
def run(monkeypatch):
    """A run of lab 10 in which every test passes that a browser has."""
    monkeypatch.setattr(platform, "has", lambda need: need != "threads")
    run = LabRun(LAB, Implementation("starter", LAB.starter), "12345678", "0")
    run.results |= {test.name: Result(ResultKind.PASSED) for test in LAB.tests if not test.needs}
    return run


def test_what_cannot_run_here_is_left_out_of_the_score(run):
    assert (run.score, run.most, run.complete, run.perfect) == (70, 70, True, True)
    told = report_data(run)
    assert [row["name"] for row in told["left_out"]] == [
        test.name for test in LAB.tests if test.needs
    ]
    assert sum(row["max"] for row in told["tasks"]) == 70
    assert "70/70 points" in told["text"]
    assert "left out:   test_two_threads_at_once" in told["text"]


def test_a_whole_run_of_an_operating_system_leaves_nothing_out():
    run = LabRun(LAB, Implementation("starter", LAB.starter), "12345678", "0")
    assert (run.most, run.left_out) == (100, ())
