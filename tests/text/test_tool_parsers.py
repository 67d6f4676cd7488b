"""The properties P1-P13 of the tool parsers, for every format and every way to cut a text.

Calls are drawn, written by a renderer, and read back: the events must be those of the renderer and
those of a reference that sees the whole text. Then the texts are damaged: whatever a model writes,
events do not depend on how it was cut, nothing is lost, and each call is valid or flagged.

P12, composition, is in `test_reasoning` (splitter before parser) and in `test_pipeline`.
"""

import ast
import copy
import dataclasses
import functools
import itertools
import json
import os
import random
import re
import subprocess
import sys

import pytest
from chunking import chunkings, cut_at, norm, run, same_under_all, sized
from families import STYLES, reference
from families.python_calls import read_literal
from hypothesis import given, settings
from hypothesis import strategies as st
from references import Invalid
from renderers import NAMES, PARAMETERS, TOOLS, Call, with_references

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.text.formats import FORMATS
from mini_vllm.text.json_scanner import JsonScanner
from mini_vllm.text.memory import NOWHERE, Memory
from mini_vllm.text.schemas import parameter_types
from mini_vllm.text.states import basic
from mini_vllm.text.states import object as states_object
from mini_vllm.text.stream_parser import StreamParser
from mini_vllm.text.tool_parsers import create_tool_parser, main

TYPES = dict.fromkeys(NAMES, PARAMETERS)
EXAMPLES = 250 if os.environ.get("SOAK") else 6
some = settings(max_examples=EXAMPLES)
few = settings(max_examples=EXAMPLES // 3)
pairs = settings(max_examples=EXAMPLES // 5)
# What `ast` says of escapes that Python does not know.
pytestmark = pytest.mark.filterwarnings("ignore:.*escape sequence")
every_style = pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)

FRAGMENTS = [
    "a", "Z", "0", " ", "é", "北京", "😀", "e\u0301", "\u2028", "\x7f", "\n", "\r\n", "\t", "\\",
    '"', "'", "{", "}", "[", "]", "(", ")", ",", ":", "=", "/", "<", ">", "|", '"}', "}}", '\\"',
    "]]", "\\u0041", "word ", '{"name": "g", "arguments": {}}', "<think>", "`", "\x00", "-1", "; ",
]  # fmt: skip
LOOK_ALIKES = [
    "<tool_call", "[TOOL_", "</", "<|", "<｜tool", "<function", "function=", "functools[",
]  # fmt: skip


# Whatever the markup around a name allows.
ODD_NAMES = ["first name", "a[0].b", 'say "it"', "l'été", "{k}|(1)=2"]
# A format that reads this name reads any: it is a string with escapes.
ANY_NAME = '\n"}]> <'
SAMPLES = {name: style.sample for name, style in STYLES.items()}

ALLOWED = parameter_types(TOOLS)


def make(style):
    """A fresh parser, as `create_tool_parser` makes it, without reading the tools again."""
    return StreamParser(FORMATS[style.format], types=ALLOWED)


def parse(style, text):
    return run(make(style), [text])


@functools.cache
def reads_name(style, name):
    """Whether a call may have this name in a format, by the format's own reference."""
    text, expected = style.render([Call(name, {})], ["", ""], Plain())
    return reference(style, text, TYPES) == expected


# Drawing texts.


def texts(style, most=6):
    parts = st.sampled_from([*FRAGMENTS, *LOOK_ALIKES, *style.markers])
    return st.lists(parts, max_size=most).map("".join)


def without(text, markers):
    """Whether none of the markers is in the text, also if it is followed by one."""
    return all((text + marker).index(marker) == len(text) for marker in markers)


def values(style):
    strings = texts(style).filter(lambda text: without(text, style.closers))
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
        strings,
        strings,
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
        max_leaves=5,
    )


