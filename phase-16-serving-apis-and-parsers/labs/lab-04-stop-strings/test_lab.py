"""Lab 04: stop strings. Each docstring states the rule that its test pins.

A test shows its rule on a few cases in full, then asks it again of cases drawn by `lab.random`.
"""

import itertools
from functools import cache, partial

import pytest

from labkit.testing import check, chunkings, expect, expect_in, expect_untouched

STOP_SETS = [
    ["b"], ["ab"], ["aab"], ["abab"], ["a", "b"], ["ab", "b"], ["b", "ab"], ["ba", "ab"],
    ["abc", "bc"], ["abcd", "bc"], ["aba", "bab"], ["aaa", "ab"], ["cab", "abc", "b"],
    ["acb", "cc"], ["cc", "acb"], ["ab", "ab"], ["ab", "abc"], ["abcabc", "cc"],
]  # fmt: skip
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ<>#:\n"


def reference(stops, text):
    """The contract on whole text, by definition: (what is shown, the stop that won or None)."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            winner = max(ending, key=len)
            return text[: end - len(winner)], winner
    return text, None


def must_hold(stops, text):
    """The longest suffix of a text without a match that begins a stop which can still win."""
    winnable = [stop for stop in stops if not any(other in stop[:-1] for other in stops)]
    prefixes = {stop[:n] for stop in winnable for n in range(len(stop))}
    return next(text[start:] for start in range(len(text) + 1) if text[start:] in prefixes | {""})


@cache
def so_far(stops, text, include=False):
    """The contract after some of the text: (all that is shown, what is held, the winner)."""
    shown, winner = reference(stops, text)
    if winner is not None:
        return shown + winner * include, "", winner
    held = "" if include else must_hold(stops, text)
    return shown[: len(shown) - len(held)], held, None


def shown_by(stops, pieces, include=False):
    """The contract for each piece: all that no stop can take back any more, and nothing else."""
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
    """The rule of (stops, pieces) in which no stop completes, or one does."""
    stops, pieces = case
    if "" not in stops and (so_far(tuple(stops), "".join(pieces))[2] is not None) is ended:
        trace = feed(lab, stops, pieces)
        expect(trace.outputs, shown_by(stops, pieces), trace)


def ends(lab, case):
    """The rule of (stops, pieces) in which one does, and `matched` is read."""
    stops, pieces = case
    winner = None if "" in stops else so_far(tuple(stops), "".join(pieces))[2]
    if winner is not None:
        trace = match(lab, stops, pieces)
        expect(trace.outputs, [*shown_by(stops, pieces), winner], trace)


def flushes(lab, case, reads=()):
    """The rule of (stops, texts in pieces, include_stop), with a flush after each text."""
    stops, texts, include = case
    if "" in stops:
        return
    calls, wanted, over = [], [], None
    for pieces in texts:
        calls += [*(("feed", piece) for piece in pieces), *reads, ("flush",)]
        shown, held = ["" for _ in pieces], ""
        if over is None:
            shown = shown_by(stops, pieces, include)
            _, held, over = so_far(tuple(stops), "".join(pieces), include)
        wanted += [*shown, *(over for _ in reads), held]
    trace = lab.script(lab.new("StopStringMatcher", stops, include_stop=include), calls)
    expect(trace.outputs, wanted, trace)


def words(lab, count, letters=CAPITALS):
    """Draw stops: no letter is in two of them, nor in one twice."""
    drawn = lab.random.sample(letters, k=5 * count)
    sizes = [lab.random.randint(2, 5) for _ in range(count)]
    return ["".join(drawn[5 * n :][:size]) for n, size in enumerate(sizes)]


def start_of(lab, word):
    """Draw a beginning of the word, which is never all of it."""
    return word[: lab.random.randint(1, len(word) - 1)]


def plain(lab):
    """Draw text with no letter of `words`."""
    return "".join(lab.random.choices("abc, é", k=lab.random.randint(1, 9)))


def tangled(lab, stops):
    """Draw text in which one beginning of a stop follows the other."""
    parts = [lab.random.choice([*stops, "abc"]) for _ in range(9)]
    return "".join(part[: lab.random.randint(1, 4)] for part in parts)[:9]


def drawn_sets(lab):
    """Draw sets of stops like those of `STOP_SETS`."""
    for _ in range(12):
        sizes = lab.random.choices([1, 2, 3, 3, 4, 5], k=lab.random.randint(1, 4))
        yield ["".join(lab.random.choices("abc", k=size)) for size in sizes]


def cut(lab, text):
    """Draw pieces that make up the text; some may be empty."""
    places = lab.random.choices(range(len(text) + 1), k=lab.random.randint(0, 5))
    return [text[a:b] for a, b in itertools.pairwise([0, *sorted(places), len(text)])]


@pytest.mark.given
def test_naive_check_leaks_the_stop():
    """Looking for the stop in each piece alone shows both halves of a stop that was cut in two."""
    shown = [piece for piece in ("the E", "ND, and more") if "END" not in piece]
    assert "".join(shown) == "the END, and more"


@pytest.mark.given
def test_naive_fixed_window_holds_plain_text():
    """Always holding the length of the longest stop minus one delays text that begins no stop."""
    text, window = "Hello, world", len("Observation:") - 1
    assert text[: len(text) - window] == "H"


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_rejects_a_bare_string(lab):
    """stops="END" would be the three stops E, N and D: ValueError, whose message shows ["END"]."""
    message = lab.rejects(lab.new("StopStringMatcher", "END"))
    expect_in('["END"]', message, 'StopStringMatcher("END")')
    for word in [plain(lab) for _ in range(8)]:
        lab.script(lab.new("StopStringMatcher", [word]), [])
        message = lab.rejects(lab.new("StopStringMatcher", word))
        expect_in('["END"]', message, f"StopStringMatcher({word!r})")


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_rejects_an_empty_stop(lab):
    """An empty stop would match everywhere: ValueError, whether alone or among others."""
    for stops in ([""], ["END", ""], ("", "END")):
        lab.rejects(lab.new("StopStringMatcher", stops))
    for count in (1, 2, 3, 4):
        stops = [plain(lab) for _ in range(count)]
        lab.script(lab.new("StopStringMatcher", stops), [])
        stops.insert(lab.random.randint(0, count), "")
        lab.rejects(lab.new("StopStringMatcher", stops))


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_leaves_the_stops_as_they_are(lab):
    """The collection of stops belongs to the caller: nothing is added, removed or sorted."""
    drawn = [lab.random.choices(["b", "ab", "aab", "bb", "ba"], k=count) for count in (2, 3, 4, 5)]
    for stops in (["bc", "abcd", "b"], ["b", "ab", "b"], ["END"], [], *drawn):
        expect_untouched(lab.script(lab.new("StopStringMatcher", stops), []))


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_plain_text_streams_at_once(lab):
    """Text that cannot begin a stop comes out at once, piece by piece; without stops, all text."""
    for stops in (["END", "###"], ("END", "###")):
        trace = feed(lab, stops, ["Hello", ", ", "", "world", "E"])
        expect(trace.outputs, ["Hello", ", ", "", "world", ""], trace)
    trace = feed(lab, [], ["Hello", ", ", "", "E"])
    expect(trace.outputs, ["Hello", ", ", "", "E"], trace)

    def case():
        stops = words(lab, lab.random.randint(1, 3))
        return stops, [*cut(lab, plain(lab)), plain(lab), lab.random.choice(stops)[0]]

    check(partial(streams, lab), [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_possible_stop_is_held(lab):
    """Only the text that may begin a stop is held: of "the EN", only "EN"."""
    trace = feed(lab, ["END"], ["the EN", "", "GIN!"])
    expect(trace.outputs, ["the ", "", "ENGIN!"], trace)

    def case():
        stops = words(lab, lab.random.randint(1, 3))
        held = start_of(lab, lab.random.choice(stops))
        return stops, [*cut(lab, plain(lab) + held), "", plain(lab)]

    check(partial(streams, lab), [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_false_alarm_is_released_at_once(lab):
    """The character that rules out a possible stop releases it, in the same call."""
    trace = feed(lab, ["###"], ["#", "#", "c", "#", "# #d## e#"])
    expect(trace.outputs, ["", "", "##c", "", "## #d## e"], trace)

    def case():
        stops = words(lab, lab.random.randint(1, 3))
        alarms = [start_of(lab, lab.random.choice(stops)) for _ in range(4)]
        return stops, [piece for alarm in alarms for piece in (alarm, plain(lab)[0])]

    check(partial(streams, lab), [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_overlapping_starts(lab):
    """A false start may contain the next one: with "aab", "aaa" shows one "a" and holds "aa"."""
    trace = feed(lab, ["aab"], ["a", "a", "a", "a", "c"])
    expect(trace.outputs, ["", "", "a", "a", "aac"], trace)
    trace = feed(lab, ["abcabd"], ["abcab", "c", "abx"])
    expect(trace.outputs, ["", "abc", "abcabx"], trace)

    def case():
        start = "".join(lab.random.choices("ab", k=lab.random.randint(1, 4)))
        stop = start * lab.random.randint(2, 3) + "c"
        return [stop], cut(lab, start * lab.random.randint(4, 6) + lab.random.choice("ab!"))

    check(partial(streams, lab), [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_stop_that_can_never_win_holds_nothing(lab):
    """A stop that contains another one before its own last character never completes first, so
    nothing is held for it.
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

    check(partial(streams, lab), [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_held_shows_what_waits(lab):
    """`held` is exactly the text that waits; "" when none does."""
    trace = feed(lab, ["abc"], ["xa", "b", "", "d", "ab", "x"])
    expect(trace.held, ["a", "ab", "ab", "", "ab", ""], trace, "held")
    trace = feed(lab, ["aab", "bcd", "bca"], ["aa", "a", "ac", "abc", "bc", ""])
    expect(trace.held, ["aa", "aa", "", "bc", "bc", "bc"], trace, "held")

    def rule(case):
        stops, pieces = case
        now = [so_far(tuple(stops), text) for text in itertools.accumulate(pieces)]
        if "" not in stops and all(winner is None for _, _, winner in now):
            trace = feed(lab, stops, pieces)
            expect(trace.held, [held for _, held, _ in now], trace, "held")

    def case():
        stops = words(lab, lab.random.randint(1, 3))
        parts = [plain(lab) + start_of(lab, lab.random.choice(stops)) for _ in range(3)]
        return stops, cut(lab, "".join(parts))

    check(rule, [case() for _ in range(12)])


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_property_holds_the_least(lab):
    """eager: until a stop completes, each piece shows all that can no longer belong to one."""

    def cases():
        for stops in [*STOP_SETS, *drawn_sets(lab)]:
            for text in [tangled(lab, stops) for _ in range(30)]:
                shown, winner = reference(stops, text)
                text = text if winner is None else (shown + winner)[:-1]
                yield stops, list(text)
                yield stops, cut(lab, text)

    check(partial(streams, lab), cases())


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_stop_across_pieces(lab):
    """A stop cut into several pieces ends the stream, and no part of it is shown, however long."""
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

    check(partial(ends, lab), [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_stop_that_ends_first_wins(lab):
    """Of several stops, the one that ends first wins, whatever their order in the list."""
    for stops in itertools.permutations(["a", "is", ","]):
        trace = match(lab, list(stops), [" The user is a, b"])
        expect(trace.outputs, [" The user ", "is"], trace)
    for stops in itertools.permutations(["abcd", "bc", "END OF TEXT", "END"]):
        trace = match(lab, list(stops), ["abcd"])
        expect(trace.outputs, ["a", "bc"], trace)
        trace = match(lab, list(stops), ["the END OF TEXT"])
        expect(trace.outputs, ["the ", "END"], trace)

    def case():
        before, stop, after, *others = words(lab, 5)
        stops = lab.random.sample([before + stop + after, stop, *others], k=4)
        text = [before + stop + after, *others]
        return stops, ["".join(plain(lab) + word for word in lab.random.sample(text, k=3))]

    check(partial(ends, lab), [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_longest_wins_a_tie(lab):
    """Of stops that end at the same character, the longest wins, so no part of it is shown."""
    for stops in itertools.permutations(["b", "ab", "xab"]):
        trace = match(lab, list(stops), ["yx", "ab"])
        expect(trace.outputs, ["y", "", "xab"], trace)

    def case():
        (stop,) = words(lab, 1)
        stops = [stop[first:] for first in range(len(stop))]
        lab.random.shuffle(stops)
        return stops, [plain(lab) + stop]

    check(partial(ends, lab), [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_nothing_after_a_match(lab):
    """After the stop nothing is shown nor held, and `matched` does not change."""
    trace = match(lab, ["END", "X"], ["a END b E", "c X", "", "E"])
    expect(trace.outputs, ["a ", "", "", "", "END"], trace)
    expect(trace.held, [""] * 5, trace, "held")

    def case():
        stops = words(lab, 2)
        first, then = lab.random.sample(stops, k=2)
        later = plain(lab) + then + plain(lab) + start_of(lab, first)
        return stops, [plain(lab) + first + plain(lab), *cut(lab, later)]

    check(partial(ends, lab), [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_stops_in_any_script(lab):
    """Stops are made of characters, not bytes: " ×", "。" and "🚀🚀" work like any other."""
    for stop in (" ×", "。", "🚀🚀", "\n\n", "E\n\nD", "\ufffd"):
        trace = match(lab, [stop], ["é" + stop[:1], stop[1:] + "z", "é!"])
        expect("".join(trace.outputs[:-1]), "é", trace)

    def rule(case):
        before, stop, at, after = case
        if stop and not any(char in stop for char in before):
            trace = match(lab, [stop], [before + stop[:at], stop[at:] + after])
            expect("".join(trace.outputs[:-1]), before, trace)

    def case():
        (stop,) = words(lab, 1, "×。🚀🎉ßñжЖقअ汉字가\u0301\u200d\ufffd\u2028")
        return plain(lab), stop, lab.random.randint(0, len(stop)), plain(lab)

    check(rule, [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_stops_are_taken_literally(lab):
    """Character by character: no pattern, no ignored case, no trimmed space, no equivalent form."""
    rows = [("END", "end End ENd eND "), ("a.c?", "abc ac "), ("$", "US\n"), (" \n", "x\n\n"),
            ("é", "e\u0301 E\u0301"), ("\t", "    "), ("\\n", "\n")]  # fmt: skip
    for stop, text in rows:
        trace = match(lab, [stop], [text, f"x{stop}z"])
        expect(trace.outputs[:-1], [text, "x"], trace)

    def case():
        (stop,) = words(lab, 1, ".?*+^$|()[]{}\\dwSB")
        place = lab.random.randrange(len(stop))
        almost = [stop[:place] + "x" + stop[place + 1 :], stop[:place] + stop[place + 1 :]]
        return [stop], [f"{stop.swapcase()[1:]} {lab.random.choice(almost)} ", f"x{stop}z"]

    check(partial(streams, lab, ended=True), [case() for _ in range(12)])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_ends_where_a_stop_does(lab):
    """complete: on short texts with a stop in them, what is shown and which one wins is exact, in
    one piece, character by character, and cut at random.
    """

    def cases():
        for stops in [*STOP_SETS, *drawn_sets(lab)]:
            for text in [tangled(lab, stops) for _ in range(20)]:
                yield stops, [text]
                yield stops, list(text)
                yield stops, cut(lab, text)

    check(partial(ends, lab), cases())


@pytest.mark.task(3)
@pytest.mark.points(8)
@pytest.mark.timeout(4)
def test_property_linear(lab):
    """linear: more than 300,000 characters in one piece and as many as 40,000 small pieces finish
    within the time limit; what has been shown is not searched again.
    """
    dash, size = lab.random.choice("-=~#"), lab.random.randint(2, 4)
    start = "🚀" + dash * lab.random.randint(300_000, 350_000) + "🚀"
    before, after = lab.random.randint(0, 5_000), lab.random.randint(30_000, 35_000)
    pieces = [*dash * before, start, *dash * after, "🚀", dash, dash * (size - 1) + "> and more"]
    new = lab.new("StopStringMatcher", [dash * size + ">", "\n\nUser:"])
    trace = lab.script(new, [*(("feed", piece) for piece in pieces), "matched"], watch="")
    wanted = dash * before + start + dash * after + "🚀"
    right = "".join(trace.outputs[:-1]) == wanted
    expect(right, True, f"the {len(wanted):,} characters up to the stop are shown")


@pytest.mark.task(3)
@pytest.mark.points(2)
@pytest.mark.timeout(3)
def test_property_long_stop(lab):
    """linear: with as many as 8,000 characters held for a long stop, more than 10,000 more pieces
    finish within the time limit; a piece does not try every prefix of a stop.
    """
    held, more = lab.random.randint(7_000, 8_000), lab.random.randint(10_000, 12_000)
    text = "x" + "a" * (held + more)
    pieces = [text[:held], *text[held:], "b"]
    new = lab.new("StopStringMatcher", ["END", "a" * held + "b"])
    trace = lab.script(new, [*(("feed", piece) for piece in pieces), "matched"], watch="")
    right = "".join(trace.outputs[:-1]) == text[: more + 1]
    expect(right, True, f"the {more + 1:,} characters up to the stop are shown")


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_flush_releases_what_was_held(lab):
    """At flush no stop can complete any more: what is held is text, and comes out."""
    trace = lab.stream(lab.new("StopStringMatcher", ["<|im_end|>"]), ["x <", "|im_"])
    expect(trace.outputs, ["x ", "", "<|im_"], trace)

    def case():
        stops = words(lab, lab.random.randint(1, 3))
        held = start_of(lab, lab.random.choice(stops))
        return stops, [[plain(lab) + held[0], *cut(lab, held[1:])]], False

    check(partial(flushes, lab), [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_flush_once(lab):
    """A second flush returns "", and so does one of a new matcher; after it nothing is held."""
    calls = [("flush",), ("feed", "E"), ("flush",), ("flush",)]
    trace = lab.script(lab.new("StopStringMatcher", ["END"]), calls)
    expect(trace.outputs, ["", "", "E", ""], trace)
    expect(trace.held, ["", "E", "", ""], trace, "held")

    def case():
        (stop,) = words(lab, 1)
        return [stop], [[], [plain(lab) + stop[:-1]], []], False

    check(partial(flushes, lab), [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_fresh_after_flush(lab):
    """Text after a flush is a new stream: nothing from before joins it, and stops work again."""
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

    check(partial(flushes, lab), [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_match_outlives_flush(lab):
    """A flush after a match returns "", `matched` stays, and later text is not shown either."""
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

    check(partial(flushes, lab, reads=["matched"]), [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_include_stop_shows_the_stop(lab):
    """With include_stop the text is shown through the end of the stop, and no further."""
    for pieces, shown in ((["a END b"], ["a END"]), (["a E", "ND b", "c"], ["a E", "ND", ""])):
        trace = lab.stream(lab.new("StopStringMatcher", ["END"], include_stop=True), pieces)
        expect(trace.outputs, [*shown, ""], trace)

    def case():
        (stop,) = words(lab, 1)
        return [stop], [cut(lab, plain(lab) + stop + plain(lab))], True

    check(partial(flushes, lab), [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_include_stop_never_holds(lab):
    """With include_stop there is nothing to hide, so nothing is ever held."""
    trace = lab.stream(lab.new("StopStringMatcher", ["END"], include_stop=True), [*"the END!"])
    expect(trace.outputs, [*"the END", "", ""], trace)
    expect(trace.held, [""] * 9, trace, "held")

    def case():
        (stop,) = words(lab, 1)
        return [stop], [[*(start_of(lab, stop) + plain(lab)), *stop, *plain(lab)]], True

    check(partial(flushes, lab), [case() for _ in range(12)])


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_chunk_invariant(lab):
    """chunk-invariant: on random stops and texts, however they are cut, each piece shows what it
    must, the same stop wins, and flush gives the rest; with the stop shown and without.
    """

    def cases():
        for count in range(42):
            sizes = lab.random.choices([1, 2, 3, 3, 4], k=count % 7)
            stops = ["".join(lab.random.choices("aé🚀", k=size)) for size in sizes]
            text = tangled(lab, [*stops, "aé", "🚀"])
            for pieces in lab.random.sample([*chunkings(text, lab.random)], k=10):
                yield stops, [pieces], lab.random.random() < 0.5

    check(partial(flushes, lab, reads=["matched"]), cases())


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_property_isolated(lab):
    """isolated: matchers fed in turns, of equal stops or others, give what each gives alone."""
    new = [lab.new("StopStringMatcher", stops) for stops in (["aab"], ["ab", "c"], ["aab"])]
    traces = lab.interleave(new, ["aaaab", "aacab", "aabxa"], "flush")
    expect(traces[0].outputs, ["", "", "a", "a", "", ""], traces[0])
    expect(traces[1].outputs, ["", "a", "a", "", "", ""], traces[1])
    expect(traces[2].outputs, ["", "", "", "", "", ""], traces[2])

    def rule(cases):
        if any("" in stops for stops, _ in cases):
            return
        new = [lab.new("StopStringMatcher", stops) for stops, _ in cases]
        traces = lab.interleave(new, [pieces for _, pieces in cases], "flush")
        for trace, (stops, pieces) in zip(traces, cases, strict=True):
            shown = so_far(tuple(stops), "".join(pieces))[0]
            expect("".join(trace.outputs[:-1]), shown, trace)

    def case():
        stop, other = words(lab, 2)
        texts = [plain(lab) + word for word in (stop, other[:-1], stop)]
        stops = ([stop], [other], [stop])
        return [(own, cut(lab, text)) for own, text in zip(stops, texts, strict=True)]

    check(rule, [case() for _ in range(12)])
