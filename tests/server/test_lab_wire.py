"""A lab's channel and frames between engine and client: nothing is lost on the way, whatever the
reader does, and code that goes wrong ends its own stream."""

import asyncio
import json
import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import pytest
from running import Says, asking, running, tool
from wire_client import read_events

from labkit.course.lab import ROLES, ROOT, TEXT_PATH, find_labs
from labkit.running.lab_impl import Implementation
from labkit.serving import engine_layers
from labkit.serving.composed import Composed, Part, find_composed
from labkit.serving.lab_channel import LabChannels
from labkit.serving.lab_frames import LabFramesFactory
from labkit.serving.lab_path import LabPathFactory, PipelineRaised
from labkit.serving.layers import Maker
from labkit.serving.serve import wire_of
from mini_vllm.engine import (
    FinishReason,
    Request,
    SamplingParams,
    StreamChannel,
    StreamChunk,
    TextPathFactory,
)
from mini_vllm.engine.channel import attach
from mini_vllm.models.spelled import Speller
from mini_vllm.server.service import Wire
from mini_vllm.server.wire.sse import DONE
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Chunk,
    Malformed,
    ReasoningDelta,
    TextDelta,
)
from mini_vllm.tokenizer import ByteTokenizer, create_tokenizer

PARTS = find_composed(ROOT, "solution").parts


class Channel:
    """As a lab has it, in the simplest way: one loop, and past `max_pending` the last one grows."""

    def __init__(self, max_pending):
        self.most = max_pending
        self.chunks = []
        self.news = asyncio.Event()
        self.cancelled = False

    def push(self, chunk):
        if self.cancelled:
            return False
        if len(self.chunks) < self.most:
            self.chunks.append(chunk)
        else:
            last = self.chunks[-1]
            self.chunks[-1] = Chunk(last.text + chunk.text, last.token_ids + chunk.token_ids)
        self.news.set()
        return True

    def finish(self, reason):
        self.chunks.append(Chunk("", (), reason))
        self.news.set()
        return True

    def reader(self):
        return self

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        self.cancelled = True

    def __aiter__(self):
        return self

    async def __anext__(self):
        while not self.chunks:
            self.news.clear()
            await self.news.wait()
        return self.chunks.pop(0)


class Frames:
    """As a lab has it, in the simplest way: each call is a frame of its own."""

    def __init__(self, **head):
        self.head = head

    def start(self):
        return self.told("start")

    def feed(self, event):
        return self.told("feed", event)

    def finish(self, reason, usage):
        return self.told("finish", reason, usage) + DONE

    def error(self, message):
        return self.told("error", message) + DONE

    def told(self, method, *values):
        said = {method: [str(value) for value in values], **self.head, "choices": []}
        return f"data: {json.dumps(said)}\n\n".encode()


def maker(made):
    """Makes an object of a class, as labs' layers are made."""
    return SimpleNamespace(make=lambda role, values: made(**values))


CHUNKS = [
    StreamChunk((1,), "a\u2028b\n", held={"tokens": b"\xf0", "stops": "x"}),
    StreamChunk((2, 3), "", events=(ReasoningDelta("hm"), CallStart(0, None, "f\ud800"))),
    StreamChunk((), "", events=(ArgsDelta(0, '{"é": 1}'), CallEnd(0), Malformed(1, "<", "why"))),
    StreamChunk((4,), "", held={"tokens": b"", "stops": ""}),
    StreamChunk((5,), "z", finished=True, reason=FinishReason.STOP_WORDS, stop_reason="END"),
]


def crossed(read, chunks=CHUNKS):
    """Return what comes out of the channel of a lab, and the engine's channel before it."""

    async def cross():
        channel = StreamChannel.create()
        pipe = attach(channel, 0, SimpleNamespace(thread_id=None))
        for chunk in chunks:
            pipe.push(chunk)
        found = []
        async for batch in read([channel]):
            found += [chunk for _, chunk in batch]
        return found, channel

    return asyncio.run(cross())


def events_of(chunks):
    return [event for chunk in chunks for event in chunk.all_events]


@pytest.mark.parametrize("most", [1, 2, 99])
def test_everything_comes_through_a_channel_however_much_it_joins(most):
    found, channel = crossed(LabChannels(maker(lambda max_pending: Channel(most))))
    assert events_of(found) == events_of(CHUNKS)
    assert [one for chunk in found for one in chunk.token_ids] == [1, 2, 3, 4, 5]
    assert [chunk.finished for chunk in found] == [False] * (len(found) - 1) + [True]
    assert (found[-1].reason, found[-1].stop_reason) == (FinishReason.STOP_WORDS, "END")
    held = [chunk.held for chunk in found if chunk.held]
    assert {**held[-1], "channel": ""} == {"tokens": b"", "stops": "", "channel": ""}
    assert len(found) == (2 if most == 1 else 3 if most == 2 else 6)
    assert not channel.is_cancelled


