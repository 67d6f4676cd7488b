"""Lab 01: the streaming tool parser. Each docstring states the rule that its test pins.

A test begins with readable cases and continues with cases drawn from the seed.
"""

import itertools
import json
import re
from dataclasses import dataclass, replace

import pytest

from labkit.testing import (
    Call,
    check,
    cut_at,
    expect,
    expect_long,
    expect_most,
    expect_untouched,
    joined,
    small_strings,
)
from mini_vllm.text.events import TextDelta, ToolCall

OPEN, CLOSE = TAGS = "<tool_call>", "</tool_call>"
F = '{"name": "f", "arguments": {}}'

# Of the letters of the tags, so that a search cannot skip them.
HOSTILE = "_to_a_local_tool_to_call_all" * 4

# Bodies that are calls: (body, name, source of the arguments).
CALLS = [
    (F, "f", "{}"),
    ('\n{"name": "f", "arguments": {"x": 1}}\n', "f", '{"x": 1}'),
    ('{"arguments":{ "a" : [1, 2.50,1e5] },"name":"g"}', "g", '{ "a" : [1, 2.50,1e5] }'),
    ('{"name":"say","arguments":{"s":"</tool_call>"}}', "say", '{"s":"</tool_call>"}'),
    (r'{"name":"q","arguments":{"s":"\"</tool_call>\\"}}', "q", r'{"s":"\"</tool_call>\\"}'),
    ('{"name":"São","arguments":{"city":"São 🚀"}}', "São", '{"city":"São 🚀"}'),
    (r'{"n\u0061me":"h","id":7,"arguments":{"u":"\u00e3"}}', "h", r'{"u":"\u00e3"}'),
    ('{"arguments":{"name":"A","arguments":{}},"name":"i"}', "i", '{"name":"A","arguments":{}}'),
    ('{"name" : "j" ,\r\n\t"arguments"\n: {"s": "}{\u2028"} }', "j", '{"s": "}{\u2028"}'),
    (' \t\r\n{"name":"k","arguments":{"s":"it\'s"}}\r\t ', "k", '{"s":"it\'s"}'),
    (
        '{"name":"l","arguments":{"e\u0301\ufeff":"\u200b\ud800"}}',
        "l",
        '{"e\u0301\ufeff":"\u200b\ud800"}',
    ),
]

# Bodies that are not calls, up to the close tag that ends them.
NOT_CALLS = [
    "", "not json", "\\", "null", "call: " + F, F + " and more", "\u00a0" + F,
    '["name", "arguments"]',
    "{'name': 'f', 'arguments': {}}",
    '{"name": "f"}',
    '{"name": 1, "arguments": {}}',
    '{"name": "f", "arguments": []}',
    '{"name": "f", "arguments": "{}"}',
    '{"name": "f", "arguments": {"x": 1}',
    '{"name": "f", "arguments": {"s": "a\nb"}}',
    '{"name": "f", "arguments": {}, "arguments": null}',
    '{"name": "f", "arguments": {}, "name": null}',
    f'\\"{CLOSE}{OPEN}{F}{CLOSE}"',
    OPEN + F,
]  # fmt: skip

# Bodies that are not calls, but a parser that repairs or guesses makes a call of them.
REPAIRABLE = [
    F + F, f"[{F}]", f'{{"function": {F}}}', f"```json\n{F}\n```", F + CLOSE.upper(), F + " don't",
    '{"name": "f", "arguments": {},}',
    '{"name": "f" "arguments": {}}',
    '{"name": "f", "arguments": {} // none\n}',
    '{"Name": "f", "Arguments": {}}',
    '{"name ": "f", " arguments": {}}',
    '{"name": "f", "parameters": {}}',
    '{"name": "f", "id": "\\"", "arguments": null}',
]  # fmt: skip

# Characters that are not whitespace in JSON, though Python strips most of them.
NO_SPACES = "\u00a0\x0b\x0c\x1c\x85\u2003\u2028\u3000\ufeff\u200b\x00"

# Keys that are not `name` or `arguments`, but nearly.
OTHER_KEYS = ["Name", "name ", "ARGUMENTS", " arguments", "parameters", "args", "function", ""]

# What is drawn. No word and no bit of a text goes on with an open tag that has begun.
LETTERS = "bdefghijkmnpqrsuvwxyz"
TEXT_BITS = [
    "<", "<<tool_call", "<tool<tool", CLOSE, "\n", '"', "é🚀", "\\", "\u2028\r\n\x00", " e\u0301\t",
    "\ufeff", "a\u200db\u200b", "\u00a0\ufb01", "\ud800", "<|im_end|></s>", "\ufffd\x1b",
]  # fmt: skip
ESCAPED = ['"', "\\", '"</tool_call>', '\\"</tool_call>\\']
STRING_BITS = [*ESCAPED, CLOSE, "</tool", "<", "}{", "é🚀\u2028", "\n", "[,]"]


# The bytes by which the memory of a parser may grow.
MOST_GROWN = 2_000


@dataclass(frozen=True)
class Part:
    """A part of a stream: text, or a body in tags, which may be a call (its name and arguments)."""

    source: str
    tagged: bool = False
    call: tuple[str, str] | None = None


def in_tags(body, *call):
    """A body in its tags; it is a call if it has a name and arguments."""
    return Part(OPEN + body + CLOSE, True, call or None)


GOOD = in_tags(*CALLS[0])


