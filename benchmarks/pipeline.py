"""The whole text path: ids in, events out, for 256 replies at once.

A reply is prose and a tool call, with four stop strings that never occur. *ours* is `TextPipeline`
with the Hermes parser. The peers are vLLM's fast detokenizer with the same stops: alone, followed
by vLLM's parser engine, and followed by its Hermes parser, which reads the whole reply again each
time.

How much waits is measured on the same replies, in our layers and by the rules of others: vLLM holds
as many characters as the longest stop has, less one; the jail of SGLang's router holds all of them.

But: HTTP and JSON, which are not measured here, cost more than all of this.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tokenizers

from benchmarks.aims import at_least
from benchmarks.harness import Report, Work, interleaved, main
from benchmarks.materials import texts, vocabularies
from benchmarks.peers.detokenizers import HAS_VLLM, has, vllm_detokenizer, vllm_tokenizer
from benchmarks.peers.text_layers import HAS_VLLM_PARSERS, vllm_engine, vllm_hermes
from benchmarks.stops import STOPS
from benchmarks.tool_parsers import arguments
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import ArgsDelta, CallStart, TextDelta
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import HuggingFaceTokenizer

STREAMS = 256
PROSE, CALL = 240, 900
STOP = STOPS[:4]
LONGEST = max(map(len, STOP))
OURS, FAST = "ours", "vLLM Fast, no parser"
ENGINE, HERMES = "vLLM Fast + engine", "vLLM Fast + Hermes"
AIMS = {ENGINE: at_least(f"{STREAMS} replies, peer / ours", ENGINE, 12)}
PACE = 100
# A stream takes the list of its new ids, as engines hand them out.
Take = Callable[[list[int]], object]


def work(report: Report) -> None:
    """Measure every vocabulary: speed, then what waits."""
    for vocabulary, inner in vocabularies.available(quick=report.quick).items():
        replies = make_replies(inner, 8 if report.quick else STREAMS)
        _speed(report, vocabulary, contenders(inner), replies)
        _held(report, vocabulary, inner, replies[:8])


def make_replies(inner: tokenizers.Tokenizer, count: int) -> list[list[int]]:
    """Return the ids of replies of equal length, each with its own prose and call."""
    replies = []
    for seed in range(count):
        body = arguments(CALL, seed)
        call = f'\n<tool_call>\n{{"name": "save", "arguments": {body}}}\n</tool_call>'
        ids = inner.encode(call, add_special_tokens=False).ids
        prose = texts.text("ascii", 8 * PROSE, seed)
        replies.append((inner.encode(prose, add_special_tokens=False).ids[:PROSE], ids))
    # The longer the call, the shorter the prose.
    size = PROSE + min(len(ids) for _, ids in replies)
    return [[*prose[: max(0, size - len(ids))], *ids][:size] for prose, ids in replies]


def contenders(inner: tokenizers.Tokenizer) -> dict[str, Callable[[], Take]]:
    """Return a function for each contender that makes a stream: those that are installed."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)

    factories: dict[str, Callable[[], Take]] = {
        OURS: lambda: TextPipeline(tokenizer, stop=STOP, tools=create_tool_parser("hermes")).feed
    }
    if HAS_VLLM and has("transformers"):
        make = partial(vllm_detokenizer, "Fast", vllm_tokenizer(inner), stop=STOP)
        factories[FAST] = lambda: _behind(make(), lambda text, ids: text)
        if HAS_VLLM_PARSERS:
            factories[ENGINE] = lambda: _behind(make(), vllm_engine().feed)
            factories[HERMES] = lambda: _hermes(make())
    return factories


def _behind(detokenizer: Any, parse: Callable[[str, Sequence[int]], object]) -> Take:
    update, get = detokenizer.update, detokenizer.get_next_output_text

    def take(ids: list[int]) -> object:
        update(ids, False)
        text = get(False, True)
        return parse(text, ids) if text else None

    return take


def _hermes(detokenizer: Any) -> Take:
    feed = vllm_hermes()
    return _behind(detokenizer, lambda text, ids: feed(text))


def _run(make: Callable[[], Take], steps: list[list[list[int]]]) -> None:
    streams = [make() for _ in steps[0]]
    for step in steps:
        for take, ids in zip(streams, step, strict=True):
            take(ids)


def _speed(
    report: Report,
    vocabulary: str,
    makers: dict[str, Callable[[], Take]],
    replies: list[list[int]],
) -> None:
    steps = [[[token_id] for token_id in row] for row in zip(*replies, strict=True)]
    runs: dict[str, Work] = {name: partial(_run, make, steps) for name, make in makers.items()}
    times = interleaved(runs, 1 if report.quick else 3)
    tokens = len(replies) * len(replies[0])
    rows = []
    for name, taken in times.items():
        each = taken / tokens * 1e9
        step = taken / len(replies[0]) * 1e6
        rows.append([name, each, int(1e9 / each / PACE), step, taken / times[OURS]])
        if name in AIMS:
            report.judge(AIMS[name], taken / times[OURS], vocabulary)
    header = ["", "ns a token", f"streams of {PACE}/s a core", "us a step", "multiple of ours"]
    report.table(f"{vocabulary}: {len(replies)} replies of {len(replies[0])} ids", header, rows)


def _held(
    report: Report, vocabulary: str, inner: tokenizers.Tokenizer, replies: list[list[int]]
) -> None:
    """Measure how much waits after each id on average, by layer; others hold a constant."""
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    waits = dict.fromkeys(("tokens", "stops", "calls"), 0)
    shown = steps = calls = 0
    for ids in replies:
        pipeline = TextPipeline(tokenizer, stop=STOP, tools=create_tool_parser("hermes"))
        for token_id in ids:
            events = pipeline.feed((token_id,))
            shown += sum(
                len(event.text) for event in events if isinstance(event, TextDelta | ArgsDelta)
            )
            calls += sum(isinstance(event, CallStart) for event in events)
            steps += 1
            for layer, held in pipeline.held.items():
                if layer in waits:
                    waits[layer] += len(held)
    mean = {layer: total / steps for layer, total in waits.items()}
    rows = [
        ["ours, detokenizer (bytes)", mean["tokens"]],
        ["ours, stop strings", mean["stops"]],
        ["ours, tool parser (a call's head until its name is known)", mean["calls"]],
        ["vLLM, stop strings: the longest less one", LONGEST - 1],
        ["SGLang's router, stop strings: the longest", LONGEST],
    ]
    report.table(f"{vocabulary}: characters that wait after an id", ["", "mean"], rows)
    report.counts[vocabulary] = {"found": calls, "shown": shown, **mean}


if __name__ == "__main__":
    main(work, name="pipeline", about=__doc__)
