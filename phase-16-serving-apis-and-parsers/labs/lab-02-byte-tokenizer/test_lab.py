"""Lab 02: the byte tokenizer. Each docstring states the rule that its test checks.

Fixed cases come first, then cases drawn from the seed: `LAB_SEED=1 make lab N=02` draws others.
"""

import itertools
import re

import pytest

from labkit.testing import (
    Call,
    Failure,
    check,
    cut,
    decoded,
    expect,
    expect_in,
    expect_long,
    expect_most,
    expect_untouched,
    put_in,
    show,
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
    "\u212b \ufb01 \u00a0\u200b\u200d\ufdd0",
    "\ufffd",
]
SPECIAL = {256: "<bos>", 257: "<eos>", 258: "<pad>"}
LETTERS = range(65, 91)
CLASSES = bytes.fromhex("41 80 9f a0 bf c0 c3 e0 e4 ed f0 f4 ff")
SURROGATES = range(0xD800, 0xE000)
# The bytes by which the memory of a tokenizer may grow.
MOST_GROWN = 2_000
# Ids outside the vocabulary.
NEAR = [*range(259, 600), *range(-1, -300, -1)]
FAR = [sign * 2**bits for bits in (15, 16, 31, 32, 63, 64, 70) for sign in (1, -1)]
# The characters of one, two, three and four bytes. Surrogates, between them, are not characters.
CHARACTERS = [
    range(0x80), range(0x80, 0x800), range(0x800, 0xD800), range(0xE000, 0x10000),
    range(0x10000, 0x110000),
]  # fmt: skip
# Long runs of one of these are encoded and decoded: characters, and bytes that are not text.
KINDS = [*map(str.encode, "a<\ré你🚀"), b"\x80", b"\xff", b"\xe2\x82", b"\xed\xa0"]


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


def refuses(lab, wrong, method, argument, others=(), **options):
    """The method must raise a ValueError whose message has every part of `wrong`: a name, or a
    number that is not part of a longer one; and none of the `others`. If `wrong` is empty, the
    method must return; other tests check the value.
    """
    if not wrong:
        lab.call(lab.new(TOKENIZER), method, argument, **options)
        return
    call = called(method, argument, options)
    message = lab.rejects(lab.new(TOKENIZER), method, argument, **options)
    for part in missing(wrong, message):
        if isinstance(part, str):
            expect_in(part, message, call)
        what = "position" if part in wrong[1:] else "id"
        raise Failure(f"a message that contains the {what} {part}", show(message), call)
    for part in others:
        if part in message:
            raise Failure(f"a message without {part}", show(message), call)


def missing(wrong, message):
    """Return the parts that a message does not have."""
    names = [part for part in wrong if isinstance(part, str)]
    for name in names:
        message = message.replace(name, "*")
    numbers = re.findall(r"-?\d+", message)
    there = [*names[: message.count("*")], *(part for part in wrong if str(part) in numbers)]
    return [part for part in wrong if part not in there]


def not_refused(lab, wrong_in, method, arguments, **options):
    """Return the arguments that are not refused as they must be, without a run for each.

    Args:
        wrong_in: returns the parts of the message for an argument.
    """
    new = lab.new("given.Caller", lab.new(TOKENIZER))
    messages = lab.call(new, "messages", method, arguments, **options)
    pairs = zip(arguments, messages, strict=True)
    return [bad for bad, text in pairs if text is None or missing(wrong_in(bad), text)]


