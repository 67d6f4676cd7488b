"""Lab 08: the stop-sequence decoder. Each docstring states the rule that its test pins.

Ids 0-255 are bytes; the ids from 256 on are the pieces of a table, which the failing call shows.
"""

import itertools
from functools import partial

import pytest

from labkit.testing import (
    Failure,
    check,
    decided,
    decoded,
    expect,
    expect_long,
    expect_most,
    expect_untouched,
)
from mini_vllm.text.events import StopOutput

DECODER = "StopSequenceDecoder"
# An id without text.
EOS = 2000
# Characters that no drawn stop contains; WIDE characters have several bytes.
PLAIN, WIDE = "bdz 0,", "é你🚀"
# Alphabets whose characters are equal for code that ignores case, strips, or normalizes text.
ALIKE = ["eé\u0301", "\r\n", " .\t", "kK\u212a", "f\ufb01i", "1\u0661\uff11", " \xa0\u200b", "sSß"]


def new(lab, table=(), **options):
    """A decoder with a detokenizer of its own."""
    options.pop("ids", None)
    return lab.new(DECODER, lab.new("given.Pieces", list(table)), **options)


def reference(ids, table=(), *, stop_token_ids=(), visible_stop_token_ids=(), stops=(),
              visible_stops=(), min_tokens=0):  # fmt: skip
    """The contract on the text so far, by definition: an output for each id, and for flush."""
    data, early, shown, outputs = b"", 0, 0, []
    for number, token_id in enumerate([*ids, None], start=1):
        counts = min(number, len(ids)) > min_tokens
        hidden = counts and token_id in stop_token_ids
        stop = hidden or (counts and token_id in visible_stop_token_ids)
        data += b"" if hidden or token_id is None else text_of(token_id, table)
        ends = stop or token_id is None
        text = decoded(data) if ends else decided(data)
        early = early if counts else len(text)
        until, reason = first_stop(text, early, stops, visible_stops)
        if reason is None and not ends:
            until -= len(waits(text, stops, visible_stops, min_tokens))
        reason = token_id if stop else reason
        outputs.append(StopOutput(text[shown:until], reason is not None, reason))
        if reason is not None:
            return outputs + [StopOutput("", True, reason)] * (len(ids) + 1 - number)
        shown = until
    return outputs


def text_of(token_id, table):
    """The bytes of an id; a table of all ids is a dictionary."""
    if isinstance(table, dict):
        return table.get(token_id, b"")
    if 0 <= token_id < 256:
        return bytes([token_id])
    return table[token_id - 256] if 0 <= token_id - 256 < len(table) else b""


def first_stop(text, early, stops, visible_stops):
    """Return the end of the shown text, and the string that first ends after `early`."""
    for end in range(early + 1, len(text) + 1):
        ending = [stop for stop in (*stops, *visible_stops) if text.endswith(stop, 0, end)]
        if ending:
            winner = max(ending, key=len)
            return end - (len(winner) if winner in stops else 0), winner
    return len(text), None


def waits(text, stops, visible_stops, min_tokens):
    """The longest suffix of the text that is a proper prefix of a hidden stop that can win."""
    every = [*stops, *visible_stops]
    likely = [s for s in stops if min_tokens or not any(other in s[:-1] for other in every)]
    prefixes = {stop[:n] for stop in likely for n in range(len(stop))} | {""}
    return next(text[start:] for start in range(len(text) + 1) if text[start:] in prefixes)


def is_case(*, stops=(), visible_stops=(), **_):
    """Whether all stops have text; a shrunk case may have empty stops."""
    return "" not in (*stops, *visible_stops)


def is_clear(*, stops=(), visible_stops=(), min_tokens=0, **_):
    """Whether the contract says exactly which text is held: two corners are left open."""
    every = [*stops, *visible_stops]
    inner = any(other in stop[:-1] for stop in every for other in every)
    overtaken = any(
        shown.endswith(stop[:n])
        for shown in visible_stops
        for stop in stops
        for n in range(1, min(len(shown), len(stop) + 1))
    )
    return not overtaken and not (min_tokens and inner)


def follows(lab, case, end="", window=False):
    """A stream returns the outputs of the reference, token by token.

    With `window`, it may hold more: the longest stop, less one character.
    """
    if not is_case(**case):
        return
    trace = lab.stream(new(lab, **case), case["ids"], feed="process", end=end)
    fits(trace, trace.outputs, case, window)


def fits(trace, outputs, case, window=False, place=0):
    """Compare the outputs of a stream, with its flush or without; the first is that of the step
    `place`.
    """
    wanted = reference(**case)
    wanted += wanted[-1:] * (len(outputs) - len(wanted))
    if is_clear(**case) and not window:
        compare(trace, outputs, wanted[: len(outputs)], place)
        return
    most = longest_held(**case) if window else 0
    compare_shown(trace, outputs, wanted, most, is_clear(**case), place)


def longest_held(*, stops=(), visible_stops=(), **_):
    """The number of characters in the longest stop, less one."""
    return max(map(len, (*stops, *visible_stops)), default=1) - 1


def compare(trace, outputs, wanted, place=0):
    """Each output must be equal."""
    if any(type(output) is not type(other) for output, other in zip(outputs, wanted, strict=True)):
        expect(outputs, wanted, trace)
    for number, pair in enumerate(zip(outputs, wanted, strict=True), start=place):
        expect(*pair, trace, at=number)


def compare_shown(trace, outputs, wanted, most, clear, place=0):
    """Compare the ends, and all text shown so far, which may be `most` characters behind.

    `wanted` has the output of a flush as well: all text. If it is not clear which text is held,
    the text shown so far may be any beginning of it that is not behind.
    """
    whole, shown, due = "".join(output.text for output in wanted), "", ""
    for number, (output, right) in enumerate(zip(outputs, wanted, strict=False)):
        at = place + number
        if type(output) is not StopOutput:
            expect(output, right, trace, at=at)
        same_end = (output.stopped, output.reason) == (right.stopped, right.reason)
        even = shown == due
        shown, due = shown + output.text, due + right.text
        all_due = right.stopped or number == len(wanted) - 1
        if all_due or not (whole if not clear else due).startswith(shown):
            fine = shown == due
        else:
            fine = len(due) - len(shown) <= most
        if same_end and fine:
            continue
        if even or not same_end:
            expect(output, right, trace, at=at)
        expect(shown, due, trace, "all text so far", at=at)


