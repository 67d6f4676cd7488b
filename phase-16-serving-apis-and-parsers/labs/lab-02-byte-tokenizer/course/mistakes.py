"""The common mistakes of this lab. Each has a probe to which only that mistake answers True."""

import re

from labkit.testing import error_of, mistake

BAD = "\ufffd"
ROCKET = [0xF0, 0x9F, 0x9A, 0x80]
SPECIAL = (256, 257, 258)


def encode(lab, text, bos=None):
    """Return the ids of a text; `bos` is passed only if it is not None."""
    options = {} if bos is None else {"add_special_tokens": bos}
    return lab.call(lab.new("ByteTokenizer"), "encode", text, **options)


def token(lab, *ids):
    """Return the bytes of each id, or the text of the error if the id is refused."""
    new = lab.new("ByteTokenizer")
    return [_outcome(lab, new, "token_bytes", token_id) for token_id in ids]


def decode(lab, ids, skip=None):
    """Return the text of the ids; `skip` is passed only if it is not None."""
    options = {} if skip is None else {"skip_special_tokens": skip}
    return lab.call(lab.new("ByteTokenizer"), "decode", ids, **options)


def refusal(lab, method, argument, **options):
    """Return the kind and the text of the exception, or ("", "") if there is none."""
    return error_of(lab.call, lab.new("ByteTokenizer"), method, argument, **options)


def numbers(message):
    """Return the numbers in a message."""
    return set(re.findall(r"-?\d+", message))


def _outcome(lab, new, method, argument):
    kind, message = refusal(lab, method, argument)
    return message if kind else lab.call(new, method, argument)


def encodes(lab):
    """Return whether ordinary text becomes its bytes."""
    return encode(lab, "aé🚀") == [97, 195, 169, *ROCKET]


def joins(lab):
    """Return whether decode returns a character of several bytes whole."""
    return decode(lab, [97, *ROCKET, 98]) == "a🚀b"


@mistake(task=1)
def ids_of_earlier_calls(lab):
    """`encode` also returns the ids of earlier calls.

    Where is the list made? A list of the module, of the class or in a default argument is shared by
    all calls. Make it in `encode`.
    """
    # After all tests such a list is long, and each call copies it: call twice only if it is short.
    ids = encode(lab, "ab")
    if len(ids) == 2:
        ids = encode(lab, "ab")
    return len(ids) > 3 and list(ids[-2:]) == [97, 98]


@mistake(task=1)
def other_signature(lab):
    """`encode` does not take the argument `add_special_tokens`.

    Callers use the parameter names of the starter. Keep the `def` lines unchanged.
    """
    kind, message = refusal(lab, "encode", "a", add_special_tokens=True)
    return kind == "TypeError" and "unexpected keyword argument" in message


@mistake(task=1)
def returns_none(lab):
    """`encode` returns None.

    Is there a `return`? Methods such as `insert` and `append` change a list and return None.
    """
    return encode(lab, "a") is None


@mistake(task=1)
def none_with_bos(lab):
    """With `add_special_tokens=True`, `encode` returns None.

    Methods such as `insert` and `append` change a list and return None; do not assign their result.
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
    """`encode` returns one id for each character: é is one id.

    `ord` returns code points. An id is a byte, and é has two bytes: which method of `str` returns
    bytes?
    """
    ids = encode(lab, "aé🚀")
    return len(ids) == 3 and list(ids[:2]) == [97, 233]


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

    For a model, 257 means that the text has ended. Only BOS is added, and only on request.
    """
    return encode(lab, "a", bos=True) == [256, 97, 257]


@mistake(task=1)
def always_bos(lab):
    """BOS is put first even if it was not requested.

    What is the default of `add_special_tokens`, and does your code look at it?
    """
    return encode(lab, "a") == [256, 97] == encode(lab, "a", bos=False)


@mistake(task=1)
def never_bos(lab):
    """BOS is missing although it was requested.

    With `add_special_tokens=True` the list has one more id, at its start.
    """
    return encode(lab, "a", bos=True) == [97] == encode(lab, "a")


@mistake(task=1)
def no_bos_if_empty(lab):
    """The empty text gets no BOS.

    The empty text is a text as well: with `add_special_tokens=True` its ids are `[256]`.
    """
    return encode(lab, "", bos=True) == [] and encode(lab, "a", bos=True) == [256, 97]


@mistake(task=1)
def special_names(lab):
    """The name of a special token in the text is not taken as text.

    A user who types <eos> types five characters. If a name became an id, every user could end the
    prompt.
    """
    return encodes(lab) and encode(lab, "a<eos>b") in ([97, 98], [97, 257, 98])


@mistake(task=2)
def no_token_bytes(lab):
    """`token_bytes` returns None.

    Is there a `return`? Printing a value does not return it.
    """
    return token(lab, 65, 255) == [None, None]


