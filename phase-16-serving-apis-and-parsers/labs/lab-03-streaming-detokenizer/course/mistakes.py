"""The common mistakes of this lab. Each has a probe to which only that mistake answers True."""

from labkit.testing import error_of, mistake

BAD = "\ufffd"
ROCKET = [0xF0, 0x9F, 0x9A, 0x80]
TABLE = [1] * 0x80 + [0] * 0x42 + [2] * 0x1E + [3] * 0x10 + [4] * 5 + [0] * 11
# The limits of the second byte after E0, ED, F0 and F4: (first byte, a legal second byte, an
# illegal second byte), next to the limit and far from it.
LIMITS = [(0xE0, 0xA0, 0x9F), (0xED, 0x9F, 0xA0), (0xF0, 0x90, 0x8F), (0xF4, 0x8F, 0x90)]
INSIDE = [(0xE0, 0xB0, 0x80), (0xED, 0x90, 0xBF), (0xF0, 0xA0, 0x80), (0xF4, 0x80, 0xBF)]


def lengths(lab):
    """Return the lengths of all 256 bytes."""
    return [lab.call("utf8_expected_len", byte) for byte in range(256)]


def fed(lab, *ids, end=""):
    """Return the output for each id, fed to a new detokenizer."""
    return lab.stream(lab.new("StreamingDetokenizer"), ids, end=end, watch="").outputs


def flushed(lab, *ids):
    """Return the output for each id and for the flush at the end."""
    return fed(lab, *ids, end="flush")


def error(lab, *ids):
    """Return the kind and the text of the exception that the ids raise, or ("", "")."""
    return error_of(fed, lab, *ids)


def held(lab, *ids):
    """Return `held` after the ids, or the reason why it cannot be read."""
    calls = [*(("feed", token_id) for token_id in ids), "held"]
    try:
        return lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs[-1]
    except AssertionError as failure:
        return str(failure)


def waits_for_whole_characters(lab):
    """Return whether valid text is emitted right, character by character."""
    expected = ["a", "", "é", "", "", "你", "", "", "", "🚀", "b"]
    return fed(lab, *"aé你🚀b".encode()) == expected


def holds(lab, first, second):
    """Return whether the two bytes are held; None if they are neither held nor settled."""
    return {("", ""): True, ("", BAD * 2): False}.get(tuple(fed(lab, first, second)))


def holds_wrongly(lab, pairs):
    """Return for each pair whether its legal or its illegal second byte is misjudged."""
    answers = [(holds(lab, first, good), holds(lab, first, bad)) for first, good, bad in pairs]
    if None in {answer for pair in answers for answer in pair}:
        return None
    return [answer != (True, False) for answer in answers]


def differs(lab, expected):
    """Return whether the table of lengths is right except for these entries."""
    table = TABLE.copy()
    for byte, length in expected.items():
        table[byte] = length
    return lengths(lab) == table


@mistake(task=1)
def constant_length(lab):
    """`utf8_expected_len` gives the same answer for every byte.

    Begin with the first row of the table: which bytes are a whole character?
    """
    answers = lengths(lab)
    return answers == answers[:1] * 256


@mistake(task=1)
def lead_c0(lab):
    """C0 and C1 count as first bytes of two-byte characters.

    Every character that C0 or C1 could start fits into one byte. Look at the row of two-byte
    characters in the table: it begins a little later than the bits suggest.
    """
    return differs(lab, {0xC0: 2, 0xC1: 2})


@mistake(task=1)
def high_bits(lab):
    """The length comes from the high bits alone, so C0, C1 and F5 to F7 seem to start a character.

    The bit pattern is necessary, not sufficient: C0 and C1 would spell what one byte can, F5 to F7
    lead beyond U+10FFFF. Compare values with the ranges of the table instead.
    """
    return differs(lab, {0xC0: 2, 0xC1: 2, **dict.fromkeys(range(0xF5, 0xF8), 4)}) or differs(
        lab, {0xC0: 2, 0xC1: 2, **dict.fromkeys(range(0xF5, 0x100), 4)}
    )


@mistake(task=1)
def beyond_f4(lab):
    """First bytes beyond F4 have a length, though U+10FFFF, the last character, begins with F4.

    Where does the last row of the table end, and does your range end there as well?
    """
    return (
        differs(lab, {0xF5: 4})
        or differs(lab, dict.fromkeys(range(0xF5, 0xF8), 4))
        or differs(lab, dict.fromkeys(range(0xF5, 0x100), 4))
    )


