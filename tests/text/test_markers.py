"""MarkerScanner: its state is what must be held, and it looks at each character once."""

import itertools
import os
import random

import pytest
from chunking import cut_at

from mini_vllm.text.markers import MarkerScanner

CASES = 100_000 if os.environ.get("SOAK") else 4_000
# The automaton asks its dictionaries: what a character costs at most, over a whole text.
MOST_LOOKS = 4


def first_end(words, text):
    """By definition: (where the first match ends, the longest word that ends there), or None."""
    for end in range(1, len(text) + 1):
        ending = [word for word in words if text[:end].endswith(word)]
        if ending:
            return end, max(ending, key=len)
    return None


def possible(words):
    """The words that can win: no other word ends within them before they do."""
    return [word for word in words if not any(other in word[:-1] for other in words)]


def depth(words, text):
    """By definition: the length of the longest suffix that is a proper prefix of a word."""
    prefixes = {"", *(word[:size] for word in words for size in range(len(word)))}
    return next(size for size in range(len(text), -1, -1) if text[len(text) - size :] in prefixes)


def scan_all(scanner, pieces):
    """Scan pieces up to the first match; return (what was certain, state, marker, rest)."""
    certain, state, marker, rest = "", 0, None, ""
    for number, piece in enumerate(pieces):
        shown, state, marker, rest = scanner.scan(state, piece)
        certain += shown
        if marker is not None:
            return certain, state, marker, rest + "".join(pieces[number + 1 :])
    return certain, state, None, ""


def random_case(generator):
    letters = "abc"[: generator.randint(1, 3)]
    words = [
        "".join(generator.choices(letters, k=generator.randint(1, 6)))
        for _ in range(generator.randint(1, 4))
    ]
    text = "".join(generator.choices("abc", k=generator.randint(0, 12)))
    places = sorted(generator.randint(0, len(text)) for _ in range(generator.randint(0, 6)))
    return words, text, cut_at(text, places)


def test_random_cases_equal_the_definition():
    generator = random.Random(0)
    matched = held_some = 0
    for _ in range(CASES):
        words, text, pieces = random_case(generator)
        # Of some all words are hidden, of others some are visible.
        least = generator.choice([0, 0, 0, 0, 0.5])
        hidden = [word for word in words if generator.random() >= least]
        scanner = MarkerScanner(hidden, visible=words if least else ())
        useful = [word for word in possible(words) if word in hidden]
        found = first_end(words, text)
        certain, state, taken = "", 0, 0
        for piece in pieces:
            shown, state, marker, rest = scanner.scan(state, piece)
            certain, taken = certain + shown, taken + len(piece)
            if marker is not None:
                assert found == (taken - len(rest), marker), (words, pieces)
                end = found[0] - (len(marker) if marker in hidden else 0)
                assert certain == text[:end], (words, hidden, pieces)
                assert state == 0
                matched += 1
                break
            held = depth(useful, text[:taken])
            assert certain == text[: taken - held], (words, pieces)
            assert scanner.held(state) == text[taken - held : taken], (words, pieces)
            held_some += held > 0
        else:
            assert found is None, (words, pieces)
    assert min(matched, held_some) > CASES / 4


def test_what_is_held_is_the_true_minimum():
    """Not by rule but by looking at all that may follow: no shorter hold could be right."""
    words = [
        word for size in (1, 2, 3) for word in map("".join, itertools.product("ab", repeat=size))
    ]
    texts = [
        text for size in range(5) for text in map("".join, itertools.product("ab", repeat=size))
    ]
    for markers in itertools.combinations(words, 2):
        scanner = MarkerScanner(markers)
        for text in texts:
            if first_end(markers, text):
                continue
            _, state, _, _ = scan_all(scanner, text)
            certain = len(text)
            for follow in texts:
                found = first_end(markers, text + follow)
                if found:
                    certain = min(certain, found[0] - len(found[1]))
            assert scanner.held(state) == text[certain:], (markers, text)