@mistake(task=2)
def always_no_bytes(lab):
    """`token_bytes` returns `b""` for every id.

    Begin with 0-255: each of these ids is the one byte with that value.
    """
    return token(lab, 0, 65, 255) == [b""] * 3


@mistake(task=2)
def zeros(lab):
    """`token_bytes(65)` is 65 zero bytes.

    The argument of `bytes(65)` is a length. What must the argument be for one byte of value 65?
    """
    return token(lab, 1, 65) == [bytes(1), bytes(65)]


@mistake(task=2)
def latin_1(lab):
    """Every id from 128 on has two bytes, as if it were a character.

    `chr` and `encode` return the UTF-8 form of a character. `token_bytes` returns the byte itself.
    """
    return token(lab, 65, 0xE9) == [b"A", "é".encode()]


@mistake(task=2)
def text_for_bytes(lab):
    """`token_bytes` returns a `str`.

    Most bytes are not text on their own. Return `bytes`; only `decode` returns text.
    """
    return token(lab, 65) == ["A"] and refusal(lab, "token_bytes", 65)[0] == ""


@mistake(task=2)
def special_bytes(lab):
    """A special id has the bytes of its name.

    A skipped special id must leave no trace, so it has no bytes at all. Only `decode` shows its
    name.
    """
    return token(lab, *SPECIAL) == [b"<bos>", b"<eos>", b"<pad>"]


@mistake(task=2)
def specials_refused(lab):
    """A special id is refused, as if it were not in the vocabulary.

    256, 257 and 258 are in the vocabulary; they have no bytes.
    """
    kinds = {refusal(lab, "token_bytes", special)[0] for special in SPECIAL}
    return "" not in kinds and token(lab, 65) == [b"A"]


@mistake(task=2)
def last_byte_refused(lab):
    """255 is refused, although it is a byte.

    Does your range include its end? `range(a, b)` and `<` do not.
    """
    return token(lab, 65, 254) == [b"A", b"\xfe"] and refusal(lab, "token_bytes", 255)[0] != ""


