"""Lab 03: the streaming detokenizer. Each docstring states the rule that its test checks.

Fixed cases come first, then cases drawn from the seed: `LAB_SEED=1 make lab N=03` draws others.
"""

import itertools
import re

import pytest

from labkit.testing import (
    Call,
    Failure,
    check,
    cut,
    decided,
    decoded,
    expect,
    expect_long,
    expect_most,
    put_in,
    show,
    small_bytes,
    undecided,
)

DETOKENIZER = "StreamingDetokenizer"
MIXED = "naïve café — 你好 🚀🇫🇷"
# One byte of every kind that the rules treat differently.
CLASSES = bytes.fromhex("41 80 8f 90 9f a0 bf c0 c2 df e0 e2 ed ef f0 f3 f4 f5 ff")
# Ids that are not bytes: they return "" and change nothing.
ODD = [256, 257, 258, 321, -1, -191, 2**32, 10**30]
SIGNED = [*range(-1, -300, -1), *range(256, 600)]
WIDE = [sign * 2**bits + 65 for bits in (15, 16, 31, 32, 63, 64, 70) for sign in (1, -1)]
# Some characters of one, two, three and four bytes.
ASCII, LATIN = range(0x20, 0x7F), range(0xC0, 0x250)
CHINESE, EMOJI = range(0x4E00, 0xA000), range(0x1F300, 0x1F600)
# Characters that line endings, normal forms, joiners or strict readers change, hold or drop.
RARE = [*map(ord, "\x00\r\n\x85\xad\u0301\u200b\u200d\u2028\u212b\ufdd0\ufe0f\ufeff\uffff")]
# Streams of one of these, repeated: characters, ill-formed bytes, ids that are not bytes.
KINDS = [*map(str.encode, "a\né你🚀"), b"\x80", b"\xff", b"\xed\xa0", b"\xe2\x82A", [300], [-1]]
# By how many bytes a detokenizer may grow.
MOST_GROWN = 1_000
WEIGH = Call("weight", None, object=1)
# The first bytes after which not every second byte is legal, with the legal second bytes.
_LEGAL = [(0xE0, 0xA0, 0xBF), (0xED, 0x80, 0x9F), (0xF0, 0x90, 0xBF), (0xF4, 0x80, 0x8F)]
SECOND = {first: range(least, most + 1) for first, least, most in _LEGAL}
CONTINUATION = range(0x80, 0xC0)


def feed(lab, ids, end="", watch=""):
    """Feed ids one by one; leave the stream open unless there is an `end`."""
    return lab.stream(lab.new(DETOKENIZER), list(ids), end=end, watch=watch)


def expected_pieces(ids):
    """Return what each id must emit: the text that is certain now, less the text emitted before."""
    held, pieces = b"", []
    for token_id in ids:
        data = held + (bytes([token_id]) if 0 <= token_id <= 255 else b"")
        held = undecided(data)
        pieces.append(decided(data))
    return pieces


def expected_end(ids):
    """Return what flush must emit: U+FFFD for a character that was cut off, else nothing."""
    data = bytes(token_id for token_id in ids if 0 <= token_id <= 255)
    return "\ufffd" if undecided(data) else ""


def expected_held(data):
    """Return what must be held after each byte."""
    return [undecided(data[:count]) for count in range(1, len(data) + 1)]


def calls_of(streams, flushes):
    """Return the calls that feed streams one after the other, with `flushes` flushes after each."""
    calls = ([*(("feed", i) for i in ids), *[("flush",)] * flushes] for ids in streams)
    return [*itertools.chain(*calls)]


def emits(lab, ids, what="", empty=("", None)):
    """Each id must emit the text that it makes certain, and no more.

    Whether no text is `""` or None is for a few tests, which say so: they allow only `empty`.
    """
    trace = feed(lab, ids)
    expect(without_none(trace.outputs, empty), expected_pieces(ids), trace, what)


def emits_and_ends(lab, *streams, flushes=1, empty=("", None)):
    """The same for streams one after the other, each ended by `flushes` flushes."""
    trace = lab.script(lab.new(DETOKENIZER), calls_of(streams, flushes), watch="")
    silences = [""] * (flushes - 1)
    pieces = [[*expected_pieces(ids), expected_end(ids), *silences] for ids in streams]
    expect(without_none(trace.outputs, empty), [*itertools.chain(*pieces)], trace)


def without_none(outputs, empty=("", None)):
    """Return the outputs, with `""` for None, if `empty` has None."""
    return ["" if text is None and None in empty else text for text in outputs]


