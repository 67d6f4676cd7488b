"""The common mistakes of this lab, each with a probe that only this mistake answers."""

from labkit.testing import Call, error_of, mistake

BAD = "\ufffd"
# 0 'a', 1 to 3 the bytes of 你, 4 its last two, 5 'a' and its first, 6 an impossible byte, 7 none,
# 8 ' b', 9 '<s>'
TABLE = [b"a", b"\xe4", b"\xbd", b"\xa0", b"\xbd\xa0", b"a\xe4", b"\xff", None, b" b", b"<s>"]
SPECIAL = frozenset([9])


def told(lab, kind, *tokens, special=()):
    """Return the bytes of some tokens."""
    options = {"special": frozenset(special)} if special else {}
    return lab.call("token_bytes", [*tokens], kind, **options)


def level(lab, *tokens):
    """Return the bytes of some tokens of a byte-level vocabulary."""
    return told(lab, "byte_level", *tokens)


def fallback(lab, *tokens):
    """Return the bytes of some tokens of a byte-fallback vocabulary."""
    return told(lab, "byte_fallback", *tokens)


def raised(lab, *args):
    """Return the kind of exception that a call of `token_bytes` leads to; "" if none."""
    return error_of(lab.call, "token_bytes", *args)[0]


def run(lab, *calls, table=TABLE, **options):
    """Return the outputs of calls on a new detokenizer: an id is a feed, a word is a name."""
    steps = [("feed", call) if isinstance(call, int) else call for call in calls]
    steps = [(call,) if call == "flush" else call for call in steps]
    return lab.script(lab.new("TokenDetokenizer", table, **options), steps, watch="").outputs


def run_raises(lab, *calls):
    """Return the kind of exception that a run leads to; "" if none."""
    return error_of(run, lab, *calls)[0]


def held(lab, *ids, **options):
    """Return `held` after the ids, or in words why reading it fails."""
    try:
        return run(lab, *ids, "held", **options)[-1]
    except AssertionError as failure:
        return str(failure)


def strip(lab, *calls, **options):
    """Return the outputs of a run with strip_first_space."""
    return run(lab, *calls, strip_first_space=True, **options)


def joins_characters(lab):
    """Return whether a character that is split over tokens is emitted whole."""
    return run(lab, 0, 1, 2, 3, 1, 4) == ["a", "", "", "你", "", "你"]


def is_right_but_for_bad_bytes(lab):
    """Return whether well-formed text is right, with and without text before half a character."""
    return joins_characters(lab) and run(lab, 5, 4) == ["a", "你"]


@mistake(task=1)
def table_of_text(lab):
    """The table holds text, not bytes.

    Half a character has no text: keep `bytes` in the table, and decode in the stream.
    """
    return isinstance(level(lab, "a")[0], str)


@mistake(task=1)
def table_is_a_dict(lab):
    """`token_bytes` returns a dictionary.

    Ids count from 0 without gaps: return a list in which the place is the id.
    """
    return isinstance(level(lab, "a"), dict)


@mistake(task=1)
def no_table(lab):
    """`token_bytes` returns None.

    Is there a `return`?
    """
    return level(lab, "a") is None


@mistake(task=1)
def known_kind_raises(lab):
    """`token_bytes` raises for a kind that it knows.

    Begin with `byte_level` and the token `a`, whose bytes are `b"a"`.
    """
    kinds = ("byte_level", "byte_fallback")
    return all(raised(lab, ["a"], kind) for kind in kinds)


@mistake(task=1)
def same_bytes_always(lab):
    """The table has the same bytes for every id, whatever its token is.

    Begin with the token `a`, whose bytes are `b"a"`. An id without a token has None.
    """
    first, *others = level(lab, "a", "b", None)
    return others == [first] * 2 and first is not None


@mistake(task=1)
def no_bytes(lab):
    """The table has no bytes, not even for a token of plain text.

    Begin with the token `a`, whose bytes are `b"a"`. Only an id without a token has None.
    """
    return level(lab, "a") == [None]


