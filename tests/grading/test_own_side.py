import os
import signal
import sys
import threading

import pytest

from labkit.course import manifest
from labkit.grading import pool
from labkit.isolation import isolated_run, meter
from labkit.isolation.host import Host, Sources
from labkit.running.trace import Failure

TEST = manifest.Test("test_it", "A rule.", 1, 5, None, frozenset())


@pytest.fixture
def host():
    return Host(None, Sources("m", {"m": ("m.py", "m.py", b"")}))


def result_of(function, host):
    return isolated_run._run_test(function, TEST, "0", host, None)


class Unwritable:
    def __repr__(self):
        raise ValueError("it cannot be written down")


def raising(error):
    def test():
        raise error

    return test


def recurses():
    recurses()


def spins():
    while True:
        pass


def broken_check():
    with pytest.raises(ValueError, match="never"):
        pass


@pytest.mark.parametrize(
    ("test", "kind", "says"),
    [
        (lambda: None, "passed", ""),
        (raising(Failure("1", "2")), "assertion", "expected 1, got 2"),
        (raising(Failure("1", "2", reason="\n\n")), "assertion", "the rule is broken"),
        (raising(AssertionError("one is not two")), "assertion", "one is not two"),
        (raising(AssertionError()), "assertion", "an assertion of the test fails"),
        # What a test's author did not mean.
        (lambda: pytest.fail("no"), "test-error", "the test itself ended with Failed: no"),
        (lambda: pytest.skip("not today"), "test-error", "Skipped: not today"),
        (lambda: pytest.xfail("known"), "test-error", "XFailed: known"),
        (broken_check, "test-error", "DID NOT RAISE"),
        (lambda: [][1], "test-error", "IndexError"),
        (raising(KeyError(Unwritable())), "test-error", "KeyError"),
        (raising(BaseException("x")), "test-error", "BaseException: x"),
        (raising(KeyboardInterrupt("x")), "test-error", "KeyboardInterrupt: x"),
        (raising(GeneratorExit()), "test-error", "GeneratorExit"),
        (lambda: sys.exit(3), "test-error", "SystemExit: 3"),
        # What an answer may bring about.
        (raising(MemoryError()), "raised", "too large or too deep"),
        (recurses, "raised", "RecursionError"),
    ],
)
def test_whatever_ends_a_test_is_its_result(host, test, kind, says):
    result = result_of(test, host)
    assert result.kind == kind
    assert says in result.message
    assert result.failure is None
    assert bool(result.message.strip()) is (kind != "passed")


@pytest.mark.parametrize(
    ("number", "handler", "raised"),
    [
        (signal.SIGINT, signal.default_int_handler, KeyboardInterrupt),
        (signal.SIGTERM, pool._stop, pool.Stopped),
    ],
)
def test_a_signal_that_asks_to_end_is_heard(host, number, handler, raised):
    before = signal.signal(number, handler)
    try:
        with pytest.raises(raised):
            result_of(lambda: os.kill(os.getpid(), number), host)
    finally:
        signal.signal(number, before)


def test_the_grader_spends_so_much_time_on_a_test_and_on_a_submission(host, monkeypatch):
    monkeypatch.setattr(meter, "_OWN_SECONDS", 0.02)
    before = signal.getsignal(signal.SIGPROF)
    host.own_time._left = 0.05
    kinds = [result_of(spins, host).kind for _ in range(4)]
    assert kinds == ["timeout"] * 4
    # Nothing is left for what comes next, and nothing stays behind.
    assert "took the grader too long" in result_of(lambda: None, host).message
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)
    assert signal.getsignal(signal.SIGPROF) is before


def test_in_a_thread_it_is_seen_at_the_next_question(host, monkeypatch):
    monkeypatch.setattr(meter, "_OWN_SECONDS", 0.02)

    def asks_again_and_again():
        while True:
            host.own_time.check()

    found = []
    thread = threading.Thread(target=lambda: found.append(result_of(asks_again_and_again, host)))
    thread.start()
    thread.join()
    assert found[0].kind == "timeout"
