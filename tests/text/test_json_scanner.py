"""The JSON scanner: as strict as json.loads and stricter, however the text is cut."""

import json
import os
import random
import re

import pytest
from chunking import chunkings
from hypothesis import given, settings
from hypothesis import strategies as st
from renderers import json_value

from mini_vllm.text import json_scanner
from mini_vllm.text.json_scanner import DEEPEST, FAILED, JsonScanner
from mini_vllm.text.states.python_literals import to_json
from mini_vllm.text.whole_json import JsonDepthError, check_json_depth, load_json

EXAMPLES = 5_000 if os.environ.get("SOAK") else 50
PARTS = [
    *'{}[]",:\\/-+.0123456789eEuUtrfalsn \t\r\n', "true", "false", "null", "NaN", "Infinity", "é",
    "😀", '\\"', "\\u00", "\\ud83d", '"a"', '{"', '":', "\x00", "\x1f", "\x7f", "\u2028", "\xa0",
    "-0", "01", "1.", "1e5", "'",
]  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.lists(st.sampled_from(PARTS), max_size=4).map("".join),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
# Everything that a value may be cut inside of: a completion of the token, then of the structure.
TOKENS = [
    "", "0", '"', "true", "null", '""', *("0" * n + '"' for n in range(1, 5)), 'n"',
    *(word[n:] for word in ("true", "false", "null") for n in range(1, len(word))),
]  # fmt: skip
STRUCTURES = ["", ":0", '"":0']


def refuse(constant):
    raise ValueError(constant)


def loads(text):
    return json.loads(text, parse_constant=refuse)


def scan(pieces, scanner=None):
    """Return (how much of the text is the value, the state behind it), in one go."""
    scanner = scanner or JsonScanner()
    state, taken = scanner.start, 0
    for piece in pieces:
        size, state = scanner.scan(state, piece)
        taken += size
        if state is None or state is FAILED:
            break
    return taken, state


def expected(text):
    """Where the value ends according to `json`; None if it is invalid or unfinished."""
    bare = text.lstrip(" \t\r\n")
    before = len(text) - len(bare)
    try:
        end = json.JSONDecoder(parse_constant=refuse).raw_decode(bare)[1]
    except ValueError:
        return None
    return before + end


@st.composite
def damaged(draw):
    text = json_value(draw(VALUES), random.Random(draw(st.integers(0, 999))))
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(text)))
        part = draw(st.sampled_from(PARTS))
        text = text[:start] + part + text[start + draw(st.integers(0, 2)) :]
    return text


TEXTS = damaged() | st.lists(st.sampled_from(PARTS), max_size=8).map("".join)


@settings(max_examples=EXAMPLES)
@given(value=VALUES, seed=st.integers(0, 999))
def test_a_value_is_taken_whole_and_nothing_behind_it(value, seed):
    text = json_value(value, random.Random(seed))
    for behind in (" ", "]", "}", ",", '"', "x"):
        if isinstance(value, int | float) and not isinstance(value, bool) and behind == "x":
            continue
        for _, pieces in chunkings(text + behind, every_cut=False):
            assert scan(pieces) == (len(text), None)


@settings(max_examples=EXAMPLES)
@given(text=TEXTS)
def test_equivalent_to_json_however_it_is_cut(text):
    # A number ends with what follows it; behind a space the end is known.
    end = expected(text)
    whole = scan([text + " "])
    taken, state = whole
    if state is None:
        assert loads(text[:taken].strip(" \t\r\n")) is not Ellipsis
    for _, pieces in chunkings(text + " ", every_cut=False):
        again = scan(pieces)
        assert again[0] == taken
        assert (again[1] is FAILED, again[1] is None) == (state is FAILED, state is None)
        if state is not None and state is not FAILED:
            assert (again[1].mode, again[1].brackets) == (state.mode, state.brackets)
    if end is not None and not cut_number(text, end):
        assert whole == (end, None)
    elif end is None:
        assert state is not None


def cut_number(text, end):
    """Whether `json` ends a number where a scanner reads on: `1.x` is 1 for it, `-1e` is -1."""
    return re.match(r"[\s]*-?\d+(?:\.\d+)?$", text[:end]) and text[end : end + 1] in (".", "e", "E")


@settings(max_examples=EXAMPLES)
@given(text=TEXTS)
def test_while_it_has_not_failed_some_continuation_completes_the_value(text):
    for end in range(len(text) + 1):
        prefix = text[:end]
        _, state = scan([prefix])
        if state is None or state is FAILED:
            break
        assert completed(prefix), prefix


def completed(prefix):
    """Some completion of a prefix, or None: a token, a structure, then all closing brackets."""
    opened = closing_brackets(prefix)
    for token in TOKENS:
        for structure in STRUCTURES:
            text = prefix + token + structure + opened
            try:
                loads(text)
            except ValueError:
                continue
            return text
    return None


def closing_brackets(prefix):
    """What closes the brackets that are open, counted with no state but that of a string."""
    outside = re.sub(r'"(?:[^"\\]|\\.)*(?:"|\\?$)', "", prefix, flags=re.DOTALL)
    closers = []
    for char in outside:
        if char in "{[":
            closers.append("}" if char == "{" else "]")
        elif closers and char in "}]":
            closers.pop()
    return "".join(reversed(closers))