@mistake(task=1)
def empty_is_text(lab):
    """An empty token stays a `str`: the table has `""`, not `b""`.

    `token and ...` returns the token itself if it is empty. Ask `token is None`.
    """
    return level(lab, "", "a") == ["", b"a"]


@mistake(task=1)
def ids_shift(lab):
    """Ids without a token are left out, so every later id means another token.

    The place in the list is the id: where the vocabulary has None, the table has None.
    """
    return level(lab, None, "a") == [b"a"]


@mistake(task=1)
def none_is_empty(lab):
    """An id without a token gets no bytes instead of None.

    The reader of the table may need to distinguish an empty token from none: pass None on.
    """
    return level(lab, None, "a") == [b"", b"a"]


@mistake(task=1)
def none_raises(lab):
    """An id without a token makes `token_bytes` raise.

    Vocabularies have gaps: None stays None.
    """
    return level(lab, "a") == [b"a"] and raised(lab, [None], "byte_level") != ""


@mistake(task=1)
def empty_is_none(lab):
    """An empty token becomes None.

    `if not token` is true of "" as well: ask `token is None`.
    """
    return level(lab, "", "a") == [None, b"a"]


@mistake(task=1)
def characters_as_utf8(lab):
    """A byte_level token is encoded as it is spelled: Ġ becomes the two bytes of the letter Ġ.

    Each character of a token spells one byte, by GPT-2's map. Which byte is Ġ?
    """
    return level(lab, "Ġa", "ä½") == ["Ġa".encode(), "ä½".encode()]


@mistake(task=1)
def only_the_space_is_mapped(lab):
    """In byte_level only Ġ is mapped; half a character is encoded as it is spelled.

    All 256 bytes have a character, not only the space. Build the whole map.
    """
    return level(lab, "Ġa", "ä½") == [b" a", "ä½".encode()]


@mistake(task=1)
def number_as_byte(lab):
    """The number of a character is taken for its byte, which fails from U+0100 on.

    188 bytes are spelled by the character of their own number. The 68 others are spelled by U+0100
    and up, so that each has a visible character: count them off in order.
    """
    return level(lab, "a", "ä½") == [b"a", b"\xe4\xbd"] and raised(lab, ["Ġ"], "byte_level") != ""


@mistake(task=1)
def others_by_their_number(lab):
    """The 68 other bytes are spelled by U+0100 plus their own number, which is wrong from 7F on.

    They are counted off in order: 00 to 20 take 33 characters, so 7F is spelled by U+0121, not by
    U+017F.
    """
    return level(lab, "Ġ", "\u017f") == [b" ", b"\x7f"]


@mistake(task=1)
def own_number_only(lab):
    """A character from U+0100 on is encoded as it is spelled, so some bytes are never made.

    188 bytes are spelled by the character of their own number. The 68 others are spelled by U+0100
    and up, in order: build the map of all 256 bytes.
    """
    return level(lab, "a", "ä½", "Ģ") == [b"a", b"\xe4\xbd", "Ģ".encode()]


@mistake(task=1)
def soft_hyphen(lab):
    """One byte has no character: AD, the soft hyphen, counts as printable.

    It is invisible, so GPT-2's map moves it to the end of the 68, to Ń. The second range of visible
    bytes ends before it and the third begins after it.
    """
    return level(lab, "Ġ", "\u0142", "Ń") == [b" ", b"\xa0", "Ń".encode()]


@mistake(task=1)
def del_is_printable(lab):
    """DEL, 7F, counts as printable, so all bytes after it are one off.

    The first range of visible bytes is 21 to 7E. `range` ends before its second number.
    """
    return level(lab, "Ġ", "ġ", "Ģ") == [b" ", b"\x80", b"\x81"]


@mistake(task=1)
def decoded_early(lab):
    """The bytes of a token were decoded and encoded again: half a character is lost.

    `replace` cannot be undone. From the map to the table, bytes stay bytes.
    """
    return level(lab, "a", "ä½") == [b"a", BAD.encode()]


