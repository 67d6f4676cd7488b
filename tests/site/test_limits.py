"""What goes wrong in a browser's Python: code that does not end, or ends everything.

Where the page can interrupt Python, the one test is late; where it cannot, the worker is ended, and
the next one knows nothing of it.
"""

import pytest
from interpreter import LONG, Interpreter

from labkit.course.lab import ROOT, find_labs, pick_lab

LAB = pick_lab(find_labs(ROOT), "03")
RIGHT = LAB.solution.read_text("utf-8")
# A test asks for these, and nothing else does.
NOT_A_BYTE = "test_utf8_expected_len_rejects_non_bytes"
ALL = {test.name for test in LAB.tests}
pytestmark = [LONG, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def python(archives):
    with Interpreter(archives) as python:
        yield python


def where_no_byte_is(body):
    """Return a lab 03 that does something else when asked for the length of what is no byte."""
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    return (
        f"{RIGHT}\n\n_right = utf8_expected_len\n\n\n"
        "def utf8_expected_len(first_byte):\n"
        f"    if first_byte not in range(256):\n{lines}\n"
        "    return _right(first_byte)\n"
    )


def failing(report):
    return {name: kind for name, kind in report["verdicts"].items() if kind != "passed"}


def test_an_endless_loop_is_late_in_its_test_alone(python):
    told = python.run("03", where_no_byte_is("while True:\n    pass"))["result"]
    assert failing(told) == {NOT_A_BYTE: "timeout"}
    assert set(told["verdicts"]) == ALL
    [failure] = told["failures"]
    line = where_no_byte_is("while True:\n    pass").splitlines().index("        while True:") + 1
    assert failure["line"] in (line, line + 1)
    assert "did not end within its time limit; it was at line" in failure["labels"][0]["text"]


SWALLOW = """\
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""


def test_what_swallows_the_interruption_ends_with_its_worker(python):
    told = python.run("03", where_no_byte_is(SWALLOW))
    assert told["stopped"] == (
        f"The run was stopped: {NOT_A_BYTE} did not end and could not be interrupted. Is there an "
        "endless loop, or an `except` that catches everything, in starter.py?"
    )
    assert python.run("03", RIGHT)["result"]["score"] == 100


def test_without_shared_memory_the_worker_is_ended(archives):
    with Interpreter(archives, "--no-interrupts") as python:
        told = python.run("03", where_no_byte_is("while True:\n    pass"))
        assert told["stopped"].startswith(f"The run was stopped: {NOT_A_BYTE} did not end")
        assert python.run("03", RIGHT)["result"]["score"] == 100


def test_whoever_ends_python_is_told_during_which_test(python):
    told = python.run("03", where_no_byte_is("import os\nos._exit(0)"))
    assert told["stopped"].startswith(f"The run was stopped: Python ended during {NOT_A_BYTE}, bef")
    assert "os._exit" in told["stopped"]


NESTS = {
    "itself": "return utf8_expected_len(first_byte)",
    "by C": "return max([first_byte], key=utf8_expected_len)",
    "JSON": "import json\njson.loads('[' * 100_000)",
    "brackets": "eval('-' * 50_000 + '1')",
    "repr": "nest = []\nfor _ in range(2_000):\n    nest = [nest]\nrepr(nest)",
}


@pytest.mark.parametrize("how", NESTS)
def test_nesting_too_deep_is_a_failure_of_its_test(python, how):
    told = python.run("03", where_no_byte_is(NESTS[how]))
    assert "result" in told, told
    assert failing(told["result"]) == {NOT_A_BYTE: "raised"}
    labels = told["result"]["failures"][0]["labels"]
    assert any(label["text"].startswith(("RecursionError", "MemoryError")) for label in labels)


def test_much_memory_is_no_fault(python):
    told = python.run("03", where_no_byte_is("'a' * 100_000_000"))
    assert failing(told["result"]) == {}


CHAINS = {
    "of lists": "nest = []\nfor _ in range(2_000):\n    nest = [nest]",
    "of objects": (
        "class Node:\n    pass\n"
        "last = None\nfor _ in range(100_000):\n    node = Node()\n    node.last = last\n"
        "    last = node"
    ),
}


@pytest.mark.parametrize("what", CHAINS)
def test_a_long_chain_comes_to_its_end(python, what):
    told = python.run("03", where_no_byte_is(CHAINS[what]), fresh=True)
    assert failing(told["result"]) == {}


def test_a_fresh_interpreter_knows_nothing_of_the_run_before(python):
    spoiled = (
        f"{RIGHT}\nimport json, sys\n"
        "json.loads = None\nsys.modules['pytest'].Item.spoiled = True\n"
        "sys.modules['spoiled'] = json\n"
    )
    seen = (
        f"{RIGHT}\nimport json, sys\n"
        "assert 'spoiled' not in sys.modules and json.loads is not None\n"
        "assert not hasattr(sys.modules['pytest'].Item, 'spoiled')\n"
    )
    python.run("03", spoiled, fresh=True)
    assert python.run("03", seen).get("result", {"score": 0})["score"] == 0
    assert python.run("03", seen, fresh=True)["result"]["score"] == 100
