"""However serving ends, every channel that was attached ends too, with all that was still owed."""

from asyncio import CancelledError

import pytest
from scenes import EOS, PROMPT, assert_ended, params, popped

from mini_vllm.engine import (
    Burst,
    EngineStateError,
    FinishReason,
    Handle,
    SlotView,
    StreamChannel,
    StreamChunk,
    TextPathFactory,
    slot_stream,
)
from mini_vllm.engine.channel import Producer, attach
from mini_vllm.engine.choice import ChoiceState
from mini_vllm.engine.core import close_channels
from mini_vllm.engine.request import Request
from mini_vllm.engine.slot_stream import SlotStreamState
from mini_vllm.tokenizer import ByteTokenizer

ERROR = FinishReason.ERROR


class Owner:
    thread_id = None


class Row:
    """A choice that runs, with its channel, outside of any engine."""

    def __init__(self, *bursts, attached=True, **changes):
        request = Request(PROMPT, params(**changes), "A")
        tokenizer = ByteTokenizer()
        self.path = TextPathFactory(tokenizer)(request, PROMPT)
        self.sequence = ChoiceState(SlotView("A", 0, PROMPT, request.params), frozenset([EOS]))
        self.stream = SlotStreamState(self.path, Handle("A", 1), request.params, lambda _: b"", 0.0)
        self.channel = StreamChannel.create()
        if attached:
            self.stream.producer = attach(self.channel, 0, Owner())
        for burst in bursts:
            self.give(burst)
            self.stream.update(self.sequence)

    def give(self, token_ids):
        self.sequence.burst = Burst(tuple(token_ids))

    @property
    def pair(self):
        return self.sequence, self.stream


def closed(*rows, error=None):
    close_channels([row.pair for row in rows], error or OSError("over"))


def test_29_a_channel_without_news_ends_with_an_empty_error_chunk():
    row, error = Row(), OSError("over")
    seen = []
    closed(row, error=error)
    assert row.channel.consume(seen.append) is ERROR
    assert seen == [StreamChunk(finished=True, reason=ERROR)]
    assert row.channel.error is error


def test_30_closing_twice_adds_nothing():
    row, first = Row(), OSError("1")
    closed(row, error=first)
    closed(row, error=OSError("2"))
    assert len(assert_ended(row.channel, ERROR)) == 1
    assert row.channel.error is first
    assert row.sequence.ending.error is first


def test_31_all_chunks_come_before_the_end():
    row = Row((97,))
    row.stream.emit(row.sequence)
    row.give((98, 0xF0))
    closed(row)
    assert popped(row.channel) == [
        StreamChunk((97,), "a"),
        StreamChunk((98, 0xF0), "b\ufffd", True, ERROR),
    ]


def test_32_try_pop_gives_the_terminal_chunk_then_none():
    row = Row()
    closed(row)
    assert row.channel.try_pop().finished
    assert row.channel.try_pop() is None


def test_33_wait_pop_returns_at_once_when_finished_and_empty():
    row = Row()
    closed(row)
    popped(row.channel)
    assert row.channel.wait_pop(1e6) is None


def test_X14_the_jail_and_the_half_character_come_in_stream_order():
    row = Row((0x23, 0xF0, 0x9F), stop=("##",))
    closed(row)
    assert popped(row.channel) == [StreamChunk((0x23, 0xF0, 0x9F), "#\ufffd", True, ERROR)]


def test_X14_text_that_waits_for_its_interval_comes_too():
    row = Row((97,), (98,), (35,), stop=("##",))
    closed(row)
    assert popped(row.channel) == [StreamChunk((97, 98, 35), "ab#", True, ERROR)]


def test_what_had_ended_keeps_its_reason():
    row = Row((97, EOS))
    closed(row)
    (chunk,) = assert_ended(row.channel, FinishReason.END_ID)
    assert chunk == StreamChunk((97, EOS), "a", True, FinishReason.END_ID)
    assert row.channel.error is None


def test_closing_with_nothing_open_has_no_effect():
    row = Row((97, EOS))
    row.stream.emit(row.sequence)
    closed(row)
    (chunk,) = assert_ended(row.channel, FinishReason.END_ID)
    assert chunk.text == "a"


def test_a_choice_without_a_channel_is_latched_too():
    row = Row((97,), attached=False)
    closed(row)
    assert row.sequence.finish_reason is ERROR


ERRORS = [OSError("x"), EngineStateError("x"), KeyboardInterrupt(), CancelledError(), MemoryError()]


def no_fault(row, monkeypatch):
    pass


def text_path_raises(row, monkeypatch):
    def fail(*_):
        raise ValueError("text")

    monkeypatch.setattr(row.path, "feed", fail, raising=False)
    monkeypatch.setattr(row.path, "finish", fail, raising=False)


def text_path_interrupts(row, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(row.path, "finish", fail, raising=False)


def push_raises_once(row, monkeypatch):
    push, calls = Producer.push, []

    def fail_first(*args):
        calls.append(1)
        if len(calls) == 1:
            raise OSError("push")
        return push(*args)

    monkeypatch.setattr(Producer, "push", fail_first)


def no_memory_for_the_chunk(row, monkeypatch):
    def fail(**_):
        raise MemoryError

    monkeypatch.setattr(slot_stream, "StreamChunk", fail)


FAULTS = [
    no_fault,
    text_path_raises,
    text_path_interrupts,
    push_raises_once,
    no_memory_for_the_chunk,
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("fault", FAULTS)
def test_X14_five_errors_and_each_fault_end_with_one_terminal_chunk(error, fault, monkeypatch):
    row = Row((97, 35), stop=("##",))
    fault(row, monkeypatch)
    closed(row, error=error)
    (chunk,) = assert_ended(row.channel, ERROR)
    assert row.channel.error is error
    if fault is no_fault:
        assert chunk == StreamChunk((97, 35), "a#", True, ERROR)
    elif fault is text_path_raises:
        assert chunk.token_ids == (97, 35)
        assert chunk.text == "a"


def test_a_channel_that_cannot_be_ended_does_not_keep_the_others_open(monkeypatch):
    first, second, third = Row((97,)), Row((98,)), Row((99,))
    push = Producer.push

    def fail(self, *args):
        if self is second.stream.producer:
            raise OSError("push")
        return push(self, *args)

    monkeypatch.setattr(Producer, "push", fail)
    closed(first, second, third)
    assert_ended(first.channel, ERROR)
    assert_ended(third.channel, ERROR)


def test_what_could_not_be_pushed_is_still_owed(monkeypatch):
    row = Row((97, 98))
    push_raises_once(row, monkeypatch)
    with pytest.raises(OSError, match="push"):
        row.stream.emit(row.sequence)
    closed(row)
    assert popped(row.channel) == [StreamChunk((97, 98), "ab", True, ERROR)]
