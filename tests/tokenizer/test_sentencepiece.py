"""SentencePieceTokenizer: ids, text and offsets of the library, streams, flags of a model."""

import itertools
import json
import os
import random
import sys

import pytest
import sentencepiece
from model_files import CORPUS, PIECES, sentencepiece_model

from mini_vllm.tokenizer import (
    CorruptModelFile,
    EncodingKind,
    TokenizerFileNotFound,
    UnsupportedFormat,
    create_decode_stream,
    create_tokenizer,
)
from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
from mini_vllm.tokenizer.backends.sentencepiece_model import ModelFlags, read_flags, write_model

SEQUENCES = 600 if os.environ.get("SOAK") else 250
KINDS = list(itertools.product(["bpe", "unigram"], [False, True], [False, True]))
kinds = pytest.mark.parametrize(("kind", "dummy_prefix", "strip"), KINDS)


def library(model):
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return processor


def load(model):
    return SentencePieceTokenizer(model, "a.model")


def stream(tokenizer, ids, prompt=(), **options):
    decoder = create_decode_stream(tokenizer, prompt, **options)
    return "".join(decoder.step(i) for i in ids) + decoder.flush()


def sequences(inner, count, seed=0):
    """Yield random ids, often of short pieces with spaces, where the rules are."""
    generator = random.Random(seed)
    size = inner.vocab_size()
    spaced = [i for i in range(size) if inner.id_to_piece(i).startswith("▁")]
    short = [i for i in spaced if len(inner.id_to_piece(i)) < 3] + [0, 1, 2, 3]
    for _ in range(count):
        pool = generator.choice([range(size), spaced, short])
        length = generator.randint(0, 6)
        yield [generator.choice(generator.choice([pool, pool, range(size)])) for _ in range(length)]


@kinds
def test_text_and_ids_are_the_librarys(kind, dummy_prefix, strip):
    """And the prompt is context and never text."""
    model = sentencepiece_model(kind, dummy_prefix=dummy_prefix, strip=strip)
    inner, tokenizer = library(model), load(model)
    compared, generator = 0, random.Random(1)
    for ids in sequences(inner, SEQUENCES):
        text = tokenizer.decode(ids, skip_special_tokens=True)
        assert stream(tokenizer, ids) == text
        shown = tokenizer.decode(ids)
        assert stream(tokenizer, ids, skip_special_tokens=False) == shown
        control = any(inner.is_control(i) for i in ids)
        if "\ufffd" not in text and "\ufffd" not in shown:
            assert text == inner.decode(ids)
            assert control or shown == text
            compared += 1
        cut = generator.randrange(len(ids) + 1)
        before = create_decode_stream(tokenizer)
        begun = "".join(before.step(i) for i in ids[:cut])
        assert begun + stream(tokenizer, ids[cut:], ids[:cut]) == text
    assert compared > SEQUENCES / 2
    for text in [*CORPUS, "a" * 100_000]:
        encoding = tokenizer.encode(text)
        assert list(encoding.ids) == inner.encode(text)
        assert encoding.kind is EncodingKind.SP
        assert encoding.tokens == tuple(inner.id_to_piece(i) for i in encoding.ids)
        assert tokenizer.decode(encoding.ids) == inner.decode(list(encoding.ids))
        if not strip and (dummy_prefix or not text.startswith(" ")):
            assert tokenizer.decode(encoding.ids) == text
    assert tokenizer.encode_batch(CORPUS) == [tokenizer.encode(text) for text in CORPUS]


def test_what_the_start_of_a_text_strips():
    """One leading space, or each piece's while there is no text; `<s>` does not hide it."""
    once = load(sentencepiece_model(strip=False))
    every = load(sentencepiece_model(strip=True))
    space, double, word = "▁", "▁▁", "▁the"
    expected = {
        (word,): ("the", "the"),
        (space, word): (" the", "the"),
        (space, space, word): ("  the", "the"),
        (double, word): ("  the", "  the"),
        ("<s>", word): ("the", "the"),
        (word, "<s>", word): ("the the", "the the"),
        ("<unk>", word): (" ⁇  the", " ⁇  the"),
        ("<0x20>", word): ("  the", "  the"),
    }
    for tokens, texts in expected.items():
        for tokenizer, text in zip((once, every), texts, strict=True):
            ids = [tokenizer.token_to_id(token) for token in tokens]
            assert stream(tokenizer, ids) == text
    for tokenizer in (once, every):
        ids = [tokenizer.token_to_id(token) for token in ("<s>", word)]
        assert tokenizer.decode(ids) == "<s> the"


def test_ill_formed_bytes_are_byte_exact_where_the_library_is_not():
    tokenizer = load(sentencepiece_model())
    for byte in range(256):
        assert tokenizer.pieces.rest[tokenizer.token_to_id(f"<0x{byte:02X}>")] == bytes([byte])
    ids = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in b"\xf0\x9f\x98"]
    assert tokenizer.decode(ids) == stream(tokenizer, ids) == "\ufffd"
    assert tokenizer._inner.decode(ids) == "\ufffd" * 3
    ids.insert(1, tokenizer.token_to_id("</s>"))
    ids.append(tokenizer.token_to_id("<0x80>"))
    assert tokenizer.decode(ids, skip_special_tokens=True) == "😀"
    assert tokenizer.decode(ids) == "\ufffd</s>\ufffd\ufffd\ufffd"