def calls(style):
    if style.python:
        names = [name for name in NAMES if re.fullmatch(r"[\w.]+", name)]
        names, keys = st.sampled_from(names), st.sampled_from([*PARAMETERS, "größe"])
    elif not style.json:
        names = st.sampled_from([*NAMES, "unknown"])
        keys = st.sampled_from([*PARAMETERS, "größe", "x-1", *ODD_NAMES])
    else:
        names, keys = st.sampled_from(NAMES), texts(style, 3)
        if reads_name(style, ANY_NAME):
            names |= texts(style, 3).filter(bool)
    odd = [name for name in ODD_NAMES if reads_name(style, name)]
    if odd:
        names |= st.sampled_from(odd)
    arguments = st.dictionaries(keys, values(style), max_size=3)
    return st.builds(Call, names, arguments)


@st.composite
def written(draw, style):
    """A valid text and its events."""
    drawn = draw(st.lists(calls(style), max_size=3))
    prose = texts(style, 4).filter(lambda text: without(text, style.openers))
    if style.opening:
        prose = prose.filter(lambda text: text.strip()[:1] not in tuple(style.opening))
    prose = draw(st.lists(prose, min_size=len(drawn) + 1, max_size=len(drawn) + 1))
    layout = random.Random(draw(st.integers(0, 2**16)))
    return style.render(drawn, prose, layout)