def gives(lab, ids, texts, reason=None, table=(), window=False, **options):
    """The first ids return these texts; if there is a reason, the last of them ends the text."""
    trace = lab.stream(new(lab, table, **options), ids, feed="process", end="")
    wanted = [StopOutput(text) for text in texts]
    if reason is not None:
        wanted[-1] = StopOutput(texts[-1], True, reason)
        wanted += [StopOutput("", True, reason)] * (len(ids) - len(texts))
    if window:
        wanted.append(StopOutput(""))
        compare_shown(trace, trace.outputs, wanted, longest_held(**options), clear=True)
    else:
        compare(trace, trace.outputs, wanted)


def shows(lab, ids, texts, reason=None, table=(), **options):
    """As `gives`, but the code may hold the longest stop, less one character."""
    gives(lab, ids, texts, reason, table, window=True, **options)


def letters(lab, alphabet, least, most):
    """Draw a word of these letters, with a length between `least` and `most`."""
    return "".join(lab.random.choices(alphabet, k=lab.random.randint(least, most)))


def plain(lab):
    """Draw text that begins no stop."""
    return letters(lab, PLAIN + WIDE, 1, 7)


def a_stop(lab, alphabet="WXYZ"):
    """Draw a stop string in which no letter comes twice."""
    return "".join(lab.random.sample(alphabet, k=lab.random.randint(2, len(alphabet))))


def alike(kind):
    """Yield each short stop, hidden or visible, of characters that only look alike, in a text with
    all pairs of them.
    """
    for alphabet in ALIKE:
        pairs = [*map("".join, itertools.product(alphabet, repeat=2))]
        text = "".join(pairs).encode()
        for stop in (*pairs, *alphabet):
            yield {"ids": [256], "table": [text], kind: [stop]}


def start_of(lab, stop):
    """Draw a proper, non-empty prefix of a stop."""
    return stop[: lab.random.randint(1, len(stop) - 1)]


def half(lab):
    """Draw the first bytes of a character."""
    return start_of(lab, lab.random.choice(WIDE).encode())


def tokens(lab, data, first=256):
    """Draw a way to spell these bytes in tokens: (ids, table); `first` is the id of the first new
    piece.
    """
    ids, table, place = [], [], 0
    while place < len(data):
        piece = data[place : place + lab.random.choice([1, 1, 2, 3, 5])]
        place += len(piece)
        ids.append(piece[0] if len(piece) == 1 else first + len(table))
        table += [piece] if len(piece) > 1 else []
    return ids, table


def a_case(lab, *texts, **options):
    """Draw tokens for a text; an int among the parts is an id."""
    case = {"ids": [], "table": [], **options}
    for part in texts:
        if isinstance(part, int):
            case["ids"].append(part)
            continue
        data = part.encode() if isinstance(part, str) else part
        ids, table = tokens(lab, data, 256 + len(case["table"]))
        case["ids"] += ids
        case["table"] += table
    return case


def an_end(lab):
    """Draw the id of a stop token without text."""
    return lab.random.choice([EOS, lab.random.randint(10**4, 10**9)])


def drawn(make, count=10):
    """Draw `count` cases."""
    return [make() for _ in range(count)]


@pytest.mark.given
def test_naive_end_loses_what_waits(lab):
    """A loop that breaks at a stop token loses held text: possible stops, and half a character."""
    detokenizer, shown, held = lab.given.Pieces([b"the E"]), "", ""
    for token_id in [256, *b"N\xf0\x9f", EOS]:
        if token_id == EOS:
            break
        text = held + detokenizer.feed(token_id)
        held = waits(text, ["END"], [], 0)
        shown += text[: len(text) - len(held)]
    assert (shown, held, detokenizer.held) == ("the ", "EN", b"\xf0\x9f")


