"""GGUF: the reader of metadata, cut off everywhere, and the tokenizers made from it."""

import random
import tracemalloc
from array import array

import pytest
import tokenizers
from model_files import (
    CORPUS,
    NUMBERS,
    gguf,
    gpt2_keys,
    llama_keys,
    replaced,
    sentencepiece_model,
)
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers
from vocabularies import TEXTS, byte_level

from mini_vllm.tokenizer import (
    ChatTemplateError,
    CorruptModelFile,
    EncodingKind,
    HuggingFaceTokenizer,
    TokenizerFileNotFound,
    UnsupportedFormat,
    create_decode_stream,
)
from mini_vllm.tokenizer.backends import split_patterns
from mini_vllm.tokenizer.backends.gguf import GGUFTokenizer
from mini_vllm.tokenizer.backends.gguf_file import read_gguf_metadata
from mini_vllm.tokenizer.backends.gguf_splits import SPLITS as SPLITS_BY_NAME
from mini_vllm.tokenizer.backends.sentencepiece import SentencePieceTokenizer
from mini_vllm.tokenizer.backends.sentencepiece_model import _fields

VALUES = [
    ("u8", "u8", 255), ("i8", "i8", -128), ("u16", "u16", 65535), ("i16", "i16", -32768),
    ("u32", "u32", 2**32 - 1), ("i32", "i32", -(2**31)), ("f32", "f32", 0.5),
    ("yes", "bool", True), ("no", "bool", False), ("text", "string", "naïve 🚀\0"),
    ("u64", "u64", 2**64 - 1), ("i64", "i64", -(2**63)), ("f64", "f64", 0.1), ("", "string", ""),
    ("numbers", "[i32]", [3, -4]), ("truths", "[bool]", [True, False]), ("nothing", "[u8]", []),
    ("texts", "[string]", ["", "é", "b"]), ("nested", "[[string]]", [["a"], [], ["b", "c"]]),
    ("deep", "[[[u16]]]", [[[1, 2], []], []]),
    ("eight", "[" * 8 + "u8" + "]" * 8, [[[[[[[[1]]]]]]]]),
]  # fmt: skip


def read(tmp_path, data):
    path = tmp_path / "a.gguf"
    path.write_bytes(data)
    return read_gguf_metadata(path)


def load(tmp_path, keys):
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf(keys))
    return GGUFTokenizer.from_file(path)


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_value(tmp_path, version):
    metadata = read(tmp_path, gguf(VALUES, version=version) + b"tensors")
    assert metadata == {key: value for key, _, value in VALUES}
    assert type(metadata["yes"]) is bool
    assert {number for number, _ in NUMBERS.values()} | {8, 9} == set(range(13))
    assert read(tmp_path, gguf([], version=version)) == {}


def test_every_cut_says_what_is_missing_and_where(tmp_path):
    data = gguf(VALUES)
    for end in range(len(data)):
        with pytest.raises(CorruptModelFile, match=r"ends in|need more than") as caught:
            read(tmp_path, data[:end])
        assert 0 <= caught.value.offset <= end
        assert caught.value.path == tmp_path / "a.gguf"


