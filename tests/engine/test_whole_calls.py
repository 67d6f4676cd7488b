"""Calls in answers that nobody reads along: complete ones, and everything else as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.engine import Engine, FinishReason, Request, SamplingParams
from mini_vllm.engine.whole_calls import WholeCalls, complete_calls
from mini_vllm.finish_reason import Ending
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import ByteTokenizer

F = '<tool_call>\n{"name": "f", "arguments": {"a": "é🚀"}}\n</tool_call>'
BAD = '<tool_call>\n{"name": "g", "arguments": {x: 1}}\n</tool_call>'
CUT = '<tool_call>{"name": "h", "arguments": {"a": '
EARLY = '<tool_call>{"arguments": {"a": 1}, "name": "k"} no</tool_call>'


def path(format="hermes", first_only=False, **options):
    parser = create_tool_parser(format)
    return WholeCalls(TextPipeline(ByteTokenizer(), **options), parser, first_only=first_only)


def said(path, text, reason=FinishReason.END_ID, size=1):
    """Return `words_of` what a path makes of a text, which comes in pieces of so many bytes."""
    ids, events = text.encode(), []
    for start in range(0, len(ids), size):
        events += path.feed(ids[start : start + size])
    events += path.finish(reason)
    return words_of(events)


def words_of(events):
    """Return the text of events, with `<name>` for each call, its arguments, and `</>`."""
    words, calls = [], 0
    for event in events:
        if isinstance(event, CallStart):
            assert event.index == calls
            calls += 1
            words.append(f"<{event.name}>")
        elif not isinstance(event, ReasoningDelta):
            words.append(getattr(event, "text", "</>"))
    return "".join(words)


@pytest.mark.parametrize(
    ("text", "reason", "expected"),
    [
        (f"a {BAD}\n{F}{CUT}", "END_ID", f'a {BAD}\n<f>{{"a": "é🚀"}}</>{CUT}'),
        (f"{F}{EARLY} b", "END_ID", f'<f>{{"a": "é🚀"}}</>{EARLY} b'),
        # A call that lacks its closing marker is complete where the model has ended itself.
        (F[:-12], "END_ID", '<f>{"a": "é🚀"}</>'),
        (F[:-12], "LENGTH", F[:-12]),
        ("a <tool_cal", "LENGTH", "a <tool_cal"),
    ],
)
def test_a_call_that_breaks_off_is_text_from_its_first_character_on(text, reason, expected):
    for size in (1, 7, 1000):
        assert said(path(), text, FinishReason[reason], size) == expected


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {}}, {"name": "g", "arguments": {x}}]',
         '<f>{}</>, {"name": "g", "arguments": {x}}]'),
        ("mistral", "[TOOL_CALLS]f[ARGS]{x[TOOL_CALLS]g[ARGS]{}", "[TOOL_CALLS]f[ARGS]{x<g>{}</>"),
        ("mistral", "[TOOL_CALLS]f[ARGS]{x[TOOL_CALLS]g[ARGS]{y",
         "[TOOL_CALLS]f[ARGS]{x[TOOL_CALLS]g[ARGS]{y"),
        ("qwen3_coder", "a<tool_call>\n<function=f>\n<parameter=a>\nb</tool_call> c",
         "a<tool_call>\n<function=f>\n<parameter=a>\nb</tool_call> c"),
        ("pythonic", "[f(a=1), g(b=", "<f>{\"a\": 1}</>, g(b="),
        ("llama_json", '{"name": "f", "parameters": {]}', '{"name": "f", "parameters": {]}'),
    ],
)  # fmt: skip
def test_in_every_shape_of_call(format, text, expected):
    assert said(path(format), text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"a {F} b {F} c", 'a <f>{"a": "é🚀"}</> b  c'),
        (f"{F}{BAD} c {CUT}", '<f>{"a": "é🚀"}</> c '),
        (f"{BAD}{F} c", f"{BAD} c"),
        (f"{F}{EARLY[:20]} d", f'<f>{{"a": "é🚀"}}</>{EARLY[:20]} d'),
    ],
)
def test_nothing_of_a_call_behind_the_first_if_only_that_one_is_wanted(text, expected):
    for size in (1, 7, 1000):
        assert said(path(first_only=True), text, size=size) == expected


PIECES = st.lists(st.sampled_from([F, BAD, CUT, EARLY, "a ", "é", "<tool_call>", "</tool_call>"]))


@given(PIECES, st.integers(1, 50), st.sampled_from(["END_ID", "LENGTH"]))
def test_the_cuts_change_nothing_and_text_outside_of_whole_calls_stays(pieces, size, reason):
    text = "".join(pieces)
    found = said(path(), text, FinishReason[reason], size)
    assert found == said(path(), text, FinishReason[reason])
    if reason == "LENGTH":
        assert found.replace('<f>{"a": "é🚀"}</>', F) == text


class Pieces:
    """A text path whose ids are the texts of tokens."""

    ending = None

    def feed(self, pieces):
        return [TextDelta(piece) for piece in pieces]

    def finish(self, reason):
        self.ending = Ending(reason)
        return []


PYTHONIC = st.lists(st.sampled_from(["[f(a=1)", ", g(b=", "x y", "2)", "]", "f", " 1 ", "),g("]))


@given(st.sampled_from(["hermes", "pythonic"]), PIECES, PYTHONIC, st.data())
def test_tokens_of_many_characters_are_read_like_single_ones(format, hermes, pythonic, data):
    text = "".join(hermes if format == "hermes" else pythonic)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if a < b]
    found = []
    for tokens in (pieces, text):
        whole = WholeCalls(Pieces(), create_tool_parser(format))
        found.append(words_of([*whole.feed(tokens), *whole.finish(FinishReason.LENGTH)]))
    assert found[0] == found[1]


def call(index, name, *last):
    return [CallStart(index, None, name), ArgsDelta(index, "{}"), *(last or [CallEnd(index)])]


BROKEN = [TextDelta("a"), *call(0, "f", Malformed(0, "x", "why")), TextDelta("b")]


@pytest.mark.parametrize(
    ("first_only", "events", "expected"),
    [
        (False, BROKEN, "af{}xb"),
        (False, [*BROKEN, *call(1, "g")], "af{}xb<g>{}</>"),
        (True, [*BROKEN, *call(1, "g")], "af{}xb"),
        (False, [*call(0, "f"), *call(1, "g", Malformed(1, "", "why"))], "<f>{}</>g{}"),
        (True, [*call(0, "f"), *call(1, "g", Malformed(1, "", "why")), TextDelta("b")],
         "<f>{}</>b"),
        (False, [*call(0, "f")[:2], ReasoningDelta("h")], "f{}"),
    ],
)  # fmt: skip
def test_any_text_path_has_its_broken_calls_as_text_where_nobody_reads_along(
    first_only, events, expected
):
    def make_text_path(request, prompt):
        path = TextPipeline(ByteTokenizer())
        path.finish = lambda reason: TextPipeline.finish(path, reason) + events
        return path

    assert words_of(complete_calls(events, first_only=first_only)) == expected
    assert TextDelta("") not in complete_calls(events)
    model = ScriptedModel(lambda slot: [(33,)])
    engine = Engine(model, ByteTokenizer(), make_text_path=make_text_path)
    params = SamplingParams(max_tokens=1)
    request = Request("?", params, whole_calls=True, parallel_tool_calls=not first_only)
    (output,) = engine.handle_request([request]).outputs
    assert words_of(output.events) == "!" + expected
    assert output.text == "".join(e.text for e in output.events if isinstance(e, TextDelta))
    (output,) = engine.handle_request([Request("?", params)]).outputs
    assert output.events == (TextDelta("!"), *events)


def test_what_waits_is_held_and_reasoning_passes():
    one = path(reasoning=create_reasoning_splitter("deepseek_r1"))
    assert one.feed(b"h</think>") == [ReasoningDelta("h")]
    events = one.feed(b'a<tool_call>{"name": "f", "arguments": {"x"')
    assert events == [TextDelta("a")]
    assert one.held["calls"] == '<tool_call>{"name": "f", "arguments": {"x"'
    one.finish(FinishReason.LENGTH)
    assert one.held["calls"] == ""
