"""Lab 06: the incremental detokenizer. Each docstring states the rule that its test pins.

Every rule is tried on each tokenizer, `byte_level` first: fixed cases, then cases drawn from the
seed. `LAB_SEED=1 make lab N=06` draws others; `LAB_TOKENIZER=path/to/tokenizer.json make lab N=06`
also tries yours.
"""

import functools
import itertools

import pytest

from labkit.testing import (
    Call,
    Failure,
    check,
    decided,
    expect,
    expect_long,
    expect_most,
    expect_untouched,
    put_in,
    undecided,
)

DETOKENIZER = "IncrementalDetokenizer"
UNFINISHED = "\ufffd"
FACE, YOU = "\U0001fae8", "你"
MIXED = f"naïve café — {YOU}好，世界 🚀🇫🇷 {FACE} नमस्ते  a b\n1 "
# Characters that normal forms, line endings or strict readers change or drop.
ODD = "\u212be\u0301\ufeff\r\n\u00a0\u200b\u00ad\x00\u2126\ufb01"
# Characters of two to four bytes.
WIDE = f"é{YOU}好世界नमस्🚀{FACE}"
# Ids that no vocabulary has.
NO_TOKENS = [-1, -50_000, 2**31, 10**12]
# How late a U+FFFD that the model wrote may be, in tokens of text.
MOST_LATE = 3
# The ids to decode: for a token, on average, and before the first output.
MOST_AT_ONCE, MOST_ON_AVERAGE, MOST_TO_BEGIN = 128, 32, 512
# The ids of a prompt to read, and the bytes by which a stream may grow.
MOST_READ, MOST_GROWN = 1024, 500


def tokens(reader, *pieces):
    """Return the token of each piece; tokens of single bytes for one that the vocabulary lacks."""
    found = []
    for piece in pieces:
        data = piece.encode() if isinstance(piece, str) else piece
        parts = [data] if data in reader.ids_of else [bytes([byte]) for byte in data]
        found += [reader.ids_of[part][0] for part in parts]
    return found


def bytes_of(reader, ids):
    """Return the bytes that ids stand for."""
    return b"".join(map(reader.bytes_of, ids))


def is_text(reader, *streams):
    """Return whether the bytes of all streams are UTF-8, or may become it: for invalid bytes other
    rules hold.
    """
    for data in (bytes_of(reader, ids) for ids in streams):
        try:
            data[: len(data) - len(undecided(data))].decode()
        except UnicodeDecodeError:
            return False
    return True


def expected_pieces(reader, prompt, ids):
    """What each id must emit, beyond the prompt: the text that the bytes so far determine."""
    data, pieces = bytes_of(reader, prompt), []
    strips, rest = reader.strips and not decided(data), undecided(data)
    for token_id in ids:
        rest += reader.bytes_of(token_id)
        new, rest = decided(rest), undecided(rest)
        if strips and new:
            new, strips = new.removeprefix(" "), False
        pieces.append(new)
    return pieces


def told(reader, name, prompt, ids):
    """Return the tokens of a case as bytes, for the report: `byte_level, tokens ' a' '!'`."""
    before, after = (
        " ".join(repr(reader.bytes_of(token_id))[1:] for token_id in some)
        for some in (prompt[-12:], ids[:30])
    )
    return f"{name}, " + (f"prompt {before}, " if before else "") + f"tokens {after or 'none'}"


def push(lab, name, prompt, ids, end=""):
    """Push ids one by one, with a handle of that tokenizer."""
    new = lab.new(DETOKENIZER, lab.new("given.tokenizer", name), prompt or [])
    return lab.stream(new, ids, feed="push", end=end, watch="")


def push_all(lab, name, prompt, ids):
    """Push many ids, without a report of each; return the pieces."""
    new = lab.new(DETOKENIZER, lab.new("given.tokenizer", name), prompt)
    pieces = lab.call(lab.new("given.Feeder", new), "push_all", ids)
    odd = next((piece for piece in pieces if type(piece) is not str), "")
    expect(odd, "", f"{len(ids):,} tokens of {name}", "each piece is a str")
    return pieces


def emits(lab, name, ids, prompt=(), end=""):
    """Each id must emit all text that is certain with it, and no more; a flush then adds nothing.

    A stream that ends inside a character is not flushed here.
    """
    reader = lab.given.reader(name)
    cut = end and undecided(bytes_of(reader, [*prompt, *ids]))
    if cut or not is_text(reader, [*prompt, *ids]):
        return
    trace = push(lab, name, prompt, ids, end)
    what = told(reader, name, prompt, ids)
    wanted = [*expected_pieces(reader, prompt, ids), *([""] if end else [])]
    expect(trace.outputs, wanted, trace, what)


def emits_after(lab, name, case, end=""):
    """The same for a prompt and an output."""
    prompt, ids = case
    emits(lab, name, ids, prompt, end)


def in_each(lab, cases, kind=""):
    """Yield the name of each tokenizer, or of each of a kind, with the cases for its reader:
    `byte_level` first.
    """
    for name in lab.given.NAMES:
        if kind in ("", lab.given.reader(name).kind):
            yield from ((name, case) for case in cases(lab.given.reader(name)))


def some_text(lab, most=20, characters=MIXED):
    """Draw a text."""
    return "".join(lab.random.choices(characters, k=lab.random.randint(2, most)))


@functools.cache
def mixed_tokens(reader):
    """Return the tokens that are some text and then the beginning of a character."""
    return [
        data
        for data in reader.ids_of
        if undecided(data) and len(undecided(data)) < len(data)
        and UNFINISHED not in decided(data)
    ]  # fmt: skip


