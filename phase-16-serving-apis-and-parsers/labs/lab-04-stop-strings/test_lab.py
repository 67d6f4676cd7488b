"""Lab 04: stop strings. Each docstring states the rule that its test pins."""

import itertools

import pytest

from labkit.testing import chunkings, expect, expect_in, small_strings

STOP_SETS = [
    ["b"], ["ab"], ["aab"], ["abab"], ["a", "b"], ["ab", "b"], ["b", "ab"], ["ba", "ab"],
    ["abc", "bc"], ["abcd", "bc"], ["aba", "bab"], ["aaa", "ab"], ["cab", "abc", "b"], ["acb",
    "cc"],
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
    for stops in ([""], ["END", ""]):
        lab.rejects(lab.new("StopStringMatcher", stops))


@pytest.mark.task(2)
@pytest.mark.points(10)
def test_stop_that_can_never_win_holds_nothing(lab):
    """A stop that contains another one before its own last character never completes first, so
    nothing is held for it.
    """
    trace = feed(lab, ["abcd", "bc"], ["a", "x", "a", "b"])
    expect(trace.outputs, ["a", "x", "a", ""], trace)
    trace = feed(lab, ["END OF TEXT", "END"], ["the END", " OF TEXT"])
    expect(trace.outputs, ["the ", ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_plain_text_streams_at_once(lab):
    """Text that cannot begin a stop comes out at once, piece by piece; without stops, all text."""
    for stops in (["END", "###"], ("END", "###"), []):
        trace = feed(lab, stops, ["Hello", ", ", "", "world"])
        expect(trace.outputs, ["Hello", ", ", "", "world"], trace)


@pytest.mark.task(2)
@pytest.mark.points(6)
def test_possible_stop_is_held(lab):
    """Only the text that may begin a stop is held: of "the EN", only "EN"."""
    trace = feed(lab, ["END"], ["the EN", "GIN!"])
    expect(trace.outputs, ["the ", "ENGIN!"], trace)
    expect(trace.held[0], "EN", trace, "held")


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_false_alarm_is_released_at_once(lab):
    """The character that rules out a possible stop releases it, in the same call."""
    trace = feed(lab, ["###"], ["#", "#", "c", "#"])
    expect(trace.outputs, ["", "", "##c", ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_overlapping_starts(lab):
    """A false start may contain the next one: with "aab", "aaa" shows one "a" and holds "aa"."""
    trace = feed(lab, ["aab"], ["a", "a", "a", "a", "b"])
    expect(trace.outputs, ["", "", "a", "a", ""], trace)
    trace = feed(lab, ["abcabd"], ["abcab", "c", "abd"])
    expect(trace.outputs, ["", "abc", ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_held_shows_what_waits(lab):
    """`held` is exactly the text that waits; after a match it is ""."""
    trace = feed(lab, ["abc"], ["xa", "b", "d", "ab", "c!"])
    expect(trace.held, ["a", "ab", "", "ab", ""], trace, "held")


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_stop_across_pieces(lab):
    """A stop cut into several pieces ends the stream, and no part of it is shown."""
    trace = match(lab, ["DEFGHIJ"], ["abcDEF", "G", "HI", "J and more"])
    expect(trace.outputs, ["abc", "", "", "", "DEFGHIJ"], trace)


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_stop_that_ends_first_wins(lab):
    """Of several stops, the one that ends first wins, whatever their order in the list."""
    trace = match(lab, ["a", "is", ","], [" The user is a, b"])
    expect(trace.outputs, [" The user ", "is"], trace)
    trace = match(lab, ["abcd", "bc"], ["abcd"])
    expect(trace.outputs, ["a", "bc"], trace)


@pytest.mark.task(3)
@pytest.mark.points(6)
def test_longest_wins_a_tie(lab):
    """Of stops that end at the same character, the longest wins, so no part of it is shown."""
    for stops in itertools.permutations(["b", "ab", "xab"]):
        trace = match(lab, list(stops), ["yx", "ab"])
        expect(trace.outputs, ["y", "", "xab"], trace)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_nothing_after_a_match(lab):
    """Text after the stop, in its piece or later, is never shown, and `matched` does not change."""
    trace = match(lab, ["END", "X"], ["a END b", "c X", ""])
    expect(trace.outputs, ["a ", "", "", "END"], trace)


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_stops_in_any_script(lab):
    """Stops are made of characters, not bytes: " ×", "。" and "🚀🚀" work like any other."""
    for stop in (" ×", "。", "🚀🚀", "\n\n", "\ufffd"):
        trace = match(lab, [stop], ["é" + stop[:1], stop[1:] + "z", "é!"])
        expect(trace.text, "é", trace)
        expect(trace.outputs[-1], stop, trace, "matched")


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_flush_releases_what_was_held(lab):
    """At flush no stop can complete any more: what is held is text, and comes out."""
    trace = run(lab, ["<|im_end|>"], ["x <", "|im_"])
    expect(trace.outputs, ["x ", "", None, "<|im_"], trace)


@pytest.mark.task(4)
@pytest.mark.points(3)
def test_flush_once(lab):
    """A second flush returns "", and nothing is held after the first."""
    trace = lab.script(
        lab.new("StopStringMatcher", ["END"]), [("feed", "E"), ("flush",), ("flush",)]
    )
    expect(trace.outputs, ["", "E", ""], trace)
    expect(trace.held, ["E", "", ""], trace, "held")


@pytest.mark.task(4)
@pytest.mark.points(5)
def test_include_stop_shows_the_stop(lab):
    """With include_stop the text is shown through the end of the stop, and no further."""
    for pieces, shown in ((["a END b"], ["a END"]), (["a E", "ND b"], ["a E", "ND"])):
        trace = run(lab, ["END"], pieces, include_stop=True)
        expect(trace.outputs, [*shown, "END", ""], trace)


@pytest.mark.task(4)
@pytest.mark.points(4)
def test_include_stop_never_holds(lab):
    """With include_stop there is nothing to hide, so nothing is ever held."""
    trace = run(lab, ["END"], list("the EN"), include_stop=True)
    expect(trace.outputs, [*"the EN", None, ""], trace)
    expect(trace.held, [""] * 8, trace, "held")


@pytest.mark.task(4)
@pytest.mark.points(10)
def test_property_exact_and_eager(lab):
    """complete, eager: on every short text, each character shows all that can no longer belong to
    a stop.
    """
    for stops in STOP_SETS:
        for text in small_strings("abc", 5):
            trace = run(lab, stops, list(text))
            shown, winner = reference(stops, text)
            expect(trace.outputs[-2], winner, trace, "matched")
            expect(trace.text, shown, trace)
            for count, held in enumerate(trace.held[: len(text)], start=1):
                over = reference(stops, text[:count])[1]
                expect(held, "" if over else must_hold(stops, text[:count]), trace, f"held {count}")


@pytest.mark.task(4)
@pytest.mark.points(7)
def test_property_chunk_invariant(lab):
    """chunk-invariant: how the text is cut changes neither what is shown nor which stop wins."""
    for stops in STOP_SETS:
        for _ in range(4):
            text = "".join(lab.random.choices("abcé🚀", k=12))
            shown, winner = reference(stops, text)
            for include in (False, True):
                wanted = shown + (winner or "") * include
                for pieces in chunkings(text, lab.random):
                    trace = run(lab, stops, pieces, include_stop=include)
                    expect(trace.text, wanted, trace)
                    expect(trace.outputs[-2], winner, trace, "matched")


@pytest.mark.task(4)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: two matchers fed in turns give what each gives alone."""
    new = [lab.new("StopStringMatcher", ["aab"]), lab.new("StopStringMatcher", ["ab", "c"])]
    first, second = lab.interleave(new, ["aaaab", "aacab"], "flush")
    expect(first.outputs, ["", "", "a", "a", "", ""], first)
    expect(second.outputs, ["", "a", "a", "", "", ""], second)


@pytest.mark.task(4)
@pytest.mark.points(2)
@pytest.mark.timeout(10)
def test_property_linear(lab):
    """linear: 101,500 characters, fed one by one, finish well within the time limit."""
    text = "Observation is not Observatio" * 3_500
    new = lab.new("StopStringMatcher", ["Observation:", "<|im_end|>", "\n\nUser:"])
    trace = lab.stream(new, text, watch="")
    expect(trace.text == text, True, "101,500 characters fed one by one: text is equal")