def some_texts(lab, *kinds, count=12):
    """Draw texts of these kinds of characters, short ones first."""
    for length in sorted(lab.random.choices(range(2, 20), k=count)):
        drawn = lab.random.choices(kinds or (ASCII, LATIN, CHINESE, EMOJI), k=length)
        yield "".join(chr(lab.random.choice(kind)) for kind in drawn)


def some_bytes(lab, count=24):
    """Draw byte strings with many broken characters, short ones first."""
    for length in sorted(lab.random.choices(range(4, 16), k=count)):
        yield bytes(lab.random.choices(CLASSES, k=length))


def some_odd(lab):
    """Draw ids that are not bytes: near and far, below and above."""
    far = [lab.random.randint(1, 10 ** lab.random.randint(1, 24)) for _ in range(9)]
    return [lab.random.choice([-distance, 258 + distance]) for distance in far]


def a_start(lab):
    """Draw the first bytes of a character: at least one, and not all."""
    char = chr(lab.random.choice(lab.random.choice([LATIN, CHINESE, EMOJI]))).encode()
    return char[: lab.random.randint(1, len(char) - 1)]


def announces(lab, byte):
    """utf8_expected_len must return the length in the table."""
    table = [1] * 0x80 + [0] * 0x42 + [2] * 0x1E + [3] * 0x10 + [4] * 5 + [0] * 11
    got = lab.call("utf8_expected_len", byte)
    expect(got, table[byte], f"utf8_expected_len(0x{byte:02X})")


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_utf8_expected_len_table(lab):
    """The first byte announces the length: 00-7F one byte, C2-DF two, E0-EF three, F0-F4 four. For
    all other bytes the length is 0.
    """
    check(lambda byte: announces(lab, byte), range(256))


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_utf8_expected_len_knows_dead_first_bytes(lab):
    """No character starts with C0 or C1 (only overlong forms would) or with F5-FF (beyond
    U+10FFFF): the length is 0. C4, E4 and F1 start a character.
    """
    dead = [0xC0, 0xC1, 0xF5, 0xF7, 0xF8, 0xFF]
    check(lambda byte: announces(lab, byte), [*dead, 0xC4, 0xE4, 0xF1])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_emoji_is_held_until_complete(lab):
    """Three silences, one rocket: a character is emitted whole, with the byte that completes it. A
    silence is "", not None.
    """
    check(lambda text: emits(lab, text.encode(), empty=[""]), ["🚀", *some_texts(lab, EMOJI)])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_every_length_waits_for_its_last_byte(lab):
    """A character of n bytes gives n-1 silences: one for é, two for 你, three for 🚀."""
    check(lambda text: emits(lab, text.encode()), ["é你🚀a", *some_texts(lab)])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_never_emits_replacement_chars_for_valid_text(lab):
    """Valid text is emitted unchanged: no U+FFFD appears, and no character is lost. That includes
    every character of up to three bytes, each emitted with its last byte, whatever it is: a joiner,
    an accent or a noncharacter.
    """

    def rule(text):
        trace = feed(lab, text.encode())
        expect("".join(without_none(trace.outputs)), text, trace)

    def alone(text):
        trace = lab.script(lab.new("given.Reader", lab.new(DETOKENIZER)), feed_all(text), watch="")
        silences = ([""] * (len(char.encode()) - 1) + [char] for char in text)
        pieces = without_none(trace.outputs[0])
        what = f"the characters from U+{ord(text[0]):04X}"
        expect(pieces, [*itertools.chain(*silences)], trace, what)

    check(rule, [MIXED, *some_texts(lab)])
    codes = [*range(0xD800), *range(0xE000, 0x10000)]
    blocks = ("".join(map(chr, codes[i : i + 512])) for i in range(0, len(codes), 512))
    check(lambda text: alone(text) if text else None, blocks)


def feed_all(text):
    """Return the calls that feed the bytes of a text to a reader's detokenizer."""
    return [("feed_all", text.encode())]


@pytest.mark.given
def test_naive_approach_really_is_broken():
    """Decoding every token alone turns one rocket into four replacement characters."""
    naive = [bytes([byte]).decode("utf-8", "replace") for byte in "🚀".encode()]
    assert naive == ["\ufffd"] * 4


