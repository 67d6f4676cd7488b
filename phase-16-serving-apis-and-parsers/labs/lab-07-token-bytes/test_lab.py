"""Lab 07: token bytes. Each docstring states the rule that its test pins.

Fixed cases come first, then cases drawn from the seed: `LAB_SEED=1 make lab N=07` draws others. A
stream is written as the bytes of its tokens; the table has only these tokens.
"""

import itertools
from string import hexdigits

import pytest

from labkit.testing import (
    Call,
    Failure,
    check,
    cut,
    cut_at,
    decided,
    decoded,
    expect,
    expect_in,
    expect_long,
    expect_most,
    expect_untouched,
    put_in,
    show,
    undecided,
)

DETOKENIZER = "TokenDetokenizer"
# Bytes that GPT-2's map does not change; the 68 others follow from U+0100 on, in order.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
# The character of each byte.
SPELLING = [chr(b) if b in PRINTABLE else chr(0x100 + OTHERS.index(b)) for b in range(256)]
MIXED = "naïve café — 你好 🚀🇫🇷"
# Characters that normal forms, line endings or strict readers change or drop.
ODD = "\u212be\u0301\ufeff\r\n\u00a0\u200b\u00ad\x00\u2126\ufb01"
# One byte of every kind that the rules of UTF-8 treat differently.
CLASSES = bytes.fromhex("41 80 8f 90 9f a0 bf c0 c2 df e0 e2 ed ef f0 f4 f5 ff")
# Tokens that begin, continue and end characters, that can do neither, and items without bytes: an
# empty token, an id without a token, one below and one past its end, and a skipped special.
KINDS = [
    *(b"A", b"\xe4", b"\xe4\xbd", b"\xbd\xa0", b"\xa0", b"a\xf0\x9f", b"\x9f\x9a\x80", b"\x80\xc3"),
    *(b"\xed", b" \xff", b"\xc2\xe4\xbd\xa0", b"", None, -1, 0, b"<s>"),
]
# Items of a stream that have no bytes: a number is how far outside the table an id is.
SILENT = [None, -1, -2, 0, 7, 2**32, -(10**30)]
SPECIALS = [b"<s>", b"</s>", b"<|im_end|>", "<｜User｜>".encode()]
ASCII, LATIN = range(0x21, 0x7F), range(0xC0, 0x250)
CHINESE, EMOJI = range(0x4E00, 0xA000), range(0x1F300, 0x1F600)
CHANGEABLE = [*map(ord, ODD)]
# The bytes by which a stream may grow, and the items of a prompt or a table to read.
MOST_GROWN, MOST_READ = 500, 1024


def table_of(*streams):
    """The distinct tokens of some streams as a table; its last id is in none of them."""
    items = dict.fromkeys(itertools.chain(*streams))
    return [*(item for item in items if type(item) is not int), b"?"]


def ids_of(items, table):
    """The ids of a stream's items."""
    return [
        (item if item < 0 else len(table) + item) if type(item) is int else table.index(item)
        for item in items
    ]


def new(lab, table, prompt=(), special=(), **options):
    """A detokenizer, of a prompt and with special tokens if there are any."""
    if prompt:
        options["prompt_ids"] = type(prompt)(ids_of(prompt, table))
    if marked := frozenset(i for i, piece in enumerate(table) if piece in special):
        options["special"] = marked
    return lab.new(DETOKENIZER, table, **options)


def feed(lab, items, end="", watch="", **options):
    """Feed the ids of the items one by one; leave the stream open unless there is an `end`."""
    table = table_of(items, options.get("prompt", ()))
    return lab.stream(new(lab, table, **options), ids_of(items, table), end=end, watch=watch)


def data_of(items, without=()):
    """The bytes of each item."""
    return [item if isinstance(item, bytes) and item not in without else b"" for item in items]


def all_of(items, without=()):
    """The bytes of all items together."""
    return b"".join(data_of(items, without))


def expected_pieces(items, before=b"", without=()):
    """The text that each id must emit: determined by the bytes so far, and not emitted before."""
    so_far = itertools.accumulate(data_of(items, without), initial=undecided(before))
    texts = [decided(data) for data in so_far]
    return [now[len(then) :] for then, now in itertools.pairwise(texts)]


def expected_end(items, before=b"", without=()):
    """The text that flush must emit: U+FFFD for a character that was cut off, else none."""
    return "\ufffd" if undecided(undecided(before) + all_of(items, without)) else ""


def emits(lab, items, **options):
    """Each id must emit all text that is certain with it, and no more."""
    trace = feed(lab, items, **options)
    expect(trace.outputs, expected_pieces(items), trace)


def emits_and_ends(lab, *streams, prompt=(), flushes=1, special=SPECIALS[:1]):
    """The same for streams one after the other, each with flushes that end it; the first has a
    prompt. Special tokens are skipped, then shown.
    """
    table = table_of(prompt, *streams)
    shows = [{}, {"skip_special_tokens": False}]
    for options in shows if {*special} & {*table} else shows[:1]:
        without = () if options else special
        calls, wanted, before = [], [], all_of(prompt, without)
        for items in streams:
            calls += [("feed", i) for i in ids_of(items, table)]
            wanted += expected_pieces(items, before, without)
            wanted += [expected_end(items, before, without), *[""] * (flushes - 1)]
            calls += [("flush",)] * flushes
            before = b""
        trace = lab.script(new(lab, table, prompt, special, **options), calls, watch="")
        expect(trace.outputs, wanted, trace)