def any_word(r):
    """Draw 1 to 8 letters; `r` is a `random.Random`."""
    return "".join(r.choices(LETTERS, k=r.randint(1, 8)))


def any_words(r):
    """Draw a text in which no tag seems to begin."""
    ends = r.choices([" ", "\n", ", > "], k=r.randint(1, 4))
    return Part("".join(any_word(r) + end for end in ends))


def half_a_tag(r):
    """Draw an open tag that has begun."""
    return Part(OPEN[: r.randrange(1, len(OPEN))])


def lookalike(r):
    """Draw an open tag with a character too many in it."""
    place = r.randrange(1, len(OPEN))
    return Part(OPEN[:place] + r.choice(" XT/") + OPEN[place:])


def any_text(r):
    """Draw a text of words, open tags that have begun, and what else there is."""
    bits = [*r.choices(TEXT_BITS, k=2), half_a_tag(r).source, lookalike(r).source, any_word(r)]
    return Part("".join(r.sample(bits, r.randint(1, 5))))


def any_value(r, bits=("",), depth=2):
    """Draw a JSON value with such bits in its strings."""
    kind = r.choice("0ss[{" if depth else "0s")
    if kind == "{":
        keys = r.sample(["name", "arguments", any_word(r), any_word(r)], r.randint(0, 3))
        return {key: any_value(r, bits, depth - 1) for key in keys}
    if kind == "[":
        return [any_value(r, bits, depth - 1) for _ in range(r.randint(0, 3))]
    if kind == "s":
        return any_word(r) + "".join(r.choices(bits, k=r.randint(0, 3)))
    return r.choice([r.randrange(10**9), -2.5, 1e-7, True, None])


def any_arguments(r, bits=("",)):
    """Draw the source of a JSON object in any layout, with such bits in its strings."""
    some = {key: any_value(r, bits) for key in r.sample(["name", any_word(r), any_word(r)], 2)}
    layout = r.choice([",", ", ", " ,\n"]), r.choice([":", " :", " :\r\n"])
    return json.dumps(some, ensure_ascii=r.choice([True, False]), separators=layout)


def object_of(r, members):
    """Write a JSON object of these members: pairs of the sources of a key and its value."""
    gap = r.choice(["", " ", "\n", "\n\t"])
    return f"{{{gap}{f'{gap},'.join(f'{key}{gap}:{value}' for key, value in members)}{gap}}}"


def any_call(r, bits=STRING_BITS):
    """Draw a call with such bits in its strings."""
    name, arguments = any_word(r), any_arguments(r, bits)
    members = r.sample([('"name"', f'"{name}"'), ('"arguments"', arguments)], 2)
    return in_tags(object_of(r, members), name, arguments)


def plain_call(r, bits=("",)):
    """Draw a call as `json.dumps` writes it, with such bits in its strings."""
    name, words = any_word(r), [any_word(r) + "".join(r.choices(bits, k=2)) for _ in range(3)]
    values = r.sample([r.randrange(1000), *words, [any_word(r), 7]], r.randint(1, 4))
    arguments = json.dumps({any_word(r): value for value in [words[0], *values]})
    return in_tags(f'{{"name": "{name}", "arguments": {arguments}}}', name, arguments)


def no_call(r):
    """Draw a body that is nearly a call."""
    body = r.choice(NOT_CALLS[:-4]).replace('"f"', f'"{any_word(r)}"')
    return in_tags(body.replace("{}", any_arguments(r)))


def any_stream(r):
    """Draw 1 to 5 parts of any kind."""
    return [r.choice([any_text, any_call, any_call, no_call])(r) for _ in range(r.randint(1, 5))]


def drawn(lab, count, *kinds):
    """Draw streams that have a part of each of these kinds."""
    return [[kind(lab.random) for kind in kinds] for _ in range(count)]


def overlapping_tags(r):
    """Draw an open tag, and a close tag whose end is the start of the open tag."""
    first = "".join(r.choices("AB", k=r.randint(2, 5)))
    return first, r.choice(["", "/"]) + first[: r.randint(1, len(first))]


def source_of(stream):
    """The characters of a stream."""
    return "".join(part.source for part in stream)


def cut(r, stream, way):
    """Cut a stream at some places: none for the `whole`, all for `single` characters, or `few`;
    `gaps` are single characters with an empty piece before and after each.
    """
    size = len(source_of(stream))
    every, few = range(1, size), r.randint(1, 6)
    places = {"whole": [], "single": [*every], "gaps": [*range(size + 1)] * 2}
    return stream, places[way] if way in places else r.sample(every, min(few, len(every)))


def pieces_of(stream, places):
    """The pieces of a stream that is cut at these places; empty where a place comes twice."""
    return cut_at(source_of(stream), places)


def events_of(stream):
    """The event of each part of a stream."""
    count = itertools.count()
    return [ToolCall(next(count), *p.call) if p.call else TextDelta(p.source) for p in stream]