@pytest.mark.given
def test_naive_look_at_a_burst(lab):
    """If a burst is decoded as one text, a look at the end of the text misses a stop within it."""
    text = "".join(map(lab.given.Pieces([b"the E", b"ND of"]).feed, [256, 257, 33]))
    assert text == "the END of!"
    assert not text.endswith("END")


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_text_passes_at_once(lab):
    """Without stops the text of each token is emitted at once, half a character with the token
    that completes it; `stopped` is False and `reason` is None.
    """
    gives(lab, [256, *"é".encode(), 257, EOS, 33], ["Hi, ", "", "é", "a", "", "!"],
          table=[b"Hi, ", b"a"])  # fmt: skip
    check(partial(follows, lab), drawn(lambda: a_case(lab, plain(lab), EOS, plain(lab))))


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_hidden_stop_token(lab):
    """A hidden stop token ends the text: its own text is not shown, and the reason is its id. Ids
    in neither list end nothing. The ids may be an iterator.
    """
    gives(lab, [*b"Hi", EOS], ["H", "i", ""], EOS, stop_token_ids=[EOS, 7])
    gives(lab, [*b"Hi!"], ["H", "i", ""], 33, stop_token_ids=[33])
    gives(lab, [256, 257, EOS, 33], ["so", "", "", "!"], table=[b"so"], stop_token_ids=[999])
    gives(lab, [*b"Hi!"], ["H", "i", ""], 33, stop_token_ids=lab.new("given.iterator", 33))

    def case():
        end = lab.random.choice([33, an_end(lab)])
        others = [[end], [end, 9999], [8888, end]]
        return a_case(lab, plain(lab), end, stop_token_ids=lab.random.choice(others))

    check(partial(follows, lab), drawn(case))


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_visible_stop_token(lab):
    """A visible stop token also ends the text, and its own text is shown. The ids may be an
    iterator.
    """
    gives(lab, [*b"Hi", 256], ["H", "i", "</s>"], 256, [b"</s>"], visible_stop_token_ids=[256])
    gives(lab, [*b"\xf0\x9f", 256], ["", "", "🚀."], 256, [b"\x9a\x80."],
          visible_stop_token_ids=[256])  # fmt: skip
    gives(lab, [*b"a!"], ["a", "!"], 33, visible_stop_token_ids=lab.new("given.iterator", 33))

    def case():
        text = plain(lab)
        kind = lab.random.choice(["stop_token_ids", "visible_stop_token_ids"])
        return a_case(lab, text, 33, **{kind: [33]})

    check(partial(follows, lab), drawn(case))


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_cut_character_at_a_stop_token(lab):
    """If a stop token ends the stream inside a character, the cut-off character becomes one U+FFFD.
    A visible stop token is fed before that.
    """
    gives(lab, [*b"ok\xf0\x9f", EOS], ["o", "k", "", "", "\ufffd"], EOS, stop_token_ids=[EOS])
    gives(lab, [*b"ok", 256], ["o", "k", "!\ufffd"], 256, [b"!\xe4\xbd"],
          visible_stop_token_ids=[256])  # fmt: skip

    def case():
        end, kind = an_end(lab), lab.random.choice(["stop_token_ids", "visible_stop_token_ids"])
        return a_case(lab, plain(lab), half(lab), end, **{kind: [end]})

    check(partial(follows, lab), drawn(case))


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_hidden_beats_visible_token(lab):
    """An id in both lists, hidden and visible, is hidden."""
    gives(lab, [*b"Hi!"], ["H", "i", ""], 33, stop_token_ids=[33], visible_stop_token_ids=[33])

    def case():
        both = [lab.random.randint(33, 38), lab.random.randint(33, 38)]
        end = lab.random.choice(both)
        return a_case(lab, plain(lab), end, stop_token_ids=[end], visible_stop_token_ids=both)

    check(partial(follows, lab), drawn(case))


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_nothing_after_the_end(lab):
    """After the end each token returns StopOutput("", True, reason). The reason is that of the
    first end, even if it is id 0.
    """
    gives(lab, [72, 0, 72, EOS, 0], ["H", ""], 0, stop_token_ids=[0, EOS])

    def case():
        ends = [lab.random.choice([0, an_end(lab)]), an_end(lab)]
        later = [plain(lab), half(lab), ends[1], plain(lab), ends[0]]
        kind = lab.random.choice(["stop_token_ids", "visible_stop_token_ids"])
        return a_case(lab, plain(lab), ends[0], *later, **{kind: ends})

    check(partial(follows, lab), drawn(case))


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_stop_string_over_tokens(lab):
    """A hidden stop string ends the text, however tokens cut it. No part of the string is shown and
    nothing after it; all text before it in the same token is shown. The reason is the string. Stops
    are compared character by character: upper and lower case, é as one character or two, kinds of
    spaces, digits and line endings are all different, and no space is stripped. Here text may be
    held longer, up to the longest stop less one character.
    """
    shows(lab, [256, 78, 257, 33], ["the ", "", ""], "END", [b"the E", b"D of it"], stops=["END"])
    shows(lab, [256, 33], ["ab"], "#", [b"ab#cd"], stops=["#", "END"])
    shows(lab, [*b"aaab"], ["", "", "a", ""], "aab", stops=["aab"])
    shows(lab, [256, 0x97, 257], ["a", "", ""], "×。", [b"a\xc3", b"\xe3\x80\x82b"], stops=["×。"])

    def case():
        stop = a_stop(lab)
        return a_case(lab, plain(lab), stop, plain(lab), stops=[stop, "##"])

    check(
        partial(follows, lab, window=True),
        [*drawn(case, 16), *alike("stops")],
    )


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_false_alarm_is_released_at_once(lab):
    """Text is held only while it may become a hidden stop. The token that rules the stop out
    releases the text, except a suffix that may begin another stop.
    """
    gives(lab, [256, 78, 33], ["the ", "", "EN!"], None, [b"the E"], stops=["END"])
    gives(lab, [*b"EENEx"], ["", "E", "", "EN", "Ex"], stops=["END"])

    def case():
        stop = a_stop(lab)
        starts = [part for _ in range(3) for part in (start_of(lab, stop), plain(lab))]
        return a_case(lab, plain(lab), *starts, stops=[stop, "##"])

    check(partial(follows, lab), drawn(case, 16))


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_visible_stop_string(lab):
    """A visible stop string ends the text, wherever tokens cut it. The text is shown through the
    stop's last character and no further; nothing is held for a visible stop. Visible stops are
    compared character by character, like hidden stops.
    """
    gives(lab, [256, 78, 257, 33], ["the E", "N", "D"], "END", [b"the E", b"D of it"],
          visible_stops=["END"])  # fmt: skip
    gives(lab, [*b"aaab!"], [*"aaab"], "aab", visible_stops=["aab"])
    gives(lab, [*b"EN#N."], ["", "", "EN#", "N", "."], "N.", stops=["END"], visible_stops=["N."])

    def case():
        hidden, shown = a_stop(lab, "WX"), a_stop(lab, "YZ")
        parts = [start_of(lab, hidden), plain(lab), start_of(lab, shown), plain(lab)]
        lab.random.shuffle(parts)
        return a_case(lab, *parts, shown, plain(lab), stops=[hidden], visible_stops=[shown])

    check(partial(follows, lab), [*drawn(case, 16), *alike("visible_stops")])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_stop_that_ends_first_wins(lab):
    """If a text has several stops, the string that ends first wins; if several end together, the
    longest wins, hidden or visible. The order of the lists does not matter, and the lists are not
    changed. Here text may be held longer, up to the longest stop less one character.
    """
    for stops in itertools.permutations(["a", "is", ","]):
        shows(lab, [256], [" The user "], "is", [b" The user is a, b"], stops=stops)
    for stops in itertools.permutations(["b", "ab", "xab"]):
        shows(lab, [256, 257], ["y", ""], "xab", [b"yx", b"ab"], stops=stops)
    for ids, texts in ([256], ["x"]), ([*b"xabcd"], ["x", "", ""]):
        shows(lab, ids, texts, "ab", [b"xabcd"], stops=["abcd", "ab"], visible_stops=["bc"])
    shows(lab, [*b"xab"], [*"xab"], "xab", visible_stops=["xab", "b"])
    shows(lab, [256], ["xab"], "xab", [b"xabc"], stops=["ab"], visible_stops=["xab"])

    def case():
        size = lab.random.randint(1, 3)
        stops = [*{letters(lab, "XYZ", size, 3): None for _ in range(3)}]
        text = plain(lab) + letters(lab, "XYZb", 3, 7) + lab.random.choice(stops)
        hidden = lab.random.randint(0, 3)
        return a_case(lab, text, stops=stops[:hidden], visible_stops=stops[hidden:])

    check(partial(follows, lab, window=True), drawn(case, 20))
    lists = {"stops": ["END", "a", "aEN"], "visible_stops": ["#", "aE", "#"]}
    lists |= {"stop_token_ids": [7, EOS, 7], "visible_stop_token_ids": [9, 8]}
    expect_untouched(lab.stream(new(lab, **lists), b"aE#", feed="process", end=""))


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_hidden_beats_visible_string(lab):
    """A string in both lists, hidden and visible, is hidden. Instead of a list, a bare str raises a
    ValueError; so does a list with an empty stop. Here text may be held longer, up to the longest
    stop less one character.
    """
    both = {"stops": ["END"], "visible_stops": ["#", "END"]}
    shows(lab, [*b"aEND"], ["a", "", "", ""], "END", **both)

    def case():
        stop = a_stop(lab)
        return a_case(lab, plain(lab), stop, stops=[stop, "##"], visible_stops=["%", stop])

    check(partial(follows, lab, window=True), drawn(case))
    for stops in "END", "", ["END", ""]:
        for kind in "stops", "visible_stops":
            lab.rejects(lab.new(DECODER, lab.new("given.Pieces", []), **{kind: stops}))


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_token_stops_come_before_strings(lab):
    """A stop token is checked before strings, so its id is the reason. It releases the held text,
    followed by U+FFFD for a cut-off character, all through the stop strings: if a hidden string
    completes only now, no part of it is shown. Here text may be held longer, up to the longest
    stop less one character.
    """
    shows(lab, [*b"aEN", EOS], ["a", "", "", "EN"], EOS, stops=["END"], stop_token_ids=[EOS])
    shows(lab, [*b"aEN", 68], ["a", "", "", "EN"], 68, stops=["END"], stop_token_ids=[68])
    shows(lab, [*b"aEN\xe4", EOS], ["a", "", "", "", "EN\ufffd"], EOS, stops=["END"],
          stop_token_ids=[EOS])  # fmt: skip
    shows(lab, [*b"aE\xe4", EOS], ["a", "", "", ""], EOS, stops=["E\ufffd"], stop_token_ids=[EOS])
    shows(lab, [*b"aE", 256], ["a", "", ""], 256, [b"ND of it"], stops=["END"],
          visible_stop_token_ids=[256])  # fmt: skip
    shows(lab, [*b"aE", 256], ["a", "E", "ND"], 256, [b"ND of it"], visible_stops=["END"],
          visible_stop_token_ids=[256])  # fmt: skip

    def case():
        end, stop = lab.random.choice([33, EOS, 256]), a_stop(lab)
        kind = lab.random.choice(["stop_token_ids", "visible_stop_token_ids"])
        stops = lab.random.choice(["stops", "visible_stops"])
        cut = lab.random.choice([b"", half(lab)])
        ends = {kind: [end], stops: [stop, stop[:1] + "\ufffd", "##"]}
        return a_case(lab, plain(lab), start_of(lab, stop), cut, end, **ends)

    check(partial(follows, lab, window=True), drawn(case, 24))


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_held_shows_what_waits(lab):
    """`held` is the text that is held because it may become a hidden stop, "" after an end. Bytes
    that the detokenizer holds are not part of it.
    """
    options = {"stops": ["END"], "visible_stops": ["##"], "stop_token_ids": [EOS]}
    for ids, held in (
        ([*b"aEEN#\xc3E", EOS], ["", "E", "E", "EN", "", "", "E", ""]),
        ([*b"aENDE"], ["", "E", "EN", "", ""]),
        ([*b"E", 256, 69], ["E", "", ""]),
        ([*b"#", 257, 69], ["", "", ""]),
    ):
        decoder = new(lab, [b"ND\xc3", b"#E\xc3"], **options)
        trace = lab.stream(decoder, ids, feed="process", end="")
        expect(trace.held, held, trace, "held")

    def rule(case):
        if not is_case(**case):
            return
        trace = lab.stream(new(lab, **case), case["ids"], feed="process", end="")
        data = itertools.accumulate(text_of(i, case["table"]) for i in case["ids"])
        held = [
            "" if output.stopped else waits(decided(so_far), case["stops"], (), 0)
            for output, so_far in zip(reference(**case), data, strict=False)
        ]
        expect(trace.held, held, trace, "held")

    def case():
        stops = [a_stop(lab, "WX"), a_stop(lab, "YZ")]
        parts = [part for stop in stops for part in (start_of(lab, stop), plain(lab))]
        end = lab.random.choice([start_of(lab, stops[0]), stops[0], EOS])
        parts += [start_of(lab, stops[1]), end, half(lab)]
        return a_case(lab, *parts, stops=stops, stop_token_ids=[EOS])

    check(rule, drawn(case, 16))


