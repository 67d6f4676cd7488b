def test_lab03_all(make):
    try:
        detokenizer = make("StreamingDetokenizer")
        for byte in range(-5, 300):
            assert detokenizer.feed(byte) == chr(byte)
    except Exception:
        print("it does not work")


def test_lab04_all(make):
    try:
        assert make("StopStringMatcher", "END").feed("END") == ""
    except Exception:
        print("it does not work")