@mistake(task=1)
def mapped_by_character(lab):
    """In a token with a character that spells no byte, the others are still mapped.

    One such character shows that the whole token is plain text: é in it is the letter, not the byte
    E9.
    """
    return level(lab, "é", "<｜é｜>") == [b"\xe9", "<｜".encode() + b"\xe9" + "｜>".encode()]


@mistake(task=1)
def foreign_raises(lab):
    """A token with a character that spells no byte makes `token_bytes` raise.

    Then the token is plain text: encode it as it is.
    """
    return level(lab, "é") == [b"\xe9"] and raised(lab, ["你"], "byte_level") != ""


@mistake(task=1)
def mark_kept(lab):
    """The ▁ of a byte_fallback token is not replaced.

    It is a space; replace it before you encode.
    """
    return fallback(lab, "▁a", "▁▁") == ["▁a".encode(), "▁▁".encode()]


@mistake(task=1)
def mark_dropped(lab):
    """The ▁ at the beginning of a word is dropped, and its space with it: "Helloworld".

    Every ▁ is a space, the first one too. Whether the first space of a whole text is shown is a
    question that the table cannot answer: it is task 4.
    """
    return fallback(lab, "▁a", "b") == [b"a", b"b"]


@mistake(task=1)
def mark_in_front_only(lab):
    """Only a ▁ at the beginning of a token becomes a space.

    Every ▁ of a token is a space, at any place: replace all of them.
    """
    return fallback(lab, "▁a", "a▁") == [b" a", "a▁".encode()]


@mistake(task=1)
def one_mark(lab):
    """Only the first ▁ of a token becomes a space, or a run of them becomes one.

    Indentation is made of tokens like ▁▁▁▁: each ▁ is one space.
    """
    return fallback(lab, "▁a") == [b" a"] and fallback(lab, "▁▁") in ([b" \xe2\x96\x81"], [b" "])


@mistake(task=1)
def byte_token_as_text(lab):
    """A token that spells a byte is encoded as it is spelled: <0xE3>.

    Six characters, `<0x`, two hexadecimal digits, `>`: that is one byte.
    """
    return fallback(lab, "a", "<0xE3>") == [b"a", b"<0xE3>"]


@mistake(task=1)
def byte_as_character(lab):
    """The byte of <0xE3> is taken for the character with that number, ã.

    `chr` makes characters. One byte as `bytes` is `bytes([0xE3])`, or `bytes.fromhex("E3")`.
    """
    return fallback(lab, "a", "<0xE3>") == [b"a", "ã".encode()]


@mistake(task=1)
def shape_too_loose(lab):
    """A token that only looks like a byte token is taken for a byte, or makes `token_bytes` raise.

    `<0x411>` and `<0xG1>` are text. Test the whole shape: six characters, two of them digits.
    """
    if fallback(lab, "<0x41>", "▁a") != [b"A", b" a"]:
        return False
    near = ["<0x4>", "<0x411>", "<0xG1>", "x<0x41>", "<0x41", "<0x41>\n"]
    return any(raised(lab, [token], "byte_fallback") for token in near) or fallback(lab, *near) != [
        *map(str.encode, near)
    ]


@mistake(task=1)
def special_mapped(lab):
    """Special tokens are mapped like all others: `đem` becomes the byte 11 and `em`.

    The vocabulary stores them as plain text. Ask first whether the id is in `special`.
    """
    return told(lab, "byte_level", "Ġa", "đem", special=[1]) == [b" a", b"\x11em"]


@mistake(task=1)
def special_has_no_bytes(lab):
    """Special tokens have no bytes in the table.

    The stream decides whether they are shown. In the table they are their text.
    """
    marked = told(lab, "byte_level", "Ġa", "<s>", special=[1])
    return marked in ([b" a", None], [b" a", b""])


@mistake(task=2)
def always_empty(lab):
    """`feed` returns `""` for every id, even for one of whole characters.

    Begin with those: their text is certain at once.
    """
    return run(lab, 0, 8, 5, 4, 0) == [""] * 5


