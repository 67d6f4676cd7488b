def test_detokenizer(make):
    assert make("StreamingDetokenizer").feed(65) == "A"


def test_lab3_flush(make):
    assert make("StreamingDetokenizer").flush() == ""


def test_lab02_encodes(make):
    assert make("ByteTokenizer").encode("a") == [97]
