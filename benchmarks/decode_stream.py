"""Nanoseconds a token of DecodeStream, as a ratio to Hugging Face's, one token a step.

Both stream the same ids of the same byte-level BPE in turns within one run; medians are compared.
The vocabulary is trained here and small, so tables stay in the processor's cache.
"""

import statistics
import time
from collections.abc import Callable

import tokenizers
from rich.console import Console
from rich.table import Table
from tokenizers import decoders, models, pre_tokenizers, trainers

from mini_vllm.tokenizer import DecodeStream, HuggingFaceTokenizer

RUNS = 11
TOKENS = 10_000
MIXES = {
    "ascii": "Hello world, this is plain text again and again. ",
    "cjk": "你好，世界。こんにちは、世界。안녕하세요 세계. ",
    "emoji": "🚀🫨🇫🇷👩‍👩‍👧🎉 ",
    "mixed": "naïve café — مرحبا नमस्ते สวัสดี Привет 你好 🚀 ",
}


def main() -> None:
    """Measure every mix and print the table."""
    inner = _train()
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)

    def ours(ids: list[int]) -> None:
        step = DecodeStream(tokenizer).step
        for token_id in ids:
            step(token_id)

    def theirs(ids: list[int]) -> None:
        stream = decoders.DecodeStream(skip_special_tokens=True)
        for token_id in ids:
            stream.step(inner, token_id)

    table = Table("mix", "ours, ns/token", "tokenizers' DecodeStream", "ratio")
    for name, text in MIXES.items():
        ids = inner.encode(text * TOKENS).ids[:TOKENS]
        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(RUNS):
            times["ours"].append(_seconds(ours, ids))
            times["theirs"].append(_seconds(theirs, ids))
        one, other = (statistics.median(times[who]) / len(ids) * 1e9 for who in ("ours", "theirs"))
        table.add_row(name, f"{one:.0f}", f"{other:.0f}", f"{other / one:.1f}")
    Console().print(table)


def _train() -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(MIXES.values(), trainer)
    return tokenizer


def _seconds(work: Callable[[list[int]], None], ids: list[int]) -> float:
    start = time.perf_counter()
    work(ids)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