def test_tensors_are_not_read(tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf(VALUES, tensors=3))
    with path.open("r+b") as file:
        file.truncate(1 << 36)
    tracemalloc.start()
    assert len(read_gguf_metadata(path)) == len(VALUES)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_missing_files(tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(TokenizerFileNotFound):
            read_gguf_metadata(path)


@pytest.mark.parametrize("dummy_prefix", [True, False])
def test_llama_is_sentencepiece(tmp_path, dummy_prefix):
    model = sentencepiece_model(dummy_prefix=dummy_prefix)
    wanted = SentencePieceTokenizer(model, "a.model")
    flag = ("tokenizer.ggml.add_space_prefix", "bool", dummy_prefix)
    tokenizer = load(tmp_path, [*llama_keys(model), flag])
    for text in CORPUS:
        assert tokenizer.encode(text) == wanted.encode(text)
        added = tokenizer.encode(text, add_special_tokens=True)
        assert added == wanted.encode(text, add_special_tokens=True)
        assert tokenizer.decode(added.ids, skip_special_tokens=True) == wanted.decode(
            wanted.encode(text).ids
        )
    generator = random.Random(0)
    for _ in range(1000):
        ids = generator.choices(range(tokenizer.vocab_size), k=5)
        assert tokenizer.decode(ids) == wanted.decode(ids)
    assert tokenizer.special_tokens == wanted.special_tokens
    assert tokenizer.eos_token_ids == wanted.eos_token_ids
    assert tokenizer.vocab_size == wanted.vocab_size
    for column in ("rest", "first", "special"):
        assert getattr(tokenizer.pieces, column) == getattr(wanted.pieces, column)
    # As in llama.cpp, no text precedes a user-defined token that begins a text, such as Phi-3's
    # `</s>`, and the text after it has a prefix of its own.
    space = "▁" * dummy_prefix
    for one, expected in ((tokenizer, f"<think>{space}the"), (wanted, f"{space}<think>the")):
        assert "".join(one.encode("<think>the").tokens) == expected


def test_gpt2_is_byte_level_bpe(tmp_path):
    inner = byte_level()
    wanted = HuggingFaceTokenizer.from_tokenizer(inner)
    tokenizer = load(tmp_path, gpt2_keys())
    for text in [*CORPUS, *TEXTS, "a<think>b</s>a b"]:
        assert tokenizer.encode(text) == wanted.encode(text)
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.encode("abc").kind is EncodingKind.HF
    assert tokenizer.special_tokens == wanted.special_tokens
    assert tokenizer.pieces.rest == wanted.pieces.rest
    assert tokenizer.pieces.special == wanted.pieces.special
    decoder = create_decode_stream(tokenizer)
    ids = tokenizer.encode("naïve 🚀").ids
    assert "".join(decoder.step(i) for i in ids) == "naïve 🚀"


def trained(*patterns, ignore_merges=False):
    """Train a byte-level BPE that cuts text with these patterns."""
    inner = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
        + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    inner.train_from_iterator([*TEXTS, *CORPUS, "don't DON'T 1234 12 foo/bar FooBar"] * 3, trainer)
    return inner


PATTERNS = {
    "gpt-2": split_patterns.GPT2,
    "llama-bpe": split_patterns.LLAMA3,
    "qwen2": split_patterns.QWEN2,
    "gpt-4o": split_patterns.O200K,
    "tekken": split_patterns.TEKKEN,
    "qwen35": split_patterns.QWEN35,
}
WORDS = "don't DON'Tx fooBar 123456 a/b//c \n\n x...!? é中文"


SPLITS = {
    "gpt-2": "don|'t| DON|'|Tx| fooBar| 123456| a|/|b|//|c| \n\n| x|...!?| é中文",
    "llama-bpe": "don|'t| DON|'T|x| fooBar| |123|456| a|/b|//|c| \n\n| x|...!?| é中文",
    "qwen2": "don|'t| DON|'T|x| fooBar| |1|2|3|4|5|6| a|/b|//|c| \n\n| x|...!?| é中文",
    "gpt-4o": "don't| DON'T|x| foo|Bar| |123|456| a|/b|//|c| \n\n| x|...!?| é中文",
    "tekken": "don|'t| DON|'Tx| foo|Bar| |1|2|3|4|5|6| a|/b|//|c| \n\n| x|...!?| é中文",
    "qwen35": "don|'t| DON|'T|x| fooBar| |1|2|3|4|5|6| a|/b|//|c| \n\n| x|...!?| é中文",
}


@pytest.mark.parametrize("pre", PATTERNS)
def test_each_way_to_split(tmp_path, pre):
    split = pre_tokenizers.Split(Regex(PATTERNS[pre]), "isolated")
    assert "|".join(word for word, _ in split.pre_tokenize_str(WORDS)) == SPLITS[pre]
    inner = trained(PATTERNS[pre])
    tokenizer = load(tmp_path, gpt2_keys(inner, pre))
    for text in [*CORPUS, WORDS]:
        assert list(tokenizer.encode(text).ids) == inner.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text).ids) == text
    added = tokenizer.encode("a", add_special_tokens=True)
    has_bos = pre in ("llama-bpe", "tekken")
    assert added.tokens == (("<s>", "a") if has_bos else ("a",))


