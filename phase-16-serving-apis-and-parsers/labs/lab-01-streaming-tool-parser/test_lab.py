"""Lab 01: the streaming tool parser. Each docstring states the rule that its test pins."""

import itertools
import re

import pytest

from labkit.testing import check, chunkings, expect, small_strings
from mini_vllm.text.events import TextDelta, ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"

# Of the letters of the tags, so that a search cannot skip them.
HOSTILE = "_to_a_local_tool_to_call_all" * 2

# Texts without a whole open tag, even when any two of them are joined.
TEXTS = ["hi ", "\n", CLOSE, "<tool", "a < b <", "<<tool_call", '"', "<TOOL_CALL>", "é🚀", "\\",
         "\u2028\r\n\x00"]  # fmt: skip

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
    ('{"name" : "j" ,\r\n\t"arguments"\n: {"s": "}{\u2028"} }', "j", '{"s": "}{\u2028"}'),
]

# Bodies that are not calls, up to the close tag that ends them.
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
    "\\",
    "null",
    "{'name': 'f', 'arguments': {}}",
    'call: {"name": "f", "arguments": {}}',
    '\u00a0{"name": "f", "arguments": {}}',
    '{"name": "f", "arguments": {"s": "a\nb"}}',
    '{"name": "f", "arguments": {}, "arguments": null}',
    '{"name": "f", "arguments": {}, "name": null}',
    f'\\"{CLOSE}{OPEN}{CALLS[0][0]}{CLOSE}"',
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


GOOD = tagged(CALLS[0][0])

# What random streams are made of: (source, is it in tags, its name and arguments if a call).
SEGMENTS = [
    *((text, False, None) for text in TEXTS),
    *((tagged(body), True, (name, arguments)) for body, name, arguments in CALLS),
    *((tagged(body), True, None) for body in NOT_CALLS[:10]),
]


def draw(generator):
    """A random stream, as the numbers of its segments."""
    return generator.choices(range(len(SEGMENTS)), k=generator.randint(1, 5))


def source_of(stream):
    """The text of a stream."""
    return "".join(SEGMENTS[number][0] for number in stream)