@st.composite
def damaged(draw, style, text):
    """The text with one to three damages."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        kind = draw(st.sampled_from(["cut", "insert", "insert", "delete", "double", "replace"]))
        if kind == "cut":
            text = text[:start]
        elif kind == "delete":
            text = text[:start] + text[end:]
        elif kind == "double":
            text = text[:end] + text[start:]
        else:
            new = draw(st.sampled_from([*FRAGMENTS, *LOOK_ALIKES, *style.markers]))
            text = text[:start] + new + text[start if kind == "insert" else end :]
    return text


# Drawn texts, valid and damaged. To draw one takes longer than to check it, so each is checked for
# all properties that need no other text.


@every_style
@some
@given(data=st.data())
def test_drawn_texts_have_every_property(style, data):
    text, expected = data.draw(written(style))
    check_p1_p5_valid(style, text, expected)
    text = data.draw(damaged(style, text))
    events = check_p1_cuts(style, text)
    check_calls(events)
    assert all(event.reason for event in events if isinstance(event, Malformed))
    check_p7_without_a_call_all_is_text(style, text, events)
    check_p11_flush_in_any_state(style, text)
    check_a_cut_completes_nothing(style, text, events)
    check_p13_interleaved(style, [text, text[len(text) // 2 :], text[::-1]])


@every_style
@pairs
@given(data=st.data())
def test_each_prefix_of_a_drawn_text_has_every_property(style, data):
    text, _ = data.draw(written(style))
    for one in (text, data.draw(damaged(style, text))):
        check_p2_prefixes(style, one)
        check_nothing_lost(style, one)


def check_p1_p5_valid(style, text, expected):
    """However it is cut, a valid text gives the events of its renderer and of the reference."""
    read = reference(style, text, TYPES)
    assert read is not None, f"the reference reads what its renderer writes as Invalid: {text!r}"
    assert read == expected
    assert same_under_all(lambda: make(style), text, style.markers, every_cut=False) == expected


def check_p1_cuts(style, text):
    """Every way to cut a text gives the events of the reference, where that has an opinion."""
    events = same_under_all(lambda: make(style), text, style.markers, every_cut=False)
    expected = reference(style, text, TYPES)
    # The parser takes less than Python does: no `"a" "b"`, no `0x1`.
    less = style.python and any(isinstance(e, Malformed | TextDelta) for e in events)
    assert less or expected is None or events == expected
    return events


def check_p2_prefixes(style, text):
    """The events of a prefix are a prefix of the events."""
    whole = parse(style, text)
    for end in range(len(text)):
        assert_prefix(norm(make(style).feed(text[:end])), whole)


def check_p7_without_a_call_all_is_text(style, text, events):
    closed = style.sections and any(marker in text for marker in style.openers)
    if not closed and not any(isinstance(event, CallStart) for event in events):
        assert events == ([TextDelta(text)] if text else [])


def check_p11_flush_in_any_state(style, text):
    parser = make(style)
    first = run(parser, sized(text, 5))
    assert parser.flush() == []
    assert parser.held == ""
    assert run(parser, sized(text, 3)) == first


def check_a_cut_completes_nothing(style, text, events):
    """A text that was cut off has the same events, but its last call may lack the end.

    Then what comes instead of the end is malformed, and is the last event.
    """
    parser = make(style)
    cut = norm([*parser.feed(text), *parser.flush(cut=True)])
    if cut != events:
        *same, end = cut
        assert isinstance(end, Malformed)
        ended = events.index(CallEnd(end.index))
        assert all(isinstance(event, TextDelta) for event in events[ended + 1 :])
        if style.json:
            assert same == events[:ended]
        else:
            # The brace that closes the arguments comes with the end.
            assert_prefix(same, events[:ended])
            assert events[ended - 1].text.endswith("}")


def check_p13_interleaved(style, texts):
    """Streams that take turns give the events that each gives alone."""
    parsers = [make(style) for _ in texts]
    pieces = [sized(text, size) for text, size in zip(texts, (1, 2, 3), strict=True)]
    events = [[] for _ in texts]
    for turn in range(max(len(part) for part in pieces)):
        for parser, part, seen in zip(parsers, pieces, events, strict=True):
            if turn < len(part):
                seen += parser.feed(part[turn])
    for parser, seen, text in zip(parsers, events, texts, strict=True):
        assert norm([*seen, *parser.flush()]) == parse(style, text)


# P1 and P5: how a text is cut changes nothing, and arguments are what the model wrote.


@pytest.mark.parametrize("name", SAMPLES)
def test_p1_p5_samples_under_every_cut(name):
    style, text = STYLES[name], SAMPLES[name]
    expected = reference(style, text, TYPES)
    assert expected is not None, "the reference reads its own sample as Invalid"
    assert [event.name for event in expected if isinstance(event, CallStart)] in (["f", "g"], ["f"])
    assert same_under_all(lambda: make(style), text, style.markers, seeds=20) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_p1_p7_p11_samples_that_end_at_every_place(name):
    """Calls are valid or flagged, cuts change nothing, nothing is lost, the parser is fresh."""
    style, text = STYLES[name], SAMPLES[name]
    expected, parser = parse(style, text), make(style)
    streams = {size: (make(style), []) for size in (1, 2, 5)}
    for end in range(len(text)):
        events = parse(style, text[:end])
        check_calls(events)
        for size, (stream, seen) in streams.items():
            whole = end - end % size
            if end and end == whole:
                seen[:] = norm([*seen, *stream.feed(text[end - size : end])])
            assert norm([*seen, *run(copy.copy(stream), sized(text[whole:end], size))]) == events
        assert run(parser, [text[:end]]) == events
        check_a_cut_completes_nothing(style, text[:end], events)
        assert (parser.held, parser.flush()) == ("", [])
        assert run(parser, [text]) == expected
    for end in (len(text), *range(0, len(text), 7)):
        check_nothing_lost(style, text[:end])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", "a <tool_call> b </tool"), ("mistral-args", "[TOOL_CALLS]f{}]"),
        ("llama_json", '{"name":"f"; 1}'), ("pythonic", "[f(a='\\x41'),g()] x"),
        ("qwen3_coder", "<tool_call><function=>"), ("glm45", "<tool_call>f</tool_call>"),
        ("harmony", "<|channel|>x<|message|>y"),
    ],
)  # fmt: skip
def test_p1_short_texts_under_every_two_cuts(name, text):
    assert len(text) <= 24
    same_under_all(lambda: make(STYLES[name]), text, STYLES[name].markers)


def assert_prefix(early, late):
    if early:
        *done, last = early
        assert done == late[: len(done)]
        longer = late[len(done)]
        if isinstance(last, TextDelta | ReasoningDelta | ArgsDelta):
            cut = dataclasses.replace(longer, text=longer.text[: len(last.text)])
            assert last == cut
        else:
            assert last == longer


# P3: what some continuation cannot change is out.


def common(first, second):
    """The longest list of events that both begin with; the last may be a part."""
    same = []
    for one, other in zip(first, second, strict=False):
        if one != other:
            if type(one) is type(other) and isinstance(one, TextDelta | ReasoningDelta | ArgsDelta):
                pairs = zip(one.text, other.text, strict=False)
                text = "".join(
                    a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)
                )
                alike = dataclasses.replace(one, text="") == dataclasses.replace(other, text="")
                same += [dataclasses.replace(one, text=text)] if text and alike else []
            break
        same.append(one)
    return same


def rest(style, text, end):
    """What completes a marker that a text may end in, and a call after it."""
    for marker in style.markers:
        for size in range(1, len(marker)):
            if text[:end].endswith(marker[:size]):
                yield marker[size:]
                yield marker[size:] + text.partition(marker)[2]


@pytest.mark.parametrize("name", SAMPLES)
def test_p3_what_all_continuations_agree_on_is_out(name):
    """The common beginning of what continuations lead to, no more and no less, is emitted."""
    style, text = STYLES[name], SAMPLES[name]
    whole = parse(style, text)
    for end in range(len(text) + 1):
        parser = make(style)
        out = norm(parser.feed(text[:end]))
        certain = whole
        for behind in ("", "x", ' "', "\nx", "é'", *style.markers, text, *rest(style, text, end)):
            certain = common(certain, norm([*out, *run(copy.copy(parser), [behind])]))
        assert out == certain, text[:end]


@every_style
@few
@given(data=st.data())
def test_p3_arguments_are_out_with_the_piece_that_brings_them(style, data):
    """One character at a time, a string in the arguments is never behind by more than one thing.

    What may wait: an escape (10 characters, in Python text), a line break, the closing marker.
    """
    text = data.draw(st.text("abc {}[]é😀,:", min_size=1, max_size=40))
    drawn = Call("f", {"path": text} if style.json else {"path": text, "any": ""})
    source, _ = style.render([drawn], ["", ""], random.Random(0))
    parser, shown, started = make(style), "", False
    longest = max(10, *(len(marker) for marker in style.markers))
    for char in source:
        for event in parser.feed(char):
            started = started or isinstance(event, ArgsDelta)
            shown += event.text if isinstance(event, ArgsDelta) else ""
        if started and style.json and style.format != "harmony" and shown[-1:] != "}":
            assert parser.held == ""
        if started and shown.endswith("abc"):
            assert len(parser.held) <= 2 * longest + 2


@every_style
@some
@given(data=st.data())
def test_p3_p9_prose_is_unchanged_and_out_but_for_what_may_be_a_marker(style, data):
    prose = texts(style, 10).filter(lambda text: without(text, style.openers))
    text = "x" + data.draw(prose)
    parser, shown = make(style), ""
    for char in text:
        shown += "".join(event.text for event in parser.feed(char))
        assert shown + parser.held == text[: len(shown + parser.held)]
        waits = max(
            size
            for opener in (*style.openers, "")
            for size in range(len(opener) + 1)
            if (shown + parser.held).endswith(opener[:size])
        )
        assert len(parser.held) == waits
    events = same_under_all(lambda: make(style), text, style.markers, every_cut=False)
    assert events == [TextDelta(text)]


def check_calls(events):
    """Each call starts once, in order, ends once, nothing between; its arguments are an object."""
    number, arguments = 0, None
    for event in events:
        if isinstance(event, CallStart):
            assert arguments is None
            assert event.index == number
            assert event.name
            arguments = ""
        elif isinstance(event, TextDelta | ReasoningDelta):
            assert arguments is None
            assert event.text
        else:
            assert arguments is not None
            assert event.index == number
            if isinstance(event, ArgsDelta):
                assert event.text
                arguments += event.text
                continue
            if isinstance(event, CallEnd):
                assert isinstance(json.loads(arguments), dict)
            number, arguments = number + 1, None
    assert arguments is None


# P7: nothing is lost.

STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
TOKEN = rf"{STRING.pattern}|[\s{{}}\[\]:,;]|[^\s<>\"'{{}}()\[\]|]"


def steps(parser, text):
    """Yield (what was let go of, the events) for each character, and for the end."""
    held = ""
    for char in text:
        events = parser.feed(char)
        taken, held = held + char, parser.held
        assert taken.endswith(held)
        yield taken[: len(taken) - len(held)], events
    yield held, parser.flush()


# Of few words, and many times.
escape = functools.cache(re.escape)


def markup(style, *, starts, inside, behind):
    """What may vanish: markers and white space, in a call also what its object has beside."""
    if starts and style.format == "harmony":
        return re.compile(r"[\s\S]*")
    gap = "|".join([*map(escape, style.markers), r"\s"])
    if style.format == "harmony" and not inside:
        header = r"(?:<\|(?:start|channel)\|>|to=)(?:(?!<\|message\|>)[\s\S])*<\|message\|>"
        gap = f"{header}|{gap}"
    if inside or behind or starts:
        gap = f"{style.punctuation}|{gap}" if style.punctuation else gap
    if starts or (inside and style.json):
        gap = "|".join([gap, *map(escape, starts), TOKEN])
    return re.compile(f"(?:{gap})*+")


def sources(style, released, event, gap):
    """Yield the places (start, end) of what the model may have written to cause an event."""
    if isinstance(event, CallStart | CallEnd):
        yield 0, 0
        return
    known = [event.raw if isinstance(event, Malformed) else event.text]
    typed = isinstance(event, ArgsDelta) and not style.json
    if typed:
        known = [unquoted(event.text)]
        if event.text in ('"', '""', "}", "{}", ", "):
            yield 0, 0
        key = re.fullmatch(rf'(?:\{{|, )({STRING.pattern}): ("?)', event.text)
        known += [json.loads(key[1]), with_references(json.loads(key[1]))] if key else []
    for source in known:
        start = released.find(source) if source is not None else -1
        while start >= 0:
            yield start, start + len(source)
            start = released.find(source, start + 1)
    if typed:
        for start in range(gap.match(released).end() + 1):
            for end in range(len(released), max(start, len(released) - 3), -1):
                if stands_for(released[start:end], event.text, style.reads):
                    yield start, end


def unquoted(text):
    try:
        return json.loads(f'"{text}"')
    except ValueError:
        return None


WORDS = {"True": True, "False": False, "None": None}
READS = (
    lambda text: text,
    lambda text: WORDS[text],
    json.loads,
    read_literal,
    lambda text: ast.literal_eval(f"'{text}'"),
    lambda text: ast.literal_eval(f'"{text}"'),
)


def stands_for(written, text, reads):
    """Whether a part of the arguments is what is written, as a value or in a string."""
    for read in (*READS, *reads):
        try:
            value = json.dumps(read(written))
        except (ValueError, SyntaxError, KeyError, TypeError, Invalid):
            continue
        for meant in (text, f'"{text}"'):
            try:
                if json.dumps(json.loads(meant)) == value:
                    return True
            except ValueError:
                continue
    return text == '"' and written in ("'", '"')


def explained(style, released, events, gap):
    """Whether all that was let go of is in the events, but for markup."""
    if not events:
        return gap.fullmatch(released) is not None
    return any(
        gap.fullmatch(released[:start]) and explained(style, released[end:], events[1:], gap)
        for start, end in sources(style, released, events[0], gap)
    )


def check_nothing_lost(style, text):
    inside = behind = False
    for released, events in steps(make(style), text):
        starts = [event.name for event in events if isinstance(event, CallStart)]
        gap = markup(style, starts=starts, inside=inside, behind=behind)
        assert explained(style, released, events, gap), (released, events)
        spelled = [json.loads(string) for string in STRING.findall(released) if is_json(string)]
        spelled += [name for name in starts if with_references(name) in released]
        assert all(name in released or name in spelled for name in starts)
        for event in events:
            inside = isinstance(event, CallStart | ArgsDelta)
            behind = isinstance(event, CallEnd)


def is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@every_style
def test_p7_markup_without_a_call_vanishes_only_in_formats_with_sections(style):
    vanished = []
    around = ("a {} b", "{}")
    for opener, mark, prose in itertools.product(style.openers, ("", *style.markers), around):
        text = prose.format(opener + mark)
        events = parse(style, text)
        if events != [TextDelta(text)] and not any(isinstance(e, CallStart) for e in events):
            vanished.append(text)
    if style.sections:
        assert vanished, "no markup vanishes without a call: its Style needs no `sections`"
    else:
        assert not vanished, "is markup without a call dropped rightly? its Style has `sections`"


# A malformed call is skipped, and no more than that.


def recovers(style, calls, broken):
    """Whether a character too many in a call makes it malformed, and leaves the rest as it is."""
    text, expected = style.render(calls, ["", "", "end"], Plain())
    start, end = (
        next(place for place, event in enumerate(expected)
             if isinstance(event, kind) and event.index == broken)
        for kind in (CallStart, CallEnd)
    )  # fmt: skip
    for place in range(len(text)):
        events = parse(style, f"{text[:place]}!{text[place:]}")
        kinds = [type(event) for event in events]
        if events[: start + 1] == expected[: start + 1] and Malformed in kinds:
            rest = events[kinds.index(Malformed) + 1 :]
            if rest == expected[end + 1 :]:
                return True
    return False


@every_style
def test_what_follows_a_malformed_call_is_read(style):
    long, short = Call("f", {"path": "x"}), Call("g", {})
    assert recovers(style, [long, short], 0) != style.one_list, (
        "is the call behind a malformed one read? if not, and rightly, its Style has `one_list`"
    )
    assert recovers(style, [short, long], 1) != style.open_end, (
        "is the text behind a malformed call read? if not, and rightly, its Style has `open_end`"
    )


# A call without its closing marker.


def closers(style):
    """The markers that end a call, by the format's table."""
    return dict.fromkeys(
        marker
        for state in FORMATS[style.format].states.values()
        if isinstance(state, basic.Gap)
        for marker, on in state.on.items()
        if on.do == "end" and not on.keep
    )


