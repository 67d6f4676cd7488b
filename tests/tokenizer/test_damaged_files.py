"""Damaged files of every kind: each is refused by name, place and reason.

First the tables: one damage a row. Then random damage: whatever is wrong with a file, it makes a
tokenizer or an error of ours that names the file; never another exception, a hang, a crash, or
memory without bound.
"""

import functools
import json
import os
import random
import resource
import struct
import time
import tracemalloc

import pytest
from model_files import (
    PIECES,
    gguf,
    gpt2_keys,
    llama_keys,
    ranks,
    ranks_file,
    replaced,
    sentencepiece_model,
)
from vocabularies import KINDS

from mini_vllm.chat_template.files import load_chat_template_from_config
from mini_vllm.tokenizer import (
    CorruptModelFile,
    HuggingFaceTokenizer,
    ModelTokenizerMap,
    TokenizerError,
    UnsupportedFormat,
    create_tokenizer,
    read_gguf_metadata,
)
from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer
from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
from mini_vllm.tokenizer.backends.sentencepiece_model import write_model
from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer
from mini_vllm.tokenizer.special_tokens import read_json_object

FILES = 5_000 if os.environ.get("SOAK") else 40
TEMPLATE = ("tokenizer.chat_template", "string", "{{ messages }}")
MOST_SECONDS = 5
MOST_MEMORY = 512 << 20

pytestmark = pytest.mark.timeout(3600 if os.environ.get("SOAK") else 120)


def string(text):
    return struct.pack("<Q", len(text)) + text


def header(count, *, magic=b"GGUF", version=3, order="<"):
    return magic + struct.pack(f"{order}IQQ", version, 0, count)


def nested(depth):
    """A GGUF key of arrays so deep."""
    return KEY + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * depth + b"\0" * 20


