"""What goes wrong in a browser's Python: code that does not end, or ends everything.

Chromium is asked too, by test_acceptance.py, where it has memory that the page shares with Python.
"""

import zipfile

import pytest
from course_code import NOT_A_BYTE, REFERENCES, where_no_byte_is, with_feed
from interpreter import LONG, Interpreter

from labkit.grading.reading.bundles import packed

pytestmark = [LONG, pytest.mark.timeout(600)]


def failing(report):
    return {name: kind for name, kind in report["verdicts"].items() if kind != "passed"}


def with_limit(archives, seconds, folder):
    """Return a folder with the archives of a course in which a test may take so many seconds."""
    with zipfile.ZipFile(archives / "course.zip") as course:
        files = {name: course.read(name) for name in course.namelist()}
    option = f'addopts = ["--lab-limit={seconds}", '.encode()
    files["pyproject.toml"] = files["pyproject.toml"].replace(b"addopts = [", option)
    for path in archives.iterdir():
        if path.name != "course.zip":
            (folder / path.name).symlink_to(path)
    (folder / "course.zip").write_bytes(packed(files, compressed=True))
    return folder


@pytest.fixture(scope="module")
def patient(archives, tmp_path_factory):
    """Python in which no test ends at its limit: a busy machine fills its memory slowly."""
    with Interpreter(with_limit(archives, 200, tmp_path_factory.mktemp("patient"))) as python:
        yield python


def test_without_shared_memory_the_worker_is_ended(archives, tmp_path):
    with Interpreter(with_limit(archives, 1, tmp_path), "--no-interrupts") as python:
        told = python.run("03", where_no_byte_is("while True:\n    pass"))
        assert told["stopped"].startswith(f"The run was stopped: {NOT_A_BYTE} did not end")
        assert python.run("03", REFERENCES["03"])["result"]["score"] == 100


def test_a_test_of_a_hunt_that_does_not_end_is_void_soon(python):
    told = python.run("12", "def test_lab03_loops(make):\n    while True:\n        pass\n")
    assert "had used their 9 s of processor time" in str(told["result"])


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


def test_more_memory_than_there_is_is_a_failure_of_its_test(python):
    told = python.run("03", where_no_byte_is("['a' * 100_000_000 for _ in range(30)]"), fresh=True)
    assert failing(told["result"]) == {NOT_A_BYTE: "raised"}
    labels = told["result"]["failures"][0]["labels"]
    assert any(label["text"].startswith("MemoryError") for label in labels)


def _keeping(code):
    return with_feed(code).replace("def feed(self, token_id)", "def feed(self, token_id, kept=[])")


# What takes the memory of a browser, each on the last line of the file.
FILLS = {
    "returned, 200 MB": with_feed("return 'x' * 200_000_000"),
    "returned, 300 MB": with_feed("return 'x' * 300_000_000"),
    "returned, 700 MB": with_feed("return 'x' * 700_000_000"),
    "kept": _keeping("return kept.append('x' * 50_000_000) or super().feed(token_id)"),
    "kept, small pieces": _keeping("return kept.extend(str(n) * 2_000 for n in range(10_000_000))"),
}


@pytest.mark.parametrize("how", FILLS)
def test_when_memory_ends_the_readers_own_line_is_named(patient, how):
    told = patient.run("03", FILLS[how], fresh=True)
    assert "result" in told, told
    failure = told["result"]["failures"][0]
    assert failure["line"] == len(FILLS[how].splitlines())
    assert any(label["text"].startswith("MemoryError") for label in failure["labels"])


# Modules that import many others, from sources that take much of the stack.
DEEP = ("urllib.request", "http.client", "email.message", "html.parser", "xml.dom.minidom")


@pytest.mark.parametrize("module", DEEP)
def test_a_module_can_be_imported_within_a_function(python, module):
    told = python.run(
        "03", with_feed(f"import {module}; return super().feed(token_id)"), fresh=True
    )
    assert "result" in told, told
    assert failing(told["result"]) == {}


# What a browser cannot do, and what is said then.
MISSING = {
    "import threading; threading.Thread(target=print).start()": "a browser's Python has no threads",
    "import asyncio; asyncio.run(asyncio.sleep(0))": "a browser's Python cannot run an event loop",
}


@pytest.mark.parametrize("code", MISSING)
def test_what_a_browser_cannot_do_is_said_in_words(python, code):
    told = python.run("03", where_no_byte_is(code))
    [label] = [one for one in told["result"]["failures"][0]["labels"] if one["label"] == "raised"]
    assert label["text"].startswith(f"RuntimeError: {MISSING[code]}")


def test_syntax_that_an_older_python_cannot_read_is_noted(python):
    """A browser's Python is newer than that of many graders."""
    told = python.run("03", REFERENCES["03"] + "type Pieces = list[str]\n")
    assert told["result"]["score"] == 100
    assert told["result"]["notes"][0].startswith("A grader with Python 3.11 cannot read line ")


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