def spelled(lab, reader, text):
    """Draw tokens for a text, none of which is some text and then the beginning of a character."""
    longest = lab.random.choice([1, 2, 3, 8])
    if not mixed_tokens(reader):
        return reader.spell(text, lab.random, longest)
    ids = []
    for is_ascii, run in itertools.groupby(text, str.isascii):
        for part in ["".join(run)] if is_ascii else run:
            ids += reader.spell(part, lab.random, longest)
    return ids


def some_spellings(lab, reader, count=12, characters=MIXED):
    """Draw texts, each as tokens that are not mixed; short ones first."""
    for number in range(count):
        yield spelled(lab, reader, some_text(lab, 3 + 2 * number, characters))


@functools.cache
def texts_of_tokens(reader):
    """Return the tokens that are whole characters, but for U+FFFD."""
    return [
        data for data in reader.ids_of if not undecided(data) and UNFINISHED not in decided(data)
    ]


def whole_tokens(lab, reader, count=12):
    """Draw tokens each of which is whole characters."""
    for length in range(2, count + 2):
        drawn = lab.random.choices(texts_of_tokens(reader), k=length)
        yield [lab.random.choice(reader.ids_of[data]) for data in drawn]


def cut_anywhere(lab, ids):
    """Draw a prompt and an output that make up a stream."""
    where = lab.random.randint(0, len(ids))
    return ids[:where], ids[where:]


def finished(lab, data):
    """Draw the rest of a character that begins so; None if there is none among some."""
    tails = [
        c.encode()
        for c in f"é{YOU}好世界—नमस्तेéñüßжשع가한語の日🚀{FACE}"
        if c.encode().startswith(data)
    ]
    return lab.random.choice(tails)[len(data) :] if tails else None


def drawn_tokens(lab, text, sizes=(1, 1, 2, 2, 3, 4, 5, 6)):
    """Cut the bytes of a text anywhere, into tokens of these sizes."""
    data, pieces = text.encode(), []
    while data:
        size = lab.random.choice(sizes)
        pieces, data = [*pieces, data[:size]], data[size:]
    return pieces


def stream_of(lab, pieces, prompt=()):
    """Return a stream whose tokenizer has only `decode`, and these pieces as its vocabulary; the
    ids of the output; and the vocabulary.
    """
    vocabulary = [*dict.fromkeys([*pieces, *prompt])]
    new = lab.new(
        DETOKENIZER, lab.new("given.Pieces", vocabulary), [*map(vocabulary.index, prompt)]
    )
    return new, [*map(vocabulary.index, pieces)], vocabulary


def emits_in_drawn(lab, pieces, place, end=""):
    """With these pieces as the vocabulary, each piece from this place on must emit all text that is
    certain, and no more; a flush adds nothing.
    """
    prompt, pieces = pieces[:place], pieces[place:]
    data = b"".join([*prompt, *pieces])
    if data.decode(errors="replace").encode() != data:
        return
    new, ids, _ = stream_of(lab, pieces, prompt)
    so_far = itertools.accumulate(pieces, initial=undecided(b"".join(prompt)))
    texts = [decided(data) for data in so_far]
    wanted = [now[len(then) :] for then, now in itertools.pairwise(texts)]
    trace = lab.stream(new, ids, feed="push", end=end, watch="")
    expect(trace.outputs, [*wanted, *([""] if end else [])], trace)


@pytest.mark.given
def test_naive_single_tokens_lose_spaces_and_characters(lab):
    """Decoded alone, the tokens of " world" and of a face are not what they are together."""
    reader = lab.given.reader("byte_fallback")
    hello = tokens(reader, " Hello", " world")
    assert [reader.decode([token_id]) for token_id in hello] == ["Hello", "world"]
    assert reader.decode(hello) == "Hello world"
    reader = lab.given.reader("byte_level")
    face = tokens(reader, b"\xf0\x9f", b"\xab", b"\xa8")
    assert [reader.decode([token_id]) for token_id in face] == [UNFINISHED] * 3
    assert reader.decode(face) == FACE


@pytest.mark.given
def test_naive_difference_prints_no_face(lab):
    """Without a guard on U+FFFD the difference is empty at the third token: the text had one
    character before, and has one now. No later token brings the face back.
    """
    decode = lab.given.reader("byte_level").decode
    before, out, ids = "", [], []
    for token_id in tokens(lab.given.reader("byte_level"), b"\xf0\x9f", b"\xab", b"\xa8"):
        ids.append(token_id)
        now = decode(ids)
        out.append(now[len(before) :])
        before = now
    assert out == [UNFINISHED, "", ""]


@pytest.mark.given
def test_naive_decode_of_everything_is_quadratic(lab):
    """To decode the whole stream at each of 400 tokens is to decode 80,200 ids."""
    handle = lab.given.tokenizer("byte_level")
    ids = tokens(lab.given.reader("byte_level"), "a") * 400
    for count in range(1, len(ids) + 1):
        handle.decode(ids[:count])
    assert handle.decoded == 80_200


def window_of_four(reader, prompt, ids, *, holds=True, falls_back=True, counts="tokens"):
    """Return the text of each id, and of the flush: the difference in a window of four tokens.

    An end in U+FFFD is held; a U+FFFD in the window before makes it fall back on the whole text.
    """
    tokens, pieces = [*prompt], []
    out = len(reader.decode(prompt))
    for token_id in ids:
        tokens.append(token_id)
        start = max(0, (len(tokens) if counts == "tokens" else out) - 4)
        now, before = reader.decode(tokens[start:]), reader.decode(tokens[start:-1])
        if holds and now.endswith(UNFINISHED):
            new = ""
        elif falls_back and UNFINISHED in before:
            new = reader.decode(tokens)[out:]
        else:
            new = now[len(before) :]
        out += len(new)
        pieces.append(new)
    return pieces, reader.decode(tokens)[out:]


