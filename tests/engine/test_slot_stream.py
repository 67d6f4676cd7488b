"""The text stage of one slot, by hand: what is text already, what is held, what is owed.

However serving ends, `close_channels` ends the channel of a slot too, with all that was owed.
"""

import random
from asyncio import CancelledError
from unittest.mock import Mock

import pytest
from reading import attach
from scenes import (
    BOS,
    EOS,
    PROMPT,
    ROCKET,
    PathAround,
    assert_ended,
    no_memory_for_a_chunk,
    params,
    popped,
    push_raises_once,
)
from vocabularies import KINDS, byte_fallback

from mini_vllm.engine import (
    Burst,
    Ending,
    EngineStateError,
    FinishReason,
    Request,
    StreamChannel,
    StreamChunk,
    TextPathFactory,
)
from mini_vllm.engine.core import close_channels
from mini_vllm.engine.intake import Intake
from mini_vllm.engine.pipe import Pipe
from mini_vllm.tokenizer import ByteTokenizer, HuggingFaceTokenizer

ERROR, CANCELLED = FinishReason.ERROR, FinishReason.CANCELLED
NOT_FINISHED = FinishReason.NOT_FINISHED


class Slot:
    """A slot whose ids the test gives."""

    def __init__(
        self, prompt=PROMPT, tokenizer=None, interval=1, held=False, shown=False, **changes
    ):
        tokenizer = tokenizer or ByteTokenizer()
        self.params = params(**changes)
        limits = {"max_model_len": 10**6, "max_num_batched_tokens": 10**6}
        intake = Intake(tokenizer, TextPathFactory(tokenizer), **limits, may_block=False)
        self.channel = StreamChannel.create()
        self.channel.set_stream_interval(interval)
        self.channel.set_return_held(held)
        self.channel.set_skip_special_tokens(not shown)
        (submitted,) = intake.prepare([Request(prompt, self.params, "A")], [self.channel])
        (self.row,) = submitted.rows
        self.choice, self.stream = self.row.choice, self.row.stream
        self.stream.pipe = attach(self.channel)

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

    def emit(self):
        self.stream.emit(self.choice)
        return self

    def give(self, *token_ids):
        """Run what an iteration runs; return its chunk, or None."""
        self.update(*token_ids).emit()
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


def test_45_a_channel_may_ask_for_special_tokens():
    assert Slot(shown=True).update(BOS, EOS).text() == "<bos>"


def test_44_46_the_piece_of_a_byte_token_or_a_byte_fallback_id_is_one_byte():
    data = "né你🚀".encode()
    chunk = Slot(logprobs=0).give(*data)
    assert [one.chosen.piece for one in chunk.logprobs] == [bytes([one]) for one in data]
    tokenizer = HuggingFaceTokenizer.from_tokenizer(byte_fallback(strip=False))
    token_ids = [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in ROCKET]
    slot = Slot(prompt=(5,), tokenizer=tokenizer, logprobs=0)
    assert [slot.give(one) for one in token_ids[:3]] == [None, None, None]
    chunk = slot.give(token_ids[3])
    assert chunk.text == "🚀"
    assert [one.chosen.piece for one in chunk.logprobs] == [bytes([one]) for one in ROCKET]


