"""Lab 04: stop strings. Each docstring states the rule that its test pins.

A test shows its rule on a few cases in full, then checks it on cases drawn by `lab.random`.
"""

import itertools
import json
from functools import cache

import pytest

from labkit.testing import (
    Call,
    check,
    chunkings,
    expect,
    expect_in,
    expect_long,
    expect_most,
    expect_untouched,
)

STOP_SETS = [
    ["b"], ["ab"], ["aab"], ["abab"], ["a", "b"], ["ab", "b"], ["b", "ab"], ["ba", "ab"],
    ["abc", "bc"], ["abcd", "bc"], ["aba", "bab"], ["aaa", "ab"], ["cab", "abc", "b"],
    ["acb", "cc"], ["cc", "acb"], ["ab", "ab"], ["ab", "abc"], ["abcabc", "cc"],
]  # fmt: skip
# Runs that share one round trip to the code under test.
TOGETHER = 60
# The bytes by which a matcher may grow.
MOST_GROWN = 2_000
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ<>#:\n"
# Text that a program may be tempted to change on its way.
ODD = ["\r\n", "\r", "\n", "\t", " ", "\0", "\ufeff", "\u200b", "\u00a0", "\u2028", "e\u0301", "ﬁ",
       "Ａ"]  # fmt: skip
# Pairs of texts that look alike, or that some form makes equal.
ALIKE = [
    ("é", "e\u0301"), ("ﬁ", "fi"), ("Ａ", "A"), ("ß", "ss"), ("①", "1"), ("\r\n", "\n"),
    ("\u00a0", " "), ("\t", " "), ("E\0D", "ED"), ("E\u200bD", "ED"), ("E\ufeffD", "ED"),
    ("E\u00adD", "ED"), ("\ud83d", "\ufffd"),
]  # fmt: skip