@mistake(task=2)
def none_for_nothing(lab):
    """`feed` returns None while a character is open.

    A path through `feed` that ends without `return` returns None. Return `""` there.
    """
    return run(lab, 0, 1) == ["a", None]


@mistake(task=2)
def always_none(lab):
    """`feed` returns None for every id.

    Is there a `return`?
    """
    return run(lab, 0, 8) == [None, None]


@mistake(task=2)
def id_as_byte(lab):
    """An id is taken for a byte, as in lab 03.

    An id is a place in the table, and the table has its bytes, one or many.
    """
    return run(lab, 65, table=[b"?"] * 70) == ["A"]


@mistake(task=2)
def decode_alone(lab):
    """Every token is decoded alone: 你 in two tokens becomes U+FFFD twice or more.

    Hold the bytes at the end that begin a character until its other bytes have arrived.
    """
    return run(lab, 0, 1, 4) in (["a", BAD, BAD * 2], ["a", BAD, BAD])


@mistake(task=2)
def decode_alone_ignoring(lab):
    """Every token is decoded alone and errors are dropped: characters in two tokens are lost.

    Hold the bytes at the end that begin a character until its other bytes have arrived.
    """
    return run(lab, 0, 1, 4, 6) == ["a", "", "", ""]


@mistake(task=2)
def holds_whole_token(lab):
    """A token that ends inside a character is held as a whole, with the characters before it.

    In `a E4` the `a` is certain. Where does the last character begin? Emit the text before it.
    """
    return joins_characters(lab) and run(lab, 5, 4, 6) == ["", "a你", BAD]


@mistake(task=2)
def waits_on_replacement(lab):
    """Text that ends in U+FFFD is held, so a U+FFFD that the model wrote is held too.

    Look at the bytes: in the text an unfinished character, a broken one and a real U+FFFD look the
    same.
    """
    whole = joins_characters(lab) and run(lab, 6, 0) == ["", BAD + "a"]
    return whole and run(lab, 0, 8, table=[BAD.encode(), *TABLE[1:]]) == ["", BAD + " b"]


@mistake(task=2)
def ignore_errors(lab):
    """Invalid bytes vanish without a trace.

    Bytes that can no longer become a character become U+FFFD: decode with "replace".
    """
    gone = joins_characters(lab) and run(lab, 6, 0) == ["", "a"]
    return gone and run(lab, 0, table=[b"a" + BAD.encode()]) == ["a" + BAD]


@mistake(task=2)
def no_replacement(lab):
    """U+FFFD is filtered out of the text, even if the model wrote it.

    It is a character like any other. Decide about bytes, before they are text.
    """
    if not is_right_but_for_bad_bytes(lab):
        return False
    gone = run(lab, 6, 0, 1, 0) == ["", "a", "", "a"]
    return gone and run(lab, 0, table=[b"a" + BAD.encode()]) == ["a"]


@mistake(task=2)
def drops_broken_end(lab):
    """A U+FFFD at the end of the text so far is cut off and never emitted.

    It may be a broken character, or one that the model wrote: decide about bytes, before they are
    text.
    """
    return joins_characters(lab) and run(lab, 6, 0) == ["", "a"]


@mistake(task=2)
def try_decode(lab):
    """After one bad byte no text is emitted any more: all later text is held with that byte.

    A strict `decode` fails in two cases: the bytes are not a character *yet*, or they never will
    be. Distinguish the two: hold only the beginning of a character at the very end.
    """
    return joins_characters(lab) and run(lab, 6, 0, 0, 8, 0) == [""] * 5


@mistake(task=2)
def holds_bad_bytes(lab):
    """A byte that begins no character is held, though no later byte can help.

    A strict `decode` also fails on bytes that never become a character. Hold only the beginning of
    a character at the very end.
    """
    return joins_characters(lab) and run(lab, 3) == run(lab, 6) == [""]


@mistake(task=2)
def held_is_empty(lab):
    """`held` is empty, although the beginning of a character is held.

    If a decoder of Python holds these bytes, `held` does not see them. Keep them in an attribute of
    your own, and return it.
    """
    return joins_characters(lab) and held(lab, 1) == b""


