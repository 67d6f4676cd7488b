"""The vocabularies that are measured: one trained here, and a real one where it is installed.

There are two because 16,384 ids mostly stay in a processor's cache, and 131,072 do not.
"""

import functools
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers, trainers
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


def available(*, quick: bool) -> dict[str, tokenizers.Tokenizer]:
    """Return the vocabularies to measure, by name; a tiny one if `quick`."""
    if quick:
        return {"1k, trained here": trained(1024)}
    found = {"16k, trained here": trained(16_384)}
    if HAS_MISTRAL:
        found["131k, Tekken"] = tekken_huggingface()
    return found


@functools.cache
def _ids(tokenizer: tokenizers.Tokenizer, kind: str, count: int) -> tuple[int, ...]:
    found = tokenizer.encode(texts.text(kind, 5 * count, seed=2), add_special_tokens=False).ids
    return tuple((found * (count // len(found) + 1))[:count])


def ids(tokenizer: tokenizers.Tokenizer, kind: str, count: int) -> list[int]:
    """Return exactly `count` ids of a text of this kind."""
    return list(_ids(tokenizer, kind, count))
