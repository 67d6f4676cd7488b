"""What the oracle tests draw from and compare by: texts, id sequences, the eager reference.

But: it knows no oracle. A test says which library's bytes and texts are right.
"""

import os
import random

from benchmarks.materials import texts
from mini_vllm.tokenizer import create_decode_stream

SEQUENCES = 60_000 if os.environ.get("SOAK") else 3_000
STRINGS = 3_000
UNKNOWN = (-1, -5, 2**32, 10**9)
_ODD = [
    "", " ", "  ", "\n", "\r\n\n", "\t", "\x00", "\ufffd", "\u200d", "e\u0301", "ﬁ", "Å", "１２３",
    "12345", "don't", "DON'T", "a" * 40, "\u2028", "\U0010ffff", "\xa0", "𝓤", "▁", "<0x41>",
]  # fmt: skip


def strings(count=STRINGS, seed=0):
    """Yield strings of mixed scripts: slices of text, odd characters, and any code points."""
    generator = random.Random(f"strings-{seed}")
    corpora = [texts.text(kind, 20_000, seed=7) for kind in texts.KINDS]
    for _ in range(count):
        parts = []
        for _ in range(generator.randint(1, 6)):
            corpus = generator.choice(corpora)
            start = generator.randrange(len(corpus) - 40)
            parts.append(corpus[start : start + generator.randint(1, 40)])
            parts.append(generator.choice(_ODD))
            parts.append("".join(map(_code_point, [generator] * generator.randint(0, 3))))
        generator.shuffle(parts)
        yield "".join(parts)


def _code_point(generator):
    number = generator.randrange(0x110000)
    return chr(number) if not 0xD800 <= number < 0xE000 else "\ufffd"


def sequences(pools, samples, count=SEQUENCES, seed=0):
    """Yield id sequences of up to 14 ids.

    Args:
        pools: collections of ids; the next id comes from one of them, each as often.
        samples: encodings of texts; parts of them come in between, cut anywhere.
        count: how many.
        seed: of the random generator.
    """
    generator = random.Random(f"sequences-{seed}")
    for _ in range(count):
        ids = []
        for _ in range(generator.randint(0, 7)):
            if generator.random() < 0.3:
                sample = generator.choice(samples)
                start = generator.randrange(len(sample))
                ids += sample[start : start + generator.randint(1, 4)]
            else:
                ids.append(generator.choice(generator.choice(pools)))
        yield ids[:14]


def bursts(ids, seed=0):
    """Cut ids into bursts of one to four."""
    generator, cut, rest = random.Random(f"bursts-{seed}"), [], list(ids)
    while rest:
        size = generator.randint(1, 4)
        cut.append(rest[:size])
        rest = rest[size:]
    return cut


# Whatever a character's bytes may begin with: of each, all but its last byte.
PREFIXES = {
    chr(number).encode()[:size]
    for number in range(0x80, 0x110000, 64)
    if not 0xD800 <= number < 0xE000
    for size in range(1, len(chr(number).encode()))
}


def eager(pieces):
    """Return the text that each of the byte pieces makes certain, and the rest.

    By definition: all is decoded but the end that may still become a character. CPython's own
    incremental decoder cannot be the reference: it waits after `ED A0`, which no byte makes a
    character.
    """
    found, data = [], b""
    for piece in pieces:
        data += piece
        end = next((n for n in range(max(len(data) - 3, 0), len(data)) if data[n:] in PREFIXES),
                   len(data))  # fmt: skip
        found.append(data[:end].decode("utf-8", "replace"))
        data = data[end:]
    return found, data.decode("utf-8", "replace")


def streamed(tokenizer, ids, prompt=(), **options):
    """Return the text of each step of a stream, and its flush."""
    stream = create_decode_stream(tokenizer, prompt, **options)
    return [stream.step(token_id) for token_id in ids], stream.flush()


def with_unknown(ids, seed=0):
    """Return the ids with ids in between that no vocabulary has."""
    generator = random.Random(f"unknown-{seed}")
    return [i for token_id in ids for i in (generator.choice(UNKNOWN), token_id)]


def check_held(tokenizer, ids, **options):
    """Assert after each id that what is held may still become a character."""
    stream = create_decode_stream(tokenizer, **options)
    for token_id in ids:
        stream.step(token_id)
        assert stream.held == b"" or stream.held in PREFIXES