@pytest.mark.parametrize("most", [1, 2, 99])
def test_each_id_keeps_its_logprobs_through_a_channel(most):
    chunks = [
        StreamChunk((1,), "a", logprobs=({1: -1.0},)),
        StreamChunk((2, 3), "", logprobs=({2: -2.0}, {3: -3.0})),
        StreamChunk((), "b"),
        StreamChunk((4,), "c", logprobs=({4: -4.0},), finished=True, reason=FinishReason.END_ID),
    ]
    found, _ = crossed(LabChannels(maker(lambda max_pending: Channel(most))), chunks)
    for chunk in found:
        assert [*map(dict, chunk.logprobs)] == [{one: -float(one)} for one in chunk.token_ids]
    assert sum(len(chunk.logprobs) for chunk in found) == 4


def test_what_waits_in_the_channel_is_told():
    found, _ = crossed(LabChannels(maker(Channel)))
    assert [chunk.held["channel"] for chunk in found if chunk.held] == ["z", "z"]


def broken(**methods):
    """A channel of which some methods are others."""
    return type("Broken", (Channel,), methods)


def _raises(*arguments, **options):
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (_raises, "mine"),
        (broken(push=_raises), "mine"),
        (broken(finish=_raises), "mine"),
        (broken(reader=_raises), "mine"),
        (broken(finish=lambda self, reason: self.chunks.append(None)), "AttributeError"),
        (broken(finish=lambda self, reason: self.chunks.append(Chunk("", (), "odd"))), "ODD"),
        (broken(__anext__=lambda self: _stop()), "ended without a terminal chunk"),
    ],
    ids=["makes", "push", "finish", "reader", "no chunk", "a reason", "ends"],
)
def test_a_channel_that_goes_wrong_ends_its_stream(made, said, caplog):
    with pytest.raises(PipelineRaised, match=said):
        crossed(LabChannels(maker(made)))
    assert "the pipeline raised" in caplog.text


async def _stop():
    raise StopAsyncIteration


def test_a_channel_that_loses_the_end_is_given_up(monkeypatch):
    monkeypatch.setattr("labkit.serving.lab_channel._PATIENCE", 0.0)
    with pytest.raises(PipelineRaised, match="does not return its terminal chunk"):
        crossed(LabChannels(maker(broken(finish=lambda self, reason: None))))


def test_a_reader_that_leaves_cancels_both_channels():
    made = []

    async def leave():
        channel = StreamChannel.create()
        pipe = attach(channel, 0, SimpleNamespace(thread_id=None))
        pipe.push(CHUNKS[0])
        read = LabChannels(maker(lambda max_pending: made.append(Channel(9)) or made[0]))
        batches = read([channel])
        await anext(batches)
        await batches.aclose()
        return channel

    assert asyncio.run(leave()).is_cancelled
    assert made[0].cancelled


TEXT = "I shall look. <tool_call>\n" + json.dumps({"name": "f", "arguments": {"a": "é"}})
SAYS = {"call": TEXT + "\n</tool_call>", "plain": "Hello 🚀."}


@pytest.fixture(scope="module")
def server():
    """A server whose frames are made by the class that its `frames` is at the time."""
    wire = Wire(chat_stream=LabFramesFactory(maker(lambda **head: server.frames(**head))))
    with running(Says(**SAYS), wire=wire) as server:
        server.frames = Frames
        yield server


def test_a_labs_frames_get_each_event_and_the_end(server):
    body = asking("plain", stream=True, stream_options={"include_usage": True})
    first, *events, last = read_events(server.chat(body).body)
    assert first["start"] == []
    assert {"id", "created", "model", "include_usage"} <= set(first)
    assert "".join(one["feed"][0] for one in events).count("TextDelta") == len("Hello 🚀.")
    reason, usage = last["finish"]
    assert reason == "stop"
    assert "'completion_tokens': 12" in usage
    told = asking("call", tools=[tool("f")], stream=True)
    *_, last = read_events(server.chat(told).body)
    assert last["finish"][0] == "tool_calls"


def test_the_page_hears_of_layers_between_a_labs_frames(server):
    events = read_events(server.chat(asking("plain", stream=True, return_held=True)).body)
    reports = [event["mini_vllm"] for event in events if "mini_vllm" in event]
    ids = [one for report in reports for one in report["token_ids"]]
    assert ids == [*SAYS["plain"].encode(), 257]
    assert all(report["held"]["frames"] == "" for report in reports)
    assert events[1]["mini_vllm"]["token_ids"] == [ord("H")]
    assert events[2]["feed"] == ["TextDelta(text='H')"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"n": 2}, "n is 2; the labs' frames do not have it"),
        ({"logprobs": True}, "logprobs is 0"),
        ({"return_token_ids": True}, "return_token_ids is True"),
        (
            {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
            "stream_options.continuous_usage_stats is True",
        ),
    ],
)
def test_what_a_labs_frames_lack_is_refused_by_its_name(server, fields, said):
    answer = server.chat(asking("plain", stream=True, **fields))
    assert answer.status == 400
    assert said in answer.error["message"]


