"""Real vocabularies, offline: those in the mistral-common wheel.

Tekken is a byte-level BPE of 130,072 ranks after 1,000 special tokens. It comes here as a
`tokenizers` BPE, as tiktoken's ranks, and as the contents of a GGUF file of kind `gpt2`. Its older
sibling is a SentencePiece model of 32,768 pieces with byte fallback. `tests/oracles` checks both.
"""

import functools
import json
from base64 import b64decode, b64encode
from importlib.metadata import version
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers

from benchmarks.harness import write_whole
from benchmarks.peers.detokenizers import ORACLES, has

HAS_MISTRAL = has("mistral-common")
TEKKEN = "tekken_240911.json"
SENTENCEPIECE = "mistral_instruct_tokenizer_240323.model.v3"


def data(name: str) -> Path:
    """Return the path of a file in mistral-common."""
    return Path(str(files("mistral_common"))) / "data" / name


@functools.cache
def _tekken() -> tuple[str, list[bytes], int]:
    """Return the pattern, the tokens in order of their ranks, and how many specials precede."""
    content = json.loads(data(TEKKEN).read_text(encoding="utf-8"))
    config = content["config"]
    specials = config["default_num_special_tokens"]
    used = content["vocab"][: config["default_vocab_size"] - specials]
    return config["pattern"], [b64decode(token["token_bytes"]) for token in used], specials


def tekken_pattern() -> str:
    """Return the regular expression that cuts a text before BPE."""
    return _tekken()[0]


def tekken_tokens() -> list[bytes]:
    """Return the bytes of each rank."""
    return _tekken()[1]


@functools.cache
def tekken_specials() -> list[str]:
    """Return the special tokens, in the order of their ids."""
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    named = {token["rank"]: token["token_str"] for token in Tekkenizer.DEPRECATED_SPECIAL_TOKENS}
    return [str(named.get(rank, f"<SPECIAL_{rank}>")) for rank in range(_tekken()[2])]


def tekken_ranks_file(folder: Path) -> Path:
    """Write the ranks in tiktoken's format, one `base64 rank` per line; return the path."""
    path = folder / "tekken.tiktoken"
    lines = (b"%s %d\n" % (b64encode(t), rank) for rank, t in enumerate(tekken_tokens()))
    path.write_bytes(b"".join(lines))
    return path


def spelled(token: bytes) -> str:
    """Return how byte-level vocabularies spell a token: a printable character for each byte."""
    return "".join(map(_spelling().__getitem__, token))


@functools.cache
def _spelling() -> list[str]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (byte for byte in range(256) if byte not in printable)
    shifted = {byte: chr(256 + number) for number, byte in enumerate(others)}
    return [shifted.get(byte, chr(byte)) for byte in range(256)]


def tekken_merges() -> list[tuple[str, str]]:
    """Return the merges in order: for each token, the two parts that BPE joins last."""
    ranks = {token: rank for rank, token in enumerate(tekken_tokens())}
    merges = []
    for token, rank in ranks.items():
        if len(token) > 1:
            left, right = _last_two(token, ranks, rank)
            merges.append((spelled(left), spelled(right)))
    return merges


def _last_two(token: bytes, ranks: dict[bytes, int], limit: int) -> tuple[bytes, bytes]:
    parts = [token[place : place + 1] for place in range(len(token))]
    while len(parts) > 2:
        joined = (ranks.get(a + b, limit) for a, b in pairwise(parts))
        rank, place = min((rank, place) for place, rank in enumerate(joined))
        if rank >= limit:
            raise ValueError(f"{token!r} is not a merge of two tokens")
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts[0], parts[1]


def tekken_huggingface() -> tokenizers.Tokenizer:
    """Return Tekken as a `tokenizers` BPE, made once and then read from `.oracles/`."""
    cache = ORACLES / f"tekken-{version('mistral-common')}-{tokenizers.__version__}.json"
    if cache.is_file():
        return tokenizers.Tokenizer.from_file(str(cache))
    specials = tekken_specials()
    spellings = [*specials, *map(spelled, tekken_tokens())]
    ids = {spelling: token_id for token_id, spelling in enumerate(spellings)}
    # When a whole piece is a token, tiktoken takes it without looking at merges.
    model = models.BPE(vocab=ids, merges=tekken_merges(), ignore_merges=True)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(tekken_pattern()), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in specials])
    write_whole(cache, tokenizer.to_str())
    return tokenizer
