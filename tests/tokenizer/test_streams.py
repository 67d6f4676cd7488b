"""On a decode stream: AttributedStream, IncrementalDetokenizer, Sequence (acceptance ids)."""

import copy
import pickle
import random

import numpy
import pytest
from prometheus_client import CollectorRegistry
from vocabularies import KINDS, TEXTS

from mini_vllm.tokenizer import (
    AttributedStream,
    ByteTokenizer,
    EncodeError,
    HuggingFaceTokenizer,
    IncrementalDetokenizer,
    MockTokenizer,
    Sequence,
    StopSequenceConfig,
    StopSequenceDecoder,
    TokenizerWrapper,
    create_decode_stream,
)
from mini_vllm.tokenizer.metrics import TokenizerMetrics
from mini_vllm.tokenizer.streams.metered_stream import MeteredStream

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


# What all of them can do: bursts, arrays, copies.


class Array:
    """The part of an array of torch, or of another library, that counts."""

    def __init__(self, rows):
        self.rows = rows

    def tolist(self):
        return self.rows


TEXT = "a🇫🇷b — 你好 the"


class Opaque(TokenizerWrapper):
    """A tokenizer of which only `decode` is known."""

    pieces = None


OPAQUE = Opaque(REAL)
STREAMS = {
    "table": lambda ids: create_decode_stream(REAL, ids),
    "window": lambda ids: create_decode_stream(OPAQUE, ids),
    "attributed": lambda ids: AttributedStream(create_decode_stream(REAL, ids)),
    "metered": lambda ids: MeteredStream(create_decode_stream(REAL, ids), METRICS),
    "detokenizer": lambda ids: IncrementalDetokenizer(REAL, ids),
    "sequence": lambda ids: Sequence.with_tokens(REAL, ids),
    "stops": lambda ids: StopSequenceDecoder(OPAQUE, STOPS, prompt_token_ids=ids),
}
METRICS = TokenizerMetrics(CollectorRegistry())
STOPS = StopSequenceConfig(stop_sequences=("好 the end",))


def take(stream, ids):
    many = getattr(stream, "process_tokens", None) or stream.step_batch
    return many(ids)


def place_of(stream):
    return [getattr(stream, name, None) for name in ("held", "jail", "offsets", "token_ids")]


@pytest.mark.parametrize("make", [Array, numpy.array])
@pytest.mark.parametrize("kind", STREAMS)
def test_arrays_and_bursts_are_ids_like_others(kind, make):
    ids = list(REAL.encode(TEXT).ids)
    for cut in range(0, len(ids), 3):
        plain, array = STREAMS[kind](ids[:cut]), STREAMS[kind](make(ids[:cut]))
        single = STREAMS[kind](iter(ids[:cut]))
        texts = take(plain, ids[cut:])
        assert take(array, make(ids[cut:])) == texts
        assert [one for token_id in ids[cut:] for one in take(single, [token_id])] == texts
    for wrong in (make([ids]), make(5)):
        with pytest.raises(ValueError, match="give one row of it"):
            STREAMS[kind](wrong)
        with pytest.raises(ValueError, match="give one row of it"):
            take(STREAMS[kind]([]), wrong)


@pytest.mark.parametrize("make", [Array, numpy.array])
@pytest.mark.parametrize("tokenizer", [REAL, ByteTokenizer(), MockTokenizer()])
def test_decode_takes_arrays(tokenizer, make):
    assert tokenizer.decode(make([1, 2, 3])) == tokenizer.decode([1, 2, 3])


def test_an_id_that_is_a_new_object_each_time_is_not_remembered_each_time():
    class Scalar:
        def __init__(self, number):
            self.number = number

        def __index__(self):
            return self.number

    stream, text = create_decode_stream(ByteTokenizer()), "aé" * 300
    assert "".join(stream.step(Scalar(byte)) for byte in text.encode()) == text
    assert stream.step(0xC3) == ""
    # The state, and every byte that may follow.
    assert len(stream._joins) <= 257


def pickled(stream):
    return pickle.loads(pickle.dumps(stream))


# Metrics belong to their process.
COPIES = [
    (kind, way)
    for kind in STREAMS
    for way in (copy.copy, copy.deepcopy, pickled)
    if (kind, way) != ("metered", pickled)
]


@pytest.mark.parametrize(("kind", "way"), COPIES)
def test_property_isolated_copies(kind, way):
    ids = REAL.encode(TEXT).ids
    for cut in range(1, len(ids)):
        one, whole = STREAMS[kind](ids[:1]), STREAMS[kind](ids[:1])
        take(one, ids[1:cut])
        before, rest = place_of(one), take(whole, ids[1:])[cut - 1 :]
        other = way(one)
        assert take(other, ids[cut:]) == rest
        assert other.flush() == whole.flush() if kind != "sequence" else other.text() == TEXT
        # Nothing of it has reached the first one, which goes on by itself.
        assert place_of(one) == before
        assert take(one, ids[cut:]) == rest


def test_copies_in_a_process_share_the_tokenizer_and_pickles_leave_out_what_was_learned():
    stream, window = create_decode_stream(REAL), create_decode_stream(OPAQUE)
    assert copy.deepcopy(stream)._table is stream._table
    assert copy.deepcopy(window)._tokenizer is OPAQUE
    before = len(pickle.dumps(stream))
    stream.step_batch(range(REAL.vocab_size))
    assert len(pickle.dumps(stream)) <= before + 8


def test_what_keeps_ids_returns_them():
    stream, sequence = attributed(REAL), Sequence(REAL)
    assert stream.step_batch([5, -1, 7]) == sequence.step_batch([5, -1, 7])
    assert stream.tokens() == sequence.tokens() == (5, -1, 7)
