"""The Hermes parser against those of vLLM and SGLang: where they are right we agree.

What they do with the rest is pinned here, so that a new version of them shows up.
"""

import json
import random

import pytest

from benchmarks.peers.text_layers import (
    HAS_SGLANG,
    HAS_VLLM_PARSERS,
    sglang_hermes,
    vllm_engine,
    vllm_hermes,
)
from mini_vllm.text.events import ArgsDelta, CallStart, Malformed, TextDelta
from mini_vllm.text.tool_parsers import create_tool_parser

needs_vllm = pytest.mark.skipif(not HAS_VLLM_PARSERS, reason="vLLM was not fetched: make oracles")
needs_sglang = pytest.mark.skipif(not HAS_SGLANG, reason="SGLang was not fetched: make oracles")
CASES = 300


def sized(text, size):
    return [text[start : start + size] for start in range(0, len(text), size)]


def call(arguments, name="f", end="\n"):
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}{end}</tool_call>'


def ours(pieces):
    """Return (text, [(name, arguments)]), or None where a call was malformed."""
    parser = create_tool_parser("hermes")
    events = [event for piece in pieces for event in parser.feed(piece)] + parser.flush()
    if any(isinstance(event, Malformed) for event in events):
        return None
    calls = [[event.name, ""] for event in events if isinstance(event, CallStart)]
    for event in events:
        if isinstance(event, ArgsDelta):
            calls[event.index][1] += event.text
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return text, [tuple(one) for one in calls]


def of_vllm(pieces):
    """The same of vLLM's parser."""
    feed, text, calls = vllm_hermes(), "", []
    for piece in pieces:
        message = feed(piece)
        if message is None:
            continue
        text += message.content or ""
        for delta in message.tool_calls:
            if delta.function.name:
                calls.append([delta.function.name, ""])
            calls[delta.index][1] += delta.function.arguments or ""
    return text, [tuple(one) for one in calls]


def of_sglang(pieces):
    """The same of SGLang's detector."""
    feed, text, calls = sglang_hermes("f", "g"), "", []
    for piece in pieces:
        result = feed(piece)
        text += result.normal_text
        for item in result.calls:
            if item.name:
                calls.append([item.name, ""])
            calls[item.tool_index][1] += item.parameters
    return text, [tuple(one) for one in calls]


def of_engine(pieces):
    """Return (text, [body of a call]) of vLLM's engine: it leaves the name in the body."""
    engine, text, bodies = vllm_engine(), "", []
    events = [event for piece in pieces for event in engine.feed(piece, ())] + engine.finish()
    for event in events:
        if event.type.name == "TEXT_CHUNK":
            text += event.value
        elif event.type.name == "TOOL_CALL_START":
            bodies.append("")
        elif event.type.name == "ARG_VALUE_CHUNK":
            bodies[event.tool_index] += event.value
    return text, bodies


def random_arguments(generator):
    """Return arguments as `json.dumps` writes them, without anything that looks like markup."""

    def value(depth):
        kind = generator.randrange(7 if depth else 5)
        if kind == 5:
            return [value(depth - 1) for _ in range(generator.randint(0, 3))]
        if kind == 6:
            return {f"k{n}": value(depth - 1) for n in range(generator.randint(0, 3))}
        text = "".join(generator.choices('ab "\\é中🚀{}[]:,\n', k=generator.randint(0, 12)))
        return (text, generator.randrange(1000), generator.random() < 0.5, None, 1.5)[kind]

    arguments = {f"a{n}": value(2) for n in range(generator.randint(1, 4))}
    return json.dumps(arguments, ensure_ascii=False)


@needs_vllm
def test_one_call_char_by_char_is_what_vllm_has():
    generator = random.Random(0)
    for _ in range(CASES):
        text = "so " + call(random_arguments(generator))
        expected = ours([text])
        assert ours(text) == of_vllm(text) == expected
        assert expected[1][0][1] in text


@needs_vllm
def test_bodies_are_what_the_engine_has():
    """Its bodies hold our arguments, in any pieces."""
    generator = random.Random(1)
    for _ in range(CASES):
        arguments = random_arguments(generator)
        text = f"so {call(arguments)} and {call('{}', 'g')}."
        for size in (1, 4, len(text)):
            pieces = sized(text, size)
            shown, bodies = of_engine(pieces)
            assert ours(pieces) == (shown, [("f", arguments), ("g", "{}")])
            assert [json.loads(body)["name"] for body in bodies] == ["f", "g"]
            assert arguments in bodies[0]


@needs_sglang
def test_one_call_char_by_char_is_what_sglang_has():
    """It writes arguments anew, so only those agree that `json.dumps` wrote."""
    generator = random.Random(2)
    for _ in range(CASES):
        text = "so " + call(random_arguments(generator), end="")
        assert ours(text) == of_sglang(text)


@needs_vllm
def test_vllm_ends_a_call_inside_a_string():
    text = call('{"a": "x</tool_call>y"}')
    assert ours(text) == ("", [("f", '{"a": "x</tool_call>y"}')])
    assert of_vllm(text) != ours(text)


@needs_vllm
def test_vllm_loses_text_behind_a_call():
    text = call('{"a": 1}') + " and more"
    assert ours(text) == (" and more", [("f", '{"a": 1}')])
    assert of_vllm(text) == ("", [("f", '{"a": 1}')])


@needs_vllm
def test_vllm_takes_a_name_out_of_the_arguments():
    text = '<tool_call>{"arguments": {"name": "wrong"}, "name": "f"}</tool_call>'
    assert ours(text) == ("", [("f", '{"name": "wrong"}')])
    assert of_vllm(text)[1][0][0] == "wrong"


@needs_vllm
def test_vllm_loses_what_looks_like_a_tag_at_the_end():
    assert ours("a <") == ("a <", [])
    assert of_vllm("a <") == ("a ", [])


@needs_sglang
@pytest.mark.parametrize(
    ("source", "theirs"), [('{"a": 1.0e5}', '{"a": 100000.0}'), ('{"a": "\\u00e9"}', '{"a": "é"}')]
)
def test_sglang_writes_arguments_anew(source, theirs):
    text = call(source, end="")
    assert ours(text) == ("", [("f", source)])
    assert of_sglang(text) == ("", [("f", theirs)])


@needs_sglang
def test_sglang_shows_the_line_break_before_the_end_tag():
    text = call('{"a": 1}')
    assert ours(text) == ("", [("f", '{"a": 1}')])
    assert of_sglang(text) == ("\n", [("f", '{"a": 1}')])


@needs_sglang
def test_sglang_depends_on_how_the_text_is_cut():
    text = call('{"a": 1}')
    assert ours([text]) == ours(text)
    assert of_sglang([text]) != of_sglang(text)
