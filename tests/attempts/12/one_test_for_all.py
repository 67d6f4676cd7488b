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


def test_lab03_everything(make):
    detokenizer = make("StreamingDetokenizer")
    for data in (b"abc", "é€🚀".encode(), b"\xed\xa0", b"\xc0A", b"\xf0\x9f"):
        text = "".join(map(detokenizer.feed, data)) + detokenizer.flush()
        assert text == data.decode("utf-8", "replace")
    assert detokenizer.feed(-1) == detokenizer.feed(257) == ""
    # By now it is an error, or is it?
    refuses(detokenizer.feed, 256)


def test_lab04_everything(make):
    matcher = make("StopStringMatcher", ["aab", "b"])
    assert streamed(matcher, ["aa", "ab", "c"]) == ["aa", "a", "", ""]
    refuses(make, "StopStringMatcher", [])
