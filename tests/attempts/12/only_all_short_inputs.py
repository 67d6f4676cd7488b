import itertools

CALL = '<tool_call>{"name": "f", "arguments": %s}</tool_call>'


def refuses(function, *args, **kwargs):
    """Return the message of the `ValueError` that a call raises; fail if it raises none."""
    try:
        function(*args, **kwargs)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"no ValueError for {args}")


def streamed(made, pieces):
    """Return what an object gives for each piece, and for the end."""
    return [*(made.feed(piece) for piece in pieces), made.flush()]


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


def first_to_end(text, stops):
    """Return where the text before the first stop ends, and that stop, by trying every end."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if text[:end].endswith(stop)]
        if found:
            return end - len(max(found, key=len)), max(found, key=len)
    return len(text), None


def held_by(text, stops):
    """Return the longest end of a text that begins a stop which can win."""
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
