"""Lab 01: the streaming tool parser. Each docstring states the rule that its test pins."""

import itertools
import re

import pytest

from labkit.testing import chunkings, expect, small_strings
from mini_vllm.text.events import TextDelta, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"

# Texts without a whole open tag, even when any two of them are joined.
TEXTS = ["hi ", "\n", CLOSE, "<tool", "a < b <", "<<tool_call", '"q" ', "<TOOL_CALL>", "é🚀", "\\"]

# Bodies that are calls: (body, name, source of the arguments).
CALLS = [
    ('{"name": "f", "arguments": {}}', "f", "{}"),
    ('\n{"name": "f", "arguments": {"x": 1}}\n', "f", '{"x": 1}'),
    ('{"arguments":{ "a" : [1, 2.50,1e5] },"name":"g"}', "g", '{ "a" : [1, 2.50,1e5] }'),
    ('{"name":"say","arguments":{"s":"</tool_call>"}}', "say", '{"s":"</tool_call>"}'),
    (r'{"name":"q","arguments":{"s":"\"</tool_call>\\"}}', "q", r'{"s":"\"</tool_call>\\"}'),
    ('{"name":"São","arguments":{"city":"São 🚀"}}', "São", '{"city":"São 🚀"}'),
    (r'{"n\u0061me":"h","id":7,"arguments":{"u":"\u00e3"}}', "h", r'{"u":"\u00e3"}'),
    (
        '{"arguments":{"name":"Ada","arguments":{}},"name":"i"}',
        "i",
        '{"name":"Ada","arguments":{}}',
    ),
]

# Bodies that end at the first close tag and are not calls.
NOT_CALLS = [
    "",
    "not json",
    '{"name": "f"}',
    '{"name": 1, "arguments": {}}',
    '{"name": "f", "arguments": []}',
    '{"name": "f", "arguments": "{}"}',
    '["name", "arguments"]',
    '{"name": "f", "arguments": {}} and more',
    '{"name": "f", "arguments": {"x": 1}',
    "{'name': 'f', 'arguments': {}}",
    '{"name": "f", "arguments": {"n": 1' + "0" * 5000 + "}}",
    f'{OPEN}{{"name": "f", "arguments": {{}}}}',
]


def feed(lab, pieces, *tags):
    """Feed the pieces to a parser and leave the stream open."""
    return lab.stream(lab.new("StreamingToolParser", *tags), pieces, end="")


def run(lab, pieces, *tags):
    """Feed the pieces to a parser and flush it."""
    return lab.stream(lab.new("StreamingToolParser", *tags), pieces)


def tagged(body):
    """A body between its tags."""
    return OPEN + body + CLOSE


def draw(generator):
    """A random stream as segments: (source, is it in tags, its name and arguments if a call)."""
    segments = []
    for _ in range(generator.randint(1, 5)):
        kind = generator.choice("ttcn")
        if kind == "t":
            segments.append((generator.choice(TEXTS), False, None))
        elif kind == "c":
            body, name, arguments = generator.choice(CALLS)
            segments.append((tagged(body), True, (name, arguments)))
        else:
            body = generator.choice(NOT_CALLS[:9])
            segments.append((tagged(body), True, None))
    return segments


def expected_events(segments):
    """The events of a stream of segments, with adjacent text merged."""
    events, count = [], itertools.count()
    for source, _, call in segments:
        if call is not None:
            events.append(ToolCall(next(count), *call))
        elif events and isinstance(events[-1], TextDelta):
            events[-1] = TextDelta(events[-1].text + source)
        else:
            events.append(TextDelta(source))
    return events


def expected_held(segments):
    """What must be held after each character: a possible open tag, or the whole open call."""
    held, outside = [], ""
    for source, inside, _ in segments:
        for count in range(1, len(source) + 1):
            if inside and count >= len(OPEN):
                held.append(source[:count] if count < len(source) else "")
                continue
            text = outside + source[:count]
            prefixes = [OPEN[:n] for n in range(len(OPEN) - 1, -1, -1)]
            held.append(next(prefix for prefix in prefixes if text.endswith(prefix)))
        outside = "" if inside else outside + source
    return held


