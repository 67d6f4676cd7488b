"""Lab 02: the byte tokenizer. Each docstring states the rule that its test checks.

Fixed cases come first, then cases drawn from the seed: `LAB_SEED=1 make lab N=02` draws others.
"""

import itertools
import re

import pytest

from labkit.testing import (
    check,
    cut,
    decoded,
    expect,
    expect_in,
    expect_untouched,
    put_in,
    small_bytes,
    small_strings,
)

TOKENIZER = "ByteTokenizer"
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
LETTERS = range(65, 91)
CLASSES = bytes.fromhex("41 80 9f a0 bf c0 c3 e0 e4 ed f0 f4 ff")
SURROGATES = range(0xD800, 0xE000)
# The characters of one, two, three and four bytes. Surrogates, between them, are not characters.
CHARACTERS = [
    range(0x80), range(0x80, 0x800), range(0x800, 0xD800), range(0xE000, 0x10000),
    range(0x10000, 0x110000),
]  # fmt: skip


def skipped(ids):
    """Return the text if special ids are skipped: all bytes are one run."""
    return decoded(bytes(token_id for token_id in ids if token_id < 256))


def shown(ids):
    """Return the text if special ids are shown: each run of bytes is decoded on its own."""
    texts, run = [], b""
    for token_id in [*ids, None]:
        if token_id is not None and token_id < 256:
            run += bytes([token_id])
        else:
            texts += [decoded(run), SPECIAL.get(token_id, "")]
            run = b""
    return "".join(texts)


def encodes(lab, text, **options):
    """encode must return the bytes of the text, after BOS if requested; return these ids."""
    ids = [256] * options.get("add_special_tokens", False) + [*text.encode()]
    got = lab.call(lab.new(TOKENIZER), "encode", text, **options)
    expect(got, ids, called("encode", text, options))
    return ids


def decodes(lab, ids, **options):
    """decode must return the text of the ids; `ids` may be a bytes object."""
    text = skipped(ids) if options.get("skip_special_tokens", True) else shown(ids)
    got = lab.call(lab.new(TOKENIZER), "decode", [*ids], **options)
    expect(got, text, called("decode", ids, options))


def gives_bytes(lab, token_id):
    """token_bytes must return the bytes of the id."""
    data = b"" if token_id in SPECIAL else bytes([token_id])
    got = lab.call(lab.new(TOKENIZER), "token_bytes", token_id)
    expect(got, data, f"token_bytes({token_id})")


def refuses(lab, wrong, method, argument, **options):
    """The method must raise a ValueError whose message has every part of `wrong`: a name, or a
    number that is not part of a longer one. If `wrong` is empty, the method must return; other
    tests check the value.
    """
    if not wrong:
        lab.call(lab.new(TOKENIZER), method, argument, **options)
        return
    call = called(method, argument, options)
    message = lab.rejects(lab.new(TOKENIZER), method, argument, **options)
    for part in wrong:
        if isinstance(part, str):
            expect_in(part, message, call)
            message = message.replace(part, "")
        else:
            numbers = re.findall(r"-?\d+", message)
            expect(str(part) in numbers, True, call, f"{part} is in {message!r}")


def called(method, argument, options):
    """Return the call in words."""
    if isinstance(argument, bytes):
        return f"{method} of bytes {argument.hex(' ')}"
    return f"{method}({', '.join([repr(argument), *(f'{k}={v}' for k, v in options.items())])})"


def some_texts(lab, count=12, kinds=CHARACTERS):
    """Draw texts of these kinds of characters, short ones first."""
    for length in sorted(lab.random.choices(range(2, 40), k=count)):
        drawn = lab.random.choices(kinds, k=length)
        yield "".join(chr(lab.random.choice(kind)) for kind in drawn)


def some_bytes(lab, count=24):
    """Draw byte strings with many broken characters, short ones first."""
    for length in sorted(lab.random.choices(range(4, 16), k=count)):
        yield bytes(lab.random.choices(CLASSES, k=length))


def some_ids(lab, kinds=CHARACTERS):
    """Draw ids of texts, with special ids anywhere among them."""
    return [put_in(text.encode(), SPECIAL, lab.random) for text in some_texts(lab, kinds=kinds)]


def unknown_ids(lab, count):
    """Draw ids outside the vocabulary: near and far, below and above."""
    far = [lab.random.randint(1, 10 ** lab.random.randint(1, 12)) for _ in range(count)]
    return [lab.random.choice([-distance, 258 + distance]) for distance in far]


@pytest.mark.given
def test_the_vocabulary_is_given(lab):
    """The vocabulary has 259 ids: 256 bytes, BOS 256, EOS 257 and PAD 258."""
    reads = ["bos_token_id", "eos_token_id", "pad_token_id", "vocab_size"]
    assert lab.script(lab.new(TOKENIZER), reads, watch="").outputs == [256, 257, 258, 259]