HALF = b"\xf0\x9f"
# Options; and of each iteration its ids, or why it ends, its text, and what the detokenizer holds.
FED = {
    "45 a special id is no text": ({}, [((97, BOS, 98), "ab", b"")]),
    "45 or it is its name": ({"skip_special_tokens": False}, [((97, BOS, 98), "a<bos>b", b"")]),
    "47 no new ids are no text and change nothing": (
        {}, [((97, *HALF), "a", HALF), *[((), None, HALF)] * 2, ((0x9A, 0x80), "🚀", b"")],
    ),
    "48 a character over three iterations": (
        {}, [((0xF0,), None, b"\xf0"), ((0x9F, 0x9A), None, b"\xf0\x9f\x9a"),
             ((0x80, 0x21), "🚀!", b"")],
    ),
    "48 a skipped special id inside a character is transparent": (
        {}, [((*HALF, BOS), None, HALF), ((0x9A, 0x80), "🚀", b"")],
    ),
    "48 a shown special id inside a character ends it": (
        {"skip_special_tokens": False},
        [((*HALF, BOS), "\ufffd<bos>", b""), ((0x9A, 0x80), "\ufffd\ufffd", b"")],
    ),
    "49 no id of the prompt is emitted": (
        {"prompt": tuple(b"prompt")}, [((97,), "a", b""), (FinishReason.LENGTH, "", b"")],
    ),
    "49 a character that began in the prompt comes out whole": (
        {"prompt": (97, 0xE4, 0xBD)}, [((0xA0,), "你", b"")],
    ),
    "50 the end shows a cut-off character once": (
        {}, [((97, *HALF), "a", HALF), (CANCELLED, "\ufffd", b""), ((), None, b"")],
    ),
    "the end shows the jail and the half character": (
        {"stop": ("###",)}, [((97, 35), "a", b""), ((35, *HALF), None, HALF),
                             (CANCELLED, "##\ufffd", b"")],
    ),
    "an interval counts ids since the last chunk": (
        {"interval": 3}, [((97, 98), None, b""), ((99,), "abc", b""), ((100, 101), None, b""),
                          (CANCELLED, "de", b"")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "iterations"), FED.values(), ids=FED)
def test_45_47_48_49_50_what_is_text_and_what_is_held(options, iterations):
    slot, owed = Slot(**options), ()
    for news, text, held in iterations:
        ends = isinstance(news, FinishReason)
        chunk = slot.end(news) if ends else slot.give(*news)
        owed += () if ends else news
        if text is None:
            assert chunk is None
        else:
            assert chunk == StreamChunk(owed, text, ends, news if ends else NOT_FINISHED)
            owed = ()
        assert slot.stream.held()["tokens"] == held
    if slot.choice.ending is not None:
        assert slot.text() == "".join(text for _, text, _ in iterations if text)


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


TOLD = {
    "each id of a burst apart": (
        [((97, 35, *HALF), [((97,), "a", "", b""), ((35,), "", "#", b""),
                            ((HALF[0],), "", "#", HALF[:1]), ((HALF[1],), "", "#", HALF)]),
         ((), [])],
        NOT_FINISHED,
    ),
    "up to the one that ends it": (
        [((97,), [((97,), "a", "", b"")]), ((35, 35, 98), [((35,), "", "#", b""),
                                                           ((35,), "", "", b"")])],
        FinishReason.STOP_WORDS,
    ),
    "up to max_tokens": (
        [((97, 98, 99, 35, 100, 101), [((one,), chr(one), "", b"") for one in b"abc"]
                                      + [((35,), "", "#", b""), ((100,), "#d", "", b"")])],
        FinishReason.LENGTH,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("bursts", "reason"), TOLD.values(), ids=TOLD)
def test_a_stream_that_says_what_is_held_tells(bursts, reason):
    slot, last = Slot(held=True, stop=("##",), logprobs=0, max_tokens=5), None
    for burst, told in bursts:
        slot.update(*burst).emit()
        chunks = popped(slot.channel)
        assert [
            (one.token_ids, one.text, one.held["stops"], one.held["tokens"]) for one in chunks
        ] == told
        assert all(one.logprobs[0].chosen.token_id == one.token_ids[0] for one in chunks)
        assert not any(one.finished for one in chunks[:-1])
        last = chunks[-1] if chunks else last
    assert last.reason is slot.choice.finish_reason is reason


def test_what_of_a_burst_could_not_be_told_is_still_owed(monkeypatch):
    slot = Slot(held=True).update(97, 98, 99)
    push_raises_once(monkeypatch)
    with pytest.raises(OSError, match="push"):
        slot.emit()
    closed(slot)
    assert [one.token_ids for one in popped(slot.channel)] == [(97,), (98,), (99,)]


def test_a_text_path_that_raises_is_not_given_the_same_ids_twice():
    fed, slot = [], Slot()

    def feed(inner, token_ids):
        fed.extend(token_ids)
        events = inner.feed(token_ids)
        if len(fed) == 2:
            raise ValueError("text")
        return events

    slot.stream._text_path = PathAround(slot.stream._text_path, feed=feed)
    slot.update(97)
    with pytest.raises(ValueError, match="text") as caught:
        slot.update(0xF0)
    slot.stream.fail(slot.choice, caught.value)
    slot.emit()
    assert fed == [97, 0xF0]
    assert popped(slot.channel) == [error_end((97, 0xF0), "a\ufffd")]


def error_end(token_ids=(), text=""):
    return StreamChunk(token_ids, text, True, ERROR)


def closed(*slots, error=None):
    close_channels([one.row for one in slots], error or OSError("over"))


ENDED = [StreamChunk((97, EOS), "a", True, FinishReason.END_ID)]
# What happens before the end from outside, and all chunks.
CLOSED = {
    "29 32 33 no news are an empty chunk": (lambda slot: None, [error_end()]),
    "31 all chunks come before the end": (
        lambda slot: slot.update(97).emit().make(98, 0xF0),
        [StreamChunk((97,), "a"), error_end((98, 0xF0), "b\ufffd")],
    ),
    "X14 the jail and the half character come in stream order": (
        lambda slot: slot.update(0x23, *HALF), [error_end((0x23, *HALF), "#\ufffd")],
    ),
    "X14 text that waits for its interval comes too": (
        lambda slot: slot.update(97).update(98).update(35), [error_end((97, 98, 35), "ab#")],
    ),
    "what had ended keeps its reason": (lambda slot: slot.update(97, EOS), ENDED),
    "and its only chunk": (lambda slot: slot.update(97, EOS).emit(), ENDED),
}  # fmt: skip


@pytest.mark.parametrize(("before", "chunks"), CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize("read", [True, False])
def test_29_30_31_32_33_X14_a_channel_ends_once_with_all_that_was_owed(before, chunks, read):
    slot, first, seen = Slot(stop=("##",)), OSError("over"), []
    if not read:
        slot.stream.pipe = None
    before(slot)
    closed(slot, error=first)
    closed(slot, error=OSError("again"))
    reason = chunks[-1].reason
    error = first if reason is ERROR else None
    assert (slot.choice.finish_reason, slot.choice.ending.error) == (reason, error)
    if read:
        assert slot.channel.consume(seen.append) is reason
        assert seen == chunks
        assert slot.channel.error is error
        assert slot.channel.try_pop() is None
        assert slot.channel.wait_pop(1e6) is None


ERRORS = [OSError("x"), EngineStateError("x"), KeyboardInterrupt(), CancelledError(), MemoryError()]


def fault_of_text(slot, **errors):
    """Have the text path raise what is given for a method."""
    faults = {name: Mock(side_effect=error) for name, error in errors.items()}
    slot.stream._text_path = PathAround(slot.stream._text_path, **faults)


FAULTS = {
    "none": lambda slot, monkeypatch: None,
    "text path": lambda slot, _: fault_of_text(slot, feed=ValueError, finish=ValueError),
    "interrupt": lambda slot, _: fault_of_text(slot, finish=KeyboardInterrupt),
    "push": lambda _, monkeypatch: push_raises_once(monkeypatch),
    "memory": lambda _, monkeypatch: no_memory_for_a_chunk(monkeypatch),
}


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("fault", FAULTS)
def test_X14_five_errors_and_each_fault_end_with_one_terminal_chunk(error, fault, monkeypatch):
    slot = Slot(stop=("##",)).update(97, 35)
    FAULTS[fault](slot, monkeypatch)
    closed(slot, error=error)
    (chunk,) = assert_ended(slot.channel, ERROR)
    assert slot.channel.error is error
    if fault == "none":
        assert chunk == error_end((97, 35), "a#")
    elif fault == "text path":
        assert chunk.token_ids == (97, 35)
        assert chunk.text == "a"


def test_a_channel_that_cannot_be_ended_does_not_keep_the_others_open(monkeypatch):
    first, second, third = Slot().update(97), Slot().update(98), Slot().update(99)
    push = Pipe.push

    def fail(self, *args):
        if self is second.stream.pipe:
            raise OSError("push")
        return push(self, *args)

    monkeypatch.setattr(Pipe, "push", fail)
    closed(first, second, third)
    assert_ended(first.channel, ERROR)
    assert_ended(third.channel, ERROR)


def test_what_could_not_be_pushed_is_still_owed(monkeypatch):
    slot = Slot().update(97, 98)
    push_raises_once(monkeypatch)
    with pytest.raises(OSError, match="push"):
        slot.emit()
    closed(slot)
    assert popped(slot.channel) == [error_end((97, 98), "ab")]
