"""An event is one line, whoever cuts the lines; a stream has one end, whatever happens."""

import json
from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wire_client import read_events

from mini_vllm.engine import CompletionOutput, FinishReason, StreamChunk
from mini_vllm.server.wire.api_errors import ApiError, encode_line
from mini_vllm.server.wire.chat_delta import DeltaMessage
from mini_vllm.server.wire.chat_stream import ChatStreamChoice, chat_response, chat_stream
from mini_vllm.server.wire.completion_stream import (
    CompletionChoice,
    completion_response,
    completion_stream,
)
from mini_vllm.server.wire.sse import DONE, PING, StreamHead, StreamResponse, frame

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
EVERY_LINE_END = "a\nb\rc\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\u2028j\u2029k"


@given(TEXT | st.text('\\"\n\r\x85\u2028\u2029a'))
@example(EVERY_LINE_END)
@example("\\\u2028\\u2028")
def test_a_frame_is_one_line_by_every_rule_and_loses_nothing(text):
    event = frame({"text": text}).decode("utf-8")
    assert event.startswith("data: ")
    assert event.endswith("\n\n")
    assert event.splitlines() == [event.removesuffix("\n\n"), ""]
    assert json.loads(event.removeprefix("data: ")) == {"text": text}


def test_other_characters_stay_as_they_are():
    assert encode_line("é你🚀\x7f") == '"é你🚀\x7f"'.encode()


def test_the_end_and_the_ping_are_what_clients_wait_for_and_skip():
    assert DONE == b"data: [DONE]\n\n"
    assert PING.startswith(b":")
    assert PING.endswith(b"\n\n")


def test_a_lone_surrogate_is_an_error_not_a_broken_line():
    with pytest.raises(UnicodeEncodeError):
        encode_line("\ud800")


END = StreamChunk(finished=True, reason=FinishReason.END_ID)
BROKEN = [FinishReason.CANCELLED, FinishReason.ERROR]
both = pytest.mark.parametrize("make", [chat_stream, completion_stream])


def head(**options):
    return StreamHead(id="id-1", created=7, model="mini", **options)


def opened(make, **options):
    events = make(head(**options))
    return events, events.start()


@both
@pytest.mark.parametrize("reason", BROKEN)
def test_a_broken_answer_ends_with_an_error_and_then_done(make, reason):
    events, start = opened(make, include_usage=True)
    data = start + events.feed(0, StreamChunk((1,), "a", True, reason)) + events.end()
    *_, said, last = read_events(data)
    assert said["choices"][0].get("text", said["choices"][0].get("delta")) in (
        "a",
        {"content": "a"},
    )
    assert set(last) == {"error"}
    assert set(last["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("make", [chat_response, completion_response])
@pytest.mark.parametrize("reason", BROKEN)
def test_a_broken_whole_answer_is_an_error(make, reason):
    with pytest.raises(ApiError) as caught:
        make(head(), [CompletionOutput("r", 0, (1,), "a", reason)])
    assert caught.value.status == 500


@both
def test_after_an_error_there_is_silence(make):
    events, _ = opened(make, choices=2)
    error = ApiError(500, "it broke")
    assert events.error(error) == frame(error.body) + DONE
    rest = events.feed(1, StreamChunk((1,), "a")), events.error(error), events.end()
    assert rest == (b"", b"", b"")


@both
def test_the_end_comes_once_and_before_that_of_the_answer_it_is_an_error(make):
    events, _ = opened(make)
    events.feed(0, END)
    assert (events.end(), events.end()) == (DONE, b"")
    events, start = opened(make)
    data = start + events.feed(0, StreamChunk((1,), "a")) + events.end()
    assert set(read_events(data)[-1]) == {"error"}


@both
@pytest.mark.parametrize("index", [1, -1])
def test_a_choice_that_is_not_open_is_refused(make, index):
    events = make(head())
    with pytest.raises(ValueError, match="not open"):
        events.feed(0, StreamChunk())
    events.start()
    with pytest.raises(ValueError, match=f"choice {index} of 1 is not open"):
        events.feed(index, StreamChunk((1,), "a"))
    events.feed(0, END)
    with pytest.raises(ValueError, match="not open"):
        events.feed(0, StreamChunk((1,), "a"))


@given(TEXT.filter(bool), TEXT, st.booleans())
@example("a", "\0", False)
def test_the_quick_way_to_write_a_text_is_the_plain_way(text, model, include_usage):
    delta = DeltaMessage(content=text)
    options = {"id": "i\0", "created": 7, "model": model, "include_usage": include_usage}
    for make, name, choice in (
        (chat_stream, "chat.completion.chunk", partial(ChatStreamChoice, delta=delta)),
        (completion_stream, "text_completion", partial(CompletionChoice, text=text)),
    ):
        events = make(StreamHead(choices=4, **options))
        events.start()
        for index in (2, 0, 2, 3):
            plain = StreamResponse("i\0", name, 7, model, [choice(index)])
            if include_usage:
                plain.usage = None
            assert events.feed(index, StreamChunk((1,), text)) == frame(plain)
