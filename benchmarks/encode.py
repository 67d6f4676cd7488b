"""Encoding: throughput, batches, clients at once, workers (B01, B02, B03, B09, B14).

Python's GIL shows here: what threads gain tells which backend works outside it.
"""

import asyncio
import multiprocessing
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

from benchmarks.harness import Report, Work, interleaved, main, seconds
from benchmarks.materials.backends import backends
from benchmarks.materials.texts import PROMPTS
from mini_vllm.tokenizer import Tokenizer

MEDIUM = PROMPTS["medium"]


def work(report: Report) -> None:
    """Measure every group."""
    tokenizers = backends(quick=report.quick)
    throughput(report, tokenizers)
    batches(report, tokenizers)
    clients(report, tokenizers)
    threads(report, tokenizers)
    dynamic(report, tokenizers)


def throughput(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B01: six prompts, one thread."""
    rows = []
    for name, prompt in PROMPTS.items():
        times = many_times({n: _encode(t, prompt) for n, t in tokenizers.items()}, report)
        for backend, each in times.items():
            tokens = len(tokenizers[backend].encode(prompt))
            speed = [len(prompt) / each / 1e6, tokens / each / 1e6, 1 / each]
            rows.append([name, len(prompt), backend, tokens, *speed])
    header = ["prompt", "characters", "backend", "tokens", "Mchar/s", "Mtoken/s", "calls/s"]
    report.table("B01 encode: throughput", header, rows)
    report.counts["B01"] = {"prompts": len(PROMPTS), "backends": len(tokenizers)}


def many_times(runs: dict[str, Work], report: Report) -> dict[str, float]:
    """Return the seconds of one run of each, measured over enough runs for the clock's grain."""
    least = 0.0005 if report.quick else 0.01
    counts = {name: max(1, int(least / max(seconds(run), 1e-7))) for name, run in runs.items()}
    repeated = {name: _repeat(run, counts[name]) for name, run in runs.items()}
    return {n: t / counts[n] for n, t in interleaved(repeated, report.repeats).items()}


def _repeat(run: Work, count: int) -> Work:
    def repeated() -> None:
        for _ in range(count):
            run()

    return repeated


def _encode(tokenizer: Tokenizer, text: str) -> Work:
    return partial(tokenizer.encode, text)


def batches(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B02: batches of the medium prompt, against a loop."""
    rows = []
    for size in (1, 8) if report.quick else (1, 8, 32, 128):
        texts = [MEDIUM] * size
        for name, tokenizer in tokenizers.items():
            runs: dict[str, Work] = {
                "batch": partial(tokenizer.encode_batch, texts),
                "loop": partial(_loop, tokenizer, texts),
            }
            times = many_times(runs, report)
            rows.append([size, name, size / times["batch"], times["loop"] / times["batch"]])
    report.table("B02 encode: batches", ["batch", "backend", "texts/s", "loop / batch"], rows)


def _loop(tokenizer: Tokenizer, texts: list[str]) -> None:
    for text in texts:
        tokenizer.encode(text)


def clients(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B03: clients that encode as fast as they can, as threads and from an event loop."""
    rows, span = [], 0.02 if report.quick else 0.5
    for count in (1, 4) if report.quick else (1, 4, 16, 32):
        for name, tokenizer in tokenizers.items():
            for way, run in (("threads", _threads), ("asyncio.to_thread", _event_loop)):
                done = run(_encode(tokenizer, MEDIUM), count, span)
                rows.append([count, name, way, sum(done) / span, min(done) / max(*done, 1)])
    header = ["clients", "backend", "way", "calls/s in all", "fairness (min / max)"]
    report.table("B03 encode: clients at once", header, rows)


def _threads(run: Work, count: int, span: float) -> list[int]:
    together = threading.Barrier(count)

    def client() -> int:
        calls = 0
        together.wait()
        end = time.monotonic() + span
        while time.monotonic() < end:
            run()
            calls += 1
        return calls

    with ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(client) for _ in range(count)]]