@mistake(task=1)
def before_f4(lab):
    """F4 has length 0, although it starts the characters from U+100000 on.

    Does your last range include its end? `range(a, b)` and `<` do not.
    """
    return differs(lab, {0xF4: 0})


@mistake(task=1)
def continuation_length(lab):
    """Continuation bytes, 80 to BF, have length 1, as if they were characters.

    They only continue a character, and no character starts with them. Which length does the table
    have for them?
    """
    return differs(lab, dict.fromkeys(range(0x80, 0xC0), 1))


@mistake(task=1)
def counts_what_follows(lab):
    """The first byte itself is not counted: the lengths are one too small.

    The length is that of the whole character; an ASCII letter has 1.
    """
    return lengths(lab)[0x41] == 0 and lengths(lab)[0xC3] == 1 and lengths(lab)[0xF0] == 3


@mistake(task=1)
def dead_bytes_raise(lab):
    """A byte that starts no character, such as 80, raises a ValueError instead of giving 0.

    80 is a byte, and its length is 0. Only values outside 0-255 are refused.
    """
    return bool(lab.rejects("utf8_expected_len", 0x80)) and lab.call("utf8_expected_len", 65) == 1


@mistake(task=2)
def init_argument(lab):
    """`StreamingDetokenizer()` raises, because `__init__` requires an argument.

    Callers pass no arguments. Initialise the attributes in `__init__` itself.
    """
    kind, message = error(lab)
    return kind == "TypeError" and "__init__() missing" in message


@mistake(task=2)
def held_type(lab):
    """`held` is not a `bytes` object.

    How you keep the bytes is up to you; `held` returns `bytes(...)` of them.
    """
    fed(lab, *b"AAAA")
    whole = waits_for_whole_characters(lab) and fed(lab, 0xE2, 0x41) == ["", BAD + "A"]
    if not whole or fed(lab, 0xED, 0xA0, 0xFF) != ["", BAD * 2, BAD]:
        return False
    shown = held(lab, 0xF0, 0x9F)
    fed(lab, *b"AAAA")
    return shown == [0xF0, 0x9F] or "bytearray" in str(shown)


@mistake(task=2)
def shared(lab):
    """A new detokenizer already holds the bytes that another detokenizer was fed.

    Where do you keep the buffer? A buffer of the module, of the class or in a default argument is
    shared by all objects; a buffer made in `__init__`, on `self`, belongs to one object.
    """
    fresh = held(lab)
    if isinstance(fresh, bytes | list) and fresh:
        return True
    fed(lab, *b"AAAA")
    alone = fed(lab, 0x41)
    fed(lab, 0xE2)
    after = fed(lab, 0x41)
    fed(lab, *b"AAAA")
    return alone == ["A"] and after != alone


@mistake(task=2)
def returns_tuple(lab):
    """`feed` returns a tuple or a list instead of a str.

    The text alone is returned; `held` shows the held bytes.
    """
    return type(fed(lab, 0x41)[0]) in (tuple, list)


@mistake(task=2)
def feeds_itself(lab):
    """`feed` feeds an incomplete byte to itself again, so it is emitted broken at once.

    `feed` takes one token and returns; if no text is certain, it returns `""`. The next call brings
    the next token.
    """
    if error(lab, 0xC3)[0] == error(lab, 0xF0)[0] == "RecursionError":
        return fed(lab, 0x41) == ["A"]
    twice = fed(lab, 0xC3) == [BAD * 2] and fed(lab, 0xF0) == [BAD * 4]
    return twice or fed(lab, 0xC3, 0xA9) == [BAD, "é"]


@mistake(task=2)
def always_empty(lab):
    """`feed` returns `""` for every token, even for a letter.

    Begin with ASCII: an ASCII byte is a whole character, so its text is certain at once.
    """
    return held(lab) in (b"", None) and fed(lab, *b"abcdefgh", *ROCKET, 0x41) == [""] * 13


@mistake(task=2)
def none_for_nothing(lab):
    """`feed` returns None while a character is incomplete.

    A path through `feed` that ends without `return` returns None. Return `""` there.
    """
    return fed(lab, 0x41, 0xC3) == ["A", None]


@mistake(task=2)
def always_none(lab):
    """`feed` returns None, whatever it is fed.

    Is there a `return`? Printing a value does not return it.
    """
    return fed(lab, 0x41, 0x42) == [None, None]


@mistake(task=2)
def decode_alone(lab):
    """Every byte is decoded alone: the rocket becomes four U+FFFD.

    No single byte of 🚀 is text. Which bytes must be held until the others have arrived?
    """
    return fed(lab, *ROCKET, 0xC3, 0xA9, 0x41) == [BAD] * 6 + ["A"]