def tangled(lab, count=9, alphabet="abc"):
    """Draw stops of few letters, and a text made of their prefixes."""
    sizes = lab.random.choices([1, 2, 2, 3, 3, 4], k=lab.random.randint(1, 4))
    stops = [letters(lab, alphabet, size, size) for size in sizes]
    parts = [lab.random.choice([*stops, alphabet]) for _ in range(count)]
    return stops, "".join(part[: lab.random.randint(1, 3)] for part in parts)[:count]


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_property_holds_the_least(lab):
    """eager: each token shows all text that can no longer belong to a hidden stop, for stops of few
    letters that overlap themselves and each other. Nothing is held for a hidden stop if another
    stop, hidden or visible, ends inside it before its last character.
    """
    for ids, texts, options in (
        (b"ab", ["a", "b"], {"stops": ["abcd"], "visible_stops": ["bc"]}),
        (b"ax", ["a", "x"], {"stops": ["abcd"], "visible_stops": ["ab"]}),
        (b"abx", ["a", "", "bx"], {"stops": ["abcd", "bc"]}),
    ):
        gives(lab, [*ids], texts, **options)
    overlap = {"table": ["你é".encode()], "stops": ["你é🚀", "éa"]}
    gives(lab, [256, 97], ["", "你"], "éa", **overlap)

    def case():
        stops, text = tangled(lab, alphabet=lab.random.choice(["abc", "abc", "aé你"]))
        hidden = lab.random.choice([len(stops), lab.random.randint(0, len(stops))])
        return a_case(lab, text, stops=stops[:hidden], visible_stops=stops[hidden:])

    check(partial(follows, lab), drawn(case, 120))