@every_style
def test_a_closing_marker_may_be_missing_where_the_reference_says_so(style):
    """At the end, before the end of a section, and before the next call."""
    f, g = Call("f", {"path": "x"}), Call("g", {})
    for drawn in ([f], [g], [f, g], [g, f]):
        text, _ = style.render(drawn, [""] * (len(drawn) + 1), Plain())
        for closer in closers(style):
            before, _, behind = text.partition(closer)
            for lacking in (before, before + behind) if closer in text else ():
                events = same_under_all(
                    lambda: make(style), lacking, style.markers, every_cut=False
                )
                expected = reference(style, lacking, TYPES)
                if expected is not None:
                    assert events == expected, (
                        f"without {closer}: see `may_end` of Gap, and rows with `keep=True`"
                    )
                else:
                    assert any(isinstance(event, Malformed) for event in events), (
                        f"without {closer} a call is complete, but Invalid for the reference"
                    )


@every_style
def test_a_call_that_begins_anew_makes_its_first_beginning_text(style):
    text, expected = style.render([Call("f", {"path": "x"})], ["", ""], Plain())
    opener = next(filter(text.startswith, style.openers), "")
    if style.format == "harmony" or not opener:
        return  # its headers may be doubled; what needs no opener begins but once
    parser = make(style)
    parser.feed(opener)
    for end in range(len(opener), len(text)):
        begun = text[:end]
        # In a string of JSON an opener is text, and a value of JSON may begin like an opener.
        if not (style.json and (begun.count('"') % 2 or begun.endswith(":"))):
            assert parse(style, begun + text) == [TextDelta(begun), *expected]
        if any(isinstance(event, CallStart) for event in parser.feed(text[end])):
            break


