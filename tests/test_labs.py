"""What holds for all labs together: examples run, rooms stay apart, the oracles are right."""

import ast
import doctest
import itertools
import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.course.lab import find_labs
from labkit.running.lab_impl import Implementation, load
from labkit.testing import chunkings, decided, decoded, undecided
from mini_vllm.text.events import TextDelta, ToolCall

ROOT = Path(__file__).resolve().parents[1]
LABS = find_labs(ROOT)
BY_NUMBER = {lab.number: lab for lab in LABS}


def solution(number):
    lab = BY_NUMBER[number]
    return load(Implementation("solution", lab.solution), f"tests.lab_{number}")


def test_the_ladder_is_02_03_04_01_05_then_06_to_12_and_starters_differ_from_solutions():
    core, advanced = ["02", "03", "04", "01", "05"], [f"{n:02}" for n in range(6, 13)]
    assert [lab.number for lab in LABS] == core + advanced
    for lab in LABS:
        assert "NotImplementedError" in lab.pristine_starter.read_text()
        assert "NotImplementedError" not in lab.solution.read_text()


@pytest.mark.parametrize(
    "lab", [lab for lab in LABS if lab.hunt is None], ids=lambda lab: lab.label
)
def test_worked_examples_are_true(lab):
    module = solution(lab.number)
    names = {name: getattr(solution(part.split("-")[1]), name) for name, part in lab.parts.items()}
    finder = doctest.DocTestFinder(exclude_empty=True)
    tests = finder.find(module, lab.label, extraglobs={"TextDelta": TextDelta, **names})
    results = [doctest.DocTestRunner().run(test) for test in tests]
    # In a hunt there are no classes to show, but tests.
    assert sum(result.attempted for result in results) >= 3 or lab.hunt is not None
    assert sum(result.failed for result in results) == 0


def test_labkit_knows_no_lab_by_name():
    for path in (ROOT / "labkit").rglob("*.py"):
        words = re.findall(r"lab-\d\d-[a-z]+", path.read_text())
        assert not [word for word in words if any(word in lab.name for lab in LABS)], path


def in_soak_alone(source):
    """Yield the lines of what runs in `make soak` and nowhere else.

    What asks for `SITE`, too, is run by `make site ARGS=--test`.
    """
    for node in ast.walk(ast.parse(source)):
        condition = ast.unparse(getattr(node, "test", None) or getattr(node, "args", []))
        if not re.search(r"\bSOAK\b", condition) or re.search(r"\bSITE\b", condition):
            continue
        match node:
            case ast.Call(func=ast.Attribute(attr="skipif")):
                yield node.lineno
            case ast.IfExp() if {ast.unparse(node.body), ast.unparse(node.orelse)} & EMPTY:
                yield node.lineno
            case ast.If():
                inner = [part for statement in node.body for part in ast.walk(statement)]
                if any(map(is_a_test_or_ends_one, inner)):
                    yield node.lineno


EMPTY = {"[]", "()", "{}", "0", "range(0)"}


def is_a_test_or_ends_one(node):
    """Whether a statement below an `if` defines a test, or skips or fails the test around it."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name.lower().startswith("test")
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.skip"


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('if os.environ.get("SOAK"):\n    def test_more(): ...', [1]),
        ('if SOAK:\n    class TestMore:\n        def test_more(self): ...', [1]),
        ('soak = pytest.mark.skipif(not os.environ.get("SOAK"), reason="slow")', [1]),
        ("@pytest.mark.skipif(not SOAK, reason='slow')\ndef test_more(): ...", [1]),
        ("def test_more():\n    if not SOAK:\n        pytest.skip('slow')", [2]),
        ("@pytest.mark.parametrize('n', range(9) if SOAK else [])\ndef test_more(n): ...", [1]),
        ('long = pytest.mark.skipif(not (SOAK or os.environ.get("SITE")), reason="slow")', []),
        ("CASES = 9_000 if SOAK else 90\ndef test_some():\n    if SOAK: pass", []),
    ],
)  # fmt: skip
def test_what_is_in_soak_alone_is_found(source, lines):
    assert [*in_soak_alone(source)] == lines


def test_nothing_is_in_soak_alone():
    sources = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py")}
    readers = [path for path, source in sources.items() if "SOAK" in source]
    assert [f"{path}:{line}" for path in readers for line in in_soak_alone(sources[path])] == []
    assert len(readers) > 20


@given(st.binary(max_size=12), st.binary(max_size=3))
def test_decided_text_is_what_no_continuation_changes(data, tail):
    assert decoded(data + tail).startswith(decided(data))
    if undecided(data):
        ends = {decoded(data + more)[len(decided(data)) :][:1] for more in (b"A", b"\x80" * 3)}
        ends |= {decoded(data + b"\xbf" * 3)[len(decided(data)) :][:1]}
        assert len(ends) > 1


def test_chunkings_keep_the_whole_and_cut_everywhere():
    cuts = list(chunkings("abc", random.Random(0)))
    assert all("".join(pieces) == "abc" for pieces in cuts)
    assert cuts[:2] == [["abc"], ["a", "b", "c"]]
    assert ["a", "", "bc"] in cuts


def brute_force_hold(stops, text, alphabet, reach):
    """Characters at the end of `text` that some continuation would hide, by trying all of them."""
    shown = len(text)
    for length in range(reach + 1):
        for tail in itertools.product(alphabet, repeat=length):
            whole = text + "".join(tail)
            end = next((e for e in range(1, len(whole) + 1) if whole[:e].endswith(stops)), None)
            if end is not None:
                longest = max(len(stop) for stop in stops if whole[:end].endswith(stop))
                shown = min(shown, end - longest)
    return text[shown:]


def test_the_hold_of_lab_04_is_the_true_minimum():
    matcher = solution("04").StopStringMatcher
    words = ["".join(word) for n in (1, 2, 3) for word in itertools.product("ab", repeat=n)]
    for stops in itertools.combinations(words, 2):
        for text in ("".join(word) for n in range(5) for word in itertools.product("ab", repeat=n)):
            subject = matcher(stops)
            subject.feed(text)
            if subject.matched is None:
                assert subject.held == brute_force_hold(stops, text, "ab", 2), (stops, text)


solution_01 = solution("01")
PIECES = st.sampled_from(
    ["<tool_call>", "</tool_call>", "<tool", "call>", '"', "\\", "{", "}", "é🚀", " ", "\n", "a",
     '{"name":"f","arguments":{}}', '{"name":"f","arguments":{"x":"</tool_call>"}}']
)  # fmt: skip


@given(st.lists(PIECES, max_size=12), st.integers(0, 2**32))
def test_the_parser_of_lab_01_loses_nothing_however_it_is_cut(pieces, seed):
    text = "".join(pieces)
    results = []
    for cut in ([text], list(text), *itertools.islice(chunkings(text, random.Random(seed)), 2, 12)):
        parser = solution_01.StreamingToolParser()
        events = [event for piece in cut for event in parser.feed(piece)] + parser.flush()
        merged = []
        for event in events:
            if isinstance(event, TextDelta) and merged and isinstance(merged[-1], TextDelta):
                event = TextDelta(merged.pop().text + event.text)
            merged.append(event)
        results.append(merged)
    assert all(result == results[0] for result in results)
    calls = sum(isinstance(event, ToolCall) for event in results[0])
    shown = "".join(event.text for event in results[0] if isinstance(event, TextDelta))
    assert len(shown) <= len(text)
    assert calls > 0 or shown == text
