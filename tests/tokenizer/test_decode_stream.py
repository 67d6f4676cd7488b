"""DecodeStream: equal to the reference text for every decoder kind, eager, and never more."""

import os
import random

import pytest
from vocabularies import KINDS

from mini_vllm.text.utf8 import last_complete_utf8_end
from mini_vllm.tokenizer import (
    ByteTokenizer,
    DecodeStream,
    HuggingFaceTokenizer,
    create_decode_stream,
)
from mini_vllm.tokenizer.pieces import StreamTable

LINKED = {"ctc", "bpe-suffix"}
SEQUENCES = 60_000 if os.environ.get("SOAK") else 1_000


def stream(tokenizer, ids, prompt=(), **options):
    decoder = create_decode_stream(tokenizer, prompt, **options)
    return [decoder.step(token_id) for token_id in ids], decoder.flush()


def reference_bytes(pieces, ids, *, skip):
    data, first = b"", True
    for token_id in ids:
        known = 0 <= token_id < len(pieces.rest) and not (skip and token_id in pieces.special)
        piece = (pieces.first if first else pieces.rest)[token_id] if known else None
        if piece is not None:
            data, first = data + piece, False
    return data


def well_formed(tokenizer, ids):
    """Whether every run of byte tokens is well-formed UTF-8, so that all decoders agree."""
    run = b""
    for token in [*(tokenizer.id_to_token(i) or "" for i in ids), ""]:
        if token.startswith("<0x"):
            run += bytes([int(token[3:5], 16)])
            continue
        try:
            run.decode()
        except UnicodeDecodeError:
            return False
        run = b""
    return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("skip", [False, True], ids=["show", "skip"])
def test_exact_on_random_sequences(kind, skip):
    inner = KINDS[kind]()
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    generator = random.Random(kind)
    added = inner.get_added_tokens_decoder()
    size, compared = tokenizer.vocab_size, 0
    outside = [-1, -5, -size, -size - 1, size, 2**32]
    for _ in range(SEQUENCES):
        ids = [generator.randrange(tokenizer.vocab_size) for _ in range(generator.randint(0, 7))]
        mixed = [i for token_id in ids for i in (token_id, generator.choice(outside))]
        pieces, rest = stream(tokenizer, mixed, skip_special_tokens=skip)
        text = "".join(pieces) + rest
        if kind not in LINKED:
            data = reference_bytes(tokenizer.pieces, ids, skip=skip)
            assert text == data.decode("utf-8", "replace")
        # The library runs added tokens through the byte map; we do not.
        plain = kind != "byte-level" or not any(i in added for i in ids)
        if plain and well_formed(tokenizer, ids):
            assert text == inner.decode(ids, skip_special_tokens=skip)
            compared += 1
    assert compared > SEQUENCES / 20


@pytest.mark.parametrize("kind", ["byte-level", "llama"])
def test_eager_and_bounded(kind):
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    generator = random.Random(0)
    for _ in range(500):
        ids = [generator.randrange(tokenizer.vocab_size) for _ in range(8)]
        decoder, shown = create_decode_stream(tokenizer), ""
        for count, token_id in enumerate(ids, start=1):
            shown += decoder.step(token_id)
            data = reference_bytes(tokenizer.pieces, ids[:count], skip=True)
            end = last_complete_utf8_end(data)
            assert shown == data[:end].decode("utf-8", "replace")
            assert decoder.held == data[end:]
            assert len(decoder.held) <= 3


@pytest.mark.parametrize("kind", sorted(LINKED))
def test_the_prompt_is_context_where_tokens_depend_on_the_one_before(kind):
    inner = KINDS[kind]()
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    generator = random.Random(2)
    for _ in range(1000):
        ids = [generator.randrange(tokenizer.vocab_size) for _ in range(8)]
        cut = generator.randrange(9)
        pieces, rest = stream(tokenizer, ids[cut:], ids[:cut], skip_special_tokens=False)
        shown, _ = stream(tokenizer, ids[:cut], skip_special_tokens=False)
        assert "".join([*shown, *pieces]) + rest == inner.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("kind", ["byte-level", "llama", "metaspace-first"])
def test_the_prompt_is_context_and_never_text(kind):
    """detok-B10: a prompt of any length does not make the first step fail."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    generator = random.Random(1)
    for _ in range(1000):
        ids = [generator.randrange(tokenizer.vocab_size) for _ in range(20)]
        cut = generator.randrange(21)
        pieces, rest = stream(tokenizer, ids[cut:], ids[:cut])
        before = reference_bytes(tokenizer.pieces, ids[:cut], skip=True)
        whole = reference_bytes(tokenizer.pieces, ids, skip=True)
        complete = last_complete_utf8_end(before)
        assert "".join(pieces) + rest == whole[complete:].decode("utf-8", "replace")


def test_skipped_special_tokens_are_transparent_and_shown_ones_break():
    ids = [0xF0, 0x9F, 256, 0x9A, 0x80]
    assert stream(ByteTokenizer(), ids) == (["", "", "", "", "🚀"], "")
    pieces, _ = stream(ByteTokenizer(), ids, skip_special_tokens=False)
    assert pieces == ["", "", "\ufffd<bos>", "\ufffd", "\ufffd"]


def test_a_flush_before_any_text_leaves_the_stream_at_its_start():
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS["llama"]())
    the = tokenizer.token_to_id("▁the")
    decoder = DecodeStream(tokenizer)
    assert (decoder.flush(), decoder.step(the), decoder.flush()) == ("", "the", "")
    assert decoder.step(the) == " the"


def test_what_is_remembered_of_open_characters_is_capped(monkeypatch):
    monkeypatch.setattr(StreamTable, "MOST_JOINS", 10)
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS["byte-level"]())
    generator, table = random.Random(0), tokenizer.pieces.skipping
    ids = [generator.randrange(tokenizer.vocab_size) for _ in range(5_000)]
    pieces, rest = stream(tokenizer, ids)
    open_joins = [joins for state, joins in table._joins.items() if state != table.idle]
    # Each dictionary also holds its state.
    assert sum(len(joins) - 1 for joins in open_joins) == 10
    data = reference_bytes(tokenizer.pieces, ids, skip=True)
    assert "".join(pieces) + rest == data.decode("utf-8", "replace")


@pytest.mark.parametrize("kind", KINDS)
def test_streams_in_turns_give_what_each_gives_alone(kind):
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    draw = random.Random(kind)
    for _ in range(50):
        mine, theirs = ([draw.randrange(tokenizer.vocab_size) for _ in range(20)] for _ in "ab")
        first, second = create_decode_stream(tokenizer), create_decode_stream(tokenizer, mine[:3])
        turns = [(first.step(a), second.step(b)) for a, b in zip(mine, theirs, strict=True)]
        together = [[*texts] for texts in zip(*turns, (first.flush(), second.flush()), strict=True)]
        for ids, prompt, got in ((mine, (), together[0]), (theirs, mine[:3], together[1])):
            texts, rest = stream(tokenizer, ids, prompt)
            assert got == [*texts, rest]
