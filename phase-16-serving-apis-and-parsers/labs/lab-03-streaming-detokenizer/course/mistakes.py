"""The common mistakes of this lab, each with a probe that only it answers."""

from labkit.testing import error_of, mistake

BAD = "\ufffd"
ROCKET = [0xF0, 0x9F, 0x9A, 0x80]
TABLE = [1] * 0x80 + [0] * 0x42 + [2] * 0x1E + [3] * 0x10 + [4] * 5 + [0] * 11
# The limits of the second byte after E0, ED, F0 and F4: (first byte, a legal and an illegal one),
# next to the limit and far from it.
LIMITS = [(0xE0, 0xA0, 0x9F), (0xED, 0x9F, 0xA0), (0xF0, 0x90, 0x8F), (0xF4, 0x8F, 0x90)]
INSIDE = [(0xE0, 0xB0, 0x80), (0xED, 0x90, 0xBF), (0xF0, 0xA0, 0x80), (0xF4, 0x80, 0xBF)]


def lengths(lab):
    """Return the lengths of all 256 bytes."""
    return [lab.call("utf8_expected_len", byte) for byte in range(256)]


def fed(lab, *ids, end=""):
    """Return what each id gives, fed to a new detokenizer."""
    return lab.stream(lab.new("StreamingDetokenizer"), ids, end=end, watch="").outputs


def flushed(lab, *ids):
    """Return what each id and the flush at the end give."""
    return fed(lab, *ids, end="flush")


def error(lab, *ids):
    """Return the kind and the text of the exception that the ids lead to; none is ("", "")."""
    return error_of(fed, lab, *ids)


def held(lab, *ids):
    """Return `held` after the ids, or in words why it cannot be read."""
    calls = [*(("feed", token_id) for token_id in ids), "held"]
    try:
        return lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs[-1]
    except AssertionError as failure:
        return str(failure)


def waits_for_whole_characters(lab):
    """Return whether valid text comes out right, character by character."""
    wanted = ["a", "", "é", "", "", "你", "", "", "", "🚀", "b"]
    return fed(lab, *"aé你🚀b".encode()) == wanted


def holds(lab, first, second):
    """Return whether the two bytes are held; None if the answer is neither yes nor a right no."""
    return {("", ""): True, ("", BAD * 2): False}.get(tuple(fed(lab, first, second)))


def holds_wrongly(lab, pairs):
    """Return for each of the pairs whether its legal or its illegal second byte is misjudged."""
    answers = [(holds(lab, first, good), holds(lab, first, bad)) for first, good, bad in pairs]
    if None in {one for pair in answers for one in pair}:
        return None
    return [answer != (True, False) for answer in answers]


def differs(lab, expected):
    """Return whether the table of lengths is right but for the given entries."""
    table = TABLE.copy()
    for byte, length in expected.items():
        table[byte] = length
    return lengths(lab) == table


@mistake(task=1)
def constant_length(lab):
    """`utf8_expected_len` gives the same answer for every byte.

    Begin with the first row of the table: which bytes are a character on their own?
    """
    answers = lengths(lab)
    return answers == answers[:1] * 256


@mistake(task=1)
def lead_c0(lab):
    """C0 and C1 count as first bytes of two-byte characters.

    What could C0 or C1 start that does not fit into one byte? Look at the row of two-byte
    characters in the table: it begins a little later than the bits suggest.
    """
    return differs(lab, {0xC0: 2, 0xC1: 2})


@mistake(task=1)
def high_bits(lab):
    """The length is read off the high bits alone, so C0, C1 and F5 to F7 seem to start something.

    The bit pattern is necessary, not sufficient: C0 and C1 would spell what one byte can, F5 to F7
    lead beyond U+10FFFF. Compare values with the ranges of the table instead.
    """
    return differs(lab, {0xC0: 2, 0xC1: 2, **dict.fromkeys(range(0xF5, 0xF8), 4)}) or differs(
        lab, {0xC0: 2, 0xC1: 2, **dict.fromkeys(range(0xF5, 0x100), 4)}
    )