@pytest.mark.given
def test_naive_count_of_characters_empties_the_window(lab):
    """A window whose start is counted in *characters* is empty after a few words, because it begins
    after the last token: every token gives "", and the flush gives all text.
    """
    reader = lab.given.reader("byte_level")
    prompt, ids = tokens(reader, " Hello", ",") * 4, tokens(reader, " world", "!")
    assert window_of_four(reader, prompt, ids, counts="characters") == (["", ""], " world!")
    assert window_of_four(reader, prompt, ids) == ([" world", "!"], "")


@pytest.mark.given
def test_naive_window_loses_the_face_without_its_fallback(lab):
    """A window that holds while it ends in U+FFFD still loses the face: the text before has a
    U+FFFD in the place of the face, so the difference is empty. The flush emits the face. With a
    fallback on the whole text if the window before has U+FFFD, its last token emits it.
    """
    reader = lab.given.reader("byte_level")
    prompt, face = tokens(reader, "a"), tokens(reader, b"\xf0\x9f", b"\xab", b"\xa8")
    assert window_of_four(reader, prompt, face, falls_back=False) == (["", "", ""], FACE)
    assert window_of_four(reader, prompt, face) == (["", "", FACE], "")


@pytest.mark.given
def test_naive_window_that_does_not_wait_prints_damage(lab):
    """A window that does not hold emits a U+FFFD for half the face, and never the face."""
    reader = lab.given.reader("byte_level")
    prompt, face = tokens(reader, "a"), tokens(reader, b"\xf0\x9f", b"\xab", b"\xa8")
    naive = window_of_four(reader, prompt, face, holds=False, falls_back=False)
    assert naive == ([UNFINISHED, "", ""], "")


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_whole_tokens_come_at_once(lab):
    """A token of whole characters is emitted at once, as it appears in the whole text: with its
    spaces, and with no text of the tokens before it.
    """

    def cases(reader):
        yield tokens(reader, " Hello", " world", "!")
        yield from whole_tokens(lab, reader)

    check(lambda case: emits(lab, *case), in_each(lab, cases))


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_spaces_are_as_in_the_whole_text(lab):
    """Decoded alone with `byte_fallback`, the tokens " Hello" and " world" lose their spaces. In a
    stream only the first token loses one. Several spaces in a row, at the start, in the middle or
    at the end, are emitted as `decode` of the whole shows them.
    """

    def cases(reader):
        yield tokens(reader, " ", " ", " a")
        yield tokens(reader, " a", "  ", " a")
        yield tokens(reader, " a", " ", " ", " the", " ", "!", " ", ",", "\n", " a", " ")
        for length in range(3, 12):
            words = [" ", "  ", " ", "a", " the", "\n", " a", "!", ","]
            yield tokens(reader, *lab.random.choices(words, k=length))

    check(lambda case: emits(lab, *case), in_each(lab, cases))


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_special_tokens_are_shown(lab):
    """A special token is text like any other: `decode` shows it, and so does the stream. The word
    after it keeps its space.
    """

    def cases(reader):
        special = sorted(reader.special)
        yield [*tokens(reader, " a"), *special[-1:], *tokens(reader, " the", "!")]
        for ids in whole_tokens(lab, reader):
            yield put_in([*ids, *tokens(reader, " a")], special or ids, lab.random)

    check(lambda case: emits(lab, *case), in_each(lab, cases))


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_ids_without_text_change_nothing(lab):
    """An id that the vocabulary does not have, negative and huge ids included, gives "". The word
    after it is emitted as if the id were not there, whether there is one such id or a hundred.
    """

    def cases(reader):
        yield [*tokens(reader, " a"), -1, *tokens(reader, " the"), 10**12, *tokens(reader, "!")]
        for count, ids in enumerate(whole_tokens(lab, reader)):
            many = lab.random.choices(NO_TOKENS, k=1 if count < 4 else 100)
            yield put_in([*tokens(reader, " a"), *many, *tokens(reader, " a"), *ids],
                         [-lab.random.randint(1, 10**6), *NO_TOKENS], lab.random)  # fmt: skip

    check(lambda case: emits(lab, *case), in_each(lab, cases))


