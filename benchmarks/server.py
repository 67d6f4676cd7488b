"""The whole server: events a second over HTTP, and how long the first one takes.

Our server has a model with every token ready; its peer is a bare Starlette stream of the same
events, made in advance, under the same uvicorn settings. Each is a process on one core, and has its
heap out of the garbage collector's sight (`freeze_gc_heap`). The client is another process, on
another core where there is one, and reads raw sockets. All streams of a round are requested at
once, and each is checked to the last character afterwards. Contenders take turns.

The peer comes in two kinds. One lets other tasks run after each event (`await asyncio.sleep(0)`),
as every source does that has to wait for its events: **the target is relative to this one**. The
other never does, so it serves its streams one after another and the last one waits for all; it is
the limit of uvicorn itself.

*paced* is our server with a model that takes 5 ms a step and lets other threads run meanwhile, as a
model on another processor does. An instant model in Python does not: its thread and the event
loop's share the interpreter.

But: no real server is this busy with so little; a model costs more than all of this.
"""

import json
import os
import random
import time
from dataclasses import dataclass, field
from statistics import median, quantiles

from rich.console import Console
from rich.progress import Progress

from benchmarks.aims import at_least, at_most
from benchmarks.harness import Report, main
from benchmarks.servers.apps import CORE, material, text_of
from benchmarks.servers.client import Answer, read_streams, request
from benchmarks.servers.process import serving

SHAPES = {1: 2_000, 32: 500, 256: 100}
QUICK_SHAPES = {1: 20, 8: 5}
# Rounds of a shape: with few streams a round is short and says little.
ROUNDS = {1: 35, 32: 11, 256: 7}
FIRST_ROUNDS = {1: 200, 32: 20, 256: 11}
FIRST_TOKENS = 50
QUICK_TOKENS = 3
PACE = 0.005
AWAITS, NEVER = "Starlette, awaits", "Starlette, never awaits"
OURS, CHAT = "ours, completions", "ours, chat"
PACED, PACED_CHAT = "ours, completions, paced", "ours, chat, paced"
KINDS = {OURS: "completions", CHAT: "chat"}
EVENTS = at_least("events a second, completions / peer", AWAITS, 0.7)
MANY = max(SHAPES)
EVENTS_OF_MANY = {
    name: at_least(f"events a second of {MANY}, {kind} / peer", AWAITS, 0.75)
    for name, kind in KINDS.items()
}
FIRST_OF_MANY = {
    name: at_most(f"first byte of {MANY}, {kind} / peer", AWAITS, 3) for name, kind in KINDS.items()
}
# Completions and chats both get text, which the server has to encode.
SAID = "Tell me all."
TEXT, DELTA = b'"text":', b'"delta":{"content":'


@dataclass(frozen=True)
class Contender:
    """One way to get a stream: the port, the path, what to send, and what marks content."""

    port: int
    path: str
    payload: dict[str, object]
    mark: bytes

    def message(self, count: int) -> bytes:
        """Return the request for a stream of `count` tokens."""
        body = {**self.payload, "max_tokens": count, "stream": True, "ignore_eos": True}
        return request(self.path.format(count), json.dumps(body).encode())


@dataclass
class Figures:
    """What the rounds of one contender measured."""

    events: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    per_stream: float = 0.0
    busy: list[float] = field(default_factory=list)
    first_byte: list[float] = field(default_factory=list)
    first_content: list[float] = field(default_factory=list)


def work(report: Report) -> None:
    """Measure events a second, then the first byte."""
    if hasattr(os, "sched_setaffinity"):
        os.environ[CORE] = str(max(os.sched_getaffinity(0)))
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tokenizer, ids = material(quick=report.quick)
    texts = text_of(tokenizer, ids)
    # A server without requests idles and takes no time from the one that runs.
    with (
        serving("peer", quick=report.quick) as (_, peer),
        serving("ours", quick=report.quick) as (_, ours),
    ):
        prompt, chat = _payloads()
        contenders = {
            AWAITS: Contender(peer, "/awaits/{}", {}, TEXT),
            NEVER: Contender(peer, "/never/{}", {}, TEXT),
            OURS: Contender(ours, "/v1/completions", prompt, TEXT),
            CHAT: Contender(ours, "/v1/chat/completions", chat, DELTA),
        }
        _events(report, contenders, texts)
        with serving("ours", "--step", str(PACE), quick=report.quick) as (_, paced):
            contenders[PACED] = Contender(paced, "/v1/completions", prompt, TEXT)
            contenders[PACED_CHAT] = Contender(paced, "/v1/chat/completions", chat, DELTA)
            _firsts(report, contenders, texts)