@mistake(task=1)
def beyond_f4(lab):
    """First bytes beyond F4 have a length, though U+10FFFF, the last character, begins with F4.

    Where does the last row of the table end, and does your range end there too?
    """
    return (
        differs(lab, {0xF5: 4})
        or differs(lab, dict.fromkeys(range(0xF5, 0xF8), 4))
        or differs(lab, dict.fromkeys(range(0xF5, 0x100), 4))
    )


@mistake(task=1)
def before_f4(lab):
    """F4 has length 0, though it starts the characters from U+100000 on.

    Is the end of your last range part of it? With `range(a, b)` and `<` it is not.
    """
    return differs(lab, {0xF4: 0})


@mistake(task=1)
def continuation_length(lab):
    """Continuation bytes, 80 to BF, have length 1, as if they were characters.

    They only go on with a character, and none starts with them. What does the table give them?
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

    80 is a byte, and the answer to "how long?" is 0. Only what is no byte at all is refused.
    """
    return bool(lab.rejects("utf8_expected_len", 0x80)) and lab.call("utf8_expected_len", 65) == 1


@mistake(task=1)
def any_int(lab):
    """A value outside 0-255 gets a length instead of a ValueError.

    256 and -1 are no bytes. Check both ends before you look at ranges.
    """
    return any(type(lab.call("utf8_expected_len", value)) is int for value in (256, -1))


@mistake(task=2)
def init_argument(lab):
    """`StreamingDetokenizer()` cannot be made, because `__init__` wants an argument.

    Whoever uses the class calls it without arguments. What has no value yet starts empty.
    """
    kind, message = error(lab)
    return kind == "TypeError" and "__init__() missing" in message


