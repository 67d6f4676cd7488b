"""Stop strings (B08): nanoseconds a delta by the number of stops, and how much text waits.

A delta is the text of one token. *vLLM check* is vLLM's `check_stop_strings` alone, on the last 200
characters. *vLLM* is what its detokenizer does around that: it joins the text, checks, and holds as
many characters as the longest stop has, less one. The *floor* is a method that returns its
argument.

The stops never occur in the text: finding one costs only once.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks.aims import at_least, at_most
from benchmarks.harness import Report, Work, interleaved, main, seconds
from benchmarks.materials import vocabularies
from benchmarks.peers.detokenizers import HAS_VLLM, has, vllm_stop_check
from mini_vllm.text.stop import StopMatcher
from mini_vllm.tokenizer import HuggingFaceTokenizer, create_decode_stream

OURS, FLOOR, CHECK, VLLM = "ours", "floor", "vLLM check", "vLLM"
STOPS = [
    "\n\nUser:", "<|im_end|>", "###", "</s>",
    "\nObservation:", "<end_of_turn>", "<|eot_id|>", "Question:", "\nQ:", "[INST]", "</answer>",
    "\nHuman:", "```\n\n", "<|endoftext|>", "\n\n\n", "STOP",
    *(f"\n{word} {number}:" for word in ("Step", "Example", "Problem") for number in range(16)),
]  # fmt: skip
COUNTS = (1, 4, 16, 64)
AIMS = {n: at_least(f"{n} stops, peer / ours", CHECK, least) for n, least in ((4, 6), (64, 40))}
HELD = at_most("characters that wait, on average", "", 0.6)
TAIL = 200
REPLY = 400


class _Floor:
    """The least that a Python method can do: it matches nothing."""

    def feed(self, text: str) -> str:
        return text


class _Check:
    """vLLM's check alone, without joining the whole text."""

    def __init__(self, stops: list[str]) -> None:
        self._stops = stops
        self._check = vllm_stop_check()
        self._tail = ""

    def feed(self, text: str) -> str:
        tail = self._tail + text
        if self._check(tail, len(text), self._stops, False) is not None:
            raise AssertionError("a stop was found")
        self._tail = tail if len(tail) <= TAIL else tail[-TAIL:]
        return text


class _Vllm:
    """What vLLM's detokenizer does with each piece, in `update` and `get_next_output_text`."""

    def __init__(self, stops: list[str]) -> None:
        self._stops = stops
        self._check = vllm_stop_check()
        self._hold = max(map(len, stops)) - 1
        self._text = ""
        self._shown = 0

    def feed(self, text: str) -> str:
        self._text += text
        if self._check(self._text, len(text), self._stops, False) is not None:
            raise AssertionError("a stop was found")
        end = len(self._text) - self._hold
        if self._shown >= end:
            return ""
        start, self._shown = self._shown, end
        return self._text[start:end]


def work(report: Report) -> None:
    """Measure every number of stops, then what is held, then new sets of stops."""
    texts_by_kind = deltas(500 if report.quick else 10_000)
    makers = contenders()
    for kind, pieces in texts_by_kind.items():
        _speed(report, kind, pieces, makers)
    _held(report, texts_by_kind)
    _cold(report, texts_by_kind["English"], makers)


def contenders() -> dict[str, Callable[[list[str]], Any]]:
    """Return a function for each installed contender that makes it from a list of stops."""
    factories: dict[str, Callable[[list[str]], Any]] = {
        OURS: StopMatcher,
        FLOOR: lambda _: _Floor(),
    }
    if HAS_VLLM and has("transformers"):
        factories[CHECK] = _Check
        factories[VLLM] = _Vllm
    return factories