@pytest.mark.given
def test_naive_regex_per_piece_misses_the_call():
    """A regular expression applied to each piece alone never sees the call that spans them."""
    pieces = ["Sure. <tool", '_call>{"name": "f", "arguments": {}}</tool', "_call>"]
    assert not any(re.search("<tool_call>.*</tool_call>", piece) for piece in pieces)


@pytest.mark.given
def test_empty_tags_are_rejected(lab):
    """An empty tag raises ValueError; this check is given."""
    lab.rejects(lab.new("StreamingToolParser", ""))
    lab.rejects(lab.new("StreamingToolParser", "<call>", ""))


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_held_suffix_len_of_tags(lab):
    """held_suffix_len is the length of the longest end of the text that begins the marker but is
    not the whole marker; 0 if there is none.
    """
    for text, length in (
        ("", 0),
        ("a < b", 0),
        ("so <", 1),
        ("so <tool_call", 10),
        ("<tool_call>", 0),
        ("<tool<tool", 5),
        ("<<", 1),
    ):
        call = f"held_suffix_len({text!r}, {OPEN!r})"
        expect(lab.call("held_suffix_len", text, OPEN), length, call)


@pytest.mark.task(1)
@pytest.mark.points(6)
def test_held_suffix_len_by_definition(lab):
    """The definition holds for every text, also where a marker overlaps itself: the longest suffix
    of the text that is a proper prefix of the marker.
    """
    for marker in ["a", "aa", "ab", "aab", "aba", "abab", "aabaa"]:
        for text in small_strings("ab", 6):
            lengths = [
                n for n in range(len(marker)) if n <= len(text) and text.endswith(marker[:n])
            ]
            call = f"held_suffix_len({text!r}, {marker!r})"
            expect(lab.call("held_suffix_len", text, marker), max(lengths), call)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_plain_text_streams_at_once(lab):
    """Text that cannot begin a tag comes out at once, piece by piece; an empty piece gives []."""
    trace = feed(lab, ["Hello", "", ", world > 3"])
    expect(trace.outputs, [[TextDelta("Hello")], [], [TextDelta(", world > 3")]], trace)


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_possible_tag_is_held(lab):
    """Only the possible start of a tag is held, and it is released once it cannot be a tag."""
    trace = feed(lab, ["so <to", "ol", "box", " <"])
    wanted = [[TextDelta("so ")], [], [TextDelta("<toolbox")], [TextDelta(" ")]]
    expect(trace.outputs, wanted, trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_lookalikes_are_text(lab):
    """Other tags, tags in other case and broken tags are text and come out unchanged."""
    text = "a << b <tool> <TOOL_CALL> <tool_cal l> <tool_calls> < tool_call>"
    for pieces in ([text], list(text)):
        trace = feed(lab, pieces)
        expect(trace.events, [TextDelta(text)], trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_stray_close_tag_is_text(lab):
    """A close tag outside a call is text, unchanged, and nothing is held for it."""
    trace = feed(lab, ["a </tool_", "call> b"])
    wanted = [[TextDelta("a </tool_")], [TextDelta("call> b")]]
    expect(trace.outputs, wanted, trace)


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_held_shows_a_possible_tag(lab):
    """Outside calls `held` is exactly the possible start of an open tag."""
    trace = feed(lab, ["a <tool", "s> <", "tool_", "x"])
    expect(trace.held, ["<tool", "<", "<tool_", ""], trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_held_shows_the_open_call(lab):
    """Inside a call `held` is its source, open tag included, until the close tag is complete."""
    body, close = '{"name":"f","arguments":{}}', "</tool"
    trace = feed(lab, ["a <tool", "_call>" + body, close, "_call>b <"])
    held = ["<tool", OPEN + body, OPEN + body + close, "<"]
    expect(trace.held, held, trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_call_in_one_piece(lab):
    """A whole call in one piece is one ToolCall; the text before and after it keeps its place."""
    body, name, arguments = CALLS[1]
    trace = feed(lab, [f"Sure. {tagged(body)} Done."])
    expect(
        trace.events,
        [TextDelta("Sure. "), ToolCall(0, name, arguments), TextDelta(" Done.")],
        trace,
    )


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_call_one_character_at_a_time(lab):
    """A call that arrives character by character comes out with the last character of its close
    tag.
    """
    body, name, arguments = CALLS[1]
    source = tagged(body)
    trace = feed(lab, list(source))
    wanted = [[]] * (len(source) - 1) + [[ToolCall(0, name, arguments)]]
    expect(trace.outputs, wanted, trace)


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_arguments_are_the_source_byte_for_byte(lab):
    """Arguments are the model's own characters from { to }, with spaces, escapes and numbers as
    written.
    """
    for body, name, arguments in CALLS:
        trace = feed(lab, [tagged(body)])
        expect(trace.events, [ToolCall(0, name, arguments)], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_key_order_and_extra_keys(lab):
    """Keys count at the top level only, in any order and with JSON escapes decoded; other keys are
    ignored; a name may be "".
    """
    for body, name, arguments in (
        ('{"arguments": {"name":"x"}, "id": "c1", "name": ""}', "", '{"name":"x"}'),
        (
            '{"meta": {"arguments": {"no": 1}}, "name": "f", "arguments": {"yes": 1}}',
            "f",
            '{"yes": 1}',
        ),
        (r'{"\u006eame": "f", "argument\u0073": {}}', "f", "{}"),
    ):
        trace = feed(lab, [tagged(body)])
        expect(trace.events, [ToolCall(0, name, arguments)], trace)


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_close_tag_inside_a_string(lab):
    """A close tag inside a JSON string is part of the string, however the stream is cut."""
    body, name, arguments = CALLS[3]
    for pieces in chunkings(tagged(body), lab.random):
        trace = feed(lab, pieces)
        expect(trace.events, [ToolCall(0, name, arguments)], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_escaped_quotes_and_backslashes(lab):
    r"""Inside a string \" does not end it and \\ does not escape what follows, under any cut."""
    for arguments in (r'{"s":"\"</tool_call>"}', r'{"s":"\\"}', r'{"s":"\\\"</tool_call>\\"}'):
        source = tagged('{"name":"f","arguments":' + arguments + "}")
        for pieces in ([source], list(source)):
            trace = feed(lab, pieces)
            expect(trace.events, [ToolCall(0, "f", arguments)], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_index_counts_calls(lab):
    """`index` counts the calls that came out, from 0; newlines between calls are text."""
    f, g = tagged(CALLS[0][0]), tagged(CALLS[2][0])
    trace = feed(lab, [f"{f}\n{g}{f}"])
    calls = [event for event in trace.events if isinstance(event, ToolCall)]
    expect([(call.index, call.name) for call in calls], [(0, "f"), (1, "g"), (2, "f")], trace)
    expect(trace.events[1], TextDelta("\n"), trace)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_other_tags(lab):
    """The tags are the constructor's: any two non-empty strings, even special or equal ones."""
    for first, last in (("[TOOL_CALLS]", "[/TOOL_CALLS]"), ("aab", "aab"), ("(.*", "$)")):
        source = first + '{"name":"f","arguments":{"x":1}}' + last
        for pieces in (["a" + source + "b"], list("a" + source + "b")):
            trace = feed(lab, pieces, first, last)
            wanted = [TextDelta("a"), ToolCall(0, "f", '{"x":1}'), TextDelta("b")]
            expect(trace.events, wanted, trace)


@pytest.mark.task(4)
@pytest.mark.points(6)
def test_malformed_call_is_text(lab):
    """A body that is not a call, for whatever reason, comes out unchanged, tags included."""
    for body in NOT_CALLS:
        trace = run(lab, [f"a {tagged(body)} b"])
        expect(trace.events, [TextDelta(f"a {tagged(body)} b")], trace)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_malformed_call_is_not_scanned_again(lab):
    """An open tag inside a body that was not a call does not start one; a call after that body
    still counts.
    """
    inner = tagged(f'oops {OPEN}{{"name": "f", "arguments": {{}}}}')
    trace = run(lab, [inner + tagged(CALLS[0][0])])
    expect(trace.events, [TextDelta(inner), ToolCall(0, "f", "{}")], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_too_deep_nesting_is_text(lab):
    """A body nested too deep for the JSON parser is text too: no input makes feed raise."""
    deep = tagged('{"name":"f","arguments":{"x":' + "[" * 100_000 + "]" * 100_000 + "}}")
    trace = run(lab, [deep])
    expect(
        trace.events == [TextDelta(deep)],
        True,
        "feed(a call nested 100,000 deep): comes out as text",
    )


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_unfinished_call_is_text_at_flush(lab):
    """At flush an unfinished call is text, open tag included; nothing is added to complete it."""
    for text in (
        'a <tool_call>{"name": "f", "arguments": {"x": 1}}',
        'a <tool_call>{"x": "</tool_call>',
    ):
        trace = run(lab, list(text))
        expect(trace.events, [TextDelta(text)], trace)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_flush_once(lab):
    """flush returns what is held as text, once; a second flush returns [], and nothing is held."""
    calls = [("feed", "a <tool"), ("flush",), ("flush",)]
    trace = lab.script(lab.new("StreamingToolParser"), calls)
    expect(trace.outputs, [[TextDelta("a ")], [TextDelta("<tool")], []], trace)
    expect(trace.held, ["<tool", "", ""], trace, "held")


@pytest.mark.task(4)
@pytest.mark.points(8)
def test_property_chunk_invariant(lab):
    """complete, chunk-invariant: a stream gives the same events however it is cut."""
    for _ in range(40):
        segments = draw(lab.random)
        text = "".join(source for source, _, _ in segments)
        whole, one_by_one, *others = chunkings(text, lab.random)
        lab.random.shuffle(others)
        for pieces in [whole, one_by_one, *others[:40]]:
            trace = run(lab, pieces)
            expect(trace.events, expected_events(segments), trace)


@pytest.mark.task(4)
@pytest.mark.points(7)
def test_property_eager(lab):
    """eager: after every character, what is held is exactly the possible start of a tag or the open
    call.
    """
    for _ in range(60):
        segments = draw(lab.random)
        trace = run(lab, list("".join(source for source, _, _ in segments)))
        expect(trace.held[:-1], expected_held(segments), trace, "held")
        expect(trace.events, expected_events(segments), trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: two parsers fed in turns give what each gives alone."""
    texts = ["a " + tagged(CALLS[3][0]) + "b", tagged(CALLS[6][0]) + "c <tool" + tagged("no")]
    new = lab.new("StreamingToolParser")
    alone = [run(lab, list(text)).events for text in texts]
    for trace, events in zip(lab.interleave([new, new], texts, "flush"), alone, strict=True):
        expect(trace.events, events, trace)


@pytest.mark.task(4)
@pytest.mark.points(3)
@pytest.mark.timeout(10)
def test_property_linear(lab):
    """linear: a call with 100,000 characters of arguments, fed one by one, finishes well within the
    time limit.
    """
    arguments = '{"code": "' + 'if x: </b> \\"é🚀\\" ' * 5_000 + '"}'
    source = tagged('{"name": "write", "arguments": ' + arguments + "}")
    trace = lab.stream(lab.new("StreamingToolParser"), source, watch="")
    same = trace.events == [ToolCall(0, "write", arguments)]
    expect(same, True, "a call of 100,000 characters fed one by one: one ToolCall")
