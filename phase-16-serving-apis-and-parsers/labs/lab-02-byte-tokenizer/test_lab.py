"""Lab 02: the byte tokenizer. Each docstring states the rule that its test pins."""

import re

import pytest

from labkit.testing import (
    check,
    decoded,
    expect,
    expect_in,
    expect_untouched,
    small_bytes,
    small_strings,
)

SCRIPTS = [
    "abc",
    "naïve café",
    "你好，世界",
    "مرحبا",
    "नमस्ते",
    "🚀🇫🇷👩‍👩‍👧",
    "e\u0301",
    "\ufeff\u2028\x00\r\n",
    " \t<eos> a <bos>b\n",
    "\x7f\x80\u07ff\u0800\ud7ff\uffff\U00010000\U0010ffff",
    "\ufffd",
]
SPECIAL = {256: "<bos>", 257: "<eos>", 258: "<pad>"}
CLASSES = bytes.fromhex("41 80 9f a0 bf c0 c3 e0 e4 ed f0 f4 ff")


def shown(ids):
    """What decode must return when special ids are shown: each run of bytes decoded alone."""
    texts, run = [], b""
    for token_id in [*ids, None]:
        if token_id is not None and token_id < 256:
            run += bytes([token_id])
        else:
            texts += [decoded(run), SPECIAL.get(token_id, "")]
            run = b""
    return "".join(texts)


def expect_number(number, message, call):
    """The message must give the number, as a number of its own."""
    numbers = re.findall(r"-?\d+", message.replace("U+", ""))
    expect(str(number) in numbers, True, call, f"{number} is in {message!r}")


@pytest.mark.given
def test_the_vocabulary_is_given(lab):
    """The vocabulary has 259 ids: 256 bytes, BOS 256, EOS 257 and PAD 258."""
    reads = ["bos_token_id", "eos_token_id", "pad_token_id", "vocab_size"]
    trace = lab.script(lab.new("ByteTokenizer"), reads, watch="")
    assert trace.outputs == [256, 257, 258, 259]


@pytest.mark.given
def test_naive_decode_per_token_is_garbage():
    """Decoding every id alone turns one rocket into four replacement characters."""
    assert [decoded(bytes([byte])) for byte in "🚀".encode()] == ["\ufffd"] * 4


@pytest.mark.task(1)
@pytest.mark.points(6)
def test_encode_is_utf8_bytes(lab):
    """encode returns a list of the UTF-8 bytes of the text, one id each; "" gives []."""
    new = lab.new("ByteTokenizer")
    for text in ["", "a", "é", "你", "🚀", *SCRIPTS]:
        expect(lab.call(new, "encode", text), list(text.encode()), f"encode({text!r})")


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_encode_adds_bos_in_front_only(lab):
    """add_special_tokens puts one BOS in front, even of "", and nothing at the end; default off."""
    new = lab.new("ByteTokenizer")
    for text in ("", "hi"):
        ids = lab.call(new, "encode", text, add_special_tokens=True)
        expect(ids, [256, *text.encode()], f"encode({text!r}, add_special_tokens=True)")
        expect(lab.call(new, "encode", text), list(text.encode()), f"encode({text!r})")


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_encode_takes_special_names_as_text(lab):
    """The text "<eos>" is five plain characters: users must not be able to type special ids."""
    new = lab.new("ByteTokenizer")
    for text in ("<eos>", "a<bos>b", "<pad><eos>"):
        ids = lab.call(new, "encode", text, add_special_tokens=True)
        expect(ids, [256, *text.encode()], f"encode({text!r}, add_special_tokens=True)")