@mistake(task=2)
def shared(lab):
    """A new detokenizer already holds what another one was fed.

    Where does the buffer live? At the level of the module, of the class or of a default argument
    there is one for all; in `__init__`, on `self`, there is one each.
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
def feeds_itself(lab):
    """A byte that has to wait is fed again by `feed` itself, so it comes out broken at once.

    `feed` takes one token and returns: if there is no text yet, that is `""`. The next token comes
    with the next call.
    """
    if error(lab, 0xC3)[0] == error(lab, 0xF0)[0] == "RecursionError":
        return fed(lab, 0x41) == ["A"]
    twice = fed(lab, 0xC3) == [BAD * 2] and fed(lab, 0xF0) == [BAD * 4]
    return twice or fed(lab, 0xC3, 0xA9) == [BAD, "é"]


@mistake(task=2)
def always_empty(lab):
    """`feed` returns `""` for every token, even for a letter.

    Begin with ASCII: such a byte is a whole character, so its text is certain at once.
    """
    return held(lab) in (b"", None) and fed(lab, *b"abcdefgh", *ROCKET, 0x41) == [""] * 13


@mistake(task=2)
def none_for_nothing(lab):
    """`feed` returns None while a character is open.

    A way through `feed` that ends without `return` returns None. The text so far is `""`.
    """
    return fed(lab, 0x41, 0xC3) == ["A", None]


@mistake(task=2)
def always_none(lab):
    """`feed` returns None, whatever it is fed.

    Is there a `return`? What you print is seen by people, what you return by the program.
    """
    return fed(lab, 0x41, 0x42) == [None, None]


@mistake(task=2)
def decode_alone(lab):
    """Every byte is decoded alone: the rocket becomes four U+FFFD.

    No byte of 🚀 is text on its own. Which bytes have to be kept until the others have come?
    """
    return fed(lab, *ROCKET, 0xC3, 0xA9, 0x41) == [BAD] * 6 + ["A"]


@mistake(task=2)
def decode_alone_ignoring(lab):
    """Every byte is decoded alone and errors are dropped: only ASCII is left of the text.

    No byte of 🚀 is text on its own. Which bytes have to be kept until the others have come?
    """
    return flushed(lab, *ROCKET, 0xC3, 0xA9, 0x41) == [""] * 6 + ["A", ""]


@mistake(task=2)
def byte_as_character(lab):
    """A byte is taken for the character with that number: é becomes Ã©.

    `chr` knows characters, not bytes. Make a `bytes` of what you have and decode it as UTF-8.
    """
    return fed(lab, 0xC3, 0xA9) == ["Ã", "©"]


@mistake(task=2)
def one_late(lab):
    """Every character comes one token late.

    When is a character complete: with its last byte, or with the byte after it? Compare what is
    held with the length after adding the byte, not before.
    """
    return fed(lab, 0x41, 0x42, *ROCKET, 0x43) == ["", "A", "B", "", "", "", "🚀"]


@mistake(task=2)
def waits_for_four(lab):
    """Text comes out in blocks of four bytes, even ASCII.

    Four is the longest character, not each. What does the first byte announce?
    """
    return fed(lab, *b"abcdefgh") == ["", "", "", "abcd", "", "", "", "efgh"]


@mistake(task=2)
def no_replacement(lab):
    """U+FFFD is filtered out of the text, even where the model wrote one.

    EF BF BD is a character like any other, and ill-formed bytes must leave a mark. Do not repair
    the text afterwards: decide about bytes, before they are text.
    """
    real = fed(lab, 0xEF, 0xBF, 0xBD, 0x41) == ["", "", "", "A"]
    return real and fed(lab, 0xE2, 0x41) == ["", "A"] and waits_for_whole_characters(lab)


@mistake(task=2)
def ignore_errors(lab):
    """Bytes that are no UTF-8 vanish without a trace.

    `errors="ignore"` hides the damage. What becomes of E2 when 41 follows it, and what shows the
    reader that something was there?
    """
    vanish = fed(lab, 0xE2, 0x41) == ["", "A"] and fed(lab, 0xFF, 0x41) == ["", "A"]
    real = fed(lab, 0xEF, 0xBF, 0xBD) == ["", "", BAD]
    return vanish and real and waits_for_whole_characters(lab)


@mistake(task=2)
def try_decode(lab):
    """After one bad byte nothing comes out any more: all that follows waits with it.

    A strict `decode` fails in two cases: the bytes are not a character *yet*, or they never will
    be. The second case has to be told from the first, and settled.
    """
    stuck = all(fed(lab, bad, *b"ABCDEF") == [""] * 7 for bad in (0xE2, 0xFF))
    return stuck and waits_for_whole_characters(lab)


@mistake(task=2)
def trust_lead(lab):
    """The announced number of bytes is awaited, whatever the bytes are: E2 swallows the A after it.

    Look at each byte when it arrives, not when the count is full: can it continue what is held? If
    not, the held bytes are settled now.
    """
    swallow = fed(lab, 0xC3, 0x41)[0] == "" and fed(lab, 0xE2, 0x41) == ["", ""]
    three, four = fed(lab, 0xE2, 0x41, 0x42), fed(lab, 0xF0, 0x41, 0x42, 0x43)
    full = three[:2] == ["", ""] and four[:3] == ["", "", ""] and three[2] and four[3]
    return swallow and bool(full) and waits_for_whole_characters(lab)


@mistake(task=2)
def swallows_the_byte(lab):
    """The byte that ends a broken character is swallowed with it.

    E2 41 is two things: a character that was cut off, and an A. When 41 has settled E2, it still
    has to be judged itself.
    """
    return fed(lab, 0xE2, 0x41, 0x42) == ["", BAD, "B"] and waits_for_whole_characters(lab)


@mistake(task=2)
def judged_one_late(lab):
    """The byte that ends a broken character waits, though it is a character itself.

    E2 41 is two things: a character that was cut off, and an A. When 41 has settled E2, what
    remains is to be judged again, at once.
    """
    return fed(lab, 0xE2, 0x41, 0x42)[:2] == ["", BAD] and held(lab, 0xE2, 0x41) == b"A"


@mistake(task=2)
def first_byte_swallowed(lab):
    """The first byte of a character is taken for the next byte of the one before it.

    C3 C3 A9 is a character that was cut off, and an é. Only 80 to BF can continue a character; any
    other byte begins anew.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xC3, 0xC3, 0xA9) == ["", BAD * 2, BAD]


