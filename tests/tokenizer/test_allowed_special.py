"""Which special tokens count in a text: none, some, all, or those at certain places."""

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from model_files import file_backends, gguf, llama_keys, replaced, sentencepiece_model
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors
from vocabularies import KINDS, byte_level

from mini_vllm.tokenizer import (
    At,
    ByteTokenizer,
    GGUFTokenizer,
    HuggingFaceTokenizer,
    MockTokenizer,
)

with tempfile.TemporaryDirectory() as folder:
    BACKENDS = {
        "byte": ByteTokenizer(),
        "mock": MockTokenizer(),
        "huggingface": HuggingFaceTokenizer.from_tokenizer(byte_level()),
        **file_backends(Path(folder)),
    }


@pytest.mark.parametrize("name", BACKENDS)
def test_a_special_token_in_a_text_counts_only_if_it_is_allowed(name):
    tokenizer = BACKENDS[name]
    eos = tokenizer.special_tokens.eos
    other = tokenizer.special_tokens.bos or eos
    # The mock's words, between spaces that no other kind needs.
    text = f"Hello {eos} world {eos} test {other}"
    spans = [(6, 6 + len(eos)), (13 + len(eos), 13 + 2 * len(eos))]
    eos_id, other_id = map(tokenizer.token_to_id, (eos, other))

    def counted(allowed):
        ids = tokenizer.encode(text, allowed_special=allowed).ids
        assert tokenizer.encode_batch([text], allowed_special=allowed)[0].ids == ids
        return ids.count(eos_id), other == eos or ids.count(other_id)

    yes = other == eos or 1
    assert counted("all") == (2 + (other == eos), yes)
    assert counted({eos}) == counted([eos]) == (2 + (other == eos), other == eos)
    assert counted(At(tuple(spans))) == (2, other == eos)
    assert counted(At((spans[1],))) == (1, other == eos)
    # A span that is no special token means nothing.
    assert counted(At(((0, 5),))) == counted({"Hello"}) == counted(()) == (0, other == eos)
    assert tokenizer.encode(text) == tokenizer.encode(text, allowed_special=())
    if name != "mock":
        # Nothing else of the text changes, and every span is that of its token.
        plain = tokenizer.encode(text)
        assert tokenizer.decode(plain.ids) == text
        for allowed in ("all", At(tuple(spans))):
            encoding = tokenizer.encode(text, add_special_tokens=True, allowed_special=allowed)
            found = zip(encoding.ids, encoding.offsets, encoding.special_mask, strict=True)
            shown = [text[slice(*at)] for i, at, added in found if i == eos_id and not added]
            assert shown == [eos] * (2 + (other == eos and allowed == "all"))
    with pytest.raises(ValueError, match="allowed_special is '<s>'; it must be"):
        tokenizer.encode(text, allowed_special="<s>")


def test_the_longest_special_token_counts_and_others_stay_text():
    inner = Tokenizer.from_str(byte_level().to_str())
    inner.add_special_tokens(["<s><s>", "<s>a"])
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    library = tuple(inner.encode("<s>a<s><s><s>", add_special_tokens=False).ids)
    assert tokenizer.encode("<s>a<s><s><s>", allowed_special="all").ids == library
    some = set(tokenizer.special_tokens.all())
    assert tokenizer.encode("<s>a<s><s><s>", allowed_special=some).ids == library
    one = tokenizer.encode("<s>a<s><s>", allowed_special={"<s>"})
    assert one.ids == (0, *tokenizer.encode("a").ids, 0, 0)


def special(content="<x>", **flags):
    return lambda inner: inner.add_special_tokens([AddedToken(content, **flags)])


def with_rule(name, rule):
    return lambda inner: setattr(inner, name, rule)