def deltas(count: int) -> dict[str, list[str]]:
    """Return texts, cut into pieces as tokens cut them."""
    inner = vocabularies.trained(1024 if count < 1000 else 16_384)
    inputs = {}
    for kind in ("ascii", "cjk"):
        stream = create_decode_stream(HuggingFaceTokenizer.from_tokenizer(inner))
        ids = vocabularies.ids(inner, kind, count)
        pieces = [piece for token_id in ids if (piece := stream.step(token_id))]
        inputs["English" if kind == "ascii" else "CJK"] = _without_stops(pieces)
    generator = random.Random(0)
    beginnings = [stop[:size] for stop in STOPS for size in range(1, len(stop))]
    near = [part for _ in range(count // 2) for part in (generator.choice(beginnings), "~")]
    inputs["nothing but near misses"] = near
    return inputs


def _without_stops(pieces: list[str]) -> list[str]:
    """Leave out the pieces that complete a stop."""
    matcher, rest = StopMatcher(STOPS), []
    for piece in pieces:
        matcher.feed(piece)
        if matcher.matched is None:
            rest.append(piece)
        else:
            matcher = StopMatcher(STOPS)
            matcher.feed("".join(rest[-20:]))
    return rest


def _speed(
    report: Report,
    kind: str,
    pieces: list[str],
    makers: dict[str, Callable[[list[str]], Any]],
) -> None:
    rows = []
    for count in COUNTS:
        runs: dict[str, Work] = {
            name: partial(_run, make, STOPS[:count], pieces) for name, make in makers.items()
        }
        times = interleaved(runs, report.repeats)
        each = [times[name] / len(pieces) * 1e9 for name in makers]
        rows.append([count, *each, *(times[n] / times[OURS] for n in (CHECK, VLLM) if n in times)])
        if CHECK in times and count in AIMS and kind == "English":
            report.judge(AIMS[count], times[CHECK] / times[OURS])
    size = sum(map(len, pieces)) / len(pieces)
    title = f"{kind}: ns a delta of {size:.1f} characters, by number of stops"
    ratios = [f"{name} x" for name in (CHECK, VLLM) if name in makers]
    report.table(title, ["stops", *makers, *ratios], rows)


def _run(make: Callable[[list[str]], Any], stops: list[str], pieces: Sequence[str]) -> None:
    _feed_all(make(stops), pieces)


def _held(report: Report, texts_by_kind: dict[str, list[str]]) -> None:
    rows = []
    for kind, pieces in texts_by_kind.items():
        for count in COUNTS:
            stops = STOPS[:count]
            matcher, held = StopMatcher(stops), []
            for piece in pieces:
                matcher.feed(piece)
                held.append(len(matcher.held))
            mean, none = sum(held) / len(held), held.count(0) / len(held) * 100
            longest = max(map(len, stops))
            rows.append([f"{kind}, {count} stops", mean, none, max(held), longest - 1])
            report.counts[f"{kind}, {count}"] = {"mean": mean, "most": max(held), "vLLM": longest}
            if kind == "English":
                report.judge(HELD, mean, f"{count} stops")
    header = ["", "mean", "% of deltas with none", "most", "vLLM, always"]
    report.table("Characters that wait after a delta", header, rows)


def _cold(report: Report, pieces: list[str], makers: dict[str, Callable[[list[str]], Any]]) -> None:
    """Measure sets of stops that come for the first time, for one reply each."""
    rows = []
    for count in COUNTS:
        row: list[float] = []
        for make in makers.values():
            made, fed = [], []
            for number in range(3 * report.repeats):
                stops = [f"{stop}{number}{report.repeats}" for stop in STOPS[:count]]
                matcher: list[Any] = []
                made.append(seconds(partial(_make, make, stops, matcher)))
                fed.append(seconds(partial(_feed_all, matcher[0], pieces[:REPLY])))
            row += [sorted(made)[len(made) // 2] * 1e6, sorted(fed)[len(fed) // 2] / REPLY * 1e9]
        rows.append([count, *row])
    header = ["stops", *(f"{name}, {what}" for name in makers for what in ("us to make", "ns"))]
    report.table(f"A new set for a reply of {REPLY} deltas", header, rows)


def _make(make: Callable[[list[str]], Any], stops: list[str], into: list[Any]) -> None:
    into.append(make(stops))


def _feed_all(matcher: Any, pieces: Sequence[str]) -> None:
    feed = matcher.feed
    for piece in pieces:
        feed(piece)


assert len(STOPS) == COUNTS[-1]

if __name__ == "__main__":
    main(work, name="stops", about=__doc__)