# P8: markers count only where the grammar allows them.


@every_style
def test_p8_markers_in_a_string_are_text(style):
    marks = dict.fromkeys([*style.markers, "{", "}", "[", "]", '"', "\\", '"}', "\n"])
    inside = [mark for mark in marks if not any(closer in mark for closer in style.closers)]
    call = Call("f", {"path": "".join(f"a {mark} b {mark}" for mark in inside)})
    text, expected = style.render([call, call], ["", "", ""], random.Random(1))
    assert same_under_all(lambda: make(style), text, style.markers, every_cut=False) == expected


# P9: look-alikes are text.


@every_style
def test_p9_the_beginning_of_a_marker_is_text_at_the_end_and_before_another(style):
    for marker in style.markers:
        for size in range(1, len(marker)):
            for text in (f"x {marker[:size]}", f"x {marker[:size]}{marker[:size]} y"):
                if without(text, style.openers):
                    for pieces in ([text], sized(text, 1), sized(text, 3), cut_at(text, [2])):
                        assert run(make(style), pieces) == [TextDelta(text)]


# P10: the work is linear.


class Counting:
    """A state that counts the characters which it is given."""

    def __init__(self, state, counts):
        self.state = state
        self.counts = counts

    def take(self, parser, text):
        self.counts["given"] += len(text)
        return self.state.take(parser, text)

    def waiting(self, parser):
        return self.state.waiting(parser)

    def end(self, parser):
        return self.state.end(parser)


