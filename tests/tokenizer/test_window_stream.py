"""WindowDecodeStream: what it promises for tokenizers of which only `decode` is known."""

import itertools
import random
from types import SimpleNamespace

import numpy
import pytest
from model_files import sentencepiece_model
from tokenizers import Tokenizer, decoders, models
from vocabularies import KINDS

from mini_vllm.text.utf8 import ReplacementPolicy
from mini_vllm.tokenizer import (
    ByteTokenizer,
    DecodeError,
    DecodeStream,
    HuggingFaceTokenizer,
    IncrementalDetokenizer,
    MockTokenizer,
    SentencePieceTokenizer,
    TokenizerWrapper,
    WindowDecodeStream,
    create_decode_stream,
)
from mini_vllm.tokenizer.backends import huggingface_pieces

TEXTS = [
    "naïve café — 你好 🚀 the end",
    "नमस्ते 世界 🇫🇷 🫨",
    "🫨🫨 日本語 a b\nc",
    "real \ufffd\ufffd stays \ufffd",
]


class Opaque(TokenizerWrapper):
    """A tokenizer of which only `decode` is known."""

    pieces = None


class LeavesOut(Opaque):
    """One that leaves out incomplete characters in place of showing U+FFFD, as ByT5's does."""

    def decode(self, ids, *, skip_special_tokens=False):
        data = b"".join(self.inner.pieces.rest[i] or b"" for i in ids)
        return data.decode("utf-8", "ignore")


def run(tokenizer, ids, prompt=(), **options):
    stream = create_decode_stream(tokenizer, prompt, **options)
    assert type(stream) is WindowDecodeStream
    return [stream.step(token_id) for token_id in ids], stream.flush()


def test_the_stream_is_chosen_by_the_tokenizer():
    assert type(create_decode_stream(MockTokenizer())) is WindowDecodeStream
    assert type(create_decode_stream(ByteTokenizer())) is DecodeStream
    with pytest.raises(ValueError, match="no table of pieces; use create_decode_stream"):
        DecodeStream(MockTokenizer())


@pytest.mark.parametrize("kind", ["gemma", "llama", "byte-fallback-metaspace", "byte-level"])
@pytest.mark.parametrize("text", ["a🇫🇷b", "🚀你é🇫🇷你你🚀", "é, 你🇫🇷\n"])
def test_single_bytes_with_unknown_ids_between_equal_the_table_wherever_cut(kind, text):
    inner = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    single = {piece: i for i, piece in enumerate(inner.pieces.rest) if piece and len(piece) == 1}
    ids = [single[bytes([byte])] for byte in text.encode()]
    generator = random.Random(text)
    strange = [-1, 2**31, *inner.pieces.special]
    for cut in range(len(ids) + 1):
        prompt, output = list(ids[:cut]), list(ids[cut:])
        for _ in range(4):
            prompt.insert(generator.randint(0, len(prompt)), generator.choice(strange))
            output.insert(generator.randint(0, len(output)), generator.choice(strange))
        exact = DecodeStream(inner, prompt)
        wanted = [exact.step(token_id) for token_id in output]
        assert run(Opaque(inner), output, prompt) == (wanted, exact.flush()), cut


def test_a_decoder_with_a_replacement_for_each_byte_of_mixed_tokens():
    inner = HuggingFaceTokenizer.from_tokenizer(KINDS["byte-level"]())

    class PerByte(Opaque):
        def decode(self, ids, *, skip_special_tokens=False):
            data = b"".join(inner.pieces.rest[i] for i in ids)
            return data.decode("utf-8", ReplacementPolicy.PER_BYTE.value)

    mixed = "«ðŁ"  # The end of one letter of the flag and the beginning of the next.
    ids = [inner.token_to_id(token) for token in ["ðŁ", "ĩ", mixed, "ĩ", "·", "b"]]
    for cut in range(len(ids)):
        exact = DecodeStream(inner, ids[:cut])
        wanted = [exact.step(token_id) for token_id in ids[cut:]]
        assert run(PerByte(inner), ids[cut:], ids[:cut]) == (wanted, "")


def test_a_character_of_the_text_that_is_the_replacement_comes_three_ids_late_at_most():
    text = "a\ufffd\ufffd\ufffdé"
    pieces, rest = run(Opaque(ByteTokenizer()), text.encode())
    assert ("".join(pieces), rest) == (text, "")
    assert pieces == ["a", *["", "", "", "\ufffd"], *["", "", "\ufffd"] * 2, "é"]
    # One that spans prompt and output is lost; one of the prompt's own does not come again.
    assert run(Opaque(ByteTokenizer()), b"\xbdb", b"a\xef\xbf") == (["", "b"], "")
    assert run(Opaque(ByteTokenizer()), b"bc", b"a\xef\xbf\xbd") == (["b", "c"], "")


def test_words_of_the_mock_tokenizer():  # U27, U28
    assert run(MockTokenizer(), [2, 3], [1]) == ([" world", " test"], "")


