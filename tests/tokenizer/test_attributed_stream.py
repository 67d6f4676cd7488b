"""AttributedStream: the offset of each id, bursts, and segments."""

import random

import pytest
from vocabularies import KINDS

from mini_vllm.tokenizer import (
    AttributedStream,
    ByteTokenizer,
    HuggingFaceTokenizer,
    create_decode_stream,
)


def attributed(tokenizer, **options):
    return AttributedStream(create_decode_stream(tokenizer, **options))


def test_ids_of_one_character_share_its_place():
    stream = attributed(ByteTokenizer())
    assert stream.step_batch("a🚀b".encode()) == ["a", "", "", "", "🚀", "b"]
    assert stream.offsets == [0, 1, 1, 1, 1, 2]


def test_ids_without_text_are_zero_wide():
    stream = attributed(ByteTokenizer())
    stream.step_batch([0x41, 256, -1, 2**32, 0x42])
    assert stream.offsets == [0, 1, 1, 1, 1]
    assert stream.length == 2


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
