"""Nanoseconds a token of streaming detokenization, as ratios to real peers.

One id a step; bursts of four; 256 streams with one id a step each. The *floor* is a Python method
that only looks up a list: no `step(id)` in Python can be faster. *HF* is the `DecodeStream` of the
`tokenizers` library. *vLLM Fast* and *Slow* are vLLM's two detokenizer classes, without its server:
vLLM uses Fast, around HF's stream, for Hugging Face's tokenizers, and Slow for all others.

*Interleaved* finds the caches as another contender left them; *alone* has them to itself.

How near the floor is depends on the processor, so the last table of a vocabulary has the parts of a
step. A stream that is exact cannot leave out two things that the floor does not do: it remembers
the half character before an id, and it refuses an id of -1, which a list takes for its last. Each
of the 256 streams lives for 40 ids, so its making counts as well.
"""

from collections.abc import Callable
from typing import Any

import tokenizers

from benchmarks.aims import at_least, at_most
from benchmarks.harness import Report, Work, alone, interleaved, main
from benchmarks.materials import texts, vocabularies
from benchmarks.peers.contenders import (
    FAST,
    FLOOR,
    HF,
    OURS,
    SLOW,
    Contender,
    check,
    contenders,
    parts,
)

STREAMS = 256
# The ids of each of them.
LANE = 40
BURST = 4
_LEAST = {
    "interleaved": {HF: 4, FAST: 9, SLOW: 25},
    "alone": {HF: 8},
    f"bursts of {BURST}": {HF: 3, FAST: 7},
    f"{STREAMS} streams": {HF: 4, FAST: 9, SLOW: 25},
}
_MOST = {"interleaved": 2, "alone": 2, f"{STREAMS} streams": 2}
# For each way to run: how many times as long as ours a peer takes, and ours as the floor.
PEERS = {
    way: {peer: at_least(f"{way}, peer / ours", peer, least) for peer, least in by_peer.items()}
    for way, by_peer in _LEAST.items()
}
FLOORS = {way: at_most(f"{way}, ours / peer", FLOOR, most) for way, most in _MOST.items()}
Timed = dict[str, float]


def work(report: Report) -> None:
    """Measure every vocabulary and kind of text."""
    count = 512 if report.quick else LANE * STREAMS
    for vocabulary, inner in vocabularies.available(quick=report.quick).items():
        by_name = contenders(inner)
        by_kind: dict[str, dict[str, Timed]] = {}
        for kind in texts.KINDS:
            ids = vocabularies.ids(inner, kind, count)
            for name, contender in by_name.items():
                if name != FLOOR:
                    check(contender, ids, inner.decode(ids, skip_special_tokens=True))
            by_kind[kind] = _ways(by_name, ids, report.repeats)
        for way in PEERS:
            _table(report, vocabulary, way, {kind: ways[way] for kind, ways in by_kind.items()})
        _parts(report, vocabulary, inner, count)
    _summary(report)
    report.counts["tokens"] = count


def _ways(by_name: dict[str, Contender], ids: list[int], repeats: int) -> dict[str, Timed]:
    """Return nanoseconds a token by way to run and contender."""
    bursts = [ids[place : place + BURST] for place in range(0, len(ids), BURST)]
    lane = len(ids) // STREAMS
    rows = list(zip(*(ids[n * lane : (n + 1) * lane] for n in range(STREAMS)), strict=True))

    def timed(take_turns: Callable[[dict[str, Work], int], Timed], way: str, data: Any) -> Timed:
        runs = {n: _run(getattr(c, way), data) for n, c in by_name.items()}
        return {n: t / len(ids) * 1e9 for n, t in take_turns(runs, repeats).items()}

    return {
        "interleaved": timed(interleaved, "stream", ids),
        "alone": timed(alone, "stream", ids),
        f"bursts of {BURST}": timed(interleaved, "bursts", bursts),
        f"{STREAMS} streams": timed(interleaved, "many", rows),
    }


def _run(way: Callable[[Any, Callable[[Any], None]], None], data: Any) -> Work:
    def run() -> None:
        texts: list[Any] = []
        way(data, texts.append)

    return run


def _table(report: Report, vocabulary: str, way: str, by_kind: dict[str, Timed]) -> None:
    others = [name for name in next(iter(by_kind.values())) if name != OURS]
    rows = []
    for kind, timed in by_kind.items():
        ratios = {name: timed[name] / timed[OURS] for name in others}
        rows.append([kind, *timed.values(), *ratios.values()])
        case = f"{vocabulary}, {kind}"
        for name, aim in PEERS[way].items():
            if name in ratios:
                report.judge(aim, ratios[name], case)
        if way in FLOORS:
            report.judge(FLOORS[way], 1 / ratios[FLOOR], case)
    title = f"{vocabulary}: {way} (ns a token; x: as a multiple of ours)"
    report.table(title, ["text", OURS, *others, *(f"{name} x" for name in others)], rows)


def _parts(report: Report, vocabulary: str, inner: tokenizers.Tokenizer, count: int) -> None:
    """Measure how much of a step each thing costs that the floor leaves out, and a new stream."""
    by_name = parts(inner)
    columns = []
    for kind in texts.KINDS:
        ids = vocabularies.ids(inner, kind, count)
        timed = alone({n: _run(c.stream, ids) for n, c in by_name.items()}, 3 * report.repeats)
        columns.append([taken / count * 1e9 for taken in timed.values()])
    rows = [[name, *row] for name, row in zip(by_name, zip(*columns, strict=True), strict=True)]
    make = by_name[[*by_name][-1]].make
    new = alone({"new": lambda: [make(()) for _ in range(STREAMS)]}, 3 * report.repeats)["new"]
    each = new / STREAMS / LANE * 1e9
    rows.append([f"a new stream, by each of {LANE} ids", *[each] * len(texts.KINDS)])
    report.table(f"{vocabulary}: the parts of a step (ns a token, alone)", ["", *texts.KINDS], rows)


def _summary(report: Report) -> None:
    """Put a table first that shows the range of each ratio over all texts and vocabularies."""
    ratios: dict[tuple[str, str, str], list[float]] = {}
    for target in report.targets:
        key = (target["what"], target["peer"], target["limit"])
        ratios.setdefault(key, []).append(target["value"])
    rows = [
        [what, peer, min(values), max(values), limit]
        for (what, peer, limit), values in ratios.items()
    ]
    header = ["ratio", "peer", "least", "most", "aim"]
    report.table("In short, over all texts and vocabularies", header, rows)
    report.tables.insert(0, report.tables.pop())


if __name__ == "__main__":
    main(work, name="detokenize", about=__doc__)