def test_special_tokens():
    tokenizer = load(sentencepiece_model())
    special = tokenizer.special_tokens
    assert (special.bos, special.eos, special.unk, special.pad) == ("<s>", "</s>", "<unk>", "<pad>")
    assert special.additional == ("<|im_end|>", "▁control")
    ends = {tokenizer.token_to_id(token) for token in ("</s>", "<|im_end|>")}
    assert tokenizer.eos_token_ids == ends
    assert len(tokenizer.pieces.special) == 5
    for token in special.all():
        assert tokenizer.id_to_token(tokenizer.token_to_id(token)) == token


def test_special_tokens_in_a_text_are_plain_text_and_user_defined_ones_are_not():
    tokenizer = load(sentencepiece_model())
    text = "<s>hello</s><|im_end|>"
    assert not tokenizer.pieces.special & set(tokenizer.encode(text).ids)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.token_to_id("<think>") in tokenizer.encode("a<think>b").ids


def test_added_special_tokens():
    model = sentencepiece_model()
    tokenizer = load(model)
    plain, added = tokenizer.encode("é a"), tokenizer.encode("é a", add_special_tokens=True)
    assert added.ids == (1, *plain.ids)
    assert added.offsets == ((0, 0), *plain.offsets)
    assert added.special_mask == (True, *plain.special_mask)
    both = SentencePieceTokenizer(model, "a.model", prefix=[1, 1], suffix=[2])
    assert both.encode("the", add_special_tokens=True).tokens == ("<s>", "<s>", "▁the", "</s>")
    assert both.encode("", add_special_tokens=True).ids == (1, 1, 2)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_offsets_are_spans_of_the_original(kind):
    for rule in ("identity", "nmt_nfkc"):
        tokenizer = load(sentencepiece_model(kind, rule=rule))
        for text in CORPUS:
            offsets = tokenizer.encode(text).offsets
            assert all(0 <= start <= end <= len(text) for start, end in offsets)
            assert [start for start, _ in offsets] == sorted(start for start, _ in offsets)
            if rule == "identity":
                assert {i for a, b in offsets for i in range(a, b)} == set(range(len(text)))
    encoding = load(sentencepiece_model(kind)).encode("x\u4e94\u4e94")
    assert encoding.offsets[-6:] == ((1, 2),) * 3 + ((2, 3),) * 3
    encoding = load(sentencepiece_model(kind, rule="nmt_nfkc")).encode("①the")
    assert (encoding.tokens[1], encoding.offsets[1]) == ("<0x31>", (0, 1))
    assert encoding.offsets[-1][1] == 4


def test_from_file(tmp_path):
    path = tmp_path / "a.model"
    path.write_bytes(sentencepiece_model())
    assert SentencePieceTokenizer.from_file(path).encode("the").tokens == ("▁the",)
    for missing in (tmp_path, tmp_path / "none"):
        with pytest.raises(TokenizerFileNotFound):
            SentencePieceTokenizer.from_file(missing)


def folder_with(folder, *, added=None, rows=None, **config):
    """Write a model's folder: the model, and what configuration files say."""
    (folder / "tokenizer.model").write_bytes(sentencepiece_model())
    (folder / "added_tokens.json").write_text(json.dumps(added or {}))
    config["added_tokens_decoder"] = {
        str(token_id): {"content": token, **dict.fromkeys(flags, True)}
        for token_id, (token, *flags) in (rows or {}).items()
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return create_tokenizer(folder)


SIZE = 340
ROWS = {
    1: ("<s>", "special"), SIZE: ("<|user|>", "special", "rstrip"), SIZE + 1: ("<tool>",),
    SIZE + 3: ("<pad>", "special"),
}  # fmt: skip


def test_a_folder_names_roles_and_adds_tokens(tmp_path):
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 5}')
    tokenizer = folder_with(
        tmp_path,
        added={"<extra>": SIZE + 4},
        rows=ROWS,
        eos_token={"content": "<|user|>"},
        pad_token=None,
        chat_template="{{ bos_token }}<|user|>\n{{ messages[0].content }}",
    )
    special = tokenizer.special_tokens
    assert (special.bos, special.eos, special.pad) == ("<s>", "<|user|>", None)
    assert special.unk == "<unk>"
    assert special.additional == ("</s>", "<pad>", "<|im_end|>", "▁control")
    im_end = tokenizer.token_to_id("<|im_end|>")
    assert tokenizer.eos_token_ids == {SIZE, im_end, 5}
    assert tokenizer.vocab_size == SIZE + 5
    # An id of the model's own stays known where its text has another one now.
    assert tokenizer.token_to_id("<pad>") == SIZE + 3
    assert tokenizer.id_to_token(3) == tokenizer.id_to_token(SIZE + 3) == "<pad>"
    ids = [1, tokenizer.token_to_id("▁the"), SIZE + 1, SIZE, SIZE + 4, SIZE + 3]
    ids.append(3)
    for skip, shown in (
        (False, "<s> the<tool><|user|><extra><pad><pad>"),
        (True, "the<tool><extra>"),
    ):
        assert tokenizer.decode(ids, skip_special_tokens=skip) == shown
        assert stream(tokenizer, ids, skip_special_tokens=skip) == shown
    assert stream(tokenizer, [SIZE + 2, *ids[1:3]]) == "the<tool>"
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "the"}])
    tokens = tokenizer.encode(prompt, allowed_special="all").tokens
    assert tokens == ("<s>", "<|user|>", "▁the")


