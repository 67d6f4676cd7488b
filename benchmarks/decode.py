"""Decoding and streaming: ways to get text from ids, latency, threads (B04 to B07, B10).

A is `DecodeStream` over a table of pieces; B is `WindowDecodeStream`, which needs only `decode`.
The control decodes everything again at each id, which both exist to avoid.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from benchmarks.aims import at_least, at_most
from benchmarks.encode import efficiency, many_times
from benchmarks.harness import Report, Work, main
from benchmarks.materials import texts
from benchmarks.materials.backends import backends, some_ids
from mini_vllm.tokenizer import (
    DecodeStream,
    Sequence,
    Tokenizer,
    WindowDecodeStream,
)
from mini_vllm.tokenizer.streams.factory import AnyDecodeStream

CHARACTERS = {"ASCII": "a", "two bytes": "é", "three bytes": "中", "four bytes": "🚀"}
SPEED = at_least("B05 ids a second, from pieces", "", 100_000)
FLAT = at_most("B05 last tenth of a stream / peer", "first tenth", 1.5)
LATENCY = at_most("B06 median of a step, microseconds", "", 10)
STREAMS = 16


def work(report: Report) -> None:
    """Measure every group."""
    tokenizers = backends(quick=report.quick)
    sentences(report, tokenizers)
    sustained(report, tokenizers)
    latency(report, tokenizers)
    concurrent_streams(report, tokenizers)
    tokens = 500 if report.quick else 5000
    efficiency(report, "B10 decode: workers", [*tokenizers], _stream_ids, tokens)


def sentences(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B04: ten sentences, by every way from ids to text."""
    lines = [texts.text(kind, 80, seed) for kind in texts.KINDS for seed in (1, 2, 3)][:10]
    rows = []
    for name, tokenizer in tokenizers.items():
        encoded = [list(tokenizer.encode(line).ids) for line in lines]
        total = sum(map(len, encoded))
        ways = {way: _each(run, tokenizer, encoded) for way, run in _WAYS.items()}
        times = many_times(ways, report)
        rows.append([name, *(times[way] / total * 1e9 for way in _WAYS)])
        report.counts.setdefault("B04", {})[name] = {
            way: [run(tokenizer, ids) for ids in encoded] == [*map(tokenizer.decode, encoded)]
            for way, run in _WAYS.items()
        }
    report.table("B04 decode: ten sentences (ns a token)", ["backend", *_WAYS], rows)


def _each(
    run: Callable[[Tokenizer, list[int]], str], tokenizer: Tokenizer, encoded: list[list[int]]
) -> Work:
    return lambda: [run(tokenizer, ids) for ids in encoded]


def _stream(kind: type[AnyDecodeStream], tokenizer: Tokenizer, ids: list[int]) -> str:
    stream = kind(tokenizer, skip_special_tokens=False)
    return "".join(map(stream.step, ids)) + stream.flush()


def _again(tokenizer: Tokenizer, ids: list[int]) -> str:
    text = ""
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:count])
    return text


_WAYS: dict[str, Callable[[Tokenizer, list[int]], str]] = {
    "decode, whole": lambda tokenizer, ids: tokenizer.decode(ids),
    "A": lambda tokenizer, ids: _stream(DecodeStream, tokenizer, ids),
    "B": lambda tokenizer, ids: _stream(WindowDecodeStream, tokenizer, ids),
    "Sequence": lambda tokenizer, ids: Sequence.with_tokens(tokenizer, ids).text(),
    "decode all again each id": _again,
}


