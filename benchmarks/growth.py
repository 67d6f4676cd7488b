"""How the time of a stream grows with its length: from a hundred ids to a million.

Measured on text, on endless bytes that begin characters without completing one, and on a run of
skipped special tokens. Then comes what the first ids cost: after a long prompt, and with tables
that have not been used yet.

An exponent is the slope of log(time) over log(length), from a thousand ids on where a contender
gets that far: 1 is linear, 2 means that each id costs as much as all before it together.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import tokenizers

from benchmarks.aims import at_most
from benchmarks.harness import Report, interleaved, main, seconds
from benchmarks.materials import vocabularies
from benchmarks.peers.contenders import FAST, HF, OURS, Contender, Ids, contenders, ours
from mini_vllm.tokenizer import HuggingFaceTokenizer, create_decode_stream

LENGTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
QUICK_LENGTHS = (100, 1_000)
# Beyond these lengths a peer that is quadratic would need minutes.
MOST = {
    "text": {FAST: 100_000},
    "bytes that end no character": {HF: 1_000, FAST: 1_000},
    "skipped special tokens": {HF: 1_000, FAST: 1_000},
}
EXPONENT = at_most("exponent of a stream's time", "", 1.1)
FIRST = at_most("first id after a long prompt / peer", "second id", 3)


def work(report: Report) -> None:
    """Measure growth on each kind of input, then the first ids."""
    vocabulary, inner = list(vocabularies.available(quick=report.quick).items())[-1]
    by_name = {n: c for n, c in contenders(inner).items() if n in (OURS, HF, FAST)}
    lengths = QUICK_LENGTHS if report.quick else LENGTHS
    for kind, ids in _inputs(inner, lengths[-1]).items():
        _growth(report, f"{vocabulary}: {kind}", by_name, ids, lengths, MOST[kind])
        report.counts[kind] = _counts(inner, ids[: QUICK_LENGTHS[-1]])
    _first_after_prompt(report, by_name, vocabularies.ids(inner, "cjk", lengths[-2]))
    _fresh_tables(report, inner)


def _inputs(inner: tokenizers.Tokenizer, count: int) -> dict[str, list[int]]:
    lead = bytes([0xF0]).decode("latin-1")
    special = min(i for i, token in inner.get_added_tokens_decoder().items() if token.special)
    text = [i for kind in ("cjk", "ascii", "mixed") for i in vocabularies.ids(inner, kind, 10_000)]
    return {
        "text": (text * (count // len(text) + 1))[:count],
        "bytes that end no character": [inner.token_to_id(lead)] * count,
        "skipped special tokens": [special] * count,
    }


def _growth(
    report: Report,
    title: str,
    by_name: dict[str, Contender],
    ids: list[int],
    lengths: Sequence[int],
    most: dict[str, int],
) -> None:
    times: dict[str, list[float]] = {name: [] for name in by_name}
    for length in lengths:
        part = ids[:length]
        runs = {
            n: _stream(c, part) for n, c in by_name.items() if length <= most.get(n, lengths[-1])
        }
        for name, taken in interleaved(runs, 2 if length > 10_000 else report.repeats).items():
            times[name].append(taken)
    exponents = {
        # In short streams the cost of making one shows, which would flatter the exponent.
        name: exponent(lengths[1:], taken[1:]) if len(taken) > 2 else exponent(lengths, taken)
        for name, taken in times.items()
    }
    rows = [
        [name, *(t / n * 1e9 for t, n in zip(taken, lengths, strict=False)),
         *[None] * (len(lengths) - len(taken)), exponents[name]]
        for name, taken in times.items()
    ]  # fmt: skip
    report.table(f"{title} (ns a token)", ["", *map("{:,} ids".format, lengths), "exponent"], rows)
    report.judge(EXPONENT, exponents[OURS], title)


def exponent(lengths: Sequence[int], taken: Sequence[float]) -> float:
    """Return the slope of the line through the logarithms, by least squares."""
    points = [(math.log(n), math.log(t)) for n, t in zip(lengths, taken, strict=False)]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return above / sum((x - mean_x) ** 2 for x, _ in points)


def _stream(contender: Contender, ids: Ids) -> Callable[[], None]:
    def run() -> None:
        contender.stream(ids, lambda piece: None)

    return run


def _counts(inner: tokenizers.Tokenizer, ids: Ids) -> dict[str, int]:
    """Return the number of ids, of characters that came out, and the most bytes held."""
    stream = create_decode_stream(HuggingFaceTokenizer.from_tokenizer(inner))
    characters = held = 0
    for token_id in ids:
        characters += len(stream.step(token_id))
        held = max(held, len(stream.held))
    return {"ids": len(ids), "characters": characters, "most bytes held": held}


def _first_after_prompt(report: Report, by_name: dict[str, Contender], prompt: list[int]) -> None:
    rows = []
    for name, contender in by_name.items():
        count = 2000 if name == OURS and not report.quick else 3
        taken = _first_steps(contender, prompt, count)
        rows.append([name, *(t * 1e6 for t in taken), taken[1] / taken[2]])
        if name == OURS:
            report.judge(FIRST, taken[1] / taken[2], f"{len(prompt):,} ids")
    title = f"After a prompt of {len(prompt):,} ids (microseconds)"
    report.table(title, ["", "new stream", "first id", "second id", "first / second"], rows)


def _first_steps(contender: Contender, prompt: list[int], count: int) -> list[float]:
    """Return the seconds for making a stream, its first id and its second: means over `count`."""
    streams: list[Callable[[int], object]] = []

    def make() -> None:
        streams[:] = [contender.stepper(prompt) for _ in range(count)]

    def step(token_id: int) -> None:
        for take in streams:
            take(token_id)

    make()
    step(prompt[0])
    step(prompt[1])
    parts = (make, partial(step, prompt[0]), partial(step, prompt[1]))
    return [seconds(part) / count for part in parts]


def _fresh_tables(report: Report, inner: tokenizers.Tokenizer) -> None:
    """What loading costs, and what it costs that our tables learn each id when it first comes."""
    rows = []
    for kind in ("ascii", "cjk"):
        ids = vocabularies.ids(inner, kind, QUICK_LENGTHS[-1] if report.quick else 10_000)
        tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
        loading = seconds(partial(getattr, tokenizer, "pieces"))
        first, second = (seconds(_stream(ours(tokenizer), ids)) for _ in range(2))
        rows.append([kind, loading * 1e3, *(t / len(ids) * 1e9 for t in (first, second))])
    header = ["text", "table of pieces, ms", "first 10,000 ids, ns each", "the same again"]
    report.table("Ours, just loaded", header, rows)


if __name__ == "__main__":
    main(work, name="growth", about=__doc__)