def tokens_of(random, data):
    """The bytes cut anywhere, into tokens of one to four bytes."""
    tokens, start = [], 0
    while start < len(data):
        end = start + random.choice([1, 1, 2, 2, 3, 4])
        tokens.append(data[start:end])
        start = end
    return tokens


def some_texts(lab, *kinds, count=10):
    """Draw texts of these kinds of characters, short ones first."""
    for length in sorted(lab.random.choices(range(2, 16), k=count)):
        drawn = lab.random.choices(kinds or (ASCII, LATIN, CHINESE, EMOJI), k=length)
        yield "".join(chr(lab.random.choice(kind)) for kind in drawn)


def some_streams(lab, *kinds, count=10):
    """Draw texts, cut anywhere into tokens."""
    return [tokens_of(lab.random, text.encode()) for text in some_texts(lab, *kinds, count=count)]


def some_broken(lab, count=16):
    """Draw tokens of bytes with many broken characters, short streams first."""
    for length in sorted(lab.random.choices(range(4, 24), k=count)):
        yield tokens_of(lab.random, bytes(lab.random.choices(CLASSES, k=length)))


def a_start(lab):
    """Draw the first bytes of a character, one at least and not all."""
    char = chr(lab.random.choice(lab.random.choice([LATIN, CHINESE, EMOJI]))).encode()
    return char[: lab.random.randint(1, len(char) - 1)]


def wanted_bytes(token, kind, is_special):
    """The entry that the table must have for a token."""
    if token is None:
        return None
    if is_special or (kind == "byte_level" and not set(token) <= set(SPELLING)):
        return token.encode()
    if kind == "byte_level":
        return bytes(map(SPELLING.index, token))
    digits = token[3:-1]
    if token == f"<0x{digits}>" and len(digits) == 2 and set(digits) <= set(hexdigits):
        return bytes.fromhex(digits)
    return token.replace("▁", " ").encode()


def tells(lab, kind, tokens, special=(), outside=()):
    """token_bytes must return the bytes that the rules give, None for ids without a token, and
    leave the vocabulary as it is; ids outside of it may be special.
    """
    if kind not in ("byte_level", "byte_fallback"):
        raise ValueError("the beginning of a kind, in a case that is made smaller")
    vocabulary = type(tokens)([*tokens, None, *tokens[:1]])
    marked = frozenset(i for i, token in enumerate(vocabulary) if token in special)
    given = marked | frozenset(i if i < 0 else len(vocabulary) + i for i in outside)
    options = {"special": given} if given else {}
    trace = lab.script([], [Call("token_bytes", (vocabulary, kind), options)], watch="")
    wanted = [wanted_bytes(token, kind, i in marked) for i, token in enumerate(vocabulary)]
    words = f", special={given}" if given else ""
    expect(trace.outputs[0], wanted, f"token_bytes({vocabulary!r}, {kind!r}{words})")
    expect_untouched(trace)


def spelled(tokens):
    """Tokens of bytes as GPT-2's map spells them."""
    return ["".join(SPELLING[byte] for byte in token) for token in tokens]


