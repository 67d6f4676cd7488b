"""The text stage of one slot, by hand: what is text already, what is held, what is owed.

However serving ends, `close_channels` ends the channel of a slot too, with all that was owed.
"""

import random
from asyncio import CancelledError

import pytest
from reading import attach
from scenes import BOS, EOS, PROMPT, assert_ended, params, popped
from vocabularies import KINDS, byte_fallback

from mini_vllm.engine import (
    Burst,
    Ending,
    EngineStateError,
    FinishReason,
    Handle,
    Request,
    SlotView,
    StreamChannel,
    StreamChunk,
    TextPathFactory,
    slot_stream,
)
from mini_vllm.engine.channel import Producer
from mini_vllm.engine.core import close_channels
from mini_vllm.engine.intake import Intake
from mini_vllm.engine.scheduler import ChoiceState
from mini_vllm.engine.slot_stream import SlotStreamState
from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer

ERROR = FinishReason.ERROR


class Slot:
    """A slot whose ids the test gives."""

    def __init__(self, prompt=PROMPT, tokenizer=None, interval=1, held=False, read=True, **changes):
        tokenizer = tokenizer or ByteTokenizer()
        self.params = params(**changes)
        intake = Intake(tokenizer, TextPathFactory(tokenizer), lambda _: None, may_block=False)
        self.channel = StreamChannel.create()
        self.channel.set_stream_interval(interval)
        self.channel.set_return_held(held)
        (submitted,) = intake.prepare([Request(prompt, self.params, "A")], [self.channel])
        ((self.choice, self.stream),) = submitted.rows
        if read:
            self.stream.producer = attach(self.channel)

    def make(self, *token_ids):
        """Have the model make ids, which are not looked at yet."""
        logprobs = () if self.params.logprobs is None else [{one: -1.0} for one in token_ids]
        self.choice.burst = Burst(token_ids, tuple(logprobs))

    def update(self, *token_ids):
        """Run what an iteration runs before it writes chunks; return the slot."""
        if token_ids:
            self.make(*token_ids)
        self.stream.update(self.choice)
        return self

    def give(self, *token_ids):
        """Run what an iteration runs; return its chunk, or None."""
        self.update(*token_ids).stream.emit(self.choice)
        chunks = popped(self.channel)
        assert len(chunks) <= 1
        return chunks[0] if chunks else None

    def end(self, reason):
        self.choice.latch(Ending(reason))
        return self.give()

    def text(self):
        return self.stream.output(self.choice).text


@pytest.mark.parametrize("kind", ["byte-level", "gemma", "metaspace-never", "wordpiece"])
def test_44_the_pieces_of_the_ids_are_the_bytes_of_the_text(kind):
    tokenizer = HuggingFaceTokenizer.from_tokenizer(KINDS[kind]())
    assert tokenizer.pieces is not None
    chance = random.Random(kind)
    for _ in range(50):
        token_ids = [chance.randrange(tokenizer.vocab_size) for _ in range(6)]
        slot = Slot((5,), tokenizer, logprobs=0, skip_special_tokens=False, ignore_eos=True)
        slot.give(*token_ids)
        slot.end(FinishReason.LENGTH)
        output = slot.stream.output(slot.choice)
        pieces = b"".join(one.chosen.piece for one in output.logprobs)
        assert pieces.decode("utf-8", "replace") == output.text


def test_44_the_pieces_of_byte_tokens_are_their_bytes():
    slot = Slot(logprobs=0)
    chunk = slot.give(*"né你🚀".encode())
    pieces = [one.chosen.piece for one in chunk.logprobs]
    assert pieces == [bytes([one]) for one in "né你🚀".encode()]


def test_45_a_special_id_is_no_text_or_its_name():
    assert Slot().give(97, BOS, 98).text == "ab"
    assert Slot(skip_special_tokens=False).give(97, BOS, 98).text == "a<bos>b"


def test_45_a_channel_may_ask_for_special_tokens():
    channel = StreamChannel.create()
    channel.set_skip_special_tokens(False)
    intake = Intake(ByteTokenizer(), TextPathFactory(ByteTokenizer()), lambda _: None,
                    may_block=False)  # fmt: skip
    (submitted,) = intake.prepare([Request(PROMPT, params())], [channel])
    ((choice, stream),) = submitted.rows
    choice.burst = Burst((BOS, EOS))
    stream.update(choice)
    assert stream.output(choice).text == "<bos>"


def test_46_a_byte_fallback_id_is_one_byte():
    tokenizer = HuggingFaceTokenizer.from_tokenizer(byte_fallback(strip=False))
    token_ids = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in "🚀".encode()]
    slot = Slot(prompt=(5,), tokenizer=tokenizer, logprobs=0)
    assert [slot.give(one) for one in token_ids[:3]] == [None, None, None]
    chunk = slot.give(token_ids[3])
    assert chunk.text == "🚀"
    assert [one.chosen.piece for one in chunk.logprobs] == [bytes([b]) for b in "🚀".encode()]