@mistake(task=2)
def decode_alone_ignoring(lab):
    """Every byte is decoded alone and errors are dropped: only the ASCII characters are left.

    No single byte of 🚀 is text. Which bytes must be held until the others have arrived?
    """
    return flushed(lab, *ROCKET, 0xC3, 0xA9, 0x41) == [""] * 6 + ["A", ""]


@mistake(task=2)
def byte_as_character(lab):
    """A byte is taken for the character with that number: é becomes Ã©.

    `chr` takes a code point, not a byte. Make a `bytes` object of the held bytes and decode it as
    UTF-8.
    """
    return fed(lab, 0xC3, 0xA9) == ["Ã", "©"]


@mistake(task=2)
def one_late(lab):
    """Every character is emitted one token late.

    Is a character complete with its last byte, or with the byte after it? Compare the number of
    held bytes with the length after adding the byte, not before.
    """
    return fed(lab, 0x41, 0x42, *ROCKET, 0x43) == ["", "A", "B", "", "", "", "🚀"]


@mistake(task=2)
def waits_for_four(lab):
    """Text is emitted in blocks of four bytes, even ASCII.

    Four bytes is the length of the longest characters only. Which length does the first byte
    announce?
    """
    return fed(lab, *b"abcdefgh") == ["", "", "", "abcd", "", "", "", "efgh"]


@mistake(task=2)
def no_replacement(lab):
    """U+FFFD is filtered out of the text, even where the model wrote one.

    EF BF BD is a character like any other, and ill-formed bytes must become U+FFFD. Do not edit the
    text after decoding: decide on the bytes.
    """
    real = fed(lab, 0xEF, 0xBF, 0xBD, 0x41) == ["", "", "", "A"]
    return real and fed(lab, 0xE2, 0x41) == ["", "A"] and waits_for_whole_characters(lab)


@mistake(task=2)
def ignore_errors(lab):
    """Bytes that are not valid UTF-8 are dropped.

    `errors="ignore"` hides the damage. When 41 follows E2, which character shows the reader that a
    character was broken?
    """
    vanish = fed(lab, 0xE2, 0x41) == ["", "A"] and fed(lab, 0xFF, 0x41) == ["", "A"]
    real = fed(lab, 0xEF, 0xBF, 0xBD) == ["", "", BAD]
    return vanish and real and waits_for_whole_characters(lab)


@mistake(task=2)
def try_decode(lab):
    """After one bad byte no text is emitted any more: all later bytes are held as well.

    A strict `decode` fails in two cases: the bytes are not a character *yet*, or they never will
    be. Distinguish the two cases, and settle the bytes in the second case.
    """
    stuck = all(fed(lab, bad, *b"ABCDEF") == [""] * 7 for bad in (0xE2, 0xFF))
    return stuck and waits_for_whole_characters(lab)


@mistake(task=2)
def trust_lead(lab):
    """The announced number of bytes is collected, whatever they are: E2 swallows the A after it.

    Look at each byte when it arrives, not when the count is complete: can it continue the held
    bytes? If not, settle the held bytes now.
    """
    swallow = fed(lab, 0xC3, 0x41)[0] == "" and fed(lab, 0xE2, 0x41) == ["", ""]
    three, four = fed(lab, 0xE2, 0x41, 0x42), fed(lab, 0xF0, 0x41, 0x42, 0x43)
    full = three[:2] == ["", ""] and four[:3] == ["", "", ""] and three[2] and four[3]
    return swallow and bool(full) and waits_for_whole_characters(lab)


@mistake(task=2)
def swallows_the_byte(lab):
    """The byte that ends a broken character is swallowed with it.

    E2 41 is a character that was cut off, followed by an A. After 41 has settled E2, judge 41
    itself.
    """
    return fed(lab, 0xE2, 0x41, 0x42) == ["", BAD, "B"] and waits_for_whole_characters(lab)


@mistake(task=2)
def judged_one_late(lab):
    """The byte that ends a broken character is held, although it is a character itself.

    E2 41 is a character that was cut off, followed by an A. After 41 has settled E2, judge 41
    again, in the same call.
    """
    return fed(lab, 0xE2, 0x41, 0x42)[:2] == ["", BAD] and held(lab, 0xE2, 0x41) == b"A"