@pytest.mark.task(1)
@pytest.mark.points(9)
def test_byte_level_characters_are_bytes(lab):
    """byte_level: each character of a token is one byte, whatever the bytes are: a word with its
    space, half a character, or the end of one character and the beginning of the next. 188 bytes
    are spelled by the character of that number, the 68 others by U+0100 and up. An id without a
    token has None. The vocabulary, a list or a tuple, is left as it is. Several vocabularies in one
    process have each a table of their own, and each call returns a new list.
    """
    fixed = [["Ġthe", "Ċ"], ["ðŁ", "ļ", "Ģ"], ["ä½", "łå¥", "½"], ["Ā", "ġ", "Ń", "¬", "®"]]
    drawn = (spelled(tokens) for tokens in some_broken(lab, 8))
    shuffled = lab.random.sample(SPELLING, 256)
    check(lambda tokens: tells(lab, "byte_level", tokens), [*fixed, *drawn, SPELLING, shuffled])
    tells(lab, "byte_level", ("Ġthe", "Ċ"))
    # Lists of one length, one after the other: the next may have the address of the one before.
    several = [lab.random.sample(SPELLING, 4) for _ in range(12)]
    several += several[:2]
    trace = lab.script([], [("token_bytes", tokens, "byte_level") for tokens in several], watch="")
    wanted = [[wanted_bytes(token, "byte_level", False) for token in tokens] for tokens in several]
    expect(trace.outputs, wanted, trace)
    expect_untouched(trace)


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_byte_fallback_marks_are_spaces(lab):
    """byte_fallback: every ▁ of a token is a space, at its beginning, in the middle, or many of
    them; all other characters are the token's text as UTF-8, unchanged: spaces, line endings,
    combining and invisible characters too.
    """

    def word():
        marks = "▁" * lab.random.randint(1, 3)
        return lab.random.choice([marks + "{}", "{}" + marks, "{}▁{}"]).format(
            *some_texts(lab, ASCII, LATIN, CHINESE, CHANGEABLE, count=2)
        )

    drawn = ([word() for _ in range(4)] for _ in range(6))
    fixed = [["▁the"], ["▁▁▁▁", "a▁b", "é▁"], ["e\u0301", ODD, " a\n"]]
    check(lambda tokens: tells(lab, "byte_fallback", tokens), [*fixed, *drawn])


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_byte_fallback_byte_tokens_are_bytes(lab):
    """byte_fallback: a token like `<0xE4>`, with any two hexadecimal digits, upper or lower case,
    is that one byte; a token that only looks similar is text: it has another character at one of
    the six places, one character less, or one more.
    """

    def rule(tokens):
        tells(lab, "byte_fallback", tokens)

    near = ["<0x4>", "<0x411>", "<0xG1>", "x<0x41>", "<0x41", "<0x41>\n", "0x41"]
    every = [f"<0x{byte:02X}>" for byte in range(256)]
    lower = ["<0xe4>", "<0xaF>", *(f"<0x{byte:02x}>" for byte in range(256))]
    check(rule, [["<0xE4>", "<0x0A>"], ["<0x41>", *near], every, lower])
    drawn = ([f"<0x{lab.random.randrange(256):02X}>" for _ in range(6)] for _ in range(6))
    check(rule, ([*tokens, lab.random.choice(near)] for tokens in drawn))
    # Digits of other scripts, and characters that int() ignores around or between digits.
    others = "gGX+-_. \n\t\u00a0\u0664\u0966\uff11\u00b2▁你"
    token = lab.random.choice(every)
    for place in range(len(token)):
        rule([token[:place] + other + token[place + 1 :] for other in others])
        rule([token[:place] + other + token[place:] for other in others])
        rule([token[:place] + token[place + 1 :]])


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_plain_text_is_not_mapped(lab):
    """A special token is its text as UTF-8, unchanged, in both kinds of vocabulary. In byte_level,
    so is every token with a character that spells no byte, such as a real space. All other tokens
    are mapped. Ids in `special` that the vocabulary does not have are ignored, and an id without a
    token has None there too.
    """
    fixed = [
        ("byte_level", ["Ġa", "đem"], ["đem"]),
        ("byte_fallback", ["▁a", "<｜begin▁of▁sentence｜>", "<0x41>"], ["<｜begin▁of▁sentence｜>"]),
        ("byte_fallback", ["<0x41>", "<0x42>"], ["<0x42>"]),
        ("byte_level", ["é", "<｜é｜>", "Ġé你"], []),
        ("byte_level", [ODD, " <s> ", "Ġ"], [ODD, " <s> "]),
        ("byte_fallback", [ODD, " <s> "], [ODD, " <s> "]),
        # Each character near the 256 that spell no byte itself.
        ("byte_level", [f"Ġ{chr(n)}a" for n in range(0x180) if chr(n) not in SPELLING], []),
        ("byte_level", ["a", "Ġ"], [], [-1, -2, 0, 7, 2**40]),
        ("byte_fallback", ["a", "▁"], ["▁"], [-1, 0]),
        *((kind, ["Ġ", "▁", None], ["▁", None]) for kind in ("byte_level", "byte_fallback")),
    ]

    def drawn():
        for text in some_texts(lab, ASCII, ASCII, range(0x100, 0x140)):
            others = spelled(tokens_of(lab.random, MIXED.encode()))[:4]
            yield "byte_level", [*others, text, text + "你"], [text], [0, -lab.random.randint(1, 6)]
            yield "byte_level", [f" {text}", f"{text}\n"], [f" {text}"]
            digits = f"<0x{lab.random.randrange(0x40, 0x80):02X}>"
            yield "byte_fallback", ["▁" + text, f"<{text}▁>", digits], [f"<{text}▁>", digits]

    check(lambda case: tells(lab, *case), [*fixed, *drawn()])


@pytest.mark.task(1)
@pytest.mark.points(7)
def test_table_of_real_vocabularies(lab):
    """For any part of a trained vocabulary, byte-level or with byte fallback, the table has the
    bytes that the tokenizer itself gives each token.
    """

    def rule(case):
        name, ids = case
        reader = lab.given.reader(name)
        ids = [i for i in ids if i < len(reader.vocabulary)]
        vocabulary = [reader.id_to_token(i) for i in ids]
        marked = frozenset(place for place, i in enumerate(ids) if i in reader.special)
        got = lab.call("token_bytes", vocabulary, reader.kind, special=marked)
        wanted = [None if reader.id_to_token(i) is None else reader.bytes_of(i) for i in ids]
        expect(got, wanted, f"token_bytes({vocabulary!r}, {reader.kind!r}, special={marked})")

    for name in lab.given.NAMES:
        size = len(lab.given.vocabulary(name))
        # First come the special tokens, and then one for each byte.
        some = lab.random.sample(range(size), min(size, 200))
        check(rule, [(name, [*range(min(size, 270)), *some])])


@pytest.mark.given
def test_naive_decode_of_each_token_breaks():
    """🫨 with its space is three tokens of a byte-level vocabulary: decoded alone, each is
    broken.
    """
    naive = [token.decode("utf-8", "replace") for token in (b" \xf0\x9f", b"\xab", b"\xa8")]
    assert naive == [" \ufffd", "\ufffd", "\ufffd"]


