"""What a slow reader gets: chunks that are joined without loss, and the other policies."""

import gc
import threading
from io import StringIO
from itertools import groupby
from types import NoneType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import END, LONG, A, B, attached, every_reader, every_waiting_reader, on_thread
from scenes import engine_of, one_by_one, request, text_of

from mini_vllm.engine import (
    EngineThread,
    FinishReason,
    LogprobEntry,
    OverflowPolicy,
    SlowConsumerError,
    StreamChannel,
    StreamChunk,
    StreamingSubmissionError,
    TokenLogprobs,
)
from mini_vllm.text.events import ArgsDelta, CallStart, ReasoningDelta, TextDelta

CANCELLED = FinishReason.CANCELLED
BLOCK = OverflowPolicy.BLOCK

STOPPED = StreamChunk((9,), "!", finished=True, reason=FinishReason.STOP_WORDS, stop_reason="#")
TEXTS = st.sampled_from(["a", "é", "🚀", "\r", "\n", "\r\n", "\u2028", "\ufffd", "\0", "ab"])
EVENTS = st.one_of(
    st.builds(TextDelta, TEXTS),
    st.builds(ReasoningDelta, TEXTS),
    st.builds(ArgsDelta, st.integers(0, 1), TEXTS),
    st.just(CallStart(0, None, "f")),
)


def letters(count):
    return [StreamChunk((97 + number % 26,), chr(97 + number % 26)) for number in range(count)]


@st.composite
def chunks(draw):
    ids = tuple(draw(st.lists(st.integers(0, 300), max_size=3)))
    logprobs = tuple(TokenLogprobs(LogprobEntry(one, -1.0, b"x")) for one in ids)
    kind = draw(st.sampled_from([EVENTS, st.builds(TextDelta, TEXTS)]))
    events = tuple(draw(st.lists(kind, max_size=3)))
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    if all(isinstance(event, TextDelta) for event in events):
        events = ()
    return StreamChunk(ids, text, logprobs=logprobs, events=events, held={"stop": str(len(ids))})


def joined_events(some):
    """All events in their order, neighbouring text as one."""
    events = [event for chunk in some for event in chunk.all_events]
    out = []
    for is_text, group in groupby(events, lambda event: isinstance(event, TextDelta)):
        same = list(group)
        out += [TextDelta("".join(event.text for event in same))] if is_text else same
    return out


def assert_same_content(got, sent):
    for name in ("token_ids", "text", "logprobs"):
        all_got, all_sent = (
            [x for one in some for x in getattr(one, name)] for some in (got, sent)
        )
        assert all_got == all_sent
    assert joined_events(got) == joined_events(sent)


@given(
    st.lists(st.tuples(chunks(), st.sampled_from([0, 0, 0, 1, 3])), max_size=25),
    st.one_of(st.integers(1, 5), st.none()),
)
def test_x8_joining_loses_nothing_and_keeps_the_order(script, most):
    (channel, pipe), pushed, got = attached(max_pending=most), [], []
    for chunk, pops in [*script, (STOPPED, 0)]:
        pipe.push(chunk)
        pushed.append(chunk)
        assert most is None or channel.pending_count <= most
        got += [channel.try_pop() for _ in range(min(pops, channel.pending_count))]
    got += [channel.try_pop() for _ in range(channel.pending_count)]
    assert_same_content(got, pushed)
    assert [chunk.finished for chunk in got] == [False] * (len(got) - 1) + [True]
    assert (got[-1].reason, got[-1].stop_reason) == (STOPPED.reason, STOPPED.stop_reason)
    for chunk in got:
        assert chunk.text == "".join(
            event.text for event in joined_events([chunk]) if isinstance(event, TextDelta)
        )
    if most is None:
        assert got == pushed
    assert channel.pending_count == 0
    assert channel.try_pop() is None


CALL = CallStart(0, None, "f")