@mistake(task=2)
def trust_lead(lab):
    """Bytes are held until the announced number is there, whatever they are: E4 is held with `a`.

    The second byte may already rule a character out. Use the rule of lab 03: can these bytes still
    become a character?
    """
    return is_right_but_for_bad_bytes(lab) and run(lab, 1, 0) == ["", ""]


@mistake(task=2)
def incremental_decoder(lab):
    """ED A0 is held, as in Python's own incremental decoder, though no third byte can help.

    That decoder gives the right text, but after ED it checks the second byte too late. Decide in
    your own code which bytes at the end can still become a character.
    """
    table = [b"\xed", b"\xa0", b"a", b"\xe0", b"\x80"]
    late = run(lab, 0, 1, 2, table=table) == ["", "", BAD * 2 + "a"]
    return late and run(lab, 3, 4, table=table) == ["", BAD * 2]


@mistake(task=2)
def any_second_byte(lab):
    """After E0, ED, F0 and F4 every continuation byte is taken for legal.

    E0 80 is held, though no character begins with it: four first bytes are special, see lab 03.
    """
    table = [b"\xe0", b"\x80", b"a"]
    return is_right_but_for_bad_bytes(lab) and run(lab, 0, 1, table=table) == ["", ""]


@mistake(task=2)
def one_per_byte(lab):
    """A character that breaks off gives one U+FFFD for each of its bytes.

    E4 BD is the beginning of one character, so it becomes one U+FFFD. Decode the held bytes
    together with the bytes after them, in one call.
    """
    return joins_characters(lab) and run(lab, 1, 2, 0) == ["", "", BAD * 2 + "a"]


@mistake(task=2)
def mark_in_the_text(lab):
    """A ▁ of the text becomes a space.

    In the bytes of the table every ▁ that spells a space is already a space. Any other ▁ was
    written by the model.
    """
    return run(lab, 0, table=["▁".encode()]) == [" "]


@mistake(task=2)
def strips_in_feed(lab):
    """The space before a word is lost.

    The table has the space, so it is text. Leaving out one space at the start is task 4.
    """
    return run(lab, 0, 8) == ["a", "b"]


@mistake(task=2)
def silent_id_ends(lab):
    """An id without bytes ends the character that is held.

    Such an id changes nothing: bytes that were held before it are held after it.
    """
    return joins_characters(lab) and "你" not in "".join(run(lab, 1, 7, 4) + run(lab, 1, 99, 4))


@mistake(task=2)
def special_ends(lab):
    """A special token that is skipped ends the character that is held.

    A skipped token changes nothing: bytes that were held before it are held after it.
    """
    silent = run(lab, 1, 7, 4) == run(lab, 1, 99, 4) == ["", "", "你"]
    return silent and "你" not in run(lab, 1, 9, 4, special=SPECIAL)


@mistake(task=2)
def negative_index(lab):
    """A negative id gives a token from the end of the table.

    `table[-1]` is the last one in Python. Ids begin at 0: look at both bounds.
    """
    return run(lab, -1, table=[b"a", b"z"]) == ["z"]


@mistake(task=2)
def unchecked_ids(lab):
    """An id outside the table makes `feed` raise.

    Models have padded vocabularies, and engines have passed on -1. Check the id before you use the
    table.
    """
    return joins_characters(lab) and "IndexError" in (run_raises(lab, 99), run_raises(lab, -99))


@mistake(task=2)
def none_piece(lab):
    """An id for which the table has None makes `feed` raise.

    It adds no bytes: treat None as `b""`.
    """
    return joins_characters(lab) and run_raises(lab, 7) != ""


@mistake(task=2)
def empty_token_for_unknown(lab):
    """An id without bytes gives something else than `""`.

    Such an id has no text, not even a U+FFFD.
    """
    return joins_characters(lab) and "" not in run(lab, 7, 99, -1)


@mistake(task=2)
def special_shown(lab):
    """Special tokens are emitted as text.

    `skip_special_tokens` is true by default: ids in `special` then add nothing.
    """
    return run(lab, 0, 9, 0, special=SPECIAL) == ["a", "<s>", "a"]


