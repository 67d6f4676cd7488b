"""Framing: an event is one line, whoever cuts the lines."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.server.wire.api_errors import encode_line
from mini_vllm.server.wire.sse import DONE, PING, frame

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
EVERY_LINE_END = "a\nb\rc\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\u2028j\u2029k"


@given(TEXT | st.text('\\"\n\r\x85\u2028\u2029a'))
def test_a_frame_is_one_line_by_every_rule_and_loses_nothing(text):
    event = frame({"text": text}).decode("utf-8")
    assert event.startswith("data: ")
    assert event.endswith("\n\n")
    assert event.splitlines() == [event.removesuffix("\n\n"), ""]
    assert json.loads(event.removeprefix("data: ")) == {"text": text}


def test_all_line_ends_of_python_are_escaped():
    line = encode_line(EVERY_LINE_END)
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line) == EVERY_LINE_END


def test_a_backslash_before_a_line_separator_stays_a_backslash():
    assert json.loads(encode_line("\\\u2028\\u2028")) == "\\\u2028\\u2028"


def test_other_characters_stay_as_they_are():
    assert encode_line("é你🚀\x7f") == '"é你🚀\x7f"'.encode()


def test_the_end_and_the_ping_are_what_clients_wait_for_and_skip():
    assert DONE == b"data: [DONE]\n\n"
    assert PING.startswith(b":")
    assert PING.endswith(b"\n\n")


def test_a_lone_surrogate_is_an_error_not_a_broken_line():
    with pytest.raises(UnicodeEncodeError):
        encode_line("\ud800")