def goes_on(lab, method, known, *refused, **options):
    """On one tokenizer, each refused argument must give a ValueError and stay unchanged, and a
    known argument must give the same value before them and after each.
    """
    arguments = [known, *itertools.chain(*((argument, known) for argument in refused))]
    calls = [Call("attempt", (method, argument), options) for argument in arguments]
    trace = lab.script(lab.new("given.Caller", lab.new(TOKENIZER)), calls, watch="")
    values = [trace.outputs[0][0], "ValueError"] * len(refused)
    expected = [[value, argument] for value, argument in zip(values, arguments, strict=False)]
    expect(trace.outputs[1::2], expected[1::2], trace, "refused arguments")
    expect(
        [value for value, _ in trace.outputs[::2]], values[:1] * (len(refused) + 1), trace, "known"
    )


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
    far = [lab.random.randint(1, 10 ** lab.random.randint(1, 24)) for _ in range(count)]
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
@pytest.mark.points(5)
def test_encode_is_utf8_bytes(lab):
    """encode returns a list of the UTF-8 bytes of the text, one id for each byte; "" gives []."""
    texts = ["", "a", "é", "你", "🚀", *SCRIPTS, *some_texts(lab)]
    check(lambda text: encodes(lab, text), texts)


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_encode_adds_bos_in_front_only(lab):
    """add_special_tokens=True puts one BOS first, even for "", and appends nothing. The default is
    False.
    """
    texts = ["", "hi", *some_texts(lab, kinds=[LETTERS])]
    check(lambda text: encodes(lab, text, add_special_tokens=True), texts)
    check(lambda text: encodes(lab, text), texts)


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_encode_takes_special_names_as_text(lab):
    """The text "<eos>" is five plain characters: a user must not be able to type a special id, even
    at the start of a text that gets BOS.
    """
    texts = [*SPECIAL.values(), "a<bos>b", "<bos>a", "<pad><eos>"]
    for text in some_texts(lab, kinds=[LETTERS]):
        texts.append("".join(put_in(text, SPECIAL.values(), lab.random)))
    check(lambda text: encodes(lab, text, add_special_tokens=True), texts)


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_encode_returns_a_new_list(lab):
    """No call of encode depends on another: each text, short or long, is encoded several times on
    one tokenizer, with BOS and without. Each list is new: the caller appends a PAD to it, and
    later calls return the right ids and leave that list unchanged.
    """

    def rule(texts):
        pairs = [(text, bos) for text in texts for bos in (False, True, False)]
        calls = [Call("encode", (text,), {"add_special_tokens": bos}) for text, bos in pairs]
        trace = lab.script(lab.new("given.Caller", lab.new(TOKENIZER)), [*calls, "lists"], watch="")
        ids = [[256] * bos + [*text.encode()] for text, bos in pairs]
        expect(trace.outputs[:-1], ids, trace)
        expect(trace.outputs[-1], [[*one, 258] for one in ids], trace, "the caller's lists")

    drawn = [*some_texts(lab, kinds=[LETTERS])]
    check(rule, [["a"], ["a", "b"], [""], drawn, ["a" * 100, "a" * 5000]])


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
@pytest.mark.points(5)
def test_special_ids_among_letters(lab):
    """Among ASCII letters, a skipped special id leaves no trace, and a shown special id appears as
    <bos>, <eos> or <pad>, each in its place. Skipping is the default.
    """

    def rule(ids):
        decodes(lab, ids)
        for skip in (True, False):
            decodes(lab, ids, skip_special_tokens=skip)

    fixed = [[72, 105], [257], [256, 72, 257, 258], [72, 258, 258, 258, 105, 257, 105, 257, 72]]
    check(rule, [*fixed, *some_ids(lab, [LETTERS])])


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_skipped_specials_are_transparent(lab):
    """A skipped special id leaves no trace: the bytes before and after it may form a character."""
    rockets = [0xF0, 0x9F, 256, 0x9A, 0x80], [257, 0xF0, 258, 0x9F, 256, 0x9A, 256, 0x80, 258]
    check(lambda ids: decodes(lab, ids), [*rockets, *some_ids(lab)])


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_shown_specials_break_the_sequence(lab):
    """A shown special id ends the run of bytes before it: F0 9F <bos> 9A 80 is not a rocket. Each
    run is returned unchanged, in every script, whether it begins with U+FEFF or ends in CR.
    """
    fixed = [
        [256, 72, 257, 258],  # <bos>H<eos><pad>
        [0xF0, 0x9F, 256, 0x9A, 0x80],  # U+FFFD, <bos>, twice U+FFFD
    ]
    fixed += [[256, *text.encode(), 257, *text.encode(), 258] for text in ("\ufeff", *SCRIPTS)]
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
    """decode takes a list or a tuple, and never changes it, whether special ids are skipped or
    shown. The text of letters among skipped special ids is returned. Whether other text is right is
    for other tests.
    """

    def rule(ids):
        for argument, skip in itertools.product((ids, tuple(ids)), (True, False)):
            call = Call("decode", (argument,), {"skip_special_tokens": skip})
            trace = lab.script(lab.new(TOKENIZER), [call], watch="")
            expect_untouched(trace)
            if skip and set(ids) <= {*LETTERS, *SPECIAL}:
                expect(trace.outputs, [skipped(ids)], trace)

    check(
        rule,
        [
            [72, 69],
            [258, 72],
            *some_ids(lab, [LETTERS]),
            [0xF0, 72, 257, 0xF0, 258, 258],
            *some_ids(lab),
        ],
    )


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_decode_starts_afresh(lab):
    """decode keeps no state: a character cut off in one call is not completed by the next call, and
    encode and token_bytes, called in between, return the same each time. A list may get more ids or
    other ids between two calls. No text and no ids are stored, not even those of the last call.
    """

    def rule(parts):
        between = Call("encode", ("é",), {"add_special_tokens": True}), ("token_bytes", 65)
        calls = itertools.chain(*((*between, ("decode", part)) for part in parts))
        trace = lab.script(lab.new(TOKENIZER), [*calls, *between], watch="")
        pairs = [*zip(trace.outputs[2::3], map(skipped, parts), strict=True)]
        at = next((2 + 3 * n for n, (text, right) in enumerate(pairs) if text != right), None)
        expect([text for text, _ in pairs], [right for _, right in pairs], trace, at=at)
        # Whether these are right is for other tests.
        for first, name in enumerate(("encode", "token_bytes")):
            values = trace.outputs[first::3]
            expect(values, values[:1] * len(values), trace, f"{name} between the calls of decode")
        # The caller's own list: parts are appended to it, or replace as many ids at its end.
        own, calls, texts = [], [], []
        for number, part in enumerate(parts):
            start = max(0, len(own) - number % 2 * len(part))
            own = [*own[:start], *part]
            calls.append(("rewrite", start, part))
            texts.append(skipped(own))
        trace = lab.script(lab.new("given.Caller", lab.new(TOKENIZER)), calls, watch="")
        expect(trace.outputs, texts, trace, "the text of one list")

    def stores_nothing(texts, special):
        lists = [put_in(text.encode(), SPECIAL, lab.random) for text in texts]
        weigh, new = Call("weight", None, object=1), lab.new(TOKENIZER)
        steps = []
        for count in (10, len(texts)):
            args = texts[:count], lists[:count]
            steps += [Call("call_silently", args, {"special": special}), weigh]
        news = [lab.new("given.Caller", new), lab.new("given.Scale", new)]
        trace = lab.script(news, steps, watch="")
        call = f"{len(texts)} texts and lists, encoded and decoded"
        expect_most(trace.outputs[3] - trace.outputs[1], MOST_GROWN, call, "bytes more are kept")

    fixed = [[72, 0xF0, 0x9F], [0x9A, 0x80, 105], [], [0xC3], [0xA9]]
    check(rule, [fixed, *(cut([*text.encode()], lab.random) for text in some_texts(lab))])
    texts = [*some_texts(lab, 120)]
    # Much is stored if only the last call is.
    texts.append("".join(texts))
    stores_nothing(texts, False)
    stores_nothing(texts, True)


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
@pytest.mark.points(5)
def test_property_specials_anywhere(lab):
    """total: any mix of bytes and special ids decodes, whether special ids are skipped or shown."""
    kinds = [*CLASSES, *SPECIAL]
    lists = [lab.random.choices(kinds, k=length) for length in range(1, 120, 2)]
    check(lambda ids: decodes(lab, ids), lists)
    check(lambda ids: decodes(lab, ids, skip_special_tokens=False), lists)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_round_trip(lab):
    """complete: every text of up to 2 characters of 10 kinds, and longer texts, encode to their
    bytes and decode to themselves, with BOS and without.
    """

    def rule(text):
        decodes(lab, encodes(lab, text))
        decodes(lab, encodes(lab, text, add_special_tokens=True))

    texts = small_strings("aé你🚀\ufffd\u0301\x00\ufeff\r\n", 2)
    check(rule, [*texts, *SCRIPTS, *some_texts(lab, 24)])