def test_47_no_new_ids_are_no_text_and_change_nothing():
    slot = Slot()
    slot.give(97, 0xF0)
    held = slot.stream.held()
    assert slot.give() is None
    assert slot.give() is None
    assert slot.stream.held() == held
    assert slot.give(0x9F, 0x9A, 0x80) == StreamChunk((0x9F, 0x9A, 0x80), "🚀")


def test_48_a_character_over_three_iterations():
    slot = Slot()
    assert slot.give(0xF0) is None
    assert slot.stream.held()["detokenizer"] == b"\xf0"
    assert slot.give(0x9F, 0x9A) is None
    assert slot.stream.held()["detokenizer"] == b"\xf0\x9f\x9a"
    assert slot.give(0x80, 0x21) == StreamChunk((0xF0, 0x9F, 0x9A, 0x80, 0x21), "🚀!")
    assert slot.stream.held()["detokenizer"] == b""


def test_48_a_skipped_special_id_inside_a_character_is_transparent():
    slot = Slot()
    slot.give(0xF0, 0x9F, BOS)
    assert slot.give(0x9A, 0x80).text == "🚀"


def test_48_a_shown_special_id_inside_a_character_ends_it():
    slot = Slot(skip_special_tokens=False)
    assert slot.give(0xF0, 0x9F, BOS).text == "\ufffd<bos>"
    assert slot.give(0x9A, 0x80).text == "\ufffd\ufffd"


def test_49_no_id_of_the_prompt_is_emitted():
    slot = Slot(prompt=tuple(b"prompt"))
    assert slot.give(97) == StreamChunk((97,), "a")
    assert slot.end(FinishReason.LENGTH) == StreamChunk((), "", True, FinishReason.LENGTH)


def test_49_a_character_that_began_in_the_prompt_comes_out_whole():
    slot = Slot(prompt=(97, 0xE4, 0xBD))
    assert slot.give(0xA0) == StreamChunk((0xA0,), "你")


def test_50_the_end_shows_a_cut_off_character_once():
    slot = Slot()
    slot.give(97, 0xF0)
    chunk = slot.end(FinishReason.CANCELLED)
    assert chunk == StreamChunk((), "\ufffd", True, FinishReason.CANCELLED)
    assert slot.stream.held()["detokenizer"] == b""
    assert slot.give() is None
    assert slot.text() == "a\ufffd"


def test_51_valid_text_is_unchanged_and_adversarial_bytes_are_replaced():
    for data in ("naïve 你好 🚀 \ufffd".encode(), b"\x80A\xc0\xafB\xed\xa0\x80\xf8\xff\xf0\x9f"):
        slot = Slot(max_tokens=99)
        for byte in data:
            slot.give(byte)
        slot.end(FinishReason.LENGTH)
        assert slot.text() == data.decode("utf-8", "replace")


@pytest.mark.parametrize("token_id", [-1, -5, 259, 2**31, 2**80])
def test_ids_that_nobody_knows_are_no_text_but_are_counted(token_id):
    slot = Slot(logprobs=0)
    chunk = slot.give(0xC3, token_id, 0xA9)
    assert (chunk.token_ids, chunk.text) == ((0xC3, token_id, 0xA9), "é")
    assert [one.chosen.piece for one in chunk.logprobs] == [b"\xc3", b"", b"\xa9"]


def test_a_chunk_that_says_what_is_held_comes_every_iteration():
    slot = Slot(held=True, stop=("##",))
    assert slot.give(97, 35).held["stop"] == "#"
    chunk = slot.give(0xF0)
    assert (chunk.token_ids, chunk.text) == ((0xF0,), "")
    assert chunk.held["detokenizer"] == b"\xf0"
    assert slot.give() is None


def test_an_interval_counts_ids_since_the_last_chunk():
    slot = Slot(interval=3)
    assert slot.give(97, 98) is None
    assert slot.give(99).token_ids == (97, 98, 99)
    assert slot.give(100, 101) is None
    assert slot.end(FinishReason.CANCELLED) == StreamChunk(
        (100, 101), "de", True, FinishReason.CANCELLED
    )


def test_a_text_path_that_raises_is_not_given_the_same_ids_twice():
    class Once:
        """Raises after it has taken ids, one time."""

        def __init__(self, inner):
            self.inner = inner
            self.fed = []

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def feed(self, token_ids):
            self.fed += token_ids
            events = self.inner.feed(token_ids)
            if len(self.fed) == 2:
                raise ValueError("text")
            return events

    path = Once(TextPathFactory(ByteTokenizer())(Request(PROMPT), PROMPT))
    choice = ChoiceState(SlotView("A", 0, PROMPT, params()), frozenset())
    stream = SlotStreamState(path, Handle("A", 1), params(), lambda _: b"", 0.0)
    channel = StreamChannel.create()
    stream.producer = attach(channel)
    choice.burst = Burst((97,))
    stream.update(choice)
    choice.burst = Burst((0xF0,))
    with pytest.raises(ValueError, match="text") as caught:
        stream.update(choice)
    stream.fail(choice, caught.value)
    stream.emit(choice)
    assert path.fed == [97, 0xF0]
    assert popped(channel) == [StreamChunk((97, 0xF0), "a\ufffd", True, FinishReason.ERROR)]


