def test_lab03_buffer(make):
    detokenizer = make("StreamingDetokenizer")
    detokenizer.feed(0xE2)
    assert detokenizer._held == b"\xe2"


def test_lab04_state(make):
    matcher = make("StopStringMatcher", ["END"])
    matcher.feed("E")
    assert matcher._held == "E"
