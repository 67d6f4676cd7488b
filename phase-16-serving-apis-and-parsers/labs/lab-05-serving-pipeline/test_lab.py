"""Lab 05: the serving pipeline. Each docstring states the rule that its test pins."""

import itertools
import json
import re

import pytest

from labkit.testing import check, decoded, expect
from mini_vllm.text.events import TextDelta, ToolCall

BOS, EOS, PAD = 256, 257, 258
OPEN, CLOSE = "<tool_call>", "</tool_call>"
CALL = '<tool_call>{"name": "post", "arguments": {"text": "São 🚀"}}</tool_call>'
POST = ToolCall(0, "post", '{"text": "São 🚀"}')
EMPTY = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}


def tokens(text):
    """The byte tokens of a text."""
    return list(text.encode())


def pipeline(lab, stops=(), *, include_stop=False, tags=(), **options):
    """A pipeline of three fresh parts."""
    shown = {"include_stop": True} if include_stop else {}
    return lab.new(
        "ServingPipeline",
        lab.new("StreamingDetokenizer"),
        lab.new("StopStringMatcher", list(stops), **shown),
        lab.new("StreamingToolParser", *tags),
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


def expect_end(trace, events, reason):
    """The events are these, and the reason, read last, is this one."""
    expect(trace.events, events, trace)
    expect(trace.outputs[-1], reason, trace, "finish_reason")


@pytest.mark.given
def test_naive_order_of_layers_breaks():
    """A stop cut across tokens is never seen by a check of one token at a time."""
    assert not any("END" in bytes([byte]).decode() for byte in b"the END")


@pytest.mark.given
def test_parts_are_there(lab):
    """The parts can be made: the header of the run says whose they are."""
    trace = lab.stream(lab.new("StreamingDetokenizer"), tokens("é"))
    assert trace.text == "é"


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_text_passes_at_once(lab):
    """Text that cannot begin a stop or a tag passes all layers at once: one token, one event."""
    trace = lab.script(pipeline(lab, ["END"]), [("feed", i) for i in b"Hi!"])
    expect(trace.outputs, [[TextDelta("H")], [TextDelta("i")], [TextDelta("!")]], trace)


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_characters_arrive_whole(lab):
    """Three silences, then one event with the whole rocket; never an empty TextDelta."""
    trace = lab.script(pipeline(lab), [("feed", i) for i in tokens("🚀é")])
    expect(trace.outputs, [[], [], [], [TextDelta("🚀")], [], [TextDelta("é")]], trace)


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_ids_without_text_are_silent(lab):
    """BOS, PAD and ids out of range give [] and change nothing, even inside a character."""
    ids = [BOS, 0xF0, PAD, 0x9F, -1, 0x9A, 2**32, 0x80]
    trace = lab.script(pipeline(lab), [("feed", i) for i in ids])
    expect(trace.outputs, [[]] * 7 + [[TextDelta("🚀")]], trace)


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_layers_hold_in_turn(lab):
    """Each layer holds by its own rule, all at once: bytes, a possible stop, a possible tag."""
    ids = [*tokens("<E"), 0xC3]
    trace = lab.script(pipeline(lab, ["END"]), [("feed", i) for i in ids])
    wanted = [(b"", "", "<"), (b"", "E", "<"), (b"\xc3", "E", "<")]
    expect(trace.held, [dict(zip(EMPTY, row, strict=True)) for row in wanted], trace, "held")


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_emoji_in_arguments_survives(lab):
    """A call with an emoji passes all layers unchanged and comes out with its last token."""
    ids = tokens("ok " + CALL)
    trace = lab.script(pipeline(lab, ["END"]), [("feed", i) for i in ids])
    expect(trace.events, [TextDelta("ok "), POST], trace)
    expect(trace.outputs[-1], [POST], trace, "the last token")


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_eos_ends_the_stream(lab):
    """EOS ends the stream inside feed, with reason stop, which was None before; EOS itself has no
    text, and nothing after it counts.
    """
    calls = ["finish_reason", ("feed", 72), "finish_reason", ("feed", EOS), ("feed", 73)]
    trace = lab.script(pipeline(lab), [*calls, "finish_reason"])
    expect(trace.outputs[:3], [None, [TextDelta("H")], None], trace, "before the end")
    expect(trace.outputs[3:], [[], [], "stop"], trace, "from EOS on")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_eos_token_id_is_a_parameter(lab):
    """Which id is EOS depends on the tokenizer: the pipeline takes it as a parameter. It may be an
    id that would have text, or 0; 257 is then one more id without text.
    """
    for eos in (10, 0):
        trace = run(lab, [*b"Hi", EOS, *b"!", eos, *b"more"], eos_token_id=eos)
        expect_end(trace, [TextDelta("Hi!")], "stop")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_stop_string_ends_the_stream(lab):
    """A stop string ends the stream inside feed: no part of it is shown, unless the matcher shows
    stops, and nothing after it. What else came out with its last token is not lost.
    """
    for text, stops, shown, include in (
        ("a STOP b", ["STOP", "#"], "a ", False),
        ("xab?y", ["ab!", "b?"], "xa", False),
        ("a STOP b", ["STOP", "#"], "a STOP", True),
        ("a#b", ["STOP", "#"], "a#", True),
    ):
        trace = run(lab, tokens(text), stops, include_stop=include)
        expect_end(trace, [TextDelta(shown)], "stop")


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_stop_inside_a_call(lab):
    """A stop inside a call cuts it like any text: the unfinished call comes out as text."""
    trace = run(lab, tokens(CALL), ["São"])
    expect_end(trace, [TextDelta(CALL.partition("São")[0])], "stop")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_reason_tool_calls(lab):
    """After a normal end the reason is tool_calls if a call came out at any time, otherwise stop;
    what is not a call to the parser is text.
    """
    for text, stops, options, reason in (
        (CALL, (), {}, "tool_calls"),
        (CALL + " and STOP", ("STOP",), {}, "tool_calls"),
        (CALL + "<tool_call>no</tool_call>", (), {}, "tool_calls"),
        (CALL, (CLOSE,), {"include_stop": True}, "tool_calls"),
        (CALL, ("call>!",), {}, "tool_calls"),
        (CALL, (CLOSE,), {}, "stop"),
        ("<tool_call>no</tool_call>", (), {}, "stop"),
        ("<tool_call>", (), {}, "stop"),
        ('[{"name":"f","arguments":{}}]', (), {"tags": ("[", "]")}, "tool_calls"),
    ):
        trace = run(lab, [*tokens(text), EOS], stops, **options)
        expect(trace.outputs[-1], reason, trace, "finish_reason")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_stays_ended(lab):
    """After an end inside feed every layer is empty, and every later feed returns [] and changes
    nothing: not what is held, and not the reason.
    """
    for ids, stops in (
        ([*b"<tool_E", 0xC3, EOS], ["END"]),
        ([*b"a <toolEND"], ["END"]),
        ([0xE4, 0xE4], ["\ufffd"]),
    ):
        later = [65, 0xE4, *b"<E", EOS]
        trace = run(lab, [*ids, *later], stops)
        after = [[]] * len(later)
        expect(trace.outputs[len(ids) :], [*after, "stop"], trace, "after the end")
        expect(trace.held[len(ids) - 1 :], [EMPTY] * (len(later) + 2), trace, "held from the end")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_eos_flushes_every_layer(lab):
    """At EOS what the layers hold comes out of that feed, in the order in which it came in."""
    for held, text in (
        (b"a <tool", "a <tool"),
        (b"a EN", "a EN"),
        (b"a \xe4\xbd", "a \ufffd"),
        (b"a <tool_EN", "a <tool_EN"),
        (b"a <tool_EN\xe4\xbd", "a <tool_EN\ufffd"),
    ):
        expect_end(run(lab, [*held, EOS], ["END"]), [TextDelta(text)], "stop")


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_eos_inside_a_character(lab):
    """EOS inside a character leaves one U+FFFD, whether one, two or three bytes were held."""
    for held in (b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x9a"):
        expect_end(run(lab, [*b"a", *held, EOS]), [TextDelta("a\ufffd")], "stop")


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_flush_completes_a_stop(lab):
    """The U+FFFD of a cut-off character goes through the matcher like any text. There it may
    complete a stop, together with what the matcher holds.
    """
    for held, stop, text in (
        (b"a \xe4", " \ufffd", "a"),
        (b"<E\xe4\xbd", "E\ufffd", "<"),
        (b"a\xf0\x9f\x9a", "\ufffd", "a"),
    ):
        expect_end(run(lab, [*held, EOS], [stop]), [TextDelta(text)], "stop")


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_flushed_text_may_be_held_again(lab):
    """What one layer lets go, the next may hold: U+FFFD may begin a stop, and the last text of the
    matcher may begin a tag. That comes out of the same feed too.
    """
    for held, stop, text in (
        (b"a\xe4", "\ufffd!", "a\ufffd"),
        (b"a <", "<|end|>", "a <"),
        (b"<E\xe4", "E\ufffd!", "<E\ufffd"),
    ):
        expect_end(run(lab, [*held, EOS], [stop]), [TextDelta(text)], "stop")


@pytest.mark.task(2)
@pytest.mark.points(7)
def test_call_completed_by_the_flush(lab):
    """A call whose last characters the matcher held is still a call: it comes out at EOS, and the
    reason is tool_calls. If a stop takes its last character, it is none.
    """
    end = TextDelta("\ufffd")
    for tail, stop, events, reason in (
        (b"", "call>!", [POST], "tool_calls"),
        (b"\xe4", "call>!", [POST, end], "tool_calls"),
        (b"\xe4", "call>\ufffd!", [POST, end], "tool_calls"),
        (b"\xe4", ">\ufffd", [TextDelta(CALL[:-1])], "stop"),
    ):
        expect_end(run(lab, [*tokens(CALL), *tail, EOS], [stop]), events, reason)


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_finish_is_length(lab):
    """finish ends the stream from outside: the reason is length, even after a call, even if the
    call comes out of finish itself.
    """
    for text, stops in (("Hi", ()), ("", ()), (CALL, ()), (CALL + " ok", ())):
        trace = run_to_end(lab, tokens(text), stops)
        expect(trace.outputs[-1], "length", trace, "finish_reason")
    expect_end(run_to_end(lab, tokens(CALL), ["call>!"]), [POST], "length")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_finish_flushes_every_layer(lab):
    """finish lets go what the layers hold as EOS does: nothing is lost."""
    for held, text in (
        (b"a <tool", "a <tool"),
        (b"a EN", "a EN"),
        (b"a \xe4\xbd", "a \ufffd"),
        (b"a <tool_EN", "a <tool_EN"),
        (b'a <tool_call>{"na EN\xe4', 'a <tool_call>{"na EN\ufffd'),
    ):
        expect_end(run_to_end(lab, held, ["END"]), [TextDelta(text)], "length")
    expect_end(run_to_end(lab, tokens("a " + CALL), [">!"]), [TextDelta("a "), POST], "length")


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_finish_may_complete_a_stop(lab):
    """If the text that finish lets go completes a stop string, the end was normal after all: the
    stop is not shown, and the reason is stop, or tool_calls if a call came out.
    """
    for held, stops, events, reason in (
        (b"a!\xe4", ["!\ufffd"], [TextDelta("a")], "stop"),
        (b"<E\xe4", ["E\ufffd"], [TextDelta("<")], "stop"),
        (CALL.encode() + b"!\xe4", ["!\ufffd"], [POST], "tool_calls"),
        (CALL.encode() + b"\xe4", ["call>!", "\ufffd"], [POST], "tool_calls"),
    ):
        expect_end(run_to_end(lab, held, stops), events, reason)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_first_end_wins(lab):
    """The first end wins: every later call returns [], and the reason does not change."""
    calls = [("feed", 65), ("feed", 0xE4), ("finish",), ("feed", EOS), ("finish",), "finish_reason"]
    for reason, end in (("stop", ("feed", EOS)), ("stop", ("feed", 33)), ("length", ("finish",))):
        begin = [*(("feed", i) for i in (*b"<E", 0xC3)), "finish_reason", end]
        trace = lab.script(pipeline(lab, ["END", "!"]), [*begin, *calls])
        expect(trace.outputs[3], None, trace, "finish_reason before the end")
        expect(trace.outputs[5:], [[], [], [], [], [], reason], trace, "after the end")


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_nothing_held_after_finish(lab):
    """After finish every layer is empty, and a later feed leaves it so."""
    trace = run_to_end(lab, [*b"<E", 0xC3], ["END"])
    expect(trace.held[-1], EMPTY, trace, "held after finish")
    trace = lab.script(pipeline(lab), [("finish",), ("feed", 0xC3), ("feed", 60)])
    expect(trace.held, [EMPTY] * 3, trace, "held from the end")


def in_one_piece(ids, stops):
    """The events of a whole stream that ends with finish, and its reason, without any streaming."""
    at_eos = EOS in ids
    text = decoded(bytes(i for i in ids[: ids.index(EOS) if at_eos else None] if 0 <= i < 256))
    text, at_stop = before_stop(text, stops)
    events = split(text)
    if not at_eos and not at_stop:
        return events, "length"
    called = any(isinstance(event, ToolCall) for event in events)
    return events, "tool_calls" if called else "stop"


def before_stop(text, stops):
    """The text before the stop that ends first, and whether there is one."""
    for end in range(1, len(text) + 1):
        ending = [len(stop) for stop in stops if text.endswith(stop, 0, end)]
        if ending:
            return text[: end - max(ending)], True
    return text, False


def split(text):
    """A text as events: the body of a call runs to a close tag that is not in a JSON string."""
    events, plain, calls = [], "", 0
    while text:
        before, tag, rest = text.partition(OPEN)
        plain += before
        body = re.match(r'((?:[^"]|"(?:[^"\\]|\\.)*")*?)' + CLOSE, rest, re.DOTALL) if tag else None
        call = arguments(body[1]) if body else None
        if call is None:
            source = tag + (body[0] if body else rest)
            plain += source
        else:
            events += [TextDelta(plain)] if plain else []
            events.append(ToolCall(calls, *call))
            plain, calls = "", calls + 1
        text = rest[body.end() :] if body else ""
    return events + ([TextDelta(plain)] if plain else [])


def arguments(body):
    """The name and the source of the arguments of a call, or None; no string here has a brace."""
    try:
        call = json.loads(body)
    except ValueError:
        return None
    is_call = isinstance(call, dict) and isinstance(call.get("name"), str)
    if not is_call or not isinstance(call.get("arguments"), dict):
        return None
    return call["name"], re.search(r"\{[^{}]*\}", body)[0]


WORDS = [
    *(word.encode() for word in ("Hello, ", "你好 🚀 ", "a <tool b", "STO", "##", CALL, CALL)),
    b'<tool_call>{"arguments":{},"name":"now"}</tool_call>',
    b'<tool_call>{"name": "broken"}</tool_call>',
    b"\xf0\x9f",
    b"E\xe4",
]
STOPS = ["STOP", "##", "E\ufffd", "\ufffd!", "\ufffd<", "call>!", ">\ufffd", "<|end|>", "o 🚀 ?"]


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_property_composition(lab):
    """complete: every stream, however it ends, gives the events of its whole text, the reason of
    its end, and nothing more.
    """

    def rule(case):
        ids, stops = case
        stops = [stop for stop in stops if stop]
        trace = run_to_end(lab, ids, stops)
        expect_end(trace, *in_one_piece(ids, stops))

    def cases():
        for length in range(5):
            for ids in itertools.product([*b"<E", 0xE4, EOS], repeat=length):
                yield list(ids), ["E\ufffd", "\ufffd<", "<EE"]
        for _ in range(200):
            words = lab.random.choices(WORDS, k=lab.random.randint(0, 5))
            end = lab.random.choice([[], [EOS], [EOS, *b"more"]])
            yield [*b"".join(words), *end], lab.random.choices(STOPS, k=2)

    check(rule, cases())


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_display_delay(lab):
    """eager: outside calls, at most 3 bytes and (longest stop - 1) + (open tag - 1) characters
    wait.
    """
    stops = ["Observation:", "\n\nUser:"]
    bound = max(map(len, stops)) - 1 + len(OPEN) - 1
    words = ["<tool_call", "Observation", "\n\nUser", "你好" * 15, "🚀", "é ", "<", "plain text "]

    def rule(case):
        text = " ".join(case)
        trace = lab.script(pipeline(lab, stops), [("feed", i) for i in tokens(text)])
        shown = "".join(event.text for event in trace.events if isinstance(event, TextDelta))
        expect(trace.events, [TextDelta(text[: len(shown)])] if shown else [], trace)
        shown, received = 0, b""
        for step, byte in zip(trace.steps, text.encode(), strict=True):
            shown += sum(len(event.text) for event in step.result)
            received += bytes([byte])
            waits = len(received.decode("utf-8", "ignore")) - shown
            expect(waits <= bound, True, trace, f"at most {bound} characters wait")

    check(rule, (lab.random.choices(words, k=12) for _ in range(40)))


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_property_isolated(lab):
    """isolated: two streams fed in turns give what each gives alone."""
    streams = [tokens("你 " + CALL), tokens("a STO b <tool")]
    new = [pipeline(lab, ["##"]), pipeline(lab, ["STOP"])]
    wanted = [[TextDelta("你 "), POST], [TextDelta("a STO b <tool")]]
    for trace, events in zip(lab.interleave(new, streams, "finish"), wanted, strict=True):
        expect(trace.events, events, trace)


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(10)
def test_property_linear_text(lab):
    """linear: a long text, ill-formed and full of possible stops and tags, takes a token as long at
    its end as at its beginning.
    """
    ids = [*(b"\xff\xff\xffE<\xff\xff\xff" * 9000), *tokens(CALL)]
    trace = lab.stream(pipeline(lab, ["END"]), ids, end="finish", watch="")
    expect(trace.outputs[-2], [POST], f"{len(ids)} tokens fed one by one", "the last token")


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(6)
def test_property_linear_call(lab):
    """linear: a call with long arguments, all of which the parser must hold, costs no more for a
    token than any other text.
    """
    written = '{"text": "🚀' + "E" * 60_000 + '"}'
    ids = tokens(f'{OPEN}{{"name": "post", "arguments": {written}}}{CLOSE}')
    trace = lab.stream(pipeline(lab, ["END"]), ids, end="finish", watch="")
    call = ToolCall(0, "post", written)
    expect(trace.outputs[-2], [call], f"{len(ids)} tokens of one call fed one by one", "the call")
