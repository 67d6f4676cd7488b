"""StopMatcher: the contract of every layer, by its names, and the options."""

import itertools
import os
import random
from math import inf

import pytest
from chunking import chunkings, cut_at
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.text.stop import StopMatcher

CASES = 100_000 if os.environ.get("SOAK") else 2_000
LETTERS = st.text("ab#", max_size=14)
STOPS = st.lists(st.text("ab#", min_size=1, max_size=5), min_size=1, max_size=4)
CUTS = st.lists(st.integers(0, 14), max_size=6)


def reference(text, stops, visible=(), min_end=0):
    """By definition: (what is shown of a whole text, the stop that ended it, whether one did)."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in {*stops, *visible} if text[:end].endswith(stop)]
        if ending and end > min_end:
            stop = max(ending, key=len)
            return text[: end - len(stop) if stop in stops else end], stop
    return text, None


def longest_prefix(text, stops):
    """Return the longest suffix of a text that begins a stop and is not all of it."""
    sizes = [n for stop in stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
    return text[len(text) - max(sizes, default=0) :]


def possible(stops, visible=()):
    """Return the stops that can win."""
    return [s for s in stops if not any(other in s[:-1] for other in {*stops, *visible})]


def drive(matcher, pieces):
    """Feed and flush; return (each output, the flush, the stop)."""
    shown = [matcher.feed(piece) for piece in pieces]
    return shown, matcher.flush(), matcher.matched


def whole(matcher, pieces):
    shown, rest, matched = drive(matcher, pieces)
    return "".join(shown) + rest, matched


def pieces_of(text, places):
    return cut_at(text, [min(place, len(text)) for place in places])


@given(STOPS, LETTERS, LETTERS)
def test_append_only(stops, text, follow):
    """Whatever follows, what was shown stays the beginning."""
    shown = StopMatcher(stops).feed(text)
    matcher = StopMatcher(stops)
    assert "".join(map(matcher.feed, text)) == shown
    assert reference(text + follow, stops)[0].startswith(shown)


@given(STOPS, LETTERS)
def test_eager(stops, text):
    """What is held is a proper prefix of a stop that can win, and the longest there is.

    K6: others always keep as many bytes as the longest stop has.
    """
    matcher, shown = StopMatcher(stops), ""
    for size, char in enumerate(text, start=1):
        shown += matcher.feed(char)
        if matcher.matched is not None:
            assert matcher.held == ""
            break
        assert matcher.held == longest_prefix(text[:size], possible(stops))
        assert shown + matcher.held == text[:size]
        assert len(matcher.held) <= max(map(len, stops)) - 1


@pytest.mark.parametrize(
    ("stops", "text"),
    [
        (["<|im_end|>", "</s>"], "a < b <|im_start|> </sorry> <|im_end"),
        (["###"], "# one\n## two\n### three"),
        (["Observation:", "\nUser:"], "Obs\nUse it\nUser: no"),
        (["終わり", "終"], "まだ終わりじゃない"),
        (["👨‍👩‍👧", "👨‍🚀"], "👨👨‍👩‍👦👨‍🚀!"),
    ],
)
def test_chunk_invariant(stops, text):
    """However the text is cut: empty pieces, all in one, one by one."""
    for name, pieces in chunkings(text, stops):
        assert whole(StopMatcher(stops), pieces) == reference(text, stops), name


def test_chunk_invariant_every_way_to_cut():
    """Every text and every way to cut it, smallest first."""
    stops = ["aab", "ba", "bbb"]
    for size in range(6):
        for text in map("".join, itertools.product("ab", repeat=size)):
            expected = reference(text, stops)
            for places in range(1 << max(0, size - 1)):
                cut = cut_at(text, [n + 1 for n in range(size - 1) if places >> n & 1])
                assert whole(StopMatcher(stops), cut) == expected, cut


def test_flush_once_and_fresh():
    matcher = StopMatcher(["END"])
    assert (matcher.feed("xEN"), matcher.held) == ("x", "EN")
    assert (matcher.flush(), matcher.flush(), matcher.held) == ("EN", "", "")
    # The text that was flushed is over: what follows does not complete it.
    assert (matcher.feed("D"), matcher.matched) == ("D", None)
    assert (matcher.feed("END"), matcher.matched) == ("", "END")


def test_after_a_match_nothing_more():
    matcher = StopMatcher(["END"])
    assert [matcher.feed(piece) for piece in ("aEND", "b", "", "END")] == ["a", "", "", ""]
    assert (matcher.flush(), matcher.flush(), matcher.matched) == ("", "", "END")


def test_flush_makes_the_minimum_fresh_too():
    matcher = StopMatcher(["a"], min_end=2)
    for _ in range(2):
        assert (matcher.feed("x"), matcher.flush()) == ("x", "")
        assert (matcher.feed("xxx"), matcher.flush()) == ("xxx", "")
        assert (matcher.feed("xa"), matcher.matched, matcher.flush()) == ("xa", None, "")
    assert (matcher.feed("xxa"), matcher.matched) == ("xx", "a")


@pytest.mark.parametrize(
    "text",
    [
        "", "\0", "a\ufffdb", "a\0END", "\ud800END", "\U0010ffff", "\r\nEND", "e\u0301END",
        "E" * 1000,
    ],
)  # fmt: skip
def test_total(text):
    """Any text has a result, surrogates, NUL and U+FFFD too; no characters are made equal."""
    for stops in (["END"], ["\0"], ["\ud800"], ["\ufffd"], ["é"], [".*"], ["\r"]):
        assert whole(StopMatcher(stops), list(text)) == reference(text, stops)


@pytest.mark.parametrize("number", range(1, 4))
def test_linear(number):
    """stop-S26: a constant a character, also where every stop is nearly met all the time."""
    # A set of its own, so that no other test has filled its memory.
    stops = ["a" * 40 + "b" * number, "ba" * 20 + "!", "c" * number]
    matcher = StopMatcher(stops)
    text = "a" * 5000 + "ab" * 5000 + "ba" * 5000
    scanner = matcher._scanner
    assert StopMatcher(stops)._scanner is scanner
    assert "".join(map(matcher.feed, text[:5000])) == text[:4960]
    matcher.feed(text[5000:])
    assert 0 < scanner.examined <= len(text)


def test_random_cases_equal_the_definition():
    """complete: all outputs and the flush are the reference of the whole text."""
    generator = random.Random(0)
    letters = "ab中"
    matched = 0
    for _ in range(CASES):
        stops, visible = (
            ["".join(generator.choices(letters, k=generator.randint(1, 5))) for _ in range(count)]
            for count in (generator.randint(0, 4), generator.choice([0, 0, 1, 2]))
        )
        text = "".join(generator.choices(letters, k=generator.randint(0, 14)))
        pieces = pieces_of(text, generator.choices(range(15), k=generator.randint(0, 6)))
        least = generator.choice([0, 0, generator.randint(1, 12)])
        options = {"min_end": least, "include_stop_str_in_output": generator.random() < 0.2}
        found = whole(StopMatcher(stops, visible=visible, **options), pieces)
        if options["include_stop_str_in_output"]:
            stops, visible = [], visible + stops
        assert found == reference(text, stops, visible, least), (stops, visible, least, pieces)
        matched += found[1] is not None
    assert CASES / 5 < matched < CASES


# --- which stop wins


@pytest.mark.parametrize("pieces", [["abcd"], [*"abcd"], ["ab", "cd"], ["abc", "d"]], ids="|".join)
def test_the_first_end_wins(pieces):
    """K11: TensorRT-Edge-LLM looks for the earliest start, and shows `a` or nothing by the cut."""
    assert whole(StopMatcher(["abcd", "bc"]), pieces) == ("a", "bc")


def test_of_several_ends_the_longest_wins_whatever_their_order():
    """K6: looking for the first stop of the list would show more."""
    for stops in itertools.permutations(["b", "ab", "xab"]):
        assert whole(StopMatcher(stops), ["zxab"]) == ("z", "xab")


# --- shown stops


@given(STOPS, LETTERS, CUTS)
def test_include_holds_nothing(stops, text, places):
    matcher = StopMatcher(stops, include_stop_str_in_output=True)
    shown = ""
    for piece in pieces_of(text, places):
        taken, shown = len(shown) + len(piece), shown + matcher.feed(piece)
        assert matcher.held == ""
        if matcher.matched is not None:
            break
        assert len(shown) == taken
    assert (shown, matcher.matched) == reference(text, (), stops)


# --- matches that come too early


@pytest.mark.parametrize("cut", [1, 3], ids=["char by char", "pieces"])
def test_min_end_is_not_known_at_first(cut):
    """Infinity, then the length so far: a stop that begins before it and ends behind it counts."""
    for stops, before, after, expected in [
        (["END"], "xEN", "Dy", ("x", "END")),
        (["END"], "xEND", "yENDz", ("xENDy", "END")),
        (["END"], "xEND", "", ("xEND", None)),
        # `bc` came early and is ignored, so the longer one may win after all.
        (["abcd", "bc"], "abc", "d", ("", "abcd")),
        (["abcd", "bc"], "abc", "x", ("abcx", None)),
        (["abcd", "bc"], "ab", "cd", ("a", "bc")),
    ]:
        matcher = StopMatcher(stops, min_end=inf)
        shown = "".join(matcher.feed(before[n : n + cut]) for n in range(0, len(before), cut))
        assert matcher.matched is None
        assert matcher.length == len(before)
        matcher.min_end = matcher.length
        shown += "".join(matcher.feed(after[n : n + cut]) for n in range(0, len(after), cut))
        assert (shown + matcher.flush(), matcher.matched) == expected, (stops, before, after)


def test_once_early_ones_are_over_as_little_is_held_as_ever():
    """While they are ignored even a stop that holds another is waited for; later it is not."""
    stops = ["abcd", "bc"]
    matcher = StopMatcher(stops, min_end=3)
    assert (matcher.feed("ab"), matcher.held) == ("", "ab")
    assert (matcher.feed("x.a"), matcher.held) == ("abx.a", "")
    assert (matcher.feed("bx"), matcher.held) == ("bx", "")


@given(STOPS, LETTERS, CUTS, st.integers(0, 14))
def test_min_end_holds_a_beginning_of_a_stop_at_most(stops, text, places, least):
    matcher, shown, taken = StopMatcher(stops, min_end=least), "", ""
    for piece in pieces_of(text, places):
        shown, taken = shown + matcher.feed(piece), taken + piece
        if matcher.matched is not None:
            break
        assert shown + matcher.held == taken
        held = longest_prefix(taken, stops)
        assert len(matcher.held) <= len(held)
        if len(taken) - len(held) >= least:
            assert matcher.held == longest_prefix(taken, possible(stops))


# --- arguments


@pytest.mark.parametrize("name", ["stops", "visible"])
def test_a_bare_string_and_an_empty_stop_are_refused(name):
    for text in ("END", ""):
        with pytest.raises(ValueError, match=rf"{name} is the str {text!r}; .* a list"):
            StopMatcher(**{name: text})
    with pytest.raises(ValueError, match=rf"{name}\[1\] is empty"):
        StopMatcher(**{name: ["END", ""]})


@pytest.mark.parametrize("stops", [["a", "b"], ("a", "b"), {"a", "b"}, iter(["a", "b"])])
def test_any_iterable_will_do(stops):
    assert whole(StopMatcher(stops), ["xb"]) == ("x", "b")


def test_matchers_in_turns_give_what_each_gives_alone():
    draw = random.Random(4)
    for _ in range(300):
        stops = [
            "".join(draw.choices("ab", k=draw.randint(1, 4))) for _ in range(draw.randint(1, 3))
        ]
        texts = [["".join(draw.choices("ab", k=2)) for _ in range(8)] for _ in range(2)]
        matchers = [StopMatcher(stops), StopMatcher(stops)]
        turns = [
            [matcher.feed(piece) for matcher, piece in zip(matchers, pieces, strict=True)]
            for pieces in zip(*texts, strict=True)
        ]
        for number, pieces in enumerate(texts):
            alone = StopMatcher(stops)
            assert [turn[number] for turn in turns] == [alone.feed(piece) for piece in pieces]
            assert matchers[number].flush() == alone.flush()