@pytest.mark.given
def test_naive_wait_on_replacement_prints_nothing():
    """If you hold while the text so far ends in U+FFFD, broken bytes are not emitted before the
    end, and neither is a U+FFFD that the model wrote.
    """
    so_far = itertools.accumulate([b"a", b"\xff", "\ufffd".encode(), b"\xff"])
    shown = [text for text in map(decoded, so_far) if not text.endswith("\ufffd")]
    assert shown == ["a"]


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_certain_text_comes_at_once(lab):
    """Whole characters are emitted with their token, also those before half a character: if a token
    is `a` and the first byte of 你, the `a` is certain. They are emitted unchanged: line endings, a
    byte order mark, combining and invisible characters too.
    """
    fixed = [[b"Hello", b",", b" ", "你好".encode(), b"\x00\r\n"], [b"a\xe4", b"\xbd\xa0"]]
    fixed += [[character.encode(), b"a"] for character in ODD]
    fixed += [[ODD.encode()], [bytes([byte]) for byte in ODD.encode()]]

    def drawn():
        for text in some_texts(lab, ASCII, LATIN, CHINESE, EMOJI, CHANGEABLE):
            start = a_start(lab)
            yield [token + start for token in map(str.encode, cut(text, lab.random))]

    check(lambda items: emits(lab, items), [*fixed, *drawn()])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_split_character_waits_for_its_last_token(lab):
    """A character that is split over tokens is emitted whole, with the token that completes it: 🫨
    after a space is three tokens, and the space is emitted first.
    """
    fixed = [[b" \xf0\x9f", b"\xab", b"\xa8"], [*map(bytes, zip("你🚀".encode(), strict=True))]]
    check(lambda items: emits(lab, items), [*fixed, *some_streams(lab, CHINESE, EMOJI, LATIN)])


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_token_may_end_one_character_and_begin_the_next(lab):
    """A token is bytes, not characters: it may end one character and begin another, which is then
    held in its turn.
    """
    fixed = [["你".encode()[:1], "你".encode()[1:] + "好".encode()[:2], "好".encode()[2:] + b"!"]]

    def drawn():
        for text in some_texts(lab, LATIN, CHINESE, EMOJI):
            data = text.encode()
            ends = itertools.accumulate(len(char.encode()) for char in text)
            places = [0, *(end - 1 for end in ends), len(data)]
            yield [data[a:b] for a, b in itertools.pairwise(places)]

    check(lambda items: emits(lab, items), [*fixed, *drawn()])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_held_is_the_open_end(lab):
    """`held` is a `bytes`: those at the end that can still become a character, and none of a
    character that has been emitted or can no longer be completed.
    """

    def rule(items):
        trace = feed(lab, items, watch="held")
        so_far = itertools.accumulate(data_of(items))
        expect(trace.held, [undecided(data) for data in so_far], trace, "held")

    fixed = [[b"a\xf0\x9f", b"\x9a", b"\x80\xe4", b"b"], [b"\xed", b"\xa0", b"x\xe2\x82"]]
    check(rule, [*fixed, *some_streams(lab), *some_broken(lab)])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_ill_formed_bytes_resolve_at_once(lab):
    """Bytes that can no longer become a character are one U+FFFD for each maximal subpart, emitted
    with the token after which nothing else is possible. A U+FFFD that the model wrote is text like
    any other.
    """
    fixed = [
        [b"\xe4", b"A"],
        [b"\xff", b"a\xc0b", b"\x80"],
        [b"\xed", b"\xa0", b"\xf4\x90"],
        [b"\xf0\x9f", b"\x9a\xe4\xbd", b"\xe4\xbd\xa0"],
        [b"\xef", b"\xbf", b"\xbd", "\ufffd\ufffd".encode(), b"a"],
    ]
    check(lambda items: emits(lab, items), [*fixed, *some_broken(lab)])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_ids_without_bytes_change_nothing(lab):
    """total: an id outside the table, negative ids included, an id for which the table has None,
    and an empty token give "" and do not change half a character.
    """
    fixed = [[b"\xe4", None, b"\xbd", -1, b"\xa0"], [-2, b"a\xc3", 0, b"", 2**32, b"\xa9"]]
    drawn = (put_in(tokens, [*SILENT, b""], lab.random) for tokens in some_streams(lab))
    check(lambda items: emits(lab, items), [*fixed, *drawn])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_special_tokens(lab):
    """A special token gives "" and does not change half a character. With
    `skip_special_tokens=False` it is text, and half a character before it is broken. Only the ids
    decide which tokens are special, not the text of a token.
    """

    def rule(case):
        items, special = case
        trace = feed(lab, items, special=special)
        expect(trace.outputs, expected_pieces(items, without=special), trace, "skipped")
        trace = feed(lab, items, special=special, skip_special_tokens=False)
        expect(trace.outputs, expected_pieces(items), trace, "shown")

    fixed = [([b"<s>", b"\xe4", b"</s>", b"\xbd\xa0", b"<s>"], [b"</s>"])]
    special = [lab.random.sample(SPECIALS, 2) for _ in range(10)]
    drawn = [put_in(tokens, SPECIALS, lab.random) for tokens in some_streams(lab)]
    check(rule, [*fixed, *zip(drawn, special, strict=True)])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_flush_handles_truncated_sequence(lab):
    """A stream that is cut inside a character ends in one U+FFFD, however many bytes were held. Any
    other stream does not.
    """
    fixed = [[b"ok", "🚀".encode()[:size]] for size in range(5)]
    drawn = ([*tokens, a_start(lab)] for tokens in some_streams(lab))
    check(lambda items: emits_and_ends(lab, items), [*fixed, *drawn])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_flush_once_and_fresh(lab):
    """flush-once: a second flush returns "". After a flush the next stream is read like the first:
    no byte before the flush joins a byte after it.
    """
    fixed = [[[b"\xf0\x9f"], [b"\x9a\x80", b"a"]], [[b"\xe4"], [], [b"\xbd\xa0"]]]
    drawn = (cut(tokens, lab.random) for tokens in some_streams(lab, CHINESE, EMOJI))
    check(lambda streams: emits_and_ends(lab, *streams, flushes=2), [*fixed, *drawn])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_burst_equals_single_feeds(lab):
    """feed_many takes ids in bursts, of none to all of them, as lists or iterators. Each burst
    gives the text that feeding its ids one by one gives, joined, and holds the same bytes: also
    after a prompt, with special tokens that are skipped or shown, and after a flush. Its list is
    left as it is. Its iterator may feed another stream.
    """

    def rule(case):
        prompt, *bursts = case
        special = SPECIALS[:1]
        for options in ({}, {"skip_special_tokens": False}):
            without = () if options else special
            table = table_of(prompt, *bursts)
            stream = new(lab, table, prompt, special, **options)
            before, (wanted, held) = all_of(prompt, without), burst_text(prompt, bursts, without)
            calls = [("feed_many", ids_of(items, table)) for items in bursts]
            for maker in (stream, lab.new("given.Bursts", stream)):
                trace = lab.script(maker, [*calls, ("flush",), *calls])
                again, held_again = burst_text([], bursts, without)
                end = expected_end([*itertools.chain(*bursts)], before, without)
                expect(trace.outputs, [*wanted, end, *again], trace)
                expect(trace.held, [*held, b"", *held_again], trace, "held")
                expect_untouched(trace)

    def in_turns(bursts):
        table = table_of(*bursts)
        stream, other = new(lab, table), new(lab, table)
        calls = [("feed_many", ids_of(items, table)) for items in bursts]
        trace = lab.script(lab.new("given.Bursts", stream, other), calls)
        wanted, held = burst_text([], bursts)
        expect(trace.outputs, wanted, trace)
        expect(trace.held, held, trace, "held")

    fixed = [[[], [b"a", b"\xe4"], [b"\xbd"], [], [b"\xa0", -1, b"\xe5"]]]
    fixed += [[[b"a\xe4"], [b"\xbd\xa0", b"a"], [b"<s>", b"b"]]]
    texts = [put_in(tokens, SILENT, lab.random) for tokens in some_streams(lab)]
    texts += [put_in(tokens, SPECIALS, lab.random) for tokens in some_streams(lab)]
    drawn = [cut(items, lab.random) for items in [*texts, *some_broken(lab)]]
    check(rule, [*fixed, *drawn])
    check(in_turns, [[[b"a", b"b"]], *drawn[::3]])


