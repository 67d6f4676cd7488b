"""Tests that distinguish correct implementations of five labs from wrong ones.

Each states one rule of its lab, on the smallest input on which a mistake shows. Two tests of a lab
are about all inputs: one compares every short stream with the definition, one measures cost.
"""

import itertools
import json
from dataclasses import replace

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
    ToolCall,
)

CALL = '<tool_call>{"name": "f", "arguments": %s}</tool_call>'


def refuses(function, *args, **kwargs):
    """Return the message of the `ValueError` that a call raises; fail if it does not raise."""
    try:
        function(*args, **kwargs)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"no ValueError for {args}")


def streamed(made, pieces):
    """Return what an object returns for each piece, and for the end."""
    return [*(made.feed(piece) for piece in pieces), made.flush()]


# Lab 03: bytes of a stream are emitted as text as soon as no continuation can change it.


def test_lab03_length_of_every_first_byte(make):
    def length(byte):
        return next((n for n in (1, 2, 3, 4) if starts_character(byte, n)), 0)

    def starts_character(byte, size):
        tails = itertools.product((0x80, 0x90, 0xA0, 0xBF), repeat=min(size - 1, 1))
        return any(is_character(bytes([byte, *tail]) + b"\x80" * (size - 2)) for tail in tails)

    for byte in range(256):
        assert make.call("utf8_expected_len", byte) == length(byte), hex(byte)
    for value in (-1, 256):
        assert str(value) in refuses(make.call, "utf8_expected_len", value)


def is_character(data):
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


def waiting(data):
    """Return the end of some bytes that may still become a character."""
    for start in range(max(0, len(data) - 3), len(data)):
        ends = itertools.product((b"\x80", b"\xbf"), (1, 2, 3))
        if any(is_character(data[start:] + byte * count) for byte, count in ends):
            return data[start:]
    return b""


def test_lab03_every_short_stream_twice(make):
    kinds = [0x41, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC3, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, 0xFF]
    ends = [(0xEF, 0xBF, 0xBD), (0xF0, 0x9F, 0x9A, 0x80), (0xF0, 0x9F, 0x9A)]
    detokenizer = make("StreamingDetokenizer")
    for data in [*ends, *itertools.product(kinds, repeat=2)]:
        shown = ""
        for size, text in enumerate(make.each(detokenizer.feed, data), start=1):
            shown += text
            held = waiting(bytes(data[:size]))
            assert detokenizer.held == held, data
            assert shown == bytes(data[: size - len(held)]).decode("utf-8", "replace"), data
        shown += detokenizer.flush()
        assert shown == bytes(data).decode("utf-8", "replace"), data
        assert (detokenizer.flush(), detokenizer.held) == ("", b"")


def test_lab03_other_ids_change_nothing(make):
    detokenizer = make("StreamingDetokenizer")
    outputs = [detokenizer.feed(token) for token in (0xF0, 257, -1, 0x9F, 10**30, 0x9A, -159, 0x80)]
    assert outputs == [""] * 7 + ["🚀"]


def test_lab03_two_streams_share_nothing(make):
    one, other = make("StreamingDetokenizer"), make("StreamingDetokenizer")
    assert (one.feed(0xC3), other.feed(0x41), one.feed(0xA9)) == ("", "A", "é")


def test_lab03_long_streams_cost_no_more(make):
    outputs = make.each(make("StreamingDetokenizer").feed, [0xFF] * 2_000)
    assert [*outputs] == ["\ufffd"] * 2_000


# Lab 04: text is emitted, but never a part of a stop.


def test_lab04_refuses_what_is_no_stop(make):
    assert '["END"]' in refuses(make, "StopStringMatcher", "END")
    refuses(make, "StopStringMatcher", ["END", ""])


