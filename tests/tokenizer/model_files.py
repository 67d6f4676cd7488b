"""Small files of every format, made on the spot: ranks, SentencePiece models, GGUF."""

import base64
import functools
import io
import json
import struct

import sentencepiece
from vocabularies import TEXTS, byte_level

from mini_vllm.tokenizer.backends import split_patterns
from mini_vllm.tokenizer.backends.sentencepiece_model import ModelPiece, PieceType

CORPUS = [
    "",
    "abc",
    "Hello world, hello again!",
    "é ß",
    "你好 the end",
    "مرحبا",
    "नमस्ते",
    "🚀🇫🇷👩‍👩‍👧",
    "e\u0301",
    "\x00\r\n\u2028",
    "\ufffd",
    "\U0010ffff",
    "  two  spaces ",
    "tab\tand\nline 12345",
    "it's we'LL don't",
]

MERGES = [b"he", b"el", b"ll", b"hell", b"hello", b" w", b" wo", "é".encode()]
MERGES += [b"\xf0\x9f", b"\xff\xfe"]


@functools.cache
def ranks():
    """256 bytes and a few merges; one token is half a character, one never text."""
    tokens = [bytes([byte]) for byte in range(256)] + MERGES
    return {token: rank for rank, token in enumerate(tokens)}


def ranks_file(path, table=None):
    lines = (f"{base64.b64encode(t).decode()} {r}\n" for t, r in (table or ranks()).items())
    path.write_text("".join(lines))
    return path


@functools.cache
def sentencepiece_model(kind="bpe", *, dummy_prefix=True, strip=False, rule="identity"):
    """Train a model on a few texts and return it serialised."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXTS, "the the then there  a  b hello"] * 3),
        model_writer=model,
        model_type=kind,
        vocab_size=340,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name=rule,
        add_dummy_prefix=dummy_prefix,
        remove_extra_whitespaces=strip,
        user_defined_symbols=["<think>", "▁▁", "▁x▁"],
        control_symbols=["<|im_end|>", "▁control"],
        pad_id=3,
        minloglevel=2,
    )
    return model.getvalue()


# Some entries of a vocabulary, to write a model of.
PIECES = [
    ModelPiece("<unk>", 0, PieceType.UNKNOWN),
    ModelPiece("▁a", -1, PieceType.NORMAL),
    ModelPiece("b", -2, PieceType.NORMAL),
    ModelPiece("▁", -3, PieceType.UNUSED),
    ModelPiece("<s>", 0, PieceType.CONTROL),
]

NUMBERS = {
    "u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"),
    "i32": (5, "i"), "f32": (6, "f"), "bool": (7, "?"), "u64": (10, "Q"), "i64": (11, "q"),
    "f64": (12, "d"),
}  # fmt: skip


def _string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind, value):
    """Return type number and bytes of a value; kinds are "u8", "string", "[f32]", "[[u8]]"."""
    if kind.startswith("["):
        inner = kind[1:-1]
        number = _value(inner, [] if inner[0] == "[" else "" if inner == "string" else 0)[0]
        items = b"".join(_value(inner, item)[1] for item in value)
        return 9, struct.pack("<IQ", number, len(value)) + items
    if kind == "string":
        return 8, _string(value)
    number, code = NUMBERS[kind]
    return number, struct.pack(f"<{code}", value)


def gguf(keys, *, version=3, tensors=0):
    """Return a GGUF file of (key, kind, value) triples."""
    out = struct.pack("<4sIQQ", b"GGUF", version, tensors, len(keys))
    for key, kind, value in keys:
        number, data = _value(kind, value)
        out += _string(key) + struct.pack("<I", number) + data
    return out


def llama_keys(model):
    """Return the keys of a SentencePiece model's vocabulary, as llama.cpp's converter writes."""
    inner = sentencepiece.SentencePieceProcessor()
    inner.LoadFromSerializedProto(model)
    ids = range(inner.vocab_size())
    user_defined = {"<think>", "▁▁", "▁x▁"}

    def kind(i):
        known = ((inner.is_unknown, 2), (inner.is_control, 3), (inner.is_byte, 6))
        plain = 4 if inner.id_to_piece(i) in user_defined else 1
        return next((number for check, number in known if check(i)), plain)

    return [
        ("general.architecture", "string", "llama"),
        ("tokenizer.ggml.model", "string", "llama"),
        ("tokenizer.ggml.tokens", "[string]", [inner.id_to_piece(i) for i in ids]),
        ("tokenizer.ggml.scores", "[f32]", [inner.get_score(i) for i in ids]),
        ("tokenizer.ggml.token_type", "[i32]", [kind(i) for i in ids]),
        ("tokenizer.ggml.bos_token_id", "u32", inner.bos_id()),
        ("tokenizer.ggml.eos_token_id", "u32", inner.eos_id()),
        ("tokenizer.ggml.unknown_token_id", "u32", inner.unk_id()),
        ("tokenizer.ggml.padding_token_id", "u32", inner.pad_id()),
    ]


def gpt2_keys(inner=None, pre="gpt-2"):
    """Return the keys of a byte-level BPE's vocabulary."""
    inner = inner or byte_level()
    model = json.loads(inner.to_str())["model"]
    added = inner.get_added_tokens_decoder()
    size = max(inner.get_vocab(with_added_tokens=True).values()) + 1
    kinds = [1 if i not in added else 3 if added[i].special else 4 for i in range(size)]
    return [
        ("tokenizer.ggml.model", "string", "gpt2"),
        ("tokenizer.ggml.pre", "string", pre),
        ("tokenizer.ggml.tokens", "[string]", [inner.id_to_token(i) for i in range(size)]),
        ("tokenizer.ggml.token_type", "[i32]", kinds),
        ("tokenizer.ggml.merges", "[string]", [" ".join(merge) for merge in model["merges"]]),
        ("tokenizer.ggml.bos_token_id", "u32", inner.token_to_id("<s>")),
        ("tokenizer.ggml.eos_token_id", "u32", inner.token_to_id("</s>")),
    ]


def replaced(keys, *changes):
    """Return the keys with some added or changed; a value None removes one."""
    names = {key for key, _, _ in changes}
    kept = [key for key in keys if key[0] not in names]
    return kept + [change for change in changes if change[2] is not None]


def file_backends(folder):
    """Return a tokenizer of every format, read from files made in the folder."""
    from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer
    from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
    from mini_vllm.tokenizer.backends.tiktoken import TiktokenTokenizer

    def written(name, data):
        path = folder / name
        path.write_bytes(data)
        return path

    def model(kind):
        return SentencePieceTokenizer.from_file(written(f"{kind}.model", sentencepiece_model(kind)))

    def of_keys(name, keys):
        return GGUFTokenizer.from_file(written(f"{name}.gguf", gguf(keys)))

    special = {"<|endoftext|>": 300}
    return {
        "tiktoken": TiktokenTokenizer.from_file(
            ranks_file(folder / "a.tiktoken"), pattern=split_patterns.CL100K, special_tokens=special
        ),
        "sentencepiece-bpe": model("bpe"),
        "sentencepiece-unigram": model("unigram"),
        "gguf-llama": of_keys("llama", llama_keys(sentencepiece_model())),
        "gguf-gpt2": of_keys("gpt2", gpt2_keys()),
    }