KEY = header(1) + string(b"k")
MODEL = write_model(PIECES, add_dummy_prefix=True)
# By kind of file: what reads it, its name, and the rows: content, offset of the damage, message.
DAMAGED = {
    "huggingface": (HuggingFaceTokenizer.from_file, "tokenizer.json", {
        "empty": (b"", None, "EOF"),
        "cut off": (b"{", None, "EOF"),
        "a list": (b"[]", None, "invalid type|invalid length|missing field|expected"),
        "a version alone": (b'{"version": "1.0"}', None, r"tokenizer\.json"),
        "not UTF-8": (b"\xff\xfe{", 0, "not UTF-8"),
        "endless": (b"[" * 100_000 + b"]" * 100_000, None, "invalid type: sequence"),
    }),
    "configuration": (read_json_object, "tokenizer_config.json", {
        "deep": (b"[" * 256 + b"]" * 256, 0, "not a JSON object"),
        "too deep": (b"[" * 257 + b"]" * 257, None, "nested deeper than 256"),
        "endless": (b"[" * 200_000, None, "nested deeper than 256"),
    }),
    "tiktoken": (TiktokenTokenizer.from_file, "gpt2.tiktoken", {
        "no rank": (b"IQ==\n", 0, "two fields"),
        "three fields": (b"IQ== 0 1\n", 0, "two fields"),
        "no base64": (b"IQ== 0\n!!! 1\n", 7, "line 2: b'!!!' is not base64"),
        "no padding": (b"IQ== 0\n\nIQ 1\n", 8, "line 3: b'IQ' is not base64"),
        "no number": (b"IQ== x\n", 0, "the rank b'x'"),
        "a fraction": (b"IQ== 1.0\n", 0, "the rank b'1.0'"),
        "negative": (b"IQ== -1\n", 0, "the rank b'-1'"),
        "too large": (b"IQ== 4294967295\n", 0, "the rank b'4294967295'"),
        "huge": (b"IQ== " + b"9" * 9000 + b"\n", 0, "the rank b'9999"),
        "a rank twice": (b"IQ== 0\nIg== 0\n", 7, "line 2: .* twice"),
        "a token twice": (b"IQ== 0\nIQ== 1\n", 7, "line 2: .* twice"),
        "empty": (b"", 0, "no line"),
    }),
    "sentencepiece": (SentencePieceTokenizer.from_file, "a.model", {
        "empty": (b"", None, r"a\.model"),
        "html": (b"<html><s>", 0, r"a\.model"),
        "a length beyond the end": (b"\x0a\xff\xff\xff\xff\x0f", 6, r"a\.model"),
        "a length beyond its message": (b"\x1a\x02\x0a\x7f\x32\x7f" + b"x" * 127, 4, "127 bytes"),
        "an endless number": (b"\x08" + b"\xff" * 20, 1, r"a\.model"),
        "a cut number": (b"\x08\xff", 1, r"a\.model"),
        "an unknown wire type": (b"\x08\x01\x0f", 2, r"a\.model"),
        "no piece": (b"\x1a\x00", None, r"a\.model"),
        "no unknown piece": (write_model(PIECES[1:], add_dummy_prefix=True), None, r"a\.model"),
        "a piece twice": (MODEL + MODEL, None, r"a\.model"),
        "a piece that is not text": (MODEL + b"\x0a\x03\x0a\x01\xff", None, r"a\.model"),
    }),
    "gguf": (read_gguf_metadata, "a.gguf", {
        "empty": (b"", 0, "ends in the magic"),
        "wrong magic": (header(0, magic=b"GGML"), 0, "begins with b'GGML'"),
        "version 1": (header(0, version=1), 4, "GGUF version 1;"),
        "version 4": (header(0, version=4), 4, "GGUF version 4;"),
        "big-endian": (header(0, order=">"), 4, "big-endian GGUF version 3"),
        "too many keys": (header(2**63), 16, "9223372036854775808 keys need more"),
        "a long key": (header(1) + struct.pack("<Q", 2**40) + b"k" * 9, 32, "ends in key 1 of 1"),
        "a key that is not text": (header(1) + string(b"a\xff") + b"\0" * 5, 33, "key 1 of 1"),
        "a key twice": (gguf([("k", "u8", 1), ("k", "u8", 2)]), 38, "'k' is there twice"),
        "an unknown type": (KEY + struct.pack("<I", 13), 33, "unknown type 13"),
        "an unknown element": (KEY + struct.pack("<IIQ", 9, 99, 0), 37, "unknown element type 99"),
        "many numbers": (KEY + struct.pack("<IIQ", 9, 10, 2**60), 41, "elements of 'k' need more"),
        "many texts": (KEY + struct.pack("<IIQ", 9, 8, 2**61) + b"\0" * 80, 41, "elements of 'k'"),
        "many arrays": (KEY + struct.pack("<IIQ", 9, 9, 9) + b"\0" * 80, 41, "elements of 'k'"),
        "a long text": (KEY + struct.pack("<IQ", 8, 2**63), 45, "ends in 'k'"),
        "not text": (KEY + struct.pack("<I", 8) + string(b"ab\xff"), 47, "not UTF-8"),
        "half a truth": (KEY + struct.pack("<IB", 7, 2), 37, "neither 0 nor 1"),
        "9 arrays deep": (nested(9), 129, "more than 8 deep"),
        "3000 arrays deep": (nested(3000), 129, "more than 8 deep"),
    }),
    "model map": (ModelTokenizerMap.load, "m.toml", {
        "not TOML": (b"[[rules]", None, r"m\.toml: not TOML: .*line 1"),
        "not UTF-8": (b"# \xff", 2, "at byte 2: not UTF-8"),
    }),
    "model map in JSON": (ModelTokenizerMap.load, "m.json", {
        "not JSON": (b"[{]", None, r"m\.json: not JSON: .*line 1"),
        "endless": (b"[" * 100_000, None, "not JSON: nested deeper than 256"),
        "too deep": (b"[" * 257 + b"]" * 257, None, "not JSON: nested deeper than 256"),
    }),
    "chat template": (load_chat_template_from_config, "tokenizer_config.json", {
        "not JSON": (b'{"a": "\xc3\xa9", oops}', 12, "not JSON"),
        "not UTF-8": (b'{"chat_template": "\xff"}', 19, "not UTF-8"),
        "a list": (b"[1]", None, "not a JSON object"),
        "a number": (b'{"chat_template": 1}', None, "chat_template is a int"),
        "without names": (b'{"chat_template": ["a"]}', None, "without a name"),
        "a huge number": (b'{"a": ' + b"1" * 5000 + b"}", None, "not JSON"),
        "endless": (b"[" * 200_000, None, "not JSON: nested deeper than 256"),
        "too deep": (b"[" * 257 + b"]" * 257, None, "not JSON: nested deeper than 256"),
        "deep": (b"[" * 256 + b"]" * 256, None, "not a JSON object"),
        "empty": (b"", 0, "not JSON"),
    }),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "case"), [(kind, case) for kind, (_, _, rows) in DAMAGED.items() for case in rows]
)
def test_each_damage_is_named_and_costs_nothing(tmp_path, kind, case):
    read, name, rows = DAMAGED[kind]
    content, offset, message = rows[case]
    path = tmp_path / name
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptModelFile, match=message) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (caught.value.path, caught.value.offset) == (path, offset)
    # A reader's buffer is a megabyte; a chat template may list 200,000 brackets.
    assert peak < 3 << 20