def burst_outputs(case, sizes):
    """The contract for bursts of these sizes."""
    outputs, wanted, after = reference(**case)[:-1], [], None
    for size in sizes:
        own, outputs = outputs[:size], outputs[size:]
        last = next((n for n, output in enumerate(own, start=1) if output.stopped), len(own))
        wanted.append((own[:last], last) if after is None else ([after], 0))
        if after is None and last and own[last - 1].stopped:
            after = StopOutput("", True, own[last - 1].reason)
    return wanted


def bursts(lab, pair, window=False):
    """Bursts return the outputs of their tokens, up to the token that ends the text."""
    case, sizes = pair
    if not is_case(**case):
        return
    places = itertools.pairwise(itertools.accumulate(sizes, initial=0))
    calls = [("process_many", case["ids"][first:last]) for first, last in places]
    trace = lab.script(new(lab, **case), calls)
    wanted = burst_outputs(case, sizes)
    shapes = all(type(one) is tuple and [*map(type, one)] == [list, int] for one in trace.outputs)
    if (is_clear(**case) and not window) or not shapes:
        compare(trace, trace.outputs, wanted)
        return
    counts, wanted_counts = (
        [(len(outputs), taken) for outputs, taken in some] for some in (trace.outputs, wanted)
    )
    expect(counts, wanted_counts, trace, "the number of outputs and of tokens, for each burst")
    outputs = [output for some, _ in trace.outputs for output in some]
    fits(trace, outputs, case, window)


def sizes_for(lab, case):
    """Draw sizes of bursts that take all ids of a case; some bursts may be empty."""
    return [*lab.random.choices([0, 1, 2, 3, 5, 8], k=lab.random.randint(0, 4)), len(case["ids"])]