def test_two_calls_in_a_labs_frames_have_two_ids(server):
    told = asking("call", tools=[tool("f")], stream=True)
    starts = [
        event["feed"][0]
        for _ in range(2)
        for event in read_events(server.chat(told).body)
        if "CallStart" in event.get("feed", [""])[0]
    ]
    assert len({re.search("id='(call_[0-9a-f]{24})'", start)[1] for start in starts}) == 2


def test_a_whole_answer_has_the_stop_only_if_a_stream_has_it():
    wire = wire_of(find_composed(ROOT, "solution"))
    for given, stop in ((wire, None), (Wire(), "o")):
        with running(Says(**SAYS), wire=given) as server:
            told = asking("plain", stop="o")
            [choice] = server.chat(told).json()["choices"]
            *_, last = read_events(server.chat({**told, "stream": True}).body)
            assert choice["stop_reason"] == last["choices"][0].get("stop_reason") == stop


@pytest.mark.parametrize("method", ["start", "feed", "finish"])
@pytest.mark.parametrize("answer", [_raises, lambda *told: "text"], ids=["raises", "no bytes"])
def test_frames_that_go_wrong_end_their_stream_with_an_error(
    server, method, answer, caplog, monkeypatch
):
    made = type("Wrong", (Frames,), {method: answer})
    monkeypatch.setattr(server, "frames", made)
    *_, last = read_events(server.chat(asking("plain", stream=True)).body)
    assert "error" in last, last
    made.error = _raises  # The end is then the server's own.
    *_, last = read_events(server.chat(asking("plain", stream=True)).body)
    assert last["error"]["type"] == "server_error"
    assert server.chat(asking("plain")).status == 200
    assert "the pipeline raised" in caplog.text


SCRIPT = """<think>
Two cities: Paris and 東京.
</think>
Both. <tool_call>
{"name": "w", "arguments": {"city": "Paris", "note": "caf\\u00e9 }"}}
</tool_call><tool_call>
{"name": "w", "arguments": {"city": "東京 🗼"}}
</tool_call>"""


ROWS = {
    f"{lab.label} {serves.role}": Part(lab, serves, Implementation("solution", lab.solution))
    for lab in find_labs(ROOT)
    for serves in lab.serves
} | {
    # The engine's own layers, each among those of labs, then all of them together.
    f"engine {role}": replace(PARTS[role], serves=engine_layers.row(role), implementation=None)
    for role in TEXT_PATH
}
ENGINE = {role: ROWS[f"engine {role}"] for role in TEXT_PATH}


@cache
def vocabulary(path):
    return create_tokenizer(path)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("stop", [(), ("Both",)], ids=["to the end", "a stop"])
def test_each_row_of_a_lab_serves(row, stop):
    part = ROWS[row]
    composed = Composed({**PARTS, part.serves.role: part})
    if part.serves.role == "channel":
        channels = LabChannels(Maker(composed, {}))
        assert events_of(crossed(channels)[0]) == events_of(CHUNKS)
        return
    tokenizer = vocabulary(composed.vocabulary) if composed.vocabulary else ByteTokenizer()
    compare(composed, tokenizer, SamplingParams(stop=stop, max_tokens=500))


OF_TEXT = [
    "",
    *(row for row in ROWS if not row.startswith("engine") and ROWS[row].serves.role in TEXT_PATH),
]


@pytest.mark.parametrize("row", OF_TEXT)
@pytest.mark.parametrize("stop", [(), ("Both",)], ids=["to the end", "a stop"])
def test_among_the_engines_layers_no_or_any_one_layer_of_a_lab_serves(row, stop):
    """So it is as soon as one lab passes; `""` is before that."""
    composed = Composed({**ENGINE, **({ROWS[row].serves.role: ROWS[row]} if row else {})})
    tokenizer = vocabulary(composed.vocabulary) if composed.vocabulary else ByteTokenizer()
    compare(composed, tokenizer, SamplingParams(stop=stop, max_tokens=500))
    # An open call is text in lab 01, and a call that is cut off in the engine.
    if row != "lab-01 calls":
        compare(composed, tokenizer, SamplingParams(stop=stop, max_tokens=500), cut=30)


