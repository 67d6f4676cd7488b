"""How costs scale: memory, time by length, and loading (B11, B12, B13).

Memory is counted by `tracemalloc`, so it is the same on every machine with the same Python.
"""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import tokenizers

from benchmarks.aims import at_most
from benchmarks.encode import many_times
from benchmarks.growth import exponent
from benchmarks.harness import Report, Work, interleaved, main
from benchmarks.materials import texts
from benchmarks.materials.backends import backends, some_ids
from benchmarks.materials.vocabularies import large_file
from mini_vllm.tokenizer import (
    DecodeStream,
    Sequence,
    Tokenizer,
    WindowDecodeStream,
    create_tokenizer,
)
from mini_vllm.tokenizer.streams.factory import AnyDecodeStream

LENGTHS = (100, 1_000, 10_000, 100_000)
KEPT = at_most("B11 bytes that a stream keeps", "", 1_000)
EXPONENT = at_most("B12 exponent of a stream's time", "", 1.15)
LOADING = at_most("B13 loading, ours / peer", "tokenizers", 1.5)


def work(report: Report) -> None:
    """Measure every group."""
    by_backend = backends(quick=report.quick)
    memory(report, by_backend)
    scaling(report, by_backend)
    loading(report)


def memory(report: Report, by_backend: dict[str, Tokenizer]) -> None:
    """B11: what a stream keeps after many ids, and the size of an encoding."""
    count = 1000 if report.quick else 100_000
    rows = []
    for name, tokenizer in by_backend.items():
        ids = some_ids(tokenizer, count)
        streams: dict[str, Callable[[], object]] = {
            "stream A": partial(_stream, DecodeStream, tokenizer, ids),
            "stream B": partial(_stream, WindowDecodeStream, tokenizer, ids),
            "Sequence": partial(Sequence.with_tokens, tokenizer, ids),
            "Encoding": partial(tokenizer.encode, texts.PROMPTS["long"]),
        }
        sizes = {what: allocated(make) for what, make in streams.items()}
        encoding = tokenizer.encode(texts.PROMPTS["long"])
        copied = sys.getsizeof(encoding.token_ids())
        shared = encoding.token_ids_ref() is encoding.token_ids_ref()
        rows.append([name, *sizes.values(), len(encoding), copied])
        report.judge(KEPT, sizes["stream A"], name)
        report.counts.setdefault("B11", {})[name] = {**sizes, "ids are shared": shared}
    header = ["backend", *sizes, "ids of it", "token_ids(), copied"]
    report.table(f"B11 memory after {count:,} ids; of the long prompt (bytes)", header, rows)


def _stream(kind: type[AnyDecodeStream], tokenizer: Tokenizer, ids: list[int]) -> AnyDecodeStream:
    stream = kind(tokenizer)
    step = stream.step
    for token_id in ids:
        step(token_id)
    return stream


def allocated(make: Callable[[], object]) -> int:
    """Return how many bytes an object keeps, without what all of its kind share."""
    make()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        instance = make()
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        del instance
    finally:
        tracemalloc.stop()
    return after - before


def scaling(report: Report, by_backend: dict[str, Tokenizer]) -> None:
    """B12: time by length, for encoding and for both kinds of stream."""
    lengths = (100, 1_000) if report.quick else LENGTHS
    rows = []
    for name, tokenizer in by_backend.items():
        text = texts.text("ascii", lengths[-1])
        ids = some_ids(tokenizer, lengths[-1])
        ways: dict[str, tuple[Callable[[Any], object], str | list[int]]] = {
            "encode": (tokenizer.encode, text),
            "A": (partial(_stream, DecodeStream, tokenizer), ids),
            "B": (partial(_stream, WindowDecodeStream, tokenizer), ids),
        }
        for way, (run, whole) in ways.items():
            runs: dict[str, Work] = {str(n): partial(run, whole[:n]) for n in lengths}
            taken = list(many_times(runs, report).values())
            slope = exponent(lengths, taken)
            each = [seconds / n * 1e9 for seconds, n in zip(taken, lengths, strict=True)]
            rows.append([name, way, *each, slope])
            if way != "encode":
                report.judge(EXPONENT, slope, f"{name}, {way}")
    header = ["backend", "way", *map("{:,}".format, lengths), "exponent"]
    report.table("B12 scaling (ns per character or id)", header, rows)


def loading(report: Report) -> None:
    """B13: a file as large as Gemma's, until the first stream can begin, and the library alone."""
    path = large_file(quick=report.quick)
    runs: dict[str, Work] = {
        "tokenizers": partial(tokenizers.Tokenizer.from_file, str(path)),
        "ours": partial(create_tokenizer, path),
    }
    taken = interleaved(runs, report.repeats)
    ratio = taken["ours"] / taken["tokenizers"]
    size = create_tokenizer(path).vocab_size
    header = ["vocabulary", "tokenizers, ms", "ours, ms", "ours / tokenizers"]
    row = [f"{size:,} ids", *(seconds * 1e3 for seconds in taken.values()), ratio]
    report.table("B13 loading a tokenizer.json", header, [row])
    report.judge(LOADING, ratio)


if __name__ == "__main__":
    main(work, name="shape", about=__doc__)