@pytest.mark.given
def test_naive_flag_is_two_characters():
    """🇫🇷 is two code points of four bytes each, which may be emitted one after the other."""
    assert [len(char.encode()) for char in "🇫🇷"] == [4, 4]


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_ascii_streams_one_char_per_token(lab):
    """An ASCII character is complete at once, so it is emitted at once, NUL and line endings
    included. The bytes of an emoji among them are held.
    """
    texts = ["Hello, \x00\r\n!", *some_texts(lab, ASCII, ASCII, EMOJI)]
    check(lambda text: emits(lab, text.encode()), texts)


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_lead_then_ascii_resolves_at_once(lab):
    """A byte that cannot continue a sequence ends it at once: when 41 arrives after E2, one U+FFFD
    and an A are emitted.
    """
    fixed = [b"\xe2A", b"\xf0ab\xc3\xa9", b"\xc3\xc3\xa9", b"\xe2\x82\xc3\xa9", b"\xf0\x9f\x9aA"]
    drawn = (a_start(lab) + text.encode() for text in some_texts(lab))
    check(lambda data: emits(lab, data), [*fixed, *drawn])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_dead_bytes_resolve_at_once(lab):
    """A byte that cannot start a character (80, C0, F5, FF ...) is emitted as U+FFFD at once, after
    ASCII, after other characters and after such bytes.
    """
    dead = [bytes([byte]) for byte in (*range(0x80, 0xC2), *range(0xF5, 0x100))]
    drawn = (put_in(map(str.encode, text), dead, lab.random) for text in some_texts(lab))
    fixed = bytes.fromhex("80 c0 c2 80 f5 ff c1 bf f8")
    after = (b"".join(start + byte for byte in dead) for start in (b"", b"A", "é你🚀".encode()))
    check(lambda data: emits(lab, data), [fixed, *after, *map(b"".join, drawn)])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_bad_second_byte_kills_the_sequence(lab):
    """After E0, ED, F0 and F4 not every continuation byte is legal: ED A0 is two U+FFFD, emitted
    with the second byte.
    """
    bad = [bytes([a, b]) for a, legal in SECOND.items() for b in CONTINUATION if b not in legal]
    drawn = (b"".join(lab.random.sample(bad, count)) for count in range(2, 14))
    check(
        lambda data: emits(lab, data), [b"\xe0\x80", b"\xed\xa0", b"\xf0\x80", b"\xf4\x90", *drawn]
    )


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_legal_second_bytes_still_wait(lab):
    """The characters at the limits of the legal ranges are emitted whole: U+0800, U+D7FF, U+10000,
    U+10FFFF. So are characters for each first byte from C2 to F4 with each legal second byte.
    """
    texts = [*"\u0800\ud7ff\U00010000\U0010ffff\ufeff"]
    steps = (0x80, 0x800, 0x40), (0x800, 0xD800, 0x40), (0xE000, 0x10000, 0x40)
    steps = *steps, (0x10000, 0x110000, 0x1000), (0x10FFF, 0x110000, 0x1000)
    for codes in itertools.starmap(range, steps):
        texts += ["".join(map(chr, codes[i : i + 64])) for i in range(0, len(codes), 64)]
    for text in some_texts(lab):
        first, legal = lab.random.choice([*SECOND.items()])
        rest = lab.random.choices(CONTINUATION, k=1 if first < 0xF0 else 2)
        texts.append(bytes([first, lab.random.choice(legal), *rest]).decode() + text)
    check(lambda text: emits(lab, text.encode()), texts)


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_real_replacement_character_passes(lab):
    """A U+FFFD that the model wrote (EF BF BD) is text like any other: it is emitted with its last
    byte.
    """
    drawn = ("".join(put_in(text, "\ufffd", lab.random)) for text in some_texts(lab))
    check(lambda text: emits(lab, text.encode()), ["a\ufffd\ufffdb", *drawn])


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_held_shows_the_open_bytes(lab):
    """`held` is a `bytes` object: exactly the bytes at the end of the stream that can still become
    a character. Reading it changes nothing: the text of well-formed bytes is still right.
    """

    def rule(data):
        calls = [*itertools.chain(*((("feed", byte), "held", "held") for byte in data))]
        trace = lab.script(lab.new(DETOKENIZER), calls, watch="")
        held = [*itertools.chain(*([both] * 2 for both in expected_held(data)))]
        reads = [text for number, text in enumerate(trace.outputs) if number % 3]
        expect(reads, held, trace, f"held, read twice after each of {data.hex(' ')}")
        if decided(data).isprintable() and "\ufffd" not in decoded(data):
            expect(without_none(trace.outputs[::3]), expected_pieces(data), trace, "the text")

    # An A ends an incomplete character, so all pairs with the same first byte fit into one stream.
    twos = (b"".join(bytes([a, b]) + b"A" for b in CLASSES) for a in CLASSES)
    check(
        rule, ["a🚀b".encode(), b"\xf0\x9f\x9aA", *twos, *(data + b"A" for data in some_bytes(lab))]
    )


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_a_new_detokenizer_is_empty(lab):
    """Each detokenizer has held bytes of its own: a new detokenizer holds nothing, even before its
    first byte.
    """

    def rule(case):
        start, text = case
        emits(lab, start)
        what = f"a new one, while another holds {undecided(start).hex(' ')}"
        emits(lab, [*text.encode(), 0x41], what)
        trace = lab.script(lab.new(DETOKENIZER), ["held", *(("feed", b) for b in b"A")], watch="")
        expect(trace.outputs[0], b"", trace, f"held of {what}")

    check(rule, [(b"\xe2", ""), *((a_start(lab), text) for text in some_texts(lab))])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_eos_is_ignored(lab):
    """An id that is not a byte, such as EOS 257, returns "", not None, and changes nothing, even
    inside a character: `held` is the same before and after it.
    """

    def rule(ids):
        emits(lab, ids, empty=[""])
        reader = lab.new("given.Reader", lab.new(DETOKENIZER))
        changes = lab.call(reader, "changes_of_held", ids)
        expect([i for i in changes if i > 255], [], f"ids {ids}", "the ids that change `held`")

    fixed = [257, 0xF0, 0x9F, 257, 0x9A, 256, 258, 0x80, 257]
    drawn = (put_in(text.encode(), [256, 257, 258], lab.random) for text in some_texts(lab))
    check(rule, [fixed, *drawn])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_negative_and_huge_ids_are_ignored(lab):
    """Negative and huge ids also return "", and leave a half character unchanged: all ids near the
    bytes, and some far from them.
    """
    drawn = (put_in(text.encode(), some_odd(lab), lab.random) for text in some_texts(lab))
    fixed = [[-1, 0xC3, *ODD, 0xA9], [0xE0, *WIDE, 0xA0, *SIGNED, 0x80]]
    check(lambda ids: emits(lab, ids), [*fixed, *drawn])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_flush_handles_truncated_sequence(lab):
    """A stream that is cut off inside a character ends with one U+FFFD, however many bytes were
    held. After a complete character, flush returns "".
    """
    rocket = "🚀".encode()
    fixed = [b"ok" + rocket[:count] for count in range(4)]
    drawn = (text.encode() + a_start(lab) for text in some_texts(lab))
    check(lambda data: emits_and_ends(lab, data), [*fixed, *drawn])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_flush_once(lab):
    """A second flush returns "", not None, and so does a flush with nothing held."""

    def rule(streams):
        emits_and_ends(lab, *streams, flushes=2, empty=[""])

    drawn = ([text.encode() + a_start(lab)[:1], b"A"] for text in some_texts(lab))
    check(rule, [[b"", b"\xf0", b"A"], *drawn])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_nothing_is_held_after_flush(lab):
    """After any flush, `held` is b""."""

    def rule(streams):
        trace = lab.script(lab.new(DETOKENIZER), calls_of(streams, 2))
        held = [[*expected_held(data), b"", b""] for data in streams]
        expect(trace.held, [*itertools.chain(*held)], trace, "held")

    drawn = ([a_start(lab) for _ in range(count)] for count in lab.random.choices(range(3, 9), k=8))
    check(rule, [[b"", b"\xf0\x9f"], *drawn])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_fresh_after_flush(lab):
    """After flush the detokenizer has fresh state: no byte from before the flush joins a byte after
    it, and a second stream gives the output that it would give as the first, with whatever
    character it begins.
    """
    fixed = [[b"\xf0\x9f", b"\x9aA"], ["🚀".encode()] * 3]
    fixed += [[f"{chr(code)}A".encode()] * 2 for code in RARE]
    drawn = (cut(text.encode(), lab.random) for text in some_texts(lab))
    check(lambda streams: emits_and_ends(lab, *streams), [*fixed, *drawn])


