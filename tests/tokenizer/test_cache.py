"""The encode cache: never another result, the suffix alone encoded, and its bounds."""

import json
import os
import pickle
import random
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from model_files import gguf, gpt2_keys, llama_keys, sentencepiece_model
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers, processors
from vocabularies import KINDS, byte_level

from mini_vllm.tokenizer.backends.byte import ByteTokenizer
from mini_vllm.tokenizer.backends.huggingface import (
    HuggingFaceTokenizer,
    huggingface_splits_at_specials,
)
from mini_vllm.tokenizer.backends.mock import MockTokenizer
from mini_vllm.tokenizer.cache import CacheConfig, CachedTokenizer, CacheStats
from mini_vllm.tokenizer.encoding import At, Encoding
from mini_vllm.tokenizer.loading.files import create_tokenizer_from_file
from mini_vllm.tokenizer.wrapper import TokenizerWrapper
from mini_vllm.tokenizer_errors import EncodeError


def library(change=None):
    """A fresh byte-level tokenizer that puts <s> in front, after `change`."""
    tokenizer = Tokenizer.from_str(byte_level().to_str())
    tokenizer.post_processor = template("<s> $A")
    if change is not None:
        change(tokenizer)
    return tokenizer


def template(single, pair="$A:0 $B:1"):
    return processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("<s>", 0), ("</s>", 1)]
    )


class Counting(TokenizerWrapper):
    """Keeps the texts that it was given; says what `huggingface_splits_at_specials` says."""

    splits_at_specials = None

    def __init__(self, tokenizer):
        super().__init__(HuggingFaceTokenizer.from_tokenizer(tokenizer))
        self.calls = []
        self.splits_at_specials = huggingface_splits_at_specials(
            tokenizer, self.special_tokens.all()
        )

    def encode(self, text, *, add_special_tokens=False, allowed_special="all"):
        self.calls.append((text, add_special_tokens))
        return super().encode(
            text, add_special_tokens=add_special_tokens, allowed_special=allowed_special
        )


class Cached(CachedTokenizer):
    """All special tokens count, unless a test says otherwise: only then there are segments."""

    def encode(self, text, *, allowed_special="all", **options):
        return super().encode(text, allowed_special=allowed_special, **options)


class Bare(Counting):
    """Tells neither tokens nor offsets."""

    def encode(self, text, **options):
        full = super().encode(text, **options)
        return Encoding(full.ids, full.kind, special_mask=full.special_mask)


L1 = CacheConfig(enable_l0=False, enable_l1=True)
BOTH = CacheConfig(enable_l1=True)


def cached(config, change=None):
    return Cached(Counting(library(change)), config)


def test_l0_encodes_a_text_once():
    tokenizer = cached(None)
    first = tokenizer.encode("Hello world")
    assert tokenizer.encode("Hello world") is first
    assert tokenizer.inner.calls == [("Hello world", False)]
    stats = tokenizer.stats.l0
    assert (stats.hits, stats.misses, stats.entries, stats.hit_rate) == (1, 1, 1, 0.5)
    assert tokenizer.stats.l1 is None


def test_with_and_without_special_tokens_are_two_texts():
    for config in (None, BOTH, L1):
        tokenizer = cached(config)
        plain, special = (
            tokenizer.encode("Hello<|im_end|>", add_special_tokens=flag) for flag in (False, True)
        )
        assert special.ids == (0, *plain.ids)
        assert tokenizer.encode("Hello<|im_end|>") == plain
        assert tokenizer.encode("Hello<|im_end|>", add_special_tokens=True) == special
        assert len(tokenizer.inner.calls) == 2


def test_what_is_allowed_is_part_of_the_key():
    ways = ["all", frozenset(), {"</s>"}, ["</s>"], At(((5, 9),)), At(())]
    for config in (None, BOTH, L1):
        tokenizer = cached(config)
        text = "Hello</s><s>"
        for _ in range(2):
            for allowed in ways:
                encoding = tokenizer.encode(text, allowed_special=allowed)
                assert encoding == tokenizer.inner.encode(text, allowed_special=allowed)
    # Where not all count, a text has no segments.
    assert tokenizer.stats.l1.entries == 2
    with pytest.raises(ValueError, match="allowed_special is 'none'; it must be \"all\" or a set"):
        tokenizer.encode(text, allowed_special="none")


