"""Lab 05: the serving pipeline. Each docstring states the rule that its test pins."""

import pytest

from labkit.testing import expect
from mini_vllm.text.events import TextDelta, ToolCall

EOS = 257
OPEN, CLOSE = "<tool_call>", "</tool_call>"
CALL = '<tool_call>{"name": "post", "arguments": {"text": "São 🚀"}}</tool_call>'
ARGUMENTS = '{"text": "São 🚀"}'

# (source, name and arguments if it is a call)
SEGMENTS = [
    ("Hello, ", None),
    ("你好 🚀 ", None),
    ("a <tool b", None),
    ("Observation or STO", None),
    (CALL, ("post", ARGUMENTS)),
    ('<tool_call>{"arguments":{},"name":"now"}</tool_call>', ("now", "{}")),
    ('<tool_call>{"name": "broken"}</tool_call>', None),
]


def tokens(text):
    """The byte tokens of a text."""
    return list(text.encode())


def pipeline(lab, stops=(), **options):
    """A pipeline of three fresh parts."""
    return lab.new(
        "ServingPipeline",
        lab.new("StreamingDetokenizer"),
        lab.new("StopStringMatcher", list(stops)),
        lab.new("StreamingToolParser"),
        **options,
    )


def run(lab, ids, stops=(), **options):
    """Feed the ids, then read `finish_reason`."""
    calls = [*(("feed", i) for i in ids), "finish_reason"]
    return lab.script(pipeline(lab, stops, **options), calls)


def run_to_end(lab, ids, stops=()):
    """Feed the ids, call `finish`, then read `finish_reason`."""
    calls = [*(("feed", i) for i in ids), ("finish",), "finish_reason"]
    return lab.script(pipeline(lab, stops), calls)


def merged(segments):
    """The events of some segments, with adjacent text merged."""
    events, count = [], 0
    for source, call in segments:
        if call is not None:
            events.append(ToolCall(count, *call))
            count += 1
        elif events and isinstance(events[-1], TextDelta):
            events[-1] = TextDelta(events[-1].text + source)
        else:
            events.append(TextDelta(source))
    return events


@pytest.mark.given
def test_naive_order_of_layers_breaks():
    """A stop cut across tokens is never seen by a check of one token at a time."""
    assert not any("END" in bytes([byte]).decode() for byte in b"the END")


@pytest.mark.given
def test_parts_are_there(lab):
    """The parts can be made: your own labs where they pass, otherwise the references."""
    trace = lab.stream(lab.new("StreamingDetokenizer"), tokens("é"))
    assert trace.text == "é"


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_text_passes_at_once(lab):
    """Text that cannot begin a stop or a tag passes all layers at once: one token, one event."""
    trace = lab.script(pipeline(lab, ["END"]), [("feed", i) for i in b"Hi!"])
    expect(trace.outputs, [[TextDelta("H")], [TextDelta("i")], [TextDelta("!")]], trace)


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_characters_arrive_whole(lab):
    """Three silences, then one event with the whole rocket; never an empty TextDelta."""
    trace = lab.script(pipeline(lab), [("feed", i) for i in tokens("🚀é")])
    expect(trace.outputs, [[], [], [], [TextDelta("🚀")], [], [TextDelta("é")]], trace)


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_ids_without_text_are_silent(lab):
    """BOS, PAD and ids out of range give [] and change nothing, even inside a character."""
    ids = [256, 0xF0, 258, 0x9F, -1, 0x9A, 2**32, 0x80]
    trace = lab.script(pipeline(lab), [("feed", i) for i in ids])
    expect(trace.outputs, [[]] * 7 + [[TextDelta("🚀")]], trace)


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_layers_hold_in_turn(lab):
    """Each layer holds by its own rule, all at once: bytes, a possible stop, a possible tag."""
    ids = [*tokens("<E"), 0xC3]
    trace = lab.script(pipeline(lab, ["END"]), [("feed", i) for i in ids])
    names = ("detokenizer", "stop_matcher", "tool_parser")
    wanted = [(b"", "", "<"), (b"", "E", "<"), (b"\xc3", "E", "<")]
    expect(trace.held, [dict(zip(names, row, strict=True)) for row in wanted], trace, "held")