@pytest.mark.task(3)
@pytest.mark.points(9)
def test_property_exact_and_eager_on_all_short_strings(lab):
    """complete, honest, eager: for every string of up to 3 bytes of 19 kinds, and for longer ones,
    each byte emits all text that is certain and no more, and flush returns the rest. No text is "",
    not None.
    """
    pairs = [*small_bytes(CLASSES, 2)]
    # An A ends an incomplete character, so 19 strings of three bytes fit into one stream.
    threes = (b"".join(pair + bytes([last]) + b"A" for last in CLASSES) for pair in pairs)
    cases = [*pairs, *threes, *some_bytes(lab, 60)]
    check(lambda data: emits_and_ends(lab, data, empty=[""]), cases)


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_property_exact_and_eager_on_random_streams(lab):
    """complete, honest, eager: the same for valid text with one byte removed, for random bytes with
    odd ids among them, and for streams after a flush.
    """

    def cases():
        for length in range(4, 120, 3):
            text = "".join(lab.random.choices(MIXED, k=length)).encode()
            where = lab.random.randrange(len(text))
            odd = lab.random.choices([*CLASSES, *ODD], k=length)
            yield [[*text[:where], *text[where + 1 :]], odd, lab.random.choices(CLASSES, k=9)]

    check(lambda streams: emits_and_ends(lab, *streams), cases())


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_isolated(lab):
    """isolated: streams fed in turns give the same output as each stream alone."""

    def rule(streams):
        news = [lab.new(DETOKENIZER)] * len(streams)
        for data, trace in zip(streams, lab.interleave(news, streams, "flush"), strict=True):
            expect(without_none(trace.outputs), [*expected_pieces(data), ""], trace)

    fixed = ["🚀你".encode(), b"\xe2\x82A" + "é🚀".encode()]
    drawn = ([text.encode() for text in some_texts(lab, count=3)] for _ in range(8))
    check(rule, [fixed, *drawn])


