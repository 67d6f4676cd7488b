"""Completions, streamed and whole."""

import json

import pytest
from wire_client import read_events

from mini_vllm.engine import (
    CompletionOutput,
    FinishReason,
    LogprobEntry,
    StreamChunk,
    TokenLogprobs,
)
from mini_vllm.server.wire.api_errors import encode_line
from mini_vllm.server.wire.completion_stream import Echo, completion_response, completion_stream
from mini_vllm.server.wire.logprobs import CompletionLogprobsStream
from mini_vllm.server.wire.sse import StreamHead

END = {"finished": True, "reason": FinishReason.LENGTH}


def head(**options):
    return StreamHead(id="cmpl-1", created=7, model="mini", **options)


def stream(*news, **options):
    completion = completion_stream(head(**options))
    frames = [completion.start(), *(completion.feed(*one) for one in news), completion.end()]
    return read_events(b"".join(frames))


def step(piece, logprob, *top):
    return TokenLogprobs(
        LogprobEntry(1, logprob, piece), tuple(LogprobEntry(2, p, b) for b, p in top)
    )


STEPS = (
    step(b"a", -0.5, (b"b", -0.1), (b"a", -0.5)),
    step(b"\xc3", -1.0),
    step(b"\xa9c", -2.0, (b"\xff", -0.2), (b"\xfe", -0.3)),
    step(b"d", float("-inf")),
)
LISTS = {
    "tokens": ["a", "\ufffd", "\ufffdc", "d"],
    "token_logprobs": [-0.5, -1.0, -2.0, -9999.0],
    "top_logprobs": [
        {"b": -0.1, "a": -0.5},
        {"\ufffd": -1.0},
        {"\ufffd": -0.2, "\ufffdc": -2.0},
        {"d": -9999.0},
    ],
    "text_offset": [0, 1, 1, 3],
}


def test_event_by_event():
    events = stream(
        (0, StreamChunk((1,), "Hi")),
        (1, StreamChunk((2,), "Ho")),
        (0, StreamChunk((3,), "!", stop_reason=9, finished=True, reason=FinishReason.END_ID)),
        (1, StreamChunk(**END)),
        choices=2, include_usage=True, prompt_tokens=4,
    )  # fmt: skip

    def choice(index, text, **rest):
        return {"index": index, "text": text, "logprobs": None, "finish_reason": None, **rest}

    assert [event["choices"] for event in events] == [
        [choice(0, "Hi")],
        [choice(1, "Ho")],
        [choice(0, "!")],
        [choice(0, "", finish_reason="stop", stop_reason=9)],
        [choice(1, "", finish_reason="length", stop_reason=None)],
        [],
    ]
    assert {event["object"] for event in events} == {"text_completion"}
    assert [event["usage"] for event in events[:-1]] == [None] * 5
    assert events[-1]["usage"] == {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}


@pytest.mark.parametrize("cuts", [[4], [1, 3], [1, 1, 1, 1], [2, 2]])
def test_logprobs_are_the_same_however_the_stream_is_cut(cuts):
    news, start = [], 0
    for number, size in enumerate(cuts):
        # Every second chunk has no text of its own.
        text = "" if number % 2 else "x"
        logprobs = STEPS[start : start + size]
        news.append((0, StreamChunk((1,) * size, text, logprobs=logprobs)))
        start += size
    events = stream(*news, (0, StreamChunk(**END)))
    parts = [event["choices"][0]["logprobs"] for event in events]
    found = {key: [one for part in parts if part for one in part[key]] for key in LISTS}
    assert found == LISTS


def test_tokens_are_told_by_their_ids_where_that_was_asked_for():
    answer = completion_response(head(tokens_as_ids=True), [output("a", logprobs=STEPS)])
    told = json.loads(encode_line(answer))["choices"][0]["logprobs"]
    assert told["tokens"] == ["token_id:1"] * len(STEPS)
    # Here tokens that look alike are two.
    assert told["top_logprobs"][2] == {"token_id:2": -0.2, "token_id:1": -2.0}
    assert told["text_offset"] == LISTS["text_offset"]