def sustained(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B05: at least 100,000 ids a second, and the last ids as fast as the first."""
    count = 1000 if report.quick else 100_000
    rows = []
    for name, tokenizer in tokenizers.items():
        ids = some_ids(tokenizer, count)
        for way, kind in (("A", DecodeStream), ("B", WindowDecodeStream)):
            # A warm-up: the tables learn each id when it first comes.
            _tenths(kind(tokenizer), ids)
            tenths = _tenths(kind(tokenizer), ids)
            speed, flat = count / sum(tenths), tenths[-1] / tenths[0]
            rows.append([name, way, speed, flat])
            if way == "A":
                report.judge(SPEED, speed, name)
                report.judge(FLAT, flat, name)
    header = ["backend", "way", "ids/s", "last tenth / first tenth"]
    report.table(f"B05 decode: {count:,} ids in one stream", header, rows)


def _tenths(stream: AnyDecodeStream, ids: list[int]) -> list[float]:
    """Return the seconds that each tenth of a stream's ids takes."""
    step, size, taken = stream.step, len(ids) // 10, []
    for place in range(0, len(ids), size):
        start = time.perf_counter()
        for token_id in ids[place : place + size]:
            step(token_id)
        taken.append(time.perf_counter() - start)
    return taken


def latency(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B06: how long one call takes: an encode, and a step in each script."""
    samples = 200 if report.quick else 10_000
    rows = []
    for name, tokenizer in tokenizers.items():
        prompts = [texts.PROMPTS["medium"]]
        calls: dict[str, tuple[Callable[[Any], object], Iterable[Any]]] = {
            "encode, medium prompt": (tokenizer.encode, prompts)
        }
        for script, character in CHARACTERS.items():
            ids = tokenizer.encode(character * 3).ids
            calls[f"step, {script}"] = (DecodeStream(tokenizer).step, ids)
        for call, (run, arguments) in calls.items():
            row = _percentiles(run, itertools.islice(itertools.cycle(arguments), samples))
            rows.append([name, call, *row])
            if call.startswith("step"):
                report.judge(LATENCY, row[0], f"{name}, {call}")
    header = ["backend", "call", "p50", "p90", "p95", "p99", "max"]
    report.table("B06 latency (microseconds)", header, rows)


def _percentiles(run: Callable[[Any], object], arguments: Iterable[Any]) -> list[float]:
    clock, taken = time.perf_counter_ns, []
    for argument in arguments:
        start = clock()
        run(argument)
        taken.append((clock() - start) / 1000)
    cut = statistics.quantiles(taken, n=100)
    return [*(cut[percent - 1] for percent in (50, 90, 95, 99)), max(taken)]


def concurrent_streams(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B07: sixteen streams: one after another, in turns, and in a thread each."""
    count = 200 if report.quick else 10_000
    rows = []
    for name, tokenizer in tokenizers.items():
        ids = some_ids(tokenizer, count)

        runs: dict[str, Work] = {
            way: partial(run, tokenizer, ids)
            for way, run in (("a", _one_by_one), ("b", _in_turns), ("c", _in_threads))
        }
        times = many_times(runs, report)
        rows.append([name, *(STREAMS * count / taken for taken in times.values())])
    header = ["backend", "one by one", "in turns", "threads"]
    report.table(f"B07 decode: {STREAMS} streams of {count:,} ids (ids/s in all)", header, rows)


def _one_by_one(tokenizer: Tokenizer, ids: list[int]) -> None:
    for _ in range(STREAMS):
        _steps(tokenizer, ids)


def _steps(tokenizer: Tokenizer, ids: list[int]) -> None:
    step = DecodeStream(tokenizer).step
    for token_id in ids:
        step(token_id)


def _in_turns(tokenizer: Tokenizer, ids: list[int]) -> None:
    steps = [DecodeStream(tokenizer).step for _ in range(STREAMS)]
    for token_id in ids:
        for step in steps:
            step(token_id)


def _in_threads(tokenizer: Tokenizer, ids: list[int]) -> None:
    with ThreadPoolExecutor(STREAMS) as pool:
        for future in [pool.submit(_steps, tokenizer, ids) for _ in range(STREAMS)]:
            future.result()


def _stream_ids(name: str, quick: bool, size: int) -> None:
    tokenizer = backends(quick=quick)[name]
    _steps(tokenizer, some_ids(tokenizer, size))


if __name__ == "__main__":
    main(work, name="decode", about=__doc__, pin=False)