def burst_text(prompt, bursts, without=()):
    """Return the text that each burst must emit, and the bytes that must be held after it."""
    before = undecided(all_of(prompt, without))
    pieces = iter(expected_pieces([*itertools.chain(*bursts)], before, without))
    wanted = ["".join(itertools.islice(pieces, len(items))) for items in bursts]
    data = itertools.accumulate((all_of(items, without) for items in bursts), initial=before)
    return wanted, [undecided(part) for part in data][1:]


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_prompt_that_ends_inside_a_character(lab):
    """A character that the prompt begins is emitted whole, with the token that completes it, and no
    other text of the prompt. If it breaks off, it is one U+FFFD. Until then its bytes are held.
    After a flush the prompt is forgotten. The prompt, a list or a tuple, is read when the stream is
    made: the caller may append each id to the same list before it feeds the id.
    """

    def rule(case):
        prompt, *streams = case
        emits_and_ends(lab, *streams, prompt=prompt)
        trace = lab.script(new(lab, table_of(prompt), prompt), ["held"], watch="")
        expect(trace.outputs[0], undecided(all_of(prompt)), trace, "held before the first feed")
        if streams and type(prompt) is list:
            grows(prompt, streams[0])

    def grows(prompt, items):
        table = table_of(prompt, items)
        history = lab.new("given.shared", ids_of(prompt, table))
        stream, ids = lab.new(DETOKENIZER, table, prompt_ids=history), ids_of(items, table)
        pairs = [(Call("append", (one,), object=1), ("feed", one)) for one in ids]
        calls = [*itertools.chain(*pairs), Call("copy", object=1)]
        trace = lab.script([stream, history], calls, watch="")
        expect(trace.outputs[1:-1:2], expected_pieces(items, all_of(prompt)), str(stream), "pieces")
        expect(trace.outputs[-1], [*ids_of(prompt, table), *ids], trace, "the prompt's list")

    fixed = [
        ([b"Hi", b" \xe4"], [b"\xbd", b"\xa0", b"!"], [b"\xbd\xa0"]),
        ([b"\xf0", b"\x9f", b"\x9a"], [b"\x80"], [b"\x80"]),
        ([b"a\xe4"], [b"b"], []),
        ([b"a\xe4"], [], [b"a"]),
        ((b"a", b"\xe4"), [b"\xbd\xa0"]),
    ]

    def drawn():
        for text in some_texts(lab, CHINESE, EMOJI, LATIN):
            data = text.encode()
            place = lab.random.randrange(1, len(data))
            before, after = (tokens_of(lab.random, part) for part in (data[:place], data[place:]))
            yield before, after, after[:3]

    check(rule, [*fixed, *drawn()])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_prompt_is_read_as_the_stream_is(lab):
    """Ids without bytes and skipped special tokens change nothing in a prompt either: its last
    bytes may be some tokens back, or thousands. A special token that is shown is text in a prompt
    too. After a prompt that ends with a whole character or with broken bytes, nothing is held.
    """

    def rule(prompt):
        stream, special = ["你".encode()[1:], b"a"], SPECIALS[:2]
        for options in ({}, {"skip_special_tokens": False}):
            before = all_of(prompt, without=() if options else special)
            trace = feed(lab, stream, prompt=prompt, special=special, end="flush", **options)
            expect(trace.outputs, [*expected_pieces(stream, before), ""], trace)

    fixed = [
        [b"\xe4", b"<s>"],
        [b"a", b"\xe4", None, b"</s>", -1, b"", 0],
        [b"\xe4", b"a"],
        [b"<s>"],
        [b"\xc3\xff"],
    ]
    silent = [*SILENT, *SPECIALS[:2]]
    drawn = (
        put_in([*tokens, b"\xe4"], silent, lab.random) + lab.random.choices(silent, k=3)
        for tokens in some_streams(lab, CHINESE, EMOJI)
    )
    check(rule, [*fixed, *drawn, *some_broken(lab, 8)])
    for silent in (None, b"", b"<s>", -1):
        rule([b"a\xe4", *[silent] * lab.random.randint(2_000, 3_000)])


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_property_exact_and_eager_on_all_short_streams(lab):
    """complete, append-only, honest, eager: for every stream of up to two tokens of 16 kinds, and
    of three of 8 of these, each id emits all text that is certain and no more, and flush the rest.
    """
    pairs = [[*pair] for size in range(3) for pair in itertools.product(KINDS, repeat=size)]
    # An A ends what is open, so 8 streams of three tokens fit into one.
    threes = (
        [item for last in KINDS[:8] for item in (*pair, last, b"A")]
        for pair in itertools.product(KINDS[:8], repeat=2)
    )
    check(lambda items: emits_and_ends(lab, items), [*pairs, *threes])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_property_exact_and_eager_on_random_streams(lab):
    """complete, honest, eager, flush-once: the same for random bytes, for text with a missing byte
    and odd ids among its tokens, for streams after a flush, and after a prompt.
    """

    def cases():
        for length in range(4, 90, 4):
            text = "".join(lab.random.choices(MIXED, k=length)).encode()
            where = lab.random.randrange(len(text))
            tokens = tokens_of(lab.random, text[:where] + text[where + 1 :])
            odd = lab.random.choices(KINDS, k=length)
            yield [odd[:3], put_in(tokens, SILENT, lab.random), odd, *some_broken(lab, 1)]

    check(lambda case: emits_and_ends(lab, *case[1:], prompt=case[0] if case else ()), cases())


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_chunk_invariant(lab):
    """chunk-invariant: however the same bytes are cut into tokens, and the tokens into bursts, the
    whole text is the same.
    """

    def rule(bursts):
        table = table_of(*bursts)
        calls = [("feed_many", ids_of(items, table)) for items in bursts]
        trace = lab.script(new(lab, table), [*calls, ("flush",)], watch="")
        expect(trace.text, decoded(b"".join(map(all_of, bursts))), trace)

    data = "né你🚀".encode() + b"\xe4\xed\xa0\xff"
    for way in range(24):
        drawn = bytes(lab.random.choices(data, k=12)) if way % 2 else data
        check(rule, [cut(tokens_of(lab.random, drawn), lab.random)])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: streams fed in turns give the same text as each alone, each with its own options,
    though all have one table, which no stream changes.
    """

    def rule(streams):
        pieces = table_of(*streams, SPECIALS)
        ids = [ids_of(items, pieces) for items in streams]
        table = lab.new("given.shared", pieces)
        marked = frozenset(map(pieces.index, SPECIALS[:2]))
        skipped = [number % 2 == 0 for number in range(len(streams))]
        news = [
            lab.new(DETOKENIZER, table, special=marked, skip_special_tokens=skips)
            for skips in skipped
        ]
        traces = lab.interleave(news, ids, "flush")
        for items, skips, trace in zip(streams, skipped, traces, strict=True):
            without = SPECIALS[:2] if skips else ()
            end = expected_end(items, without=without)
            expect(trace.outputs, [*expected_pieces(items, without=without), end], trace)

    def unchanged(items):
        pieces = table_of(items)
        table = lab.new("given.shared", pieces)
        stream = lab.new(DETOKENIZER, table, special=frozenset([0]))
        calls = [*(("feed", one) for one in ids_of(items, pieces)), Call("copy", object=1)]
        trace = lab.script([stream, table], calls, watch="")
        expect(trace.outputs[-1], pieces, trace, "the table")

    fixed = [[[b"\xe4", b"\xbd\xa0"], [b"\xf0\x9f", b"a", b"\x9a"]]]
    drawn = [
        [put_in(tokens, SPECIALS, lab.random) for tokens in some_streams(lab, CHINESE, count=3)]
        for _ in range(6)
    ]
    check(rule, [*fixed, *drawn])
    check(unchanged, [[b"<s>", None, b"", b"a"], *itertools.chain(*drawn)])


def real_runs(lab, *, from_the_start):
    """Feed texts that are spelled in the tokens of each trained vocabulary, skipped specials among
    them, in turns; yield what knows the vocabulary, and for each text the ids of the prompt, those
    of the stream, and the trace. The table is what token_bytes makes of the vocabulary.
    """
    for name in lab.given.NAMES:
        reader = lab.given.reader(name)
        strips = from_the_start and reader.decode(reader.spell("", lab.random)) == ""
        vocabulary = lab.new("given.vocabulary", name)
        table = lab.new("token_bytes", vocabulary, reader.kind, special=reader.special)
        news, parts = [], []
        for text in ["🫨 aquí " + MIXED * 3, *some_texts(lab)]:
            first, *ids = reader.spell(text, lab.random)
            ids = [first, *put_in(ids, reader.special or [-1], lab.random)]
            # The first token is the prompt at least: it may be the space that decode takes away.
            place = lab.random.randint(1, len(ids)) if news else 1
            prompt, stream = ([], ids) if from_the_start else (ids[:place], ids[place:])
            parts.append((prompt, stream))
            options = {"strip_first_space": True} if strips else {}
            options |= {"prompt_ids": prompt} if prompt else {}
            news.append(lab.new(DETOKENIZER, table, special=reader.special, **options))
        traces = lab.interleave(news, [stream for _, stream in parts], "flush")
        yield from ((reader, *part, trace) for part, trace in zip(parts, traces, strict=True))


def own_text(reader, ids):
    """What the tokenizer itself makes of well-formed ids, special ones left out."""
    return reader.decode([i for i in ids if i not in reader.special])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_real_vocabularies(lab):
    """complete, eager: for trained vocabularies, with the table of your token_bytes, and with any
    part of a text as the prompt, the stream has the text that the tokenizer's own decode has there,
    each character with its last token.
    """
    for reader, prompt, stream, trace in real_runs(lab, from_the_start=False):
        special = [*map(reader.bytes_of, reader.special)]
        items = [*map(reader.bytes_of, stream)]
        before = all_of(map(reader.bytes_of, prompt), special)
        size = len(undecided(before)) + len(all_of(items, special))
        text = own_text(reader, prompt + stream).encode()
        expect(trace.text, text[len(text) - size :].decode(), trace)
        expect(trace.outputs, [*expected_pieces(items, before, special), ""], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
@pytest.mark.timeout(10)
def test_property_linear(lab):
    """linear: an id costs the same at the end of a long stream as at its start. So more than 60,000
    ids, with bytes or without, finish well within the time limit, after a million bytes of text,
    and after 60,000 bytes of invalid UTF-8. So does a prompt of as many ids, and a burst of them.
    However many ids are special, and however long the prompt is, few items of the prompt and of
    the table are read, and a stream does not grow, neither with new ids, nor with a burst, nor with
    flushes.
    """
    keeps_little(lab)
    broken = bytes([0xED, lab.random.randint(0xA0, 0xBF)])
    tokens = [broken, b"<s>", None, "né你".encode(), b"A"]
    for size in (100, lab.random.randint(60_000, 70_000)):
        # To decode at each id all that came before, or all since the text, takes minutes: the limit
        # need not tell how fast a machine is.
        items = [("né你🚀 words" * 62).encode()] * (size // 50) + [broken * 500] * (size // 1000)
        # Where bytes are merely counted, the A's let the count come out: here only cost matters.
        items += [*tokens[:3] * (size // 3), *tokens[3:] * (size // 10)]
        table = table_of(items)
        feeder = lab.new("given.Feeder", new(lab, table, special=[b"<s>"]))
        pieces = lab.call(feeder, "feed_all", ids_of(items, table))
        call = f"{len(items):,} ids fed one at a time, then flush"
        others = [piece for piece in pieces if type(piece) is not str]
        if others:
            raise Failure("a str from each call", show(others[0]), call)
        expect_long("".join(pieces), decoded(all_of(items, [b"<s>"])), call)
    unused = frozenset(range(10**6, 10**6 + 20_000))
    for burst in (["né你".encode()] * 300_000, [b"\xff" * 1_000] * 600, items):
        table = table_of(burst)
        stream = lab.new(DETOKENIZER, table, special=unused)
        trace = lab.script(stream, [("feed_many", ids_of(burst, table))], watch="")
        call = f"a burst of {len(burst):,} ids"
        expect_long(trace.text, decided(all_of(burst)), call)
    trace = feed(lab, [b"!"], special=[b"<s>"], prompt=items)
    call = f"one id after a prompt of {len(items):,}"
    expect_long(trace.text[-1:], "!", f"{call}: the last character of the text")


def keeps_little(lab):
    """A stream must read few items of its prompt and table, and keep nothing of its text."""
    pieces = [b"ab", "né你".encode(), b"\xff", b"", b"<s>", None, b"\xe4"]
    table, size = lab.new("given.Counted", pieces * 1_000), lab.random.randint(20_000, 25_000)
    silent = [lab.random.choice([3, 4, 5, -1])] * 2_000
    prompt = lab.new("given.Counted", [0, 1] * size + silent)
    special = frozenset([4, *range(10**6, 10**6 + size)])
    stream = lab.new(DETOKENIZER, table, special=special, prompt_ids=prompt)
    scale = lab.new("given.Scale", stream, table, prompt, special)
    weigh = Call("weight", None, object=3)
    ids = [0, 1, 2, 3, 4, 5, 10**7, -1]
    few = [*(("feed", one) for one in ids * 10), ("feed_many", ids)]
    more = [*(("feed", one) for one in [*range(400), *ids * 10]), ("feed_many", [1] * 300)]
    ends = [("feed", 6), ("flush",)] * 100
    reads = [Call("reads", None, object=number) for number in (1, 2)]
    calls = [*few, weigh, *more, weigh, *ends, weigh, *reads]
    trace = lab.script([stream, prompt, table, scale], calls, watch="")
    call = f"{len(calls)} calls after a prompt of {size * 2:,} ids and 2,000 without bytes"
    before, *after = (step.result for step in trace.steps if step.call.name == "weight")
    for weight in after:
        expect_most(weight - before, MOST_GROWN, call, "bytes more are kept")
    expect_most(trace.outputs[-2], MOST_READ + 2 * len(silent), call, "ids of the prompt read")
    expect_most(trace.outputs[-1], MOST_READ * 4, call, "items of the table read")


def strips(lab, *streams, prompt=(), special=()):
    """A stream with strip_first_space must lose one space where its text begins, if there is one;
    after a prompt that has text, nothing: with single ids and in bursts, with special tokens that
    are skipped or shown.
    """
    table = table_of(prompt, *streams)
    shows = [{}, {"skip_special_tokens": False}]
    for options in shows if {*special} & {*table} else shows[:1]:
        without = () if options else special
        calls, wanted, before = [], [], all_of(prompt, without)
        bursts, joined = [], []
        for items in streams:
            data = data_of(items, without)
            first = next((number for number, piece in enumerate(data) if piece), None)
            if first is not None and not before:
                data[first] = data[first].removeprefix(b" ")
            pieces, end = expected_pieces(data, before), expected_end(data, before)
            ids = ids_of(items, table)
            calls += [*(("feed", i) for i in ids), ("flush",)]
            wanted += [*pieces, end]
            parts, texts = (cut_at(whole, [1, 3]) for whole in (ids, pieces))
            bursts += [*(("feed_many", part) for part in parts), ("flush",)]
            joined += [*map("".join, texts), end]
            before = b""
        stream = new(lab, table, prompt, special, strip_first_space=True, **options)
        for steps, outputs in ((calls, wanted), (bursts, joined)):
            trace = lab.script(stream, steps, watch="")
            expect(trace.outputs, outputs, trace)


def some_spaced(lab, count=10):
    """Draw streams that begin with some spaces and have more of them."""
    for tokens in some_streams(lab, count=count):
        spaces = tokens_of(lab.random, b" " * lab.random.randint(1, 4))
        yield [*spaces, *put_in(tokens, [b" ", b"  ", b" the"], lab.random)]


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_one_space_is_stripped_at_the_start(lab):
    """With `strip_first_space` one space is left out where the text begins: only one, and nowhere
    else, in this stream and in each after a flush, with single ids and in bursts. Ids without bytes
    and skipped special tokens do not begin the text. All other tokens begin it, including a special
    token that is shown.
    """
    fixed = [
        [[b" a"], [b" a"], [b" a"]],
        [[b"a"], [], [b" a"]],
        [[b" a\xe4"], [b" a"], [b" a\xe4"], [b" a"]],
        [[b" the", b" cat"], [b" the"]],
        [[b" ", b" the", b" the"], [b"the", b" the"]],
        [[None, b"<s>", b"", -1, b" the"], [b"   a"]],
        [[b"\xe4", b" "], [b"\n", b" a"]],
    ]
    check(lambda streams: strips(lab, *streams, special=[b"<s>"]), fixed)
    check(lambda streams: strips(lab, *streams), [[[b"<s>", b" the"]]])
    silent = [*SILENT, b"", b"<s>"]
    drawn = ([put_in(items, silent, lab.random), items, items[:2]] for items in some_spaced(lab))
    check(lambda streams: strips(lab, *streams, special=[b"<s>"]), drawn)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_no_space_is_stripped_after_a_prompt(lab):
    """After a prompt that has text nothing is stripped, because the prompt began the text. Half a
    character is text as well. A prompt of skipped special tokens and ids without bytes has no text.
    After a flush the prompt no longer counts.
    """

    def rule(case):
        prompt, *streams = case
        strips(lab, *streams, prompt=prompt, special=[b"<s>"])

    fixed = [
        ([b"the"], [b" cat"], [b" cat"]),
        ([b"<s>"], [b" cat"], [b" cat"]),
        ([b"<s>", b" ", None], [b" cat"], []),
        ([b"a", b"\xe4"], [b"\xbd\xa0", b" cat"], [b"  cat"]),
        ([b"\xe4"], [b" cat"], [b" cat"]),
    ]
    before = [[b" "], [b"\xf0", b"\x9f"], [b"<s>"], [None, -1], [b"a", b"<s>"], [b"<s>", b" a"]]
    drawn = ((lab.random.choice(before), items, items[:2]) for items in some_spaced(lab, 15))
    check(rule, [*fixed, *drawn])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_real_vocabularies_from_the_start(lab):
    """With `strip_first_space` for a tokenizer that strips, a stream without a prompt has exactly
    the text of the tokenizer's own decode.
    """
    for reader, _, stream, trace in real_runs(lab, from_the_start=True):
        expect(trace.text, own_text(reader, stream), trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_unknown_kind_is_refused(lab):
    """A kind that is neither byte_level nor byte_fallback is a ValueError, whose message contains
    the kind, even if no token of the vocabulary is spelled. In both kinds, an empty token has no
    bytes.
    """

    def rule(kind):
        if kind in ("byte_level", "byte_fallback"):
            tells(lab, kind, ["", "a"])
            return
        for tokens in (["a"], [], [None], ["<s>"]):
            options = {"special": frozenset([0])} if tokens == ["<s>"] else {}
            message = lab.rejects("token_bytes", tokens, kind, **options)
            call = f"token_bytes({tokens}, {kind!r})"
            expect_in(kind, message, call)

    names = lab.random.sample(["wordpiece", "ByteLevel", "byte-level", "metaspace", "bpe"], 3)
    for kind in ("byte_level", "byte_fallback", "unigram", *names):
        rule(kind)