@pytest.mark.task(3)
@pytest.mark.points(5)
@pytest.mark.timeout(8)
def test_property_linear_in_one_run(lab):
    """linear: long runs, each without a special id, encode and decode well within the time limit:
    20,000 bytes of one character or one ill-formed sequence of any kind, and texts of up to
    1,150,000 bytes. A text of 3,000,000 bytes is encoded, and a text of 160,000 with BOS.
    """
    caller = lab.new("given.Caller", lab.new(TOKENIZER))
    lab.call(caller, "call_silently", ["<" * 80_000, "é" * 1_500_000], [])
    lab.call(caller, "call_silently", ["<" * 160_000], [], special=True)
    for kind in KINDS:
        in_one_run(lab, kind, lab.random.randint(20_000, 22_000) // len(kind))
    unit = "".join(put_in(lab.random.choices("ABC 0123", k=20), "é你🚀", lab.random)).encode()
    in_one_run(lab, unit, 20_000 // len(unit))
    # A block of 2, 4, 8 ... bytes never ends with a character of three bytes.
    in_one_run(lab, "你".encode(), lab.random.randint(360_000, 380_000))


def encodes_in_one_run(lab, unit, count):
    """A text, repeated, must encode to its bytes."""
    ids = lab.call(lab.new(TOKENIZER), "encode", unit * count)
    expect_long(ids, [*unit.encode()] * count, f"encode({unit!r} * {count})")


def in_one_run(lab, unit, count):
    """A unit of bytes, repeated, must decode to its text; and the text, if it is one, must encode
    to these bytes.
    """
    ids, text = [*unit * count], decoded(unit) * count
    if text.encode() == unit * count:
        encodes_in_one_run(lab, decoded(unit), count)
    expect_long(lab.call(lab.new(TOKENIZER), "decode", ids), text, f"decode({[*unit]} * {count})")


@pytest.mark.task(3)
@pytest.mark.points(4)
@pytest.mark.timeout(4)
def test_property_linear_in_special_ids(lab):
    """linear: long lists and tuples with many special ids, of one kind or of several, decode well
    within the time limit, whether special ids are skipped or shown, among letters or ill-formed
    bytes: 30,000 ids, and up to 200,000.
    """
    size = lab.random.randint(29_000, 31_000)
    for skip, kind, letters in itertools.product((True, False), (list, tuple), (b"", b"\xff")):
        unit = [*letters, lab.random.choice([*SPECIAL])]
        with_specials(lab, unit, size // len(unit), skip, kind)
    special = lab.random.choice([*SPECIAL])
    with_specials(lab, [97, special, 0xFF, special], size * 2 // 3, False, tuple)
    unit = [*"🚀".encode(), *lab.random.choices([*SPECIAL], k=lab.random.randint(40, 80))]
    with_specials(lab, unit, 120_000 // len(unit), False)
    with_specials(lab, [97, lab.random.choice([*SPECIAL])], 100_000, True)


def with_specials(lab, unit, count, skip, kind=list):
    """A unit of ids, repeated, must decode to its text, repeated."""
    ids, text = kind(unit * count), (skipped if skip else shown)(unit) * count
    call = f"decode({kind(unit)} * {count}, skip_special_tokens={skip})"
    actual = lab.call(lab.new(TOKENIZER), "decode", ids, skip_special_tokens=skip)
    expect_long(actual, text, call)


@pytest.mark.task(4)
@pytest.mark.points(8)
def test_encode_rejects_lone_surrogates(lab):
    """A lone surrogate has no UTF-8 form: ValueError. The message has the code point and the
    position, in characters, of the first one, and no code point of the others. A text without lone
    surrogates is encoded, even after a text that was refused.
    """

    def wrong_in(text):
        lone = [[f"U+{ord(c):04X}", place] for place, c in enumerate(text) if ord(c) in SURROGATES]
        return lone[0] if lone else []

    def rule(case):
        text, bos = case
        # A message may name the range of surrogates.
        later = {f"U+{ord(c):04X}" for c in text if ord(c) in SURROGATES[1:-1]} - {*wrong_in(text)}
        refuses(lab, wrong_in(text), "encode", text, sorted(later), add_special_tokens=bos)

    texts = ["a\ud800", "🚀é\udfffb\ud800", "pair:\ud83d\ude80", "\ud7ff\ue000", "hi"]
    texts += not_refused(lab, wrong_in, "encode", [f"a{chr(c)}b" for c in SURROGATES])
    texts += ["".join(put_in(text, map(chr, SURROGATES), lab.random)) for text in some_texts(lab)]
    check(rule, itertools.product(texts, (False, True)))
    goes_on(lab, "encode", "b", "a\ud800")


@pytest.mark.task(4)
@pytest.mark.points(8)
def test_token_bytes_rejects_unknown_ids(lab):
    """An id outside 0-258 is a ValueError whose message has the id, whether the id is near or has
    many digits; -1 does not mean the last id. The id of a letter is accepted, even after an id that
    was refused.
    """

    def rule(token_id):
        refuses(lab, [] if token_id in LETTERS else [token_id], "token_bytes", token_id)

    known = lab.random.choices(LETTERS, k=2)
    odd = not_refused(lab, lambda token_id: [token_id], "token_bytes", [*NEAR, *FAR])
    check(rule, [65, 259, -1, *odd, *unknown_ids(lab, 24), *known])
    goes_on(lab, "token_bytes", 65, 300, -1)


@pytest.mark.task(4)
@pytest.mark.points(5)
def test_decode_rejects_unknown_ids(lab):
    """An id outside 0-258, near or far, is a ValueError whose message has the id and its position
    in ids, a list or a tuple. If several ids are unknown, the first is reported. A list of known
    ids is decoded, even after a list that was refused. No list is changed.
    """

    def wrong_in(ids):
        wrong = [[i, place] for place, i in enumerate(ids) if not 0 <= i <= 258]
        return wrong[0] if wrong else []

    def rule(case):
        ids, skip = case
        refuses(lab, wrong_in(ids), "decode", ids, skip_special_tokens=skip)

    lists = [[65, 256, 66], [65, 66, 67, -1, 300], [65, 256, 0xF0, 257, 66, 300]]
    lists.append([72, 105, 300, -1, 300])
    for length in lab.random.choices(range(2, 40), k=12):
        known = lab.random.choices([*LETTERS, *SPECIAL], k=length)
        lists.append(put_in(known, unknown_ids(lab, 4), lab.random))
    check(rule, itertools.product(lists, (True, False)))
    lists = [[65, unknown] for unknown in (*NEAR, *FAR)]
    ends = itertools.product(SPECIAL, (259, -1, *lab.random.choices(NEAR, k=60), *FAR))
    lists += [(65, special, unknown) for special, unknown in ends]
    for skip in (True, False):
        odd = not_refused(lab, wrong_in, "decode", lists, skip_special_tokens=skip)
        check(rule, [(ids, skip) for ids in odd])
        refused = [72, 256, 105, 300, -1], (0xC3, -1)
        goes_on(lab, "decode", [72], *refused, skip_special_tokens=skip)