def test_an_added_token_is_its_text(tmp_path):
    """As DeepSeek's `ö`, which would be the byte 0xF6 in a byte-level vocabulary."""
    inner = trained(split_patterns.GPT2)
    inner.add_tokens(["grö"])
    tokenizer = load(tmp_path, gpt2_keys(inner))
    ids = tokenizer.encode("a grö").ids
    assert tokenizer.decode(ids) == tokenizer.pieces.showing.text(ids) == "a grö"
    assert inner.decode(list(ids)) == "a gr\ufffd"


def test_combining_marks_are_parts_of_words_to_qwen35():
    for pattern, words in (
        (split_patterns.QWEN2, ["e", "\u0301a", " नमस", "्त", "े"]),
        (split_patterns.QWEN35, ["e\u0301a", " नमस्ते"]),
    ):
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        assert [word for word, _ in split.pre_tokenize_str("e\u0301a नमस्ते")] == words


CUTS = {
    "deepseek-llm": "don|'|t| DON|'|Tx| fooBar| |123456| a|/|b|//|c| |\n|\n| x|...!?| é|中文",
    "deepseek-coder": "don|'|t| DON|'|Tx| fooBar| |1|2|3|4|5|6| a|/|b|//|c| |\n|\n"
    "| x|...!?| é|中文",
    "falcon": "don|'|t| DON|'|Tx| fooBar| |123|456| a|/|b|//|c| \n\n| x|...!?| é中文",
    "deepseek-v3": "don|'t| DON|'Tx| fooBar| |123|456| a|/b|//|c| \n\n| x|...!?| é|中文",
}


@pytest.mark.parametrize("pre", CUTS)
def test_patterns_one_after_the_other(pre):
    patterns = SPLITS_BY_NAME[pre].patterns
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    )
    assert "|".join(word for word, _ in split.pre_tokenize_str(WORDS)) == CUTS[pre]


def test_digits_first_and_the_default(tmp_path):
    inner = trained(r"\p{N}", split_patterns.GPT2)
    for pre in ("smollm", "starcoder", "refact", "command-r"):
        assert list(load(tmp_path, gpt2_keys(inner, pre)).encode(WORDS).ids) == (
            inner.encode(WORDS).ids
        )
    keys = replaced(gpt2_keys(inner), ("tokenizer.ggml.pre", "string", None))
    missing, named = load(tmp_path, keys), load(tmp_path, gpt2_keys(inner, "default"))
    assert missing.encode(WORDS) == named.encode(WORDS)


def test_llama_3_takes_a_word_that_is_a_token_as_it_is(tmp_path):
    keys = gpt2_keys()
    tokens = next(value for key, _, value in keys if key.endswith("tokens"))
    kinds = next(value for key, _, value in keys if key.endswith("token_type"))
    for pre, count in (("llama-bpe", 1), ("tekken", 1), ("gpt-2", 4), ("qwen2", 4)):
        changed = replaced(
            keys,
            ("tokenizer.ggml.tokens", "[string]", [*tokens, "zqxj"]),
            ("tokenizer.ggml.token_type", "[i32]", [*kinds, 1]),
            ("tokenizer.ggml.pre", "string", pre),
        )
        assert len(load(tmp_path, changed).encode("zqxj")) == count