@pytest.mark.parametrize("opaque", [Opaque, LeavesOut])
@pytest.mark.parametrize("backend", ["bytes", "byte-level"])
@pytest.mark.parametrize("text", TEXTS)
def test_valid_text_cut_anywhere_equals_the_table(opaque, backend, text):
    kind = KINDS["byte-level"]()
    inner = ByteTokenizer() if backend == "bytes" else HuggingFaceTokenizer.from_tokenizer(kind)
    ids = inner.encode(text).ids
    for cut in range(len(ids) + 1):
        if "\ufffd" in text and DecodeStream(inner, ids[:cut]).held:
            continue  # A prompt inside a real U+FFFD looks no different from one after it.
        pieces, rest = run(opaque(inner), ids[cut:], ids[:cut])
        exact = DecodeStream(inner, ids[:cut])
        wanted = "".join(map(exact.step, ids[cut:])) + exact.flush()
        assert "".join(pieces) + rest == wanted, cut


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"bpe-suffix"}))
def test_whole_tokens_equal_decode_for_every_kind(kind):
    inner = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    whole = [i for i, piece in enumerate(inner.pieces.rest) if piece and is_text(piece)]
    generator = random.Random(kind)
    added = KINDS[kind]().get_added_tokens_decoder()
    if kind == "byte-level":
        whole = [i for i in whole if i not in added]
    for _ in range(500):
        ids = generator.choices(whole, k=generator.randint(1, 12))
        cut = generator.randrange(len(ids))
        pieces, rest = run(Opaque(inner), ids[cut:], ids[:cut], skip_special_tokens=False)
        shown = inner.decode(ids[:cut])
        assert shown + "".join(pieces) + rest == inner.decode(ids), (ids, cut)


def is_text(piece):
    try:
        return bool(piece.decode())
    except UnicodeDecodeError:
        return False


def test_a_space_that_only_the_next_token_brings_is_not_lost():
    tokenizer = Opaque(HuggingFaceTokenizer.from_tokenizer(KINDS["bpe-suffix"]()))
    a, b = tokenizer.token_to_id("a"), tokenizer.token_to_id("b</w>")
    assert run(tokenizer, [a, b, a, b]) == (["a", "b", " a", "b"], "")


@pytest.mark.parametrize("text", ["so you the level", "a  b . hello", " 🚀 é "])
def test_a_space_that_counts_only_behind_other_text_is_not_lost(text):
    tokenizer = SentencePieceTokenizer(sentencepiece_model(strip=True), "a.model")
    space = tokenizer.token_to_id("▁")
    assert tokenizer.decode([space, space]) == ""
    letters = tokenizer.encode(text.replace(" ", "")).ids
    ids = [i for letter in letters for i in (letter, space)]
    for cut in range(len(ids)):
        pieces, rest = run(Opaque(tokenizer), ids[cut:], ids[:cut])
        exact = DecodeStream(tokenizer, ids[:cut])
        assert "".join(pieces) + rest == "".join(map(exact.step, ids[cut:])) + exact.flush()


def test_complete_text_before_an_incomplete_end_passes_at_once():
    inner = KINDS["llama"]()
    tokenizer = Opaque(HuggingFaceTokenizer.from_tokenizer(inner))
    first, lead = tokenizer.token_to_id("▁the"), tokenizer.token_to_id("<0xE4>")
    assert run(tokenizer, [first, lead]) == (["the", ""], "\ufffd")


def test_prompt_inside_a_character_gives_it_whole():
    assert run(Opaque(ByteTokenizer()), b"\xa0A", b"abc\xe4\xbd") == (["你", "A"], "")
    assert run(Opaque(ByteTokenizer()), b"\x9f\x98\x80A", b"\xf0") == (["", "", "😀", "A"], "")


def test_cut_off_text_is_honest_once_and_no_character_reaches_across():
    stream = create_decode_stream(Opaque(ByteTokenizer()))
    shown = [stream.step(byte) for byte in b"ok\xe4\xbd"]
    assert ("".join(shown), stream.held.decode()) == ("ok", "\ufffd")
    assert (stream.flush(), stream.flush()) == ("\ufffd", "")
    assert stream.step(0x41) == "A"
    stream = create_decode_stream(LeavesOut(ByteTokenizer()), b"ok\xe4\xbd")
    assert (stream.flush(), stream.step(0xA0)) == ("", "")


# The byte tokenizer skips an unknown id, and the other one refuses it.
@pytest.mark.parametrize("backend", ["bytes", "byte-level"])
def test_unknown_ids_are_no_text(backend):
    kind = KINDS["byte-level"]()
    inner = ByteTokenizer() if backend == "bytes" else HuggingFaceTokenizer.from_tokenizer(kind)
    mixed = [i for token_id in inner.encode("é🚀!").ids for i in (-1, token_id, 2**32)]
    pieces, rest = run(Opaque(inner), mixed)
    assert "".join(pieces) + rest == "é🚀!"


