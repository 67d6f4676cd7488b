"""Hermes tool calls: the time of one call by the length of its arguments, in deltas of about four.

*vLLM engine* is vLLM's new `StreamingParserEngine`, the only linear one of its parsers, with the
arguments followed as JSON; *vLLM engine, raw* looks only for the end tag. *vLLM Hermes* and *SGLang
Hermes* are the parsers that both ship for this format. They read the whole call again with each
delta, so they run only on lengths that they finish in reasonable time.

An exponent is the slope of log(time) over log(length): 1 is linear, 2 means that each delta costs
as much as all before it together.
"""

import json
import random
from collections.abc import Callable
from functools import partial

from benchmarks.aims import at_least, at_most
from benchmarks.growth import exponent
from benchmarks.harness import Report, Work, interleaved, main
from benchmarks.materials import texts
from benchmarks.peers.text_layers import (
    HAS_SGLANG,
    HAS_VLLM_PARSERS,
    Feed,
    sglang_hermes,
    vllm_engine,
    vllm_hermes,
)
from mini_vllm.text.events import ArgsDelta
from mini_vllm.text.tool_parsers import create_tool_parser

OURS, ENGINE, RAW = "ours", "vLLM engine", "vLLM engine, raw"
VLLM, SGLANG = "vLLM Hermes", "SGLang Hermes"
LENGTHS = (1_000, 10_000, 32_000, 100_000, 1_000_000)
QUICK_LENGTHS = (1_000, 2_000)
# Beyond these lengths a peer needs minutes.
MOST = {VLLM: 32_000, SGLANG: 10_000}
AIMED = 10_000
AIMS = {
    name: at_least(f"a call of {AIMED:,} characters, peer / ours", name, least)
    for name, least in ((ENGINE, 15), (VLLM, 80))
}
EXPONENT = at_most("exponent of a call's time", "", 1.15)


def work(report: Report) -> None:
    """Measure every length, then say how the time grows."""
    lengths = QUICK_LENGTHS if report.quick else LENGTHS
    makers = contenders()
    times: dict[str, list[float]] = {name: [] for name in makers}
    counts: list[int] = []
    for length in lengths:
        pieces = deltas(length)
        counts.append(len(pieces))
        runs: dict[str, Work] = {
            name: partial(_run, make, pieces)
            for name, make in makers.items()
            if length <= MOST.get(name, lengths[-1])
        }
        few = length > 10_000 or (length == 10_000 and SGLANG in runs)
        for name, taken in interleaved(runs, 3 if few else report.repeats).items():
            times[name].append(taken)
        report.counts[str(length)] = _counts(pieces)
    _tables(report, lengths, counts, times)


def contenders() -> dict[str, Callable[[], Feed]]:
    """Return a function for each installed contender that makes its `feed`."""
    factories: dict[str, Callable[[], Feed]] = {OURS: lambda: create_tool_parser("hermes").feed}
    if HAS_VLLM_PARSERS:
        factories[ENGINE] = lambda: _engine(json=True)
        factories[RAW] = lambda: _engine(json=False)
        factories[VLLM] = vllm_hermes
    if HAS_SGLANG:
        factories[SGLANG] = lambda: sglang_hermes("save")
    return factories


def _engine(*, json: bool) -> Feed:
    feed = vllm_engine(json=json).feed
    return lambda piece: feed(piece, ())


def arguments(length: int, seed: int = 0) -> str:
    """Return a JSON object of about `length` characters: prose, numbers and nested values."""
    generator = random.Random(seed)
    prose = texts.text("ascii", length + 200, seed)
    items, size, place = [], 0, 0
    while size < length - 160:
        take = min(generator.randint(20, 200), length - size - 120)
        item = {
            "path": f"src/{generator.randrange(1000)}.py",
            "line": generator.randrange(10_000),
            "text": prose[place : place + take],
            "flags": [True, None, generator.random()],
        }
        items.append(item)
        place += take
        size += len(json.dumps(item)) + 2
    return json.dumps({"title": "é 你 🚀", "edits": items}, ensure_ascii=False)


def deltas(length: int, seed: int = 0) -> list[str]:
    """Return a call with arguments of about `length`, in pieces of two to six characters."""
    call = f'<tool_call>\n{{"name": "save", "arguments": {arguments(length, seed)}}}\n</tool_call>'
    return texts.in_pieces(call, seed)


def _run(make: Callable[[], Feed], pieces: list[str]) -> None:
    feed = make()
    for piece in pieces:
        feed(piece)


def _counts(pieces: list[str]) -> dict[str, int]:
    """Return the length of the arguments that come out, and the most that waits on the way."""
    parser, length, most = create_tool_parser("hermes"), 0, 0
    for number, piece in enumerate(pieces):
        events = parser.feed(piece)
        length += sum(len(event.text) for event in events if isinstance(event, ArgsDelta))
        # The call's head waits until its name is known.
        most = max(most, len(parser.held) if number > 20 else 0)
    return {"deltas": len(pieces), "arguments": length, "most held": most}


def _tables(
    report: Report, lengths: tuple[int, ...], counts: list[int], times: dict[str, list[float]]
) -> None:
    def row(name: str, values: list[float]) -> list[object]:
        return [name, *values, *[None] * (len(lengths) - len(values))]

    header = ["characters of arguments", *map("{:,}".format, lengths)]
    rows = []
    for name, taken in times.items():
        grown = [n for n in range(len(taken)) if report.quick or lengths[n] >= 10_000]
        slope = None
        if len(grown) > 1:
            slope = exponent([lengths[n] for n in grown], [taken[n] for n in grown])
        elif len(taken) > 1:
            slope = exponent(lengths[: len(taken)], taken)
        rows.append([*row(name, [t * 1e3 for t in taken]), slope])
        if name == OURS and slope is not None:
            report.judge(EXPONENT, slope)
    report.table("One call (ms in all)", [*header, "exponent"], rows)
    rows = [
        row(name, [t / n * 1e6 for t, n in zip(taken, counts, strict=False)])
        for name, taken in times.items()
    ]
    ours = times.pop(OURS)
    ratios = {
        name: [t / own for t, own in zip(taken, ours, strict=False)]
        for name, taken in times.items()
    }
    rows += [row(f"{name} x", multiples) for name, multiples in ratios.items()]
    report.table("One call (microseconds a delta), and multiples of ours", header, rows)
    for name, aim in AIMS.items():
        if name in ratios and AIMED in lengths:
            report.judge(aim, ratios[name][lengths.index(AIMED)])


if __name__ == "__main__":
    main(work, name="tool_parsers", about=__doc__)
