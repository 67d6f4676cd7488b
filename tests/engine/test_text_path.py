"""From a request to its text path: which layers it has, and what they are told of each other."""

import pytest
from chunking import norm, run, sized
from families import STYLES

from mini_vllm.engine import FinishReason, Request, SamplingParams, TextPathFactory
from mini_vllm.engine.replacement_runs import without_replacement_runs
from mini_vllm.text.events import CallEnd, ReasoningDelta, TextDelta
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import ByteTokenizer

TOKENIZER = ByteTokenizer()
THOUGHT = "I need the file.\n\n"
every_style = pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)


def events_of(text, *, tool_format, tools=(), thinking=True, size=3):
    """What a factory's path makes of a text that begins in the reasoning."""
    factory = TextPathFactory(TOKENIZER, tool_format=tool_format, reasoning_format="qwen3")
    request = Request((1,), SamplingParams(max_tokens=9999), tools=tools, thinking=thinking)
    path = factory(request, (1,))
    ids = TOKENIZER.encode(text).ids
    events = [event for part in sized(ids, size) for event in path.feed(part)]
    return norm([*events, *path.finish(FinishReason.END_ID)])


@every_style
def test_a_call_ends_reasoning_left_open_where_its_format_says_so(style):
    openers = FORMATS[style.format].ends_reasoning
    events = events_of(THOUGHT + style.sample, tool_format=style.format)
    if not openers:
        assert events == [ReasoningDelta(THOUGHT + style.sample)]
        return
    start = min(at for at in map(style.sample.find, openers) if at >= 0)
    calls = run(create_tool_parser(style.format), [style.sample[start:]])
    assert any(isinstance(event, CallEnd) for event in calls)
    assert events == [ReasoningDelta(THOUGHT + style.sample[:start]), *calls]


@every_style
def test_where_nothing_can_be_called_an_opener_is_a_thought(style):
    if FORMATS[style.format].marks_reasoning:
        return
    for thinking in (True, None):
        text = "" if thinking else "<think>"
        events = events_of(
            text + style.sample, tool_format=style.format, tools=None, thinking=thinking
        )
        assert events == [ReasoningDelta(style.sample)]


def test_a_format_that_marks_reasoning_is_read_where_nothing_can_be_called():
    text = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Ok"
    factory = TextPathFactory(TOKENIZER, tool_format="gpt-oss")
    for split, expected in (
        (True, [ReasoningDelta("Hm."), TextDelta("Ok")]),
        (False, [TextDelta(text)]),
    ):
        request = Request((1,), SamplingParams(max_tokens=9999), split_reasoning=split)
        path = factory(request, (1,))
        events = path.feed(TOKENIZER.encode(text).ids)
        assert norm([*events, *path.finish(FinishReason.END_ID)]) == expected


def test_unknown_formats_are_refused_when_the_factory_is_made():
    for wrong in ({"tool_format": "hermess"}, {"reasoning_format": "qwen33"}):
        with pytest.raises(ValueError, match=r"unknown .*; did you mean"):
            TextPathFactory(TOKENIZER, **wrong)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"ok\xf0\x9f", "ok"), (b"ok\xff\xff\xe4\xbd", "ok"), (b"\xff\xff", ""), (b"", ""),
        (b"a\xffb\xff\xffc\xff", "a\ufffdb\ufffd\ufffdc"), ("ok 🚀".encode(), "ok 🚀"),
        (b"a\xff<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\xff", "a\ufffd"),
        (b"a\xff\xffSTOP", "a"), (b"a\xff\xffSTO", "a\ufffd\ufffdSTO"),
    ],
)  # fmt: skip
def test_an_answer_that_does_not_end_in_replacements_loses_nothing_else(data, text):
    make = without_replacement_runs(TextPathFactory(TOKENIZER, tool_format="hermes"))
    request = Request((1,), SamplingParams(max_tokens=9999, stop=("STOP",)), tools=())
    for size in (1, 2, 99):
        path = make(request, (1,))
        plain = TextPathFactory(TOKENIZER, tool_format="hermes")(request, (1,))
        events, wanted = [], []
        for part in sized(data, size):
            events += path.feed(part)
            wanted += plain.feed(part)
        assert path.held["replacements"].strip("\ufffd") == ""
        events += path.finish(FinishReason.LENGTH)
        wanted += plain.finish(FinishReason.LENGTH)
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == text
        # Off, it says U+FFFD as well; calls are the same.
        said = "".join(e.text for e in wanted if isinstance(e, TextDelta))
        assert said.rstrip("\ufffd") == text.rstrip("\ufffd")
        calls = [[e for e in told if not isinstance(e, TextDelta)] for told in (events, wanted)]
        assert calls[0] == calls[1]
        assert (path.ending, path.tokens) == (plain.ending, plain.tokens)
        assert path.held["replacements"] == ""
