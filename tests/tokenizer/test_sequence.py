"""Sequence: the acceptance list by its ids, and the characters that other engines lose."""

import random

import pytest
from vocabularies import KINDS, TEXTS

from mini_vllm.tokenizer import (
    ByteTokenizer,
    EncodeError,
    HuggingFaceTokenizer,
    MockTokenizer,
    Sequence,
)

REAL = HuggingFaceTokenizer.from_tokenizer(KINDS["byte-level"]())


def test_new():  # U09
    sequence = Sequence(MockTokenizer())
    assert (sequence.is_empty(), len(sequence), sequence.text()) == (True, 0, "")


def test_append_text():  # U10
    sequence = Sequence(MockTokenizer())
    sequence.append_text("Hello world")
    assert (sequence.text(), len(sequence), sequence.token_ids) == ("Hello world", 2, (1, 2))


def test_append_token():  # U11
    sequence = Sequence(MockTokenizer())
    assert [sequence.append_token(1), sequence.append_token(2)] == ["Hello", " world"]
    assert sequence.text() == "Hello world"


def test_clear():  # U12
    sequence = Sequence.with_tokens(MockTokenizer(), [1, 2])
    sequence.clear()
    assert (sequence.is_empty(), sequence.text(), sequence.read_offset) == (True, "", 0)
    assert sequence.append_token(2) == "world"


def test_debug():  # U13
    assert repr(Sequence.with_tokens(MockTokenizer(), [1, 2])) == "Sequence(2 tokens: [1, 2])"
    long = repr(Sequence.with_tokens(ByteTokenizer(), range(100)))
    assert "Sequence(100 tokens: [0, 1," in long
    assert "9, ..., 90" in long


@pytest.mark.parametrize("text", TEXTS)
def test_sequence_operations(text):  # I03
    whole = Sequence(REAL)
    whole.append_text(text)
    assert (whole.text(), len(whole)) == (text, len(REAL.encode(text)))
    single = Sequence(REAL)
    shown = [single.append_token(token_id) for token_id in whole.token_ids]
    assert ("".join(shown), single.text(), len(single)) == (text, text, len(whole))


def test_two_byte_characters_are_not_lost():  # K1
    sequence = Sequence(ByteTokenizer())
    assert [sequence.append_token(byte) for byte in "é!".encode()] == ["", "é", "!"]


def test_offsets_are_in_order_and_within():
    generator = random.Random(0)
    sequence = Sequence(REAL)
    for _ in range(500):
        sequence.append_token(generator.randrange(REAL.vocab_size))
        assert 0 <= sequence.prefix_offset <= sequence.read_offset <= len(sequence)
    assert sequence.text() == REAL.pieces.showing.text(sequence.token_ids)


def test_an_open_character_shows_in_the_whole_text_only():
    sequence = Sequence(ByteTokenizer())
    assert [sequence.append_token(byte) for byte in b"ok\xf0"] == ["o", "k", ""]
    assert (sequence.text(), sequence.read_offset) == ("ok\ufffd", 2)
    assert sequence.append_token(0x9F) == ""
    assert sequence.text() == "ok\ufffd"


def test_text_that_cannot_be_encoded_leaves_the_sequence():
    sequence = Sequence.with_tokens(ByteTokenizer(), b"a")
    with pytest.raises(EncodeError):
        sequence.append_text("b\ud800")
    assert sequence.text() == "a"


def test_special_tokens_can_be_left_out():
    ids = [256, 72, 257]
    assert Sequence.with_tokens(ByteTokenizer(), ids).text() == "<bos>H<eos>"
    assert Sequence.with_tokens(ByteTokenizer(), ids, skip_special_tokens=True).text() == "H"