def compare(composed, tokenizer, params, cut=0):
    """Compare what the labs make of the script's ids with what the engine's pipeline makes of them.

    Among them are a special id and one that the vocabulary does not have. Without the last `cut`
    ids the text ends by its length.
    """
    speller = Speller(tokenizer)
    special = min(tokenizer.pieces.special - tokenizer.eos_token_ids)
    prompt, ids = tuple(speller.ids("Look.")), [*speller.ids(SCRIPT)]
    ids[20:20] = [special, tokenizer.vocab_size + 5]
    ids += tokenizer.eos_token_ids
    request = Request(prompt, params, tools=(tool("w"),))
    ours = TextPathFactory(tokenizer, tool_format="hermes", reasoning_format="qwen3")
    paths = [make(request, prompt) for make in (ours, LabPathFactory(composed, tokenizer))]
    events = [path.feed(ids[: len(ids) - cut]) for path in paths]
    for path, more in zip(paths, events, strict=True):
        more += path.finish(FinishReason.LENGTH) if path.ending is None else []
    said = [*map(told_by, events)]
    assert said[1] == said[0]
    assert (paths[1].ending, paths[1].tokens) == (paths[0].ending, paths[0].tokens)


SHOWN = {"include_stop_str_in_output": True}


@pytest.mark.parametrize(
    "options",
    [
        {"stop": ("Both",), **SHOWN},
        {"stop": ("T", "Both", "w"), "min_tokens": 8},
        {"stop": ("T", "Both", "w"), "min_tokens": 24, **SHOWN},
        {"stop_token_ids": "Both"},
        {"stop_token_ids": "Both", **SHOWN},
        {"stop_token_ids": "Two", "min_tokens": 30},
        {"ignore_eos": True},
        {"skip_special_tokens": False},
    ],
    ids=str,
)
def test_options_that_only_later_labs_build_do_what_the_engine_does(options):
    composed = Composed(PARTS)
    tokenizer = vocabulary(composed.vocabulary)
    if word := options.get("stop_token_ids"):
        options = {**options, "stop_token_ids": frozenset(Speller(tokenizer).ids(word))}
    compare(composed, tokenizer, SamplingParams(max_tokens=500, **options))


def told_by(events):
    """Return what events add up to: texts by kind, calls by index, and which of them are whole."""
    said = {"text": "", "reasoning": "", "calls": {}, "whole": set()}
    for event in events:
        match event:
            case TextDelta(text):
                said["text"] += text
            case ReasoningDelta(text):
                said["reasoning"] += text
            case CallStart(index, _, name):
                said["calls"][index] = name, ""
            case ArgsDelta(index, text):
                name, before = said["calls"][index]
                said["calls"][index] = name, before + text
            case CallEnd(index):
                said["whole"].add(index)
            case Malformed(_, raw, _):
                said["text"] += raw
    return said


def test_the_later_of_two_labs_serves():
    served = {role: part.lab.number for role, part in PARTS.items()}
    assert served == {
        "tokens": "07", "stops": "08", "reasoning": "09", "calls": "09", "pipeline": "05",
        "channel": "10", "frames": "11",
    }  # fmt: skip


@pytest.fixture(scope="module")
def both():
    """The engine's own way to the client, and that of all the labs."""
    labs = {
        "make_text_path": LabPathFactory(Composed(PARTS)),
        "wire": wire_of(Composed(PARTS)),
    }
    with (
        running(Says(all=SCRIPT), reasoning_format="qwen3") as engine,
        running(Says(all=SCRIPT), **labs) as served,
    ):
        yield engine, served


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("stop", [[], ["東京 🗼"], ["Two"]])
def test_all_the_labs_together_say_what_the_engine_says(both, held, stop):
    body = asking("all", tools=[tool("w")], stream=True, stop=stop, max_tokens=500)
    told = [server.chat({**body, "return_held": held}).body for server in both]
    ours, theirs = (added_up(read_events(one)) for one in told)
    assert theirs == ours
    if held:
        reports = [one for one in read_events(told[1]) if "mini_vllm" in one]
        assert tuple(reports[0]["mini_vllm"]["held"]) == ROLES
    if not stop:
        assert theirs["finish_reason"] == "tool_calls"
        assert told[1].count(b'"arguments"') > 50, "arguments arrive in parts"


def added_up(events):
    """Return what a client adds up; calls without their ids, which each server chooses."""
    choice = {"content": "", "reasoning_content": "", "calls": {}, "finish_reason": None}
    for news in (choice for event in events for choice in event["choices"]):
        delta = news["delta"]
        for name in ("content", "reasoning_content"):
            choice[name] += delta.get(name, "")
        for call in delta.get("tool_calls", ()):
            name, arguments = choice["calls"].get(call["index"], ("", ""))
            function = call["function"]
            choice["calls"][call["index"]] = (
                name + function.get("name", ""),
                arguments + function.get("arguments", ""),
            )
        choice["finish_reason"] = choice["finish_reason"] or news["finish_reason"]
    return choice