@pytest.mark.parametrize(
    ("prompt", "offsets"),
    [("<s>ab", [0, 3, 3, 4]), ("ab", [0, 0, 0, 1]), ("<s><s>ab", [0, 3, 6, 7])],
)
def test_offsets_are_into_the_text_whatever_special_tokens_it_lacks(prompt, offsets):
    pieces = [(5, b"<s>"), (5, b"<s>"), (7, b"a"), (8, b"b")]
    echo = Echo(prompt, [LogprobEntry(number, -1.0, piece) for number, piece in pieces], {5})
    steps = [
        TokenLogprobs(LogprobEntry(number, -1.0, piece), ())
        for number, piece in ((7, b"a"), (5, b"<s>"), (8, b"b"))
    ]
    end = len(prompt)
    for hidden, later in (({5}, [end, end + 1, end + 1]), (set(), [end, end + 1, end + 4])):
        given = head(hidden_ids=hidden)
        answer = completion_response(given, [output("a", logprobs=steps)], [echo])
        assert answer.choices[0].logprobs.text_offset == offsets + later
        told = completion_stream(given, [echo])
        chunk = StreamChunk((7, 5, 8), "a", logprobs=tuple(steps))
        data = told.start() + told.feed(0, chunk) + told.feed(0, StreamChunk(**END)) + told.end()
        lists = [event["choices"][0]["logprobs"] for event in read_events(data)]
        found = [one for part in lists if part for one in part["text_offset"]]
        assert found == offsets + later


@pytest.mark.parametrize(
    ("prompt", "pieces", "answer", "offsets"),
    [
        ("The end", [b" The", b" end"], [b".", b" A"], [0, 3, 7, 8]),
        ("a</s>b", [b" a", b"</s>", b" b"], [b"c"], [0, 1, 5, 6]),
        (" a", [b" ", b" a"], [b"b"], [0, 1, 2]),
        ("\U0001f680", [b" ", b"\xf0\x9f", b"\x9a\x80"], [b"b"], [0, 0, 0, 1]),
        ("a\u00a0b", [b"a", b" ", b"b"], [b"c"], [0, 1, 2, 3]),
        ("a\ufffd", [b"a", b"\xc3"], [b"\xaf", b"b"], [0, 1, 2, 3]),
        ("a\ufffd", [b"a", b"\xc3"], [b"b", b"c"], [0, 1, 3, 4]),
    ],
    ids=["space", "special", "written", "alone", "other", "half", "broken"],
)
def test_offsets_are_into_the_text_whatever_encoding_added(prompt, pieces, answer, offsets):
    lists = CompletionLogprobsStream()
    entries = [LogprobEntry(int(piece == b"</s>"), -1.0, piece) for piece in pieces]
    found = lists.feed(entries, prompt=prompt, special_ids={1}).text_offset
    found += lists.feed([step(piece, -1.0) for piece in answer]).text_offset
    assert found == offsets


def test_offsets_are_where_characters_begin():
    text = "é你🚀a"
    steps = [step(bytes([byte]), -1.0) for byte in text.encode()]
    offsets = CompletionLogprobsStream().feed(steps).text_offset
    lengths = [len(char.encode()) for char in text]
    assert offsets == [place for place, size in enumerate(lengths) for _ in range(size)]


@pytest.mark.parametrize(
    "pieces",
    [[b"a", b"\xee", b"h", b"i"], [b"\xf0\x9f", b"\xc3", b"\xa9", b"x"], [b"\xe4\xbd", b"", b"ab"]],
    ids=repr,
)
def test_an_offset_is_behind_a_character_that_was_never_completed(pieces):
    offsets = CompletionLogprobsStream().feed([step(one, -1.0) for one in pieces]).text_offset
    text = b"".join(pieces).decode("utf-8", "replace")
    for piece, offset in zip(pieces, offsets, strict=True):
        if piece.isascii():
            assert text.startswith(piece.decode(), offset)


def output(text, **rest):
    rest = {"index": 0, "token_ids": (1, 2), "finish_reason": FinishReason.END_ID, **rest}
    return CompletionOutput(request_id="r", text=text, **rest)


def test_whole_completions_are_counted_through():
    answer = completion_response(
        head(prompt_tokens=4), [output("a", logprobs=STEPS), output("b"), output("c", index=1)]
    )
    body = json.loads(encode_line(answer))
    assert body["object"] == "text_completion"
    assert [(c["index"], c["text"]) for c in body["choices"]] == [(0, "a"), (1, "b"), (2, "c")]
    assert body["choices"][0]["logprobs"] == LISTS
    assert body["choices"][1] == {
        "index": 1, "text": "b", "logprobs": None, "finish_reason": "stop", "stop_reason": None,
    }  # fmt: skip
    assert body["usage"] == {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}


def test_ids_are_told_where_they_were_asked_for():
    answer = completion_response(head(prompt_token_ids=(5,)), [output("a")])
    body = json.loads(encode_line(answer))
    assert (body["prompt_token_ids"], body["choices"][0]["token_ids"]) == ([5], [1, 2])
    events = stream((0, StreamChunk((1,), "a")), (0, StreamChunk(**END)), prompt_token_ids=(5,))
    assert events[0]["prompt_token_ids"] == [5]
    assert events[0]["choices"][0]["token_ids"] == [1]