@pytest.mark.task(1)
@pytest.mark.points(8)
def test_encode_rejects_lone_surrogates(lab):
    """A lone surrogate has no UTF-8 form: ValueError, whose message gives the code point and the
    position, in characters, of the first one.
    """
    new = lab.new("ByteTokenizer")
    for text, name, position in (
        ("a\ud800", "U+D800", 1),
        ("🚀é\udfffb\ud800", "U+DFFF", 2),
        ("pair:\ud83d\ude80", "U+D83D", 5),
    ):
        for bos in (False, True):
            call = f"encode({text!r}, add_special_tokens={bos})"
            message = lab.rejects(new, "encode", text, add_special_tokens=bos)
            expect_in(name, message, call)
            expect_number(position, message.replace(name, ""), call)


@pytest.mark.task(2)
@pytest.mark.points(7)
def test_token_bytes_of_bytes(lab):
    """token_bytes of an id 0-255 is that one byte, even where the byte is not text on its own."""
    new = lab.new("ByteTokenizer")
    for token_id in range(256):
        got = lab.call(new, "token_bytes", token_id)
        expect(got, bytes([token_id]), f"token_bytes({token_id})")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_token_bytes_of_specials_is_empty(lab):
    """A special id stands for no bytes: token_bytes returns b""."""
    new = lab.new("ByteTokenizer")
    for token_id in SPECIAL:
        expect(lab.call(new, "token_bytes", token_id), b"", f"token_bytes({token_id})")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_token_bytes_rejects_unknown_ids(lab):
    """An id outside 0-258 is a ValueError whose message gives the id; -1 does not mean the last
    id.
    """
    new = lab.new("ByteTokenizer")
    for token_id in (259, 300, -1, -256, 2**32):
        message = lab.rejects(new, "token_bytes", token_id)
        expect_number(token_id, message, f"token_bytes({token_id})")


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_decode_inverts_encode(lab):
    """decode turns the ids of a text back into that text, in every script, with BOS or without."""
    new = lab.new("ByteTokenizer")
    for text in ["", *SCRIPTS]:
        for ids in (list(text.encode()), [256, *text.encode()]):
            expect(lab.call(new, "decode", ids), text, f"decode({ids[:8]}…)")


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_skipped_specials_are_transparent(lab):
    """A skipped special id leaves no trace: the bytes around it may form one character."""
    new = lab.new("ByteTokenizer")
    for ids in ([0xF0, 0x9F, 256, 0x9A, 0x80], [257, 0xF0, 258, 0x9F, 256, 0x9A, 256, 0x80, 258]):
        expect(lab.call(new, "decode", ids), "🚀", f"decode({ids})")


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_shown_specials_break_the_sequence(lab):
    """A shown special id ends the character before it: F0 9F <bos> 9A 80 contains no rocket."""
    new = lab.new("ByteTokenizer")
    for ids, text in (
        ([256, 72, 257, 258], "<bos>H<eos><pad>"),
        ([0xF0, 0x9F, 256, 0x9A, 0x80], "\ufffd<bos>\ufffd\ufffd"),
    ):
        got = lab.call(new, "decode", ids, skip_special_tokens=False)
        expect(got, text, f"decode({ids}, skip_special_tokens=False)")


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_decode_replaces_by_maximal_subpart(lab):
    """A sequence that breaks off, legal so far, is one U+FFFD; a byte that cannot continue it is
    judged afresh.
    """
    new = lab.new("ByteTokenizer")
    for data, text in (
        ("e2 82", "\ufffd"),
        ("f0 9f 98 41", "\ufffdA"),
        ("e0 80", "\ufffd\ufffd"),
        ("ed a0 80", "\ufffd\ufffd\ufffd"),
        ("41 ef bf bd 42", "A\ufffdB"),
    ):
        got = lab.call(new, "decode", list(bytes.fromhex(data)))
        expect(got, text, f"decode of bytes {data}")


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_decode_rejects_unknown_ids(lab):
    """An id outside 0-258 is a ValueError whose message gives the id and its position in ids; of
    several, the first is reported.
    """
    new = lab.new("ByteTokenizer")
    for ids, token_id, position in (
        ([65, 66, 67, -1, 300], -1, 3),
        ([65, 256, 0xF0, 257, 66, 300], 300, 5),
        ([72, 105, 300, -1, 300], 300, 2),
    ):
        for skip in (True, False):
            call = f"decode({ids}, skip_special_tokens={skip})"
            message = lab.rejects(new, "decode", ids, skip_special_tokens=skip)
            expect_number(token_id, message, call)
            expect_number(position, message, call)


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_decode_leaves_ids_alone(lab):
    """decode reads ids and does not change them; a tuple will do as well as a list."""
    ids = [256, 72, 0xF0, 257, 105]
    for skip, text in ((True, "H\ufffdi"), (False, "<bos>H\ufffd<eos>i")):
        for given in (ids, tuple(ids)):
            new = lab.new("ByteTokenizer")
            got = lab.call(new, "decode", given, skip_special_tokens=skip)
            expect(got, text, f"decode({given}, skip_special_tokens={skip})")
    expect_untouched(lab.script(lab.new("ByteTokenizer"), [("decode", ids)], watch=""))


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_decode_starts_afresh(lab):
    """Each call of decode stands alone: bytes that one call left open are no part of the next."""
    ids = [[72, 0xF0, 0x9F], [0x9A, 0x80, 105], [], [0xC3], [0xA9]]
    trace = lab.script(lab.new("ByteTokenizer"), [("decode", part) for part in ids], watch="")
    expect(trace.outputs, ["H\ufffd", "\ufffd\ufffdi", "", "\ufffd", "\ufffd"], trace)


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_property_decode_equals_the_reference(lab):
    """complete, honest: for every string of up to 3 bytes of 13 kinds, decode returns what a WHATWG
    decoder does.
    """
    new = lab.new("ByteTokenizer")
    for data in small_bytes(CLASSES, 3):
        expect(
            lab.call(new, "decode", list(data)), decoded(data), f"decode of bytes {data.hex(' ')}"
        )


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_property_specials_anywhere(lab):
    """total: any mix of bytes and special ids decodes; skipped ones vanish, shown ones separate."""
    new = lab.new("ByteTokenizer")

    def rule(ids):
        data = bytes(token_id for token_id in ids if token_id < 256)
        expect(lab.call(new, "decode", ids), decoded(data), f"decode({ids})")
        got = lab.call(new, "decode", ids, skip_special_tokens=False)
        expect(got, shown(ids), f"decode({ids}, skip_special_tokens=False)")

    check(rule, (lab.random.choices([*CLASSES, *SPECIAL], k=length) for length in range(1, 120)))


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_round_trip(lab):
    """complete: every text of up to 3 characters of 7 kinds comes back from its ids."""
    new = lab.new("ByteTokenizer")
    for text in small_strings("aé你🚀\ufffd\u0301\x00", 3):
        ids = lab.call(new, "encode", text)
        expect(lab.call(new, "decode", ids), text, f"decode(encode({text!r}))")


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(8)
def test_property_linear_in_one_run(lab):
    """linear: a text of more than a million bytes, all one run, is encoded and decoded well within
    the time limit.
    """
    text = "naïve 你好 🚀 " * 80_000
    ids = list(text.encode())
    new = lab.new("ByteTokenizer")
    same = lab.call(new, "encode", text) == ids
    expect(same, True, "encode of 1,520,000 bytes", "the ids are right")
    same = lab.call(new, "decode", ids) == text
    expect(same, True, "decode of 1,520,000 ids", "text is equal")


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(4)
def test_property_linear_in_special_ids(lab):
    """linear: 600,000 special ids after one character are shown well within the time limit."""
    ids = [*"🚀".encode(), *[258] * 600_000]
    text = lab.call(lab.new("ByteTokenizer"), "decode", ids, skip_special_tokens=False)
    same = text == "🚀" + "<pad>" * 600_000
    expect(same, True, "decode of a rocket and 600,000 <pad>, shown", "text is equal")