@pytest.mark.given
def test_naive_decode_per_token_is_garbage():
    """Decoding every id alone turns one rocket into four replacement characters."""
    assert [decoded(bytes([byte])) for byte in "🚀".encode()] == ["\ufffd"] * 4


@pytest.mark.task(1)
@pytest.mark.points(6)
def test_encode_is_utf8_bytes(lab):
    """encode returns a list of the UTF-8 bytes of the text, one id for each byte; "" gives []."""
    texts = ["", "a", "é", "你", "🚀", *SCRIPTS, *some_texts(lab)]
    check(lambda text: encodes(lab, text), texts)


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_encode_adds_bos_in_front_only(lab):
    """add_special_tokens=True puts one BOS first, even for "", and appends nothing. The default is
    False.
    """
    texts = ["", "hi", *some_texts(lab, kinds=[LETTERS])]
    check(lambda text: encodes(lab, text, add_special_tokens=True), texts)
    check(lambda text: encodes(lab, text), texts)


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_encode_takes_special_names_as_text(lab):
    """The text "<eos>" is five plain characters: a user must not be able to type a special id."""
    texts = ["<eos>", "a<bos>b", "<pad><eos>"]
    for text in some_texts(lab, kinds=[LETTERS]):
        texts.append("".join(put_in(text, SPECIAL.values(), lab.random)))
    check(lambda text: encodes(lab, text, add_special_tokens=True), texts)


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_token_bytes_of_bytes(lab):
    """token_bytes of an id 0-255 is that one byte, even if the byte is not text on its own."""
    check(lambda token_id: gives_bytes(lab, token_id), range(256))


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_token_bytes_of_specials_is_empty(lab):
    """A special id has no bytes: token_bytes returns b"". The id of a letter has one byte."""
    ids = [*SPECIAL, *lab.random.sample(LETTERS, 4)]
    check(lambda token_id: gives_bytes(lab, token_id), ids)


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_decode_inverts_encode(lab):
    """decode turns the ids of a text back into that text, in every script, with BOS or without.
    The four ids of 🚀 are one rocket.
    """

    def rule(text):
        decodes(lab, [*text.encode()])
        decodes(lab, [256, *text.encode()])

    # Texts, not ids, so that a smaller case still has whole characters.
    check(rule, ["🚀", "", *SCRIPTS, *some_texts(lab)])


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_skipped_specials_are_transparent(lab):
    """A skipped special id leaves no trace: the bytes before and after it may form a character."""
    rockets = [0xF0, 0x9F, 256, 0x9A, 0x80], [257, 0xF0, 258, 0x9F, 256, 0x9A, 256, 0x80, 258]
    check(lambda ids: decodes(lab, ids), [*rockets, *some_ids(lab)])


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_shown_specials_break_the_sequence(lab):
    """A shown special id ends the run of bytes before it: F0 9F <bos> 9A 80 is not a rocket."""
    fixed = [
        [256, 72, 257, 258],  # <bos>H<eos><pad>
        [0xF0, 0x9F, 256, 0x9A, 0x80],  # U+FFFD, <bos>, twice U+FFFD
    ]
    check(lambda ids: decodes(lab, ids, skip_special_tokens=False), [*fixed, *some_ids(lab)])


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_decode_replaces_by_maximal_subpart(lab):
    """Ill-formed bytes become U+FFFD, as many as `errors="replace"` of `bytes.decode` makes."""
    # One U+FFFD; one and an A; two; three; a real one between A and B.
    fixed = ["e2 82", "f0 9f 98 41", "e0 80", "ed a0 80", "41 ef bf bd 42"]
    check(lambda data: decodes(lab, data), [*map(bytes.fromhex, fixed), *some_bytes(lab)])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_decode_leaves_ids_alone(lab):
    """decode takes a list or a tuple, and never changes it."""
    ids, options = [256, 72, 0xF0, 257, 105], {"skip_special_tokens": False}
    for argument in (ids, tuple(ids)):
        got = lab.call(lab.new(TOKENIZER), "decode", argument, **options)
        expect(got, "<bos>H\ufffd<eos>i", called("decode", argument, options))

    def rule(ids):
        for argument in (ids, tuple(ids)):
            trace = lab.script(lab.new(TOKENIZER), [("decode", argument)], watch="")
            expect(trace.outputs, [skipped(ids)], trace)
            expect_untouched(trace)

    check(rule, [ids, *some_ids(lab, [LETTERS])])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_decode_starts_afresh(lab):
    """decode keeps no state: a character cut off in one call is not completed by the next call."""

    def rule(parts):
        calls = [("decode", part) for part in parts]
        trace = lab.script(lab.new(TOKENIZER), calls, watch="")
        expect(trace.outputs, [skipped(part) for part in parts], trace)

    fixed = [[72, 0xF0, 0x9F], [0x9A, 0x80, 105], [], [0xC3], [0xA9]]
    check(rule, [fixed, *(cut([*text.encode()], lab.random) for text in some_texts(lab))])


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_property_decode_equals_the_reference(lab):
    """complete, honest: for every string of up to 3 bytes of 13 kinds, and for longer ones, decode
    returns the text that a WHATWG decoder returns.
    """
    pairs = [*small_bytes(CLASSES, 2)]
    # An A ends an incomplete character, so 13 strings of three bytes fit into one call.
    threes = (b"".join(pair + bytes([last]) + b"A" for last in CLASSES) for pair in pairs)
    check(lambda data: decodes(lab, data), [*pairs, *threes, *some_bytes(lab, 60)])


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_property_specials_anywhere(lab):
    """total: any mix of bytes and special ids decodes, whether special ids are skipped or shown."""
    kinds = [*CLASSES, *SPECIAL]
    lists = [lab.random.choices(kinds, k=length) for length in range(1, 120, 2)]
    check(lambda ids: decodes(lab, ids), lists)
    check(lambda ids: decodes(lab, ids, skip_special_tokens=False), lists)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_round_trip(lab):
    """complete: every text of up to 2 characters of 7 kinds, and longer texts, encode to their
    bytes and decode to themselves.
    """

    def rule(text):
        decodes(lab, encodes(lab, text))

    check(rule, [*small_strings("aé你🚀\ufffd\u0301\x00", 2), *some_texts(lab, 24)])


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(8)
def test_property_linear_in_one_run(lab):
    """linear: texts of up to 900,000 bytes, each a single run, encode and decode well within the
    time limit.
    """
    unit = "".join(put_in(lab.random.choices("ABC 0123", k=20), "é你🚀", lab.random))
    for size in (lab.random.randint(250_000, 350_000), lab.random.randint(600_000, 900_000)):
        text = unit * (size // len(unit.encode()))
        ids = list(text.encode())
        same = lab.call(lab.new(TOKENIZER), "encode", text) == ids
        expect(same, True, f"encode of {len(ids):,} bytes", "the ids are right")
        same = lab.call(lab.new(TOKENIZER), "decode", ids) == text
        expect(same, True, f"decode of {len(ids):,} ids", "text is equal")


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(4)
def test_property_linear_in_special_ids(lab):
    """linear: up to 400,000 ids, most of them special and shown, decode well within the limit."""
    unit = [*"🚀".encode(), *lab.random.choices([*SPECIAL], k=lab.random.randint(40, 80))]
    for size in (lab.random.randint(150_000, 200_000), lab.random.randint(300_000, 400_000)):
        ids = unit * (size // len(unit))
        text = lab.call(lab.new(TOKENIZER), "decode", ids, skip_special_tokens=False)
        same = text == shown(unit) * (size // len(unit))
        expect(same, True, f"decode of {len(ids):,} ids, most of them shown", "text is equal")


@pytest.mark.task(4)
@pytest.mark.points(8)
def test_encode_rejects_lone_surrogates(lab):
    """A lone surrogate has no UTF-8 form: ValueError. The message has the code point and the
    position, in characters, of the first one. A text without lone surrogates is encoded.
    """

    def rule(case):
        text, bos = case
        lone = [[f"U+{ord(c):04X}", place] for place, c in enumerate(text) if ord(c) in SURROGATES]
        refuses(lab, lone[0] if lone else [], "encode", text, add_special_tokens=bos)

    texts = ["a\ud800", "🚀é\udfffb\ud800", "pair:\ud83d\ude80", "\ud7ff\ue000", "hi"]
    texts += ["".join(put_in(text, map(chr, SURROGATES), lab.random)) for text in some_texts(lab)]
    check(rule, itertools.product(texts, (False, True)))


@pytest.mark.task(4)
@pytest.mark.points(8)
def test_token_bytes_rejects_unknown_ids(lab):
    """An id outside 0-258 is a ValueError whose message has the id; -1 does not mean the last id.
    The id of a letter is accepted.
    """

    def rule(token_id):
        refuses(lab, [] if token_id in LETTERS else [token_id], "token_bytes", token_id)

    known = lab.random.choices(LETTERS, k=2)
    check(rule, [65, 259, 300, -1, -256, 2**32, *unknown_ids(lab, 24), *known])


@pytest.mark.task(4)
@pytest.mark.points(5)
def test_decode_rejects_unknown_ids(lab):
    """An id outside 0-258 is a ValueError whose message has the id and its position in ids. If
    several ids are unknown, the first is reported. A list of known ids is decoded.
    """

    def rule(case):
        ids, skip = case
        wrong = [[i, place] for place, i in enumerate(ids) if not 0 <= i <= 258]
        refuses(lab, wrong[0] if wrong else [], "decode", ids, skip_special_tokens=skip)

    lists = [[65, 256, 66], [65, 66, 67, -1, 300], [65, 256, 0xF0, 257, 66, 300]]
    lists.append([72, 105, 300, -1, 300])
    for length in lab.random.choices(range(2, 40), k=12):
        known = lab.random.choices([*LETTERS, *SPECIAL], k=length)
        lists.append(put_in(known, unknown_ids(lab, 4), lab.random))
    check(rule, itertools.product(lists, (True, False)))