def closed(*slots, error=None):
    close_channels([(one.choice, one.stream) for one in slots], error or OSError("over"))


def test_29_32_33_a_channel_without_news_ends_with_an_empty_error_chunk():
    slot, error = Slot(), OSError("over")
    seen = []
    closed(slot, error=error)
    assert slot.channel.consume(seen.append) is ERROR
    assert seen == [StreamChunk(finished=True, reason=ERROR)]
    assert slot.channel.error is error
    assert slot.channel.try_pop() is None
    assert slot.channel.wait_pop(1e6) is None


def test_30_closing_twice_adds_nothing():
    slot, first = Slot(), OSError("1")
    closed(slot, error=first)
    closed(slot, error=OSError("2"))
    assert len(assert_ended(slot.channel, ERROR)) == 1
    assert slot.channel.error is first
    assert slot.choice.ending.error is first


def test_31_all_chunks_come_before_the_end():
    slot = Slot().update(97)
    slot.stream.emit(slot.choice)
    slot.make(98, 0xF0)
    closed(slot)
    assert popped(slot.channel) == [
        StreamChunk((97,), "a"),
        StreamChunk((98, 0xF0), "b\ufffd", True, ERROR),
    ]


def test_X14_the_jail_and_the_half_character_come_in_stream_order():
    slot = Slot(stop=("##",)).update(0x23, 0xF0, 0x9F)
    closed(slot)
    assert popped(slot.channel) == [StreamChunk((0x23, 0xF0, 0x9F), "#\ufffd", True, ERROR)]


def test_X14_text_that_waits_for_its_interval_comes_too():
    slot = Slot(stop=("##",)).update(97).update(98).update(35)
    closed(slot)
    assert popped(slot.channel) == [StreamChunk((97, 98, 35), "ab#", True, ERROR)]


def test_what_had_ended_keeps_its_reason():
    slot = Slot().update(97, EOS)
    closed(slot)
    (chunk,) = assert_ended(slot.channel, FinishReason.END_ID)
    assert chunk == StreamChunk((97, EOS), "a", True, FinishReason.END_ID)
    assert slot.channel.error is None


def test_closing_with_nothing_open_has_no_effect():
    slot = Slot().update(97, EOS)
    slot.stream.emit(slot.choice)
    closed(slot)
    (chunk,) = assert_ended(slot.channel, FinishReason.END_ID)
    assert chunk.text == "a"


def test_a_choice_without_a_channel_is_latched_too():
    slot = Slot(read=False).update(97)
    closed(slot)
    assert slot.choice.finish_reason is ERROR


ERRORS = [OSError("x"), EngineStateError("x"), KeyboardInterrupt(), CancelledError(), MemoryError()]


def no_fault(slot, monkeypatch):
    pass


def text_path_raises(slot, monkeypatch):
    def fail(*_):
        raise ValueError("text")

    monkeypatch.setattr(slot.stream._text_path, "feed", fail, raising=False)
    monkeypatch.setattr(slot.stream._text_path, "finish", fail, raising=False)


def text_path_interrupts(slot, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(slot.stream._text_path, "finish", fail, raising=False)


def push_raises_once(slot, monkeypatch):
    push, calls = Producer.push, []

    def fail_first(*args):
        calls.append(1)
        if len(calls) == 1:
            raise OSError("push")
        return push(*args)

    monkeypatch.setattr(Producer, "push", fail_first)


def no_memory_for_the_chunk(slot, monkeypatch):
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
    slot = Slot(stop=("##",)).update(97, 35)
    fault(slot, monkeypatch)
    closed(slot, error=error)
    (chunk,) = assert_ended(slot.channel, ERROR)
    assert slot.channel.error is error
    if fault is no_fault:
        assert chunk == StreamChunk((97, 35), "a#", True, ERROR)
    elif fault is text_path_raises:
        assert chunk.token_ids == (97, 35)
        assert chunk.text == "a"


def test_a_channel_that_cannot_be_ended_does_not_keep_the_others_open(monkeypatch):
    first, second, third = Slot().update(97), Slot().update(98), Slot().update(99)
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
    slot = Slot().update(97, 98)
    push_raises_once(slot, monkeypatch)
    with pytest.raises(OSError, match="push"):
        slot.stream.emit(slot.choice)
    closed(slot)
    assert popped(slot.channel) == [StreamChunk((97, 98), "ab", True, ERROR)]