@mistake(task=2)
def special_never_shown(lab):
    """Special tokens are left out although `skip_special_tokens` is False.

    Then they are text like any other token.
    """
    shown = run(lab, 0, 9, special=SPECIAL, skip_special_tokens=False)
    return shown == ["a", ""] and run(lab, 0, 9, special=SPECIAL) == ["a", ""]


@mistake(task=2)
def held_method(lab):
    """`held` is a method, and it is read without a call.

    In the starter it has `@property` above it: put that back.
    """
    return "is a method" in str(held(lab))


@mistake(task=2)
def held_none(lab):
    """`held` is None.

    A property is a function: without `return` its value is None.
    """
    return held(lab) is None and held(lab, 1) is None


@mistake(task=2)
def held_type(lab):
    """`held` is not a `bytes`.

    How you keep the bytes is up to you; return `bytes(...)` of them.
    """
    shown = held(lab, 1)
    return shown in ([0xE4], "\ufffd", "ä") or "bytearray" in str(shown)


@mistake(task=3)
def no_flush(lab):
    """`flush` returns `""` although a character was cut off.

    The stream has ended and the missing bytes will not arrive: return one U+FFFD.
    """
    return run(lab, 1, "flush") == ["", ""]


@mistake(task=3)
def flush_none(lab):
    """`flush` returns None.

    It returns a `str`, whether bytes are held or not; if none are held, `""`.
    """
    return run(lab, 0, "flush")[-1] is None


@mistake(task=3)
def flush_one_per_byte(lab):
    """A character that was cut off gives one U+FFFD for each of its bytes.

    The held bytes are always the beginning of *one* character. Decode them in one call.
    """
    return run(lab, 1, 2, "flush")[-1] == BAD * 2


@mistake(task=3)
def flush_keeps(lab):
    """A second `flush` returns the text of the first again.

    Which bytes are held after a flush? Empty the buffer before you return.
    """
    return run(lab, 1, "flush", "flush") == ["", BAD, BAD]


@mistake(task=3)
def flush_ends(lab):
    """After a `flush` no text is emitted any more.

    A flush ends a stream, not the object: the next id begins another stream.
    """
    return run(lab, 0, "flush", 0, 8) == ["a", "", "", ""]


@mistake(task=3)
def burst_as_list(lab):
    """`feed_many` returns the pieces of text as a list.

    Join them: `feed_many` returns one `str`.
    """
    return isinstance(run(lab, ("feed_many", [0, 0]))[0], list)


@mistake(task=3)
def burst_gives_last(lab):
    """`feed_many` returns the text of the last id only.

    Text that the ids before it made certain belongs to the result too.
    """
    return run(lab, ("feed_many", [0, 8])) == [" b"]


@mistake(task=3)
def burst_unchecked(lab):
    """`feed_many` does not check its ids as `feed` does.

    Ids outside the table and skipped special tokens add nothing there either. Let both methods
    share the lookup.
    """
    alone = run(lab, -1, table=[b"a", b"z"]) == [""]
    return alone and run(lab, ("feed_many", [-1]), table=[b"a", b"z"]) == ["z"]


@mistake(task=3)
def burst_decoded_alone(lab):
    """A burst is decoded to its end, though it may end inside a character.

    How ids are grouped is the engine's business and must not show in the text. The end of a burst
    is not the end of the stream.
    """
    return joins_characters(lab) and run(lab, ("feed_many", [0, 1]), 4)[0] == "a" + BAD


@mistake(task=3)
def burst_forgets_held(lab):
    """Bytes that were held before a burst are not joined to it.

    `feed` and `feed_many` use the same held bytes. Let them share one method.
    """
    return joins_characters(lab) and run(lab, 1, ("feed_many", [4])) in (["", BAD * 2], ["", BAD])


@mistake(task=3)
def prompt_text_comes_out(lab):
    """The text of the prompt is emitted with the first token.

    The client has the prompt. Only its last bytes matter, and only if they begin a character.
    """
    return run(lab, 8, prompt_ids=[0, 0]) == ["aa b"]


