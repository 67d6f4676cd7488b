"""What holds for all labs together: examples run, rooms stay apart, the oracles are right."""

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
