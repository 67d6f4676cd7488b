"""The common mistakes of this lab, each with a probe that only it answers."""

import re

from labkit.testing import error_of, mistake

BAD = "\ufffd"
ROCKET = [0xF0, 0x9F, 0x9A, 0x80]
SPECIAL = (256, 257, 258)


def encode(lab, text, bos=None):
    """Return the ids of a text; `bos` is not passed on unless it is given."""
    options = {} if bos is None else {"add_special_tokens": bos}
    return lab.call(lab.new("ByteTokenizer"), "encode", text, **options)


def token(lab, *ids):
    """Return the bytes of each of the ids, and for one that is refused the text of the error."""
    new = lab.new("ByteTokenizer")
    return [_outcome(lab, new, "token_bytes", token_id) for token_id in ids]


def decode(lab, ids, skip=None):
    """Return the text of the ids; `skip` is not passed on unless it is given."""
    options = {} if skip is None else {"skip_special_tokens": skip}
    return lab.call(lab.new("ByteTokenizer"), "decode", ids, **options)


def refusal(lab, method, argument, **options):
    """Return the kind and the text of the exception; none is ("", "")."""
    return error_of(lab.call, lab.new("ByteTokenizer"), method, argument, **options)


def numbers(message):
    """Return the numbers that a message has."""
    return set(re.findall(r"-?\d+", message))


def _outcome(lab, new, method, argument):
    kind, message = refusal(lab, method, argument)
    return message if kind else lab.call(new, method, argument)


def encodes(lab):
    """Return whether ordinary text becomes its bytes."""
    return encode(lab, "aé🚀") == [97, 195, 169, *ROCKET]


def joins(lab):
    """Return whether a character of several bytes comes back whole."""
    return decode(lab, [97, *ROCKET, 98]) == "a🚀b"


@mistake(task=1)
def other_signature(lab):
    """`encode` does not take the argument `add_special_tokens`.

    Whoever calls it uses the names of the starter. Leave the `def` lines as they were handed out.
    """
    kind, message = refusal(lab, "encode", "a", add_special_tokens=True)
    return kind == "TypeError" and "unexpected keyword argument" in message


@mistake(task=1)
def returns_none(lab):
    """`encode` returns None.

    Is there a `return`? Beware of methods such as `insert` and `append`: they change a list and
    return None.
    """
    return encode(lab, "a") is None


@mistake(task=1)
def none_with_bos(lab):
    """With `add_special_tokens=True`, `encode` returns None.

    Methods such as `insert` and `append` change a list and return None; do not assign what they
    return.
    """
    return encode(lab, "a", bos=True) is None and encode(lab, "a") == [97]


@mistake(task=1)
def always_empty(lab):
    """`encode` returns `[]` for every text.

    Begin with ASCII: `a` is one byte, and its id is that byte's value.
    """
    return encode(lab, "abc") == [] == encode(lab, "é")


@mistake(task=1)
def code_points(lab):
    """An id for each character: é is one id, and 🚀 is 128640.

    `ord` counts characters. An id is a byte, and é has two: which method of `str` gives bytes?
    """
    return encode(lab, "aé🚀") == [97, 233, 0x1F680]


@mistake(task=1)
def not_a_list(lab):
    """`encode` returns the right ids, but not in a list.

    The signature says `list[int]`: make a list of the bytes before you return it.
    """
    ids = encode(lab, "aé")
    return ids == b"a\xc3\xa9" or ids == (97, 195, 169)


@mistake(task=1)
def eos_appended(lab):
    """EOS is appended to the text.

    A model that reads 257 thinks that the text is over. Only BOS is asked for.
    """
    return encode(lab, "a", bos=True) == [256, 97, 257]


@mistake(task=1)
def always_bos(lab):
    """BOS is in front whether it was asked for or not.

    What is the default of `add_special_tokens`, and does your code look at it?
    """
    return encode(lab, "a") == [256, 97] == encode(lab, "a", bos=False)


@mistake(task=1)
def never_bos(lab):
    """BOS is missing although it was asked for.

    With `add_special_tokens=True` there is one id more, in front.
    """
    return encode(lab, "a", bos=True) == [97] == encode(lab, "a")


@mistake(task=1)
def no_bos_if_empty(lab):
    """The empty text gets no BOS.

    Nothing is a text too: with `add_special_tokens=True` it begins with BOS.
    """
    return encode(lab, "", bos=True) == [] and encode(lab, "a", bos=True) == [256, 97]