def first_to_end(text, stops):
    """Return where the text before the first stop ends, and that stop, by trying every end."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return end - len(max(found, key=len)), max(found, key=len)
    return len(text), None


def held_by(text, stops):
    """Return the longest suffix of a text that is a prefix of a stop which can win."""
    stops = [stop for stop in stops if not any(other in stop[:-1] for other in stops)]
    starts = [stop[:size] for stop in stops for size in range(len(stop))]
    return max((start for start in starts if text.endswith(start)), key=len, default="")


def test_lab04_every_short_text(make):
    for stops in (["aab"], ["aab", "ab"], ["b", "abc"], ["bc", "abcd"], ["ba", "ab"], []):
        for text in map("".join, itertools.product("abc", repeat=4)):
            matcher, shown = make("StopStringMatcher", stops), ""
            for size, output in enumerate(make.each(matcher.feed, text), start=1):
                shown += output
                end, stop = first_to_end(text[:size], stops)
                held = "" if stop else held_by(text[:size], stops)
                assert (shown, matcher.matched) == (text[: end - len(held)], stop), (stops, text)
                assert matcher.held == held, (stops, text)


def test_lab04_stops_inside_a_piece(make):
    matcher = make("StopStringMatcher", ["second", "first"])
    assert streamed(matcher, ["the first, the second", " and more"]) == ["the ", "", ""]
    assert matcher.matched == "first"
    shown = make("StopStringMatcher", ["END"], include_stop=True)
    assert streamed(shown, ["the E", "ND of it"]) == ["the E", "ND", ""]


def test_lab04_flush_ends_the_stream(make):
    matcher = make("StopStringMatcher", ["END"])
    assert streamed(matcher, ["the EN"]) == ["the ", "EN"]
    assert (matcher.flush(), matcher.held, matcher.matched) == ("", "", None)
    assert streamed(matcher, ["D is no END."]) == ["D is no ", ""]
    assert (matcher.feed("more"), matcher.matched) == ("", "END")


def test_lab04_two_streams_share_nothing(make):
    one, other = make("StopStringMatcher", ["ab"]), make("StopStringMatcher", ["b"])
    assert (one.feed("a"), other.feed("x"), other.feed("b")) == ("", "x", "")
    assert (one.matched, one.held, one.feed("c")) == (None, "a", "ac")


def test_lab04_long_texts_and_stops_cost_no_more(make):
    matcher = make("StopStringMatcher", ["a" * 30 + "b" + "a" * 30, "a" * 1_000 + "b"])
    assert "".join(make.each(matcher.feed, ["a" * 30] * 600)) == "a" * (18_000 - 1_000)


# Lab 01: text is emitted, and a call becomes one event.


def test_lab01_held_suffix_len(make):
    for text, length in {"so <tool": 5, "<tool_call>": 0, "a < b": 0, "<<": 1, "": 0}.items():
        assert make.call("held_suffix_len", text, "<tool_call>") == length, text
    assert make.call("held_suffix_len", "aab", "aab") == 0
    assert make.call("held_suffix_len", "aaa", "aab") == 2


def test_lab01_text_passes(make):
    parser = make("StreamingToolParser")
    outputs = streamed(parser, ["a <tool", "box> ", "</tool_call>", " <<tool_", ""])
    texts = ["a ", "<toolbox> ", "</tool_call>", " <", "", "<tool_"]
    assert outputs == [[TextDelta(text)] if text else [] for text in texts]
    assert parser.held == ""


def events_of(make, text, size):
    """Return the events of a stream in pieces of a size, with neighbouring texts joined."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    joined = []
    for event in itertools.chain(*streamed(make("StreamingToolParser"), pieces)):
        if joined and isinstance(event, TextDelta) and isinstance(joined[-1], TextDelta):
            joined[-1] = TextDelta(joined[-1].text + event.text)
        else:
            joined.append(event)
    return joined


def test_lab01_calls_are_what_the_model_wrote(make):
    sources = [
        "{}",
        '{ "x" :1.50}',
        '{"s": "</tool_call>"}',
        r'{"s": "\"</tool_call>\\"}',
        '{"é": {}}',
    ]
    text = "a" + "b".join(CALL % source for source in sources) + "c"
    calls = [ToolCall(index, "f", source) for index, source in enumerate(sources)]
    between = [TextDelta("b")] * len(sources)
    wanted = [TextDelta("a"), *itertools.chain(*zip(calls, between, strict=True)), TextDelta("c")]
    wanted.pop(-2)
    for size in (len(text), 7, 1):
        assert events_of(make, text, size) == wanted, size


def test_lab01_what_is_no_call_is_text(make):
    good = ToolCall(0, "f", "{}")
    sources = ["[]", "{", '{"x": NaN}', '{"x": %s}' % ("1" * 5_000), '{"x": ' + "[" * 5_000]
    for text in [*(CALL % source for source in sources), "<tool_call>" + CALL % "{}"]:
        assert events_of(make, text + CALL % "{}", 10_000) == [TextDelta(text), good], text


def test_lab01_last_of_equal_keys(make):
    text = CALL % '{"x": 1}, "arguments": {"x": 2}'
    assert events_of(make, text, 1_000) == [ToolCall(0, "f", '{"x": 2}')]


def test_lab01_flush_ends_the_stream(make):
    parser = make("StreamingToolParser")
    half = '<tool_call>{"name": "f", "arg'
    for _ in range(2):
        assert parser.feed(CALL % "{}" + half) == [ToolCall(0, "f", "{}")]
        assert parser.held == half
        assert (parser.flush(), parser.held, parser.flush()) == ([TextDelta(half)], "", [])


