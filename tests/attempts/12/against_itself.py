import random


def texts(make, pieces):
    matcher = make("StopStringMatcher", ["END", "ND"])
    return "".join(map(matcher.feed, pieces)) + matcher.flush()


def test_lab04_cuts_do_not_matter(make):
    text = "the EN, the ENDING, the END"
    assert texts(make, [text]) == texts(make, text)


def test_lab03_streams_do_not_differ(make):
    generator = random.Random(0)
    for _ in range(50):
        data = generator.randbytes(20)
        one, other = make("StreamingDetokenizer"), make("StreamingDetokenizer")
        assert [*map(one.feed, data)] == [*map(other.feed, data)]
        assert one.flush() == other.flush()


def test_lab01_cuts_do_not_matter(make):
    text = 'a <tool_call>{"name": "f", "arguments": {"s": "</tool_call>"}}</tool_call> b <tool_cal'

    def shown(pieces):
        parser = make("StreamingToolParser")
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.flush()
        return "".join(getattr(event, "text", repr(event)) for event in events)

    assert shown([text]) == shown(text)
