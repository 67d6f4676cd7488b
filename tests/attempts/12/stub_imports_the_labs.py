from solution import StreamingDetokenizer


def test_lab03_same(make):
    one, other = make("StreamingDetokenizer"), StreamingDetokenizer()
    for byte in range(256):
        assert one.feed(byte) == other.feed(byte)