@mistake(task=1)
def special_names(lab):
    """The name of a special token in the text is not taken as text.

    Whoever writes <eos> writes five characters. If a name became an id, every user could end the
    prompt.
    """
    return encodes(lab) and encode(lab, "a<eos>b") in ([97, 98], [97, 257, 98])


@mistake(task=1)
def surrogate_replaced(lab):
    """A lone surrogate becomes a question mark, or nothing, or bytes that are no UTF-8.

    Leave the error handler of `str.encode` as it is: it tells you where the trouble is, and that
    is what the caller needs.
    """
    ids = encode(lab, "a\ud800b")
    return encodes(lab) and ids in ([97, 63, 98], [97, 98], [97, 0xED, 0xA0, 0x80, 98])


@mistake(task=1)
def surrogate_gives_nothing(lab):
    """A text with a lone surrogate gives no ids at all, and no error.

    An exception that is caught and answered with `[]` looks like an empty text. Raise a ValueError
    instead, which says what is wrong and where.
    """
    return encodes(lab) and encode(lab, "a\ud800b") in ([], None)


@mistake(task=1)
def surrogates_joined(lab):
    """Two surrogates, one after the other, are joined to one character.

    That is so in UTF-16. In a `str` they are two characters, neither of which has bytes in UTF-8.
    """
    kind, _ = refusal(lab, "encode", "a\ud800")
    return kind != "" and encode(lab, "\ud83d\ude80") == ROCKET


@mistake(task=1)
def message_of_python(lab):
    """A lone surrogate is refused with Python's own message, which has no `U+D800`.

    Catch the UnicodeEncodeError and raise a ValueError of your own. What it should say is in the
    docstring; the exception's attribute `start` helps.
    """
    kind, message = refusal(lab, "encode", "a\ud800")
    return kind == "UnicodeEncodeError" and "surrogates not allowed" in message


@mistake(task=1)
def byte_position(lab):
    """The position of a lone surrogate is counted in bytes.

    The caller has a `str`, and looks for `text[position]`. How many characters come before it?
    """
    first = refusal(lab, "encode", "🚀é\udfff")[1].replace("U+DFFF", "")
    second = refusal(lab, "encode", "ééé\udfff")[1].replace("U+DFFF", "")
    return "6" in first and "6" in second and "2" not in first and "3" not in second


@mistake(task=2)
def no_token_bytes(lab):
    """`token_bytes` returns None.

    Is there a `return`? What you print is seen by people, what you return by the program.
    """
    return token(lab, 65, 255) == [None, None]


@mistake(task=2)
def always_no_bytes(lab):
    """`token_bytes` returns `b""` for every id.

    Begin with 0-255: each of those ids stands for the one byte with its value.
    """
    return token(lab, 0, 65, 255) == [b""] * 3


@mistake(task=2)
def zeros(lab):
    """`token_bytes(65)` is 65 zero bytes.

    `bytes(65)` asks for a length. For one byte of value 65, what has to be given to `bytes`?
    """
    return token(lab, 1, 65) == [bytes(1), bytes(65)]


@mistake(task=2)
def latin_1(lab):
    """Every id from 128 on stands for two bytes, as if it were a character.

    `chr` and `encode` make UTF-8 of a character. Here the byte itself is asked for.
    """
    return token(lab, 65, 0xE9) == [b"A", "é".encode()]


@mistake(task=2)
def text_for_bytes(lab):
    """`token_bytes` returns a `str`.

    Most bytes are no text on their own. Stay with `bytes`; only `decode` makes text.
    """
    return token(lab, 65) == ["A"] and refusal(lab, "token_bytes", 65)[0] == ""


@mistake(task=2)
def special_bytes(lab):
    """A special id stands for the bytes of its name.

    A skipped special id must leave no trace, so it stands for no bytes at all. Its name is for
    `decode` to show.
    """
    return token(lab, *SPECIAL) == [b"<bos>", b"<eos>", b"<pad>"]


@mistake(task=2)
def specials_refused(lab):
    """A special id is refused, as if it were not in the vocabulary.

    256, 257 and 258 exist; they stand for no bytes.
    """
    kinds = {refusal(lab, "token_bytes", special)[0] for special in SPECIAL}
    return "" not in kinds and token(lab, 65) == [b"A"]


@mistake(task=2)
def last_byte_refused(lab):
    """255 is refused, though it is a byte.

    Is the end of your range part of it? With `range(a, b)` and `<` it is not.
    """
    return token(lab, 65, 254) == [b"A", b"\xfe"] and refusal(lab, "token_bytes", 255)[0] != ""