@mistake(task=2)
def first_byte_not_held(lab):
    """A first byte that ends a broken character becomes U+FFFD at once, although it may begin a
    character.

    E2 C3 A9 is a character that was cut off, followed by an é. After C3 has settled E2, hold C3
    itself, as after any other byte.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xE2, 0xC3, 0xA9) == ["", BAD * 2, BAD]


@mistake(task=2)
def first_byte_lost(lab):
    """A first byte that ends a broken character is lost with it.

    E2 C3 A9 is a character that was cut off, followed by an é. After C3 has settled E2, hold C3
    itself, as after any other byte.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xE2, 0xC3, 0xA9) == ["", BAD, BAD]


@mistake(task=2)
def first_byte_swallowed(lab):
    """The first byte of a character is taken for the next byte of the previous character.

    C3 C3 A9 is a character that was cut off, followed by an é. Only 80 to BF can continue a
    character; every other byte ends it.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xC3, 0xC3, 0xA9) == ["", BAD * 2, BAD]


@mistake(task=2)
def waits_for_a_fourth(lab):
    """Bytes that can never become a character are held until there are four of them.

    FF can never become a character, and E2 cannot once 41 follows it. Distinguish "not yet" and
    "never" by the values of the bytes, not by their number.
    """
    dead = fed(lab, 0xFF, 0x41, 0x42, 0x43) == ["", "", "", BAD + "ABC"]
    cut = fed(lab, 0xE2, 0x41, 0x42, 0x43) == ["", "", "", BAD + "ABC"]
    return dead and cut and waits_for_whole_characters(lab)


@mistake(task=2)
def replaces_each_byte(lab):
    """A character that breaks off gives one U+FFFD for each of its bytes.

    E2 82 is the beginning of one character, so it becomes one U+FFFD when 41 ends it. Decode the
    held bytes in one call.
    """
    return fed(lab, 0xE2, 0x82, 0x41) == ["", "", BAD * 2 + "A"] and waits_for_whole_characters(lab)


@mistake(task=2)
def looks_at_the_text(lab):
    """Text that ends in U+FFFD is held, even if the model wrote that U+FFFD.

    EF BF BD is a whole character. Only the bytes show whether a character is incomplete: in the
    text, an incomplete character, a broken character and a real U+FFFD look the same.
    """
    real = fed(lab, 0xEF, 0xBF, 0xBD, 0x41) == ["", "", "", BAD + "A"]
    return real and fed(lab, 0xFF, 0x41) == ["", BAD + "A"]


@mistake(task=2)
def dead_bytes_wait(lab):
    """A byte that starts no character, such as FF, is held until the next byte arrives.

    Can any later byte make a character of FF? If not, emit U+FFFD at once.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xFF, 0x41) == ["", BAD + "A"]