@pytest.mark.task(3)
@pytest.mark.points(7)
@pytest.mark.timeout(10)
def test_property_linear(lab):
    """linear: feeding a token takes the same time at the end of a long stream as at its start, so
    some 130,000 bytes, most of them ill-formed, finish well within the time limit.
    """
    broken = bytes([0xED, lab.random.randint(0xA0, 0xBF)])
    for size in (100, lab.random.randint(120_000, 150_000)):
        # The A's complete the count of code that only counts bytes: this test is about cost alone.
        text = "AAA" + "".join(lab.random.choices(MIXED, k=size // 8))
        data = broken * (size // 3) + text.encode()
        trace = feed(lab, data, "flush")
        call = f"{len(data):,} bytes fed one at a time, then flush"
        pieces = without_none(trace.outputs)
        expect_long("".join(pieces), decoded(data), call)
        expect_most(len(pieces[-1]), 3, call, "characters returned by flush: 3 bytes are held")


@pytest.mark.task(3)
@pytest.mark.points(3)
@pytest.mark.timeout(10)
def test_property_keeps_nothing(lab):
    """linear: a detokenizer does not grow with the text that it has emitted, nor with ids that are
    not bytes. This is tried with thousands of tokens of one kind, such as the same character, the
    same ill-formed byte or the same ignored id, with reads of `held`, and with many flushes. Each é
    is emitted. 60,000 ignored ids, each flushed, finish well within the time limit.
    """
    size = lab.random.randint(1_000, 1_500)
    for kind, ends in itertools.product(KINDS, (False, True)):
        new = lab.new(DETOKENIZER)
        few, many = (Call("feed_silently", ([*kind] * count, ends)) for count in (500, size))
        calls = [few, WEIGH, many, many, WEIGH]
        trace = lab.script([lab.new("given.Reader", new), lab.new("given.Scale", new)], calls, "")
        unit = kind.hex(" ") if isinstance(kind, bytes) else f"id {kind[0]}"
        call = f"{2 * size:,} times {unit}" + ", each flushed" * ends
        if kind == "é".encode() and not ends:
            expect(trace.outputs[2:4], [size, size], call, "characters emitted")
        # Its own attributes may grow a little, such as a count.
        grown = trace.outputs[-1] - trace.outputs[1]
        expect_most(grown, MOST_GROWN, call, "bytes by which the detokenizer grows")
    reader = lab.new("given.Reader", lab.new(DETOKENIZER))
    lab.call(reader, "feed_silently", [-1] * 60_000, True)


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_utf8_expected_len_rejects_non_bytes(lab):
    """A value outside 0-255 is the caller's mistake: ValueError, and the message has the value. A
    byte is accepted.
    """

    def rule(value):
        if 0 <= value <= 255:
            # Whether the length is right is for other tests.
            lab.call("utf8_expected_len", value)
            return
        message = lab.rejects("utf8_expected_len", value)
        named = str(value) in re.findall(r"-?\d+", message)
        if not named:
            raise Failure(
                f"a message that contains {value}", show(message), f"utf8_expected_len({value})"
            )

    far = [*WIDE, *some_odd(lab), lab.random.choice(ASCII)]
    check(rule, [65, 256, -1, 1000, -128, *far])