@mistake(task=2)
def table_lookup(lab):
    """A list is asked for any id: 259 is an IndexError, and -1 counts from the end of the list.

    Python's indices may be negative, ids may not. Check the range before you look the id up.
    """
    right = token(lab, 65, *SPECIAL) == [b"A", b"", b"", b""]
    kinds = [refusal(lab, "token_bytes", wrong)[0] for wrong in (259, -1)]
    return right and kinds == ["IndexError", ""]


@mistake(task=2)
def unknown_ignored(lab):
    """An id that is not in the vocabulary is taken without complaint, from 259 on or below 0.

    The vocabulary has 259 ids, 0 to 258. A wrong id is the caller's mistake, and the caller wants
    to know which.
    """
    right = token(lab, 65, *SPECIAL) == [b"A", b"", b"", b""]
    return right and any(refusal(lab, "token_bytes", wrong)[0] == "" for wrong in (259, -1))


@mistake(task=2)
def not_named(lab):
    """An id that is not in the vocabulary is refused with a message that does not name it.

    `bytes([300])` raises a message of its own, and so does a bare `ValueError()`. Put the id into
    yours.
    """
    messages = [(refusal(lab, "token_bytes", wrong), str(wrong)) for wrong in (300, -7)]
    return any(kind == "ValueError" and number not in text for (kind, text), number in messages)


@mistake(task=2)
def other_error(lab):
    """An id that is not in the vocabulary is refused, but not by a ValueError.

    Conversions and look-ups raise errors of their own. Check the range before you convert.
    """
    kinds = {refusal(lab, "token_bytes", wrong)[0] for wrong in (300, -7)}
    return bool(kinds & {"KeyError", "IndexError", "OverflowError", "TypeError"})


@mistake(task=3)
def no_text(lab):
    """`decode` returns None.

    Is there a `return`? What you print is seen by people, what you return by the program.
    """
    return decode(lab, [65]) is None


@mistake(task=3)
def always_no_text(lab):
    """`decode` returns `""` for every list of ids.

    Begin with ASCII: `[72, 105]` is `Hi`.
    """
    return decode(lab, [72, 105]) == "" == decode(lab, ROCKET)


@mistake(task=3)
def byte_as_character(lab):
    """A byte is taken for the character with that number: é comes back as Ã©.

    `chr` knows characters, not bytes. Collect bytes, and decode them as UTF-8.
    """
    return decode(lab, [0xC3, 0xA9]) == "Ã©"


@mistake(task=3)
def changes_ids(lab):
    """`decode` changes the list that it was given.

    `pop`, `clear` and `del` change the caller's list. Walk over the ids with `for` instead.
    """
    trace = lab.script(lab.new("ByteTokenizer"), [("decode", [65, 66])], watch="")
    return trace.outputs == ["AB"] and bool(trace.changed)


@mistake(task=3)
def leftover(lab):
    """What one call of `decode` left open comes out of the next call.

    Where does the run live? A local variable begins anew with each call, an attribute does not.
    """
    calls = [("decode", [72, 0xF0, 0x9F]), ("decode", [0x9A, 0x80])]
    first, second = lab.script(lab.new("ByteTokenizer"), calls, watch="").outputs
    alone = decode(lab, [0x9A, 0x80])
    return first == "H" + BAD and alone == BAD * 2 and second != alone


@mistake(task=3)
def decode_alone(lab):
    """Every id is decoded alone: the rocket becomes four U+FFFD.

    No byte of 🚀 is text on its own. Join bytes first, and decode a whole run in one go.
    """
    return decode(lab, [97, *ROCKET]) == "a" + BAD * 4


@mistake(task=3)
def decode_alone_ignoring(lab):
    """Every id is decoded alone and errors are dropped: only ASCII is left of the text.

    No byte of 🚀 is text on its own. Join bytes first, and decode a whole run in one go.
    """
    return decode(lab, [97, *ROCKET, 98]) == "ab"


@mistake(task=3)
def ignore_errors(lab):
    """Ill-formed bytes vanish without a trace.

    `errors="ignore"` hides the damage. Which error handler leaves a mark?
    """
    return joins(lab) and decode(lab, [65, 0xFF, 66]) == "AB"


@mistake(task=3)
def strict(lab):
    """Ill-formed bytes make `decode` raise.

    A model may put any byte after any other, and the text has to come out all the same. Which error
    handler leaves a mark instead?
    """
    return joins(lab) and refusal(lab, "decode", [65, 0xFF])[0] == "UnicodeDecodeError"


@mistake(task=3)
def end_ignored(lab):
    """A character that is cut off at the end of the ids leaves no trace.

    No more bytes will come, so what is open is one U+FFFD. An incremental decoder has to be told
    that this was all: `final=True`.
    """
    inside = decode(lab, [65, 0xFF, 66]) == "A" + BAD + "B"
    return inside and decode(lab, [65, 66]) == "AB" and decode(lab, [67, 0xF0, 0x9F]) == "C"


