"""StreamChunk and FinishReason: seed 004's tests 42 and 43, and what no chunk may be."""

import dataclasses

import pytest

from mini_vllm.engine import FinishReason, LogprobEntry, StreamChunk, TokenLogprobs
from mini_vllm.text.events import CallStart, TextDelta

LOGPROBS = (TokenLogprobs(LogprobEntry(7, -0.5, b"\xf0"), (LogprobEntry(8, -0.1, b"a"),)),)
FULL = {
    "token_ids": (7,), "text": "é", "finished": True, "reason": FinishReason.STOP_WORDS,
    "logprobs": LOGPROBS, "events": (TextDelta("é"), CallStart(0, None, "f")),
    "stop_reason": "##", "held": {"stop": "#"},
}  # fmt: skip


def test_42_a_default_chunk_is_empty_and_unfinished():
    chunk = StreamChunk()
    assert (chunk.token_ids, chunk.text, chunk.logprobs, chunk.events) == ((), "", (), ())
    assert (chunk.finished, chunk.reason) == (False, FinishReason.NOT_FINISHED)
    assert (chunk.stop_reason, chunk.held) == (None, None)


def test_43_chunks_are_values():
    one, other = StreamChunk(**FULL), StreamChunk(**{**FULL, "text": "e"})
    assert one == StreamChunk(**FULL) != other
    assert len({one, StreamChunk(**FULL), other}) == 2
    for name, value in FULL.items():
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, name, value)


@pytest.mark.parametrize("name", ["token_ids", "text", "logprobs", "events", "stop_reason", "held"])
def test_43_every_field_counts_in_equality(name):
    assert StreamChunk(**FULL) != dataclasses.replace(
        StreamChunk(**FULL), **{name: getattr(StreamChunk(), name)}
    )


def test_finished_and_reason_must_agree():
    with pytest.raises(ValueError, match="finished=True and reason=NOT_FINISHED"):
        StreamChunk(finished=True)
    for reason in set(FinishReason) - {FinishReason.NOT_FINISHED}:
        assert StreamChunk(finished=True, reason=reason).reason is reason
        with pytest.raises(ValueError, match=reason.name):
            StreamChunk(reason=reason)


@pytest.mark.parametrize("text", ["\ud800", "ok\udfff", "\ud83d\ude80"])
def test_text_without_utf8_form_is_refused(text):
    with pytest.raises(ValueError, match="surrogates"):
        StreamChunk(text=text)


@pytest.mark.parametrize("text", ["", "\0", "\r\n", "\u2028", "\ufffd", "\U0010ffff"])
def test_any_other_text_is_legal(text):
    assert StreamChunk(text=text).text == text


def test_finish_reasons_have_the_seeds_values_and_names():
    assert [(one.value, one.label, one.openai()) for one in FinishReason] == [
        (0, "not-finished", None),
        (1, "end-of-sequence", "stop"),
        (2, "max-length", "length"),
        (3, "cancelled", "cancelled"),
        (4, "error", "error"),
        (5, "stop-words", "stop"),
    ]
    assert [one.name for one in FinishReason] == [
        "NOT_FINISHED", "END_ID", "LENGTH", "CANCELLED", "ERROR", "STOP_WORDS",
    ]  # fmt: skip
