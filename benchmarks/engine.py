"""What the engine costs per token, compared with the text pipeline alone; and its channels.

The model is instant: every burst is ready. *floor* calls it and appends the ids, the least that an
engine does; *pipeline* feeds the same ids to `TextPipeline`, the least that a text path does. The
engine runs without channels (then the text is made in one go at the end), with channels that are
read only at the end (beyond 256 waiting chunks they are joined), with a thread for each channel,
and with a task for each on one thread, as in the server. All run on one core, so the times include
the readers.

*Replies* are those of the group `pipeline`: prose and a tool call, with four stop strings; after
each iteration a chunk is read from each channel. **The target is relative to the pipeline on
these**, at 32 slots with channels. Their *floor* feeds the pipeline, too, makes a chunk of what
comes out, and puts it through a deque. No engine in Python does less, and this is some two and a
half times the pipeline already. The table after it has the parts of an iteration. What the engine
adds to the floor is spread thin over what it promises: each burst is checked against the model's
contract, each end is found and each cancellation seen in its iteration, a choice whose text path or
model fails ends alone, times are reported, and a chunk knows of intervals, logprobs and what is
held. The rest of the time goes to the first and the last iteration of a request. An engine of one
slot pays some 7 us for each iteration besides.

Channels are compared with the queues of the standard library, chunk by chunk. The group `server`
measures HTTP.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

from benchmarks import engine_replies
from benchmarks.aims import at_most
from benchmarks.growth import exponent
from benchmarks.harness import Report, Work, interleaved, main
from benchmarks.materials import vocabularies
from mini_vllm.engine import (
    Burst,
    Engine,
    FinishReason,
    OverflowPolicy,
    Request,
    SamplingParams,
    SlotView,
    StreamChannel,
    StreamChunk,
    read_together,
)
from mini_vllm.engine.channel import attach
from mini_vllm.engine.pipe import Pipe
from mini_vllm.pipeline import TextPipeline
from mini_vllm.tokenizer import HuggingFaceTokenizer, Tokenizer

PROMPT = (1, 2, 3)
SHAPES = {1: 20_000, 32: 1_000, 256: 200}
LENGTHS = (1_000, 10_000, 100_000)
QUICK_LENGTHS = (100, 1_000)
CHUNKS = 20_000
EXPONENT = at_most("exponent of one stream's time", "", 1.1)
FLOOR, PIPELINE = "floor: model and append", "pipeline alone"
SILENT, UNREAD = "engine, no channels", "engine, channels unread"
THREADS, TASKS = "engine, a thread reads each", "engine, tasks on a thread read"
Channels = Sequence[StreamChannel]


class Instant:
    """A model that gives every slot the same bursts, made in advance."""

    def __init__(self, bursts: Sequence[Sequence[int]]) -> None:
        self._bursts = [Burst(tuple(burst)) for burst in bursts]

    def decode(self, slots: Sequence[SlotView]) -> list[Burst]:
        """Return the next burst of each slot."""
        bursts = self._bursts
        return [bursts[slot.step] for slot in slots]

    prefill = decode

    def release(self, slot: SlotView) -> None:
        """Do nothing: nothing is kept."""


def work(report: Report) -> None:
    """Measure tokens, replies, lengths, then channels."""
    vocabulary, inner = next(iter(vocabularies.available(quick=report.quick).items()))
    tokenizer = HuggingFaceTokenizer.from_tokenizer(inner)
    for slots, count in SHAPES.items():
        ids = vocabularies.ids(inner, "ascii", count // (100 if report.quick else 1) or 2)
        _tokens(report, f"{vocabulary}: {slots} x {len(ids):,} ids", tokenizer, slots, ids)
    engine_replies.work(report, vocabulary, tokenizer, inner)
    ids = vocabularies.ids(inner, "ascii", (QUICK_LENGTHS if report.quick else LENGTHS)[-1])
    _growth(report, vocabulary, tokenizer, ids)
    _channels(report)
    _joining(report)


def _tokens(report: Report, title: str, tokenizer: Tokenizer, slots: int, ids: list[int]) -> None:
    engine = partial(_engine_run, tokenizer, slots, ids)
    runs: dict[str, Work] = {
        FLOOR: lambda: _floor(slots, ids),
        PIPELINE: lambda: _pipeline(tokenizer, slots, ids),
        SILENT: lambda: engine(None),
        UNREAD: lambda: engine(_unread),
        THREADS: lambda: engine(_by_threads),
        TASKS: lambda: engine(_by_tasks),
    }
    times = interleaved(runs, report.repeats)
    tokens = slots * len(ids)
    each = {name: taken / tokens * 1e9 for name, taken in times.items()}
    rows = [
        [name, ns, ns - each[PIPELINE] if name.startswith("engine") else None, ns / each[PIPELINE]]
        for name, ns in each.items()
    ]
    report.table(title, ["", "ns a token", "more than the pipeline", "multiple of it"], rows)


def _floor(slots: int, ids: list[int]) -> None:
    model = Instant([(token_id,) for token_id in ids])
    views = [SlotView(str(slot), 0, PROMPT, SamplingParams()) for slot in range(slots)]
    for _ in ids:
        for view, burst in zip(views, model.decode(views), strict=True):
            view.step += 1
            view.output_token_ids.extend(burst.token_ids)


def _pipeline(tokenizer: Tokenizer, slots: int, ids: list[int]) -> None:
    steps = [(token_id,) for token_id in ids]
    feeds = [TextPipeline(tokenizer, prompt_token_ids=PROMPT).feed for _ in range(slots)]
    for step in steps:
        for feed in feeds:
            feed(step)


def _engine_run(
    tokenizer: Tokenizer,
    slots: int,
    ids: list[int],
    read: Callable[[Engine, Channels], None] | None,
) -> None:
    """Run a request for each slot to its end; `read` steps the engine and reads."""
    engine = Engine(
        Instant([(token_id,) for token_id in ids]),
        tokenizer,
        max_num_seqs=slots,
        num_blocks=slots * (len(ids) // 16 + 2),
    )
    params = SamplingParams(max_tokens=len(ids), ignore_eos=True)
    channels = [StreamChannel.create() for _ in range(slots)] if read else []
    handles = engine.submit([Request(PROMPT, params) for _ in range(slots)], channels)
    if read is None:
        engine.run_until_idle(None)
    else:
        read(engine, channels)
    assert all(handle.result(0).outputs[0].token_ids == tuple(ids) for handle in handles)


def _unread(engine: Engine, channels: Channels) -> None:
    engine.run_until_idle(None)
    for channel in channels:
        _drain(channel)


def _drain(channel: StreamChannel) -> None:
    while not (chunk := channel.try_pop()) or not chunk.finished:
        pass


def _by_threads(engine: Engine, channels: Channels) -> None:
    threads = [
        threading.Thread(target=channel.consume, args=(lambda chunk: None,)) for channel in channels
    ]
    _while_they_run(engine, threads)


def _by_tasks(engine: Engine, channels: Channels) -> None:
    async def read(channel: StreamChannel) -> None:
        async for _ in read_together([channel]):
            pass

    async def everything() -> None:
        await asyncio.gather(*map(read, channels))

    _while_they_run(engine, [threading.Thread(target=lambda: asyncio.run(everything()))])


def _while_they_run(engine: Engine, threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    engine.run_until_idle(None)
    for thread in threads:
        thread.join()


def _growth(report: Report, vocabulary: str, tokenizer: Tokenizer, ids: list[int]) -> None:
    """Measure the time per token of one long stream."""
    lengths = QUICK_LENGTHS if report.quick else LENGTHS
    rows = []
    ways = {SILENT: None, UNREAD: _unread, TASKS: _by_tasks}
    for name, read in ways.items():
        runs: dict[str, Work] = {
            str(length): partial(_engine_run, tokenizer, 1, ids[:length], read)
            for length in lengths
        }
        taken = list(interleaved(runs, min(report.repeats, 3)).values())
        slope = exponent(lengths, taken)
        each = [seconds / n * 1e9 for seconds, n in zip(taken, lengths, strict=True)]
        rows.append([name, *each, slope])
        report.judge(EXPONENT, slope, name)
    header = ["", *map("{:,} ids".format, lengths), "exponent"]
    report.table(f"{vocabulary}: one stream (ns a token)", header, rows)


def _channels(report: Report) -> None:
    """A chunk in and out: in turns on one thread, from thread to thread, and into asyncio."""
    count = CHUNKS // (100 if report.quick else 1)
    chunks = [StreamChunk((number,), "text") for number in range(count - 1)]
    chunks.append(StreamChunk(finished=True, reason=FinishReason.LENGTH))
    runs: dict[str, dict[str, Work]] = {
        "by turns, one thread": {
            "channel": partial(_turns_channel, chunks),
            "queue.Queue": partial(_turns_queue, queue.Queue, chunks),
            "queue.SimpleQueue": partial(_turns_queue, queue.SimpleQueue, chunks),
        },
        "thread to thread": {
            "channel": partial(_across_channel, chunks),
            "queue.Queue": partial(_across_queue, queue.Queue, chunks),
            "queue.SimpleQueue": partial(_across_queue, queue.SimpleQueue, chunks),
        },
        "thread to asyncio": {
            "channel": partial(_async_channel, chunks, together=True),
            "channel, async for": partial(_async_channel, chunks, together=False),
            "asyncio.Queue": partial(_async_queue, chunks),
        },
    }
    rows = []
    for where, contenders in runs.items():
        times = interleaved(contenders, report.repeats)
        for name, taken in times.items():
            rows.append([where, name, taken / count * 1e9, taken / times["channel"]])
    header = ["", "", "ns a chunk", "multiple of the channel's"]
    report.table(f"{count:,} chunks in and out", header, rows)


def _unbounded() -> tuple[StreamChannel, Pipe]:
    channel = StreamChannel.create(overflow=OverflowPolicy.UNBOUNDED)
    return channel, attach(channel, 0, SimpleNamespace(thread_id=None))


def _turns_channel(chunks: list[StreamChunk]) -> None:
    channel, pipe = _unbounded()
    for chunk in chunks:
        pipe.push(chunk)
        channel.try_pop()


def _turns_queue(kind: type, chunks: list[StreamChunk]) -> None:
    pipe = kind()
    for chunk in chunks:
        pipe.put(chunk)
        pipe.get_nowait()


def _across_channel(chunks: list[StreamChunk]) -> None:
    channel, pipe = _unbounded()
    _across(lambda: channel.consume(lambda chunk: None), pipe.push, chunks)


def _across_queue(kind: type, chunks: list[StreamChunk]) -> None:
    pipe = kind()

    def read() -> None:
        while not pipe.get().finished:
            pass

    _across(read, pipe.put, chunks)


def _across(
    read: Callable[[], object], write: Callable[[StreamChunk], object], chunks: list[StreamChunk]
) -> None:
    """Write the chunks on this thread, while another reads."""
    thread = threading.Thread(target=read)
    thread.start()
    for chunk in chunks:
        write(chunk)
    thread.join()


def _async_channel(chunks: list[StreamChunk], *, together: bool) -> None:
    channel, pipe = _unbounded()

    async def read() -> None:
        if together:
            async for _ in read_together([channel]):
                pass
        else:
            async for _ in channel:
                pass

    _across(lambda: asyncio.run(read()), pipe.push, chunks)


def _async_queue(chunks: list[StreamChunk]) -> None:
    """The usual way from a thread into an event loop: one call into the loop for each item."""

    async def everything() -> None:
        pipe: asyncio.Queue[StreamChunk] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def write() -> None:
            for chunk in chunks:
                loop.call_soon_threadsafe(pipe.put_nowait, chunk)

        writing = loop.run_in_executor(None, write)
        while not (await pipe.get()).finished:
            pass
        await writing

    asyncio.run(everything())


def _joining(report: Report) -> None:
    """What a chunk costs that finds room, and one that is joined to the last chunk."""
    count = CHUNKS // (100 if report.quick else 1)
    chunks = [StreamChunk((number,), "text") for number in range(count)]

    def push(most: int | None) -> None:
        channel = StreamChannel.create(max_pending=most)
        pipe = attach(channel, 0, SimpleNamespace(thread_id=None))
        for chunk in chunks:
            pipe.push(chunk)
        while channel.try_pop():
            pass

    runs: dict[str, Work] = {
        "room for all": partial(push, None),
        "256 wait, the rest is joined": partial(push, 256),
        "all joined": partial(push, 1),
    }
    times = interleaved(runs, report.repeats)
    rows = [[name, taken / count * 1e9] for name, taken in times.items()]
    report.table(f"{count:,} chunks pushed, then read", ["", "ns a chunk"], rows)


if __name__ == "__main__":
    main(work, name="engine", about=__doc__)
