"""A streamed chat, read by a client that adds up as OpenAI's does, and the same chat whole."""

import json
import random
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_client import message_of, read_chat, read_events

from mini_vllm.engine import (
    CompletionOutput,
    FinishReason,
    LogprobEntry,
    StreamChunk,
    TokenLogprobs,
)
from mini_vllm.pipeline import TextPipeline
from mini_vllm.server.wire.api_errors import encode_line
from mini_vllm.server.wire.chat_delta import MessageFold
from mini_vllm.server.wire.chat_stream import add_up, chat_response, chat_stream
from mini_vllm.server.wire.sse import StreamHead
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)  # fmt: skip
from mini_vllm.text.reasoning import create_reasoning_splitter
from mini_vllm.text.tool_parsers import create_tool_parser
from mini_vllm.tokenizer import ByteTokenizer

END = {"finished": True, "reason": FinishReason.END_ID}
CALL = (CallStart(0, None, "f"), ArgsDelta(0, '{"a"'), ArgsDelta(0, ": 1}"), CallEnd(0))
SECOND = (CallStart(1, None, "g"), ArgsDelta(1, "{}"), CallEnd(1))
OWN_ID = (CallStart(0, "functions.f:0", "f"), ArgsDelta(0, "{}"), CallEnd(0))
JUNK = Malformed(0, "x", "why")


def head(**options):
    return StreamHead(id="chatcmpl-1", created=7, model="mini", **options)


def new_ids():
    numbers = count()
    return lambda: f"call_{next(numbers)}"


def stream(*chunks, options=None, **head_options):
    """All bytes of a stream with one choice."""
    chat = chat_stream(head(**head_options), new_id=new_ids(), **(options or {}))
    return chat.start() + b"".join(chat.feed(0, chunk) for chunk in chunks) + chat.end()


def read_one(*chunks, options=None):
    choices, _ = read_chat(stream(*chunks, options=options))
    return choices[0]


def events_chunk(*events, **rest):
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return StreamChunk(text=text, events=events, **rest)


def deltas_of(data):
    return [e["choices"][0]["delta"] for e in read_events(data) if e.get("choices")]


def test_chunk_by_chunk():
    data = stream(StreamChunk((5,), "Hi"), StreamChunk((6,), "", **END), include_usage=True)
    same = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "mini"}

    def event(delta, **rest):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **rest}
        return {**same, "choices": [choice], "usage": None}

    usage = {"prompt_tokens": 0, "completion_tokens": 2, "total_tokens": 2}
    assert read_events(data) == [
        event({"role": "assistant", "content": ""}),
        event({"content": "Hi"}),
        event({}, finish_reason="stop", stop_reason=None),
        {**same, "choices": [], "usage": usage},
    ]


