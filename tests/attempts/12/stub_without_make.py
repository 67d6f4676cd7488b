def test_lab03_ascii():
    detokenizer = StreamingDetokenizer()
    assert detokenizer.feed(65) == "A"


def test_lab04_stop():
    matcher = StopStringMatcher(["END"])
    assert matcher.feed("END") == ""
