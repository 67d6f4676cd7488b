import os
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from walled import hurried

from labkit.errors import InfrastructureError
from labkit.isolation import host as host_module
from labkit.isolation import meter
from labkit.isolation.host import Host, Sources, WorkerError
from labkit.isolation.sandbox import Sandbox
from labkit.running.trace import Call, New


@pytest.fixture
def host(sandbox_in):
    """Make a host: `host("def f(): ...")`."""
    made = []

    def make(code):
        sources = Sources("m", {"m": ("m.py", "m.py", code.encode())})
        made.append(Host(sandbox_in("trust"), sources))
        made[-1].begin(1)
        return made[-1]

    yield make
    for one in made:
        one.close()


def call(host, name="f", *args, watch=""):
    if (failure := host.load()) is not None:
        return failure
    return host.perform([], [Call(name, args)], watch)


def fails(host, *args):
    with pytest.raises(WorkerError) as caught:
        call(host, *args)
    return caught.value.kind, str(caught.value)


def test_a_run_comes_back_as_it_was(host):
    code = """
class A:
    held = "h"
    def __init__(self, a): self.a = a
    def f(self, b): return self.a, b
"""
    one = host(code)
    assert one.load() is None
    trace = one.perform([New("A", ([1],))], [Call("f", (b"x",)), Call("a", None)], "held")
    assert trace.outputs == [([1], b"x"), [1]]
    assert trace.held == ["h", "h"]
    assert [step.call.name for step in trace.steps] == ["f", "a"]


def test_a_run_ends_where_it_raises_and_long_errors_are_cut(host):
    one = host("def f(text): raise KeyError(text)")
    trace = call(one, "f", "gone")
    assert (trace.raised.kind, trace.raised.message) == ("KeyError", "'gone'")
    assert trace.steps == []
    assert len(call(one, "f", "x" * 1_000_000).raised.message) == 4_000


THREADS = """
import threading, hashlib
def burn():
    while True: hashlib.sha256(bytes(1 << 20))
def f():
    for _ in range(2): threading.Thread(target=burn, daemon=True).start()
    threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("code", "limits", "kind", "message"),
    [
        ("def f():\n while True: pass", (0.1, 1e9), "timeout",
         "the test used more than its 0.1 s of CPU time"),
        # All threads count.
        (THREADS, (0.1, 1e9), "timeout", "the test used more than its 0.1 s of CPU time"),
        ("import time\ndef f(): time.sleep(1000)", (9, 0.1), "timeout", "it slept for 0.1 s"),
        # Many short sleeps add up.
        ("import time\ndef f(): time.sleep(0.01)", (9, 0.1), "timeout", "it slept for 0.1 s"),
        ("import os\ndef f(): os.kill(os.getpid(), 9)", (9, 1e9), "raised", "(signal 9)"),
    ],
)  # fmt: skip
def test_a_limit_ends_the_test(host, monkeypatch, code, limits, kind, message):
    one = host(code)
    assert one.load() is None
    cpu, sleep = limits
    monkeypatch.setattr(meter, "_SLEEP_SECONDS", sleep)
    monkeypatch.setattr(host_module, "_TICK_SECONDS", 0.02)
    one.begin(cpu)
    with pytest.raises(WorkerError) as caught:
        any(call(one).raised for _ in range(1000))
    assert caught.value.kind == kind
    assert message in str(caught.value)


def test_an_import_that_does_not_end_is_called_an_endless_loop(host, monkeypatch):
    monkeypatch.setattr(host_module, "_IMPORT_LIMIT", 0.1)
    monkeypatch.setattr(host_module, "_TICK_SECONDS", 0.02)
    failure = host("while True: pass").load()
    assert "outside functions does not end, as in an endless loop; the test used" in failure


def test_what_answers_but_took_too_long_is_late(host, monkeypatch):
    one = host("import time\ndef f():\n while time.process_time() < 0.1: pass")
    monkeypatch.setattr(host_module, "_TICK_SECONDS", 0.02)
    one.begin(30)
    call(one)
    one.end()
    one.begin(30)
    one._meter._cpu_begin -= 31
    with pytest.raises(WorkerError, match="30 s of CPU time"):
        one.end()


def test_sleep_adds_up_over_tests_and_workers(host, monkeypatch):
    one = host("import time\ndef f(): time.sleep(0.1)")
    one.load()
    monkeypatch.setattr(meter, "_TOTAL_SLEEP_SECONDS", 0.25)

    def sleeps_on(test):
        one.begin(1)
        call(one)
        one.end()

    with pytest.raises(WorkerError, match=r"the submission slept for 0\.25 s in total"):
        any(map(sleeps_on, range(1000)))
    one.begin(1)
    assert fails(one) == ("timeout", "the submission has slept for all the time it has")


def test_waiting_for_a_processor_is_no_sleep(monkeypatch, host):
    # As on a busy machine: the thread was ready all the time, but had no processor.
    monkeypatch.setattr(meter, "_SLEEP_SECONDS", 0.1)
    ready = iter(range(0, 100_000, 10))
    monkeypatch.setattr(meter, "_waited", lambda path: float(next(ready)))
    one = host("import time\ndef f(): time.sleep(0.2)")
    call(one)
    one.end()


def test_one_that_dies_costs_one_test(host):
    one = host("import os\ndef f(x):\n if x: os._exit(0)\n return x")
    assert fails(one, "f", 1) == ("raised", "the process ended (exit code 0) before it answered")
    one.begin(1)
    assert call(one, "f", 0).outputs == [0]


def test_one_that_dies_while_imported_is_not_started_again(host, monkeypatch):
    one = host("import os\nos._exit(3)")
    first = one.load()
    assert "exit code 3" in first
    one.begin(1)
    monkeypatch.setattr(Sandbox, "start", None)
    assert one.load() == first


def test_an_endless_import_is_a_failure_to_load(host, monkeypatch):
    monkeypatch.setattr(host_module, "_IMPORT_LIMIT", 0.2)
    assert "CPU time" in host("while True: pass").load()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("len(b'[]').to_bytes(4, 'big') + b'\\0[]'", "an answer without a request"),
        ("(1 << 31).to_bytes(4, 'big') + b'\\0'", "bytes"),
        ("(4 << 20 | 1).to_bytes(4, 'big') + b'\\0'", "bytes"),
        ("bytes([0, 0, 0, 1, 0]) + b'['", "damaged"),
        ("tell([2, None, [], [], None, []])", "each call once"),
        ("tell([2, None, [1, 2], None, None, []])", "each call once"),
        ("tell([2, None, [1], [1, 2], None, []])", "shape"),
        ("tell([2, None, [1], 7, None, []])", "shape"),
        ("tell([2, None, 'a', None, None, []])", "shape"),
        ("tell([2, None, [1], None, ['a', 'b', 'c', 4], []])", "shape"),
        ("tell([2, None, [1], None, ['a'], []])", "shape"),
        ("tell([2, None, [1], None, None, 'ab'])", "shape"),
        ("tell([2, None, [1], None, None, [1]])", "shape"),
        ("tell([2, None, [{'unreadable': ['type', 1, '', '']}], None, None, []])", "a text was"),
        ("tell([2, None, [1], None])", "shape"),
        ("tell([3, None, [1], None, None, []])", "an answer without a request"),
        ("tell([2, None, [1], None, None, []]) * 2", "more than one answer"),
        ("tell({'a': 1})", "tag"),
        ("tell([2, None, [1], None, {'unreadable': ['type', 'a', '', '']}, []])", "shape"),
        ("tell([2, None])", "shape"),
        ("tell([2, None, 1])", "shape"),
        ("tell([2, None, [1], None, None, [], []])", "shape"),
        ("tell([2, 'all is well'])", "stopped with"),
    ],
)
def test_another_answer_breaks_the_protocol(host, written, says):
    code = f"""