def _payloads() -> tuple[dict[str, object], dict[str, object]]:
    return {"prompt": SAID}, {"messages": [{"role": "user", "content": SAID}]}


def _events(report: Report, contenders: dict[str, Contender], texts: list[str]) -> None:
    rows = []
    for streams, count in (QUICK_SHAPES if report.quick else SHAPES).items():
        rounds = 1 if report.quick else ROUNDS[streams]
        by_name = _rounds(contenders, streams, count, rounds, texts)
        rate = {name: median(figures.events) for name, figures in by_name.items()}
        for name, figures in by_name.items():
            rows.append(
                [f"{streams} x {count:,}", name, rate[name], figures.per_stream,
                 median(figures.tokens), rate[name] / rate[AWAITS], rate[name] / rate[NEVER],
                 median(figures.busy)]
            )  # fmt: skip
        if streams == MANY:
            for name, aim in EVENTS_OF_MANY.items():
                report.judge(aim, rate[name] / rate[AWAITS])
        else:
            report.judge(EVENTS, rate[OURS] / rate[AWAITS], f"{streams} streams")
        report.counts[f"{streams} x {count}"] = {
            n: figures.per_stream for n, figures in by_name.items()
        }
    header = ["", "", "events/s", "events a stream", "tokens/s", "/ awaits", "/ never awaits",
              "client busy"]  # fmt: skip
    report.table("Streams x tokens: events a second", header, rows)


def _firsts(report: Report, contenders: dict[str, Contender], texts: list[str]) -> None:
    rows = []
    for streams in QUICK_SHAPES if report.quick else SHAPES:
        rounds = 2 if report.quick else FIRST_ROUNDS[streams]
        count = QUICK_TOKENS if report.quick else FIRST_TOKENS
        by_name = _rounds(contenders, streams, count, rounds, texts)
        if streams == MANY:
            peer = median(by_name[AWAITS].first_byte)
            for name, aim in FIRST_OF_MANY.items():
                report.judge(aim, median(by_name[name].first_byte) / peer)
        for name, figures in by_name.items():
            shown = [1e3 * part for times in (figures.first_byte, figures.first_content)
                     for part in (median(times), quantiles(times, n=100)[98])]  # fmt: skip
            rows.append([streams, name, *shown])
    header = ["streams", "", "first byte, median", "99 %", "first content, median", "99 %"]
    report.table("From the request to the first byte of the body (ms)", header, rows)


def _rounds(
    contenders: dict[str, Contender], streams: int, count: int, rounds: int, texts: list[str]
) -> dict[str, Figures]:
    """Run all contenders once a round, in random order, after one round that does not count."""
    by_name = {name: Figures() for name in contenders}
    generator = random.Random(0)
    console = Console(stderr=True)
    with Progress(
        console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=rounds * len(contenders))
        for number in range(rounds + 1):
            for name in generator.sample(list(contenders), len(contenders)):
                figures, contender = Figures() if number == 0 else by_name[name], contenders[name]
                busy, began = time.process_time(), time.perf_counter()
                answers = read_streams(contender.port, contender.message(count), streams)
                share = (time.process_time() - busy) / (time.perf_counter() - began)
                _add(figures, answers, contender, "".join(texts[:count]), count)
                figures.busy.append(share)
                progress.update(task, advance=1, description=name, refresh=True)
    return by_name


def _add(
    figures: Figures, answers: list[Answer], contender: Contender, text: str, count: int
) -> None:
    taken = max(answer.ended for answer in answers) - min(answer.sent for answer in answers)
    events = sum(check(answer.body(), text) for answer in answers)
    figures.events.append(events / taken)
    figures.tokens.append(count * len(answers) / taken)
    figures.per_stream = events / len(answers)
    figures.first_byte += [answer.first_byte for answer in answers]
    figures.first_content += [answer.first(contender.mark) for answer in answers]


def check(body: bytes, text: str) -> int:
    """Return the number of events in a stream.

    Raises:
        AssertionError: its text is not `text`, or it does not end with `[DONE]`.
    """
    *events, done, rest = body.split(b"\n\n")
    if done != b"data: [DONE]" or rest:
        raise AssertionError(f"the stream ends with {body[-200:]!r}")
    said = "".join(map(_text, events))
    if said != text:
        raise AssertionError(f"the stream says {said[-40:]!r}, not {text[-40:]!r}")
    return len(events) + 1


def _text(event: bytes) -> str:
    if b'"choices":' not in event:
        raise AssertionError(f"the stream has {event[:200]!r}")
    choice = json.loads(event.removeprefix(b"data: "))["choices"][0]
    text: str = choice["text"] if "text" in choice else choice["delta"].get("content", "")
    return text


if __name__ == "__main__":
    main(work, name="server", about=__doc__, pin=False)