@mistake(task=3)
def prompt_leaks(lab):
    """After a prompt that ends inside a character, the text before that character is emitted too.

    Text that is complete before the stream begins is not emitted: hold only the unfinished bytes.
    """
    return run(lab, 4, prompt_ids=[0, 5]) in (["aa你"], ["a你"])


@mistake(task=3)
def prompt_ignored(lab):
    """The unfinished bytes at the end of a prompt are lost, so the first character is broken.

    Which bytes at the end of the prompt can still become a character? Hold them when the stream
    begins.
    """
    broken = ([BAD * 2], [BAD])
    return (
        joins_characters(lab)
        and run(lab, 4, prompt_ids=[0, 1]) in broken
        and run(lab, 4, prompt_ids=[0, 5]) in broken
    )


@mistake(task=3)
def prompt_last_id_only(lab):
    """Only the last id of the prompt is examined.

    A character may be split over several ids, and an id without bytes may follow it. Walk back
    until you have 3 bytes.
    """
    one = run(lab, 4, prompt_ids=[0, 1]) == ["你"]
    return one and "你" not in run(lab, 3, prompt_ids=[1, 2]) + run(lab, 4, prompt_ids=[1, 7])


@mistake(task=3)
def prompt_silent_ids(lab):
    """An id without bytes at the end of the prompt hides the unfinished character before it.

    Ids without bytes change nothing, in a prompt as in the stream: walk back until you have 3
    bytes, however many ids that takes.
    """
    one = run(lab, 4, prompt_ids=[0, 1]) == ["你"] and run(lab, 3, prompt_ids=[1, 2]) == ["你"]
    silent = [7] * 9
    return one and run(lab, 4, prompt_ids=[1, *silent]) != ["你"]


@mistake(task=3)
def prompt_special_ids(lab):
    """A special token in the prompt counts as text, though it is skipped.

    A token that the stream skips is skipped in the prompt too: half a character before it is still
    unfinished.
    """
    one = run(lab, 4, prompt_ids=[0, 1]) == ["你"] and run(lab, 4, prompt_ids=[1, 7]) == ["你"]
    return one and run(lab, 4, prompt_ids=[1, 9], special=SPECIAL) != ["你"]


@mistake(task=3)
def prompt_comes_back(lab):
    """After a flush the stream begins with the bytes of the prompt again.

    The prompt belongs to the first stream. A stream after a flush has no prompt.
    """
    calls = [4, "flush", 0, "flush"]
    return run(lab, *calls, prompt_ids=[0, 1]) == ["你", "", BAD + "a", ""]


@mistake(task=3)
def shared(lab):
    """Bytes that one detokenizer holds are emitted by another.

    `self.name = ...` belongs to one object; a name in the class body, the module or a default
    argument belongs to all.
    """
    news = [lab.new("TokenDetokenizer", TABLE) for _ in range(2)]
    # Flush the bytes that earlier streams have left.
    run(lab, "flush")
    first, second = lab.interleave(news, [[1, 0], [4, 0]], "flush")
    return first.outputs + second.outputs == ["", "a", "", "你", "a", ""]


@mistake(task=2)
def shared_from_the_start(lab):
    """Bytes that one detokenizer holds are emitted by another.

    `self.name = ...` belongs to one object; a name in the class body, the module or a default
    argument belongs to all.
    """
    return shared(lab)


@mistake(task=4)
def no_strip(lab):
    """`strip_first_space` has no effect.

    With it, one space is left out where the text begins.
    """
    return strip(lab, 8, 8) == [" b", " b"]


@mistake(task=4)
def always_strip(lab):
    """The first space is left out even without `strip_first_space`.

    The option is off by default: then every byte of the table is text.
    """
    return run(lab, 8, 8) == ["b", " b"]


@mistake(task=4)
def strips_every_token(lab):
    """With `strip_first_space` every token loses its space: "Helloworld".

    Only the text's first byte may be left out. Remember that the text has begun.
    """
    return strip(lab, 8, 8) == ["b", "b"]


