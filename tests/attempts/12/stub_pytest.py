import pytest


@pytest.mark.parametrize("byte", range(128))
def test_lab03_ascii(make, byte):
    assert make("StreamingDetokenizer").feed(byte) == chr(byte)
