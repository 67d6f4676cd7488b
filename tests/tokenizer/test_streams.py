"""On a decode stream: AttributedStream, IncrementalDetokenizer, Sequence (acceptance ids)."""

import random

import pytest
from vocabularies import KINDS, TEXTS

from mini_vllm.tokenizer import (
    AttributedStream,
    ByteTokenizer,
    EncodeError,
    HuggingFaceTokenizer,
    IncrementalDetokenizer,
    MockTokenizer,
    Sequence,
    create_decode_stream,
)

REAL = HuggingFaceTokenizer.from_tokenizer(KINDS["byte-level"]())


# AttributedStream: the offset of each id, bursts, and segments.


def attributed(tokenizer, **options):
    return AttributedStream(create_decode_stream(tokenizer, **options))


def test_ids_of_one_character_share_its_place_and_ids_without_text_are_zero_wide():
    stream = attributed(ByteTokenizer())
    assert stream.step_batch("a🚀b".encode()) == ["a", "", "", "", "🚀", "b"]
    assert stream.step_batch([256, -1, 2**32, 0x42]) == ["", "", "", "B"]
    assert stream.offsets == [0, 1, 1, 1, 1, 2, 3, 3, 3, 3]
    assert stream.length == 4


def test_a_segment_ends_a_character():
    stream = attributed(ByteTokenizer())
    assert stream.step_batch(b"\xe4\xbd") == ["", ""]
    assert (stream.held, stream.end_segment(), stream.end_segment()) == (b"\xe4\xbd", "\ufffd", "")
    assert stream.step_batch(b"\xa0A") == ["\ufffd", "A"]
    assert stream.flush() == ""


def test_a_segment_does_not_start_the_text_again():
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS["llama"]())
    the = tokenizer.token_to_id("▁the")
    stream = attributed(tokenizer)
    assert [stream.step(the), stream.end_segment(), stream.step(the)] == ["the", "", " the"]


@pytest.mark.parametrize("kind", ["byte-level", "llama", "ctc", "bpe-suffix"])
def test_offsets_rise_and_bursts_change_nothing(kind):
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    generator = random.Random(kind)
    for _ in range(200):
        ids = [generator.randrange(-1, tokenizer.vocab_size + 1) for _ in range(12)]
        single, burst = attributed(tokenizer), attributed(tokenizer)
        texts = [single.step(token_id) for token_id in ids]
        cut = generator.randrange(13)
        assert burst.step_batch(ids[:cut]) + burst.step_batch(ids[cut:]) == texts
        assert burst.offsets == single.offsets == sorted(single.offsets)
        assert single.offsets[0] == 0
        assert single.length == len("".join(texts))


# IncrementalDetokenizer: its acceptance criteria, and what decoding a window twice would lose.


def detokenized(tokenizer, prompt, output):
    detokenizer = IncrementalDetokenizer(tokenizer, prompt)
    return [detokenizer.push(token_id) for token_id in output], detokenizer.flush()


def test_a_character_of_several_tokens_comes_with_the_last_of_them():
    ids = REAL.encode("🫣").ids
    assert len(ids) > 2
    pieces, rest = detokenized(REAL, REAL.encode("a").ids, ids)
    assert (pieces, rest) == ([*[""] * (len(ids) - 1), "🫣"], "")
    # Special tokens are shown; a character that the prompt began comes whole; half a one, once.
    assert detokenized(REAL, [], [REAL.token_to_id("</s>")])[0] == ["</s>"]
    assert detokenized(ByteTokenizer(), b"p\xe4\xbd", b"\xa0A") == (["你", "A"], "")
    detokenizer = IncrementalDetokenizer(ByteTokenizer(), b"p")
    assert [detokenizer.push(0xF0), detokenizer.flush(), detokenizer.flush()] == ["", "\ufffd", ""]


@pytest.mark.parametrize("text", ["Hello world", "naïve café — 你好 🚀 the end", "नमस्ते 世界 🫨"])
def test_text_is_the_rest_of_the_whole_decoding(text):  # I05
    ids = REAL.encode(text).ids
    for cut in range(len(ids) + 1):
        before = REAL.decode(ids[:cut])
        if before.endswith("\ufffd"):
            continue
        pieces, rest = detokenized(REAL, ids[:cut], ids[cut:])
        assert "".join(pieces) + rest == REAL.decode(ids)[len(before) :]
        assert "\ufffd" not in "".join(pieces)


# Sequence: its acceptance criteria, and the characters that other engines lose.


def test_new_append_and_clear():  # U09, U10, U11, U12
    sequence, other = Sequence(MockTokenizer()), Sequence(MockTokenizer())
    assert (sequence.is_empty(), len(sequence), sequence.text()) == (True, 0, "")
    sequence.append_text("Hello world")
    assert (sequence.text(), len(sequence), sequence.token_ids) == ("Hello world", 2, (1, 2))
    assert [other.append_token(1), other.append_token(2)] == ["Hello", " world"]
    assert other.text() == "Hello world"
    sequence.clear()
    assert (sequence.is_empty(), sequence.text(), sequence.read_offset) == (True, "", 0)
    assert sequence.append_token(2) == "world"


def test_debug():  # U13
    assert repr(Sequence.with_tokens(MockTokenizer(), [1, 2])) == "Sequence(2 tokens: [1, 2])"
    long = repr(Sequence.with_tokens(ByteTokenizer(), range(100)))
    assert "Sequence(100 tokens: [0, 1," in long
    assert "9, ..., 90" in long


@pytest.mark.parametrize("text", TEXTS)
def test_sequence_operations(text):  # I03, I04
    whole = Sequence(REAL)
    whole.append_text(text)
    assert (whole.text(), len(whole)) == (text, len(REAL.encode(text)))
    single = Sequence(REAL)
    shown = [single.append_token(token_id) for token_id in whole.token_ids]
    assert ("".join(shown), single.text(), len(single)) == (text, text, len(whole))


def test_offsets_are_in_order_and_within():
    generator = random.Random(0)
    sequence = Sequence(REAL)
    for _ in range(500):
        sequence.append_token(generator.randrange(REAL.vocab_size))
        assert 0 <= sequence.prefix_offset <= sequence.read_offset <= len(sequence)
    assert sequence.text() == REAL.pieces.showing.text(sequence.token_ids)


def test_an_open_character_shows_in_the_whole_text_only():  # K1
    sequence = Sequence(ByteTokenizer())
    assert [sequence.append_token(byte) for byte in b"ok\xf0"] == ["o", "k", ""]
    assert (sequence.text(), sequence.read_offset) == ("ok\ufffd", 2)
    assert sequence.append_token(0x9F) == ""
    assert sequence.text() == "ok\ufffd"
    sequence.clear()
    assert [sequence.append_token(byte) for byte in "é!".encode()] == ["", "é", "!"]
    ids = [256, 72, 257]
    assert Sequence.with_tokens(ByteTokenizer(), ids).text() == "<bos>H<eos>"
    assert Sequence.with_tokens(ByteTokenizer(), ids, skip_special_tokens=True).text() == "H"


def test_text_that_cannot_be_encoded_leaves_the_sequence():
    sequence = Sequence.with_tokens(ByteTokenizer(), b"a")
    with pytest.raises(EncodeError):
        sequence.append_text("b\ud800")
    assert sequence.text() == "a"