def _event_loop(run: Work, count: int, span: float) -> list[int]:
    end = time.monotonic() + span

    async def client() -> int:
        calls = 0
        while time.monotonic() < end:
            await asyncio.to_thread(run)
            calls += 1
        return calls

    async def together() -> list[int]:
        return list(await asyncio.gather(*(client() for _ in range(count))))

    return asyncio.run(together())


# How long a dynamic batch waits for more texts, and how many it takes at most.
_WINDOW, _MOST = 0.003, 32


class DynamicBatcher:
    """Encodes what clients send within a short time as one batch, in a thread of its own."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._queue: queue.SimpleQueue[tuple[str, Future[object]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def encode(self, text: str) -> object:
        """Return the encoding of a text, when its batch is done."""
        future: Future[object] = Future()
        self._queue.put((text, future))
        return future.result()

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch, end = [first], time.monotonic() + _WINDOW
            while len(batch) < _MOST and (left := end - time.monotonic()) > 0:
                try:
                    more = self._queue.get(timeout=left)
                except queue.Empty:
                    break
                if more is None:
                    self._queue.put(None)
                    break
                batch.append(more)
            encodings = self._tokenizer.encode_batch([text for text, _ in batch])
            for (_, future), encoding in zip(batch, encodings, strict=True):
                future.set_result(encoding)


def dynamic(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B14: clients whose texts are gathered into batches, against clients that just encode."""
    rows, span = [], 0.02 if report.quick else 0.5
    for count in (1, 4) if report.quick else (1, 4, 16, 32):
        for name, tokenizer in tokenizers.items():
            batcher = DynamicBatcher(tokenizer)
            try:
                direct = sum(_threads(_encode(tokenizer, MEDIUM), count, span)) / span
                dynamic = sum(_threads(partial(batcher.encode, MEDIUM), count, span)) / span
            finally:
                batcher.close()
            rows.append([count, name, direct, dynamic, direct / max(dynamic, 1)])
    header = ["clients", "backend", "direct, calls/s", "batched, calls/s", "direct / batched"]
    report.table(f"B14 encode: dynamic batches ({_WINDOW * 1000:.0f} ms, {_MOST})", header, rows)


def threads(report: Report, tokenizers: dict[str, Tokenizer]) -> None:
    """B09: the same work per worker, for more and more workers."""
    calls = 20 if report.quick else 2000
    efficiency(report, "B09 encode: workers", [*tokenizers], _encode_calls, calls)


def efficiency(
    report: Report, title: str, names: list[str], task: Callable[[str, bool, int], None], size: int
) -> None:
    """Add a table of how much of its speed each worker keeps beside the others.

    Args:
        report: gets the table.
        title: the table's title.
        names: the backends.
        task: work for `(backend, quick, size)`; at module level, for processes.
        size: how much each worker does.
    """
    rows = []
    counts = (1, 2) if report.quick else (1, 2, 4, 8, 16)
    spawn = multiprocessing.get_context("spawn")
    for name in names:
        pools: list[tuple[str, Callable[[int], Executor]]] = [("threads", ThreadPoolExecutor)]
        if not report.quick and name != "byte":
            pools.append(("processes", lambda n: ProcessPoolExecutor(n, mp_context=spawn)))
        for way, pool in pools:
            alone = 0.0
            for count in counts if way == "threads" else (1, 2):
                taken = _together(pool, task, (name, report.quick, size), count)
                alone = alone or taken
                rows.append([name, way, count, count * size / taken, alone / taken * 100])
    header = ["backend", "way", "workers", "calls/s in all", "speed of each, %"]
    report.table(title, header, rows)


def _together(
    make: Callable[[int], Executor],
    task: Callable[[str, bool, int], None],
    args: tuple[str, bool, int],
    count: int,
) -> float:
    with make(count) as pool:
        # The first run is a warm-up: it loads what a worker needs.
        for _ in range(2):
            start = time.perf_counter()
            for future in [pool.submit(task, *args) for _ in range(count)]:
                future.result()
        return time.perf_counter() - start


def _encode_calls(name: str, quick: bool, size: int) -> None:
    tokenizer = backends(quick=quick)[name]
    for _ in range(size):
        tokenizer.encode(MEDIUM)


if __name__ == "__main__":
    main(work, name="encode", about=__doc__, pin=False)
