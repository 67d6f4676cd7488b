"""Damaged files of every format: a tokenizer, or an error of ours that names the file.

Never another exception, a hang, a crash, or memory without bound.
"""

import functools
import json
import os
import random
import resource
import time

import pytest
from model_files import (
    gguf,
    gpt2_keys,
    llama_keys,
    ranks,
    ranks_file,
    sentencepiece_model,
)
from vocabularies import KINDS

from mini_vllm.tokenizer import HuggingFaceTokenizer, TokenizerError
from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer
from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer

FILES = 5_000 if os.environ.get("SOAK") else 100
TEMPLATE = ("tokenizer.chat_template", "string", "{{ messages }}")
MOST_SECONDS = 5
MOST_MEMORY = 512 << 20

pytestmark = pytest.mark.timeout(3600 if os.environ.get("SOAK") else 120)


def rank_lines(path):
    return ranks_file(path, ranks()).read_bytes()


FORMATS = {
    **{
        f"huggingface-{kind}": (
            HuggingFaceTokenizer,
            "tokenizer.json",
            lambda _, kind=kind: KINDS[kind]().to_str().encode(),
        )
        for kind in ("byte-level", "llama", "metaspace-first", "wordpiece")
    },
    "tiktoken": (TiktokenTokenizer, "a.tiktoken", rank_lines),
    "sentencepiece-bpe": (SentencePieceTokenizer, "a.model", lambda _: sentencepiece_model()),
    "sentencepiece-unigram": (
        SentencePieceTokenizer,
        "a.model",
        lambda _: sentencepiece_model("unigram", strip=True),
    ),
    "sentencepiece-nfkc": (
        SentencePieceTokenizer,
        "a.model",
        lambda _: sentencepiece_model("unigram", rule="nmt_nfkc"),
    ),
    "gguf-llama": (
        GGUFTokenizer,
        "a.gguf",
        lambda _: gguf([*llama_keys(sentencepiece_model()), TEMPLATE]),
    ),
    "gguf-gpt2": (GGUFTokenizer, "a.gguf", lambda _: gguf([*gpt2_keys(), TEMPLATE])),
}


def damaged(data, generator):
    """Return the data cut off, or with some bits, bytes or stretches changed."""
    if generator.random() < 0.2:
        return data[: generator.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(generator.choice([1, 1, 1, 2, 8])):
        # Heads and tails hold the lengths and the settings; the middle is vocabulary.
        near = generator.choice([len(changed), len(changed), 200])
        place = generator.randrange(min(near, len(changed)))
        place = generator.choice([place, place, len(changed) - 1 - place])
        kind = generator.randrange(5)
        if kind == 0:
            changed[place] ^= 1 << generator.randrange(8)
        elif kind == 1:
            changed[place] = generator.choice([0, 1, 0x7F, 0x80, 0xFF])
        elif kind == 2:
            changed[place] = generator.randrange(256)
        elif kind == 3:
            del changed[place : place + generator.randrange(1, 9)]
        else:
            changed[place:place] = changed[place : place + generator.randrange(1, 9)]
    return bytes(changed)


def use(tokenizer):
    """Encode, decode and stream; whatever goes wrong is an error of ours."""
    for text in ("Hello 你好 🚀 a\0b  the 12", "", "</s>"):
        ids = ()
        try:
            ids = tokenizer.encode(text, add_special_tokens=True).ids
            tokenizer.decode(ids)
            tokenizer.decode(ids, skip_special_tokens=True)
        except TokenizerError:
            pass
        pieces = tokenizer.pieces
        if pieces is not None:
            pieces.showing.text(ids)
            pieces.skipping.text([*ids, *range(0, len(pieces.rest), 50)])


def load(reader, path):
    """Return the tokenizer of a file and None, or None and the error."""
    try:
        return reader.from_file(path), None
    except TokenizerError as error:
        return None, error


def check(reader, path):
    """Read a file; return whether it could be."""
    start = time.monotonic()
    tokenizer, error = load(reader, path)
    if tokenizer is not None:
        use(tokenizer)
    else:
        assert path.name in str(error)
        offset = getattr(error, "offset", None)
        assert offset is None or 0 <= offset <= path.stat().st_size
    assert time.monotonic() - start < MOST_SECONDS
    return tokenizer is not None


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_bytes(tmp_path, format):
    reader, name, make = FORMATS[format]
    path = tmp_path / name
    data = make(path)
    path.write_bytes(data)
    assert check(reader, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    generator = random.Random(format)
    refused = 0
    for _ in range(FILES):
        path.write_bytes(damaged(data, generator))
        refused += not check(reader, path)
    assert refused > FILES / 20
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown << 10 < MOST_MEMORY


def places(value, path=()):
    """Yield the path of every value inside a JSON value."""
    yield path
    keys = value if isinstance(value, dict) else range(len(value)) if type(value) is list else ()
    for key in keys:
        yield from places(value[key], (*path, key))


STRANGE = [None, True, 0, -1, 2**31, 2**64, 1.5, "", "x", "▁", [], {}, [[]], {"type": "BPE"}]


@functools.cache
def parsed(kind):
    whole = json.loads(KINDS[kind]().to_str())
    # The vocabulary would take most of the places, and its values matter little.
    return json.dumps(whole), [place for place in places(whole) if place and "vocab" not in place]


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_values_of_a_tokenizer_json(tmp_path, kind):
    path = tmp_path / "tokenizer.json"
    text, where = parsed(kind)
    generator = random.Random(kind)
    for _ in range(FILES // 3):
        changed = json.loads(text)
        *parents, last = generator.choice(where)
        inner = functools.reduce(lambda value, key: value[key], parents, changed)
        if generator.random() < 0.3:
            del inner[last]
        else:
            inner[last] = generator.choice(STRANGE)
        path.write_text(json.dumps(changed))
        check(HuggingFaceTokenizer, path)


@pytest.mark.parametrize("format", FORMATS)
def test_files_of_another_format(tmp_path, format):
    reader, name, _ = FORMATS[format]
    path = tmp_path / name
    others = [make(tmp_path / "other") for r, _, make in FORMATS.values() if r is not reader]
    generator = random.Random(0)
    noise = [generator.randbytes(size) for size in (1, 2, 9, 100, 5000)]
    for data in [b"", b"\0" * 100, b"{}", b"[]", b"null", b"<html><s>", *others, *noise]:
        path.write_bytes(data)
        assert not check(reader, path)
