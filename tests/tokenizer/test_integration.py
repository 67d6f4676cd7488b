"""The parts together, by the ids of the acceptance list (U.. unit, I.. integration).

Its other rows are in the files of their modules: U14-U22 and I06 in `test_stop_sequence`, I02, I08,
I10 and U31 in `test_conformance`.
"""

import hashlib
import json
from pathlib import Path

import pytest
from vocabularies import byte_level

from mini_vllm.tokenizer import (
    HuggingFaceTokenizer,
    MockTokenizer,
    TokenizerWrapper,
    create_decode_stream,
    create_tokenizer,
)

PROMPTS = [
    "deep learning is",
    "Deep learning is",
    "has anyone seen nemo lately",
    "another prompt: 你好 🚀 naïve",
]
PAIRS = [
    ("Hello", ", world!"),
    ("naïve ", "café — again"),
    ("你", "好，世界。"),
    ("नम", "स्ते दुनिया"),
    ("emoji: ", "🚀🇫🇷👩‍👩‍👧🫨🎉"),
    ("", "e\u0301 \u200d \ufffd end"),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "tokenizer.json"
    file.write_text(byte_level().to_str(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def tokenizer(path):
    return create_tokenizer(path)


def test_tokenizer_wrapper():  # U26
    wrapper = TokenizerWrapper(MockTokenizer())
    assert wrapper.encode("Hello world").ids == (1, 2)
    assert wrapper.decode([1, 2]) == "Hello world"
    assert wrapper.vocab_size == MockTokenizer.vocab_size
    assert (wrapper.token_to_id("Hello"), wrapper.id_to_token(2)) == (1, "world")
    assert (wrapper.token_to_id("unknown"), wrapper.id_to_token(4242)) == (None, None)
    assert wrapper.special_tokens is wrapper.inner.special_tokens
    assert wrapper.decode_stream([1]).step(2) == " world"


def test_decode_stream_basic():  # U27
    stream = create_decode_stream(MockTokenizer(), [1, 2])
    assert stream.step(3) == " test"


def test_decode_stream_flush():  # U28
    stream = create_decode_stream(MockTokenizer(), [1])
    assert (stream.step(2), stream.flush(), stream.flush()) == (" world", "", "")


def test_huggingface_tokenizer_hashes(tokenizer):  # I01
    for prompt in PROMPTS:
        encoding = tokenizer.encode(prompt)
        words = b"".join(token_id.to_bytes(4, "little") for token_id in encoding.ids)
        digest = hashlib.blake2b(words, digest_size=8).digest()
        assert encoding.get_hash() == int.from_bytes(digest, "little")
    assert len({tokenizer.encode(prompt).get_hash() for prompt in PROMPTS}) == len(PROMPTS)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_decode_stream(tokenizer, prompt):  # I04
    stream = create_decode_stream(tokenizer)
    shown = [stream.step(token_id) for token_id in tokenizer.encode(prompt).ids]
    assert "".join(shown) + stream.flush() == prompt


@pytest.mark.parametrize(("prompt", "output"), PAIRS)
def test_long_sequence_incremental_decode_with_prefill(tokenizer, prompt, output):  # I05
    stream = create_decode_stream(tokenizer, tokenizer.encode(prompt).ids)
    shown = [stream.step(token_id) for token_id in tokenizer.encode(output).ids * 50]
    assert "".join(shown) + stream.flush() == output * 50


def test_factory_creation(path, tokenizer):  # I07
    for source in (path, str(path), path.parent, f"{path.parent}/"):
        made = create_tokenizer(source)
        assert isinstance(made, HuggingFaceTokenizer)
        assert made.decode(made.encode(PROMPTS[3]).ids) == PROMPTS[3]


def test_special_tokens(tokenizer):  # I09
    assert (tokenizer.special_tokens.bos, tokenizer.special_tokens.eos) == ("<s>", "</s>")


def test_special_tokens_from_configuration(tmp_path):
    write(tmp_path / "tokenizer.json", byte_level().to_str())
    write(
        tmp_path / "tokenizer_config.json",
        {"bos_token": {"content": "<think>"}, "eos_token": "<|im_end|>", "pad_token": "absent"},
    )
    write(tmp_path / "special_tokens_map.json", {"eos_token": "</s>", "unk_token": "</s>"})
    write(tmp_path / "config.json", {"eos_token_id": 7})
    write(tmp_path / "generation_config.json", {"eos_token_id": [7, 9]})
    tokenizer = create_tokenizer(tmp_path)
    special = tokenizer.special_tokens
    assert (special.bos, special.eos, special.unk, special.pad) == (
        "<think>",
        "<|im_end|>",
        "</s>",
        None,
    )
    assert tokenizer.eos_token_ids == {7, 9, tokenizer.token_to_id("<|im_end|>")}


def write(path: Path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
