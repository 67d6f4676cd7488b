"""The vocabularies that are measured: one trained here, and a real one where it is installed.

There are two because 16,384 ids mostly stay in a processor's cache, and 131,072 do not.
"""

import functools
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, trainers
from tokenizers import decoders as hf_decoders

from benchmarks.harness import OUT, write_whole
from benchmarks.materials import texts
from benchmarks.peers.mistral import HAS_MISTRAL, tekken_huggingface

_TRAINED_ON = {"ascii": 600_000, "cjk": 500_000, "emoji": 50_000, "mixed": 300_000}
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]


@functools.cache
def trained(size: int) -> tokenizers.Tokenizer:
    """Return a byte-level BPE of at most `size` ids, trained here once."""
    cache = cached(f"vocabulary-{size}-{tokenizers.__version__}.json")
    if cache.is_file():
        return tokenizers.Tokenizer.from_file(str(cache))
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = hf_decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(size), trainer)
    write_whole(cache, tokenizer.to_str())
    return tokenizer


def cached(name: str) -> Path:
    """Return the path to keep something made from the texts; it changes when they do."""
    made_from = zlib.crc32(Path(texts.__file__).read_bytes())
    return OUT / f"{made_from:08x}-python{sys.version_info[1]}-{name}"


def corpus(size: int) -> Iterator[str]:
    """Yield the lines that a vocabulary of this size is trained on."""
    for kind, characters in _TRAINED_ON.items():
        yield from texts.text(kind, characters * min(size, 16_384) // 16_384, seed=1).split("\n")


def large_file(*, quick: bool) -> Path:
    """Return the path of a `tokenizer.json` of Gemma's shape, made here once.

    It has 262,144 words of three syllables and the two merges that make each of them, on top of
    shorter words and bytes; a small one if `quick`.
    """
    consonants, vowels = ("bcdf", "ae") if quick else ("bcdfghjklmnpqrst", "aeio")
    syllables = [c + v for c in consonants for v in vowels]
    path = cached(f"large-{len(syllables)}-{tokenizers.__version__}.json")
    if path.is_file():
        return path
    pairs = [a + b for a in syllables for b in syllables]
    words = [pair + c for pair in pairs for c in syllables]
    merges = [(s[0], s[1]) for s in syllables] + [(pair[:2], pair[2:]) for pair in pairs]
    merges += [(word[:cut], word[cut:]) for word in words for cut in (4, 2)]
    alphabet = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *consonants, *vowels]
    tokens = [*alphabet, *syllables, *pairs, *words]
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    model = models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    chain = [hf_decoders.Replace("▁", " "), hf_decoders.ByteFallback(), hf_decoders.Fuse()]
    tokenizer.decoder = hf_decoders.Sequence(chain)
    write_whole(path, tokenizer.to_str())
    return path


def available(*, quick: bool) -> dict[str, tokenizers.Tokenizer]:
    """Return the vocabularies to measure, by name; a tiny one if `quick`."""
    if quick:
        return {"1k, trained here": trained(1024)}
    by_name = {"16k, trained here": trained(16_384)}
    if HAS_MISTRAL:
        by_name["131k, Tekken"] = tekken_huggingface()
    return by_name


@functools.cache
def _ids(tokenizer: tokenizers.Tokenizer, kind: str, count: int) -> tuple[int, ...]:
    token_ids = tokenizer.encode(texts.text(kind, 5 * count, seed=2), add_special_tokens=False).ids
    return tuple((token_ids * (count // len(token_ids) + 1))[:count])


def ids(tokenizer: tokenizers.Tokenizer, kind: str, count: int) -> list[int]:
    """Return exactly `count` ids of a text of this kind."""
    return list(_ids(tokenizer, kind, count))
