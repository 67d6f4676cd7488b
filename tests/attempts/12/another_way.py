import codecs
import itertools
import json
import random

from mini_vllm.text.events import TextDelta, ToolCall


def viable(data):
    """Whether some bytes begin a character, by all that may follow."""
    for count in (1, 2, 3):
        for fill in (b"\x80", b"\xbf"):
            try:
                text = (data + fill * count).decode()
            except UnicodeDecodeError:
                continue
            if len(text) == 1:
                return True
    return False


def test_lab03_against_codecs(make):
    generator = random.Random(3)
    pool = [
        0x41,
        0xC0,
        0xC3,
        0xA9,
        0xE0,
        0xE2,
        0xED,
        0xA0,
        0x82,
        0xF0,
        0x9F,
        0x9A,
        0x80,
        0xFF,
        256,
        -3,
    ]
    for _ in range(60):
        ids = generator.choices(pool, k=12)
        detokenizer = make("StreamingDetokenizer")
        shown, data = "", b""
        for token, text in zip(ids, make.each(detokenizer.feed, ids), strict=True):
            shown += text
            data += bytes([token]) if 0 <= token < 256 else b""
            tails = [data[-size:] for size in (3, 2, 1) if len(data) >= size]
            held = next(filter(viable, tails), b"")
            assert detokenizer.held == held
            assert shown == data[: len(data) - len(held)].decode(errors="replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        assert shown + detokenizer.flush() == decoder.decode(data, final=True)
        assert detokenizer.flush() == ""
        assert detokenizer.feed(0x42) == "B"


def test_lab03_long(make):
    detokenizer = make("StreamingDetokenizer")
    assert set(make.each(detokenizer.feed, [0x80] * 15_000)) == {"\ufffd"}


def reference(text, stops):
    best = None
    for start, stop in itertools.product(range(len(text)), stops):
        if text.startswith(stop, start):
            best = min(best or (len(text) + 1, 0), (start + len(stop), start))
    return best


def test_lab04_against_search(make):
    generator = random.Random(4)
    for _ in range(600):
        stops = ["".join(generator.choices("ab", k=generator.randint(1, 4))) for _ in range(2)]
        text = "".join(generator.choices("abc", k=10))
        matcher = make("StopStringMatcher", stops)
        shown = "".join(make.each(matcher.feed, text))
        found = reference(text, stops)
        if found is None:
            assert shown + matcher.held == text
            assert matcher.flush() == text[len(shown) :]
        else:
            end, start = found
            assert (shown, matcher.matched) == (text[:start], text[start:end])
            assert (matcher.feed("x"), matcher.flush(), matcher.matched) == (
                "",
                "",
                text[start:end],
            )


def test_lab04_details(make):
    matcher = make("StopStringMatcher", ["b", "abc"])
    assert matcher.feed("a") == "a"
    both = make("StopStringMatcher", ["END"], include_stop=True)
    assert both.feed("an END.") == "an END"
    again = make("StopStringMatcher", ["END"])
    assert again.feed("EN") + again.flush() + again.feed("D") == "END"


def test_lab01_streams(make):
    generator = random.Random(1)
    parts = ["a", " <", "<tool_", "</tool_call>", "<tool_call>[1]</tool_call>"]
    bodies = ["{}", '{"s": "</tool_call>\\""}', '{"n":  1}']
    for _ in range(40):
        text, wanted, index = "", [""], 0
        for _ in range(6):
            if generator.random() < 0.5:
                part = generator.choice(parts)
                wanted[-1] += part
            else:
                body = generator.choice(bodies)
                part = '<tool_call>{"arguments": ' + body + ', "name": "f"}</tool_call>'
                wanted += [ToolCall(index, "f", body), ""]
                index += 1
            text += part
        parser, got = make("StreamingToolParser"), [""]
        cuts = [text[start : start + 5] for start in range(0, len(text), 5)]
        for event in [*itertools.chain(*make.each(parser.feed, cuts)), *parser.flush()]:
            if isinstance(event, TextDelta):
                got[-1] += event.text
            else:
                got += [event, ""]
        assert got == wanted, text


def test_lab01_helper(make):
    assert [make.call("held_suffix_len", text, "abc") for text in ("abc", "xab", "ba", "")] == [
        0,
        2,
        1,
        0,
    ]


def test_lab01_cut(make):
    parser = make("StreamingToolParser")
    half = '<tool_call>{"name": ' + json.dumps("f")
    assert parser.feed(half) + parser.flush() == [TextDelta(half)]