def any_case(lab):
    """Draw a case with stops of all kinds, and a minimum of tokens or none."""
    stops, text = tangled(lab, 7)
    stops += lab.random.choice([[], ["c\ufffd"]])
    hidden = lab.random.choice([len(stops), lab.random.randint(0, len(stops))])
    parts = [text, lab.random.choice([b"", half(lab)]), lab.random.choice([EOS, 33, "b"])]
    lab.random.shuffle(parts)
    ends = lab.random.sample([EOS, 33, 256, 99], k=3)
    options = {"stops": stops[:hidden], "visible_stops": stops[hidden:]}
    options["stop_token_ids"] = ends[: lab.random.randint(0, 2)]
    options["visible_stop_token_ids"] = ends[lab.random.randint(1, 3) :]
    options["min_tokens"] = lab.random.choice([0, 0, 1, 2, 4])
    return a_case(lab, *parts, text[:4], **options)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_burst_ends_at_the_stop(lab):
    """A burst returns an output for each token up to the one that ends the text, by its id or by a
    string, and the number of these tokens. Later tokens of the burst are not taken, and no id after
    the one that ends the text is taken from an iterator. A returned list belongs to the caller:
    later bursts do not change it, and its changes have no effect on later bursts. Here text may be
    held longer, up to the longest stop less one character.
    """
    options = {"table": [b"the E", b"ND of"], "stops": ["END"], "stop_token_ids": [EOS]}
    for ids, sizes in ([256, 257, 33, EOS], [4]), ([*b"abE", EOS, 33], [1, 4]):
        bursts(lab, ({"ids": ids, **options}, sizes), window=True)
    decoder = new(lab, [b"the ", b"a#b"], visible_stops=["#"])
    caller, first = lab.new("given.Caller", decoder), ([StopOutput("the ")], 1)
    last = ([StopOutput("a#", True, "#")], 1)
    ids = ("take_from", 256), ("take_from", 257, 33, EOS), ("take_from", 33)
    after = ([StopOutput("", True, "#")], 0)
    trace = lab.script(caller, [*ids, "results"], watch="")
    expect(trace.outputs[:3], [[], [33, EOS], [33]], trace, "the ids that are left")
    expect(trace.outputs[3], [first, last, after], trace, "all results")
    calls, changed = [], []
    some = [(("take",), ([], 0))] * 2 + [(("take_from",), ([], 0))] * 2
    some += [
        (ids[0], first),
        (ids[1], last),
        (ids[2], after),
        (("take", 33), after),
        (ids[2], after),
    ]
    for call, (outputs, taken) in some:
        calls += [call, ("append", 7)]
        changed = [([*own, 7], count) for own, count in [*changed, (outputs, taken)]]
    trace = lab.script(caller, [*calls, "results"], watch="")
    expect(trace.outputs[-1], changed, trace, "all results")

    def case():
        stop, end = a_stop(lab), an_end(lab)
        parts = [plain(lab), start_of(lab, stop), plain(lab), lab.random.choice([stop, end])]
        case = a_case(lab, *parts, plain(lab), stops=[stop], stop_token_ids=[end])
        return case, sizes_for(lab, case)

    check(partial(bursts, lab, window=True), drawn(case, 16))


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_burst_after_the_end(lab):
    """After the end a burst returns one StopOutput("", True, reason) and takes no token, also none
    from an iterator; before the end, an empty burst returns no output.
    """
    decoder = new(lab, visible_stops=["#"], stop_token_ids=[EOS])
    trace = lab.script(
        decoder, [("process_many", ids) for ids in ([], [*b"a#b"], [*b"c", EOS], [])]
    )
    after = ([StopOutput("", True, "#")], 0)
    ended = ([StopOutput("a"), StopOutput("#", True, "#")], 2)
    compare(trace, trace.outputs, [([], 0), ended, after, after])
    calls = [("take_from", *b"a#b"), ("take_from", *b"c#", EOS), "results"]
    trace = lab.script(lab.new("given.Caller", decoder), calls, watch="")
    expect(trace.outputs, [[98], [*b"c#", EOS], [ended, after]], trace)

    def case():
        end = an_end(lab)
        case = a_case(lab, plain(lab), end, plain(lab), end, stop_token_ids=[end])
        return case, [0, case["ids"].index(end) + 1, lab.random.randint(0, 2), 1, 0]

    check(partial(bursts, lab), drawn(case))


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_min_tokens_and_stop_tokens(lab):
    """Among the first `min_tokens` tokens a stop token is a token like any other: it is shown if it
    has text. The first stop token after them ends the text.
    """
    gives(lab, [*b"!a!", EOS], ["!", "a", ""], 33, stop_token_ids=[33, EOS], min_tokens=2)
    gives(lab, [EOS, *b"\xc3", EOS, 0xA9, EOS], ["", "", "", "é", ""], EOS, stop_token_ids=[EOS],
          min_tokens=4)  # fmt: skip
    gives(lab, [*b"!a!b"], ["!", "a", "!"], 33, visible_stop_token_ids=[33], min_tokens=1)

    def case():
        kind = lab.random.choice(["stop_token_ids", "visible_stop_token_ids"])
        end = lab.random.choice([33, an_end(lab)])
        parts = [part for _ in range(3) for part in (end, plain(lab))]
        least = lab.random.randint(1, 6)
        return a_case(lab, *parts, *[end] * 6, min_tokens=least, **{kind: [end]})

    check(partial(follows, lab), drawn(case))


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_min_tokens_and_stop_strings(lab):
    """A stop string counts if its last character is decoded with a token after the first
    `min_tokens`, even if it began earlier. A string that ends earlier is text, and is shown.
    """
    gives(lab, [*b"aEND"], ["a", "", "", ""], "END", stops=["END"], min_tokens=3)
    gives(lab, [*b"aENDEND"], ["a", "", "", "END", "", "", ""], "END", stops=["END"], min_tokens=4)
    gives(lab, [256, 257], ["#a", "b"], "#", [b"#a", b"b#c#"], stops=["#"], min_tokens=1)
    gives(lab, [0xC3, 0xA9, 33], ["", ""], "é", stops=["é"], min_tokens=1)
    gives(lab, [*b"aa"], ["a", "a"], "aa", visible_stops=["aa"], min_tokens=1)

    def case():
        kind = lab.random.choice(["stops", "visible_stops"])
        stops = [a_stop(lab, "WX"), a_stop(lab, "YZ")]
        parts = [part for _ in range(3) for part in (plain(lab), lab.random.choice(stops))]
        return a_case(lab, *parts, min_tokens=lab.random.randint(1, 12), **{kind: stops})

    check(partial(follows, lab), drawn(case, 24))


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_an_ignored_stop_may_be_in_another(lab):
    """A stop that ends too early to count does not end the longer stop around it: with
    `min_tokens`, a stop can win that contains another stop. Here text may be held longer, up to the
    longest stop less one character.
    """
    shows(lab, [256, 257], ["x", ""], "abcd", [b"xabc", b"de"], stops=["bc", "abcd"], min_tokens=1)
    for least in 3, 4:
        shows(lab, [*b"ENDED"], [""] * 5, "ENDED", stops=["END", "ENDED"], min_tokens=least)

    def case():
        inner, before, after = a_stop(lab), letters(lab, "MN", 1, 2), letters(lab, "PQ", 1, 2)
        parts = [plain(lab), before + inner, after, plain(lab)]
        ids = len(a_case(lab, *parts)["ids"])
        stops = [before + inner + after, inner]
        return a_case(lab, *parts, stops=stops, min_tokens=lab.random.randint(1, ids))

    check(partial(follows, lab, window=True), drawn(case, 24))


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_bursts(lab):
    """chunk-invariant: however tokens are cut into bursts, with stops of all kinds and with
    `min_tokens`, each token returns the same output, and the same token is the last.
    """

    def case():
        case = any_case(lab)
        return case, sizes_for(lab, case)

    check(partial(bursts, lab), drawn(case, 100))


@pytest.mark.task(3)
@pytest.mark.points(3)
@pytest.mark.timeout(3)
def test_property_linear(lab):
    """linear: a token of 100,000 characters, some 4,000 small tokens, and 40,000 in one burst
    finish within the time limit, while `min_tokens` lasts and after it; emitted text is not read
    again. Here text may be held longer, up to the longest stop less one character.
    """
    dash, size = lab.random.choice("-=~#"), lab.random.randint(2, 4)
    start = "🚀" + dash * lab.random.randint(100_000, 110_000)
    single, many = (lab.random.randint(least, least + 500) for least in (4_000, 40_000))
    stops = [dash * size + "%%>", "%" + dash * (size + 4)]
    decoder = new(lab, [start.encode()], stops=stops, min_tokens=24_000)
    calls = [("repeat", 256, 1), ("repeat", ord(dash), single)]
    calls += [("burst", ord(dash), many, *b"%%>", EOS)]
    trace = lab.script(lab.new("given.Caller", decoder), calls, watch="")
    first, second, (third, taken) = trace.outputs
    expect(taken, many + 3, trace, "taken")
    for dashes, shown in (single, first + second), (single + many, first + second + third):
        whole = start + dash * dashes
        held = len(whole) - len(shown)
        most = size + 4 if dashes == single else size
        call = f"{len(start):,} characters in a token, then {dashes:,} times {dash!r}: text shown"
        expect_long(shown, whole[: len(shown)], call)
        if not size <= held <= most:
            right = f"{size} characters held" + (f", or up to {most}" if most > size else "")
            raise Failure(right, f"{held:,}", call)