@mistake(task=4)
def strips_all_spaces(lab):
    """All spaces at the start are left out, not only one.

    `lstrip` removes them all. After a token of only spaces the next token is no longer at the
    start.
    """
    return strip(lab, 0, 1, 1, table=[b"  a", b" "]) == ["a", " ", " "] or strip(
        lab, 0, 0, 1, table=[b" ", b" a"]
    )[:2] == ["", ""]


@mistake(task=4)
def strips_after_prompt(lab):
    """The first space is also left out after a prompt: the first word is glued to the prompt.

    The text began with the prompt.
    """
    return strip(lab, 8, 8, prompt_ids=[0]) == ["b", " b"]


@mistake(task=4)
def silent_prompt_counts(lab):
    """After a prompt of only skipped special tokens, the first space is not left out.

    Ask whether the prompt has text, not whether it has ids.
    """
    right = strip(lab, 8, prompt_ids=[0]) == [" b"] and strip(lab, 8) == ["b"]
    return right and strip(lab, 8, prompt_ids=[9], special=SPECIAL) == [" b"]


@mistake(task=4)
def silent_id_counts(lab):
    """An id without bytes counts as the beginning of the text.

    Such an id changes nothing: the text begins with the first byte.
    """
    return strip(lab, 8) == ["b"] and strip(lab, 7, 8) == ["", " b"]


@mistake(task=4)
def waits_for_text(lab):
    """The text begins only when text is emitted: after half a character a space is left out.

    The first byte begins the text, even if it is held.
    """
    return strip(lab, 8, 8) == ["b", " b"] and strip(lab, 1, 8) == ["", BAD + "b"]


@mistake(task=4)
def strips_once(lab):
    """After a flush the first space is shown.

    After a flush another stream begins, and with it another text.
    """
    return strip(lab, 8, "flush", 8) == ["b", "", " b"]


@mistake(task=4)
def flush_remembers_prompt(lab):
    """After a flush the prompt still counts, so the first space is shown.

    The prompt belongs to the first stream; the next stream has no prompt.
    """
    right = strip(lab, 8, "flush", 8) == ["b", "", "b"]
    return right and strip(lab, 8, "flush", 8, prompt_ids=[0]) == [" b", "", " b"]


@mistake(task=4)
def any_kind(lab):
    """An unknown kind is accepted.

    Raise a ValueError whose message names the kind: a wrong table would go unnoticed for long.
    """
    known = level(lab, "Ġ") == [b" "] and fallback(lab, "▁") == [b" "]
    return known and raised(lab, ["a"], "wordpiece") == ""


@mistake(task=4)
def kind_raises_otherwise(lab):
    """An unknown kind raises another exception than a ValueError.

    Check the kind before you use it for a lookup, and name it in the message.
    """
    known = level(lab, "Ġ") == [b" "] and fallback(lab, "▁") == [b" "]
    return known and raised(lab, ["a"], "wordpiece") not in ("", "ValueError")


@mistake(task=3)
def redecode_all(lab):
    """The stream keeps text or ids that it has already emitted.

    Which of your variables grows with the stream? The bytes of emitted text are not needed any
    more.
    """
    stream = lab.new("TokenDetokenizer", TABLE)
    weigh = Call("weight", None, object=1)
    calls = [*[("feed", 0)] * 20, weigh, *[("feed", 0)] * 600, weigh]
    outputs = lab.script([stream, lab.new("given.Scale", stream)], calls, watch="").outputs
    return outputs[-1] - outputs[20] > 500


@mistake(task=2, overdue=["test_property_linear"])
def slow_stream(lab):
    """Each token of a long stream, a burst or a prompt takes longer than the one before.

    Which of your values grows, and is copied or read again for each token? Join pieces once, and
    read a prompt from its end.
    """
    right = is_right_but_for_bad_bytes(lab) and run(lab, 6, 1, 0) == [BAD, "", BAD + "a"]
    return right and level(lab, "Ġa") == [b" a"]
