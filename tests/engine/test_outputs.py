"""Values: StreamChunk (tests 42 and 43, and what no chunk may be), FinishReason, Ending."""

import pytest

from mini_vllm.engine import Ending, FinishReason, LogprobEntry, StreamChunk, TokenLogprobs
from mini_vllm.text.events import CallStart, TextDelta

STOP_WORDS = FinishReason.STOP_WORDS
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
        with pytest.raises(AttributeError):
            setattr(one, name, value)


@pytest.mark.parametrize("name", ["token_ids", "text", "logprobs", "events", "stop_reason", "held"])
def test_43_every_field_counts_in_equality(name):
    assert StreamChunk(**FULL) != StreamChunk(**{**FULL, name: getattr(StreamChunk(), name)})


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


def test_finish_reasons_have_their_values_names_and_words():
    """In the API's words: as it is, and if the reader was given a call."""
    found = [
        (one.value, one.name, one.label, one.openai(), one.openai(called=True), one.is_complete)
        for one in FinishReason
    ]
    assert found == [
        (0, "NOT_FINISHED", "not-finished", None, None, False),
        (1, "END_ID", "end-of-sequence", "stop", "tool_calls", True),
        (2, "LENGTH", "max-length", "length", "length", True),
        (3, "CANCELLED", "cancelled", "cancelled", "cancelled", False),
        (4, "ERROR", "error", "error", "error", False),
        (5, "STOP_WORDS", "stop-words", "stop", "tool_calls", True),
    ]


@pytest.mark.parametrize(
    ("cause", "found", "ending"),
    [
        (FinishReason.END_ID, {}, Ending(FinishReason.END_ID)),
        (FinishReason.END_ID, {"stop_id": 7}, Ending(FinishReason.END_ID, 7)),
        (FinishReason.LENGTH, {}, Ending(FinishReason.LENGTH)),
        # A stop string wins over an id and over the length, not over what came from outside.
        (FinishReason.END_ID, {"stop_id": 7, "stop_string": "#"}, Ending(STOP_WORDS, "#")),
        (FinishReason.STOP_WORDS, {"stop_string": "#"}, Ending(STOP_WORDS, "#")),
        (FinishReason.LENGTH, {"stop_string": "#"}, Ending(STOP_WORDS, "#")),
        (FinishReason.CANCELLED, {"stop_string": "#"}, Ending(FinishReason.CANCELLED)),
        (FinishReason.ERROR, {"stop_string": "#"}, Ending(FinishReason.ERROR)),
    ],
)
def test_which_of_two_causes_ended_a_text(cause, found, ending):
    assert Ending.decide(cause, **found) == ending
