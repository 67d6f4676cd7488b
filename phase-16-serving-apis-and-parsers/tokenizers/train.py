"""Train the two tokenizers of the advanced labs from `corpus.txt`; the same bytes each time.

    .venv/bin/python phase-16-serving-apis-and-parsers/tokenizers/train.py

It writes `byte_level.json`, in the manner of GPT-2, and `byte_fallback.json`, in the manner of
Llama 2 (SentencePiece), both as the `tokenizers` library reads and writes them.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

HERE = Path(__file__).parent
SIZE = 3_000
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACE, UNKNOWN = "▁", "<unk>"
# How many characters have a token in a tokenizer with byte fallback; others are spelled in bytes.
ALPHABET = 500


def byte_level() -> Tokenizer:
    """Return a tokenizer whose tokens are bytes, each spelled as one printable character."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=SIZE,
        special_tokens=_special(),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_lines(), trainer)
    return tokenizer


def byte_fallback() -> Tokenizer:
    """Return a tokenizer whose tokens are text, `▁` for a space, and bytes for what it lacks."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    first = [UNKNOWN, *SPECIAL, *BYTES]
    trainer = BpeTrainer(vocab_size=SIZE - len(first), show_progress=False)
    learner.train_from_iterator(_of_common_characters(_lines()), trainer)
    learned = json.loads(learner.to_str())["model"]
    words = [*first, *sorted(learned["vocab"], key=learned["vocab"].__getitem__)]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={word: number for number, word in enumerate(words)},
            merges=[tuple(pair) for pair in learned["merges"]],
            unk_token=UNKNOWN,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.add_special_tokens([AddedToken(UNKNOWN, normalized=False), *_special()])
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


TRAINED: dict[str, Callable[[], Tokenizer]] = {
    "byte_level": byte_level,
    "byte_fallback": byte_fallback,
}


def _special() -> list[AddedToken]:
    return [AddedToken(token, special=True, normalized=False) for token in SPECIAL]


def _of_common_characters(lines: list[str]) -> list[str]:
    """Return the lines without their rare characters, which will be spelled in bytes."""
    counts = Counter("".join(lines))
    common = {*sorted(counts, key=lambda character: (-counts[character], character))[:ALPHABET]}
    return ["".join(filter(common.__contains__, line)) for line in lines]


def _lines() -> list[str]:
    return (HERE / "corpus.txt").read_text(encoding="utf-8").splitlines(keepends=True)


if __name__ == "__main__":
    for name, train in TRAINED.items():
        (HERE / f"{name}.json").write_text(train().to_str() + "\n", encoding="utf-8")
        print(f"wrote {name}.json")