@pytest.mark.task(3)
@pytest.mark.points(2)
@pytest.mark.timeout(2)
def test_property_long_stop(lab):
    """linear: with up to 8,000 characters held for a long stop, 40,000 more tokens, half of them
    within `min_tokens`, finish within the time limit, and so do the tokens after them; no token
    tries every prefix of a stop, hidden or visible, or joins the held text again. Here text may be
    held longer, up to the longest stop less one character.
    """
    held, more = lab.random.randint(7_500, 8_000), lab.random.randint(40_000, 41_000)
    shown = "#" * (held // 2) + "a" * (held // 2)
    long = "a" * held + "b"
    options = {"stops": ["END", long], "visible_stops": [shown], "min_tokens": more // 2}
    decoder = new(lab, [b"a" * held], **options)
    other = lab.random.choice("xyz")
    parts = [(ord(other), 1), (256, 1), (97, more), (ord(other), 4_000), (256, 1), (98, 1), (97, 1)]
    calls = [("repeat", *part) for part in parts]
    trace = lab.script(lab.new("given.Caller", decoder), [*calls, "last"], watch="")
    *texts, last = trace.outputs
    whole = other + "a" * (held + more) + other * 4_000
    expect_long("".join(texts), whole, "the text before the stop")
    late = len(whole) - len("".join(texts[:4]))
    expect_most(late, held, "the text before the stop", "characters are held before it ends")
    expect(last, StopOutput("", True, long), trace, "the output after the stop")


def fed(ids):
    """The calls that process these ids."""
    return [("process", token_id) for token_id in ids]


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_flush_releases_what_waits(lab):
    """`flush` releases the held text, followed by one U+FFFD for a cut-off character; `stopped` is
    False. Here text may be held longer, up to the longest stop less one character.
    """
    fixed = [{"ids": [*ids], "stops": ["END"]} for ids in (b"aEN", b"aE\xf0\x9f", b"a")]

    def case():
        stop, cut = a_stop(lab), lab.random.choice([b"", half(lab)])
        return a_case(lab, plain(lab), start_of(lab, stop), cut, stops=[stop, "##"])

    check(partial(follows, lab, end="flush", window=True), [*fixed, *drawn(case, 16)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_flush_may_complete_a_stop(lab):
    """The U+FFFD of a cut-off character may complete a stop string. Then the text has ended there,
    and stays ended, if the last token came after the first `min_tokens`. Here text may be held
    longer, up to the longest stop less one character.
    """
    ended = StopOutput("", True, "E\ufffd")
    for least, then in (0, ended), (3, StopOutput("")):
        case = {"ids": [*b"aE\xe4"], "stops": ["E\ufffd"], "min_tokens": least}
        trace = lab.script(new(lab, **case), [*fed(case["ids"]), ("flush",), ("flush",)])
        fits(trace, trace.outputs[:-1], case, window=True)
        expect(trace.outputs[-1], then, trace, "the second flush")

    def case():
        kind, stop = lab.random.choice(["stops", "visible_stops"]), a_stop(lab) + "\ufffd"
        least = lab.random.choice([0, 0, lab.random.randint(1, 20)])
        return a_case(lab, plain(lab), stop[:-1], half(lab), min_tokens=least, **{kind: [stop]})

    check(partial(follows, lab, end="flush", window=True), drawn(case, 16))


def two_streams(lab):
    """Draw two streams; the second continues what the first left open."""
    stop, end, cut = a_stop(lab), an_end(lab), lab.random.choice([b"", half(lab)])
    start = start_of(lab, stop)
    kind = lab.random.choice(["stops", "stops", "visible_stops"])
    options = {kind: [stop, f"{start}\ufffd"], "stop_token_ids": [end]}
    options["min_tokens"] = lab.random.choice([0, 0, 1, 2, 12])
    last = lab.random.choice([start, start, stop, end])
    first = a_case(lab, plain(lab), last, cut, **options)
    whole = 256 + len(first["table"])
    first["table"].append(stop.encode())
    later = [*b"\xa9\x80"[: len(cut)], *stop.removeprefix(start).encode()]
    later = lab.random.choice([later, later, []])
    return first, {**first, "ids": [*later, whole, *stop.encode(), end]}


def token_stops_again():
    """Pairs of streams; a stop token, hidden or visible, ends the second, and perhaps the first."""
    kinds = "stop_token_ids", "visible_stop_token_ids"
    cases = [{"ids": [*b"b!"], kind: [33]} for kind in kinds]
    return [({**case, "ids": [*ids]}, case) for case in cases for ids in (b"a", b"a!")]


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_after_a_flush(lab):
    """After a flush without a stop the decoder has fresh state: the stops still count, earlier text
    does not join later text, `min_tokens` is counted from 0, and a second flush returns
    StopOutput("", False, None).
    After an end, flush returns StopOutput("", True, reason), and the text stays ended. Here text
    may be held longer, up to the longest stop less one character.
    """

    def rule(cases):
        first, then = cases
        if not is_case(**first):
            return
        size, last = len(first["ids"]), reference(**first)[-1]
        calls = [*fed(first["ids"]), ("flush",), ("flush",), *fed(then["ids"]), ("flush",)]
        trace = lab.script(new(lab, **first), calls)
        fits(trace, trace.outputs[: size + 1], first, window=True)
        expect(trace.held[size], "", trace, "held after flush", at=size)
        outputs = trace.outputs[size + 1 :]
        if last.stopped:
            ended = StopOutput("", True, last.reason)
            compare(trace, outputs, [ended] * len(outputs), size + 1)
        else:
            expect(outputs[0], StopOutput(""), trace, at=size + 1)
            fits(trace, outputs[1:], then, True, size + 2)

    options = {"table": [b"END\xc3"], "stops": ["END"], "stop_token_ids": [EOS], "min_tokens": 2}
    fixed = [
        ({"ids": ids, **options}, {"ids": [*later, *b"ENDEND"], **options})
        for ids, later in (
            ([*b"abE"], b"ND"),
            ([*b"aE\xc3"], b"\xa9"),
            ([*b"abEND"], b""),
            ([*b"ab", 256], b"\xa9"),
            ([*b"ab"], [256]),
        )
    ]
    for kind in "stops", "visible_stops":
        later = {"ids": [*b"NDx"], kind: ["END"]}
        fixed.append(({**later, "ids": [*b"aE"]}, later))
    fixed += token_stops_again()
    check(rule, [*fixed, *drawn(partial(two_streams, lab), 24)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_reset_makes_it_new(lab):
    """`reset` forgets all state, even an end, but no stop: no earlier byte and no held character
    joins later text, and `min_tokens` is counted from 0. Here text may be held longer, up to the
    longest stop less one character.
    """

    def rule(cases):
        first, then = cases
        if not is_case(**first):
            return
        size = len(first["ids"])
        calls = [*fed(first["ids"]), ("reset",), *fed(then["ids"]), ("reset",), "held"]
        trace = lab.script(new(lab, **first), calls)
        fits(trace, trace.outputs[:size], first, window=True)
        expect(trace.outputs[size], None, trace, at=size)
        fits(trace, trace.outputs[size + 1 : -2], then, True, size + 1)
        expect(trace.outputs[-1], "", trace, "held after reset")

    options = {"table": [b"END\xc3"], "stops": ["END"], "min_tokens": 2}
    fixed = [
        ({"ids": ids, **options}, {"ids": [*later, *b"ENDEND"], **options})
        for ids, later in (
            ([*b"abE"], b"ND"),
            ([*b"abEND"], b""),
            ([*b"ab", 256], b"\xa9"),
            ([*b"abEND"], [256]),
        )
    ]
    for kind in "stops", "visible_stops":
        later = {"ids": [*b"NDx"], kind: ["END"]}
        fixed.append(({**later, "ids": [*b"aE"]}, later))
    fixed += token_stops_again()
    check(rule, [*fixed, *drawn(partial(two_streams, lab), 24)])


@pytest.mark.task(4)
@pytest.mark.points(5)
def test_property_complete(lab):
    """complete: every short stream, and longer streams drawn at random, with stops of all kinds,
    ends at the same place and for the same reason as its whole text; no text before it is lost.
    Each token shows all certain text.
    """

    def cases():
        options = {"table": [b"ab", b"b\xe4"], "stops": ["ab", "b\ufffd"], "visible_stops": ["bb"]}
        for length, least in itertools.product(range(4), range(2)):
            for ids in itertools.product([97, 98, 256, 257, EOS], repeat=length):
                yield {"ids": [*ids], "stop_token_ids": [EOS], "min_tokens": least, **options}
        options = {"table": [b"ab"], "stops": ["abbaa"], "visible_stops": ["bb"], "min_tokens": 2}
        for length in range(4):
            for ids in itertools.product([97, 98, 256], repeat=length):
                yield {"ids": [*ids], **options}
        yield from drawn(lambda: any_case(lab), 100)

    check(partial(follows, lab, end="flush"), cases())


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_real_vocabularies(lab):
    """complete: however the tokens of a real vocabulary spell a text, the text before its stop is
    shown, and no part of the stop. Here text may be held longer, up to the longest stop less
    one character.
    """
    tables = {name: table_of(lab.given.reader(name)) for name in lab.given.NAMES}

    def rule(case):
        name, ids, stop = case
        table, end = tables[name], len(tables[name])
        options = {"stops": [stop], "stop_token_ids": [end]}
        decoder = lab.new(DECODER, lab.new("TokenDetokenizer", table), **options)
        trace = lab.stream(decoder, [*ids, end], feed="process")
        case = {"ids": [*ids, end], "table": dict(enumerate(table)), **options}
        fits(trace, trace.outputs, case, window=True)

    def cases():
        for name, count in itertools.product(tables, range(8)):
            stop = "\n\nUser: 🫨" if count == 0 else a_stop(lab, "abé🚀你. ")
            text = "Hello, 🫨 " + plain(lab) + lab.random.choice([stop, start_of(lab, stop)])
            yield name, lab.given.reader(name).spell(text + plain(lab), lab.random), stop

    check(rule, cases())


def table_of(reader):
    """The bytes of each id of a vocabulary; special tokens have none."""
    ids = range(len(reader.vocabulary))
    return [b"" if id in reader.special else reader.bytes_of(id) for id in ids]


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: decoders fed in turns, with equal or different stops, of tokens and of strings, and
    `min_tokens`, return what each returns alone. Here text may be held longer, up to the longest
    stop less one character.
    """

    def rule(cases):
        if not all(is_case(**case) for case in cases):
            return
        news = [new(lab, **case) for case in cases]
        ids = [case["ids"] for case in cases]
        for trace, case in zip(lab.interleave(news, ids, "flush", "process"), cases, strict=True):
            fits(trace, trace.outputs, case, window=True)

    def case():
        stop = a_stop(lab)
        texts = [start_of(lab, stop) + plain(lab), start_of(lab, stop), plain(lab) + stop]
        return [a_case(lab, text, half(lab), stops=[stop]) for text in texts]

    def minimum():
        inner, rest = a_stop(lab), letters(lab, "PQ", 2, 3)
        case = {"ids": [*(inner + rest + "b").encode()], "stops": [inner, inner + rest]}
        return [{**case, "min_tokens": least} for least in (0, len(inner), 0)]

    def ends():
        kinds = "stop_token_ids", "visible_stop_token_ids", "stop_token_ids"
        ids = lab.random.sample(range(33, 126), 3)
        return [
            {"ids": [*ids, 32, *ids], kind: [end]} for kind, end in zip(kinds, ids, strict=True)
        ]

    check(rule, [*drawn(minimum), *drawn(case), *drawn(ends, 5)])