def reference(stops, text):
    """The contract on whole text, by definition: (the emitted text, the stop that won or None)."""
    ends = [(text.index(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not ends:
        return text, None
    end, _, winner = min(ends)
    return text[: end - len(winner)], winner


@cache
def beginnings(stops):
    """The proper prefixes of the stops that can win, and the empty text."""
    winnable = [stop for stop in stops if not any(other in stop[:-1] for other in stops)]
    return {""}.union(*({stop[:n] for n in range(len(stop))} for stop in winnable))


def must_hold(stops, text):
    """The longest suffix of a text without a match that begins a stop which can still win."""
    return next(text[start:] for start in range(len(text) + 1) if text[start:] in beginnings(stops))


@cache
def so_far(stops, text, include=False):
    """The contract after some of the text: (the emitted text, the held text, the winner)."""
    shown, winner = reference(stops, text)
    if winner is not None:
        return shown + winner * include, "", winner
    held = "" if include else must_hold(stops, text)
    return shown[: len(shown) - len(held)], held, None


def shown_by(stops, pieces, include=False):
    """The contract for each piece: all text that cannot be part of a stop any more, no other."""
    texts = itertools.accumulate(pieces, initial="")
    by_now = [so_far(tuple(stops), text, include)[0] for text in texts]
    return [after[len(before) :] for before, after in itertools.pairwise(by_now)]


def feed(lab, stops, pieces):
    """Feed the pieces and leave the stream open."""
    return lab.stream(lab.new("StopStringMatcher", stops), pieces, end="")


def match(lab, stops, pieces):
    """Feed the pieces and read `matched`."""
    calls = [*(("feed", piece) for piece in pieces), "matched"]
    return lab.script(lab.new("StopStringMatcher", stops), calls)


def streams(lab, case, ended=False):
    """The run of (stops, pieces) in which no stop completes, or in which a stop does."""
    stops, pieces = case
    if "" in stops or (so_far(tuple(stops), "".join(pieces))[2] is not None) is not ended:
        return None
    calls = [Call("feed", (piece,)) for piece in pieces]
    return lab.new("StopStringMatcher", stops), calls, shown_by(stops, pieces)


def ends(lab, case):
    """The run of (stops, pieces) in which a stop completes, and `matched` is read."""
    stops, pieces = case
    winner = None if "" in stops else so_far(tuple(stops), "".join(pieces))[2]
    if winner is None:
        return None
    calls = [*(Call("feed", (piece,)) for piece in pieces), Call("matched", None)]
    return lab.new("StopStringMatcher", stops), calls, [*shown_by(stops, pieces), winner]


def ends_and_holds(lab, case):
    """The run of `ends` after which `held` is read."""
    run = ends(lab, case)
    return run and (run[0], [*run[1], Call("held", None)], [*run[2], ""])


def ended(lab, case):
    """The run of `streams` in which a stop completes."""
    return streams(lab, case, ended=True)


def flushes(lab, case, reads=()):
    """The run of (stops, texts in pieces, include_stop), with a flush after each text."""
    stops, texts, include = case
    if "" in stops:
        return None
    calls, expected, over = [], [], None
    for pieces in texts:
        calls += [Call("feed", (piece,)) for piece in pieces]
        calls += [*(Call(name, None) for name in reads), Call("flush")]
        shown, held = ["" for _ in pieces], ""
        if over is None:
            shown = shown_by(stops, pieces, include)
            _, held, over = so_far(tuple(stops), "".join(pieces), include)
        expected += [*shown, *(over for _ in reads), held]
    return lab.new("StopStringMatcher", stops, include_stop=include), calls, expected


def flushes_and_reads(lab, case):
    """The run of `flushes` in which `matched` is read before each flush."""
    return flushes(lab, case, reads=["matched"])


def check_runs(lab, run_of, cases):
    """Check the run of each case: (object, calls, expected results), or None for no run.

    Many runs share a round trip. If any of them is wrong, each is carried out again alone, so the
    report is of the first case that fails alone.
    """

    def rule(case):
        run = run_of(lab, case)
        if run is not None:
            new, calls, expected = run
            trace = lab.script(new, calls)
            expect(trace.outputs, expected, trace)

    cases = [*cases]
    for start in range(0, len(cases), TOGETHER):
        some = cases[start : start + TOGETHER]
        if not all_right(lab, [run for case in some if (run := run_of(lab, case)) is not None]):
            check(rule, some)


def all_right(lab, runs):
    """Whether all runs give the expected results, one after the other in one round trip."""
    calls = [call._replace(object=n) for n, (_, calls, _) in enumerate(runs) for call in calls]
    try:
        trace = lab.script([new for new, _, _ in runs], calls)
    except AssertionError:
        return False
    return trace.outputs == [result for _, _, expected in runs for result in expected]


def expect_keeps_no_text(lab, new, rounds):
    """Weigh the matcher after each round of calls: it must be as light as after the first round.

    `rounds` has the calls of each round, by their name in the report.
    """
    weigh = Call("weight", None, object=1)
    calls = [call for some in rounds.values() for call in (*some, weigh)]
    trace = lab.script([new, lab.new("given.Scale", new)], calls, "")
    first, *weights = [step.result for step in trace.steps if step.call.name == "weight"]
    for fed, weight in zip([*rounds][1:], weights, strict=True):
        expect_most(weight - first, MOST_GROWN, fed, "bytes more in the matcher")


def rounds_of_text(stop):
    """Text in small pieces and in long pieces, up to the stop and after it."""
    some = [("feed", char) for char in "Hello, aaa"]
    text = "Hello, aaa" * 2_000
    long = [("feed", text)]
    return {
        "ten pieces of one character": some,
        "3,000 pieces of one character": some * 300,
        f"a piece of {len(text):,} characters": long,
        f"a piece of {2 * len(text):,} characters with a stop": [("feed", text + stop + text)],
        "3,000 pieces of one character and a long piece after the stop": [*some * 300, *long],
    }


def words(lab, count, letters=CAPITALS):
    """Draw stops: no letter is in two of them, nor in one twice."""
    drawn = lab.random.sample(letters, k=5 * count)
    sizes = [lab.random.randint(2, 5) for _ in range(count)]
    return ["".join(drawn[5 * n :][:size]) for n, size in enumerate(sizes)]


def start_of(lab, word):
    """Draw a beginning of the word, which is never all of it."""
    return word[: lab.random.randint(1, len(word) - 1)]


def plain(lab):
    """Draw text with no letter of `words`; no space is at its beginning or its end."""
    return "".join(lab.random.choices("abc, é", k=lab.random.randint(1, 9))).strip() or "é"


def unended(stops, text):
    """Return the text up to just before the end of the first stop that completes."""
    shown, winner = reference(stops, text)
    return text if winner is None else (shown + winner)[:-1]


def tangled(lab, stops):
    """Draw text in which one beginning of a stop follows the other."""
    parts = [lab.random.choice([*stops, "abc"]) for _ in range(9)]
    return "".join(part[: lab.random.randint(1, 4)] for part in parts)[:9]


def drawn_sets(lab):
    """Draw sets of stops like those of `STOP_SETS`."""
    for _ in range(12):
        sizes = lab.random.choices([1, 2, 3, 3, 4, 5], k=lab.random.randint(1, 4))
        yield ["".join(lab.random.choices("abc", k=size)) for size in sizes]


def continues_a_shorter_start(lab, third):
    """Draw the beginning of a stop and its next character. The beginning ends with at least two
    beginnings of itself, and the character continues neither of the longest two; if `third`, it
    continues the third.
    """
    while True:
        start = "".join(lab.random.choices("aab", k=lab.random.randint(4, 9)))
        sizes = [size for size in range(len(start) - 1, 0, -1) if start.endswith(start[:size])]
        nexts = "".join(start[size] for size in sizes[:3])
        char = lab.random.choice("ab")
        if len(nexts) > 1 and char not in nexts[:2] and (not third or nexts[2:] == char):
            return start, char


def cut(lab, text):
    """Draw pieces that make up the text, none of them empty."""
    places = {lab.random.randint(1, max(1, len(text) - 1)) for _ in range(lab.random.randint(0, 5))}
    pieces = [text[a:b] for a, b in itertools.pairwise([0, *sorted(places), len(text)])]
    return [piece for piece in pieces if piece]


@pytest.mark.given
def test_naive_check_leaks_the_stop():
    """Looking for the stop in each piece alone emits both halves of a stop that was cut in two."""
    shown = [piece for piece in ("the E", "ND, and more") if "END" not in piece]
    assert "".join(shown) == "the END, and more"


@pytest.mark.given
def test_naive_fixed_window_holds_plain_text():
    """Always holding the length of the longest stop minus one delays text that begins no stop."""
    text, window = "Hello, world", len("Observation:") - 1
    assert text[: len(text) - window] == "H"


@pytest.mark.task(1)
@pytest.mark.points(7)
def test_possible_stop_is_held(lab):
    """A stop may be cut in two: the text that may be its beginning is held, and no other text. In
    "the EN" only "EN" is held, since the next piece may begin with "D".
    """
    trace = feed(lab, ["END"], ["the EN", "", "GIN!"])
    expect(trace.outputs, ["the ", "", "ENGIN!"], trace)

    def case():
        stops = words(lab, 1)
        held = start_of(lab, stops[0])
        return stops, [*cut(lab, plain(lab) + held), "", plain(lab)]

    check_runs(lab, streams, [case() for _ in range(12)])


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_plain_text_streams_at_once(lab):
    """Text that cannot begin the stop is emitted at once, piece by piece, and unchanged: no space,
    line ending or invisible character is lost or replaced.
    """
    for stops in (["END"], ("END",)):
        trace = feed(lab, stops, ["Hello", ", ", "world", "E"])
        expect(trace.outputs, ["Hello", ", ", "world", ""], trace)
    for odd in ODD:
        trace = feed(lab, ["END"], [odd, f"a{odd}b", odd])
        expect(trace.outputs, [odd, f"a{odd}b", odd], trace)

    def case():
        stops = words(lab, 1)
        odd = "".join(lab.random.choices([*ODD, "a"], k=5)).replace(
            "\n" * (stops[0][0] == "\n"), ""
        )
        return stops, [*cut(lab, plain(lab)), plain(lab), odd, plain(lab), stops[0][0]]

    check_runs(lab, streams, [case() for _ in range(12)])


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_false_alarm_is_released_at_once(lab):
    """The character that rules out a possible stop releases the held text, in the same call."""
    trace = feed(lab, ["###"], ["#", "#", "c", "#", "# #d## e#"])
    expect(trace.outputs, ["", "", "##c", "", "## #d## e"], trace)

    def case():
        stops = words(lab, 1)
        alarms = [start_of(lab, stops[0]) for _ in range(4)]
        return stops, [piece for alarm in alarms for piece in (alarm, plain(lab)[0])]

    check_runs(lab, streams, [case() for _ in range(12)])


@pytest.mark.task(1)
@pytest.mark.points(8)
def test_overlapping_starts(lab):
    """A false start may contain the next start: with "aab", "aaa" emits one "a" and holds "aa"."""
    trace = feed(lab, ["aab"], ["a", "a", "a", "a", "c"])
    expect(trace.outputs, ["", "", "a", "a", "aac"], trace)
    trace = feed(lab, ["abcabd"], ["abcab", "c", "abx"])
    expect(trace.outputs, ["", "abc", "abcabx"], trace)

    def cases():
        for stop in ("aab", "abab", "aaa", "abcab", "aabaa"):
            for _ in range(6):
                yield [stop], [*unended([stop], tangled(lab, [stop]))]
        for number in range(12):
            start, char = continues_a_shorter_start(lab, number % 2)
            for more in ("a", "b", "aa", "ab", "ba", "bb"):
                yield [start + char + "c"], [start, char, more]
        for _ in range(12):
            start = "".join(lab.random.choices("ab", k=lab.random.randint(1, 4)))
            stop = start * lab.random.randint(2, 3) + "c"
            text = start * lab.random.randint(4, 6) + lab.random.choice("ab!")
            yield [stop], cut(lab, text)

    check_runs(lab, streams, cases())


@pytest.mark.task(1)
@pytest.mark.points(5)
def test_held_shows_what_waits(lab):
    """`held` is exactly the held text, and "" if no text is held."""
    trace = feed(lab, ["abc"], ["xa", "b", "", "d", "ab", "x"])
    expect(trace.held, ["a", "ab", "ab", "", "ab", ""], trace, "held")
    trace = feed(lab, ["aab"], ["aa", "a", "", "c"])
    expect(trace.held, ["aa", "aa", "aa", ""], trace, "held")

    def rule(case):
        stops, pieces = case
        now = [so_far(tuple(stops), text) for text in itertools.accumulate(pieces)]
        if "" not in stops and all(winner is None for _, _, winner in now):
            trace = feed(lab, stops, pieces)
            expect(trace.held, [held for _, held, _ in now], trace, "held")

    def case():
        stops = words(lab, 1)
        parts = [plain(lab) + start_of(lab, stops[0]) for _ in range(3)]
        return stops, cut(lab, "".join(parts))

    check(rule, [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_stop_across_pieces(lab):
    """A stop cut into several pieces ends the stream, and no part of it is emitted, however long
    it is.
    """
    trace = match(lab, ["DEFGHIJ"], ["abcDEF", "G", "", "HI", "J and more"])
    expect(trace.outputs, ["abc", "", "", "", "", "DEFGHIJ"], trace)
    rule = "=" * 100 + " END"
    trace = match(lab, [rule], ["abc", *rule, "d"])
    expect(trace.outputs, ["abc", *[""] * 104, "", rule], trace)

    def case():
        (stop,) = words(lab, 1)
        start = start_of(lab, stop)
        rest = cut(lab, stop[len(start) :] + plain(lab))
        return [stop], [*cut(lab, plain(lab) + start), *rest]

    check_runs(lab, ends, [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_nothing_after_a_match(lab):
    """After a match no text is emitted or held, and `matched` does not change."""
    trace = match(lab, ["END"], ["a END b E", "c END", "", "E"])
    expect(trace.outputs, ["a ", "", "", "", "END"], trace)
    expect(trace.held, [""] * 5, trace, "held")
    trace = match(lab, ["END"], ["a EN", "D b E", "c"])
    expect(trace.held[1:], [""] * 3, trace, "held from the match on")

    def case():
        (stop,) = words(lab, 1)
        later = plain(lab) + stop + plain(lab) + start_of(lab, stop)
        return [stop], [plain(lab) + stop + plain(lab), *cut(lab, later)]

    check_runs(lab, ends, [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_stops_in_any_script(lab):
    """Stops are made of characters, not bytes: " ×", "。" and "🚀🚀" work like any other, whichever
    character follows, even a combining one.
    """
    for stop in (" ×", "。", "🚀🚀", "\n\n", "E\n\nD", "\ufffd"):
        for after in ("z", "\u0301", "\u200d", "\ufe0f"):
            trace = match(lab, [stop], ["é" + stop[:1], stop[1:] + after, "é!"])
            expect("".join(trace.outputs[:-1]), "é", trace)

    def rule(case):
        before, stop, at, after = case
        if stop and not any(char in stop for char in before):
            trace = match(lab, [stop], [before + stop[:at], stop[at:] + after])
            expect("".join(trace.outputs[:-1]), before, trace)

    def case():
        (stop,) = words(lab, 1, "×。🚀🎉ßñжЖقअ汉字가\u0301\u200d\ufffd\u2028")
        after = lab.random.choice(["", "\u0301", "\u200d"]) + plain(lab)
        return plain(lab), stop, lab.random.randint(0, len(stop)), after

    check(rule, [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_stops_are_taken_literally(lab):
    """Character by character: no pattern, no ignored case, no trimmed space, no equivalent form,
    no ignored character; half of a surrogate pair is a character too.
    """
    rows = [("END", "end End ENd eND "), ("a.c?", "abc ac "), ("$", "US\n"), (" \n", "x\n\n"),
            ("é", "e\u0301 E\u0301"), ("\t", "    "), ("\\n", "\n")]  # fmt: skip
    pairs = [pair for alike in ALIKE for pair in itertools.permutations(alike)]
    rows += [(stop, f"{other}-") for stop, other in pairs if stop not in other]
    for stop, text in rows:
        trace = match(lab, [stop], [text, f"x{stop}z"])
        expect(trace.outputs[:-1], [text, "x"], trace)

    def case():
        (stop,) = words(lab, 1, ".?*+^$|()[]{}\\dwSB")
        place = lab.random.randrange(len(stop))
        almost = [stop[:place] + "x" + stop[place + 1 :], stop[:place] + stop[place + 1 :]]
        return [stop], [f"{stop.swapcase()[1:]} {lab.random.choice(almost)} ", f"x{stop}z"]

    check_runs(lab, ended, [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_several_stops_hold_the_longest(lab):
    """With several stops, the longest suffix that begins any of them is held, whatever their order.
    The stops may be in a list, a tuple, a set or another collection, such as the keys of a dict.
    Without stops, no text is held.
    """
    for stops in itertools.permutations(["aab", "bcd", "bca"]):
        trace = feed(lab, list(stops), ["aa", "a", "ac", "abc", "bc"])
        expect(trace.held, ["aa", "aa", "", "bc", "bc"], trace, "held")
        expect(trace.outputs, ["", "a", "aaac", "a", "bc"], trace)
    for stops in (["ab", "bab"], ["bab", "ab"]):
        trace = feed(lab, stops, ["b", "a"])
        expect(trace.held, ["b", "ba"], trace, "held")
    made = [lab.new(f"given.{name}", "END", "###") for name in ("a_set", "keys")]
    for stops in (["END", "###"], ("END", "###"), *made):
        trace = feed(lab, stops, ["Hello", ", ", "world", "E"])
        expect(trace.outputs, ["Hello", ", ", "world", ""], trace)
    trace = feed(lab, [], ["Hello", ", ", "E"])
    expect(trace.outputs, ["Hello", ", ", "E"], trace)

    def cases():
        for _ in range(12):
            stops = words(lab, lab.random.randint(2, 3))
            starts = [start_of(lab, lab.random.choice(stops)) for _ in range(4)]
            yield stops, [piece for start in starts for piece in cut(lab, plain(lab) + start)]

    check_runs(lab, streams, cases())


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_stop_that_ends_first_wins(lab):
    """If several stops are in the text, the one that ends first wins, whatever the list's order,
    however many stops there are, and however long the piece is.
    """
    for stops in itertools.permutations(["a", "is", ","]):
        trace = match(lab, list(stops), [" The user is a, b"])
        expect(trace.outputs, [" The user ", "is"], trace)
    for stops in itertools.permutations(["abcd", "bc", "END OF TEXT", "END"]):
        trace = match(lab, list(stops), ["abcd"])
        expect(trace.outputs, ["a", "bc"], trace)
        trace = match(lab, list(stops), ["the END OF TEXT"])
        expect(trace.outputs, ["the ", "END"], trace)
    many = [f"<{number}>" for number in range(lab.random.randint(50, 99))]
    for stop in (many[0], many[-1]):
        trace = match(lab, many, [f"a {stop} b"])
        expect(trace.outputs, ["a ", stop], trace)

    def case():
        before, stop, after, *others = words(lab, 5)
        stops = lab.random.sample([before + stop + after, stop, *others], k=4)
        text = [before + stop + after, *others]
        start = lab.random.choice(["", plain(lab) * 1_000])
        return stops, [start + "".join(plain(lab) + word for word in lab.random.sample(text, k=3))]

    check_runs(lab, ends, [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_longest_wins_a_tie(lab):
    """If several stops end at the same character, the longest wins; no part of it is emitted,
    however long the piece is.
    """
    for stops in itertools.permutations(["b", "ab", "xab"]):
        trace = match(lab, list(stops), ["yx", "ab"])
        expect(trace.outputs, ["y", "", "xab"], trace)

    def case():
        (stop,) = words(lab, 1)
        stops = [stop[first:] for first in range(len(stop))]
        lab.random.shuffle(stops)
        return stops, [plain(lab) * lab.random.choice([1, 1_000]) + stop]

    check_runs(lab, ends, [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_stop_that_can_never_win_holds_nothing(lab):
    """A stop in which another stop ends before its last character never completes first, so no
    text is held for it.
    """
    trace = feed(lab, ["abcd", "bc"], ["a", "x", "ab", "x"])
    expect(trace.outputs, ["a", "x", "a", "bx"], trace)
    trace = feed(lab, ["\nUser: ", "User"], ["Hi\n", "\nUs"])
    expect(trace.outputs, ["Hi\n", "\n"], trace)

    def case():
        before, stop, after, other = words(lab, 4)
        stops = lab.random.sample([before + stop + after, stop, other], k=3)
        starts = [start_of(lab, before), before + start_of(lab, stop), start_of(lab, before)]
        return stops, [plain(lab) + start for start in starts]

    check_runs(lab, streams, [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_holds_the_least(lab):
    """eager: until a stop completes, each piece emits all text that cannot be part of a stop."""

    def cases():
        for stops in [*STOP_SETS, *drawn_sets(lab)]:
            for text in [tangled(lab, stops) for _ in range(30)]:
                text = unended(stops, text)
                yield stops, list(text)
                yield stops, cut(lab, text)

    check_runs(lab, streams, cases())


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_ends_where_a_stop_does(lab):
    """complete: on short texts that contain a stop, the emitted text and the winner are exact, in
    one piece, character by character, and cut at random; afterwards no text is held.
    """

    def cases():
        for stops in [*STOP_SETS, *drawn_sets(lab)]:
            for text in [tangled(lab, stops) for _ in range(20)]:
                yield stops, [text]
                yield stops, list(text)
                yield stops, cut(lab, text)

    check_runs(lab, ends_and_holds, cases())


@pytest.mark.task(3)
@pytest.mark.points(4)
@pytest.mark.timeout(4)
def test_property_linear(lab):
    """linear: more than 300,000 characters in one piece and as many as 40,000 small pieces finish
    within the time limit; emitted text is neither searched again nor kept, nor is the text of the
    last piece, or text after the stop.
    """
    dash, size = lab.random.choice("-=~#"), lab.random.randint(2, 4)
    start = "🚀" + dash * lab.random.randint(300_000, 350_000) + "🚀"
    before, after = lab.random.randint(0, 5_000), lab.random.randint(30_000, 35_000)
    pieces = [*dash * before, start, *dash * after, "🚀", dash, dash * (size - 1) + "> and more"]
    new = lab.new("StopStringMatcher", [dash * size + ">", "\n\nUser:"])
    trace = lab.stream(new, pieces, end="", watch="")
    expected = dash * before + start + dash * after + "🚀"
    fed = f"{len(pieces):,} pieces, a stop in the last: the emitted text"
    expect_long("".join(trace.outputs), expected, fed)
    stops = [*words(lab, 1), "aab"]
    new = lab.new("StopStringMatcher", stops)
    expect_keeps_no_text(lab, new, rounds_of_text(stops[0]))


@pytest.mark.task(3)
@pytest.mark.points(4)
@pytest.mark.timeout(3)
def test_property_long_stop(lab):
    """linear: with a stop of as many as 8,000 characters, more than 10,000 pieces finish within
    the time limit, whether nearly all of the stop is held, half of it, or none, after a character
    that releases thousands of held characters; a piece does not try every prefix of a stop.
    """
    size, more = lab.random.randint(7_000, 8_000), lab.random.randint(10_000, 12_000)
    half = size // 2
    for held, char, rest in (("a" * size, "a", "b"), ("a" * half, "a", "c" * half),
                             ("", "x", "a" * size + "b")):  # fmt: skip
        alarm, text = "a" * (size - 1) + "z", "x" + held + char * more
        pieces = [alarm[:-1], alarm[-1], text[: len(held)], *text[len(held) :], rest]
        new = lab.new("StopStringMatcher", ["END", held + rest])
        trace = lab.stream(new, pieces, end="", watch="")
        fed = f"{len(pieces):,} pieces, a stop of {len(held + rest):,} characters: the emitted text"
        expect_long("".join(trace.outputs), alarm + "x" + char * more, fed)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_flush_releases_what_was_held(lab):
    """At flush no stop can complete any more: the held text is released."""
    trace = lab.stream(lab.new("StopStringMatcher", ["<|im_end|>"]), ["x <", "|im_"])
    expect(trace.outputs, ["x ", "", "<|im_"], trace)

    def case():
        stops = words(lab, lab.random.randint(1, 3))
        held = start_of(lab, lab.random.choice(stops))
        return stops, [[plain(lab) + held[0], *cut(lab, held[1:])]], False

    check_runs(lab, flushes, [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(1)
def test_flush_once(lab):
    """A second flush returns "", and so does a new matcher's; after a flush no text is held, and
    none of its text is kept.
    """
    calls = [("flush",), ("feed", "E"), ("flush",), ("flush",)]
    trace = lab.script(lab.new("StopStringMatcher", ["END"]), calls)
    expect(trace.outputs, ["", "", "E", ""], trace)
    expect(trace.held, ["", "E", "", ""], trace, "held")

    def case():
        (stop,) = words(lab, 1)
        return [stop], [[], [plain(lab) + stop[:-1]], []], False

    check_runs(lab, flushes, [case() for _ in range(12)])
    (stop,) = words(lab, 1)
    stop = "-" * lab.random.randint(30, 40) + stop
    stream = [("feed", plain(lab) + stop[:-1]), ("flush",)]
    rounds = {"a flush of held text": stream, "300 flushes of held text": stream * 300}
    expect_keeps_no_text(lab, lab.new("StopStringMatcher", [stop]), rounds)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_fresh_after_flush(lab):
    """Text after a flush is a new stream: no earlier text joins it, and stops work again. A stop
    that can never win still holds no text.
    """
    streams = [("feed", "a EN"), ("flush",), ("feed", "D b E"), ("flush",), ("feed", "ND E")]
    calls = [*streams, ("feed", "ND"), ("feed", "c")]
    trace = lab.script(lab.new("StopStringMatcher", ["END"]), calls)
    expect(trace.outputs, ["a ", "EN", "D b ", "E", "ND ", "", ""], trace)
    trace = lab.script(lab.new("StopStringMatcher", ["END"], include_stop=True), calls)
    expect(trace.outputs, ["a EN", "", "D b E", "", "ND E", "ND", ""], trace)

    def case():
        (stop,) = words(lab, 1)
        start, again = start_of(lab, stop), start_of(lab, stop)
        texts = [plain(lab) + start, stop[len(start) :] + plain(lab) + again,
                 stop[len(again) :] + plain(lab) + stop]  # fmt: skip
        return [stop], [cut(lab, text) for text in texts], lab.random.random() < 0.5

    def hopeless():
        before, stop, after = words(lab, 3)
        texts = [plain(lab) + start_of(lab, word) for word in (stop, before, stop)]
        return [before + stop + after, stop], [[text] for text in texts], False

    check_runs(lab, flushes, [make() for make in (case, hopeless) for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_match_outlives_flush(lab):
    """A flush after a match returns "", `matched` stays, and later text is not emitted."""
    calls = [("feed", "a END b"), ("flush",), "matched", ("feed", "c"), ("feed", "END"), ("flush",)]
    for include, shown in ((False, "a "), (True, "a END")):
        new = lab.new("StopStringMatcher", ["END", "c"], include_stop=include)
        trace = lab.script(new, [*calls, "matched"])
        expect(trace.outputs, [shown, "", "END", "", "", "", "END"], trace)

    def case():
        stops = words(lab, 2)
        stop, later = lab.random.choice(stops), plain(lab) + lab.random.choice(stops) + plain(lab)
        first = [plain(lab) + stop + plain(lab)]
        return stops, [first, cut(lab, later)], lab.random.random() < 0.5

    check_runs(lab, flushes_and_reads, [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_include_stop_shows_the_stop(lab):
    """With include_stop the text is emitted up to the end of the stop, and no further. A stop
    with another character inside it does not match here either.
    """
    for pieces, shown in (
        (["a END b"], ["a END"]),
        (["a E", "ND b", "c"], ["a E", "ND", ""]),
        (["EN", "!", "D b"], ["EN", "!", "D b"]),
    ):
        trace = lab.stream(lab.new("StopStringMatcher", ["END"], include_stop=True), pieces)
        expect(trace.outputs, [*shown, ""], trace)

    def case():
        (stop,) = words(lab, 1)
        start = start_of(lab, stop)
        broken = [plain(lab) + start, plain(lab), stop.removeprefix(start) + plain(lab)]
        return [stop], [[*broken, *cut(lab, plain(lab) + stop + plain(lab))]], True

    check_runs(lab, flushes, [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_include_stop_never_holds(lab):
    """With include_stop the stop is emitted anyway, so no text is ever held."""
    trace = lab.stream(lab.new("StopStringMatcher", ["END"], include_stop=True), [*"the END!"])
    expect(trace.outputs, [*"the END", "", ""], trace)
    expect(trace.held, [""] * 9, trace, "held")

    def case():
        (stop,) = words(lab, 1)
        return [stop], [[*(start_of(lab, stop) + plain(lab)), *stop, *plain(lab)]], True

    check_runs(lab, flushes, [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_rejects_a_bare_string(lab):
    """stops="END" would be the three stops E, N and D: ValueError, whose message shows the list to
    write, such as ["END"], or the string in a list, as Python or JSON writes it. So is "", whose
    message shows such a list too, and a string of a class derived from str.
    """
    expect(lab.call(lab.new("StopStringMatcher", ["END"]), "flush"), "", "flush()")
    marks = ['"', "'", "\n", "\\"]
    drawn = [plain(lab) + lab.random.choice(["", *marks]) + plain(lab) for _ in range(8)]
    for stops in ["", "EN", "END", *marks, 'say "hi"\n', *drawn]:
        message = lab.rejects(lab.new("StopStringMatcher", stops))
        lists = (repr([stops]), json.dumps([stops]), json.dumps([stops], ensure_ascii=False))
        if not any(written in message for written in lists):
            expect_in('["END"]', message, f"StopStringMatcher({stops!r})")
    lab.rejects(lab.new("StopStringMatcher", lab.new("given.Word", "END")))


@pytest.mark.task(4)
@pytest.mark.points(1)
def test_rejects_an_empty_stop(lab):
    """An empty stop would match everywhere: ValueError, whether alone or among others, in a list, a
    tuple, a set or the keys of a dict.
    """
    expect(lab.call(lab.new("StopStringMatcher", ["END"]), "flush"), "", "flush()")
    for stops in ([""], ["END", ""], ("", "END")):
        lab.rejects(lab.new("StopStringMatcher", stops))
    for name in ("a_set", "keys"):
        lab.rejects(lab.new("StopStringMatcher", lab.new(f"given.{name}", "END", "")))
    for count in (1, 2, 3, 4):
        stops = [plain(lab) for _ in range(count)]
        lab.script(lab.new("StopStringMatcher", stops), [])
        stops.insert(lab.random.randint(0, count), "")
        lab.rejects(lab.new("StopStringMatcher", stops))


@pytest.mark.task(4)
@pytest.mark.points(1)
def test_leaves_the_stops_as_they_are(lab):
    """The collection of stops belongs to the caller: nothing is added to it, removed or sorted.
    If the caller changes it afterwards, the matcher keeps the stops that it had, in later streams
    too. So it is with a list and with a set.
    """
    expect(lab.call(lab.new("StopStringMatcher", ["END"]), "flush"), "", "flush()")
    trace = feed(lab, ["END"], ["a END b"])
    expect(trace.outputs, ["a "], trace)
    drawn = [lab.random.choices(["b", "ab", "aab", "bb", "ba"], k=count) for count in (2, 3, 4, 5)]
    for stops in (["bc", "abcd", "b"], ["b", "ab", "b"], ["END"], [], *drawn):
        calls = [("feed", "xyz"), ("flush",)]
        trace = lab.script(lab.new("StopStringMatcher", stops), calls)
        expect(trace.text, "xyz", trace)
        expect_untouched(trace)
    for make, add in (("a_list", "append"), ("a_set", "add")):
        stops, text = words(lab, 3), plain(lab)
        # A set may have any of them first.
        for stop in stops:
            callers = lab.new(f"given.{make}", *stops)
            new = [callers, lab.new("StopStringMatcher", callers)]
            change = [Call("remove", (stop,)), Call(add, (text[0],))]
            stream = [Call("feed", (text + stop[0],), object=1), Call("flush", object=1)]
            match = Call("feed", (text + stop + text,), object=1)
            trace = lab.script(new, [*change, *stream, match], watch="")
            expect(trace.outputs[-1], text, trace)
    calls = [Call("feed", ("a END",), object=1)]
    calls += [Call(name, (["END", "so"],)) for name in ("issuperset", "issubset")]
    callers = lab.new("given.a_set", "END", "so")
    trace = lab.script([callers, lab.new("StopStringMatcher", callers)], calls, watch="")
    expect(trace.outputs, ["a ", True, True], trace, "the caller's set has the same stops")


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_chunk_invariant(lab):
    """chunk-invariant: on random stops and texts, however they are cut, each piece emits the
    same text as the rule demands, the same stop wins, and flush returns the rest; with and
    without include_stop, and in a second stream after the flush.
    """

    def cases():
        for count in range(42):
            sizes = lab.random.choices([1, 2, 3, 3, 4], k=count % 7)
            stops = ["".join(lab.random.choices("aé🚀", k=size)) for size in sizes]
            stops += [stop[1:] for stop in stops[:1] if len(stop) > 1]
            text, later = (tangled(lab, [*stops, "aé", "🚀"]) for _ in range(2))
            for pieces in lab.random.sample([*chunkings(text, lab.random)], k=10):
                yield stops, [pieces, cut(lab, later)], lab.random.random() < 0.5

    check_runs(lab, flushes_and_reads, cases())


@pytest.mark.task(4)
@pytest.mark.points(2)
@pytest.mark.timeout(2)
def test_property_linear_with_include_stop(lab):
    """linear: include_stop costs no more. 10,000 small pieces, one piece of 150,000 characters,
    and 6,000 pieces with a stop of 7,000 characters or more finish within the time limit. No
    emitted text is kept.
    """
    size, long = lab.random.randint(20, 30), lab.random.randint(7_000, 8_000)
    for start, rest, count, more in (
        ("a" * size, "b" + "a" * size, 10_000, 150_000),
        ("a" * long, "b", 6_000, 0),
    ):
        new = lab.new("StopStringMatcher", ["END", start + rest], include_stop=True)
        pieces = [*"a" * count, "a" * more + start + rest, "c"]
        trace = lab.stream(new, pieces, end="", watch="")
        fed = f"{count:,} pieces, then a stop, include_stop=True: the output of each"
        expect_long(trace.outputs, [*pieces[:-1], ""], fed)
    stops = [*words(lab, 1), "aab"]
    new = lab.new("StopStringMatcher", stops, include_stop=True)
    expect_keeps_no_text(lab, new, rounds_of_text(stops[0]))


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: matchers fed in turns give what each gives alone, whether their stops are equal or
    not, with and without include_stop.
    """
    new = [lab.new("StopStringMatcher", stops) for stops in (["aab"], ["ab", "c"], ["aab"])]
    new.insert(1, lab.new("StopStringMatcher", ["aab"], include_stop=True))
    traces = lab.interleave(new, ["aaaab", "aab", "aacab", "aabxa"], "flush")
    expect(traces[0].outputs, ["", "", "a", "a", "", ""], traces[0])
    expect(traces[1].outputs, ["a", "a", "b", ""], traces[1])
    expect(traces[2].outputs, ["", "a", "a", "", "", ""], traces[2])
    expect(traces[3].outputs, ["", "", "", "", "", ""], traces[3])

    def rule(cases):
        if any("" in stops for stops, _, _ in cases):
            return
        new = [
            lab.new("StopStringMatcher", stops, include_stop=include) for stops, _, include in cases
        ]
        traces = lab.interleave(new, [pieces for _, pieces, _ in cases], "flush")
        for trace, (stops, pieces, include) in zip(traces, cases, strict=True):
            shown = so_far(tuple(stops), "".join(pieces), include)[0]
            expect("".join(trace.outputs[:-1]), shown, trace)

    def case():
        stop, other = words(lab, 2)
        texts = [plain(lab) + word for word in (stop, other[:-1], stop)]
        stops = ([stop], [other], [stop])
        includes = lab.random.choice([(False, True, True), (True, False, False)])
        return [
            (own, cut(lab, text), include)
            for own, text, include in zip(stops, texts, includes, strict=True)
        ]

    check(rule, [case() for _ in range(12)])
