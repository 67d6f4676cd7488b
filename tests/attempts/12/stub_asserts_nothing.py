def test_lab03_feeds(make):
    detokenizer = make("StreamingDetokenizer")
    detokenizer.feed(65)
    detokenizer.flush()


def test_lab04_feeds(make):
    matcher = make("StopStringMatcher", ["END"])
    matcher.feed("the END")
    matcher.flush()


def test_lab01_feeds(make):
    parser = make("StreamingToolParser")
    parser.feed("text")
    parser.flush()