def test_l0_forgets_the_least_recently_used():
    tokenizer = cached(CacheConfig(l0_max_entries=2))
    for text in ("a", "b", "a", "c", "a", "b"):
        tokenizer.encode(text)
    assert [text for text, _ in tokenizer.inner.calls] == ["a", "b", "c", "b"]
    assert tokenizer.stats.l0.entries == 2


def test_clear_and_no_level():
    tokenizer, none = cached(BOTH), cached(CacheConfig(enable_l0=False))
    tokenizer.encode("a</s>b")
    tokenizer.clear()
    for level in (tokenizer.stats.l0, tokenizer.stats.l1):
        assert (level.entries, level.memory, level.misses) == (0, 0, 1)
    tokenizer.encode("a</s>b")
    assert len(tokenizer.inner.calls) == 4
    assert none.encode("a") == none.encode("a")
    assert len(none.inner.calls) == 2
    assert none.stats == CacheStats()


SYSTEM, ASK, ANSWER = "<s>system Be kind.<|im_end|>", " user: hello<|im_end|>", " assistant:"


def test_a_hit_encodes_the_suffix_only():
    tokenizer = cached(BOTH)
    tokenizer.encode(SYSTEM + ASK + ANSWER, add_special_tokens=True)
    tokenizer.inner.calls.clear()
    tokenizer.encode(SYSTEM + ASK + " other", add_special_tokens=True)
    assert tokenizer.inner.calls == [(" other", False)]
    tokenizer.inner.calls.clear()
    tokenizer.encode(SYSTEM + ASK, add_special_tokens=True)
    assert tokenizer.inner.calls == []


def test_each_boundary_is_kept_and_a_shorter_prefix_serves():
    tokenizer = cached(L1)
    tokenizer.encode(SYSTEM + ASK + ANSWER)
    assert tokenizer.stats.l1.entries == 3  # "<s>" is one of its own
    tokenizer.inner.calls.clear()
    tokenizer.encode(SYSTEM + " user: bye<|im_end|>" + ANSWER)
    assert [text for text, _ in tokenizer.inner.calls] == [" user: bye<|im_end|>", ANSWER]
    stats = tokenizer.stats
    assert (stats.l1.hits, stats.l1.misses, stats.l1.entries) == (2, 4, 4)


def bounded(level, memory):
    """A cache with one level of this size; a function that asks it for the level's statistics."""
    on = {"enable_l0": level == "l0", "enable_l1": level == "l1", f"{level}_max_memory": memory}
    tokenizer = cached(CacheConfig(**on))
    return tokenizer, lambda: getattr(tokenizer.stats, level)


def cached_size(text, level="l1"):
    tokenizer, stats = bounded(level, 10**9)
    tokenizer.encode(text)
    return stats().memory