@pytest.mark.parametrize(
    ("some", "one"),
    [
        # Text alone needs no events, and text before the first event stays before it.
        (letters(3), StreamChunk((97, 98, 99), "abc")),
        (
            [*letters(2), StreamChunk(events=(CALL,)), StreamChunk(text="c")],
            StreamChunk((97, 98), "abc", events=(TextDelta("ab"), CALL, TextDelta("c"))),
        ),
        # What is held is what the newest chunk says.
        (
            [StreamChunk(held={"stop": "old"}), StreamChunk(held={"stop": "new"})],
            StreamChunk(held={"stop": "new"}),
        ),
    ],
    ids=["text", "events", "held"],
)
def test_x8_what_several_chunks_become(some, one):
    channel, pipe = attached(max_pending=1)
    for chunk in some:
        pipe.push(chunk)
    assert (channel.try_pop(), channel.try_pop()) == (one, None)


@pytest.mark.parametrize("most", [1, 2, 256])
@every_reader
def test_x8_chunks_are_joined_only_when_too_many_wait(most, read):
    channel, pipe = attached(max_pending=most)
    sent = [*letters(2 * most - 1), STOPPED]
    for number, chunk in enumerate(sent, 1):
        pipe.push(chunk)
        assert channel.pending_count == min(number, most)
    *first, last = read(channel)
    assert first == sent[: most - 1]
    rest = sent[most - 1 :]
    assert last.token_ids == tuple(chunk.token_ids[0] for chunk in rest)
    assert last.text == "".join(chunk.text for chunk in rest)
    assert (last.finished, last.reason, last.stop_reason) == (True, FinishReason.STOP_WORDS, "#")


PLAIN = [StreamChunk((97,), "0123456789"), StreamChunk((98,), "é\r\n\u2028")]
RICH = [
    StreamChunk((97,), "a", logprobs=(TokenLogprobs(LogprobEntry(97, -1.0, b"a")),)),
    StreamChunk((98,), "", events=(ReasoningDelta("b"), CALL)),
]