def test_lab01_two_streams_share_nothing(make):
    one, other = make("StreamingToolParser"), make("StreamingToolParser")
    assert one.feed("<tool_call>{") == []
    assert other.feed("x") == [TextDelta("x")]


def test_lab01_long_calls_cost_no_more(make):
    value = json.dumps({"x": "</tool_cal" * 5_000})
    source = CALL % value
    pieces = [source[start : start + 60] for start in range(0, len(source), 60)]
    parser = make("StreamingToolParser")
    assert [*make.each(parser.feed, pieces)][-1] == [ToolCall(0, "f", value)]


# Lab 07: the bytes of tokens, and text from them.

SPELLED = {
    "byte_level": {
        "Ġthe": b" the",
        "ðŁ": b"\xf0\x9f",
        "Ń": b"\xad",
        "你": "你".encode(),
        "¡": b"\xa1",
    },
    "byte_fallback": {"▁▁a": b"  a", "<0xF0>": b"\xf0", "<0xG0>": b"<0xG0>", "▁": b" "},
}
TABLE = [b"a\xf0", b"\x9f\x9a\x80", b"\xffb", None, b"<s>", b" b", b"", b"\x80"]
END = 4


def test_lab07_bytes_of_tokens(make):
    for kind, tokens in SPELLED.items():
        assert make.call("token_bytes", [*tokens, None], kind) == [*tokens.values(), None]
        every = frozenset(range(len(tokens)))
        spelled = make.call("token_bytes", [*tokens], kind, special=every)
        assert spelled == [token.encode() for token in tokens]
    assert "utf-8" in refuses(make.call, "token_bytes", ["a"], "utf-8")


def bytes_of(ids, skipped=(END,)):
    return b"".join(TABLE[i] or b"" for i in ids if 0 <= i < len(TABLE) and i not in skipped)


def test_lab07_every_short_stream_twice(make):
    detokenizer = make("TokenDetokenizer", TABLE, special=frozenset({END}))
    for ids in [(0, -1, END, 3, 1), (0, 8, 6, 1), *itertools.product(range(-1, 8), repeat=2)]:
        shown = ""
        for size, text in enumerate(make.each(detokenizer.feed, ids), start=1):
            shown, data = shown + text, bytes_of(ids[:size])
            assert detokenizer.held == waiting(data), ids
            assert shown == data[: len(data) - len(waiting(data))].decode("utf-8", "replace"), ids
        assert shown + detokenizer.flush() == bytes_of(ids).decode("utf-8", "replace"), ids
        assert (detokenizer.flush(), detokenizer.held) == ("", b"")
        assert detokenizer.feed_many(ids) == shown, ids
        detokenizer.flush()


def test_lab07_options(make):
    shows = make("TokenDetokenizer", TABLE, special=frozenset({END}), skip_special_tokens=False)
    assert shows.feed(END) == "<s>"
    begun = make("TokenDetokenizer", TABLE, prompt_ids=[5, 0, 3])
    assert (begun.held, begun.feed(1)) == (b"\xf0", "🚀")
    strips = make("TokenDetokenizer", [b"", *TABLE, b"  c"], strip_first_space=True)
    for _ in range(2):
        assert [*make.each(strips.feed, [0, 9, 6])] == ["", " c", " b"]
        assert strips.flush() == ""
    later = make("TokenDetokenizer", TABLE, strip_first_space=True, prompt_ids=[5])
    assert later.feed(5) == " b"


def test_lab07_two_streams_share_nothing(make):
    one, other = make("TokenDetokenizer", TABLE), make("TokenDetokenizer", TABLE)
    assert (one.feed(0), other.feed(5), one.feed(1)) == ("a", " b", "🚀")


def test_lab07_long_streams_cost_no_more(make):
    assert {*make.each(make("TokenDetokenizer", TABLE).feed, [2] * 2_000)} == {"\ufffdb"}


# Lab 09: arguments stream as they arrive.

OPEN, CLOSE = "<tool_call>", "</tool_call>"