@pytest.mark.parametrize(
    ("opaque", "ids", "shown"),
    [
        (Opaque, b"\xff" * 3000, 2900), (Opaque, [257] * 3000, 0),
        (Opaque, ("你好" * 500).encode(), 1000), (LeavesOut, b"a" + b"\xff" * 3000, 1),
    ],
    ids=["invalid bytes", "skipped specials", "text", "bytes that are left out"],
)  # fmt: skip
def test_the_window_is_bounded(opaque, ids, shown):
    stream = create_decode_stream(opaque(ByteTokenizer()))
    text = "".join(map(stream.step, ids))
    assert len(text) >= shown
    assert stream.decoded_tokens / len(ids) < 100
    assert len(stream._context) + len(stream._waiting) + len(stream._fragments) <= 8


def test_context_survives_a_long_run_of_skipped_tokens():
    inner = KINDS["llama"]()
    tokenizer = Opaque(HuggingFaceTokenizer.from_tokenizer(inner))
    the, end = tokenizer.token_to_id("▁the"), tokenizer.token_to_id("</s>")
    pieces, _ = run(tokenizer, [the, *[end] * 200, the])
    assert "".join(pieces) == "the the"


@pytest.mark.parametrize("stripped", [1, 2, 3, 8])
def test_a_decoder_that_strips_several_spaces_loses_no_other_space(stripped):
    inner = Tokenizer(models.BPE({"a": 0, "▁": 1, "▁b": 2, "▁▁": 3}, []))
    strip = decoders.Strip(" ", stripped, 0)
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), strip])
    tokenizer = Opaque(HuggingFaceTokenizer.from_tokenizer(inner))
    for ids in itertools.product(range(4), repeat=4):
        for cut in (0, 2):
            pieces, rest = run(tokenizer, ids[cut:], ids[:cut])
            assert inner.decode(ids[:cut]) + "".join(pieces) + rest == inner.decode(ids), ids


def test_a_decoder_that_panics_is_no_text():
    inner = Tokenizer(models.WordLevel({"<unk>": 0, "": 1, "a ": 2}, unk_token="<unk>"))
    inner.decoder = decoders.Strip(" ", 0, 1)
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    with pytest.raises(DecodeError, match=r"\[1\] cannot be decoded"):
        tokenizer.decode([1])
    assert run(tokenizer, [1, 2])[1] == ""


def test_a_table_that_differs_from_decode_is_not_used(monkeypatch):
    monkeypatch.setattr(huggingface_pieces, "byte_level", str.encode)
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS["byte-level"]())
    assert tokenizer.pieces is None
    ids = tokenizer.encode(TEXTS[0]).ids
    pieces, rest = run(tokenizer, ids)
    assert "".join(pieces) + rest == TEXTS[0]


class LikeTransformers:
    """The part of a tokenizer of transformers that a stream needs, and its errors.

    Of others it has that it decodes no empty list, and takes no integers but Python's own.
    """

    def __init__(self, inner):
        self._inner = inner

    def decode(self, token_ids, skip_special_tokens=False, **kwargs):
        assert type(token_ids) is list
        if not token_ids or any(type(one) is not int for one in token_ids):
            raise ValueError(f"cannot decode {token_ids}")
        if any(not 0 <= one < self._inner.vocab_size for one in token_ids):
            raise OverflowError("out of range integral type conversion attempted")
        return self._inner.decode(token_ids, skip_special_tokens=skip_special_tokens)


@pytest.mark.parametrize("kind", ["byte-level", "llama", "gemma"])
def test_anything_that_decodes_as_transformers_do_is_streamed(kind):
    ours = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    foreign, eos = LikeTransformers(ours), next(iter(ours.pieces.special))
    for text in TEXTS[:3]:
        ids = [*ours.encode(text).ids, -1, 10**9, eos, *ours.encode(text).ids]
        for cut in range(0, len(ids), 3):
            prompt, output = [*map(numpy.int64, ids[:cut])], numpy.array(ids[cut:])
            for skip in (True, False):
                expected = run(Opaque(ours), output, prompt, skip_special_tokens=skip)
                assert run(foreign, output, prompt, skip_special_tokens=skip) == expected
            vllms = IncrementalDetokenizer(foreign, prompt)
            pushed = [vllms.push(one) for one in output]
            assert (pushed, vllms.flush()) == run(foreign, output, prompt,
                                                  skip_special_tokens=False)  # fmt: skip


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        (object(), "builtins.object, which has no decode"),
        ("byte", "builtins.str, which has no decode"),
        (SimpleNamespace(decode=lambda ids: ""), "unexpected keyword argument 'skip_special_to"),
        (SimpleNamespace(decode=lambda ids, skip_special_tokens: b""), "returns bytes, not str"),
    ],
    ids=["no decode", "a name", "no such argument", "bytes"],
)
@pytest.mark.parametrize(
    "make", [create_decode_stream, lambda one: IncrementalDetokenizer(one, [])]
)
def test_what_does_not_decode_is_refused_by_its_name(tokenizer, message, make):
    with pytest.raises(TypeError, match="the tokenizer is a") as caught:
        make(tokenizer)
    assert message in str(caught.value)