TOKENS = ("tokens", "[string]", ["<unk>", "<s>", "</s>", "a"])
# A GGUF vocabulary that contradicts itself: which kinds, the changed keys, the message.
BOTH = ("llama", "gpt2")
CONTRADICTIONS = {
    "no tokens": (BOTH, [("tokens", "[string]", [])], "tokens is missing"),
    "tokens of numbers": (BOTH, [("tokens", "[u8]", [1])], "tokens is not a list of str"),
    "a token twice": (BOTH, [("tokens", "[string]", ["a", "a"])], "has a token twice"),
    "few scores": (BOTH, [("scores", "[f32]", [1.0])], "scores has 1 values"),
    "scores of numbers": (BOTH, [("scores", "[i32]", [1])], "scores is not a list of float"),
    "few types": (BOTH, [("token_type", "[i32]", [1])], "token_type has 1 values"),
    "an unknown type": (("llama",),
        [TOKENS, ("scores", "[f32]", None), ("token_type", "[i32]", [2, 3, 3, 9])],
        "has an unknown type: 9"),
    "types of truths": (BOTH, [("token_type", "[bool]", [True])], "is not a list of int"),
    "a merge of one": (BOTH, [("merges", "[string]", ["ab"])], "not two tokens"),
    "a merge of three": (BOTH, [("merges", "[string]", ["a b c"])], "not two tokens"),
    "a BOS beyond": (BOTH, [("bos_token_id", "u32", 4_000_000)], "is 4000000; the ids end at"),
    "a negative EOS": (BOTH, [("eos_token_id", "i32", -1)], "eos_token_id is -1"),
    "an EOT that is text": (BOTH, [("eot_token_id", "string", "</s>")], "eot_token_id is '</s>'"),
    "a BOS that is a truth": (BOTH, [("bos_token_id", "bool", True)], "bos_token_id is True"),
    "a flag that is a number": (BOTH, [("add_bos_token", "u8", 1)], "which is not a truth value"),
    "a merge of unknown tokens": (("gpt2",), [("merges", "[string]", ["zz yy"])], r"ggml\.merges"),
    "a score that is NaN": (("llama",),
        [TOKENS, ("token_type", "[i32]", None), ("scores", "[f32]", [float("nan")] * 4)], "NaN"),
    "an empty token": (("llama",),
        [("tokens", "[string]", [*TOKENS[2], ""]), *((key, "[i32]", None) for key in
        ("token_type", "scores", "padding_token_id"))], "empty"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("case", "kind"), [(case, kind) for case, row in CONTRADICTIONS.items() for kind in row[0]]
)
def test_contradictions(tmp_path, case, kind):
    _, changes, message = CONTRADICTIONS[case]
    keys = llama_keys(sentencepiece_model()) if kind == "llama" else gpt2_keys()
    changes = [(f"tokenizer.ggml.{key}", kind, value) for key, kind, value in changes]
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf(replaced(keys, *changes)))
    with pytest.raises(CorruptModelFile, match=message):
        GGUFTokenizer.from_file(path)


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("tokenizer.json", b'{"model": '), ("tokenizer.model", b"\x0a\x0e\x0a\x05<unk>"),
        ("gpt2.tiktoken", b"IQ== 0\n"), ("config.json", b'{"a": "'),
    ],
)  # fmt: skip
def test_a_file_of_gigabytes_is_refused_by_its_size(tmp_path, name, head):
    path = tmp_path / name
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(5 << 30)
    if name == "config.json":
        path = tmp_path / "tokenizer.json"
        path.write_text(KINDS["llama"]().to_str(), encoding="utf-8")
    with pytest.raises(UnsupportedFormat, match=rf"{name} has 5,368,709,120 bytes; no tokenizer"):
        create_tokenizer(path)