@settings(max_examples=EXAMPLES)
@given(text=TEXTS)
def test_once_it_has_failed_no_continuation_is_json(text):
    """Where it fails, the prefix up to there is viable and the one with that character is not."""
    taken, state = scan([text])
    if state is FAILED:
        assert completed(text[: taken + 1]) is None
        assert completed(text[:taken]) is not None


INVALID = [
    ("NaN", 0), ("Infinity", 0), ("-Infinity", 1), ("[NaN]", 1), ("'a'", 0), ("[1,]", 3),
    ('{"a":1,}', 7), ("{,}", 1), ("[,]", 1), ('{"a"}', 4), ('{"a":}', 5), ("{1:2}", 1),
    ("01 ", None), ("[01]", 2), ("[1.]", 3), ("[.5]", 1), ("[1e]", 3), ("[+1]", 1), ("[-]", 2),
    ("[1}", 2), ('{"a":1]', 6),
    ('"a\nb"', 2), ('"a\x00"', 2), ('"\x1f"', 1), ('"\\x"', 2), ('"\\u12G4"', 5),
    ("tRue", 1), ("nul ", 3), ("[tru]", 4), ("[1 2]", 3), ('{"a" 1}', 5), ("\xa01", 0), ("]", 0),
    ("}", 0), (",", 0), ("// c", 0), ("\ufeff1", 0), ("[1.e5]", 3), ("[0x1]", 2), ("--1", 1),
    ("[1e+]", 4), ("{a:1}", 1), ("[1\x0b]", 2), ("True", 0), ("undefined", 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place"), INVALID)
def test_strict(text, place):
    if place is None:
        # At the top a number ends where it must: 0, then 1.
        assert scan([text]) == (1, None)
        return
    for _, pieces in chunkings(text):
        assert scan(pieces) == (place, FAILED)
    with pytest.raises(ValueError, match=r".+"):
        loads(text)


@pytest.mark.parametrize(
    "text",
    [
        '"\x7f"', '"\u2028"', '"\\ud83d"', "-0.0e-0 ", '{"":{"":[]}}',
        '"\\/\\b\\f\\n\\r\\t\\\\\\""', "[]", '{"a":1,"a":2}',
        "1E+5 ", "0 ", " \t\r\n null", '"\\uABCD\\uabcd"', "1e999 ",
    ],
)  # fmt: skip
def test_what_json_allows(text):
    for _, pieces in chunkings(text):
        assert scan(pieces) == (len(text.rstrip()), None)
    loads(text)


@pytest.mark.parametrize("bracket", ["[", '{"a":'])
def test_brackets_are_deep_but_not_without_end(bracket):
    closers = {"[": "]", '{"a":': "}"}[bracket]
    inside = "0" if bracket != "[" else ""
    text = bracket * DEEPEST + inside + closers * DEEPEST
    loads(text)
    assert scan([text]) == (len(text), None)
    assert scan(list(text)) == (len(text), None)
    taken, state = scan([bracket * (DEEPEST + 1)])
    assert state is FAILED
    assert taken == len(bracket) * DEEPEST


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0), ("1", 0), ("[]", 1), ("{}", 1), ('{"a": [[], {}]}', 3), ("[[]] [[[]]]", 3),
        ('["[[[[", "{\\"[["]', 1), ('["\\\\", []]', 2), ('["[[[[', 1), ('"[\\"[" [', 1),
        ("]]][[", 0), ("[][[]]", 2),
        ('["é🚀\ud800[\n["]', 1), ("[" * 100_000, 100_000), ('{"a":' * 100_000 + "}" * 9, 100_000),
        ("[{}]," * 50_000, 2),
    ],
)  # fmt: skip
def test_brackets_in_strings_are_no_levels(text, depth):
    check_json_depth(text, depth)
    if depth:
        with pytest.raises(JsonDepthError, match=f"^nested deeper than {depth - 1}; flatten it$"):
            check_json_depth(text, depth - 1)


def test_a_whole_text_is_read_as_deep_as_a_streamed_one():
    deep = "[" * DEEPEST + "]" * DEEPEST
    assert load_json(deep) == json.loads(deep)
    assert to_json(deep) == deep
    with pytest.raises(JsonDepthError):
        load_json(f"[{deep}]")
    with pytest.raises(ValueError, match=f"more than {DEEPEST} brackets are open"):
        to_json(f"[{deep}]")


def test_each_character_is_examined_once():
    for text in (
        json.dumps({"a": ["x\\" * 500, 1.5e10, None, {"b": "é" * 500}] * 5}),
        "[" * DEEPEST + "]" * DEEPEST,
        json.dumps(list(range(2_000))),
        '"' + "a\\n" * 3_000 + '"',
    ):
        for size in (1, 3, 64, len(text)):
            scanner = JsonScanner()
            pieces = [text[start : start + size] for start in range(0, len(text), size)]
            assert scan(pieces, scanner) == (len(text), None)
            assert scanner.examined <= len(text)


def test_the_states_have_a_limit_that_changes_nothing(monkeypatch):
    monkeypatch.setattr(json_scanner, "_MOST_STATES", 3)
    scanner = JsonScanner()
    texts = [json.dumps({"k" * n: [[n], {"a": "b" * n}]}) for n in range(30)]
    for text in [*texts, *texts]:
        for _, pieces in chunkings(text, every_cut=False):
            assert scan(pieces, scanner) == (len(text), None)
        assert len(scanner._states) <= 3
