"""What every tokenizer keeps, whatever its backend (among it I02, I08, I10, U31)."""

import random
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from model_files import CORPUS, file_backends
from vocabularies import byte_level

from mini_vllm.tokenizer import (
    ByteTokenizer,
    Decoder,
    EncodeError,
    Encoder,
    HuggingFaceTokenizer,
    MockTokenizer,
    Tokenizer,
    UnknownTokenId,
    create_decode_stream,
)

WORDS = ["", "Hello", "Hello world test", "token . Hello"]

BACKENDS = {
    "byte": (ByteTokenizer(), CORPUS),
    "huggingface": (HuggingFaceTokenizer.from_tokenizer(byte_level()), CORPUS),
    "mock": (MockTokenizer(), WORDS),
    "mock-extended": (MockTokenizer(extended=True), WORDS),
}

with tempfile.TemporaryDirectory() as folder:
    BACKENDS |= {name: (made, CORPUS) for name, made in file_backends(Path(folder)).items()}


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


def test_round_trip(backend):
    tokenizer, texts = backend
    assert isinstance(tokenizer, Tokenizer)
    for text in texts:
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
        ids = tokenizer.encode(text, add_special_tokens=True).ids
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        assert all(0 <= token_id < tokenizer.vocab_size for token_id in ids)
    assert tokenizer.encode("").ids == ()
    assert tokenizer.decode([]) == ""


def test_ids_and_tokens_agree(backend):
    tokenizer, _ = backend
    known = 0
    for token_id in range(tokenizer.vocab_size):
        token = tokenizer.id_to_token(token_id)
        if token is not None:
            assert tokenizer.token_to_id(token) == token_id
            known += 1
    assert known >= 8
    assert tokenizer.id_to_token(tokenizer.vocab_size) is None
    assert tokenizer.token_to_id("no such token") is None
    assert tokenizer.eos_token_ids
    assert all(tokenizer.id_to_token(token_id) is not None for token_id in tokenizer.eos_token_ids)


def test_batch_equals_singles(backend):
    tokenizer, texts = backend
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_batch([]) == []


def test_unknown_ids(backend):
    tokenizer, _ = backend
    for token_id in (-1, tokenizer.vocab_size, 2**31, 2**40):
        assert tokenizer.id_to_token(token_id) is None
        if isinstance(tokenizer, ByteTokenizer | MockTokenizer):
            assert tokenizer.decode([token_id]) == ""
        else:
            with pytest.raises(UnknownTokenId, match=str(token_id)):
                tokenizer.decode([*tokenizer.eos_token_ids, token_id])


def test_lone_surrogates_are_named_with_their_place_in_the_batch(backend):
    tokenizer, _ = backend
    if isinstance(tokenizer, MockTokenizer):
        assert tokenizer.encode("Hello \ud800").ids == (1,)
        return
    # The library of Hugging Face finds them itself, and says less.
    ours = getattr(tokenizer, "inner", tokenizer)
    theirs = isinstance(ours, HuggingFaceTokenizer)
    says = "cannot be encoded" if theirs else r"lone surrogate U\+D800 at position 1"
    with pytest.raises(EncodeError, match=says):
        tokenizer.encode("a\ud800")
    with pytest.raises(EncodeError, match=f"text 1 of the batch: .*{says}") as caught:
        tokenizer.encode_batch(["a", "b\ud800"])
    assert caught.value.index == 1


def test_streams_equal_decode(backend):
    tokenizer, _ = backend
    if tokenizer.pieces is None:
        return
    generator = random.Random(0)
    ids = [i for i in range(tokenizer.vocab_size) if tokenizer.pieces.rest[i] is not None]
    # On ill-formed bytes the library of Hugging Face has its own count of U+FFFD.
    valid = isinstance(getattr(tokenizer, "inner", tokenizer), HuggingFaceTokenizer)
    for _ in range(300):
        drawn = generator.choices(ids, k=generator.randint(0, 6))
        for skip in (False, True):
            stream = create_decode_stream(tokenizer, skip_special_tokens=skip)
            text = "".join(map(stream.step, drawn)) + stream.flush()
            if not (valid and "\ufffd" in text):
                assert text == tokenizer.decode(drawn, skip_special_tokens=skip)


def test_offsets_are_character_spans_of_the_original(backend):
    tokenizer, texts = backend
    for text in texts:
        encoding = tokenizer.encode(text, add_special_tokens=True)
        if encoding.offsets is None:
            continue
        spans = [s for s, special in zip(encoding.offsets, encoding.special_mask, strict=True)
                 if not special]  # fmt: skip
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert [start for start, _ in spans] == sorted(start for start, _ in spans)
        assert {i for start, end in spans for i in range(start, end)} == set(range(len(text)))


def test_thread_safety(backend):
    tokenizer, texts = backend
    wanted = [(tokenizer.encode(text).ids, text) for text in texts] * 20
    with ThreadPoolExecutor(8) as pool:
        encoded = pool.map(lambda pair: tokenizer.encode(pair[1]).ids, wanted)
        assert list(encoded) == [ids for ids, _ in wanted]
        decoded = pool.map(lambda pair: tokenizer.decode(pair[0]), wanted)
        assert list(decoded) == [text for _, text in wanted]


def test_halves_can_stand_alone():
    encodes, decodes = SimpleNamespace(encode=len, encode_batch=len), SimpleNamespace(decode=len)
    assert isinstance(encodes, Encoder)
    assert isinstance(decodes, Decoder)
    assert not isinstance(encodes, Decoder)
    assert not isinstance(decodes, Tokenizer)