def cut_at(text, places):
    """The pieces of a text that is cut at some of its places."""
    ends = [0, *sorted(place for place in places if place < len(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(ends)]


def merged(events):
    """The events with adjacent text joined."""
    found = []
    for event in events:
        if found and isinstance(event, TextDelta) and isinstance(found[-1], TextDelta):
            event = TextDelta(found.pop().text + event.text)
        found.append(event)
    return found


def expected_events(stream):
    """The events of a stream, with adjacent text joined."""
    count = itertools.count()
    segments = [SEGMENTS[number] for number in stream]
    return merged(
        ToolCall(next(count), *call) if call else TextDelta(source) for source, _, call in segments
    )


def expected_steps(stream):
    """The events of each character: what waits is a possible open tag, or the whole open call."""
    count = itertools.count()
    steps, waiting = [], ""
    for source, inside, call in (SEGMENTS[number] for number in stream):
        for place, char in enumerate(source, 1):
            waiting += char
            if inside and place == len(source):
                out = ToolCall(next(count), *call) if call else TextDelta(source)
                steps.append([out])
                waiting = ""
                continue
            kept = waiting
            while not (OPEN.startswith(kept) or (inside and place >= len(OPEN))):
                kept = kept[1:]
            out = waiting.removesuffix(kept) if kept else waiting
            steps.append([TextDelta(out)] if out else [])
            waiting = kept
    return steps


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
    trace = feed(lab, ["Hello", "", ", world > 3 <"])
    expect(trace.outputs, [[TextDelta("Hello")], [], [TextDelta(", world > 3 ")]], trace)


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
    text = "a << b <tool> <TOOL_CALL> <tool_cal l> <tool_calls> < tool_call> "
    for pieces in ([text + "<tool"], list(text + "<tool")):
        trace = feed(lab, pieces)
        expect(trace.events, [TextDelta(text)], trace)


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_stray_close_tag_is_text(lab):
    """A close tag outside a call is text, unchanged, and nothing is held for it."""
    trace = feed(lab, ["a </tool_", "call> b <"])
    wanted = [[TextDelta("a </tool_")], [TextDelta("call> b ")]]
    expect(trace.outputs, wanted, trace)


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_held_shows_a_possible_tag(lab):
    """Outside calls `held` is exactly the possible start of an open tag."""
    trace = feed(lab, ["a <tool", "s> <", "tool_", "x", "<<"])
    expect(trace.held, ["<tool", "<", "<tool_", "", "<"], trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(3)
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
@pytest.mark.points(6)
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
    """Keys count at the top level only, in any order; keys and the name are JSON strings, so their
    escapes are decoded; other keys are ignored; a name may be "".
    """
    for body, name, arguments in (
        ('{"arguments": {"name":"x"}, "id": "c1", "name": ""}', "", '{"name":"x"}'),
        (
            '{"meta": {"arguments": {"no": 1}}, "name": "f", "arguments": {"yes": 1}}',
            "f",
            '{"yes": 1}',
        ),
        (r'{"\u006eame": "f", "argument\u0073": {}}', "f", "{}"),
        (r'{"name": " S\u00e3o \"1\"", "arguments": {}}', ' São "1"', "{}"),
        ('{"name": "arguments", "arguments": {"x": 1}}', "arguments", '{"x": 1}'),
    ):
        trace = feed(lab, [tagged(body)])
        expect(trace.events, [ToolCall(0, name, arguments)], trace)


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_last_of_equal_keys_counts(lab):
    """Where a key occurs twice, its last value counts, for what is judged and what comes out."""
    for body, name, arguments in (
        ('{"name":"f","arguments":"x","arguments":{}}', "f", "{}"),
        ('{"name":"f","arguments":{"x":1},"arguments":{"y":2}}', "f", '{"y":2}'),
        (r'{"arguments":{},"argument\u0073":{"y":2},"name":1,"name":"g"}', "g", '{"y":2}'),
    ):
        trace = feed(lab, [tagged(body)])
        expect(trace.events, [ToolCall(0, name, arguments)], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
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
@pytest.mark.points(3)
def test_index_counts_calls(lab):
    """`index` counts the calls that came out, from 0, however many come in one piece; newlines
    between calls are text.
    """
    f, g = tagged(CALLS[0][0]), tagged(CALLS[2][0])
    trace = feed(lab, [f"{f}\n{g}{f}"])
    calls = [event for event in trace.events if isinstance(event, ToolCall)]
    expect([(call.index, call.name) for call in calls], [(0, "f"), (1, "g"), (2, "f")], trace)
    expect(trace.events[1], TextDelta("\n"), trace)
    many = [getattr(event, "index", event) for event in feed(lab, [f * 1_500]).events]
    expect(many == [*range(1_500)], True, "feed(1,500 calls in one piece): calls 0 to 1,499")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_other_tags(lab):
    """The tags are the constructor's: any two non-empty strings, even special or equal ones, or
    ones that overlap themselves or hold quotes.
    """
    for first, last in (
        ("[TOOL_CALLS]", "[/TOOL_CALLS]"),
        ("aab", "aab"),
        ("(.*", "$)"),
        ("§", "¶"),
        ('<call n="1>', "\n\n)"),
    ):
        source = first + '{"name":"f","arguments":{"x":1}}\n' + last
        for pieces in (["a" + source + "b"], list("a" + source + "b")):
            trace = feed(lab, pieces, first, last)
            wanted = [TextDelta("a"), ToolCall(0, "f", '{"x":1}'), TextDelta("b")]
            expect(trace.events, wanted, trace)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_malformed_call_is_text(lab):
    """A body that is not a call, for whatever reason, comes out unchanged, tags included, and uses
    no index.
    """
    for body in NOT_CALLS:
        trace = run(lab, [f"a {tagged(body)} b{GOOD}"])
        expect(trace.events, [TextDelta(f"a {tagged(body)} b"), ToolCall(0, "f", "{}")], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_nan_and_infinity_are_not_json(lab):
    """NaN, Infinity and -Infinity are not JSON (RFC 8259), so a body with one of them is text."""
    for number in ("NaN", "Infinity", "-Infinity"):
        source = tagged('{"name": "f", "arguments": {"x": ' + number + "}}")
        trace = run(lab, [source + GOOD])
        expect(trace.events, [TextDelta(source), ToolCall(0, "f", "{}")], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_malformed_call_is_not_scanned_again(lab):
    """An open tag inside a body that was not a call does not start one; a call after that body
    still counts.
    """
    inner = tagged(f'oops {OPEN}{{"name": "f", "arguments": {{}}}}')
    trace = run(lab, [inner + GOOD])
    expect(trace.events, [TextDelta(inner), ToolCall(0, "f", "{}")], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_what_python_cannot_read_is_text(lab):
    """Nesting too deep and numbers too long for Python's `json` are text too: no input makes feed
    raise.
    """
    for value in ("1" + "0" * 5_000, "[" * 100_000 + "]" * 100_000):
        source = tagged('{"name": "f", "arguments": {"x": ' + value + "}}")
        trace = run(lab, [source + GOOD])
        expect(trace.events, [TextDelta(source), ToolCall(0, "f", "{}")], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_unfinished_call_is_text_at_flush(lab):
    """At flush an unfinished call is text, open tag included; nothing is added to complete it."""
    for call in (
        '<tool_call>{"name": "f", "arguments": {"x": 1}}',
        '<tool_call>{"x": "</tool_call>',
        '<tool_call>{"name": "f", "arguments": {}}</tool',
    ):
        trace = run(lab, ["a ", *call])
        expect(trace.events, [TextDelta("a " + call)], trace)
        expect(trace.outputs[-1], [TextDelta(call)], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_flush_once(lab):
    """flush returns what is held as text, once; a second flush returns [], and nothing is held."""
    calls = [("feed", "a <tool"), ("flush",), ("flush",)]
    trace = lab.script(lab.new("StreamingToolParser"), calls)
    expect(trace.outputs, [[TextDelta("a ")], [TextDelta("<tool")], []], trace)
    expect(trace.held, ["<tool", "", ""], trace, "held")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_flush_ends_the_stream(lab):
    """After flush a fresh stream begins: wherever the first one ended, inside a tag, a call or a
    string, nothing of it is left.
    """
    cut_short = tagged(CALLS[4][0])
    call = tagged(f'{{"":"{CLOSE}","name":"f","arguments":{{}}}}')
    for place in range(len(cut_short)):
        calls = [("feed", cut_short[:place]), ("flush",), ("feed", f"_call>{call}b"), ("flush",)]
        trace = lab.script(lab.new("StreamingToolParser"), calls, watch="")
        wanted = [TextDelta("_call>"), ToolCall(0, "f", "{}"), TextDelta("b")]
        expect(merged(trace.outputs[2]), wanted, trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_index_restarts_after_flush(lab):
    """`index` is the position of a call in its stream: after flush it counts from 0 again."""
    calls = [("feed", GOOD), ("flush",), ("feed", GOOD + GOOD), ("flush",), ("feed", GOOD)]
    trace = lab.script(lab.new("StreamingToolParser"), calls, watch="")
    f = [ToolCall(index, "f", "{}") for index in range(2)]
    expect(trace.outputs, [[f[0]], [], f, [], [f[0]]], trace)


@pytest.mark.task(4)
@pytest.mark.points(5)
def test_property_chunk_invariant(lab):
    """complete, chunk-invariant: a stream gives the same events however it is cut."""

    def rule(case):
        stream, places = case
        trace = run(lab, cut_at(source_of(stream), places))
        expect(trace.events, expected_events(stream), trace)

    for _ in range(40):
        stream = draw(lab.random)
        length = len(source_of(stream))
        few = [lab.random.choices(range(length), k=lab.random.randint(1, 6)) for _ in range(20)]
        check(rule, [(stream, places) for places in ([], list(range(length)), *few)])


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_eager(lab):
    """eager: whatever character comes next, only the possible start of a tag or the open call
    waits.
    """

    def rule(stream):
        trace = feed(lab, list(source_of(stream)))
        steps = [merged(events) for events in trace.outputs]
        expect(steps, expected_steps(stream), trace)

    check(rule, [draw(lab.random) for _ in range(60)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: two parsers fed in turns give what each gives alone."""
    texts = ["a " + tagged(CALLS[3][0]) + "b", tagged(CALLS[6][0]) + "c <tool" + tagged("no")]
    alone = [
        [TextDelta("a "), ToolCall(0, "say", '{"s":"</tool_call>"}'), TextDelta("b")],
        [ToolCall(0, "h", r'{"u":"\u00e3"}'), TextDelta("c <tool" + tagged("no"))],
    ]
    new = lab.new("StreamingToolParser")
    for trace, events in zip(lab.interleave([new, new], texts, "flush"), alone, strict=True):
        expect(trace.events, events, trace)


@pytest.mark.task(4)
@pytest.mark.points(5)
@pytest.mark.timeout(8)
def test_property_linear_in_a_call(lab):
    """linear: the work for a piece does not grow with the call that is open; one with 3,000,000
    characters of arguments, in 40,000 pieces, finishes well within the time limit.
    """
    piece = '"call(</tool_cal' + HOSTILE + "\\"
    start, end = '{"code": "🚀\\', '""}'
    pieces = [OPEN + '{"name": "w", "arguments": ' + start, *[piece] * 40_000, end + "}" + CLOSE]
    trace = lab.stream(lab.new("StreamingToolParser"), pieces, watch="")
    same = trace.events == [ToolCall(0, "w", start + piece * 40_000 + end)]
    expect(same, True, "a call of 3,000,000 characters in 40,000 pieces: one ToolCall")


@pytest.mark.task(4)
@pytest.mark.points(5)
@pytest.mark.timeout(8)
def test_property_linear_in_a_stream(lab):
    """linear: the work for a piece does not grow with what has come out; 3,000,000 characters of
    text with 2,000 calls in it, in 40,000 pieces, finish well within the time limit.
    """
    text = "call(<tool_cal" + HOSTILE + "<tool"
    round_of = ["🚀", *[text] * 18, GOOD]
    trace = lab.stream(lab.new("StreamingToolParser"), round_of * 2_000, watch="")
    wanted = [
        event
        for index in range(2_000)
        for event in (TextDelta("🚀" + text * 18), ToolCall(index, "f", "{}"))
    ]
    expect(trace.events == wanted, True, "2,000 calls in a long text: text and calls in turns")