def test_a_value_of_gigabytes_is_refused_before_it_is_read(tmp_path):
    key = ("tokenizer.ggml.tokens", "[u8]", [])
    data = gguf([key])
    path = tmp_path / "a.gguf"
    path.write_bytes(data[:-8] + struct.pack("<Q", 4 << 30))
    with path.open("r+b") as file:
        file.truncate(5 << 30)
    with pytest.raises(CorruptModelFile, match="has 4,294,967,296 bytes, far too many"):
        create_tokenizer(path)


def test_json_of_another_kind_is_named_with_the_fix(tmp_path):
    for name, content, message in (
        ("config.json", '{"model_type": "llama"}', "without a tokenizer, .*give the folder"),
        ("tekken.json", '{"config": {}, "vocab": []}', "Mistral's Tekken, .* the tokenizer.json"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(UnsupportedFormat, match=f"{name} is .*{message}"):
            create_tokenizer(tmp_path / name)


def rank_lines(path):
    return ranks_file(path, ranks()).read_bytes()


SP, GGUF = SentencePieceTokenizer, GGUFTokenizer
FORMATS = {
    **{
        f"huggingface-{kind}": (HuggingFaceTokenizer, "tokenizer.json",
            lambda _, kind=kind: KINDS[kind]().to_str().encode())
        for kind in ("byte-level", "llama", "metaspace-first", "wordpiece")
    },
    "tiktoken": (TiktokenTokenizer, "gpt2.tiktoken", rank_lines),
    "sentencepiece-bpe": (SP, "a.model", lambda _: sentencepiece_model()),
    "sentencepiece-unigram": (SP, "a.model", lambda _: sentencepiece_model("unigram", strip=True)),
    "sentencepiece-nfkc": (SP, "a.model", lambda _: sentencepiece_model("unigram",
        rule="nmt_nfkc")),
    "gguf-llama": (GGUF, "a.gguf", lambda _: gguf([*llama_keys(sentencepiece_model()), TEMPLATE])),
    "gguf-gpt2": (GGUF, "a.gguf", lambda _: gguf([*gpt2_keys(), TEMPLATE])),
}  # fmt: skip


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
    """Read a file; return whether that worked."""
    start = time.process_time()
    tokenizer, error = load(reader, path)
    if tokenizer is not None:
        use(tokenizer)
    else:
        assert path.name in str(error)
        offset = getattr(error, "offset", None)
        assert offset is None or 0 <= offset <= path.stat().st_size
    # Of this process: what else the machine does is not counted.
    assert time.process_time() - start < MOST_SECONDS
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
    for _ in range(FILES // 2):
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