@pytest.mark.parametrize("cut", [True, False], ids=["char by char", "whole"])
@pytest.mark.parametrize(
    ("words", "text", "certain", "marker", "rest"),
    [
        (["abcd", "bc"], "abcd", "a", "bc", "d"),
        (["b", "ab"], "xabx", "x", "ab", "x"),
        (["ab", "b"], "xabx", "x", "ab", "x"),
        (["END###", "###"], "foo##END###!", "foo##", "END###", "!"),
        (["aab"], "aaaab", "aa", "aab", ""),
        (["abab", "bc"], "ababc", "", "abab", "c"),
        (["中文", "文字"], "中文字", "", "中文", "字"),
        (["a\0b"], "xa\0b", "x", "a\0b", ""),
        (["^[a-z]$", "\\"], "x\\", "x", "\\", ""),
        ([], "anything", "anything", None, ""),
    ],
    ids=lambda value: "|".join(value) if isinstance(value, list) else None,
)
def test_the_first_end_wins_and_of_several_the_longest(words, text, certain, marker, rest, cut):
    shown, _, found, behind = scan_all(MarkerScanner(words), text if cut else [text])
    assert (shown, found, behind) == (certain, marker, rest)


def test_a_hopeless_marker_is_kept_on_demand():
    scanner = MarkerScanner(["abcd", "bc"], keep_hopeless=True)
    certain, state, marker, _ = scanner.scan(0, "xab")
    assert (certain, scanner.held(state), marker) == ("x", "ab", None)
    # `bc` is ignored, and the longer marker goes on.
    certain, state, marker, _ = scanner.scan(state, "c", ignored=1)
    assert (certain, scanner.held(state), marker) == ("", "abc", None)
    assert scanner.scan(state, "d!")[:4] == ("", 0, "abcd", "!")


def test_an_ignored_marker_is_not_held():
    """A complete marker is not a proper prefix: only what its end may begin is held."""
    scanner = MarkerScanner(["aba"])
    certain, state, marker, _ = scanner.scan(0, "aba", ignored=3)
    assert (certain, scanner.held(state), marker) == ("ab", "a", None)
    certain, state, marker, _ = scanner.scan(state, "ba")
    assert (certain, marker) == ("", "aba")


def test_visible_markers_hold_nothing_and_are_shown():
    scanner = MarkerScanner(["<end>"], visible=["stop", "<eos>"])
    assert scanner.scan(0, "st") == ("st", scanner.scan(0, "st")[1], None, "")
    assert scanner.held(scanner.scan(0, "st")[1]) == ""
    assert scanner.matching(scanner.scan(0, "st")[1]) == "st"
    # `<e` may become the hidden one, `<eo` only the visible one.
    assert [scan_all(scanner, pieces)[0] for pieces in (["x<e"], ["x<e", "o"])] == ["x", "x<eo"]
    assert scan_all(scanner, ["a<e", "os", ">b"]) == ("a<eos>", 0, "<eos>", "b")
    assert scan_all(scanner, ["a<e", "nd", ">b"]) == ("a", 0, "<end>", "b")


class Counted(dict):
    """A dictionary that counts how often it is asked."""

    looks = 0

    def __contains__(self, key):
        Counted.looks += 1
        return super().__contains__(key)

    def get(self, key, default=None):
        Counted.looks += 1
        return super().get(key, default)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    ("marker", "unit"),
    [
        ("aaab", "a"), ("a" * 60 + "b", "a"), ("a" * 60 + "b", "a" * 59 + "c"), ("abababac", "ab"),
        ("<tool_call>", "<tool_call"), ("<tool_call>", "plain text "),
    ],
)  # fmt: skip
def test_linear(marker, unit, size):
    """Each character is examined once at most, and asks a constant number of questions."""
    text = (unit * 10_000)[:10_000]
    scanner = MarkerScanner([marker, "zz", "<|im_end|>"])
    scanner._children = [*map(Counted, scanner._children)]
    Counted.looks = state = 0
    for start in range(0, len(text), size):
        _, state, found, _ = scanner.scan(state, text[start : start + size])
        assert found is None
    assert scanner.examined <= len(text)
    assert Counted.looks <= MOST_LOOKS * len(text)
    if unit == "plain text ":
        assert scanner.examined == 0


def test_a_long_marker_makes_a_small_automaton():
    """A client may send any stop string: its automaton is as long as it is, and not its square."""
    long = "ab" * 10_000 + "!"
    scanner = MarkerScanner([long])
    assert sum({id(text): len(text) for text in scanner._toward}.values()) <= len(long)
    certain, state, _, _ = scanner.scan(0, "x" + long[:-1])
    assert (certain, scanner.held(state)) == ("x", long[:-1])
    assert scanner.scan(state, "!?") == ("", 0, long, "?")


def test_an_empty_marker_is_refused():
    for options in ({"markers": [""]}, {"markers": ["a"], "visible": [""]}):
        with pytest.raises(ValueError, match="empty"):
            MarkerScanner(**options)
