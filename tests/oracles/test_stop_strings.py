"""StopMatcher against vLLM's `check_stop_strings`, its hold against partial matching of `regex`.

On a tie, several stops that end at one character, vLLM takes the first of the list and we the
longest: the one difference, counted here. And vLLM has no minimum of what it holds.
"""

import os
import random

import pytest

pytest.importorskip("regex", reason="regex is not installed: make oracles")
pytest.importorskip("transformers", reason="transformers is not installed: make oracles")

import regex

from benchmarks.peers.detokenizers import HAS_VLLM, vllm_stop_check
from mini_vllm.text.stop import StopMatcher

CASES = 1_000_000 if os.environ.get("SOAK") else 100_000
needs_vllm = pytest.mark.skipif(not HAS_VLLM, reason="vLLM was not fetched: make oracles")


def random_case(generator):
    """Return stops, and a text in pieces."""
    letters = generator.choice(["ab", "abc", "a中🚀", "<|e>"])
    stops = [
        "".join(generator.choices(letters, k=generator.randint(1, 5)))
        for _ in range(generator.randint(1, 4))
    ]
    pieces = [
        "".join(generator.choices(letters, k=generator.randint(0, 5)))
        for _ in range(generator.randint(1, 5))
    ]
    return stops, pieces


def theirs(check, stops, pieces, *, include):
    """Run vLLM's check after each piece, as its detokenizer does; return (text, stop)."""
    text = ""
    for piece in pieces:
        text += piece
        found = check(text, len(piece), stops, include)
        if found is not None:
            stop, end = found
            return text if end == -1 else text[:end], stop
    return text, None


@needs_vllm
@pytest.mark.parametrize("include", [False, True], ids=["cut", "include"])
def test_equal_to_vllm_but_for_ties(include):
    check = vllm_stop_check()
    generator = random.Random(include)
    matched = ties = 0
    for _ in range(CASES):
        stops, pieces = random_case(generator)
        matcher = StopMatcher(stops, include_stop_str_in_output=include)
        mine = "".join([*map(matcher.feed, pieces), matcher.flush()]), matcher.matched
        other = theirs(check, stops, pieces, include=include)
        matched += mine[1] is not None
        if mine == other:
            continue
        ties += 1
        # Theirs ends at the same place, and stands first in the list; ours is longer.
        assert mine[1].endswith(other[1]), (stops, pieces)
        assert stops.index(other[1]) < stops.index(mine[1]), (stops, pieces)
        end = len(mine[0]) + (0 if include else len(mine[1]))
        assert end == len(other[0]) + (0 if include else len(other[1])), (stops, pieces)
    assert CASES / 3 < matched < CASES
    # Of text that is included it makes no difference but to the name of the stop.
    assert 0 < ties < CASES / 20


@needs_vllm
def test_vllm_keeps_back_a_constant_and_never_less_than_we_do():
    """What its detokenizer shows is always a beginning of what we do, and mostly much shorter."""
    generator = random.Random(2)
    earlier = 0
    for _ in range(CASES // 10):
        stops, pieces = random_case(generator)
        matcher, hold = StopMatcher(stops), max(map(len, stops)) - 1
        shown = text = ""
        for piece in pieces:
            shown, text = shown + matcher.feed(piece), text + piece
            if matcher.matched is not None:
                break
            constant = text[: max(0, len(text) - hold)]
            assert shown.startswith(constant)
            earlier += len(shown) - len(constant)
    assert earlier > 0


def test_the_hold_is_what_regex_takes_for_the_beginning_of_a_match():
    generator = random.Random(3)
    held_some = 0
    for _ in range(CASES // 5):
        stops, pieces = random_case(generator)
        # `regex` knows no hopeless stops.
        stops = [s for s in stops if not any(other in s[:-1] for other in stops)]
        pattern = regex.compile("|".join(map(regex.escape, stops)))
        matcher, text = StopMatcher(stops), ""
        for piece in pieces:
            matcher.feed(piece)
            text += piece
            if matcher.matched is not None:
                break
            found = pattern.search(text, partial=True)
            partial = text[found.start() :] if found is not None else ""
            assert matcher.held == partial, (stops, pieces)
            held_some += bool(partial)
    assert held_some > CASES / 20
