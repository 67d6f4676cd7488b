"""Lab 03: the streaming detokenizer. Each docstring states the rule that its test pins."""

import itertools

import pytest

from labkit.testing import decided, decoded, expect, expect_in, small_bytes, undecided

MIXED = "naïve café — 你好 🚀🇫🇷"
# One byte of every kind that the rules treat differently.
CLASSES = bytes.fromhex("41 80 8f 90 9f a0 bf c0 c2 df e0 e2 ed ef f0 f4 f5 ff")


def feed_all(lab, data):
    """Feed bytes one by one, then flush."""
    return lab.stream(lab.new("StreamingDetokenizer"), list(data))


def feed(lab, data):
    """Feed bytes one by one and leave the stream open."""
    return lab.stream(lab.new("StreamingDetokenizer"), list(data), end="")


def expected_pieces(data):
    """What each byte must emit: the text that the bytes so far determine, less what was out."""
    texts = [decided(data[:count]) for count in range(len(data) + 1)]
    return [now[len(before) :] for before, now in itertools.pairwise(texts)]


def expect_exact_and_eager(lab, data):
    """The whole contract for one byte string: every piece, the flush, and what is held."""
    trace = feed_all(lab, data)
    expect(trace.outputs[:-1], expected_pieces(data), trace, f"bytes {data.hex(' ')}, pieces")
    expect(trace.text, decoded(data), trace, f"bytes {data.hex(' ')}, text with flush")
    held = [undecided(data[:count]) for count in range(1, len(data) + 1)]
    expect(trace.held, [*held, b""], trace, f"bytes {data.hex(' ')}, held")


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_utf8_expected_len_table(lab):
    """The first byte announces the length: 00-7F one byte, C2-DF two, E0-EF three, F0-F4 four; for
    all others the answer is 0.
    """
    wanted = [1] * 0x80 + [0] * 0x42 + [2] * 0x1E + [3] * 0x10 + [4] * 5 + [0] * 11
    for byte in range(256):
        call = f"utf8_expected_len(0x{byte:02X})"
        expect(lab.call("utf8_expected_len", byte), wanted[byte], call)


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_utf8_expected_len_knows_dead_first_bytes(lab):
    """No character starts with C0 or C1 (only overlong forms would) or with F5-FF (beyond
    U+10FFFF): the length is 0.
    """
    for byte in (0xC0, 0xC1, 0xF5, 0xF7, 0xF8, 0xFF):
        expect(lab.call("utf8_expected_len", byte), 0, f"utf8_expected_len(0x{byte:02X})")


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_utf8_expected_len_rejects_non_bytes(lab):
    """A value outside 0-255 is the caller's mistake: ValueError, whose message gives the value."""
    for value in (256, -1, 1000):
        message = lab.rejects("utf8_expected_len", value)
        expect_in(str(value), message, f"utf8_expected_len({value})")


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_ascii_streams_one_char_per_token(lab):
    """An ASCII character is complete at once, so it comes out at once; so do NUL and line ends."""
    trace = feed(lab, b"Hello, \x00\r\n!")
    expect(trace.outputs, [*"Hello, \x00\r\n!"], trace)


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_emoji_is_held_until_complete(lab):
    """Three silences, one rocket: a character comes out whole, with the byte that completes it."""
    trace = feed(lab, "🚀".encode())
    expect(trace.outputs, ["", "", "", "🚀"], trace)


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_every_length_waits_for_its_last_byte(lab):
    """A character of n bytes gives n-1 silences: é, 你 and 🚀 wait one, two and three tokens."""
    trace = feed(lab, "é你🚀a".encode())
    expect(trace.outputs, ["", "é", "", "", "你", "", "", "", "🚀", "a"], trace)


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_never_emits_replacement_chars_for_valid_text(lab):
    """Valid text comes out unchanged: no U+FFFD appears, and no character is lost."""
    trace = feed(lab, MIXED.encode())
    expect(trace.text, MIXED, trace)


@pytest.mark.given
def test_naive_approach_really_is_broken():
    """Decoding every token alone turns one rocket into four replacement characters."""
    naive = [bytes([byte]).decode("utf-8", "replace") for byte in "🚀".encode()]
    assert naive == ["\ufffd"] * 4


