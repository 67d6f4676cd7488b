"""The engine on the replies of the group `pipeline`, beside the pipeline; a part of `engine`."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

import tokenizers

from benchmarks.aims import at_most
from benchmarks.harness import Report, Work, interleaved
from benchmarks.pipeline import STOP, make_replies
from mini_vllm.engine import (
    Burst,
    Engine,
    FinishReason,
    Request,
    SamplingParams,
    SlotView,
    StreamChannel,
    StreamChunk,
    TextPathFactory,
)
from mini_vllm.pipeline import TextPipeline
from mini_vllm.text.events import Event, TextDelta
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import Tokenizer

PROMPT = (1, 2, 3)
NOT_FINISHED = FinishReason.NOT_FINISHED
PIPELINE, FLOOR = "pipeline alone", "floor: model, append, pipeline, chunk, deque"
SILENT, READ = "engine, no channels", "engine, channels read by turns"
SHAPES, QUICK_SHAPES = (1, 32), (2,)
TARGET_SLOTS = 32
MULTIPLE = at_most(f"{TARGET_SLOTS} replies with channels, ours / peer", PIPELINE, 4)
TOOLS = ({"type": "function", "function": {"name": "save"}},)
# What ends at each hook of an iteration.
PARTS = {
    "before_decode": "cancel",
    "after_append": "ask the model, check what it gave",
    "before_emit": "append, text, report",
    "after_emit": "emit",
    "after_evict": "evict",
}
READING = "read"


class Playing:
    """A model that gives each request its bursts, which were made before.

    Args:
        bursts: by the name of the request.
    """

    def __init__(self, bursts: Mapping[str, Sequence[Burst]]) -> None:
        self._bursts = bursts

    def decode(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Return the next burst of each slot."""
        bursts = self._bursts
        return [bursts[slot.request_id][slot.step] for slot in slots]

    prefill = decode

    def release(self, slot: SlotView) -> None:
        """Do nothing: nothing is kept."""


def work(
    report: Report, vocabulary: str, tokenizer: Tokenizer, inner: tokenizers.Tokenizer
) -> None:
    """Measure each number of slots."""
    for slots in QUICK_SHAPES if report.quick else SHAPES:
        _measure(report, vocabulary, tokenizer, make_replies(inner, slots))


def _measure(
    report: Report, vocabulary: str, tokenizer: Tokenizer, replies: list[list[int]]
) -> None:
    slots, length = len(replies), len(replies[0])
    title = f"{vocabulary}: {slots} replies of {length} ids"
    bursts = {
        str(place): [Burst((token_id,)) for token_id in reply]
        for place, reply in enumerate(replies)
    }
    play = partial(_play, tokenizer, bursts)
    runs: dict[str, Work] = {
        PIPELINE: lambda: _feed_replies(tokenizer, replies),
        FLOOR: lambda: _play_bare(tokenizer, bursts),
        SILENT: lambda: play(read=False),
        READ: lambda: play(read=True),
    }
    times = interleaved(runs, report.repeats)
    each = {name: taken / slots / length * 1e9 for name, taken in times.items()}
    rows = [[name, ns, ns / each[PIPELINE]] for name, ns in each.items()]
    report.table(title, ["", "ns a token", "multiple of the pipeline"], rows)
    if slots == TARGET_SLOTS:
        report.judge(MULTIPLE, each[READ] / each[PIPELINE], vocabulary)
    parts: dict[str, list[float]] = {name: [] for name in (*PARTS, READING)}
    play(read=True, parts=parts)
    rows = [
        [PARTS.get(name, "read the channels"), median(taken) / slots]
        for name, taken in parts.items()
    ]
    report.table(f"{title}: the parts of an iteration", ["", "ns a token, median"], rows)


def _feed_replies(tokenizer: Tokenizer, replies: list[list[int]]) -> None:
    feeds = [_feed(tokenizer) for _ in replies]
    for step in zip(*replies, strict=True):
        for feed, token_id in zip(feeds, step, strict=True):
            feed((token_id,))


def _feed(tokenizer: Tokenizer) -> Callable[[Sequence[int]], list[Event]]:
    tools = create_tool_parser("hermes")
    return TextPipeline(tokenizer, prompt_token_ids=PROMPT, stop=STOP, tools=tools).feed


def _play_bare(tokenizer: Tokenizer, bursts: Mapping[str, Sequence[Burst]]) -> None:
    """Do what no engine can leave out, with nothing checked, counted, cancelled or ended."""
    model = Playing(bursts)
    views = [SlotView(name, 0, PROMPT, SamplingParams()) for name in bursts]
    slots = [(view, _feed(tokenizer), deque[StreamChunk]()) for view in views]
    for _ in bursts["0"]:
        for burst, (view, feed, pending) in zip(model.decode(views), slots, strict=True):
            view.step += 1
            view.output_token_ids += burst.token_ids
            events = feed(burst.token_ids)
            if not events:
                continue
            if len(events) == 1 and type(events[0]) is TextDelta:
                pending.append(StreamChunk(burst.token_ids, events[0].text))
            else:
                chunk = StreamChunk(burst.token_ids, "", False, NOT_FINISHED, (), tuple(events))
                pending.append(chunk)
        for _, _, pending in slots:
            if pending:
                pending.popleft()


def _play(
    tokenizer: Tokenizer,
    bursts: Mapping[str, Sequence[Burst]],
    *,
    read: bool,
    parts: dict[str, list[float]] | None = None,
) -> None:
    """Run replies to their end; note how long each part of an iteration took, up to its hook."""
    slots, length, began = len(bursts), len(bursts["0"]), 0

    def note(into: list[float]) -> Callable[[], None]:
        def hook() -> None:
            nonlocal began
            into.append(time.perf_counter_ns() - began)
            began = time.perf_counter_ns()

        return hook

    notes = {name: note(into) for name, into in (parts or {}).items()}
    ignore, have_read = note([]), notes.pop(READING, lambda: None)
    hooks = {**notes, "after_admit": ignore} if notes else {}
    engine = Engine(
        Playing(bursts),
        tokenizer,
        max_num_seqs=slots,
        num_blocks=slots * (length // 16 + 2),
        make_text_path=TextPathFactory(tokenizer, tool_format="hermes"),
        hooks=hooks,
    )
    params = SamplingParams(max_tokens=length, ignore_eos=True, stop=STOP)
    channels = [StreamChannel.create() for _ in bursts] if read else []
    engine.submit([Request(PROMPT, params, name, tools=TOOLS) for name in bursts], channels)
    while engine.step():
        ignore()
        for channel in channels:
            channel.try_pop()
        have_read()