@pytest.mark.task(1)
@pytest.mark.points(9)
def test_a_token_decodes_few_ids(lab):
    """However long the text is, few ids are decoded for a token: 128 at most, 32 on average. The
    tokenizer counts them. A text of 600 tokens is emitted whole. So is a run of 150 newlines or of
    150 spaces, or of 150 times any one token, such as a special token.
    """

    def cases(reader):
        yield [*itertools.chain(*whole_tokens(lab, reader, 34))]
        for few in (tokens(reader, "\n"), tokens(reader, " "), sorted(reader.special)[-1:],
                    *whole_tokens(lab, reader, 2)):  # fmt: skip
            yield [*few * (150 // len(few or "-")), *tokens(reader, " a", " ", " ", "!")]

    for name, ids in in_each(lab, cases):
        reader = lab.given.reader(name)
        handle = lab.new("given.tokenizer", name)
        counted = Call("decoded", None, object=1)
        calls = [counted, *itertools.chain(*((("push", one), counted) for one in ids))]
        trace = lab.script([lab.new(DETOKENIZER, handle, []), handle], calls, watch="")
        counts, outputs = trace.outputs[::2], trace.outputs[1::2]
        expect(outputs, expected_pieces(reader, [], ids), f"{len(ids)} tokens of {name}", "pieces")
        call = f"{len(ids)} tokens of {name}"
        most = max(after - before for before, after in itertools.pairwise(counts))
        expect_most(most, MOST_AT_ONCE, call, "ids decoded for one token")
        expect_most(counts[-1] // len(ids), MOST_ON_AVERAGE, call, "ids decoded on average")


@pytest.mark.task(1)
@pytest.mark.points(1)
def test_two_tokenizers_in_one_process(lab):
    """Two tokenizers in one process may have other texts for the same ids. Streams on both, pushed
    in turns, give the texts of their own tokenizer. Only its `decode` is used.
    """

    def rule(words):
        first = [word.encode() for word in words]
        vocabularies = [first, first[::-1]]
        news = [lab.new(DETOKENIZER, lab.new("given.Pieces", known), []) for known in vocabularies]
        traces = lab.interleave(news, [[*range(len(words))]] * 2, "", feed="push", watch="")
        for known, trace in zip(vocabularies, traces, strict=True):
            expect(trace.outputs, [piece.decode() for piece in known], trace)

    drawn = ([some_text(lab, 3) for _ in range(lab.random.randint(2, 5))] for _ in range(6))
    check(rule, [["a", " b"], [" Hello", ",", " world"], *drawn])


@pytest.mark.task(2)
@pytest.mark.points(7)
def test_a_character_comes_with_the_token_that_completes_it(lab):
    """A shaking face in three tokens gives "", "" and the face. Whatever a character's tokens are,
    it is emitted whole, with the last of them, and unchanged: line endings, a byte order mark,
    combining and invisible characters are emitted as `decode` shows them.
    """

    def cases(reader):
        yield tokens(reader, b"\xf0\x9f", b"\xab", b"\xa8")
        yield tokens(reader, "a", b"\xe4\xbd", b"\xa0", YOU, b"\xc3", b"\xa9", "!")
        yield from (tokens(reader, "a", character, "!") for character in ODD)
        yield tokens(reader, *ODD)
        yield from some_spellings(lab, reader)
        yield from some_spellings(lab, reader, 8, MIXED + ODD)

    check(lambda case: emits(lab, *case), in_each(lab, cases))


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_many_characters_in_single_bytes(lab):
    """Characters in single bytes, one after the other, are emitted one by one. `byte_fallback`
    shows the whole run as U+FFFD while its last character is unfinished; emitted text is never
    taken back.
    """

    def cases(reader):
        yield tokens(reader, *(bytes([b]) for b in f"{YOU}é🚀{YOU}".encode()))
        for length in range(2, 12):
            text = "".join(lab.random.choices(f"é{YOU}世🚀{FACE}नa", k=length))
            yield tokens(reader, *(bytes([b]) for b in text.encode()), " the")

    check(lambda case: emits(lab, *case), in_each(lab, cases))


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_text_before_an_unfinished_end_comes_at_once(lab):
    """A token may be a space and half an emoji, or the end of one character and the beginning of
    the next: its complete text is emitted at once, and only the unfinished character is held. So
    it is in drawn vocabularies, in which many such tokens follow each other.
    """

    def cases(reader):
        yield tokens(reader, " a", b" \xf0\x9f", b"\x9a", b"\x80", "!")
        mixed = mixed_tokens(reader)
        for _ in range(24):
            ids = tokens(reader, " a")
            for data in lab.random.choices(mixed, k=lab.random.randint(1, 3)) if mixed else []:
                rest = finished(lab, undecided(data))
                ids += [] if rest is None else tokens(reader, data, rest)
            yield [*ids, *reader.spell(some_text(lab, 6), lab.random, 3)]

    def rule(pieces):
        # A smaller case is a well-formed text as well.
        b"".join(pieces).decode()
        new, ids, _ = stream_of(lab, pieces)
        so_far = itertools.accumulate(pieces, initial=b"")
        texts = [decided(data) for data in so_far]
        wanted = [now[len(then) :] for then, now in itertools.pairwise(texts)]
        trace = lab.stream(new, ids, feed="push", end="", watch="")
        expect(trace.outputs, wanted, trace)

    check(lambda case: emits(lab, *case), in_each(lab, cases))
    check(rule, [[b"a\r\nb"], [ODD.encode()]])
    check(rule, (drawn_tokens(lab, some_text(lab, length, MIXED + ODD)) for length in range(3, 27)))


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_ids_without_text_inside_a_character(lab):
    """An id without text also gives "" inside a character, and the character is emitted all the
    same.
    """

    def cases(reader):
        yield [*tokens(reader, b"\xf0\x9f"), -1, *tokens(reader, b"\xab"), 10**12,
               *tokens(reader, b"\xa8", "!")]  # fmt: skip
        for ids in some_spellings(lab, reader):
            yield put_in(ids, NO_TOKENS, lab.random)

    check(lambda case: emits(lab, *case), in_each(lab, cases))


def expect_soon(lab, name, ids):
    """All text must be emitted: never more than is certain, nor less than was three tokens ago."""
    reader = lab.given.reader(name)
    ids = [*ids, *tokens(reader, "!")]
    if not is_text(reader, ids):
        return
    trace = push(lab, name, [], ids)
    what = told(reader, name, [], ids)
    pieces = expected_pieces(reader, [], ids)
    with_text = [number for number, token_id in enumerate(ids) if reader.bytes_of(token_id)]
    expect_in_time(trace, pieces, with_text, what)


def expect_in_time(trace, pieces, with_text, what):
    """No piece may be emitted early, nor more than three tokens of text late."""
    expect(trace.text, "".join(pieces), trace, what)
    certain = [*itertools.accumulate(pieces)]
    out = [*itertools.accumulate(trace.outputs)]
    for place, number in enumerate(with_text):
        now = certain[number]
        least = now.rstrip(UNFINISHED)
        if place >= MOST_LATE:
            least = max(least, certain[with_text[place - MOST_LATE]], key=len)
        if len(out[number]) < len(least):
            expect(out[number], least, trace, f"at least, {what}", at=number)
        if len(out[number]) > len(now):
            expect(out[number], now, trace, f"at most, {what}", at=number)


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_a_real_replacement_character_comes_soon(lab):
    """A U+FFFD that the model wrote is text. `decode` alone cannot distinguish it from half a
    character, so it is emitted when other text follows, and at most three tokens of text late, even
    after other U+FFFD, and whether it is one token or several.
    """

    def cases(reader):
        yield tokens(reader, "a", "\ufffd", " the")
        yield tokens(reader, "a", *["\ufffd"] * 6, " the")
        yield tokens(reader, *["\ufffd"] * 2, *(bytes([b]) for b in f"{YOU}🚀".encode()), "!")
        for length in range(3, 24):
            text = "".join(lab.random.choices(f"a\ufffd\ufffd\ufffdé{YOU}{FACE} ", k=length))
            yield spelled(lab, reader, text)

    def in_time(words):
        # Each U+FFFD and each ASCII character is one token; the others are single bytes.
        pieces = [b"!"]
        for word in reversed(words):
            parts = [word.encode()] if word in "a\ufffd" else map(bytes, zip(word.encode()))
            pieces[:0] = parts
        new, ids, _ = stream_of(lab, pieces)
        trace = lab.stream(new, ids, feed="push", end="", watch="")
        texts = [decided(data) for data in itertools.accumulate(pieces, initial=b"")]
        wanted = [now[len(then) :] for then, now in itertools.pairwise(texts)]
        expect_in_time(trace, wanted, range(len(ids)), "each U+FFFD is one token")

    check(lambda case: expect_soon(lab, *case), in_each(lab, cases))
    drawn = (lab.random.choices(f"a\ufffd\ufffd\ufffd{YOU}🚀", k=length) for length in range(2, 16))
    check(in_time, [["a", *["\ufffd"] * 6], ["\ufffd", "🚀"], *drawn])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_the_prompt_is_not_repeated(lab):
    """No text of the prompt is emitted, and the list of its ids is not changed. It is read when the
    stream is made: the caller may append each id to the same list before it pushes the id.
    """

    def rule(case):
        name, (prompt, ids) = case
        emits_after(lab, name, (prompt, ids))
        expect_untouched(push(lab, name, prompt, ids))
        reader, history = lab.given.reader(name), lab.new("given.shared", [*prompt])
        if not is_text(reader, [*prompt, *ids]):
            return
        new = lab.new(DETOKENIZER, lab.new("given.tokenizer", name), history)
        calls = [*((Call("append", (one,), object=1), ("push", one)) for one in ids)]
        calls = [*itertools.chain(*calls), Call("copy", object=1)]
        trace = lab.script([new, history], calls, watch="")
        wanted, what = expected_pieces(reader, prompt, ids), "the prompt's list grows"
        expect(
            trace.outputs[1:-1:2], wanted, f"{told(reader, name, prompt, ids)}, {what}", "pieces"
        )
        expect(trace.outputs[-1], [*prompt, *ids], trace, "the prompt's list")

    def cases(reader):
        yield tokens(reader, " Hello", ","), tokens(reader, " world", "!")
        yield tokens(reader, "a", YOU.encode()[:1]), tokens(reader, YOU.encode()[1:], "!")
        for ids in whole_tokens(lab, reader):
            yield cut_anywhere(lab, [*ids, *tokens(reader, "a", "!")])
        yield [*itertools.chain(*whole_tokens(lab, reader, 20))], tokens(reader, " a", "!")

    check(rule, in_each(lab, cases))


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_the_space_after_a_prompt_stays(lab):
    """After a prompt the first word of the output keeps its space, even if the prompt is one
    special token, or ends in spaces, in special tokens, or in ids without text.
    """

    def cases(reader):
        special = sorted(reader.special)[-1:]
        ends = [tokens(reader, " a"), tokens(reader, " a", " ", " "), special, [-1] * 20]
        for token_id in sorted(reader.special):
            yield [token_id], tokens(reader, " world", " a")
        for end in ends:
            yield tokens(reader, " the", "!") + end, tokens(reader, " world", " a")
        for ids in whole_tokens(lab, reader):
            yield (
                tokens(reader, " the") + ids + lab.random.choice(ends),
                tokens(reader, " a", " ", " the"),
            )

    check(lambda case: emits_after(lab, *case), in_each(lab, cases))


def begun_characters(reader):
    """Yield prompts of words that end inside a character, each with its output."""
    for text in (YOU, "é", "🚀"):
        data = [bytes([b]) for b in text.encode()]
        for cut in range(1, len(data)):
            whole = tokens(reader, *(" the", "!") * 5, *data, " a")
            prompt, output = whole[: 10 + cut], whole[10 + cut :]
            yield prompt, output
            yield [*prompt, -1], [10**12, *output]
            yield [*prompt[:-1], -1, prompt[-1], 10**12], output


def single_bytes(lab, reader):
    """Yield prompts that end in many single bytes or other small pieces, each with its output."""
    for text in ("🙂你", YOU * 6, f"a{YOU * 3}", "世世"):
        data = tokens(reader, *(bytes([b]) for b in f"{text}é".encode()), " b")
        for left in (2, 3, 4):
            yield data[:-left], data[-left:]
        # After whole characters in single bytes, a space in a single byte.
        data = tokens(reader, *(bytes([b]) for b in f"{text} a{YOU}".encode()))
        yield data[:-5], data[-5:]
    for length in range(6, 30):
        text = some_text(lab, length, MIXED + YOU * 20)
        yield cut_anywhere(lab, spelled(lab, reader, text))


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_a_character_that_the_prompt_begins_comes_whole(lab):
    """A prompt may end inside a character. The character is emitted whole, with the token that
    completes it, and the text after it is right. Ids without text inside the character, in the
    prompt or in the output, change nothing.
    """
    check(lambda case: emits_after(lab, *case), in_each(lab, begun_characters))
    cases = in_each(lab, lambda reader: single_bytes(lab, reader), "byte_level")
    check(lambda case: emits_after(lab, *case), cases)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_a_short_prompt_is_enough(lab):
    """A prompt may have no token, or one to four, and all of them may be the beginning of one
    character, or ids without text. It may be a list or a tuple. In drawn vocabularies, whose tokens
    are parts of two characters, it has up to seven tokens.
    """

    def cases(reader):
        for prompt in ([-1], [10**12, -1, -1], NO_TOKENS):
            yield prompt, tokens(reader, " the", " a")
        yield tuple(tokens(reader, " a")), tokens(reader, " the", " a")
        for text in (f"{FACE}a", f"{YOU}!", f"a{YOU}", "é b", " 🚀"):
            ids = tokens(reader, *(bytes([b]) for b in text.encode()))
            yield from ((ids[:cut], ids[cut:]) for cut in range(len(ids)))
        for _ in range(12):
            ids = spelled(lab, reader, some_text(lab, 3) + "a b")
            cut = lab.random.randint(0, min(4, len(ids) - 1))
            yield lab.random.choice([list, tuple])(ids[:cut]), ids[cut:]

    def drawn():
        for _ in range(160):
            pieces = drawn_tokens(lab, some_text(lab, 5, WIDE), [1, 2])
            yield pieces, lab.random.randint(1, min(7, len(pieces)))

    check(lambda case: emits_after(lab, *case), in_each(lab, cases))
    check(lambda case: emits_in_drawn(lab, *case), drawn())


def begins_with_few(lab, name, text):
    """After a long prompt that ends in the text and half a character, few ids must be decoded."""
    reader = lab.given.reader(name)
    prompt = [*tokens(reader, " the") * lab.random.randint(18_000, 22_000),
              *reader.spell(text + YOU, lab.random, 1)[:-1]]  # fmt: skip
    last = tokens(reader, YOU.encode()[-1:], " a")
    call = f"with {name}, a prompt of {len(prompt):,} tokens"
    pieces = begins(lab, name, prompt, last, call)
    expect(pieces, [YOU, " a"], call, "the first two pieces")


def begins(lab, name, prompt, ids, call):
    """Push the first ids after a prompt; few of its ids must be read and decoded. Return the
    pieces.
    """
    handle, counted = lab.new("given.tokenizer", name), lab.new("given.Counted", prompt)
    calls = [*(("push", one) for one in ids)]
    calls += [Call("decoded", None, object=1), Call("reads", None, object=2)]
    trace = lab.script([lab.new(DETOKENIZER, handle, counted), handle, counted], calls, watch="")
    expect_most(trace.outputs[-2], MOST_TO_BEGIN, call, "ids decoded")
    expect_most(trace.outputs[-1], MOST_READ, call, "ids of the prompt read")
    return trace.outputs[:-2]


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_only_the_end_of_a_long_prompt_is_decoded(lab):
    """For a prompt of some 20,000 tokens, few ids are decoded before the first output: at most
    512, also if it ends in thousands of ids without text. At most 1,024 of its ids are read.
    """
    for name in lab.given.NAMES:
        silent = [lab.random.choice(NO_TOKENS)] * lab.random.randint(2_000, 3_000)
        prompt = [*tokens(lab.given.reader(name), " the") * 300, *silent]
        begins(
            lab, name, prompt, [], f"with {name}, a prompt that ends in {len(silent):,} such ids"
        )
        words = lab.given.reader(name).kind == "byte_fallback"
        begins_with_few(lab, name, " the the the" if words else some_text(lab, 40))


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_a_prompt_of_single_bytes(lab):
    """With `byte_fallback`, a prompt may end in a run of single bytes. If the window begins inside
    a character, `decode` shows the whole run as U+FFFD. The character that the prompt begins is
    emitted whole all the same, and at most 512 ids are decoded before it.
    """
    cases = in_each(lab, lambda reader: single_bytes(lab, reader), "byte_fallback")
    check(lambda case: emits_after(lab, *case), cases)
    for name, text in in_each(lab, lambda reader: [some_text(lab, 40)], "byte_fallback"):
        begins_with_few(lab, name, text)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_flush_gives_what_waits(lab):
    """If the output ends inside a character, flush gives U+FFFD for it: one, or one for each of its
    bytes, and none for a character that has been emitted. If nothing is held it gives "". So it
    is if the prompt ends inside a character, even before the first push; and text before the
    character, which has been emitted, is not emitted again.
    """

    def rule(case):
        name, (prompt, ids) = case
        reader = lab.given.reader(name)
        if not is_text(reader, [*prompt, *ids]):
            return
        data = bytes_of(reader, [*prompt, *ids])
        cut = undecided(data)
        if cut and data[: -len(cut)] == b" ":
            # A decoder that drops a first space may count it as damaged, too.
            return
        trace = push(lab, name, prompt, ids, "flush")
        what = told(reader, name, prompt, ids)
        expect(trace.outputs[:-1], expected_pieces(reader, prompt, ids), trace, what)
        rest = trace.outputs[-1]
        wanted = [UNFINISHED * count for count in range(min(1, len(cut)), len(cut) + 1)]
        if rest not in wanted:
            expect(rest, wanted[0], trace, what)

    def cases(reader):
        yield [], tokens(reader, "ok", b"\xf0\x9f", b"\x9a")
        yield [], tokens(reader, "ok", b"\xf0", b"\x9f", b"\x9a", b"\x80")
        yield [], tokens(reader, *(bytes([b]) for b in YOU.encode()), b"\xf0")
        yield tokens(reader, "a", b"\xf0", b"\x9f"), []
        yield tokens(reader, " the", "!"), []
        for data in lab.random.choices(mixed_tokens(reader), k=8) if mixed_tokens(reader) else []:
            yield tokens(reader, " a"), tokens(reader, " a", data)
        for ids in some_spellings(lab, reader, 20):
            cut = lab.random.randint(1, len(ids))
            yield [], ids[:cut]
            yield cut_anywhere(lab, ids[:cut])

    check(rule, in_each(lab, cases))


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_flush_ends(lab):
    """flush gives the held text once, also U+FFFD that the model wrote, one or several. After it,
    push and flush give "".
    """

    def rule(case):
        name, (ids, more) = case
        reader = lab.given.reader(name)
        if not is_text(reader, ids) or undecided(bytes_of(reader, ids)):
            return
        new = lab.new(DETOKENIZER, lab.new("given.tokenizer", name), [])
        calls = [*(("push", one) for one in ids), ("flush",), ("flush",)]
        calls += [*(("push", one) for one in more), ("flush",)]
        trace = lab.script(new, calls, watch="")
        text = "".join(expected_pieces(reader, [], ids))
        what = told(reader, name, [], ids)
        expect(trace.text[: len(text)], text, trace, what)
        expect("".join(trace.outputs[: len(ids) + 1]), text, trace, what)
        late = trace.outputs[len(ids) + 1 :]
        expect(late, [""] * len(late), trace, f"after flush, {what}")

    def cases(reader):
        yield tokens(reader, "ok", "\ufffd"), tokens(reader, "a", " the")
        for ids in some_spellings(lab, reader, 10, MIXED + UNFINISHED * 9):
            yield ids, reader.spell(some_text(lab), lab.random)

    def whole(pieces):
        new, ids, _ = stream_of(lab, pieces)
        text = b"".join(pieces).decode()
        trace = lab.script(new, [*(("push", one) for one in ids), ("flush",)], watch="")
        expect(trace.text, text, trace)

    def drawn():
        yield ["a\ufffd\ufffd".encode()]
        for count in (1, 2) * 6:
            yield [some_text(lab, 4).encode(), *drawn_tokens(lab, UNFINISHED * count)]

    check(rule, in_each(lab, cases))
    check(whole, drawn())


@pytest.mark.task(4)
@pytest.mark.points(8)
def test_property_exact_and_eager(lab):
    """complete, append-only, honest, eager: any text in any tokens, cut anywhere into prompt and
    output, with special tokens between whole characters and ids without text anywhere. Each token
    emits all text that is certain and no more, and flush emits none. So it is in drawn
    vocabularies.
    """

    def cut_texts():
        for length in range(2, 40):
            pieces = drawn_tokens(lab, some_text(lab, length, MIXED + ODD))
            yield pieces, lab.random.randint(0, len(pieces))

    def cases(reader):
        for length in range(2, 60):
            ids = []
            for _ in range(lab.random.randint(1, 3)):
                ids += reader.spell(
                    some_text(lab, length), lab.random, lab.random.choice([1, 2, 8])
                )
                ids += lab.random.choices([*reader.special, *NO_TOKENS], k=lab.random.randint(0, 2))
            yield cut_anywhere(lab, put_in(ids, NO_TOKENS, lab.random) if length % 2 else ids)

    check(lambda case: emits_after(lab, *case, end="flush"), in_each(lab, cases))
    check(lambda case: emits_in_drawn(lab, *case, end="flush"), cut_texts())


def is_byte_token(reader, token_id):
    """Whether `byte_fallback` spells the token as a byte, such as `<0xE4>`."""
    spelled = reader.vocabulary[token_id]
    return reader.kind == "byte_fallback" and spelled.startswith("<0x")


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_property_total(lab):
    """total: ill-formed bytes raise nothing, give at most one character for each byte, and are held
    in at most eight tokens. No text after them is lost or changed; in `byte_fallback` it begins
    with the next token that is not a byte. Ten tokens later each token emits its own text.
    """

    def rule(case):
        name, (bad, good) = case
        reader = lab.given.reader(name)
        trace = push(lab, name, [], [*bad, *good], "flush")
        what = told(reader, name, [], [*bad, *good])
        size = len(bytes_of(reader, [*bad, *good]))
        expect_most(len(trace.text), size + MOST_LATE, trace, f"characters {what}")
        early = "".join(trace.outputs[: len(bad)])
        expect_most(len(bad) - len(early), 8, trace, f"bad tokens without a character {what}")
        pieces = expected_pieces(reader, tokens(reader, "a"), good)
        bytes_first = itertools.takewhile(functools.partial(is_byte_token, reader), good)
        after = "".join(pieces[len([*bytes_first]) :])
        late = "".join(trace.outputs[len(bad) :])
        # Without bad bytes, `decode` takes away the space of the first word.
        if bad:
            expect(late[len(late) - len(after) :], after, trace, f"the text after the bytes {what}")
        expect(trace.outputs[len(bad) + 10 : -1], pieces[10:], trace, what)

    def cases(reader):
        good = tokens(reader, *[" a", "!"] * 8)
        yield tokens(reader, *[b"\xff"] * 20), good
        yield tokens(reader, *[b"\x80"] * 20), good
        bytes_alone = [
            bytes([b]) for b in (0xFF, 0x80, 0xA0, 0xC0, 0xC3, 0xE0, 0xE4, 0xED, 0xF0, 0xF5)
        ]
        for length in range(2, 24):
            bad = lab.random.choices(bytes_alone[:4] if length > 8 else bytes_alone, k=length)
            yield (
                tokens(reader, *bad),
                tokens(reader, *lab.random.choices([" a", "!", " the"], k=16)),
            )

    check(rule, in_each(lab, cases))


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: streams pushed in turns, on one tokenizer, give the same text as each alone."""

    def rule(case):
        name, streams = case
        handle, reader = lab.new("given.tokenizer", name), lab.given.reader(name)
        if not is_text(reader, *([*prompt, *ids] for prompt, ids in streams)):
            return
        news = [lab.new(DETOKENIZER, handle, prompt) for prompt, _ in streams]
        traces = lab.interleave(news, [ids for _, ids in streams], "flush", feed="push")
        for (prompt, ids), trace in zip(streams, traces, strict=True):
            what = told(reader, name, prompt, ids)
            expect(trace.outputs, [*expected_pieces(reader, prompt, ids), ""], trace, what)

    def cases(reader):
        yield [([], reader.spell(text, lab.random, 1)) for text in (FACE, YOU)]
        for count in (2, 2, 3, 3, 4):
            spelled = [*some_spellings(lab, reader, count)]
            yield [cut_anywhere(lab, [*ids, *tokens(reader, "!")]) for ids in spelled]

    check(rule, in_each(lab, cases))


@pytest.mark.task(4)
@pytest.mark.points(9)
@pytest.mark.timeout(4)
def test_property_linear(lab):
    """linear: a token costs the same at the end of a long stream as at its start, so some 6,000
    tokens of text after a prompt of some 2,000 finish well within the time limit.
    """
    reader = lab.given.reader("byte_fallback")
    size = lab.random.randint(8_000, 9_000)
    ids = reader.spell(some_text(lab, 400) * 400, lab.random)[:size]
    prompt, output = ids[: size // 4], ids[size // 4 :]
    pieces = push_all(lab, "byte_fallback", prompt, output)
    before, after = bytes_of(reader, prompt), bytes_of(reader, ids)
    call = f"{len(output):,} tokens of byte_fallback on a prompt of {len(prompt):,}"
    expect_long("".join(pieces), decided(after)[len(decided(before)) :], call)


def stays_cheap(lab, name, ids, words):
    """The memory of a stream must not grow while it gets these ids, after the first of them, and
    few ids must be decoded for each. They end like the first of them.
    """
    handle = lab.new("given.tokenizer", name)
    new = lab.new(DETOKENIZER, handle, [])
    weigh, counted = Call("weight", None, object=1), Call("decoded", None, object=2)
    calls = [[call for token_id in some for call in (("push", token_id), counted)] for some in ids]
    made = [new, lab.new("given.Scale", new, handle), handle]
    trace = lab.script(made, [counted, *calls[0], weigh, *calls[1], weigh], watch="")
    weights, counts = (
        [step.result for step in trace.steps if step.call.name == read]
        for read in ("weight", "decoded")
    )
    call = f"with {name}, {words}"
    expect_most(weights[1] - weights[0], MOST_GROWN, call, "bytes more are kept")
    most = max(after - before for before, after in itertools.pairwise(counts))
    expect_most(most, MOST_AT_ONCE, call, "ids decoded for one token")


@pytest.mark.task(4)
@pytest.mark.points(8)
@pytest.mark.timeout(6)
def test_property_bounded(lab):
    """bounded: some 9,000 bytes that complete no character, some 12,000 ids without text, and 3,000
    of them inside a character cost no more each than the first, and the text after them is right.
    A stream stores no more after 400 tokens of words, spaces, special tokens, characters in single
    bytes, bytes that complete no character, or ids without text, than after the first of them; nor
    after 200 different tokens or ids without text. At most 128 ids are decoded for each.
    """

    def repeated(reader):
        yield tokens(reader, " the", " a", "!")
        yield tokens(reader, *(bytes([b]) for b in f"é{YOU}🚀".encode()))
        yield from (tokens(reader, piece) for piece in (b"\xff", b"\xf0", "\n", " "))
        yield [lab.random.choice(NO_TOKENS)]
        yield sorted(reader.special)[-1:] or tokens(reader, "a")

    def different(reader):
        yield [-number for number in lab.random.sample(range(1, 10**6), k=200)]
        known = texts_of_tokens(reader)
        yield [reader.ids_of[data][0] for data in lab.random.sample(known, k=min(200, len(known)))]

    for name, ids in in_each(lab, repeated):
        parts = ids * (60 // len(ids)), ids * (340 // len(ids))
        shown = " ".join(repr(lab.given.reader(name).bytes_of(one)) for one in ids)
        stays_cheap(lab, name, parts, f"{shown}, again and again")
    for name, ids in in_each(lab, different):
        end = tokens(lab.given.reader(name), " the", " a", " the") * 20
        parts = [*ids[:40], *end], [*ids[40:], *end]
        shown = f"{len(ids)} different ids, with 60 words after 40 of them and at the end"
        stays_cheap(lab, name, parts, shown)
    byte_level, byte_fallback = map(lab.given.reader, ("byte_level", "byte_fallback"))
    bad = tokens(byte_fallback, b"\xff") * lab.random.randint(8_500, 9_500)
    silent = [lab.random.choice(NO_TOKENS)] * lab.random.randint(11_000, 13_000)
    words = [" a", "!", " the", "!"] * 3
    for name, ids, least in (
        # A few show text that is held forever, before the time that it takes does.
        ("byte_fallback", bad[:100], 92),
        ("byte_fallback", bad, len(bad) - 8),
        ("byte_fallback", silent, 0),
        ("byte_level", tokens(byte_level, b"\xe4") + silent[:3_000], 0),
    ):
        reader = lab.given.reader(name)
        pieces = push_all(lab, name, tokens(reader, " a"), [*ids, *tokens(reader, *words)])
        call = f"{len(ids):,} tokens of {name} that complete no character, then {''.join(words)!r}"
        whole, early = "".join(pieces), "".join(pieces[: len(ids)])
        end = "".join(words[4:])
        expect_long(whole[-len(end) :], end, f"{call}: the end of the text")
        expect(early.strip(UNFINISHED), "", call, "their text without U+FFFD")
        if not least <= len(early) <= len(ids):
            emitted = f"{least:,} to {len(ids):,} U+FFFD for the tokens without a character"
            raise Failure(emitted, f"{len(early):,}", call)