@mistake(task=2)
def waits_for_a_fourth(lab):
    """Bytes that can become nothing wait until there are four of them.

    FF is beyond help at once, and E2 when 41 follows it. "Not yet" and "never" are to be told apart
    by the bytes, not by their number.
    """
    dead = fed(lab, 0xFF, 0x41, 0x42, 0x43) == ["", "", "", BAD + "ABC"]
    cut = fed(lab, 0xE2, 0x41, 0x42, 0x43) == ["", "", "", BAD + "ABC"]
    return dead and cut and waits_for_whole_characters(lab)


@mistake(task=2)
def replaces_each_byte(lab):
    """A character that breaks off gives one U+FFFD for each of its bytes.

    E2 82 is the beginning of one character, so one U+FFFD stands for it when 41 shows that it ends
    there. Decode what is held in one go.
    """
    return fed(lab, 0xE2, 0x82, 0x41) == ["", "", BAD * 2 + "A"] and waits_for_whole_characters(lab)


@mistake(task=2)
def looks_at_the_text(lab):
    """Text that ends in U+FFFD is held back, so one that the model wrote waits as well.

    EF BF BD is a whole character. Whether something is open can be seen in the bytes; in the text
    an open character, a broken one and a real U+FFFD look the same.
    """
    real = fed(lab, 0xEF, 0xBF, 0xBD, 0x41) == ["", "", "", BAD + "A"]
    return real and fed(lab, 0xFF, 0x41) == ["", BAD + "A"]


