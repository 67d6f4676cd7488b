"""Lab 03: the streaming detokenizer. Each docstring states the rule that its test pins."""

import itertools
import re

import pytest

from labkit.testing import check, decided, decoded, expect, small_bytes, undecided

MIXED = "naïve café — 你好 🚀🇫🇷"
# One byte of every kind that the rules treat differently.
CLASSES = bytes.fromhex("41 80 8f 90 9f a0 bf c0 c2 df e0 e2 ed ef f0 f4 f5 ff")


# Ids that are no bytes: they return "" and change nothing.
ODD = [256, 257, 258, 321, -1, -191, 2**32, 10**30]


def feed(lab, ids, end="", watch=""):
    """Feed ids one by one; leave the stream open unless there is an `end`."""
    return lab.stream(lab.new("StreamingDetokenizer"), list(ids), end=end, watch=watch)


def expected_pieces(ids):
    """What each id must emit: the text that the bytes so far determine, less what was out."""
    counts = itertools.accumulate((0 <= token_id <= 255 for token_id in ids), initial=0)
    data = bytes(token_id for token_id in ids if 0 <= token_id <= 255)
    texts = [decided(data[:count]) for count in counts]
    return [now[len(before) :] for before, now in itertools.pairwise(texts)]


def expected_end(ids):
    """What flush must emit: U+FFFD for a character that was cut off, else nothing."""
    data = bytes(token_id for token_id in ids if 0 <= token_id <= 255)
    return "\ufffd" if undecided(data) else ""


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
    for value in (256, -1, 1000, -128):
        message = lab.rejects("utf8_expected_len", value)
        named = str(value) in re.findall(r"-?\d+", message)
        expect(named, True, f"utf8_expected_len({value})", f"{value} is in {message!r}")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_ascii_streams_one_char_per_token(lab):
    """An ASCII character is complete at once, so it comes out at once; so do NUL and line ends."""
    trace = feed(lab, b"Hello, \x00\r\n!")
    expect(trace.outputs, [*"Hello, \x00\r\n!"], trace)


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_emoji_is_held_until_complete(lab):
    """Three silences, one rocket: a character comes out whole, with the byte that completes it."""
    trace = feed(lab, "🚀".encode())
    expect(trace.outputs, ["", "", "", "🚀"], trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_every_length_waits_for_its_last_byte(lab):
    """A character of n bytes gives n-1 silences: é, 你 and 🚀 wait one, two and three tokens."""
    trace = feed(lab, "é你🚀a".encode())
    expect(trace.outputs, ["", "é", "", "", "你", "", "", "", "🚀", "a"], trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
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
@pytest.mark.points(4)
def test_eos_is_ignored(lab):
    """An id that is not a byte, such as EOS 257, returns "" and changes nothing, even inside a
    character.
    """
    trace = feed(lab, [257, 0xF0, 0x9F, 257, 0x9A, 256, 258, 0x80, 257])
    expect(trace.outputs, ["", "", "", "", "", "", "", "🚀", ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_negative_and_huge_ids_are_ignored(lab):
    """Negative and huge ids return "" too, and leave a half character as it was."""
    trace = feed(lab, [-1, 0xC3, *ODD, 0xA9])
    expect(trace.outputs, ["", "", *[""] * len(ODD), "é"], trace)


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_held_shows_the_open_bytes(lab):
    """`held` is a `bytes`: those that wait for the rest of their character, and none of a character
    that is out or can no longer come.
    """
    rocket = ["a🚀b".encode(), b"\xf0\x9f\x9aA"]
    for data in (*rocket, *(data + b"A" for data in small_bytes(CLASSES, 2))):
        trace = feed(lab, data, watch="held")
        held = [undecided(data[:count]) for count in range(1, len(data) + 1)]
        expect(trace.held, held, trace, f"held after each of the bytes {data.hex(' ')}")


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_a_new_detokenizer_is_empty(lab):
    """What one detokenizer holds is its own: a new one starts with nothing."""
    feed(lab, b"\xe2")
    trace = feed(lab, b"A")
    expect(trace.outputs, ["A"], trace, "a new one, while another holds E2")


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
        (b"\xe2\x82\xc3\xa9", ["", "", "\ufffd", "é"]),
        (b"\xf0\x9f\x9aA", ["", "", "", "\ufffdA"]),
    ):
        trace = feed(lab, data)
        expect(trace.outputs, pieces, trace, f"bytes {data.hex(' ')}")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_dead_bytes_resolve_at_once(lab):
    """A byte that cannot start a character, such as 80, C0, F5 or FF, is a U+FFFD the moment it
    arrives.
    """
    trace = feed(lab, bytes.fromhex("80 c0 c2 80 f5 ff c1 bf f8"))
    dead = ["\ufffd"] * 5
    expect(trace.outputs, ["\ufffd", "\ufffd", "", "\x80", *dead], trace)


@pytest.mark.task(2)
@pytest.mark.points(4)
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
    U+10000, U+10FFFF. So does one for each first byte, from C2 to F4.
    """
    two, three = range(0x80, 0x800, 0x40), [0x800, *range(0x1000, 0x10000, 0x1000)]
    lowest = [*two, *three, 0x10000, *range(0x40000, 0x110000, 0x40000)]
    for char in (*"\ud7ff\U0010ffff\ufeff", *map(chr, lowest)):
        trace = feed(lab, char.encode())
        silences = [""] * (len(char.encode()) - 1)
        expect(trace.outputs, [*silences, char], trace, f"U+{ord(char):04X}")


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_real_replacement_character_passes(lab):
    """A U+FFFD that the model wrote (EF BF BD) is text like any other: it comes out with its last
    byte.
    """
    trace = feed(lab, "a\ufffd\ufffdb".encode())
    expect(trace.outputs, ["a", "", "", "\ufffd", "", "", "\ufffd", "b"], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_flush_handles_truncated_sequence(lab):
    """A stream cut inside a character ends in one U+FFFD, however many bytes were held."""
    for count in (1, 2, 3):
        trace = feed(lab, b"ok" + "🚀".encode()[:count], "flush")
        expect(trace.outputs, ["o", "k", *[""] * count, "\ufffd"], trace, f"{count} bytes held")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_flush_once(lab):
    """A second flush returns "", and so does a flush with nothing held."""
    calls = [("flush",), ("feed", 0xF0), ("flush",), ("flush",), ("feed", 0x41), ("flush",)]
    trace = lab.script(lab.new("StreamingDetokenizer"), calls, watch="")
    expect(trace.outputs, ["", "", "\ufffd", "", "A", ""], trace)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_nothing_is_held_after_flush(lab):
    """After any flush `held` is b""."""
    calls = [("flush",), ("feed", 0xF0), ("feed", 0x9F), ("flush",), ("flush",)]
    trace = lab.script(lab.new("StreamingDetokenizer"), calls)
    expect(trace.held, [b"", b"\xf0", b"\xf0\x9f", b"", b""], trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_fresh_after_flush(lab):
    """After flush the detokenizer is as new: no byte from before it joins a byte after it, and a
    second stream is read as the first one was.
    """
    calls = [("feed", 0xF0), ("feed", 0x9F), ("flush",), ("feed", 0x9A), ("feed", 0x41)]
    trace = lab.script(lab.new("StreamingDetokenizer"), calls, watch="")
    expect(trace.outputs, ["", "", "\ufffd", "\ufffd", "A"], trace)
    rocket = [("feed", byte) for byte in "🚀".encode()]
    trace = lab.script(lab.new("StreamingDetokenizer"), [*rocket, ("flush",)] * 3, watch="")
    expect(trace.outputs, ["", "", "", "🚀", ""] * 3, trace)


@pytest.mark.task(3)
@pytest.mark.points(9)
def test_property_exact_and_eager_on_all_short_strings(lab):
    """complete, honest, eager: for every string of up to 3 bytes of 18 kinds, each byte emits all
    that is certain and no more, and flush the rest.
    """
    for data in small_bytes(CLASSES, 3):
        trace = feed(lab, data, "flush")
        pieces = [*expected_pieces(data), expected_end(data)]
        expect(trace.outputs, pieces, trace, f"bytes {data.hex(' ')}, then flush")


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_property_exact_and_eager_on_random_streams(lab):
    """complete, honest, eager: the same for random bytes and for valid text with one byte knocked
    out, odd ids among them, and for streams after a flush.
    """

    def rule(streams):
        calls = [[*(("feed", token_id) for token_id in ids), ("flush",)] for ids in streams]
        trace = lab.script(lab.new("StreamingDetokenizer"), itertools.chain(*calls), watch="")
        pieces = [[*expected_pieces(ids), expected_end(ids)] for ids in streams]
        expect(trace.outputs, [*itertools.chain(*pieces)], trace)

    def cases():
        for length in range(4, 120):
            text = "".join(lab.random.choices(MIXED, k=length)).encode()
            where = lab.random.randrange(len(text))
            odd = lab.random.choices([*CLASSES, *ODD], k=length)
            yield [[*text[:where], *text[where + 1 :]], odd, lab.random.choices(CLASSES, k=9)]

    check(rule, cases())


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_isolated(lab):
    """isolated: two streams fed in turns give what each gives alone."""
    streams = ["🚀你".encode(), b"\xe2\x82A" + "é🚀".encode()]
    new = lab.new("StreamingDetokenizer")
    for data, trace in zip(streams, lab.interleave([new, new], streams, "flush"), strict=True):
        expect(trace.outputs, [*expected_pieces(data), ""], trace)


@pytest.mark.task(3)
@pytest.mark.points(10)
@pytest.mark.timeout(10)
def test_property_linear(lab):
    """linear: a token costs the same however many came before it, so 140,000 bytes that are no
    UTF-8 and 60,000 that are finish well within the time limit.
    """
    few = b"\xed\xa0" * 10 + MIXED.encode()
    trace = feed(lab, few, "flush")
    expect(trace.text, decoded(few), trace, "text of a short stream of the same kind")
    data = b"\xed\xa0" * 70_000 + (MIXED.encode() * 2_000)[:60_000]
    trace = feed(lab, data, "flush")
    expect(trace.text == decoded(data), True, "200,000 bytes fed one at a time: text is equal")