@pytest.mark.parametrize("level", ["l0", "l1"])
def test_beyond_the_memory_the_least_recently_used_goes(level):
    size = cached_size("a" * 30 + "</s>", level)
    tokenizer, stats = bounded(level, size * 5 // 2)
    for letter in "abaca":
        tokenizer.encode(letter * 30 + "</s>")
    assert [text[0] for text, _ in tokenizer.inner.calls] == ["a", "b", "c"]
    assert stats().entries == 2
    assert stats().memory <= size * 5 // 2


@pytest.mark.parametrize("level", ["l0", "l1"])
def test_what_is_larger_than_the_bound_throws_nothing_out(level):
    tokenizer, stats = bounded(level, 2000)
    tokenizer.encode("a</s>")
    before = stats()
    tokenizer.encode("a long one " * 500 + "</s>")
    assert stats().entries == before.entries == 1
    assert stats().memory == before.memory


def test_the_memory_that_is_counted_is_taken():
    tokenizer = cached(L1)
    texts = [f"{n} naïve café — 你好 🚀 the end{' of it' * (n % 50)}</s>" for n in range(100)]
    tokenizer.encode("warm up")
    tracemalloc.start()
    try:
        for text in texts:
            tokenizer.encode(text)
        tokenizer.inner.calls.clear()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    counted = tokenizer.stats.l1.memory
    # Small numbers, which Python makes once, are counted like others.
    assert taken < counted < taken * 2.5
    # Each column is counted: a tokenizer that tells neither tokens nor offsets takes less.
    text = "Hello world " * 20 + "</s>"
    full, bare = cached(L1), Cached(Bare(library()), L1)
    tokens = len(full.encode(text))
    assert bare.encode(text) == bare.inner.encode(text)
    column = sys.getsizeof((0, 0)) + sys.getsizeof("a") + 2 * sys.getsizeof(None)
    assert full.stats.l1.memory - bare.stats.l1.memory > tokens * column


def test_ids_alone_take_a_tenth_of_the_memory():
    tokenizers = [cached(CacheConfig(only_ids=only)) for only in (False, True)]
    text = "".join(f"{word} and " for word in range(64))
    full, ids = [
        [tokenizer.encode(text) for _ in range(2)] and tokenizer for tokenizer in tokenizers
    ]
    assert len(full.encode(text)) > 250
    assert ids.stats.l0.memory * 10 < full.stats.l0.memory
    assert ids.stats.l0.memory < 16 * len(full.encode(text))


@pytest.mark.parametrize("enable_l1", [False, True])
def test_a_cache_of_ids_returns_the_ids_alone_the_first_time_as_well(enable_l1):
    tokenizer = cached(CacheConfig(only_ids=True, enable_l1=enable_l1))
    for text in ("naïve café 🚀</s>", "", "a</s>b", "naïve café 🚀</s>Hi"):
        plain = tokenizer.inner.encode(text)
        for one in (tokenizer, pickle.loads(pickle.dumps(tokenizer))):
            for _ in range(2):
                assert one.encode(text) == Encoding(plain.ids, plain.kind)


def test_a_segment_that_two_threads_encode_at_once_is_counted_once():
    class Entering(Counting):
        def encode(self, text, **options):
            if not self.calls:
                self.calls.append("what another thread does in the meantime")
                tokenizer.encode(text)
            return super().encode(text, **options)

    tokenizer = Cached(Entering(library()), L1)
    tokenizer.encode("Hello</s>")
    assert tokenizer.stats.l1.entries == 1
    assert tokenizer.stats.l1.memory == cached_size("Hello</s>")


def test_without_special_tokens_there_are_no_segments():
    bare = Tokenizer.from_str(byte_level().to_str())
    bare = Tokenizer(bare.model)
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner = Counting(bare)
    inner.inner.special_tokens = type(inner.special_tokens)()
    inner.splits_at_specials = huggingface_splits_at_specials(bare, ())
    tokenizer = Cached(inner, L1)
    assert tokenizer.encode("Hello</s> world") == inner.encode("Hello</s> world")
    assert tokenizer.stats.l1.entries == 0


def test_l1_is_on_where_the_tokenizer_allows_it():
    bounds = CacheConfig(l0_max_entries=7)
    assert not bounds.suited_to(MockTokenizer()).enable_l1
    assert bounds.suited_to(Counting(library())) == CacheConfig(l0_max_entries=7, enable_l1=True)
    # A wrapper says what the wrapped one says.
    assert bounds.suited_to(TokenizerWrapper(Counting(library()))).enable_l1


@pytest.mark.parametrize("field", ["l0_max_entries", "l0_max_memory", "l1_max_memory"])
def test_a_bound_is_positive(field):
    with pytest.raises(ValueError, match=f"{field} is 0; it must be at least 1"):
        CacheConfig(**{field: 0})


def test_a_text_that_cannot_be_encoded():
    tokenizer = cached(BOTH)
    for text in ("a\ud800", "</s>a\ud800", "a\ud800</s>b"):
        for _ in range(2):
            with pytest.raises(EncodeError):
                tokenizer.encode(text)
    with pytest.raises(EncodeError, match="text 1 of the batch"):
        tokenizer.encode_batch(["a", "</s>\ud800"])
    assert tokenizer.encode_batch([]) == []


def test_what_is_not_cached_is_passed_on():
    tokenizer = Cached(MockTokenizer())
    assert tokenizer.decode([1, 2]) == "Hello world"
    assert tokenizer.vocab_size == 1004
    assert tokenizer.encode_batch(["Hello", "world", "Hello"])[2].ids == (1,)
    assert tokenizer.stats.l0.hits == 1


# Segments of chat prompts, chosen to lean on the boundaries: spaces and merges across them, special
# tokens cut short, doubled or inside added tokens, normalised characters, an added token.
PIECES = [
    "<s>", "</s>", "<|im_end|>", "<x>", "<|im_end|", "<s", ">", "<", "</", "s>", "<think>", "a b",
    "a", " b", " ", "  ", "\n", "\n\n", "Hello", " world", "naïve café", "e", "\u0301", "\u0301e",
    "你好", "🚀", "🇫", "🇷", "ﬁ", "1", "23", "'s", "'", "the", " the end", "\u200d", "\ufffd",
    "İ", "\t",
]  # fmt: skip


def prompts(seed, count):
    random_ = random.Random(seed)
    shared = ["".join(random_.choices(PIECES, k=8)) for _ in range(4)]
    return [
        random_.choice([*shared, ""]) + "".join(random_.choices(PIECES, k=random_.randint(0, 12)))
        for _ in range(count)
    ]


def changed(**attributes):
    """A change that sets these attributes; a list of parts is made the sequence of its kind."""

    def change(tokenizer):
        for name, value in attributes.items():
            if isinstance(value, list):
                module = {"pre_tokenizer": pre_tokenizers, "normalizer": normalizers}
                value = module.get(name, processors).Sequence(value)
            setattr(tokenizer, name, value)

    return change


def added(*texts):
    """A change that adds tokens which are none of the special ones."""
    return lambda inner: inner.add_tokens([AddedToken(text, normalized=False) for text in texts])


def byte_level_pieces(**options):
    return pre_tokenizers.ByteLevel(**{"add_prefix_space": False, **options})


SPLIT = pre_tokenizers.Split(" ", "merged_with_next")
SAFE = {
    "no_change": changed(),
    "llama_3": changed(pre_tokenizer=[SPLIT, byte_level_pieces(use_regex=False)],
        post_processor=[processors.ByteLevel(add_prefix_space=True, trim_offsets=False),
            template("<s> $A")]),
    "qwen": changed(normalizer=normalizers.NFC(),
        post_processor=processors.ByteLevel(add_prefix_space=False, trim_offsets=True)),
    "gemma": changed(normalizer=normalizers.Replace(" ", "▁"),
        pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous")),
    "folded": changed(normalizer=[normalizers.NFKD(), normalizers.Lowercase()],
        pre_tokenizer=[pre_tokenizers.Digits(True), byte_level_pieces()], post_processor=None),
    "nested_specials": lambda inner: inner.add_special_tokens(
        ["<|im_end|></s>", "<s>a", "s><", "Hello"]),
    "added_tokens": added("<th", "b ", "d|>"),
    "a_normalised_special": lambda inner: (
        inner.add_special_tokens([AddedToken("<x>", normalized=True)]),
        setattr(inner, "normalizer", normalizers.Lowercase())),
    "metaspace_never": changed(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="never")),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE)
def test_a_cached_encoding_is_the_uncached_one(name):
    """The whole encoding: ids, tokens, offsets and mask; in any order, twice, and evicted."""
    change = SAFE[name]
    plain = Counting(library(change))
    caches = [
        cached(config, change)
        for config in (
            L1,
            BOTH,
            CacheConfig(l0_max_entries=3, enable_l1=True, l1_max_memory=4000),
            CacheConfig(enable_l0=False, enable_l1=True, l1_max_memory=1),
        )
    ]
    for number, text in enumerate(prompts(name, 400 if os.environ.get("SOAK") else 200)):
        for flag in (bool(number % 3), not number % 3):
            expected = plain.encode(text, add_special_tokens=flag)
            for tokenizer in caches:
                assert tokenizer.encode(text, add_special_tokens=flag) == expected, text
    hits = [tokenizer.stats.l1.hits for tokenizer in caches]
    assert hits[0] > hits[2] > hits[3] == 0
    # A text without offsets stays without.
    bare = Cached(Bare(library(change)), L1)
    assert all(bare.encode(t) == bare.inner.encode(t) for t in prompts(1, 50))


def qwen_3(folder):
    """Its vocabulary has `</s>` among the words: a text, though it looks like an end."""
    content = json.loads(library(SAFE["qwen"]).to_str())
    content["added_tokens"] = [t for t in content["added_tokens"] if t["content"] != "</s>"]
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    return folder / "tokenizer.json"


def gguf_file(folder):
    (folder / "model.gguf").write_bytes(gguf(gpt2_keys()))
    return folder / "model.gguf"


@pytest.mark.parametrize("write", [qwen_3, gguf_file])
def test_real_vocabularies_are_cached_by_segments(write, tmp_path):
    plain = create_tokenizer_from_file(write(tmp_path))
    assert CacheConfig().suited_to(plain).enable_l1
    tokenizer = Cached(plain, L1)
    for number, text in enumerate(prompts(write.__name__, 300)):
        flag = bool(number % 3)
        expected = plain.encode(text, add_special_tokens=flag, allowed_special="all")
        assert tokenizer.encode(text, add_special_tokens=flag) == expected, text
    assert tokenizer.stats.l1.hits > 10
    other = pickle.loads(pickle.dumps(tokenizer))
    assert (other.encode("a</s>b"), other.stats.l1.hits) == (tokenizer.encode("a</s>b"), 0)


def test_eight_threads_get_the_same():
    plain = Counting(library())
    texts = prompts(2, 60)
    expected = {text: plain.encode(text, add_special_tokens=True) for text in texts}
    tokenizer = cached(CacheConfig(l0_max_entries=5, enable_l1=True, l1_max_memory=8000))
    together = threading.Barrier(8, timeout=30)

    def work(seed):
        together.wait()
        for text in random.Random(seed).choices(texts, k=300):
            assert tokenizer.encode(text, add_special_tokens=True) == expected[text]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    stats = tokenizer.stats
    assert 0 < stats.l1.memory <= 8000
    assert stats.l0.hits + stats.l0.misses == 8 * 300


def special(**flags):
    return lambda tokenizer: tokenizer.add_special_tokens([AddedToken("<x>", **flags)])


UNSAFE = {
    "lstrip": special(lstrip=True),
    "rstrip": special(rstrip=True),
    "single word": special(single_word=True),
    "suffix": changed(post_processor=template("<s> $A </s>")),
    "suffix only": changed(post_processor=template("$A </s>")),
    "suffix in a sequence": changed(post_processor=[processors.ByteLevel(), template("$A </s>")]),
    "bert": changed(post_processor=processors.BertProcessing(("</s>", 1), ("<s>", 0))),
    "trimmed offsets": changed(post_processor=processors.ByteLevel(True, True)),
    "prefix space": changed(pre_tokenizer=byte_level_pieces(add_prefix_space=True)),
    "prefix space in a sequence": changed(
        pre_tokenizer=[byte_level_pieces(add_prefix_space=True)]),
    "metaspace first": changed(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first")),
    "metaspace always": changed(pre_tokenizer=pre_tokenizers.Metaspace()),
    "prepend": changed(normalizer=normalizers.Prepend("▁")),
    "strip": changed(normalizer=[normalizers.Strip()]),
    "truncation": lambda tokenizer: tokenizer.enable_truncation(5),
    "padding": lambda tokenizer: tokenizer.enable_padding(),
    "dropout": lambda tokenizer: setattr(tokenizer.model, "dropout", 0.1),
    "specials as text": changed(encode_special_tokens=True),
    "added token contains a special one": added("<|im_end|>\n"),
    "added token takes the start of a special one": added("a<"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_l1_refuses_what_is_not_safe(name):
    inner = Counting(library(UNSAFE[name]))
    with pytest.raises(ValueError, match=r"Counting cannot be cached .* enable_l1=False"):
        Cached(inner, L1)
    for text in prompts(3, 20):
        assert Cached(inner).encode(text).ids == inner.encode(text).ids or name == "dropout"


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), MockTokenizer()])
def test_l1_refuses_who_does_not_say_it(tokenizer):
    with pytest.raises(ValueError, match=type(tokenizer).__name__):
        Cached(tokenizer, L1)


def test_l1_refuses_a_gguf_file_of_sentencepiece(tmp_path):
    (tmp_path / "model.gguf").write_bytes(gguf(llama_keys(sentencepiece_model())))
    assert not CacheConfig().suited_to(create_tokenizer_from_file(tmp_path)).enable_l1


@pytest.mark.parametrize("kind", KINDS)
def test_the_helper_judges_the_library_not_the_decoder(kind):
    """These have no pre-tokeniser but the byte-level one, so all cut out their special tokens."""
    tokenizer = KINDS[kind]()
    assert huggingface_splits_at_specials(tokenizer, ["<s>", "</s>", "<|im_end|>"])
    assert huggingface_splits_at_specials(tokenizer, ["<s>", "a"]) == {"<s>"}


@pytest.mark.parametrize("name", ["suffix", "rstrip", "added token contains a special one"])
def test_without_the_refusal_the_ids_would_differ(name):
    """K16, and two more: the control that shows what the refusal is for."""
    inner = Counting(library(UNSAFE[name]))
    inner.splits_at_specials = frozenset(inner.special_tokens.all())
    tokenizer = Cached(inner, L1)
    text = "Hello<x> <|im_end|>\n\nworld"
    assert tokenizer.encode(text, add_special_tokens=True) != inner.encode(
        text, add_special_tokens=True
    )