def test_lab09_scanner_takes_one_object(make):
    ends = {
        "{}": 2,
        '{"a": [1, {}]} x': 14,
        '{"s": "}\\"\\u00e9\\\\"}}': 20,
        '{"n":-1.5e+3,"t":null}': 22,
    }
    for text, end in ends.items():
        scanner = make("JsonScanner")
        assert sum(make.each(scanner.feed, text)) == end, text
        assert (scanner.done, scanner.failed, scanner.feed("{}"), scanner.flush()) == (1, 0, 0, 1)
        assert (scanner.feed('{"'), scanner.done, scanner.flush()) == (2, False, False)
        assert (scanner.feed("{}"), scanner.done) == (2, True)
    for text, end in {"[]": 0, '{"a" 1}': 5, "{'": 1, '{"a": 01}': 7, '{"a": NaN}': 6}.items():
        scanner = make("JsonScanner")
        assert (scanner.feed(text), scanner.failed, scanner.done) == (end, True, False), text
    assert make("JsonScanner").feed('{"a":' + "[" * 5_000) == 5_005


def streams(make, name, text, *args, **kwargs):
    """Yield the events of a stream whole and character by character, neighbours joined."""
    for pieces in ([text], text):
        joined = []
        for event in itertools.chain(*streamed(make(name, *args, **kwargs), pieces)):
            before = joined[-1] if joined else None
            if type(event) is type(before) and isinstance(
                event, TextDelta | ReasoningDelta | ArgsDelta
            ):
                joined.pop()
                event = replace(event, text=before.text + event.text)
            joined.append(replace(event, reason="") if isinstance(event, Malformed) else event)
        yield joined


def call(index, arguments):
    return [CallStart(index, None, "f"), ArgsDelta(index, arguments), CallEnd(index)]


def test_lab09_calls_stream(make):
    odd = '{ "s": "</tool_call>\\"}", "n":  1.0}'
    texts = ['{"name": "f", "arguments": %s}', '{"x": [1], "arguments": %s, "name": "f" }']
    text = "a" + "b".join(OPEN + (text % odd) + " " + CLOSE for text in texts) + "<tool"
    wanted = [TextDelta("a"), *call(0, odd), TextDelta("b"), *call(1, odd), TextDelta("<tool")]
    for events in streams(make, "StreamingCallParser", text):
        assert events == wanted


def test_lab09_everything_comes_at_once(make):
    parser = make("StreamingCallParser")
    steps = {
        "a" + OPEN + '{"name": "f': [TextDelta("a")],
        '"': [CallStart(0, None, "f")],
        ', "arguments": {"x': [ArgsDelta(0, '{"x')],
        '": 1}': [ArgsDelta(0, '": 1}')],
        "}" + CLOSE[:-1]: [],
        ">b": [CallEnd(0), TextDelta("b")],
    }
    assert [*make.each(parser.feed, [*steps])] == [*steps.values()]


def test_lab09_broken_calls(make):
    for body in ("[", '{"name": 1', '{"arguments": {}}', '{"x": 1]'):
        wanted = [TextDelta(OPEN + body + CLOSE), *call(0, "{}")]
        text = OPEN + body + CLOSE + OPEN + '{"name": "f", "arguments": {}}' + CLOSE
        assert all(events == wanted for events in streams(make, "StreamingCallParser", text)), body
    for rest in (', "name": "g"}', ', "x": nul}', "}", ', "arguments": 1}'):
        text = OPEN + '{"name": "f"' + rest + CLOSE + "b"
        wanted = [CallStart(0, None, "f"), Malformed(0, rest + CLOSE, ""), TextDelta("b")]
        assert all(events == wanted for events in streams(make, "StreamingCallParser", text)), rest


def test_lab09_flush_ends_the_stream(make):
    parser = make("StreamingCallParser")
    for _ in range(2):
        assert parser.feed(OPEN + '{"na') == []
        assert parser.held == OPEN + '{"na'
        assert (parser.flush(), parser.held, parser.flush()) == ([TextDelta(OPEN + '{"na')], "", [])
        parser.feed(OPEN + '{"name": "f", "x"')
        (event,) = parser.flush()
        assert (event.index, event.raw) == (0, ', "x"')


def test_lab09_reasoning(make):
    text = " \n<think>a</think>b<think>c</think>"
    wanted = [ReasoningDelta("a"), TextDelta("b<think>c</think>")]
    assert all(events == wanted for events in streams(make, "ReasoningSplitter", text))
    for events in streams(make, "ReasoningSplitter", "a</thi", starts_inside=True):
        assert events == [ReasoningDelta("a</thi")]
    for events in streams(make, "ReasoningSplitter", " a<think>b"):
        assert events == [TextDelta(" a<think>b")]


def test_lab09_long_calls_cost_no_more(make):
    pieces = [OPEN + '{"name": "f", "arguments": {"x": "', *["</tool_cal" * 6] * 1_000]
    parser = make("StreamingCallParser")
    assert [*make.each(parser.feed, pieces)][-1] == [ArgsDelta(0, pieces[-1])]