AROUND = processors.TemplateProcessing(
    single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
)
RULES = {
    "none": lambda inner: None,
    "lstrip": special(lstrip=True),
    "rstrip": special(rstrip=True),
    "both": special(lstrip=True, rstrip=True),
    "single word": special(single_word=True),
    "metaspace first": with_rule("pre_tokenizer", pre_tokenizers.Metaspace(prepend_scheme="first")),
    "metaspace always": with_rule("pre_tokenizer", pre_tokenizers.Metaspace()),
    "prefix space": with_rule("pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "normalizer": with_rule("normalizer", normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])),
    "template": with_rule("post_processor", AROUND),
}  # fmt: skip
TEXTS = [
    "", "<x>", " <x> ", "a <x>  b", "a<x>b", "<x><s>\n<x>", "Hello  <x> \n<|im_end|> ﬁ</s>",
    "<think><x>", "é<s> 你好 <x>\t", "<s", "a b<x>a b", "\n <x> <x> \n",
]  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_all_places_are_what_the_library_says(name):
    """With every special token shown by its place, our way gives what the library's own gives."""
    inner = Tokenizer.from_str(byte_level().to_str())
    RULES[name](inner)
    if inner.token_to_id("<x>") is None:
        special()(inner)
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    as_text = Tokenizer.from_str(inner.to_str())
    as_text.encode_special_tokens = True
    for text in TEXTS:
        for flag in (False, True):
            options = {"add_special_tokens": flag}
            whole = tokenizer.encode(text, allowed_special="all", **options)
            assert list(whole.ids) == inner.encode(text, add_special_tokens=flag).ids
            named = set(tokenizer.special_tokens.all())
            shown = tokenizer.encode(text, allowed_special=named, **options)
            # As a token's text the library has the white space that it took in, too.
            assert replace(shown, tokens=()) == replace(whole, tokens=()), text
            none = tokenizer.encode(text, **options)
            assert list(none.ids) == as_text.encode(text, add_special_tokens=flag).ids


def test_a_special_token_counts_only_as_it_is_written():
    """The library finds some in what its normalizer makes of a text; a message might say that."""
    inner = Tokenizer.from_str(byte_level().to_str())
    inner.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    special(normalized=True)(inner)
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    number = tokenizer.token_to_id("<x>")
    assert number in inner.encode("a＜X＞").ids
    for allowed in ("all", {"<x>"}, ()):
        assert number not in tokenizer.encode("a＜X＞", allowed_special=allowed).ids
    assert number in tokenizer.encode("a<x>", allowed_special="all").ids


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_the_ids_of_its_added_tokens(kind):
    inner = KINDS[kind]()
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    text = "a</s>a b<think> é<s>"
    assert list(tokenizer.encode(text, allowed_special="all").ids) == inner.encode(text).ids
    named = tokenizer.encode(text, allowed_special={"<s>", "</s>", "<|im_end|>"})
    assert named == tokenizer.encode(text, allowed_special="all")


def test_a_unigram_model_takes_no_special_token_of_its_own_vocabulary():
    pieces = ["<unk>", "<s>", "</s>", "▁", "h", "i", "▁hi", "<", "/", "s", ">", "</", "x", "<x>"]
    scores = [0.0] * 3 + [-2.0 - n for n in range(len(pieces) - 3)]
    inner = Tokenizer(models.Unigram([*zip(pieces, scores, strict=True)], unk_id=0))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    # Added tokens inside of the vocabulary, and outside of it.
    inner.add_special_tokens(["<unk>", "<s>", "</s>", "<|end|>"])
    inner.add_tokens(["<x>", "[y]"])
    assert inner.encode("hi</s>").tokens == ["▁hi", "</s>"]
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    tokens = {
        (): ("▁hi", "</", "s", ">", "<x>", "▁", "é", "[y]"),
        ("</s>",): ("▁hi", "</s>", "<x>", "▁", "é", "[y]"),
    }
    for allowed, expected in tokens.items():
        encoding = tokenizer.encode("hi</s><x>é[y]", allowed_special=allowed)
        assert encoding.tokens == expected
        assert encoding.ids == tuple(tokenizer.token_to_id(token) or 0 for token in expected)
    assert not set(tokenizer.encode("<unk><s><|end|>").ids).intersection((1, 2, 14))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (models.WordLevel, ("hi", "<unk>", "<unk>")),
        (models.WordPiece, ("hi", "<", "##/s>", "<unk>")),
    ],
)
def test_a_model_of_words_takes_no_special_token_as_a_word(kind, expected):
    words = ["<unk>", "</s>", "hi", "<", "##/s>"]
    inner = Tokenizer(kind({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.add_special_tokens(["<unk>", "</s>"])
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    assert tokenizer.encode("hi </s> x").tokens == expected
    assert tokenizer.encode("hi </s>", allowed_special="all").tokens == ("hi", "</s>")


def test_a_token_that_only_the_configuration_calls_special_can_be_text(tmp_path):
    inner = Tokenizer.from_str(byte_level().to_str())
    inner.add_tokens(["<|end|>"])
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    tokenizer = HuggingFaceTokenizer.from_file(tmp_path / "tokenizer.json")
    end = tokenizer.token_to_id("<|end|>")
    assert end in tokenizer.eos_token_ids
    assert end not in tokenizer.encode("a<|end|>").ids
    assert end in tokenizer.encode("a<|end|>", allowed_special="all").ids


def test_llama_cpp_knows_by_name_which_special_tokens_take_in_white_space(tmp_path):
    """As the real Phi-3 has `<|end|>\\n` in one id."""
    named = {"phi": ("general.name", "string", "Phi-3 mini"), "other": ("x", "string", "")}
    for name, key in named.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(gguf(replaced(llama_keys(sentencepiece_model()), key)))
        tokenizer = GGUFTokenizer.from_file(path)
        end, start = map(tokenizer.token_to_id, ("<|im_end|>", "<s>"))
        between = (tokenizer.encode(part).ids for part in ("\n", " \n ", "\n"))
        text = "<s>\n<|im_end|> \n <|im_end|>\n"
        kept = [next(between), (end,), next(between), (end,), next(between)]
        wanted = kept if name == "other" else [kept[0], (end, end)]
        ids = tokenizer.encode(text, allowed_special="all").ids
        assert ids == (start, *(one for part in wanted for one in part))


def test_sentencepiece_encodes_between_control_pieces_as_llama_cpp_and_mistral_do():
    tokenizer = BACKENDS["sentencepiece-bpe"]
    text = "the<|im_end|>the end<|im_end|><s>\nthe"
    between = [tokenizer.encode(part).ids for part in ("the", "the end", "\nthe")]
    end, start = map(tokenizer.token_to_id, ("<|im_end|>", "<s>"))
    assert tokenizer.encode(text, allowed_special="all").ids == (
        *between[0], end, *between[1], end, start, *between[2]
    )  # fmt: skip
    # What the model's language has is always a piece.
    assert tokenizer.token_to_id("<think>") in tokenizer.encode("a<think>").ids