@mistake(task=3)
def merges_replacements(lab):
    """Several U+FFFD in a row become one.

    Each ill-formed sequence has a U+FFFD of its own, and two may follow each other. Do not repair
    the text afterwards.
    """
    return joins(lab) and decode(lab, [65, 0xFF, 0xFF, 0xFF, 66]) == "A" + BAD + "B"


@mistake(task=3)
def names_never_shown(lab):
    """Special ids are skipped even if they should be shown.

    What does your code do with `skip_special_tokens=False`?
    """
    return joins(lab) and decode(lab, [65, 257, 66], skip=False) == "AB"


@mistake(task=3)
def names_always_shown(lab):
    """Special ids are shown even if they should be skipped.

    What is the default of `skip_special_tokens`, and does your code look at it?
    """
    return decode(lab, [65, 257, 66]) == decode(lab, [65, 257, 66], skip=True) == "A<eos>B"


@mistake(task=3)
def skip_breaks(lab):
    """A skipped special id ends the character before it.

    It leaves no trace, so the bytes on both sides are one run. When does a run end: at a special
    id, or at a special id that is shown?
    """
    return joins(lab) and decode(lab, [0xC3, 256, 0xA9], skip=True) == BAD * 2


@mistake(task=3)
def shown_transparent(lab):
    """The names of special ids are not in their place, because the bytes before them come later.

    A shown special id ends the run: first the text of the bytes that are open, then the name, then
    a new run.
    """
    moved = decode(lab, [65, 257, 66], skip=False) in ("<eos>AB", "AB<eos>")
    return joins(lab) and moved


@mistake(task=3)
def last_run_lost(lab):
    """The bytes after the last special id are missing.

    When the ids are over, a run may still be open, and nobody decodes it but you.
    """
    return decode(lab, [65, 257, 66], skip=False) == "A<eos>"


@mistake(task=3)
def names_removed(lab):
    """Special ids are skipped by removing their names from the text.

    The text itself may contain `<eos>`, five characters that somebody wrote. Whether something is
    special can be seen in the id, not in the text.
    """
    return joins(lab) and decode(lab, [*b"a<eos>b"]) == "ab"


@mistake(task=3)
def real_replacement_removed(lab):
    """U+FFFD is removed from the text, even where it was written.

    EF BF BD is a character like any other. Do not repair the text afterwards.
    """
    return joins(lab) and decode(lab, [65, 0xEF, 0xBF, 0xBD, 66]) == "AB"


@mistake(task=3)
def no_position(lab):
    """The error for an unknown id does not say where it is.

    `token_bytes` knows the id, `decode` knows the position: catch, add it, and raise again.
    `enumerate` counts.
    """
    kind, message = refusal(lab, "decode", [65, 66, 67, 68, 300])
    return joins(lab) and kind == "ValueError" and "300" in message and "4" not in message


@mistake(task=3)
def skips_before_counting(lab):
    """The position of an unknown id is counted without the special ids before it.

    The caller looks for `ids[position]`, and special ids are in `ids` too. Count first, skip
    afterwards.
    """
    told = [
        numbers(refusal(lab, "decode", [65, *[257] * many, 66, 300], skip_special_tokens=True)[1])
        for many in (3, 5)
    ]
    return joins(lab) and all("2" in some and not {"5", "7"} & some for some in told)


@mistake(task=3)
def other_unknown(lab):
    """Of several unknown ids, another than the first is reported.

    The caller reads `ids` from the front. Stop at the first id that is wrong; neither its value nor
    what follows matters.
    """
    told = numbers(refusal(lab, "decode", [65, 66, 700, -8, 700, 900])[1])
    alone = numbers(refusal(lab, "decode", [65, 66, 700])[1])
    return {"700", "2"} <= alone and "2" not in told and bool({"3", "4", "5"} & told)


@mistake(task=3)
def unknown_skipped(lab):
    """`decode` passes over ids that do not exist.

    Its bytes come from `token_bytes`, which refuses such an id; is it asked about each of them?
    """
    return joins(lab) and decode(lab, [65, 300, 66]) == "AB"


@mistake(task=3, overdue=["test_property_linear_in_one_run", "test_property_linear_in_special_ids"])
def slice_rest(lab):
    """`decode` takes far longer for a long list than for its parts.

    What is copied at each id? `ids[1:]`, `ids.pop(0)` and `out = out + more` all move everything
    that is there.
    """
    return joins(lab)