def test_other_models_and_unknown_ways_to_split_are_refused(tmp_path):
    with pytest.raises(UnsupportedFormat, match=r"'bloom' \(tokenizer\.ggml\.pre\).* qwen2"):
        load(tmp_path, gpt2_keys(pre="bloom"))
    with pytest.raises(UnsupportedFormat, match="no tokenizer"):
        load(tmp_path, [("general.architecture", "string", "llama")])
    for kind in ("rwkv", "plamo2"):
        with pytest.raises(UnsupportedFormat, match=f"kind '{kind}'; supported: llama, gpt2"):
            load(tmp_path, [("tokenizer.ggml.model", "string", kind)])


def test_llama_with_several_unknown_tokens(tmp_path):
    """As Phi-3's: the role's token is a control token, and 53 others are of the type UNKNOWN."""
    keys = llama_keys(sentencepiece_model())
    wanted = load(tmp_path, keys)
    kinds = next(list(value) for key, _, value in keys if key.endswith("token_type"))
    kinds[wanted.token_to_id("<unk>")] = 3
    kinds[-3:] = [2, 2, 2]
    tokenizer = load(tmp_path, replaced(keys, ("tokenizer.ggml.token_type", "[i32]", kinds)))
    assert tokenizer.special_tokens.unk == "<unk>"
    assert tokenizer.encode("the ☃ end").ids == wanted.encode("the ☃ end").ids
    last = tokenizer.vocab_size - 1
    assert {last - 2, last - 1, last} < tokenizer.pieces.special
    assert tokenizer.id_to_token(last) in tokenizer.special_tokens.additional


def test_t5_is_a_unigram_model(tmp_path):
    model = sentencepiece_model("unigram", rule="nmt_nfkc", strip=True)
    normalizer = next(value for field, value in _fields(model, 0, len(model), "") if field == 3)
    spec = dict(_fields(model, normalizer.start, normalizer.stop, ""))
    table = model[spec[2].start : spec[2].stop]
    keys = replaced(
        llama_keys(model),
        ("tokenizer.ggml.model", "string", "t5"),
        ("tokenizer.ggml.precompiled_charsmap", "[u8]", list(table)),
        ("tokenizer.ggml.remove_extra_whitespaces", "bool", True),
    )
    wanted, tokenizer = SentencePieceTokenizer(model, "a.model"), load(tmp_path, keys)
    for text in [*CORPUS, "ﬁ ①  ｔｈｅ", "the  end "]:
        assert tokenizer.encode(text) == wanted.encode(text)
    assert tokenizer.encode("the", add_special_tokens=True).tokens == ("▁the", "</s>")
    signed = [byte - 256 * (byte > 127) for byte in table]
    keys = replaced(keys, ("tokenizer.ggml.precompiled_charsmap", "[i8]", signed))
    assert load(tmp_path, keys).encode("ﬁ ①").ids == wanted.encode("ﬁ ①").ids
    keys = replaced(keys, ("tokenizer.ggml.precompiled_charsmap", "[i32]", [256]))
    with pytest.raises(CorruptModelFile, match="precompiled_charsmap is not a list of bytes"):
        load(tmp_path, keys)


def best_segmentation(text, scores):
    """By definition: the pieces with the highest sum of scores in double precision."""
    best = {0: (0.0, [])}
    for end in range(1, len(text) + 1):
        for start in range(end):
            if start in best and text[start:end] in scores:
                total = best[start][0] + scores[text[start:end]]
                if end not in best or total > best[end][0]:
                    best[end] = total, [*best[start][1], text[start:end]]
    return best[len(text)][1]


def test_t5_adds_scores_in_double_precision(tmp_path):
    """As llama.cpp and Hugging Face; in single precision some sums are no longer equal."""
    generator = random.Random(0)
    words = {"".join(generator.choices("ab", k=generator.randint(2, 5))) for _ in range(20)}
    scores = {word: -generator.randint(1, 99) / 10 for word in sorted(words | {"a", "b"})}
    keys = [
        ("tokenizer.ggml.model", "string", "t5"),
        ("tokenizer.ggml.tokens", "[string]", ["<pad>", "</s>", "<unk>", *scores]),
        ("tokenizer.ggml.scores", "[f32]", [0.0] * 3 + [*scores.values()]),
        ("tokenizer.ggml.token_type", "[i32]", [3, 3, 2] + [1] * len(scores)),
        ("tokenizer.ggml.add_space_prefix", "bool", False),
    ]
    tokenizer = load(tmp_path, keys)
    scores = dict(zip(scores, array("f", scores.values()), strict=True))
    others = 0
    for _ in range(200):
        text = "".join(generator.choices("ab", k=40))
        wanted = best_segmentation(text, scores)
        assert tokenizer.encode(text).tokens == tuple(wanted)
        library = tokenizer.inner._inner.encode(text, out_type=str)
        others += library != wanted
    assert others


