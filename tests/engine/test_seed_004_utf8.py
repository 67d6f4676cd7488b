"""Seed 004's sanitizer tests 01-18, with its own count of replacements: one for each byte."""

import pytest

from mini_vllm.text.utf8 import ReplacementPolicy, Utf8Sanitizer

BAD = "\ufffd"


@pytest.fixture
def sanitizer():
    return Utf8Sanitizer(ReplacementPolicy.PER_BYTE)


def test_01_empty_in_empty_out(sanitizer):
    assert (sanitizer.feed(b""), sanitizer.pending, sanitizer.flush()) == ("", b"", "")


def test_02_ascii_is_unchanged(sanitizer):
    assert (sanitizer.feed(b"Hello, world!"), sanitizer.pending) == ("Hello, world!", b"")


@pytest.mark.parametrize("text", ["é", "中", "🦙"], ids=["03_two", "04_three", "05_four"])
def test_03_04_05_a_whole_character_passes_at_once(sanitizer, text):
    assert (sanitizer.feed(text.encode()), sanitizer.pending) == (text, b"")


@pytest.mark.parametrize("start", [b"\xf0", b"\xf0\x9f"], ids=["06_one_byte", "07_two_bytes"])
def test_06_07_a_started_character_is_held(sanitizer, start):
    assert (sanitizer.feed(start), sanitizer.pending) == ("", start)


def test_08_three_calls_complete_a_character(sanitizer):
    fed = [sanitizer.feed(piece) for piece in (b"\xf0\x9f", b"\xa6", b"\x99")]
    assert (fed, sanitizer.pending, sanitizer.flush()) == (["", "", "🦙"], b"", "")


def test_09_a_stray_continuation_is_replaced(sanitizer):
    assert sanitizer.feed(b"A\x80B") == f"A{BAD}B"


def test_10_an_overlong_form_is_two_replacements(sanitizer):
    assert sanitizer.feed(b"\xc0\xaf") == BAD * 2


def test_11_a_lead_of_five_bytes_is_replaced_at_once(sanitizer):
    assert (sanitizer.feed(b"\xf8"), sanitizer.pending) == (BAD, b"")


def test_12_a_surrogate_is_replaced_and_not_held(sanitizer):
    assert (sanitizer.feed(b"\xed\xa0"), sanitizer.pending) == (BAD * 2, b"")
    assert sanitizer.feed(b"\x80") == BAD


def test_13_a_broken_character_leaves_the_byte_that_broke_it(sanitizer):
    assert sanitizer.feed(b"\xc3A") == f"{BAD}A"


def test_14_text_around_bad_bytes_stays(sanitizer):
    assert sanitizer.feed(b"He\x80llo\xff!") == f"He{BAD}llo{BAD}!"


def test_15_flush_replaces_each_held_byte(sanitizer):
    assert sanitizer.feed(b"\xf0\x9f\xa6") == ""
    assert (sanitizer.flush(), sanitizer.pending) == (BAD * 3, b"")


def test_16_flush_of_nothing_is_empty_any_number_of_times(sanitizer):
    assert [sanitizer.flush() for _ in range(3)] == [""] * 3


def test_17_every_ascii_byte_survives_alone_and_together(sanitizer):
    data = bytes(range(0x01, 0x80))
    assert sanitizer.feed(data) == data.decode()
    assert "".join(sanitizer.feed(bytes([one])) for one in data) == data.decode()


@pytest.mark.parametrize("byte", range(0x80, 0x100))
def test_18_a_high_byte_is_replaced_now_or_held_if_it_leads(sanitizer, byte):
    lead = 0xC2 <= byte <= 0xF4
    assert sanitizer.feed(bytes([byte])) == ("" if lead else BAD)
    assert sanitizer.flush() == (BAD if lead else "")
