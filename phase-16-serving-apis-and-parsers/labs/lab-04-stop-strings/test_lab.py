"""Lab 04: stop strings. Each docstring states the rule that its test pins."""

import functools
import itertools

import pytest

from labkit.testing import check, chunkings, expect, expect_in, expect_untouched, small_strings

STOP_SETS = [
    ["b"], ["ab"], ["aab"], ["abab"], ["a", "b"], ["ab", "b"], ["b", "ab"], ["ba", "ab"],
    ["abc", "bc"], ["abcd", "bc"], ["aba", "bab"], ["aaa", "ab"], ["cab", "abc", "b"],
    ["acb", "cc"], ["cc", "acb"], ["ab", "ab"], ["ab", "abc"], ["abcabc", "cc"],
]  # fmt: skip


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


@functools.cache
def so_far(stops, text, include=False):
    """The contract after some of the text: (all that is shown, what is held, the winner)."""
    shown, winner = reference(stops, text)
    if winner is not None:
        return shown + winner * include, "", winner
    held = "" if include else must_hold(stops, text)
    return shown[: len(shown) - len(held)], held, None


def feed(lab, stops, pieces):
    """Feed the pieces and leave the stream open."""
    return lab.stream(lab.new("StopStringMatcher", stops), pieces, end="")


def match(lab, stops, pieces):
    """Feed the pieces and read `matched`."""
    calls = [*(("feed", piece) for piece in pieces), "matched"]
    return lab.script(lab.new("StopStringMatcher", stops), calls)


def run(lab, stops, pieces, **options):
    """Feed the pieces, read `matched`, flush."""
    calls = [*(("feed", piece) for piece in pieces), "matched", ("flush",)]
    return lab.script(lab.new("StopStringMatcher", stops, **options), calls)


def expect_exact(trace, stops, pieces, include=False):
    """After each piece all is shown that no stop can take back, and nothing else."""
    text = shown = ""
    for number, piece in enumerate(pieces):
        text += piece
        by_now = so_far(tuple(stops), text, include)[0]
        expect(trace.outputs[number], by_now[len(shown) :], trace, f"feed number {number + 1}")
        shown = by_now


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


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_rejects_an_empty_stop(lab):
    """An empty stop would match everywhere: ValueError, whether alone or among others."""
    for stops in ([""], ["END", ""], ("", "END")):
        lab.rejects(lab.new("StopStringMatcher", stops))


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_leaves_the_stops_as_they_are(lab):
    """The collection of stops belongs to the caller: nothing is added, removed or sorted."""
    for stops in (["bc", "abcd", "b"], ["b", "ab", "b"], ["END"], []):
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


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_possible_stop_is_held(lab):
    """Only the text that may begin a stop is held: of "the EN", only "EN"."""
    trace = feed(lab, ["END"], ["the EN", "", "GIN!"])
    expect(trace.outputs, ["the ", "", "ENGIN!"], trace)


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_false_alarm_is_released_at_once(lab):
    """The character that rules out a possible stop releases it, in the same call."""
    trace = feed(lab, ["###"], ["#", "#", "c", "#", "# #d## e#"])
    expect(trace.outputs, ["", "", "##c", "", "## #d## e"], trace)


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_overlapping_starts(lab):
    """A false start may contain the next one: with "aab", "aaa" shows one "a" and holds "aa"."""
    trace = feed(lab, ["aab"], ["a", "a", "a", "a", "c"])
    expect(trace.outputs, ["", "", "a", "a", "aac"], trace)
    trace = feed(lab, ["abcabd"], ["abcab", "c", "abx"])
    expect(trace.outputs, ["", "abc", "abcabx"], trace)


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


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_held_shows_what_waits(lab):
    """`held` is exactly the text that waits; "" when none does."""
    trace = feed(lab, ["abc"], ["xa", "b", "", "d", "ab", "x"])
    expect(trace.held, ["a", "ab", "ab", "", "ab", ""], trace, "held")
    trace = feed(lab, ["aab", "bcd", "bca"], ["aa", "a", "ac", "abc", "bc", ""])
    expect(trace.held, ["aa", "aa", "", "bc", "bc", "bc"], trace, "held")


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_property_holds_the_least(lab):
    """eager: until a stop completes, each piece shows all that can no longer belong to one."""

    def rule(case):
        stops, pieces = case
        if so_far(tuple(stops), "".join(pieces))[2] is None:
            expect_exact(feed(lab, stops, pieces), stops, pieces)

    texts = [*small_strings("abc", 5)]
    check(rule, ((stops, list(text)) for stops in STOP_SETS for text in texts))
    check(rule, ((stops, [text[:2], text[2:]]) for stops in STOP_SETS for text in texts))


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_stop_across_pieces(lab):
    """A stop cut into several pieces ends the stream, and no part of it is shown, however long."""
    trace = match(lab, ["DEFGHIJ"], ["abcDEF", "G", "", "HI", "J and more"])
    expect(trace.outputs, ["abc", "", "", "", "", "DEFGHIJ"], trace)
    rule = "=" * 100 + " END"
    trace = match(lab, [rule], ["abc", *rule, "d"])
    expect(trace.outputs, ["abc", *[""] * 104, "", rule], trace)


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