@pytest.mark.parametrize("legacy", [None, True, False])
def test_a_space_before_each_text_is_a_legacy(tmp_path, legacy):
    tokenizer = folder_with(tmp_path, rows=ROWS, **{} if legacy is None else {"legacy": legacy})
    the = ("t", "he") if legacy is False else ("▁the",)
    text = "the<|user|> the<tool>the<s>"
    encoding = tokenizer.encode(text, allowed_special={"<|user|>"})
    assert encoding.tokens[: 4 + 2 * len(the) - 1] == ("▁the", "<|user|>", *the, "<tool>", *the)
    assert "<s>" not in encoding.tokens
    assert encoding.offsets[:2] == ((0, 3), (3, 12))
    assert encoding.offsets[-1][1] == len(text)
    assert tokenizer.encode("<tool>the").tokens == ("<tool>", *the)


@pytest.mark.parametrize(
    ("config", "added"),
    [
        ({}, ("<s>",)),
        ({"add_bos_token": False}, ()),
        ({"add_eos_token": True}, ("<s>", "</s>")),
        ({"bos_token": None}, ()),
        ({"bos_token": "<|user|>"}, ("<|user|>",)),
    ],
)
def test_a_folder_says_what_is_added_to_a_text(tmp_path, config, added):
    tokenizer = folder_with(tmp_path, rows=ROWS, **config)
    assert tokenizer.encode("", add_special_tokens=True).tokens == added


def test_a_user_defined_piece_that_is_called_special_is_text_unless_allowed(tmp_path):
    """As Gemma's `<end_of_turn>`."""
    own = load(sentencepiece_model()).token_to_id("<think>")
    flagged = {"rows": {own: ("<think>", "special")}}
    for config in (flagged, {"additional_special_tokens": ["<think>"]}):
        tokenizer = folder_with(tmp_path, **config)
        assert own not in tokenizer.encode("a<think>b").ids
        assert own in tokenizer.encode("a<think>b", allowed_special={"<think>"}).ids
        assert tokenizer.decode([own], skip_special_tokens=True) == ""


@pytest.mark.parametrize("broken", [{"added": {"<a>": "x"}}, {"added": {"<a>": 1 << 40}},
    {"rows": {-1: ("<a>",)}}, {"rows": {1 << 40: ("<a>",)}}])  # fmt: skip
def test_a_damaged_configuration_is_named(tmp_path, broken):
    with pytest.raises(CorruptModelFile, match="added token"):
        folder_with(tmp_path, **broken)


def test_models_of_our_own_writing():
    model = write_model(PIECES, add_dummy_prefix=True)
    assert read_flags(model, "a") == ModelFlags(True, False)
    tokenizer = load(model)
    assert [tokenizer.id_to_token(i) for i in range(5)] == [piece.text for piece in PIECES]
    assert tokenizer.encode("ab?").tokens == ("▁a", "b", "<unk>")
    assert tokenizer.decode([1, 3, 2]) == "a b"
    assert tokenizer.decode([3, 1]) == " a"
    assert read_flags(write_model(PIECES, add_dummy_prefix=False), "a") == ModelFlags(False, False)


def test_a_field_that_is_not_there_is_true():
    assert read_flags(b"", "a") == ModelFlags(True, True)
    assert read_flags(b"\x1a\x02\x18\x00", "a") == ModelFlags(False, True)
    # Numbers of four and eight bytes, and a text, in fields that we do not know.
    unknown = b"\x25\xff\xff\xff\xff\x29" + b"\xff" * 8 + b"\x1d\x00\x00\x00\x00\x32\x01\xff"
    assert read_flags(unknown + b"\x1a\x02\x18\x00" + unknown, "a") == ModelFlags(False, True)
    # Two messages of one field count as one, the later values winning.
    assert read_flags(b"\x1a\x02\x18\x00\x1a\x04\x18\x01\x20\x00", "a") == ModelFlags(True, False)


def test_a_denormalizer_is_refused():
    model = sentencepiece_model()
    assert load(model + b"\x2a\x02\x0a\x00").vocab_size
    with pytest.raises(UnsupportedFormat, match="denormalizer"):
        load(model + b"\x2a\x05\x12\x03abc")


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(ImportError, match=r"make tokenizer.*tokenizers\.txt"):
        load(sentencepiece_model())