def work(monkeypatch, name, pieces):
    """Count what a fresh format examines and is given, when nothing is remembered."""
    scanner = JsonScanner()
    monkeypatch.setattr(basic, "JSON", scanner)
    monkeypatch.setattr(states_object, "JSON", scanner)
    format = FORMATS[name]
    fresh = {key: dataclasses.replace(state) for key, state in format.states.items()}
    counts = {"given": 0}
    states = {key: Counting(state, counts) for key, state in fresh.items()}
    monkeypatch.setattr(Memory, "learn", lambda *_: NOWHERE)
    run(StreamParser(dataclasses.replace(format, states=states)), pieces)
    scanners = [state.scanner for state in fresh.values() if hasattr(state, "scanner")]
    return counts["given"], scanner.examined + sum(one.examined for one in scanners)


class Plain:
    """A layout that always takes the first way."""

    def choice(self, ways):
        return ways[0]

    def randint(self, least, most):
        return least

    def random(self):
        return 0.5


def long_texts(style, size):
    """Texts of about so many characters that could be dear."""
    opener = (*style.openers, "<|python_start|>")[0]
    for call in (
        Call("f", {"path": "ab \\" * (size // 4)}),
        Call("f", {"path": "\n" * size}),
        Call("f", {"items": [1, 2, 3] * (size // 9)}),
        Call("f", {"options": {"a": "<" * size}}),
    ):
        text, _ = style.render([call], ["", ""], Plain())
        yield text
        yield text[: -len(text) // 3]
    text, _ = style.render([Call("f", {"path": "x"})] * 3, [""] * 4, Plain())
    yield (text * (size // len(text) + 1))[:size]
    yield opener * (size // len(opener))
    yield opener[:-1] * (size // len(opener))
    yield opener + " " * size + "x"
    yield opener + "a" * size
    yield opener + '{"name": "' + "<" * size
    yield f"{opener}{{" * (size // (len(opener) + 1))
    yield '{"a": ' * (size // 6)
    yield "[" * size
    yield "[f(a=" + "[" * size


@every_style
@pytest.mark.parametrize("size", [1, 7])
def test_p10_no_character_is_looked_at_often(style, size, monkeypatch):
    """An automaton examines a character at most twice, over all states and attempts.

    And the texts that states pass on to each other hold each character at most 6 times for each
    character of a piece: a piece is passed on at most so often.
    """
    for text in long_texts(style, 600):
        given, examined = work(monkeypatch, style.format, sized(text, size))
        assert examined <= 2 * len(text)
        assert given <= 6 * size * len(text)


@every_style
def test_p10_twice_the_text_is_twice_the_work(style, monkeypatch):
    """Of a long piece states pass on the rest, but of a window of 4096 characters only."""
    # Each second one: of the first ones every other is cut off, and is no dearer here.
    texts = (itertools.islice(long_texts(style, size), 0, None, 2) for size in (4_096, 8_192))
    for short, long in zip(*texts, strict=True):
        less, _ = work(monkeypatch, style.format, [short])
        more, examined = work(monkeypatch, style.format, [long])
        assert examined <= 2 * len(long)
        assert more <= 2.2 * less + 1_000


# P13: streams do not know each other.


def test_p13_formats_are_isolated_too():
    parsers = {name: make(style) for name, style in STYLES.items()}
    events = {name: [] for name in STYLES}
    for place in range(max(len(text) for text in SAMPLES.values())):
        for name, parser in parsers.items():
            events[name] += parser.feed(SAMPLES[name][place : place + 1])
    for name, parser in parsers.items():
        assert norm([*events[name], *parser.flush()]) == parse(STYLES[name], SAMPLES[name])


# What a format has that others lack.


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_has_a_style_and_a_sample(name):
    samples = [style.sample for style in STYLES.values() if style.format == name]
    assert samples, f"add a Style to tests/text/families/: {name}"
    assert all(samples)


def test_every_style_is_of_a_format():
    assert {style.format for style in STYLES.values()} <= set(FORMATS)


def test_all_kinds_of_chunkings_are_there():
    kinds = {re.sub(r"\d+", "N", name) for name, _ in chunkings("ab<c>d", ["<c>"])}
    assert kinds == {
        "whole", "size N", "empty pieces", "all markers", "before and after markers", "cut at N",
        "cut at N and N", "random N",
    }  # fmt: skip
    assert all("".join(pieces) == "ab<c>d" for _, pieces in chunkings("ab<c>d", ["<c>"]))


def test_unknown_formats_list_the_known_and_the_near():
    with pytest.raises(ValueError, match="did you mean hermes") as error:
        create_tool_parser("hermez")
    assert all(name in str(error.value) for name in FORMATS)
    for name in ("hy_v3:", "hermes:opensource"):
        with pytest.raises(ValueError, match=f"unknown tool-call format {name!r}"):
            create_tool_parser(name)
    with pytest.raises(ValueError, match="unknown tool-call format 'zzz'; known: hermes"):
        create_tool_parser("zzz")


# The command.


def test_the_command_shows_pieces_events_and_what_is_held():
    done = subprocess.run(
        [sys.executable, "-m", "mini_vllm.text.tool_parsers", "hermes", "--size", "20"],
        input='Hi <tool_call>{"name": "f", "arguments": {"a": "é"}}</tool_call>\udcff',
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=30,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "'Hi <tool_call>{\"name'"
    assert lines[1] == "    TextDelta(text='Hi ')"
    assert lines[2].startswith("    held: '<tool_call>{")
    assert "    CallStart(index=0, id=None, name='f')" in lines
    assert "    CallEnd(index=0)" in lines
    # A byte that is not UTF-8.
    assert lines[-2:] == ["    TextDelta(text='\ufffd')", "flush"]


def test_the_command_ends_without_a_word_if_its_reader_does():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "mini_vllm.text.tool_parsers", "hermes"],
        input=b"Hi",
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["hermez"], "hermes"), ([], "FORMAT"), (["hermes", "--size", "0"], "at least 1")],
)
def test_the_command_refuses(arguments, says, capsys):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert says in capsys.readouterr().err