@pytest.mark.task(3)
@pytest.mark.points(5)
def test_longest_wins_a_tie(lab):
    """Of stops that end at the same character, the longest wins, so no part of it is shown."""
    for stops in itertools.permutations(["b", "ab", "xab"]):
        trace = match(lab, list(stops), ["yx", "ab"])
        expect(trace.outputs, ["y", "", "xab"], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_nothing_after_a_match(lab):
    """After the stop nothing is shown nor held, and `matched` does not change."""
    trace = match(lab, ["END", "X"], ["a END b E", "c X", "", "E"])
    expect(trace.outputs, ["a ", "", "", "", "END"], trace)
    expect(trace.held, [""] * 5, trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_stops_in_any_script(lab):
    """Stops are made of characters, not bytes: " ×", "。" and "🚀🚀" work like any other."""
    for stop in (" ×", "。", "🚀🚀", "\n\n", "E\n\nD", "\ufffd"):
        trace = match(lab, [stop], ["é" + stop[:1], stop[1:] + "z", "é!"])
        expect("".join(trace.outputs[:-1]), "é", trace)


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_stops_are_taken_literally(lab):
    """Character by character: no pattern, no ignored case, no trimmed space, no equivalent form."""
    rows = [("END", "end End ENd eND "), ("a.c?", "abc ac "), ("$", "US\n"), (" \n", "x\n\n"),
            ("é", "e\u0301 E\u0301"), ("\t", "    "), ("\\n", "\n")]  # fmt: skip
    for stop, text in rows:
        trace = match(lab, [stop], [text, f"x{stop}z"])
        expect(trace.outputs[:-1], [text, "x"], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_property_ends_where_a_stop_does(lab):
    """complete: on every short text with a stop in it, what is shown and which one wins is exact,
    in one piece, in two, and character by character.
    """

    def rule(case):
        stops, pieces = case
        winner = so_far(tuple(stops), "".join(pieces))[2]
        if winner is not None:
            trace = match(lab, stops, pieces)
            expect_exact(trace, stops, pieces)
            expect(trace.outputs[-1], winner, trace, "matched")

    texts = [*small_strings("abc", 5)]
    check(rule, ((stops, list(text)) for stops in STOP_SETS for text in texts))
    check(rule, ((stops, [text]) for stops in STOP_SETS for text in texts))
    check(rule, ((stops, [text[:2], text[2:]]) for stops in STOP_SETS for text in texts))


@pytest.mark.task(3)
@pytest.mark.points(8)
@pytest.mark.timeout(4)
def test_property_linear(lab):
    """linear: 350,000 characters in one piece and 40,000 small pieces after it finish within the
    time limit; what has been shown is not searched again.
    """
    start = "🚀" + "-" * 350_000 + "🚀"
    pieces = [start, *"-" * 40_000, "--> and more"]
    new = lab.new("StopStringMatcher", ["--->", "\n\nUser:"])
    trace = lab.script(new, [*(("feed", piece) for piece in pieces), "matched"], watch="")
    shown = "".join(trace.outputs[:-1])
    expect(shown == start + "-" * 39_999, True, "390,001 characters, up to the stop, are shown")


@pytest.mark.task(3)
@pytest.mark.points(2)
@pytest.mark.timeout(3)
def test_property_long_stop(lab):
    """linear: with 8,000 characters held for a long stop, 12,000 more pieces finish within the time
    limit; a piece does not try every prefix of a stop.
    """
    text = "x" + "a" * 20_000
    pieces = [text[:8_000], *text[8_000:], "b"]
    new = lab.new("StopStringMatcher", ["END", "a" * 8_000 + "b"])
    trace = lab.script(new, [*(("feed", piece) for piece in pieces), "matched"], watch="")
    shown = "".join(trace.outputs[:-1])
    expect(shown == text[:12_001], True, "12,001 characters, up to the stop, are shown")


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_flush_releases_what_was_held(lab):
    """At flush no stop can complete any more: what is held is text, and comes out."""
    trace = lab.stream(lab.new("StopStringMatcher", ["<|im_end|>"]), ["x <", "|im_"])
    expect(trace.outputs, ["x ", "", "<|im_"], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_flush_once(lab):
    """A second flush returns "", and so does one of a new matcher; after it nothing is held."""
    calls = [("flush",), ("feed", "E"), ("flush",), ("flush",)]
    trace = lab.script(lab.new("StopStringMatcher", ["END"]), calls)
    expect(trace.outputs, ["", "", "E", ""], trace)
    expect(trace.held, ["", "E", "", ""], trace, "held")


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


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_match_outlives_flush(lab):
    """A flush after a match returns "", `matched` stays, and later text is not shown either."""
    calls = [("feed", "a END b"), ("flush",), "matched", ("feed", "c"), ("feed", "END"), ("flush",)]
    for include, shown in ((False, "a "), (True, "a END")):
        new = lab.new("StopStringMatcher", ["END", "c"], include_stop=include)
        trace = lab.script(new, [*calls, "matched"])
        expect(trace.outputs, [shown, "", "END", "", "", "", "END"], trace)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_include_stop_shows_the_stop(lab):
    """With include_stop the text is shown through the end of the stop, and no further."""
    for pieces, shown in ((["a END b"], ["a END"]), (["a E", "ND b", "c"], ["a E", "ND", ""])):
        trace = lab.stream(lab.new("StopStringMatcher", ["END"], include_stop=True), pieces)
        expect(trace.outputs, [*shown, ""], trace)


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_include_stop_never_holds(lab):
    """With include_stop there is nothing to hide, so nothing is ever held."""
    trace = lab.stream(lab.new("StopStringMatcher", ["END"], include_stop=True), [*"the END!"])
    expect(trace.outputs, [*"the END", "", ""], trace)
    expect(trace.held, [""] * 9, trace, "held")


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_property_chunk_invariant(lab):
    """chunk-invariant: on random stops and texts, however they are cut, each piece shows what it
    must, the same stop wins, and flush gives the rest; with the stop shown and without.
    """

    def rule(case):
        stops, pieces = case
        if "" in stops:
            return
        for include in (False, True):
            trace = run(lab, stops, pieces, include_stop=include)
            expect_exact(trace, stops, pieces, include)
            _, held, winner = so_far(tuple(stops), "".join(pieces), include)
            expect(trace.outputs[-2:], [winner, held], trace, "matched and flush")

    def cases():
        for count in range(30):
            sizes = lab.random.choices([1, 2, 3, 3, 4], k=count % 7)
            stops = ["".join(lab.random.choices("aé🚀", k=size)) for size in sizes]
            starts = [lab.random.choice([*stops, "aé", "🚀"]) for _ in range(9)]
            text = "".join(start[: lab.random.randint(1, 4)] for start in starts)[:9]
            for pieces in chunkings(text, lab.random):
                yield stops, pieces

    check(rule, cases())


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_property_isolated(lab):
    """isolated: matchers fed in turns, of equal stops or others, give what each gives alone."""
    new = [lab.new("StopStringMatcher", stops) for stops in (["aab"], ["ab", "c"], ["aab"])]
    traces = lab.interleave(new, ["aaaab", "aacab", "aabxa"], "flush")
    expect(traces[0].outputs, ["", "", "a", "a", "", ""], traces[0])
    expect(traces[1].outputs, ["", "a", "a", "", "", ""], traces[1])
    expect(traces[2].outputs, ["", "", "", "", "", ""], traces[2])