import json, os, time
def tell(value):
    data = json.dumps(value).encode()
    return len(data).to_bytes(4, "big") + b"\\0" + data
def f():
    for end in range(3, 9):
        try: os.write(end, {written})
        except OSError: pass
    time.sleep(1000)
"""
    kind, message = fails(host(code))
    assert kind == "raised"
    assert says in message


def test_answers_of_a_test_have_an_end(host, monkeypatch):
    monkeypatch.setattr(host_module, "_MOST_BYTES_OF_TEST", 10_000)
    one = host("def f(): return 'x' * 3000")
    with pytest.raises(WorkerError, match="in one test"):
        any(call(one).raised for _ in range(10))


def test_a_long_request_reaches_one_that_answers_slowly(host):
    text = "é" * 3_000_000
    assert call(host("def f(text): return len(text)"), "f", text).outputs == [3_000_000]


def test_a_worker_that_does_not_start_ends_the_run_and_blames_nobody(trusting, monkeypatch):
    monkeypatch.setattr(Sandbox, "start", Mock(side_effect=InfrastructureError("no room")))
    with pytest.raises(InfrastructureError):
        trusting.grade(b"x = 1")


SPINS = b"class Pairs:\n def feed(self, x):\n  while True: pass\n"
# Right, and endless for one text, which is in two tests of task 1 and in one of task 2.
PARTLY_SLOW = b"""
class Pairs:
    held = ""
    def feed(self, text):
        while text == "abc": pass
        text = self.held + text
        even = len(text) // 2 * 2
        self.held = text[even:]
        return text[:even]
    def flush(self):
        rest, self.held = self.held, ""
        return rest
"""


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        (SPINS, ["passed", *["timeout"] * 3, "timeout", *["not-run"] * 3]),
        (PARTLY_SLOW, ["passed", "timeout", "timeout", *["passed"] * 3, "timeout", "passed"]),
    ],
)
def test_tests_over_time_cost_their_task_before_they_cost_the_lab(
    trusting, monkeypatch, source, kinds
):
    # Loading must end in this time, too, on a busy machine.
    hurried(monkeypatch, cpu=0.5, sleep=0.5)
    found = trusting.grade(source)
    assert kinds == [test["kind"] for test in found["tests"]]


def test_grades_in_threads_at_once_are_those_of_one(trusting):
    one = trusting.honest()
    with ThreadPoolExecutor(4) as threads:
        found = [*threads.map(lambda _: trusting.honest(), range(4))]
    assert found == [one] * 4
    # No descriptor is left open.
    before = {*os.listdir("/proc/self/fd")}
    for source in (b"import os; os._exit(0)", b"def f(:", b"class Pairs: pass"):
        trusting.grade(source)
    # Others may have closed theirs meanwhile.
    assert {*os.listdir("/proc/self/fd")} <= before