@mistake(task=2)
def dead_bytes_vanish(lab):
    """A byte that starts no character, such as FF, is dropped.

    The byte is ill-formed, so the reader sees a U+FFFD in its place, at once.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xFF, 0x41) == ["", "A"]


@mistake(task=2)
def incremental_decoder(lab):
    """ED A0 is held, as in Python's own incremental decoder, although no third byte can complete
    it.

    That decoder returns the right text, but it checks the byte after ED too late. Check the second
    byte yourself: after some first bytes not every continuation byte is legal.
    """
    late = fed(lab, 0xED, 0xA0, 0x41) == ["", "", BAD * 2 + "A"]
    return late and all(
        holds(lab, first, bad) is False for first, _, bad in LIMITS if first != 0xED
    )


@mistake(task=2)
def any_second_byte(lab):
    """After E0, ED, F0 and F4 every continuation byte is taken for legal.

    ED A0 is held, although no character begins with it. Look at the table of second bytes: four
    first bytes have a range of their own.
    """
    far, right = holds_wrongly(lab, INSIDE), fed(lab, 0xE2, 0x41) == ["", BAD + "A"]
    return far == [True] * 4 and right and waits_for_whole_characters(lab)


@mistake(task=2)
def some_second_bytes(lab):
    """The second byte is checked after some of E0, ED, F0 and F4, but not after all of them.

    Go through the table of second bytes, row by row: which row is missing in your code?
    """
    far = holds_wrongly(lab, INSIDE)
    return far is not None and 0 < sum(far) < 4 and fed(lab, 0xE2, 0x41) == ["", BAD + "A"]


@mistake(task=2)
def second_byte_limit(lab):
    """A limit of the second byte after E0, ED, F0 or F4 differs from the table.

    The last value of `range(0x80, 0xA0)` is 9F, and `<` excludes a value that `<=` includes.
    Compare each of the four ranges with the table.
    """
    far, near = holds_wrongly(lab, INSIDE), holds_wrongly(lab, LIMITS)
    return far == [False] * 4 and near is not None and any(near)


@mistake(task=2)
def wrap_ids(lab):
    """An id that is not a byte is turned into a byte: EOS, 257, is emitted as U+0001.

    Ids outside 0-255 have no text. Check for them before you make a byte of the id.
    """
    return fed(lab, 0x41, 257, 321) == ["A", "\x01", "A"]


@mistake(task=2)
def odd_id_ends(lab):
    """An id that is not a byte ends the incomplete character.

    Such an id changes nothing: the same bytes are held before and after it.
    """
    whole = fed(lab, 0xC3, 0xA9) == ["", "é"]
    return whole and all(fed(lab, 0xC3, odd, 0xA9)[2] != "é" for odd in (257, -1))


@mistake(task=2)
def unchecked_ids(lab):
    """An id that is not a byte makes `feed` raise.

    EOS is 257, and engines have passed on -1. Such ids have no text: check the id before you make a
    byte of it.
    """
    raising = {error(lab, odd)[0] for odd in (257, -1)} & {"ValueError", "OverflowError"}
    return bool(raising) and fed(lab, 0x41) == ["A"]


@mistake(task=2)
def held_method(lab):
    """`held` is a method, but callers read it without a call.

    In the starter it has the decorator `@property`: put it back.
    """
    return "is a method" in str(held(lab))


@mistake(task=2)
def held_recursion(lab):
    """`held` reads itself until Python raises a RecursionError.

    The property and the attribute that has the bytes need different names.
    """
    return "RecursionError" in str(held(lab)) and fed(lab, 0x41) == ["A"]


@mistake(task=2)
def held_none(lab):
    """`held` is None.

    A property is a method: without `return` its value is None.
    """
    return held(lab) is None and held(lab, 0xF0) is None


@mistake(task=3)
def no_flush(lab):
    """`flush` returns `""` although a character was cut off.

    The stream has ended and the missing bytes will not arrive. Which character shows the reader
    that a character was cut off?
    """
    return flushed(lab, 0xF0) == ["", ""] and flushed(lab, 0x41, 0xE2, 0x82) == ["A", "", "", ""]


@mistake(task=3)
def flush_always_replaces(lab):
    """`flush` returns U+FFFD even if nothing is held.

    After a complete character nothing is cut off. Look at the held bytes first.
    """
    return flushed(lab, 0x41) == ["A", BAD]


@mistake(task=3)
def flush_none(lab):
    """`flush` returns None.

    `flush` always returns a `str`; if nothing is held, it returns `""`.
    """
    return flushed(lab, 0x41)[-1] is None


@mistake(task=3)
def one_per_byte(lab):
    """A character that was cut off gives one U+FFFD for each of its bytes.

    The held bytes are always the beginning of *one* character. Decode them in one call.
    """
    return flushed(lab, 0xF0, 0x9F)[-1] == BAD * 2 and flushed(lab, 0xF0)[-1] == BAD


@mistake(task=3)
def flush_keeps(lab):
    """A second `flush` returns the text of the first one again.

    Empty the buffer before you return.
    """
    calls = [("feed", 0xF0), ("flush",), ("flush",)]
    outputs = lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs
    return outputs == ["", BAD, BAD]


@mistake(task=3)
def flush_forgets_the_count(lab):
    """After a `flush` a character still counts as incomplete, although its bytes are gone.

    The first byte of the next stream ends that character and emits a second U+FFFD. Which
    attributes besides the buffer depend on the past? `flush` must reset all of them.
    """
    calls = [("feed", 0xF0), ("flush",), ("feed", 0x41), ("feed", 0x42)]
    outputs = lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs
    return outputs == ["", BAD, BAD + "A", "B"] and flushed(lab, 0x41) == ["A", ""]


@mistake(task=3)
def flush_ends(lab):
    """After a `flush` nothing is emitted any more.

    A flush ends the stream, not the object: afterwards the object has fresh state.
    """
    calls = [("feed", 0x41), ("flush",), ("feed", 0x41), ("feed", 0xC3), ("feed", 0xA9)]
    outputs = lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs
    return outputs == ["A", "", "", "", ""]


@mistake(task=3)
def any_int(lab):
    """A value outside 0-255 gets a length instead of a ValueError.

    256 and -1 are not bytes. Check both limits first.
    """
    return any(type(lab.call("utf8_expected_len", value)) is int for value in (256, -1))


@mistake(task=2, overdue=["test_property_linear"])
def redecode_all(lab):
    """Each token of a long stream takes longer than the previous token.

    What grows with the stream? The bytes of emitted text are no longer needed.
    """
    return fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