@pytest.mark.parametrize("some", [PLAIN, RICH], ids=["plain", "rich"])
def test_x8_joining_is_linear(some):
    # What waits already is added to, never copied: that would be some 10**10 steps here.
    count = 20_000
    channel, pipe = attached(max_pending=4)
    for chunk in some * 50:
        pipe.push(chunk)
    last = channel._pipe.pending[-1]
    parts = {name: part for name, part in vars(last).items() if name != "_last"}
    assert {type(part) for part in parts.values()} <= {list, StringIO, NoneType}
    gc.collect()
    before = len(gc.get_objects())
    for chunk in some * (count // 2):
        written = last._text.tell()
        pipe.push(chunk)
        assert last._text.tell() - written == len(chunk.text)
        assert all(getattr(last, name) is part for name, part in parts.items())
    assert channel.pending_count == 4
    if some is PLAIN:
        gc.collect()
        assert len(gc.get_objects()) - before < 100
    pipe.push(END)
    assert_same_content(list(channel), [*some * (50 + count // 2), END])


def test_cancel_policy_ends_the_stream_of_a_reader_that_is_too_slow():
    engine = engine_of()
    channel = StreamChannel.create(max_pending=3, overflow=OverflowPolicy.CANCEL)
    handle = engine.submit([request()], [channel])[0]
    engine.run_until_idle()
    assert (channel.reason, channel.is_cancelled) == (CANCELLED, True)
    assert isinstance(channel.error, SlowConsumerError)
    assert "3 chunks" in str(channel.error)
    got = list(channel)
    # The one too many is joined: nothing that was generated is lost.
    assert [len(chunk.token_ids) for chunk in got] == [1, 1, 2]
    assert text_of(got) == handle.result(0).texts[0] == "abca"


def test_cancel_policy_leaves_a_reader_alone_who_keeps_up():
    channel, pipe = attached(max_pending=2, overflow=OverflowPolicy.CANCEL)
    for chunk in letters(100):
        pipe.push(chunk)
        pipe.push(chunk)
        assert (channel.try_pop(), channel.try_pop()) == (chunk, chunk)
    assert not channel.is_cancelled
    assert channel.error is None


def test_cancel_policy_does_not_cancel_a_stream_that_has_ended_and_keeps_the_error_of_the_end():
    channel, pipe = attached(max_pending=1, overflow=OverflowPolicy.CANCEL)
    pipe.push(A)
    pipe.push(STOPPED)
    assert (channel.reason, channel.is_cancelled) == (FinishReason.STOP_WORDS, False)
    assert channel.error is None
    assert text_of(channel) == "a!"
    (channel, pipe), boom = attached(max_pending=1, overflow=OverflowPolicy.CANCEL), OSError()
    for chunk in letters(2):
        pipe.push(chunk)
    pipe.finish(FinishReason.ERROR, boom)
    assert channel.error is boom


def blocked_push(pipe, chunk):
    """Push on a thread; return it once the push waits, which it does at the channel's condition."""
    thread = threading.Thread(target=pipe.push, args=(chunk,), daemon=True)
    thread.start()
    while not pipe.condition._waiters:
        assert thread.is_alive(), "the push did not wait"
    return thread


def test_block_policy_waits_for_the_reader_and_joins_nothing():
    channel, pipe = attached(max_pending=2, overflow=BLOCK)
    sent = [*letters(200), END]
    # The reader must wake the writer: it does not look by itself, so long as this test runs.
    pipe.wait = lambda seconds: type(pipe).wait(pipe, 2 * LONG)
    for chunk in sent[:2]:
        pipe.push(chunk)
    thread = blocked_push(pipe, sent[2])
    assert channel.pending_count == 2
    got = [channel.try_pop()]
    thread.join(LONG)
    assert not thread.is_alive()
    rest = on_thread(lambda: [pipe.push(chunk) for chunk in sent[3:]])
    got += channel
    rest.result(LONG)
    assert got == sent


@pytest.mark.parametrize("leave", [StreamChannel.try_pop, StreamChannel.cancel])
def test_block_policy_sees_a_reader_who_comes_just_before_the_wait(leave):
    channel, pipe = attached(max_pending=1, overflow=BLOCK)

    def wait(seconds):
        pipe.lock.release()
        leave(channel)
        pipe.lock.acquire()
        type(pipe).wait(pipe, 2 * LONG)

    pipe.wait = wait
    pipe.push(A)
    on_thread(pipe.push, B).result(LONG)


@every_waiting_reader
def test_block_policy_with_an_engine_thread_is_burst_atomic(read):
    text = "abcdefghijklmnopqrstuvwxyz" * 8
    engine = engine_of(one_by_one(text), max_num_seqs=1)
    channel = StreamChannel.create(max_pending=1, overflow=BLOCK)
    with EngineThread(engine):
        engine.submit([request(max_tokens=len(text))], [channel])
        assert [chunk.text for chunk in read(channel)] == list(text)


LEAVE = {
    "drop": list.clear,
    "cancel": lambda channels: channels[0].cancel(),
    "cancel in a signal handler": lambda channels: channels[0].cancel(wake=False),
    "leave the loop": lambda channels: next(iter(channels[0])),
}


@pytest.mark.parametrize("leave", LEAVE.values(), ids=LEAVE)
def test_block_policy_lets_go_when_the_reader_does(leave):
    channel, pipe = attached(max_pending=1, overflow=BLOCK)
    pipe.push(A)
    thread = blocked_push(pipe, B)
    channels = [channel]
    del channel
    leave(channels)
    thread.join(LONG)
    assert not thread.is_alive()
    on_thread(pipe.finish, CANCELLED).result(LONG)
    assert pipe.finished


def test_block_policy_does_not_wait_after_the_end():
    # `handle_request` finishes on the thread that reads afterwards.
    channel = StreamChannel.create(max_pending=1, overflow=BLOCK)
    answer = on_thread(engine_of(max_num_seqs=1).handle_request, [request(max_tokens=1)], [channel])
    assert answer.result(LONG).texts == [text_of(channel)] == ["a"]


def test_block_policy_needs_an_engine_of_one_slot():
    channel = StreamChannel.create(overflow=BLOCK)
    with pytest.raises(StreamingSubmissionError, match="max_num_seqs=1"):
        engine_of(max_num_seqs=2).submit([request()], [channel])
    assert channel.reason is FinishReason.ERROR