def test_gemma4_spells_spaces_and_bytes(tmp_path):
    letters = ["▁", "a", "b", "\n"]
    made = ["▁a", "ab", "▁ab", "\n\n"]
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{n:02X}>" for n in range(256)), *letters]
    tokens += [*made, "<|tool_response>"]
    keys = [
        ("tokenizer.ggml.model", "string", "gemma4"),
        ("tokenizer.ggml.tokens", "[string]", tokens),
        ("tokenizer.ggml.token_type", "[i32]", [3] * 4 + [6] * 256 + [1] * 8 + [4]),
        ("tokenizer.ggml.merges", "[string]", ["a b", "▁ ab", "▁ a", "\n \n"]),
        *((f"tokenizer.ggml.{role}_token_id", "u32", i)
          for i, role in enumerate(("padding", "eos", "bos", "unknown"))),
    ]  # fmt: skip
    tokenizer = load(tmp_path, keys)
    encoding = tokenizer.encode(" aba é\n\n", add_special_tokens=True)
    assert encoding.tokens == ("<bos>", "▁ab", "a", "▁", "<0xC3>", "<0xA9>", "\n\n")
    assert tokenizer.decode(encoding.ids, skip_special_tokens=True) == " aba é\n\n"
    assert tokenizer.pieces.skipping.text(encoding.ids) == " aba é\n\n"
    ends = {tokenizer.id_to_token(token_id) for token_id in tokenizer.eos_token_ids}
    assert ends == {"<eos>", "<|tool_response>"}
    # A user's text does not end an answer; a template's does.
    text = "a<|tool_response>"
    assert not tokenizer.eos_token_ids.intersection(tokenizer.encode(text).ids)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    assert tokenizer.encode(text, allowed_special="all").tokens == ("a", "<|tool_response>")