@mistake(task=3)
def no_text(lab):
    """`decode` returns None.

    Is there a `return`? Printing a value does not return it.
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
    """A byte is taken for the character with that number: é becomes Ã©.

    `chr` takes a code point, not a byte. Collect bytes, and decode them as UTF-8.
    """
    return decode(lab, [0xC3, 0xA9]) == "Ã©"


@mistake(task=3)
def changes_ids(lab):
    """`decode` changes the caller's list.

    `pop`, `clear` and `del` change that list. Loop over the ids with `for` instead.
    """
    trace = lab.script(lab.new("ByteTokenizer"), [("decode", [65, 66])], watch="")
    return trace.outputs == ["AB"] and bool(trace.changed)


@mistake(task=3)
def leftover(lab):
    """A character cut off in one call of `decode` is completed by the next call.

    Where do you keep the run? A local variable starts empty in each call, an attribute does not.
    """
    calls = [("decode", [72, 0xF0, 0x9F]), ("decode", [0x9A, 0x80])]
    first, second = lab.script(lab.new("ByteTokenizer"), calls, watch="").outputs
    return first in ("H", "H" + BAD) and "🚀" in second


@mistake(task=3)
def text_of_earlier_calls(lab):
    """`decode` also returns the text of earlier calls.

    Where do you collect the text? What the module, the class or a default argument holds is shared
    by all calls. Make it in `decode`.
    """
    calls = [("decode", [65]), ("decode", [66])]
    return lab.script(lab.new("ByteTokenizer"), calls, watch="").outputs[1].endswith("AB")


@mistake(task=3)
def decode_alone(lab):
    """Every id is decoded alone: the rocket becomes four U+FFFD.

    No single byte of 🚀 is text. Join the bytes first, and decode a whole run in one go.
    """
    return decode(lab, [97, *ROCKET]) == "a" + BAD * 4


@mistake(task=3)
def decode_alone_ignoring(lab):
    """Every id is decoded alone and errors are dropped: only the ASCII characters are left.

    No single byte of 🚀 is text. Join the bytes first, and decode a whole run in one go.
    """
    return decode(lab, [97, *ROCKET, 98]) == "ab"


@mistake(task=3)
def ignore_errors(lab):
    """Ill-formed bytes are dropped from the text.

    `errors="ignore"` hides the damage. Which error handler shows it?
    """
    return joins(lab) and decode(lab, [65, 0xFF, 66]) == "AB"


@mistake(task=3)
def strict(lab):
    """Ill-formed bytes make `decode` raise.

    A model may emit any byte after any other, and `decode` must return text for all of them. Which
    error handler returns U+FFFD instead?
    """
    return joins(lab) and refusal(lab, "decode", [65, 0xFF])[0] == "UnicodeDecodeError"


@mistake(task=3)
def end_ignored(lab):
    """A character that is cut off at the end of the ids is dropped.

    At the end of the ids, an incomplete character is one U+FFFD. An incremental decoder needs
    `final=True` for its last bytes.
    """
    inside = decode(lab, [65, 0xFF, 66]) == "A" + BAD + "B"
    return inside and decode(lab, [65, 66]) == "AB" and decode(lab, [67, 0xF0, 0x9F]) == "C"


@mistake(task=3)
def merges_replacements(lab):
    """Several U+FFFD in a row become one.

    Each ill-formed sequence has its own U+FFFD, and several may be adjacent. Do not edit the text
    after decoding.
    """
    return joins(lab) and decode(lab, [65, 0xFF, 0xFF, 0xFF, 66]) == "A" + BAD + "B"


@mistake(task=3)
def names_never_shown(lab):
    """Special ids are skipped even with `skip_special_tokens=False`.

    Does your code look at `skip_special_tokens`?
    """
    return joins(lab) and decode(lab, [65, 257, 66], skip=False) == "AB"


@mistake(task=3)
def names_always_shown(lab):
    """Special ids are shown even if `skip_special_tokens` is true.

    What is the default of `skip_special_tokens`, and does your code look at it?
    """
    return decode(lab, [65, 257, 66]) == decode(lab, [65, 257, 66], skip=True) == "A<eos>B"


@mistake(task=3)
def skip_breaks(lab):
    """A skipped special id ends the character before it.

    A skipped special id leaves no trace, so the bytes before and after it are one run. Does a run
    end at every special id, or only at one that is shown?
    """
    return joins(lab) and decode(lab, [0xC3, 256, 0xA9], skip=True) == BAD * 2


@mistake(task=3)
def shown_transparent(lab):
    """The names of special ids are not in their places relative to the text.

    A shown special id ends the run: first add the text of the run, then the name, then start an
    empty run.
    """
    moved = decode(lab, [65, 257, 66], skip=False) in ("<eos>AB", "AB<eos>")
    return joins(lab) and moved


@mistake(task=3)
def last_run_lost(lab):
    """The bytes after the last special id are missing.

    At the end of the ids, the last run still has to be decoded.
    """
    return decode(lab, [65, 257, 66], skip=False) == "A<eos>"


@mistake(task=3)
def names_removed(lab):
    """Special ids are skipped by removing their names from the text.

    The text itself may contain the five characters `<eos>`. Only the id shows whether a token is
    special.
    """
    return joins(lab) and decode(lab, [*b"a<eos>b"]) == "ab"


@mistake(task=3)
def real_replacement_removed(lab):
    """U+FFFD is removed from the text, even if the ids spell it.

    EF BF BD is a character like any other. Do not edit the text after decoding.
    """
    return joins(lab) and decode(lab, [65, 0xEF, 0xBF, 0xBD, 66]) == "AB"


@mistake(task=3, overdue=["test_property_linear_in_one_run", "test_property_linear_in_special_ids"])
def slice_rest(lab):
    """The running time of `encode` or `decode` grows faster than its input.

    If the failure names a line, begin there. What is copied at each character or id? `ids[1:]` and
    `ids.pop(0)` move all that remains, and `out = out + more` copies all earlier output.
    """
    return encodes(lab) and joins(lab)


@mistake(task=4)
def surrogate_replaced(lab):
    """A lone surrogate becomes a question mark, or nothing, or bytes that are not valid UTF-8.

    Keep the default error handler of `str.encode`: its exception has the position of the surrogate,
    and the caller needs that position.
    """
    ids = encode(lab, "a\ud800b")
    return encodes(lab) and ids in ([97, 63, 98], [97, 98], [97, 0xED, 0xA0, 0x80, 98])


@mistake(task=4)
def surrogate_gives_nothing(lab):
    """A text with a lone surrogate gives no ids at all, and no error.

    If you catch the exception and return `[]`, the text looks empty. Raise a ValueError that has
    the code point and its position.
    """
    return encodes(lab) and encode(lab, "a\ud800b") in ([], None)


@mistake(task=4)
def surrogates_joined(lab):
    """Two adjacent surrogates are joined to one character.

    UTF-16 joins them. In a `str` they are two lone surrogates, and neither has a UTF-8 form.
    """
    kind, _ = refusal(lab, "encode", "a\ud800")
    return kind != "" and encode(lab, "\ud83d\ude80") == ROCKET


@mistake(task=4)
def surrogate_from_one(lab):
    """The position of a lone surrogate is counted from 1.

    The caller looks at `text[position]`: the first character has position 0, as with `enumerate`.
    """
    messages = [refusal(lab, "encode", text)[1] for text in ("aaa\ud800", "aaaaaa\ud800")]
    first, second = (numbers(message.replace("D800", "")) for message in messages)
    return "4" in first and "3" not in first and "7" in second and "6" not in second


@mistake(task=4)
def message_of_python(lab):
    """A lone surrogate is refused with Python's own message, which has no `U+D800`.

    Catch the UnicodeEncodeError and raise a ValueError of your own. The docstring says what its
    message must have; the exception's attribute `start` is the position.
    """
    kind, message = refusal(lab, "encode", "a\ud800")
    return kind == "UnicodeEncodeError" and "surrogates not allowed" in message


@mistake(task=4)
def byte_position(lab):
    """The position of a lone surrogate is counted in bytes.

    The caller has a `str`, and looks at `text[position]`. How many characters are before the
    surrogate?
    """
    first = refusal(lab, "encode", "🚀é\udfff")[1].replace("U+DFFF", "")
    second = refusal(lab, "encode", "ééé\udfff")[1].replace("U+DFFF", "")
    return "6" in first and "6" in second and "2" not in first and "3" not in second


@mistake(task=4)
def table_lookup(lab):
    """A list is indexed with any id: 259 is an IndexError, and -1 returns the last entry.

    Indices may be negative in Python, ids may not. Check the range before you look up the id.
    """
    right = token(lab, 65, *SPECIAL) == [b"A", b"", b"", b""]
    kinds = [refusal(lab, "token_bytes", wrong)[0] for wrong in (259, -1)]
    return right and kinds == ["IndexError", ""]


@mistake(task=4)
def unknown_ignored(lab):
    """An id outside the vocabulary is accepted, from 259 on or below 0.

    The vocabulary has 259 ids, 0 to 258. Any other id is the caller's mistake, and the message says
    which id it is.
    """
    right = token(lab, 65, *SPECIAL) == [b"A", b"", b"", b""]
    return right and any(refusal(lab, "token_bytes", wrong)[0] == "" for wrong in (259, -1))


@mistake(task=4)
def not_named(lab):
    """An id outside the vocabulary is refused with a message that does not have the id.

    `bytes([300])` raises an error with its own message. Raise a ValueError of your own, with the id
    in its message.
    """
    messages = [(refusal(lab, "token_bytes", wrong), str(wrong)) for wrong in (300, -7)]
    return any(kind == "ValueError" and number not in text for (kind, text), number in messages)


@mistake(task=4)
def other_error(lab):
    """An id outside the vocabulary is refused, but not with a ValueError.

    Conversions and lookups raise other errors. Check the range before you convert.
    """
    kinds = {refusal(lab, "token_bytes", wrong)[0] for wrong in (300, -7)}
    return bool(kinds & {"KeyError", "IndexError", "OverflowError", "TypeError"})


@mistake(task=4)
def counts_from_one(lab):
    """The position of an unknown id is counted from 1.

    The caller looks at `ids[position]`, so the first id has position 0, as with `enumerate`.
    """
    ids = [65, 66, 67, 68, 69, 70]
    first, second = (
        numbers(refusal(lab, "decode", [*ids[:many], 300])[1]) for many in (3, len(ids))
    )
    return "4" in first and "3" not in first and "7" in second and "6" not in second


@mistake(task=4)
def no_position(lab):
    """The error for an unknown id does not have its position.

    `token_bytes` knows the id, `decode` knows the position: catch the error, and raise one that has
    the position as well. `enumerate` counts.
    """
    kind, message = refusal(lab, "decode", [65, 66, 67, 68, 300])
    return joins(lab) and kind == "ValueError" and "300" in message and "4" not in message


@mistake(task=4)
def skips_before_counting(lab):
    """The position of an unknown id is counted without the special ids before it.

    The caller looks at `ids[position]`, and `ids` has the special ids as well. Count first, then
    skip.
    """
    reported = [
        numbers(refusal(lab, "decode", [65, *[257] * many, 66, 300], skip_special_tokens=True)[1])
        for many in (3, 5)
    ]
    return joins(lab) and all("2" in some and not {"5", "7"} & some for some in reported)


@mistake(task=4)
def other_unknown(lab):
    """If several ids are unknown, an id other than the first is reported.

    The caller reads `ids` from the start. Stop at the first unknown id; neither its value nor the
    later ids matter.
    """
    several = numbers(refusal(lab, "decode", [65, 66, 700, -8, 700, 900])[1])
    alone = numbers(refusal(lab, "decode", [65, 66, 700])[1])
    return {"700", "2"} <= alone and "2" not in several and bool({"3", "4", "5"} & several)


@mistake(task=4)
def unknown_skipped(lab):
    """`decode` skips unknown ids.

    `token_bytes` refuses such an id. Does `decode` call it for every id?
    """
    return joins(lab) and decode(lab, [65, 300, 66]) == "AB"