def steps_of(stream, places):
    """The events of each piece, and what is held then: a possible open tag, or the open call."""
    steps, waiting = [], ""
    for part, event in zip(stream, events_of(stream), strict=True):
        for place, char in enumerate(part.source, 1):
            held = waiting + char
            while not (OPEN.startswith(held) or (part.tagged and place >= len(OPEN))):
                held = held[1:]
            out = TextDelta((waiting + char).removesuffix(held))
            if part.tagged and place == len(part.source):
                out, held = event, ""
            steps.append(([out] if out != TextDelta("") else [], held))
            waiting = held
    ends = [0, *itertools.accumulate(map(len, pieces_of(stream, places)))]
    outs = ([out for out, _ in steps[start:end]] for start, end in itertools.pairwise(ends))
    outputs = [joined(itertools.chain(*out)) for out in outs]
    return outputs, [steps[end - 1][1] if end else "" for end in ends[1:]]


def feed(lab, pieces, *tags, end=""):
    """Feed the pieces to a parser and leave the stream open, or end it."""
    return lab.stream(lab.new("StreamingToolParser", *tags), pieces, end=end)


def outputs_of(trace):
    """What each call returned, with adjacent text joined."""
    return [joined(out) if isinstance(out, list) else out for out in trace.outputs]


def check_streams(lab, what, streams, *ways, end=""):
    """Check streams cut in these ways: all `events`, or `outputs` or `held` piece by piece."""

    def rule(case):
        trace = feed(lab, pieces_of(*case), end=end)
        if what == "events":
            expect(trace.events, joined(events_of(case[0])), trace)
        elif what == "held":
            expect(trace.held, steps_of(*case)[1], trace, "held")
        else:
            expect(outputs_of(trace), steps_of(*case)[0], trace)

    check(rule, [cut(lab.random, stream, way) for stream in streams for way in ways])


def turned(text):
    """The text with round and pointed brackets exchanged."""
    return text.translate(str.maketrans("<>()", "()<>"))


def turned_events(events):
    """The events with round and pointed brackets exchanged."""
    return [
        replace(event, text=turned(event.text))
        if isinstance(event, TextDelta)
        else replace(event, name=turned(event.name), arguments=turned(event.arguments))
        for event in events
    ]


def brings_out(lab, pieces, wanted, call, *tags):
    """A long stream, described by `call`, must give these events, and no call only at flush."""
    trace = lab.stream(lab.new("StreamingToolParser", *tags), pieces, watch="")
    expect_long(trace.events, wanted, call)
    late = [event for event in trace.outputs[-1] if isinstance(event, ToolCall)]
    expect_long(late, [], f"{call}: the calls returned by flush")


def check_lengths(lab, cases):
    """Check held_suffix_len of each text and marker by its definition."""

    def rule(case):
        text, marker = case
        lengths = [length for length in range(len(marker)) if text.endswith(marker[:length])]
        call = f"held_suffix_len({text!r}, {marker!r})"
        expect(lab.call("held_suffix_len", text, marker), max(lengths), call)

    check(rule, cases)


@pytest.mark.given
def test_naive_regex_per_piece_misses_the_call():
    """A regular expression applied to each piece alone never sees the call that spans them."""
    pieces = ["Sure. <tool", '_call>{"name": "f", "arguments": {}}</tool', "_call>"]
    assert not any(re.search("<tool_call>.*</tool_call>", piece) for piece in pieces)


@pytest.mark.given
def test_empty_tags_are_rejected(lab):
    """An empty tag raises ValueError; the starter already has this check."""
    lab.rejects(lab.new("StreamingToolParser", ""))
    lab.rejects(lab.new("StreamingToolParser", "<call>", ""))


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_held_suffix_len_of_tags(lab):
    """held_suffix_len is the length of the longest suffix of the text that begins the marker but is
    not the whole marker; 0 if there is none.
    """
    texts = {"": 0, "a < b": 0, "so <": 1, "so <tool_call": 10, OPEN: 0, "<tool<tool": 5, "<<": 1}
    for text, length in texts.items():
        call = f"held_suffix_len({text!r}, {OPEN!r})"
        expect(lab.call("held_suffix_len", text, OPEN), length, call)
    r = lab.random
    check_lengths(lab, [(any_text(r).source, r.choice([*TAGS, "<<", "§"])) for _ in range(30)])