def test_bert_is_word_piece(tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁un", "able", "▁do", "▁.", "▁中", "o"]
    keys = [
        ("tokenizer.ggml.model", "string", "bert"),
        ("tokenizer.ggml.tokens", "[string]", tokens),
        ("tokenizer.ggml.token_type", "[i32]", [3] * 4 + [1] * 6),
        ("tokenizer.ggml.unknown_token_id", "u32", 1),
        ("tokenizer.ggml.cls_token_id", "u32", 2),
        ("tokenizer.ggml.seperator_token_id", "u32", 3),
    ]
    tokenizer = load(tmp_path, keys)
    encoding = tokenizer.encode("Unable dó中x.", add_special_tokens=True)
    assert encoding.tokens == ("[CLS]", "un", "##able", "do", "中", "[UNK]", ".", "[SEP]")
    assert [tokenizer.id_to_token(i) for i in encoding.ids] == list(encoding.tokens)
    assert tokenizer.decode([4, 5, 6, 7]) == "unable do."
    assert tokenizer.pieces.showing.text([4, 5, 6, 7]) == "unable do."
    cased = replaced(keys, ("tokenizer.ggml.normalizer.lowercase", "bool", False))
    assert load(tmp_path, cased).encode("Do do").tokens == ("[UNK]", "do")


def test_bos_and_eos_are_added_as_the_file_says(tmp_path):
    def added(keys, bos, eos):
        flags = [("tokenizer.ggml.add_bos_token", "bool", bos)]
        flags.append(("tokenizer.ggml.add_eos_token", "bool", eos))
        encoding = load(tmp_path, [*keys, *flags]).encode("the", add_special_tokens=True)
        assert {
            span for span, s in zip(encoding.offsets, encoding.special_mask, strict=True) if s
        } <= {(0, 0)}
        return encoding.tokens[:1] == ("<s>",), encoding.tokens[-1:] == ("</s>",)

    flags = (False, True)
    for keys in (llama_keys(sentencepiece_model()), gpt2_keys()):
        assert all(added(keys, bos, eos) == (bos, eos) for bos in flags for eos in flags)


def test_every_id_that_ends_a_generation(tmp_path):
    keys = [(f"tokenizer.ggml.{name}_token_id", "u32", i) for name, i in (("eot", 4), ("eom", 7))]
    # 1 is the EOS token, 2 is <|im_end|>.
    assert load(tmp_path, gpt2_keys()).eos_token_ids == {1, 2}
    assert load(tmp_path, [*gpt2_keys(), *keys]).eos_token_ids == {1, 2, 4, 7}


@pytest.mark.parametrize("kind", [1, 4])
@pytest.mark.parametrize("keys", [gpt2_keys(), llama_keys(sentencepiece_model())])
def test_bos_and_eos_are_special_whatever_the_file_calls_them(tmp_path, keys, kind):
    """As in Aquila's file, which calls them normal tokens."""
    types = next([*value] for key, _, value in keys if key.endswith("token_type"))
    wanted = load(tmp_path, keys)
    types[wanted.token_to_id("<s>")] = types[wanted.token_to_id("</s>")] = kind
    tokenizer = load(tmp_path, replaced(keys, ("tokenizer.ggml.token_type", "[i32]", types)))
    for allowed in ("all", ()):
        for text in ("a<s>b</s>", "</s>a"):
            encoding = tokenizer.encode(text, allowed_special=allowed)
            assert encoding == wanted.encode(text, allowed_special=allowed)
    assert tokenizer.special_tokens == wanted.special_tokens
    assert tokenizer.pieces.special == wanted.pieces.special


def test_a_llama_file_with_tokens_alone(tmp_path):
    tokens = ["<unk>", "<s>", "</s>", "▁", "a", "▁a", "b"]
    model = ("tokenizer.ggml.model", "string", "llama")
    bare = load(tmp_path, [model, ("tokenizer.ggml.tokens", "[string]", tokens)])
    assert (bare.special_tokens.bos, bare.special_tokens.eos) == ("<s>", "</s>")
    assert bare.encode("ab?", add_special_tokens=True).tokens == ("<s>", "▁a", "b", "<unk>")
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    full = load(tmp_path, [model, ("tokenizer.ggml.tokens", "[string]", tokens)])
    assert full.decode(full.encode("aé🚀").ids) == "aé🚀"


def test_chat_templates(tmp_path):
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
    key = "tokenizer.chat_template"
    tokenizer = load(tmp_path, [*gpt2_keys(), (key, "string", template)])
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}]) == "<s>hi"
    assert load(tmp_path, gpt2_keys()).chat_template is None
    for broken in ("{% if", "x" * 10_000_000):
        tokenizer = load(tmp_path, [*gpt2_keys(), (key, "string", broken)])
        assert tokenizer.encode("a").tokens == ("a",)
        with pytest.raises(ChatTemplateError):
            tokenizer.apply_chat_template([{"role": "user", "content": "hi"}])


def test_added_tokens_with_awkward_text(tmp_path):
    inner = trained(split_patterns.GPT2)
    inner.add_special_tokens([AddedToken("$A:1 <x>", special=True)])
    bos = ("tokenizer.ggml.bos_token_id", "u32", inner.token_to_id("$A:1 <x>"))
    keys = replaced(gpt2_keys(inner, "llama-bpe"), bos)
    tokenizer = load(tmp_path, keys)
    assert tokenizer.encode("a", add_special_tokens=True).tokens == ("$A:1 <x>", "a")