@mistake(task=2)
def dead_bytes_wait(lab):
    """A byte that starts no character, such as FF, is held until the next one comes.

    Can any later byte make a character of FF? If not, nothing is left to wait for.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xFF, 0x41) == ["", BAD + "A"]


@mistake(task=2)
def dead_bytes_vanish(lab):
    """A byte that starts no character, such as FF, is dropped.

    It was in the stream and it is no text: the reader sees a U+FFFD in its place, at once.
    """
    right = fed(lab, 0xE2, 0x41) == ["", BAD + "A"] and waits_for_whole_characters(lab)
    return right and fed(lab, 0xFF, 0x41) == ["", "A"]


@mistake(task=2)
def incremental_decoder(lab):
    """ED A0 waits, as in Python's own incremental decoder, though no third byte can help.

    That decoder gives the right text, but after ED it looks at the second byte too late. Judge the
    second byte yourself: after some first bytes not every continuation byte is legal.
    """
    late = fed(lab, 0xED, 0xA0, 0x41) == ["", "", BAD * 2 + "A"]
    return late and all(
        holds(lab, first, bad) is False for first, _, bad in LIMITS if first != 0xED
    )


@mistake(task=2)
def any_second_byte(lab):
    """After E0, ED, F0 and F4 every continuation byte is taken for legal.

    ED A0 is held, though no character begins so. Look at the column of second bytes in the table:
    four first bytes are special.
    """
    far, right = holds_wrongly(lab, INSIDE), fed(lab, 0xE2, 0x41) == ["", BAD + "A"]
    return far == [True] * 4 and right and waits_for_whole_characters(lab)


@mistake(task=2)
def some_second_bytes(lab):
    """The second byte is checked after some of E0, ED, F0 and F4, but not after all of them.

    Go through the column of second bytes in the table, row by row: which one is missing?
    """
    far = holds_wrongly(lab, INSIDE)
    return far is not None and 0 < sum(far) < 4 and fed(lab, 0xE2, 0x41) == ["", BAD + "A"]


@mistake(task=2)
def second_byte_limit(lab):
    """A limit of the second byte after E0, ED, F0 or F4 is not where the table has it.

    The ends of ranges are easily one off: `range(0x80, 0xA0)` ends with 9F, and `<` leaves out what
    `<=` takes in. Compare each of the four with the table.
    """
    far, near = holds_wrongly(lab, INSIDE), holds_wrongly(lab, LIMITS)
    return far == [False] * 4 and near is not None and any(near)


@mistake(task=2)
def wrap_ids(lab):
    """An id that is not a byte is turned into one: EOS, 257, comes out as U+0001.

    Ids outside 0-255 have no text. What should `feed` do with one before it thinks about bytes?
    """
    return fed(lab, 0x41, 257, 321) == ["A", "\x01", "A"]


@mistake(task=2)
def odd_id_ends(lab):
    """An id that is not a byte ends the character that is open.

    Such an id changes nothing: what was held before it is held after it.
    """
    whole = fed(lab, 0xC3, 0xA9) == ["", "é"]
    return whole and all(fed(lab, 0xC3, odd, 0xA9)[2] != "é" for odd in (257, -1))


@mistake(task=2)
def unchecked_ids(lab):
    """An id that is not a byte makes `feed` raise.

    EOS is 257, and engines have passed on -1. Such ids have no text: look at the id before you
    make a byte of it.
    """
    raising = {error(lab, odd)[0] for odd in (257, -1)} & {"ValueError", "OverflowError"}
    return bool(raising) and fed(lab, 0x41) == ["A"]


@mistake(task=2)
def held_method(lab):
    """`held` is a method, and it is read without a call.

    In the starter it has `@property` above it: put that back.
    """
    return "is a method" in str(held(lab))


@mistake(task=2)
def held_recursion(lab):
    """`held` asks itself for its value, until Python gives up.

    The property and the attribute in which you keep the bytes need two names.
    """
    return "RecursionError" in str(held(lab)) and fed(lab, 0x41) == ["A"]


@mistake(task=2)
def held_none(lab):
    """`held` is None.

    A property is a function: without `return` its value is None.
    """
    return held(lab) is None and held(lab, 0xF0) is None


@mistake(task=2)
def held_type(lab):
    """`held` is not a `bytes`.

    Keep the bytes as you like; what `held` returns is made by `bytes(...)`.
    """
    shown = held(lab, 0xF0, 0x9F)
    return shown == [0xF0, 0x9F] or "bytearray" in str(shown)


@mistake(task=3)
def no_flush(lab):
    """`flush` returns `""` although a character was cut off.

    The stream is over and the missing bytes will not come. What does the reader get to see in
    place of the bytes that were held?
    """
    return flushed(lab, 0xF0) == ["", ""] and flushed(lab, 0x41, 0xE2, 0x82) == ["A", "", "", ""]


@mistake(task=3)
def flush_none(lab):
    """`flush` returns None.

    With or without something held, it returns a `str`; nothing is `""`.
    """
    return flushed(lab, 0x41)[-1] is None


@mistake(task=3)
def one_per_byte(lab):
    """A character that was cut off gives one U+FFFD for each of its bytes.

    What is held is always the beginning of *one* character. Decode it in one go, and count what
    you get.
    """
    return flushed(lab, 0xF0, 0x9F)[-1] == BAD * 2 and flushed(lab, 0xF0)[-1] == BAD


@mistake(task=3)
def flush_keeps(lab):
    """A second `flush` repeats what the first one returned.

    What is held after a flush? Empty the buffer before you return.
    """
    calls = [("feed", 0xF0), ("flush",), ("flush",)]
    outputs = lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs
    return outputs == ["", BAD, BAD]


@mistake(task=3)
def flush_forgets_the_count(lab):
    """After a `flush` a character still counts as open, though its bytes are gone.

    The first byte of the next stream ends it and makes a second U+FFFD. Besides the buffer, what
    else does your object remember? `flush` has to reset all of it.
    """
    calls = [("feed", 0xF0), ("flush",), ("feed", 0x41), ("feed", 0x42)]
    outputs = lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs
    return outputs == ["", BAD, BAD + "A", "B"] and flushed(lab, 0x41) == ["A", ""]


@mistake(task=3)
def flush_ends(lab):
    """After a `flush` nothing comes out any more.

    A flush ends a stream, not the object: afterwards it is as new.
    """
    calls = [("feed", 0x41), ("flush",), ("feed", 0x41), ("feed", 0xC3), ("feed", 0xA9)]
    outputs = lab.script(lab.new("StreamingDetokenizer"), calls, watch="").outputs
    return outputs == ["A", "", "", "", ""]


@mistake(task=2, overdue=["test_property_linear"])
def redecode_all(lab):
    """Each token of a long stream takes longer than the one before.

    What grows with the stream? Text that has been emitted is settled: its bytes are needed no more.
    """
    return True
