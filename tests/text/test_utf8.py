"""mini_vllm.text.utf8: the boundary, the sanitizer's acceptance rows 01-18, and properties."""

import doctest
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.testing import chunkings, undecided
from mini_vllm.text import utf8
from mini_vllm.text.utf8 import (
    ReplacementPolicy,
    Utf8Sanitizer,
    flush_to_boundary,
    last_complete_utf8_end,
    sanitize_utf8_flush,
    sanitize_utf8_streaming,
    utf8_expected_len,
)

BYTES = st.lists(
    st.sampled_from([*bytes.fromhex("41 80 8f 90 9f a0 bf c0 c2 e0 e2 ed f0 f4 ff"), "é你🚀"]),
    max_size=12,
).map(lambda parts: b"".join(p.encode() if isinstance(p, str) else bytes([p]) for p in parts))


def one_shot(data, policy):
    """The reference: CPython's text, or one U+FFFD for each byte that is in no character."""
    if policy is ReplacementPolicy.MAXIMAL_SUBPART:
        return data.decode("utf-8", "replace")
    return data.decode("utf-8", "surrogateescape").translate(
        dict.fromkeys(range(56448, 56576), "�")
    )


def test_expected_len_table():
    wanted = [1] * 0x80 + [0] * 0x42 + [2] * 0x1E + [3] * 0x10 + [4] * 5 + [0] * 11
    assert [utf8_expected_len(byte) for byte in range(256)] == wanted
    for value in (-1, 256):
        with pytest.raises(ValueError, match=str(value)):
            utf8_expected_len(value)


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", 0), (b"hello", 5), ("hi ⭐".encode(), 6), (b"abc\xf0\x9f\x94", 3), (b"\x80\x80", 2),
        (b"\xc0", 1), (b"\xed\xa0", 2), (b"A\xff", 2), (b"\xe2", 0), (b"\xe2\x82", 0),
        (b"\xf4\x90", 2), (b"\xe2\x82\xac", 3), (b"a\xe2\x82\x80\x80", 5),
    ],
)  # fmt: skip
def test_last_complete_utf8_end(data, end):
    assert last_complete_utf8_end(data) == end


@pytest.mark.parametrize(
    ("text", "silent"),
    [("plain", 0), ("éçΩЖאم", 1), ("你नก€한", 2), ("🙂🚀𝄞𐍈", 3)],
    ids=["ASCII", "two bytes", "three bytes", "four bytes"],
)
def test_sent_byte_by_byte_a_character_is_silent_for_all_its_bytes_but_one(text, silent):
    buffer, sent = bytearray(), []
    for byte in text.encode():
        buffer.append(byte)
        sent.append(flush_to_boundary(buffer))
    assert sent == [part for c in text for part in (*[b""] * silent, c.encode())]
    assert buffer == b""


@given(BYTES, st.integers(0, 2**40))
def test_what_is_sent_in_parts_is_all_but_a_viable_prefix(data, seed):
    for parts in chunkings(data, random.Random(seed)):
        buffer, sent = bytearray(), b""
        for part in parts:
            buffer += part
            sent += flush_to_boundary(buffer)
            taken = sent + buffer
            assert (data[: len(taken)], undecided(taken)) == (taken, buffer)
        assert len(taken) == len(data)


@given(BYTES)
def test_boundary_is_exact(data):
    assert data[last_complete_utf8_end(data) :] == undecided(data)


ASCII = bytes(range(0x01, 0x80))
# id: pieces, the text of each, what is pending after them, the text of the flush
SANITIZER = {
    "T004-01": ([b""], [""], b"", ""),
    "T004-02": ([b"Hello, world!"], ["Hello, world!"], b"", ""),
    "T004-03": (["é".encode()], ["é"], b"", ""),
    "T004-04": (["中".encode()], ["中"], b"", ""),
    "T004-05": (["🦙".encode()], ["🦙"], b"", ""),
    "T004-06": ([b"\xf0"], [""], b"\xf0", "\ufffd"),
    "T004-07": ([b"\xf0\x9f"], [""], b"\xf0\x9f", "\ufffd" * 2),
    "T004-08": ([b"\xf0\x9f", b"\xa6", b"\x99"], ["", "", "🦙"], b"", ""),
    "T004-09": ([b"A\x80B"], ["A\ufffdB"], b"", ""),
    "T004-10": ([b"\xc0\xaf"], ["\ufffd" * 2], b"", ""),
    "T004-11": ([b"\xf8"], ["\ufffd"], b"", ""),
    "T004-12": ([b"\xed\xa0", b"\x80"], ["\ufffd" * 2, "\ufffd"], b"", ""),
    "T004-13": ([b"\xc3A"], ["\ufffdA"], b"", ""),
    "T004-14": ([b"He\x80llo\xff!"], ["He\ufffdllo\ufffd!"], b"", ""),
    "T004-15": ([b"\xf0\x9f\xa6"], [""], b"\xf0\x9f\xa6", "\ufffd" * 3),
    "T004-16": ([], [], b"", ""),
    "T004-17": ([ASCII], [ASCII.decode()], b"", ""),
    "T004-17-alone": ([bytes([byte]) for byte in ASCII], list(ASCII.decode()), b"", ""),
    "cut before the byte that breaks it": ([b"\xf0", b"A"], ["", "\ufffdA"], b"", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", SANITIZER)
def test_a_replacement_for_each_byte(case):
    """The rows that engines agree on when they count U+FFFD by bytes, in both forms of the API."""
    pieces, texts, held, flushed = SANITIZER[case]
    policy = ReplacementPolicy.PER_BYTE
    pending = bytearray()
    assert [sanitize_utf8_streaming(piece, pending, policy) for piece in pieces] == texts
    assert pending == held
    assert (sanitize_utf8_flush(pending, policy), pending) == (flushed, b"")
    sanitizer = Utf8Sanitizer(policy)
    assert [sanitizer.feed(piece) for piece in pieces] == texts
    assert sanitizer.pending == held
    assert [sanitizer.flush() for _ in range(3)] == [flushed, "", ""]
    assert sanitizer.pending == b""


@pytest.mark.parametrize("policy", ReplacementPolicy)
def test_every_high_byte_is_answered_now_or_held_if_it_leads(policy):
    for byte in range(0x80, 0x100):  # T004-18
        sanitizer, leads = Utf8Sanitizer(policy), 0xC2 <= byte <= 0xF4
        assert sanitizer.feed(bytes([byte])) == ("" if leads else "\ufffd")
        assert sanitizer.pending == (bytes([byte]) if leads else b"")
        assert sanitizer.flush() == ("\ufffd" if leads else "")


@given(BYTES, st.sampled_from(ReplacementPolicy), st.integers(0, 2**32))
def test_chunk_invariant_complete_and_bounded(data, policy, seed):
    for pieces in chunkings(list(data), random.Random(seed)):
        sanitizer = Utf8Sanitizer(policy)
        text = ""
        for piece in pieces:
            text += sanitizer.feed(bytes(piece))
            assert len(sanitizer.pending) <= 3
        assert text + sanitizer.flush() == one_shot(data, policy)
        assert sanitizer.flush() == ""


def test_a_real_replacement_character_is_text():
    assert Utf8Sanitizer().feed("a\ufffd".encode()) == "a\ufffd"


def test_examples():
    assert doctest.testmod(utf8).failed == 0