@pytest.mark.given
def test_naive_flag_is_two_characters():
    """🇫🇷 is two code points of four bytes each: they may come out one after the other."""
    assert [len(char.encode()) for char in "🇫🇷"] == [4, 4]


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_eos_is_ignored(lab):
    """An id that is not a byte, such as EOS 257, returns "" and changes nothing, even inside a
    character.
    """
    new = lab.new("StreamingDetokenizer")
    trace = lab.stream(new, end="", pieces=[0xF0, 0x9F, 257, 0x9A, 256, 258, 0x80, 257])
    expect(trace.outputs, ["", "", "", "", "", "", "🚀", ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_negative_and_huge_ids_are_ignored(lab):
    """Negative and huge ids return "" too, and leave a half character as it was."""
    trace = lab.stream(
        lab.new("StreamingDetokenizer"), end="", pieces=[0xC3, -1, -87, 2**32, 10**30, 0xA9]
    )
    expect(trace.outputs, ["", "", "", "", "", "é"], trace)
    expect(trace.held[:5], [b"\xc3"] * 5, trace, "held")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_held_shows_the_open_bytes(lab):
    """`held` is exactly the bytes that wait for the rest of their character, else b""."""
    trace = feed(lab, "a🚀b".encode())
    expect(trace.held, [b"", b"\xf0", b"\xf0\x9f", b"\xf0\x9f\x9a", b"", b""], trace, "held")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_lead_then_ascii_resolves_at_once(lab):
    """A byte that cannot continue a sequence ends it at once: when 41 arrives after E2, one U+FFFD
    and an A come out.
    """
    for data, pieces in (
        (b"\xe2A", ["", "\ufffdA"]),
        (b"\xf0ab\xc3\xa9", ["", "\ufffda", "b", "", "é"]),
        (b"\xc3\xc3\xa9", ["", "\ufffd", "é"]),
    ):
        trace = feed(lab, data)
        expect(trace.outputs, pieces, trace, f"bytes {data.hex(' ')}")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_dead_bytes_resolve_at_once(lab):
    """A byte that cannot start a character, such as 80, C0, F5 or FF, is a U+FFFD the moment it
    arrives.
    """
    trace = feed(lab, bytes.fromhex("80 c0 c2 80 f5 ff"))
    expect(trace.outputs, ["\ufffd", "\ufffd", "", "\x80", "\ufffd", "\ufffd"], trace)


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_bad_second_byte_kills_the_sequence(lab):
    """After E0, ED, F0 and F4 not every continuation byte is legal: ED A0 is two U+FFFD, at its
    second byte.
    """
    for text in ("e0 80", "ed a0", "f0 80", "f4 90"):
        trace = feed(lab, bytes.fromhex(text))
        expect(trace.outputs, ["", "\ufffd\ufffd"], trace, f"bytes {text}")


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_legal_second_bytes_still_wait(lab):
    """The characters at the edges of the legal ranges still come out whole: U+0800, U+D7FF,
    U+10000, U+10FFFF.
    """
    for char in "\u0800\ud7ff\ue000\U00010000\U0010ffff\ufeff":
        trace = feed(lab, char.encode())
        silences = [""] * (len(char.encode()) - 1)
        expect(trace.outputs, [*silences, char], trace, f"U+{ord(char):04X}")


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_real_replacement_character_passes(lab):
    """A U+FFFD that the model wrote (EF BF BD) is text like any other: it comes out with its last
    byte.
    """
    trace = feed(lab, "a\ufffd\ufffdb".encode())
    expect(trace.outputs, ["a", "", "", "\ufffd", "", "", "\ufffd", "b"], trace)


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_flush_handles_truncated_sequence(lab):
    """A stream cut inside a character ends in one U+FFFD, however many bytes were held."""
    for count in (1, 2, 3):
        trace = feed_all(lab, b"ok" + "🚀".encode()[:count])
        expect(trace.outputs, ["o", "k", *[""] * count, "\ufffd"], trace, f"{count} bytes held")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_flush_once(lab):
    """A second flush returns "", and so does a flush with nothing held; after any flush nothing is
    held.
    """
    calls = [("flush",), ("feed", 0xF0), ("flush",), ("flush",)]
    trace = lab.script(lab.new("StreamingDetokenizer"), calls)
    expect(trace.outputs, ["", "", "\ufffd", ""], trace)
    expect(trace.held, [b"", b"\xf0", b"", b""], trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_fresh_after_flush(lab):
    """After flush the detokenizer is as new: no byte from before it joins a byte after it."""
    calls = [("feed", 0xF0), ("feed", 0x9F), ("flush",), ("feed", 0x9A), ("feed", 0x41)]
    trace = lab.script(lab.new("StreamingDetokenizer"), calls)
    expect(trace.outputs, ["", "", "\ufffd", "\ufffd", "A"], trace)


@pytest.mark.task(3)
@pytest.mark.points(10)
def test_property_exact_and_eager_on_all_short_strings(lab):
    """complete, honest, eager: for every string of up to 3 bytes of 18 kinds, each byte emits all
    that is certain and no more.
    """
    for data in small_bytes(CLASSES, 3):
        expect_exact_and_eager(lab, data)


@pytest.mark.task(3)
@pytest.mark.points(8)
def test_property_exact_and_eager_on_random_bytes(lab):
    """complete, honest, eager: the same for random bytes and for valid text with one byte knocked
    out.
    """
    for length in range(4, 200):
        data = bytearray(lab.random.choices(CLASSES, k=length))
        if length % 2:
            data = bytearray("".join(lab.random.choices(MIXED, k=length)).encode())
            del data[lab.random.randrange(len(data))]
        expect_exact_and_eager(lab, bytes(data))


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: two streams fed in turns give what each gives alone."""
    streams = ["🚀你".encode(), b"\xe2\x82A" + "é🚀".encode()]
    new = lab.new("StreamingDetokenizer")
    for data, trace in zip(streams, lab.interleave([new, new], streams, "flush"), strict=True):
        expect(trace.outputs, [*expected_pieces(data), ""], trace)


@pytest.mark.task(3)
@pytest.mark.points(2)
@pytest.mark.timeout(10)
def test_property_linear(lab):
    """linear: 100,000 characters, fed one byte at a time, finish well within the time limit."""
    text = ("naïve 你好 🚀 " * 10_000)[:100_000]
    trace = lab.stream(lab.new("StreamingDetokenizer"), list(text.encode()), watch="")
    expect(trace.text == text, True, "100,000 characters fed one token at a time: text is equal")