@pytest.mark.task(1)
@pytest.mark.points(6)
def test_emoji_in_arguments_survives(lab):
    """A call with an emoji passes all layers unchanged and comes out with its last token."""
    ids = tokens("ok " + CALL)
    trace = lab.script(pipeline(lab, ["END"]), [("feed", i) for i in ids])
    expect(trace.events, [TextDelta("ok "), ToolCall(0, "post", ARGUMENTS)], trace)
    expect(trace.outputs[-1], [ToolCall(0, "post", ARGUMENTS)], trace, "the last token")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_eos_ends_the_stream(lab):
    """EOS ends the stream inside feed, with reason stop; EOS itself has no text."""
    trace = run(lab, [*b"Hi", EOS, *b"more"])
    expect(trace.events, [TextDelta("Hi")], trace)
    expect(trace.outputs[-1], "stop", trace, "finish_reason")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_eos_flushes_every_layer(lab):
    """At EOS everything held passes through the layers after it and comes out of that feed."""
    trace = run(lab, [*tokens("a <tool_EN"), 0xE4, 0xBD, EOS], ["END"])
    expect(trace.events, [TextDelta("a <tool_EN\ufffd")], trace)


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_eos_inside_a_character(lab):
    """EOS inside a character leaves one U+FFFD, whether one, two or three bytes were held."""
    for held in (b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x9a"):
        trace = run(lab, [*b"a", *held, EOS])
        expect(trace.events, [TextDelta("a\ufffd")], trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_eos_token_id_is_a_parameter(lab):
    """Which id is EOS depends on the tokenizer: the pipeline takes it as a parameter."""
    trace = run(lab, [*b"Hi", EOS, *b"!\n", *b"more"], eos_token_id=10)
    expect(trace.events, [TextDelta("Hi!")], trace)
    expect(trace.outputs[-1], "stop", trace, "finish_reason")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_stop_string_ends_the_stream(lab):
    """A stop string ends the stream inside feed: no part of it is shown, and nothing after it."""
    trace = run(lab, tokens("a STOP b"), ["STOP", "#"])
    expect(trace.events, [TextDelta("a ")], trace)
    expect(trace.outputs[-1], "stop", trace, "finish_reason")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_stop_inside_a_call(lab):
    """A stop inside a call cuts it like any text: the unfinished call comes out as text."""
    trace = run(lab, tokens(CALL), ["São"])
    expect(trace.events, [TextDelta(CALL.partition("São")[0])], trace)
    expect(trace.outputs[-1], "stop", trace, "finish_reason")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_reason_tool_calls(lab):
    """After a normal end the reason is tool_calls if a call came out, otherwise stop; a malformed
    call is text.
    """
    for text, stops, reason in (
        (CALL, (), "tool_calls"),
        (CALL + " STOP", ("STOP",), "tool_calls"),
        ("<tool_call>no</tool_call>", (), "stop"),
        ("<tool_call>", (), "stop"),
    ):
        trace = run(lab, [*tokens(text), EOS], stops)
        expect(trace.outputs[-1], reason, trace, "finish_reason")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_call_completed_by_the_flush(lab):
    """A call whose last characters the stop matcher held is still a call: it comes out at EOS, and
    the reason is tool_calls.
    """
    trace = run(lab, [*tokens(CALL), EOS], ["call>!"])
    expect(trace.events, [ToolCall(0, "post", ARGUMENTS)], trace)
    expect(trace.outputs[-1], "tool_calls", trace, "finish_reason")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_finish_is_length(lab):
    """finish ends the stream from outside: the reason is length, even if a call came out."""
    for text in ("Hi", CALL):
        trace = run_to_end(lab, tokens(text))
        expect(trace.outputs[-1], "length", trace, "finish_reason")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_finish_flushes_every_layer(lab):
    """finish passes what each layer held through the layers after it: nothing is lost."""
    for tail, text in (([], ""), ([0xE4], "\ufffd")):
        trace = run_to_end(lab, [*tokens('a <tool_call>{"na EN'), *tail], ["END"])
        expect(trace.events, [TextDelta('a <tool_call>{"na EN' + text)], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_finish_may_complete_a_stop(lab):
    """If the text flushed by finish completes a stop string, the end was normal after all: the
    reason is stop, and the stop is not shown.
    """
    trace = run_to_end(lab, [*b"a!", 0xE4], ["!\ufffd"])
    expect(trace.events, [TextDelta("a")], trace)
    expect(trace.outputs[-1], "stop", trace, "finish_reason")


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_first_end_wins(lab):
    """The first end wins: every later call returns [], and the reason does not change."""
    ends = {"stop": [("feed", EOS)], "length": [("finish",)]}
    for reason, end in ends.items():
        later = [("feed", 65), ("feed", EOS), ("finish",), ("finish",), "finish_reason"]
        trace = lab.script(pipeline(lab), [("feed", 66), "finish_reason", *end, *later])
        expect(trace.outputs[1], None, trace, "finish_reason before the end")
        expect(trace.outputs[3:], [[], [], [], [], reason], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_nothing_held_after_the_end(lab):
    """After any end, every layer holds nothing."""
    empty = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}
    for ids, stops in (([*b"<tool_E", 0xC3, EOS], ["END"]), ([0xE2, *b"<toolEND", 0xE2], ["END"])):
        trace = run_to_end(lab, ids, stops)
        expect(trace.held[-1], empty, trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(9)
def test_property_composition(lab):
    """complete: random streams of text and calls, however they end, give exactly their events and
    the right reason.
    """
    for _ in range(120):
        segments = lab.random.choices(SEGMENTS, k=lab.random.randint(0, 5))
        end = lab.random.choice(["eos", "finish", "stop", "cut"])
        text, events = "".join(source for source, _ in segments), merged(segments)
        if end == "stop":
            text += "##" + lab.random.choice([s for s, _ in SEGMENTS])
        elif end == "cut":
            text += OPEN + '{"name": "##'
            events = merged([*segments, (OPEN + '{"name": "', None)])
        normal = "tool_calls" if any(call for _, call in segments) else "stop"
        trace = run_to_end(lab, [*tokens(text), *([EOS] if end == "eos" else [])], ["##", "STOP"])
        expect(trace.events, events, trace)
        expect(trace.outputs[-1], "length" if end == "finish" else normal, trace, "finish_reason")


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_property_display_delay(lab):
    """eager: outside calls, at most 3 bytes and (longest stop - 1) + (open tag - 1) characters
    wait.
    """
    stops = ["Observation:", "\n\nUser:"]
    bound = max(map(len, stops)) - 1 + len(OPEN) - 1
    for _ in range(60):
        words = [
            "<tool_call",
            "Observation",
            "\n\nUser",
            "你好" * 15,
            "🚀",
            "é ",
            "<",
            "plain text ",
        ]
        text = " ".join(lab.random.choices(words, k=12))
        trace = lab.script(pipeline(lab, stops), [("feed", i) for i in tokens(text)])
        shown, data = 0, b""
        for step, byte in zip(trace.steps, tokens(text), strict=True):
            data += bytes([byte])
            shown += sum(len(event.text) for event in step.result)
            received = len(data.decode("utf-8", "ignore"))
            expect(received - shown <= bound, True, trace, f"at most {bound} characters wait")
            waiting = len(step.held["detokenizer"])
            expect(waiting <= 3, True, trace, "at most 3 bytes wait")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: two streams fed in turns give what each gives alone."""
    streams = [tokens("你 " + CALL), tokens("a STO b <tool")]
    new = [pipeline(lab, ["##"]), pipeline(lab, ["STOP"])]
    wanted = [[TextDelta("你 "), ToolCall(0, "post", ARGUMENTS)], [TextDelta("a STO b <tool")]]
    for trace, events in zip(lab.interleave(new, streams, "finish"), wanted, strict=True):
        expect(trace.events, events, trace)


@pytest.mark.task(3)
@pytest.mark.points(3)
@pytest.mark.timeout(10)
def test_property_linear(lab):
    """linear: a long stream with 150 calls, fed token by token, finishes well within the limit."""
    text = ("Hello 你好 🚀 <tool " * 20 + CALL) * 150
    trace = lab.stream(pipeline(lab, ["END"]), tokens(text), end="finish", watch="")
    calls = [event for event in trace.events if isinstance(event, ToolCall)]
    expect(len(calls), 150, f"{len(text.encode())} tokens with 150 calls fed one by one", "calls")