@pytest.mark.task(1)
@pytest.mark.points(6)
def test_held_suffix_len_by_definition(lab):
    """The definition holds for every text, even if the marker overlaps itself: the longest suffix
    of the text that is a proper prefix of the marker.
    """
    markers = "a", "aa", "ab", "aab", "aba", "abab", "aabaa"
    check_lengths(lab, itertools.product(small_strings("ab", 4), markers))
    r, cases = lab.random, []
    for _ in range(60):
        marker = "".join(r.choices(r.choice(["ab", "<|>", "né"]), k=r.randint(1, 9)))
        starts = (marker[: r.randint(0, 9)] for _ in range(r.randint(1, 4)))
        cases.append(("".join(starts), marker))
    check_lengths(lab, cases)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_plain_text_streams_at_once(lab):
    """Text that cannot begin a tag is emitted at once, piece by piece; an empty piece gives [] and
    changes nothing.
    """
    trace = feed(lab, ["Hello", "", ", world > 3 <"])
    expect(trace.outputs, [[TextDelta("Hello")], [], [TextDelta(", world > 3 ")]], trace)
    check_streams(lab, "outputs", drawn(lab, 20, any_words, half_a_tag), "few", "gaps")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_possible_tag_is_held(lab):
    """Only the possible start of a tag is held, and it is released once it cannot be a tag."""
    trace = feed(lab, ["so <to", "ol", "box", " <"])
    wanted = [[TextDelta("so ")], [], [TextDelta("<toolbox")], [TextDelta(" ")]]
    expect(trace.outputs, wanted, trace)
    streams = drawn(lab, 30, any_words, half_a_tag, any_words, half_a_tag)
    check_streams(lab, "outputs", streams, "few")


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_lookalikes_are_text(lab):
    """Other tags, tags in other case and broken tags are text: they are emitted unchanged, and no
    text is held for them.
    """
    text = "a << b <tool> <TOOL_CALL> <tool_cal l> <tool_calls> < tool_call> "
    for pieces in ([text + "<tool"], list(text + "<tool")):
        trace = feed(lab, pieces)
        expect(trace.events, [TextDelta(text)], trace)
    trace = feed(lab, ["a <TOOL", "_call> <Tool"])
    expect(trace.outputs, [[TextDelta("a <TOOL")], [TextDelta("_call> <Tool")]], trace)
    streams = drawn(lab, 12, any_words, lookalike, any_words, half_a_tag)
    streams += drawn(lab, 12, any_words, lambda r: Part(half_a_tag(r).source.title()))
    check_streams(lab, "outputs", streams, "whole", "single")


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_stray_close_tag_is_text(lab):
    """A close tag outside a call is text, unchanged, and no text is held for it."""
    trace = feed(lab, ["a </tool_", "call> b <"])
    wanted = [[TextDelta("a </tool_")], [TextDelta("call> b ")]]
    expect(trace.outputs, wanted, trace)
    streams = drawn(lab, 12, any_words, lambda r: Part(CLOSE), any_words, half_a_tag)
    check_streams(lab, "outputs", streams, "single", "few")


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_held_shows_a_possible_tag(lab):
    """Outside calls `held` is exactly the possible start of an open tag."""
    trace = feed(lab, ["a <tool", "s> <", "tool_", "x", "<<"])
    expect(trace.held, ["<tool", "<", "<tool_", "", "<"], trace, "held")
    check_streams(lab, "held", drawn(lab, 20, any_text, half_a_tag), "few")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_held_shows_the_open_call(lab):
    """Inside a call `held` is its source, open tag included, until the close tag is complete."""
    body, close = '{"name":"f","arguments":{}}', "</tool"
    trace = feed(lab, ["a <tool", "_call>" + body, close, "_call>b <"])
    held = ["<tool", OPEN + body, OPEN + body + close, "<"]
    expect(trace.held, held, trace, "held")
    check_streams(lab, "held", drawn(lab, 20, any_words, plain_call, any_words, half_a_tag), "few")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_call_in_one_piece(lab):
    """A whole call in one piece is one ToolCall; the text before and after it keeps its place."""
    body, name, source = CALLS[1]
    trace = feed(lab, [f"Sure. {OPEN}{body}{CLOSE} Done."])
    wanted = [TextDelta("Sure. "), ToolCall(0, name, source), TextDelta(" Done.")]
    expect(trace.events, wanted, trace)
    check_streams(lab, "events", drawn(lab, 20, any_words, plain_call, any_words), "whole")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_call_one_character_at_a_time(lab):
    """A call that arrives character by character is emitted with the last character of its close
    tag.
    """
    body, name, source = CALLS[1]
    pieces = list(OPEN + body + CLOSE)
    trace = feed(lab, pieces)
    expect(trace.outputs, [[]] * (len(pieces) - 1) + [[ToolCall(0, name, source)]], trace)
    check_streams(lab, "outputs", drawn(lab, 10, plain_call), "single")


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_arguments_are_the_source_byte_for_byte(lab):
    """Arguments are the model's own characters from { to }, whatever characters these are, with
    spaces, escapes and numbers as written; spaces, tabs, CR and LF may surround every part of a
    call.
    """
    streams = [[in_tags(*call)] for call in CALLS]
    check_streams(lab, "events", streams + drawn(lab, 40, any_call), "whole")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_key_order_and_extra_keys(lab):
    """Keys count at the top level only, in any order; keys and the name are JSON strings, so their
    escapes are decoded, as json.loads does; other keys, such as "Name" or "parameters", are
    ignored; a name may be any string, even "".
    """
    calls = [
        ('{"arguments": {"name":"x"}, "id": "c1", "name": ""}', "", '{"name":"x"}'),
        ('{"m": {"arguments": {"no": 1}}, "name": "f", "arguments": {"y": 1}}', "f", '{"y": 1}'),
        (r'{"\u006eame": "f", "argument\u0073": {}}', "f", "{}"),
        (r'{"name": " S\u00e3o \"1\"", "arguments": {}}', ' São "1"', "{}"),
        ('{"name": "arguments", "arguments": {"x": 1}}', "arguments", '{"x": 1}'),
        (r'{"name": "a\/b\n", "arguments": {}}', "a/b\n", "{}"),
        (r'{"name": "\ud800", "arguments": {}}', "\ud800", "{}"),
        ('{"name": "Sa\u0303o\ufeff\u00a0", "arguments": {}}', "Sa\u0303o\ufeff\u00a0", "{}"),
        *(
            (f'{{"name": "f", "arguments": {{}}, "{key}": {{"name": "g"}}}}', "f", "{}")
            for key in OTHER_KEYS
        ),
    ]
    r = lab.random
    for _ in range(30):
        name, source = r.choice(["", "name", f' ã "{any_word(r)}"\t']), any_arguments(r)
        names, keys = ['"name"', r'"n\u0061me"'], ['"arguments"', r'"\u0061rgument\u0073"']
        members = [(r.choice(names), json.dumps(name)), (r.choice(keys), source)]
        others = r.sample([any_word(r), *OTHER_KEYS], r.randint(0, 3))
        members += [(f'"{key}"', json.dumps(any_value(r))) for key in others]
        calls.append((object_of(r, r.sample(members, len(members))), name, source))
    check_streams(lab, "events", [[in_tags(*call)] for call in calls], "whole")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_last_of_equal_keys_counts(lab):
    """If a key occurs twice, its last value counts: that value is judged and emitted."""
    calls = [
        ('{"name":"f","arguments":"x","arguments":{}}', "f", "{}"),
        ('{"name":"f","arguments":{"x":1},"arguments":{"y":2}}', "f", '{"y":2}'),
        (r'{"arguments":{},"argument\u0073":{"y":2},"name":1,"name":"g"}', "g", '{"y":2}'),
    ]
    r = lab.random
    for _ in range(20):
        name, source = any_word(r), any_arguments(r)
        keys = r.choices(['"name"', '"arguments"'], k=2)
        members = [(key, json.dumps(any_value(r))) for key in keys]
        members += r.sample([('"name"', f'"{name}"'), ('"arguments"', source)], 2)
        calls.append((object_of(r, members), name, source))
    check_streams(lab, "events", [[in_tags(*call)] for call in calls], "whole")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_close_tag_inside_a_string(lab):
    """A close tag inside a JSON string is part of the string, however the stream is cut."""
    streams = drawn(lab, 20, lambda r: plain_call(r, [CLOSE, "</tool", "<"]))
    streams.insert(0, [in_tags(*CALLS[3])])
    check_streams(lab, "events", streams, "whole", "single", *["few"] * 8)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_escaped_quotes_and_backslashes(lab):
    r"""Inside a string \" does not end it and \\ does not escape what follows, under any cut."""
    streams = drawn(lab, 20, lambda r: plain_call(r, ESCAPED))
    for source in (r'{"s":"\"</tool_call>"}', r'{"s":"\\"}', r'{"s":"\\\"</tool_call>\\"}'):
        streams.insert(0, [in_tags('{"name":"f","arguments":' + source + "}", "f", source)])
    check_streams(lab, "events", streams, "whole", "single")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_index_counts_calls(lab):
    """`index` counts the emitted calls, from 0, however many are in one piece; newlines between
    calls are text.
    """
    f, g = GOOD.source, in_tags(*CALLS[2]).source
    trace = feed(lab, [f"{f}\n{g}{f}"])
    calls = [event for event in trace.events if isinstance(event, ToolCall)]
    expect([(call.index, call.name) for call in calls], [(0, "f"), (1, "g"), (2, "f")], trace)
    expect(trace.events[1], TextDelta("\n"), trace)
    streams = drawn(lab, 10, plain_call, lambda r: Part("\n"), plain_call)
    check_streams(lab, "events", [stream * 3 for stream in streams], "whole")
    count = lab.random.randint(1_200, 1_800)
    many = [getattr(event, "index", event) for event in feed(lab, [f * count]).events]
    expect_long(many, [*range(count)], f"feed({count:,} calls in one piece): the indexes")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_other_tags(lab):
    """The tags are the constructor's, exactly as they are: any two non-empty strings, even if they
    are special or equal, overlap themselves, contain quotes, or begin or end in whitespace. A close
    tag counts if its first character is outside of strings.
    """
    r = lab.random
    tags = [("[TOOL_CALLS]", "[/TOOL_CALLS]"), ("aab", "aab"), ("(.*", "$)"), ("§", "¶")]
    tags += [('<call n="1>', "\n\n)"), ("<c>", '"""'), ('"<', '<">'), ("\\[", "\\]"), ("[", "]")]
    tags += [("\n[c]", "[/c]\n"), (" ", "\t"), ("\n", "\n\n"), ("<A>", "</A>"), ("^", "^")]
    for _ in range(16):
        letters = r.sample("AB(.*$)[]|^+?<>§\"'\\ ", 2)
        tags.append(tuple("".join(r.choices(letters, k=r.randint(1, 7))) for _ in range(2)))
    for first, last in tags:
        source = f'{{"x":{r.randrange(10**9)}}}'
        body = '{"name":"f","arguments":' + source + "}" + ("" if last.isspace() else "\n")
        if (body + last).find(last) < len(body):
            continue
        sent = "a" + first + body + last + "b"
        for pieces in ([sent], list(sent)):
            trace = feed(lab, pieces, first, last)
            wanted = [TextDelta("a"), ToolCall(0, "f", source), TextDelta("b")]
            expect(trace.events, wanted, trace)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_malformed_call_is_text(lab):
    """A body that is not a call, for whatever reason, is emitted unchanged, tags included, and uses
    no index; nothing is repaired: neither a comma too many, nor a key in other case, nor a call
    inside something else. Whitespace is a space, tab, CR or LF only.
    """
    bodies = NOT_CALLS + REPAIRABLE
    for char in NO_SPACES:
        bodies += [char + F, F + char, F.replace(" ", char, 1)]
    streams = [[Part("a "), in_tags(body), Part(" b"), GOOD] for body in bodies]
    streams += drawn(lab, 40, any_words, no_call, any_words, plain_call)
    check_streams(lab, "events", streams, "whole")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_nan_and_infinity_are_not_json(lab):
    """NaN, Infinity and -Infinity are not JSON (RFC 8259), so a body that contains one outside of
    strings is text, even in a value that does not count. In a string they are data, and 1e999 is
    a JSON number.
    """
    r, numbers = lab.random, ["NaN", "Infinity", "-Infinity"]
    sources = [f'{{"x": {number}}}' for number in numbers]
    for _ in range(12):
        members = [('"a"', json.dumps(any_value(r))), (f'"{any_word(r)}"', r.choice(numbers))]
        sources.append(object_of(r, r.sample(members, 2)))
    bodies = ['{"name": "f", "arguments": ' + source + "}" for source in sources]
    for key in ("id", "name", "arguments"):
        bodies.append(f'{{"{key}": {r.choice(numbers)}, "name": "f", "arguments": {{}}}}')
    check_streams(lab, "events", [[in_tags(body), plain_call(r)] for body in bodies], "whole")
    sources = ['{"x": 1e999}', '{"x": [-1e999, 1E+400]}', *(f'{{"{x}": "{x}"}}' for x in numbers)]
    calls = [in_tags(f'{{"name": "NaN", "arguments": {x}}}', "NaN", x) for x in sources]
    check_streams(lab, "events", [[call] for call in calls], "whole")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_malformed_call_is_not_scanned_again(lab):
    """An open tag inside a body that was not a call does not start one; a call after that body
    still counts. The end of a close tag is never the start of an open tag.
    """
    streams = [[Part("oops "), GOOD, GOOD], *drawn(lab, 10, any_words, plain_call, plain_call)]
    streams = [[in_tags(source_of(begin).removesuffix(CLOSE)), end] for *begin, end in streams]
    check_streams(lab, "events", streams, "whole")
    r = lab.random
    for first, last in [("@@", "@@"), ("AB", "/A"), *(overlapping_tags(r) for _ in range(10))]:
        rest = next(
            first[size:] for size in range(len(first), 0, -1) if last.endswith(first[:size])
        )
        for body, calls in (("no", []), (F, [ToolCall(0, "f", "{}")])):
            more = rest + F + last + "z"
            trace = feed(lab, [first + body + last, more], first, last)
            found = [event for event in trace.events if isinstance(event, ToolCall)]
            expect(found, calls, trace, "calls")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_what_python_cannot_read_is_text(lab):
    """A body with a whole number of 4,301 digits or more, in any value and with or without a minus,
    is also text, and so is one with 90,000 levels of nesting, of arrays or of objects: no input
    makes feed raise. 200 levels are read, and so are any number of brackets side by side or in
    strings, 4,300 digits, and numbers with a fraction or an exponent, and strings, of any length.
    No limit of Python is changed.
    """
    r = lab.random
    long = "1" * r.randint(4_302, 9_000)
    values = ["1" + "0" * 5_000, "[" * 90_000 + "]" * 90_000, "1" * 4_301, "-" + "9" * 4_301]
    values += [long, "[" + "[]," * 95_000 + '{"":' * r.randint(90_000, 92_000)]
    bodies = ['{"name": "f", "arguments": {"x": ' + value + "}}" for value in values]
    for key in ("id", "name", "arguments"):
        bodies.append(f'{{"{key}": {r.choice(["", "-"])}{long}, "name": "f", "arguments": {{}}}}')
    for body in bodies:
        stream = [in_tags(body), plain_call(r)]
        trace = feed(lab, [source_of(stream)])
        expect(trace.events, events_of(stream), trace)
    # Two levels are the body's object and the arguments.
    values = ["[" * levels + "]" * levels for levels in (198, r.randint(100, 198))]
    values += ['{"":' * 198 + "0" + "}" * 198, "1" * 4_300, "-" + "9" * 4_300, "0." + long]
    values += [f"1.{long}e-7", f"{long}.5", f"-{long}E+2", f"1.5e-{long}", f"-2e{long}"]
    many = r.randint(201, 999)
    values += [f'"{long}"', "[" + "[],{}," * many + "0]", f'"\\"{"[{" * many}"', f'"]{"[" * many}"']
    for value in values:
        arguments = '{"x": "[", "y": ' + value + "}"
        call = in_tags(f'{{"name": "f", "arguments": {arguments}}}', "f", arguments)
        stream = [call, in_tags("{}")]
        trace = feed(lab, [source_of(stream)])
        expect(trace.events, events_of(stream), trace)
    sources = [in_tags(body).source for body in ("x", "1" * 4_301, F, "[" * 90_000)]
    reader = lab.new("given.Reader", lab.new("StreamingToolParser"))
    trace = lab.script(reader, [("limits_after", sources, 1_000, 4_300)], watch="")
    expect(trace.outputs[0], [1_000, 4_300], trace, "limits of recursion and of digits")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_unfinished_call_is_text_at_flush(lab):
    """At flush an unfinished call is text, open tag included; no character is added or lost, and
    no call in it counts.
    """
    sources = [
        '<tool_call>{"name": "f", "arguments": {"x": 1}}',
        '<tool_call>{"x": "</tool_call>',
        '<tool_call>{"name": "f", "arguments": {}}</tool',
        "<tool_call> \n",
        '<tool_call>{"name": "f", "arguments": {}}\r\n',
        '<tool_call>{"name": "f\ufeff',
        OPEN + '{"x": "' + CLOSE + GOOD.source,
    ]
    for (call,) in drawn(lab, 12, lambda r: any_call(r, [CLOSE, "</tool"])):
        sources.append(call.source[: lab.random.randrange(len(OPEN), len(call.source))])
    for source in sources:
        trace = feed(lab, ["a ", *source], end="flush")
        expect(trace.events, [TextDelta("a " + source)], trace)
        expect(trace.outputs[-1], [TextDelta(source)], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_flush_once(lab):
    """flush returns the held text, once; a second flush returns [], and no text is held."""

    def rule(case):
        before, tag = (part.source for part in case)
        calls = [("feed", before + tag), ("flush",), ("flush",)]
        trace = lab.script(lab.new("StreamingToolParser"), calls)
        expect(trace.outputs, [[TextDelta(before)], [TextDelta(tag)], []], trace)
        expect(trace.held, [tag, "", ""], trace, "held")

    check(rule, [[Part("a "), Part("<tool")], *drawn(lab, 12, any_words, half_a_tag)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_flush_ends_the_stream(lab):
    """After flush a new stream begins: wherever the first stream ended, inside a tag, a call or a
    string, none of its state is left. The parser still has its own tags.
    """

    def rule(case):
        first, place, second = case
        pieces = ["a" + first.source[:place], source_of(second)]
        events = joined(events_of(second))
        tags = ()
        if place % 2:
            tags, pieces, events = map(turned, TAGS), map(turned, pieces), turned_events(events)
        begin, end = (("feed", piece) for piece in pieces)
        new = lab.new("StreamingToolParser", *tags)
        trace = lab.script(new, [begin, ("flush",), end, ("flush",)], watch="")
        expect(trace.outputs[0], [TextDelta("a")], trace)
        expect(outputs_of(trace)[2], events, trace, at=2)

    first = in_tags(r'{"name":"q","arguments":{"s":"\"}\\"}}')
    call = in_tags(f'{{"":"{CLOSE}","name":"f","arguments":{{}}}}', "f", "{}")
    places = range(len(first.source))
    seconds = [Part("_call>"), call, Part("b")], [in_tags(""), GOOD]
    cases = [(first, place, second) for second in seconds for place in places]
    for first, *second in drawn(lab, 20, plain_call, any_words, plain_call, any_words):
        cases.append((first, lab.random.randrange(len(first.source)), second))
    check(rule, cases)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_index_restarts_after_flush(lab):
    """`index` is the position of a call in its stream: after flush it counts from 0 again, whether
    flush returns held text or [].
    """

    def rule(streams):
        calls = [(("feed", source_of(stream) + end), ("flush",)) for stream, end in streams]
        trace = lab.script(lab.new("StreamingToolParser"), itertools.chain(*calls), watch="")
        wanted = [events_of(stream) for stream, _ in streams]
        pairs = zip(trace.outputs[::2], wanted, strict=True)
        at = next((2 * number for number, (one, other) in enumerate(pairs) if one != other), None)
        expect(trace.outputs[::2], wanted, trace, "feed returned", at)

    r = lab.random
    ends = ["", "<to", OPEN, OPEN + '{"a":']
    cases = [[([GOOD], end), ([GOOD, GOOD], ""), ([GOOD], "")] for end in ends]
    for _ in range(8):
        cases.append([([plain_call(r)] * r.randint(1, 3), r.choice(ends)) for _ in range(4)])
    check(rule, cases)


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_chunk_invariant(lab):
    """complete, chunk-invariant: a stream gives the same events however it is cut, with empty
    pieces or without, and no character is changed, whatever it is.
    """
    bits = [[Part(bit)] for bit in TEXT_BITS]
    check_streams(lab, "events", [[GOOD, Part("\n")], *bits], "whole", end="flush")
    check_streams(lab, "events", [*bits, [in_tags(*CALLS[4])]], "gaps", end="flush")
    streams = [any_stream(lab.random) for _ in range(50)]
    check_streams(lab, "events", streams, "whole", "single", *["few"] * 4, end="flush")


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_eager(lab):
    """eager: after every character, only the possible start of a tag or the open call is held."""
    check_streams(lab, "outputs", [any_stream(lab.random) for _ in range(30)], "single")


@pytest.mark.task(4)
@pytest.mark.points(5)
def test_property_isolated(lab):
    """isolated: parsers fed in turns, each with tags of its own, return, piece by piece, what each
    returns alone; each list is new, and no later call changes it.
    """

    def rule(cases):
        # Every second parser reads the same with round and pointed brackets exchanged.
        pieces = [pieces_of(*case) for case in cases]
        pieces[1::2] = [[*map(turned, own)] for own in pieces[1::2]]
        new = [lab.new("StreamingToolParser"), lab.new("StreamingToolParser", *map(turned, TAGS))]
        traces = lab.interleave((new * len(cases))[: len(cases)], pieces, "flush")
        for number, (trace, case) in enumerate(zip(traces, cases, strict=True)):
            outputs = steps_of(*case)[0]
            if number % 2:
                outputs = [*map(turned_events, outputs)]
            expect(outputs_of(trace)[:-1], outputs, trace)
            expect_untouched(trace)

    r = lab.random
    say = [Part("a "), in_tags(*CALLS[3]), Part("b")]
    h = [in_tags(*CALLS[6]), Part("c"), in_tags("no")]
    cases = [[cut(r, stream, "single") for stream in (say, h)]]
    for _ in range(20):
        streams = drawn(lab, r.randint(2, 4), any_words, plain_call, any_words, half_a_tag)
        cases.append([cut(r, stream, "few") for stream in streams])
    check(rule, cases)


@pytest.mark.task(4)
@pytest.mark.points(4)
@pytest.mark.timeout(8)
def test_property_linear_in_a_call(lab):
    """linear: the work for a piece does not grow with the call that is open, whether the piece ends
    inside a string, after a bracket or in half a close tag; a call with 3,200,000 characters of
    arguments, in 34,000 to 40,000 pieces, finishes well within the time limit.
    """
    count = lab.random.randint(34_000, 40_000)
    size = 3_200_000 // count
    hostile = '"call(' + HOSTILE[: size - 7] + "\\"
    plain = HOSTILE[:size]
    values = "[1.5e-7, 1234567890123456789, null, {}", ", -0.25, false, 987654321098765432]],\n"
    rows = ["[" + values[0].rjust(size - 1), values[1].rjust(size)]
    third = count // 3
    first, last = OPEN + '{"name": "w", "arguments": ', "}\n" + CLOSE
    parts = ['{"code": "🚀\\', *[hostile] * third, '""', ', "plain": "', *[plain] * third, '"']
    parts += [', "rows": [\n', *rows * (third // 2), "[]]}"]
    wanted = [ToolCall(0, "w", "".join(parts)), TextDelta(".")]
    fed = f"a call of 3,200,000 characters in {count:,} pieces"
    brings_out(lab, [first, *parts, last, "."], wanted, fed, OPEN, "\n" + CLOSE)


@pytest.mark.task(4)
@pytest.mark.points(2)
@pytest.mark.timeout(8)
def test_property_linear_in_a_piece(lab):
    """linear: the work for one huge piece grows with its length, however many bodies are in it, and
    however many keys, strings and escapes a body has; 3,800,000 characters finish well within the
    time limit.
    """
    count = lab.random.randint(12_000, 13_000)
    texts = HOSTILE * 14_000 + in_tags("_tool_🚀").source * count
    strings = r'"call\n(_tool\\"' + ", []" * 2
    source = '{"x": [' + f"{strings}, " * 8_000 + '"' + HOSTILE * 14_000 + '"]}'
    keys = '"🚀": 7,' * 12_000
    call = in_tags(f'{{{keys} "name": "w", "arguments": {source}}}', "w", source)
    wanted = [TextDelta(texts), ToolCall(0, "w", source), TextDelta(".")]
    fed = f"{count:,} bodies that are not calls and a long call in one piece"
    brings_out(lab, [texts + call.source + "."], wanted, fed)


def keeps_little(lab):
    """The memory of a parser must not grow with emitted text, calls and rejected bodies, however
    long the last of them is, nor when `held` is read again inside a call, nor with the text
    that flush returned.
    """
    r = lab.random
    kinds = [any_words, half_a_tag, lookalike, plain_call, lambda r: in_tags(any_word(r))]
    few, many = ([*map(source_of, drawn(lab, count, *kinds))] for count in (20, 200))
    long = any_word(r) * 3_000
    call = in_tags(f'{{"name": "f", "arguments": {{"x": "{long}"}}}}').source
    begun = OPEN + '{"x": "' + long
    rows = [
        (f"{len(many)} more streams", many),
        (f"a text of {len(long):,} characters", [long]),
        ("a call with that text", [call]),
        ("that text as a body that is not a call", [in_tags(long).source]),
    ]
    weigh, new = Call("weight", None, object=1), lab.new("StreamingToolParser")
    calls = [("feed_silently", few), weigh]
    for _, sources in rows:
        calls += [("feed_silently", sources), weigh]
    calls += [("feed_silently", [begun]), Call("flush", object=2), weigh]
    for pieces in ([begun, "", ""], [""] * 20):
        calls += [("feed_silently", pieces), weigh]
    news = [lab.new("given.Reader", new), lab.new("given.Scale", new), new]
    outputs = lab.script(news, calls, watch="").outputs
    first, *later, ended, once, often = (out for out in outputs if type(out) is int)
    for (call, _), weight in zip(rows, later, strict=True):
        expect_most(weight - first, MOST_GROWN, call, "bytes more are kept")
    call = "flush inside a call"
    expect_most(ended - first, MOST_GROWN, call, "bytes more are kept")
    call = "`held` of an open call is read 20 more times"
    expect_most(often - once, MOST_GROWN, call, "bytes more are kept")


@pytest.mark.task(4)
@pytest.mark.points(2)
@pytest.mark.timeout(8)
def test_property_linear_in_a_stream(lab):
    """linear: the work for a piece does not grow with the emitted text; 3,600,000 characters of
    text with 1,600 to 2,000 calls in it, in 20,000 pieces, finish well within the time limit. Only
    held text is stored, once, however often `held` is read: nothing of the last text, call or
    rejected body, and nothing after flush.
    """
    keeps_little(lab)
    count = lab.random.randint(1_600, 2_000)
    texts = ["call(<tool_cal" + (HOSTILE * 2)[:205] + "<tool"] * (20_000 // count - 2)
    wanted = events_of([Part("🚀" + "".join(texts)), GOOD] * count + [Part(".")])
    fed = f"{count:,} calls in a long text"
    brings_out(lab, [*["🚀", *texts, GOOD.source] * count, "."], wanted, fed)