def test_a_call_opens_with_empty_arguments_and_goes_on_without_a_name():
    data = stream(events_chunk(*CALL, **END))
    assert deltas_of(data)[1:] == [
        {"tool_calls": [{"index": 0, "id": "call_0", "type": "function",
                         "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a": 1}'}}]},
        {},
    ]  # fmt: skip


def test_one_event_has_one_kind_of_news():
    kinds = (ReasoningDelta, ReasoningDelta, TextDelta, TextDelta)
    news = [*(kind(text) for kind, text in zip(kinds, "abcd", strict=True)), *CALL, *SECOND]
    data = stream(events_chunk(*news, TextDelta("e"), **END))
    kinds = [next(iter(delta), None) for delta in deltas_of(data)]
    calls = ["tool_calls"] * 4
    assert kinds == ["role", "reasoning_content", "content", *calls, "content", None]
    choice = read_chat(data)[0][0]
    assert (choice["reasoning_content"], choice["content"]) == ("ab", "cde")
    assert [call["arguments"] for call in choice["calls"]] == ['{"a": 1}', "{}"]


@pytest.mark.parametrize(
    ("events", "options", "calls", "content"),
    [
        ((*OWN_ID, CallStart(1, "", "f"), *SECOND[1:]), {},
         [("functions.f:0", "f", "{}"), ("call_0", "f", "{}")], ""),
        ((TextDelta("a"), *CALL[:2], Malformed(0, " oops</tool_call>", "why")), {},
         [("call_0", "f", '{"a"')], "a oops</tool_call>"),
        ((CallStart(0, "\udc00", "\ud800x"), CallEnd(0)), {}, [("\ufffd", "\ufffdx", "")], ""),
        ((CALL[0], JUNK, *SECOND), {}, [("call_0", "f", ""), ("call_1", "g", "{}")], "x"),
        ((*CALL, SECOND[0], ArgsDelta(1, "{"), Malformed(1, "x", "why"), TextDelta("after")),
         {"parallel_tool_calls": False}, [("call_0", "f", '{"a": 1}')], "after"),
    ],
    ids=["own ids", "rest of a malformed call", "no UTF-8", "beside malformed", "not parallel"],
)  # fmt: skip
def test_calls_and_content_are_told_whole(events, options, calls, content):
    choice = read_one(events_chunk(*events, **END), options=options)
    assert [(call["id"], call["name"], call["arguments"]) for call in choice["calls"]] == calls
    assert choice["content"] == content


def test_new_ids_are_call_and_24_digits_each_its_own():
    found = set()
    for _ in range(50):
        chat = chat_stream(head())
        data = chat.start() + chat.feed(0, events_chunk(*CALL, **END)) + chat.end()
        found.add(read_chat(data)[0][0]["calls"][0]["id"])
    assert len(found) == 50
    assert all(len(one) == 29 and int(one.removeprefix("call_"), 16) >= 0 for one in found)


@pytest.mark.parametrize(
    ("reason", "events", "options", "expected"),
    [
        (FinishReason.END_ID, CALL, {}, "tool_calls"),
        (FinishReason.STOP_WORDS, CALL, {}, "tool_calls"),
        (FinishReason.END_ID, CALL, {"named_function": True}, "stop"),
        (FinishReason.END_ID, CALL, {"parallel_tool_calls": False}, "tool_calls"),
        (FinishReason.LENGTH, CALL, {}, "length"),
        (FinishReason.LENGTH, CALL[:2], {}, "length"),
        (FinishReason.END_ID, CALL[:2], {}, "stop"),
        (FinishReason.END_ID, (*CALL[:2], JUNK), {}, "stop"),
        (FinishReason.END_ID, (CALL[0], JUNK, *SECOND), {}, "tool_calls"),
        (FinishReason.END_ID, (TextDelta("a"),), {}, "stop"),
        (FinishReason.LENGTH, (TextDelta("a"),), {"named_function": True}, "length"),
    ],
)
def test_tool_calls_is_why_only_after_a_whole_call_and_a_normal_end(
    reason, events, options, expected
):
    end = {"finished": True, "reason": reason}
    assert read_one(events_chunk(*events, **end), options=options)["finish_reason"] == expected
    # The call may have come long before the end.
    parts = [events_chunk(event) for event in events]
    last = StreamChunk(**end)
    assert read_one(*parts, last, options=options)["finish_reason"] == expected


def test_the_stop_reason_comes_with_the_last_event():
    chunk = StreamChunk((1,), "a", True, FinishReason.STOP_WORDS, stop_reason="END")
    choice = read_one(chunk)
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "END")
    assert read_events(stream(chunk))[1]["choices"][0].keys().isdisjoint({"stop_reason"})


def test_a_chunk_without_news_makes_no_event():
    chat = chat_stream(head())
    chat.start()
    assert chat.feed(0, StreamChunk((1,), "")) == b""
    assert chat.feed(0, events_chunk(CallEnd(0))) == b""


def step(piece, logprob=-0.5, *top):
    return TokenLogprobs(
        LogprobEntry(1, logprob, piece), tuple(LogprobEntry(2, p, b) for b, p in top)
    )


def test_logprobs_have_each_token_once_also_where_its_text_is_held_back():
    data = stream(
        StreamChunk((1,), "", logprobs=(step(b"\xf0\x9f"),)),
        StreamChunk((2,), "🚀", logprobs=(step(b"\x9a\x80", -1.0, (b"a", -0.1)),)),
        StreamChunk((3,), "", logprobs=(step(b"", float("-inf")),)),
        StreamChunk(**END, logprobs=(step(b"!"),), token_ids=(4,)),
    )
    found = read_chat(data)[0][0]["logprobs"]
    assert [entry["bytes"] for entry in found] == [[0xF0, 0x9F], [0x9A, 0x80], [], [33]]
    assert b"".join(bytes(entry["bytes"]) for entry in found).decode() == "🚀!"
    assert found[0]["token"] == "\ufffd"
    assert found[1]["top_logprobs"] == [{"token": "a", "logprob": -0.1, "bytes": [97]}]
    assert [entry["logprob"] for entry in found] == [-0.5, -1.0, -9999.0, -0.5]


def test_token_ids_come_once_where_they_were_asked_for():
    data = stream(
        StreamChunk((1,), ""),
        StreamChunk((2, 3), "a"),
        StreamChunk((4,), "b c", events=(TextDelta("b"), *CALL, TextDelta(" c"))),
        StreamChunk((5,), **END),
        prompt_token_ids=(8, 9),
    )
    assert read_chat(data)[0][0]["token_ids"] == [1, 2, 3, 4, 5]
    asked = [event.get("prompt_token_ids") for event in read_events(data)]
    assert asked == [[8, 9], *[None] * (len(asked) - 1)]
    assert b"token_ids" not in stream(StreamChunk((1,), "a"), StreamChunk(**END))


def test_what_is_held_is_told_with_every_chunk_if_it_was_asked_for():
    data = stream(
        StreamChunk((0xF0, 0x9F), "", held={"tokens": b"\xf0\x9f", "stops": ""}),
        StreamChunk((0x9A, 0x80), "", held={"tokens": b"", "stops": "🚀"}),
        StreamChunk((1,), "b c", events=(TextDelta("b"), *CALL, TextDelta(" c")), held={}),
        StreamChunk(**END, held={}),
        naive=lambda ids: bytes(ids).decode(errors="replace"),
    )
    reports = [event.get("mini_vllm") for event in read_events(data)]
    assert reports[:3] == [
        None,
        {"token_ids": [0xF0, 0x9F], "naive": "\ufffd",
         "held": {"tokens": [0xF0, 0x9F], "stops": ""}},
        {"token_ids": [0x9A, 0x80], "naive": "\ufffd\ufffd",
         "held": {"tokens": [], "stops": "🚀"}},
    ]  # fmt: skip
    assert deltas_of(data)[1:3] == [{}, {}]
    told = [one for report in reports[1:] for one in report["token_ids"]]
    assert told == [0xF0, 0x9F, 0x9A, 0x80, 1]
    silent = StreamChunk((1,), "a", held={"stop": "x"})
    assert b"mini_vllm" not in stream(silent, StreamChunk(**END))


def whole(*outputs, head_options=None, **options):
    response = chat_response(head(**(head_options or {})), outputs, new_id=new_ids(), **options)
    return json.loads(encode_line(response))


def output(events=(), text="", reason=FinishReason.END_ID, **rest):
    rest = {"request_id": "r", "index": 0, "token_ids": (1, 2), **rest}
    events = tuple(events) or (TextDelta(text),)
    return CompletionOutput(text=text, finish_reason=reason, events=events, **rest)


def test_a_whole_chat():
    body = whole(output(text="Hi"), output(text="Ho", index=1), head_options={"prompt_tokens": 3})
    message = {"role": "assistant", "content": "Hi"}
    assert body["choices"][0] == {
        "index": 0, "message": message, "logprobs": None, "finish_reason": "stop",
        "stop_reason": None,
    }  # fmt: skip
    assert body["object"] == "chat.completion"
    assert body["choices"][1]["index"] == 1
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


def test_deltas_add_up_however_the_events_came():
    fold = MessageFold(new_id=new_ids())
    message = add_up(
        delta for event in (TextDelta("a"), *CALL) for delta in fold.feed([event], finished=False)
    )
    assert message.content == "a"
    assert [call.function.arguments for call in message.tool_calls] == ['{"a": 1}']


def test_content_is_null_beside_calls_only_and_empty_if_nothing_was_said():
    assert whole(output(CALL))["choices"][0]["message"]["content"] is None
    assert whole(output())["choices"][0]["message"]["content"] == ""
    both = whole(output((TextDelta("a"), *CALL)))["choices"][0]["message"]
    assert both["content"] == "a"
    assert whole(output((ReasoningDelta("a"),)))["choices"][0]["message"] == {
        "role": "assistant", "content": "", "reasoning_content": "a",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("events", "content"),
    [
        ((TextDelta("\n"), TextDelta("\r\n"), *CALL), ""),
        ((TextDelta("Let me see.\n"), TextDelta(" \t\n"), *CALL), "Let me see."),
        ((*CALL, TextDelta("\n"), TextDelta("\n"), *SECOND, TextDelta(" \n")), ""),
        ((*CALL, TextDelta("\n"), TextDelta("\nDone.\n"), TextDelta(" a")), "Done.\n a"),
        ((*CALL, TextDelta("\nDone.")), "Done."),
        ((TextDelta("a\n"), TextDelta("\n"), TextDelta("b ")), "a\n\nb "),
        ((TextDelta("\n"), ReasoningDelta("r"), TextDelta("\n"), *CALL), "\n"),
        ((TextDelta("a\n"), CALL[0], Malformed(0, "\nx\n", "why"), TextDelta("\nb")), "a\nx\n\nb"),
        ((TextDelta("\xa0"), *CALL), "\xa0"),
    ],
)
def test_white_space_beside_calls_is_left_out(events, content):
    strip = {"strip": True}
    parts = [
        StreamChunk(text=event.text) if isinstance(event, TextDelta) else events_chunk(event)
        for event in events
    ]
    assert read_one(events_chunk(*events, **END), options=strip)["content"] == content
    assert read_one(*parts, StreamChunk(**END), options=strip)["content"] == content
    broken = any(isinstance(event, Malformed) for event in events)
    told = whole(output(events), strip=True)["choices"][0]["message"]["content"]
    assert broken or told == (content or None)
    written = "".join(getattr(event, "raw", "") or event.text
                      for event in events if isinstance(event, TextDelta | Malformed))  # fmt: skip
    assert read_one(*parts, StreamChunk(**END))["content"] == written


PIECES = st.lists(
    st.sampled_from(
        [
            "Hello ", "é你🚀", "\u2028\x85\n", "<tool", "</think>", "<think>", "\\ud800",
            '<tool_call>{"name": "f", "arguments": {"a": "b\\n{}"}}</tool_call>',
            '<tool_call>{"arguments": {}, "id": "x", "name": "g\\ud800"}</tool_call>',
            '<tool_call>{"name": "f", "arguments": {"a": 1}} no</tool_call>',
            '<tool_call>{"name": "f", "arguments": {"a": ',
            '<tool_call>{"name": "f"}</tool_call>',
        ]
    )
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    max_size=8,
)  # fmt: skip


def pipeline():
    reasoning, tools = create_reasoning_splitter("qwen3"), create_tool_parser("hermes")
    return TextPipeline(ByteTokenizer(), reasoning=reasoning, tools=tools)


def chunks_of(text, generator, reason):
    """The chunks of a real text path that gets a text in bursts of bytes."""
    path, ids, chunks = pipeline(), text.encode(), []
    while ids:
        size = generator.randint(1, 9)
        burst, ids = tuple(ids[:size]), ids[size:]
        chunks.append(events_chunk(*path.feed(burst), token_ids=burst))
    return [*chunks, events_chunk(*path.finish(reason), finished=True, reason=reason)]


def output_of(text, index, reason):
    """The same text as one answer, which the text path got in one piece."""
    path, ids = pipeline(), tuple(text.encode())
    events = [*path.feed(ids), *path.finish(reason)]
    return output(events, index=index, token_ids=ids, reason=reason)


@given(
    st.tuples(PIECES, PIECES),
    st.integers(0, 2**32),
    st.sampled_from([FinishReason.END_ID, FinishReason.LENGTH]),
    st.booleans(),
    st.booleans(),
)
def test_a_stream_added_up_is_the_whole_chat(texts, seed, reason, parallel, named):
    generator = random.Random(seed)
    texts = ["".join(pieces) for pieces in texts]
    options = {"named_function": named, "parallel_tool_calls": parallel, "new_id": lambda: "call_x"}
    chat = chat_stream(head(choices=2, include_usage=True, prompt_tokens=3), **options)
    waiting = [chunks_of(text, generator, reason) for text in texts]
    data = chat.start()
    while any(waiting):
        index = generator.choice([i for i in (0, 1) if waiting[i]])
        data += chat.feed(index, waiting[index].pop(0))
    choices, usage = read_chat(data + chat.end(), include_usage=True)

    outputs = [output_of(text, index, reason) for index, text in enumerate(texts)]
    answer = chat_response(head(prompt_tokens=3), outputs, **options)
    body = json.loads(encode_line(answer))
    assert usage == body["usage"]
    for index, expected in enumerate(body["choices"]):
        message = expected["message"]
        if any(isinstance(event, Malformed) for event in outputs[index].events):
            continue
        assert message_of(choices[index]) == message
        assert choices[index]["finish_reason"] == expected["finish_reason"]
