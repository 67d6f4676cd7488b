"""Ways to cut a text into pieces, and events with neighbours of one kind joined.

`chunkings(text, markers)` has every way that the properties are checked under; `run` feeds one of
them and flushes; `same_under_all` demands the same events of all.
"""

import itertools
import random

from mini_vllm.text.events import ArgsDelta, ReasoningDelta, TextDelta

SIZES = (1, 2, 3, 5, 11, 23)
# Cutting at every pair of places is quadratic: only texts that are this short.
SHORT = 24


def sized(text, size):
    """Pieces of one size, but for the last."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def cut_at(text, places):
    """Pieces that end at the places; one place twice makes an empty piece."""
    places = [0, *sorted(places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(places)]


def around(text, markers):
    """The places at the beginnings and ends of the markers in a text, and one beside them."""
    places = set()
    for marker in markers:
        start = text.find(marker)
        while start >= 0:
            for place in (start, start + len(marker)):
                places |= {place - 1, place, place + 1}
            start = text.find(marker, start + 1)
    return sorted(place for place in places if 0 < place < len(text))


def chunkings(text, markers=(), *, seeds=3, every_cut=True):
    """Yield (name, pieces): all the ways to cut a text that are worth a look.

    Args:
        text: the text.
        markers: strings at whose beginnings and ends it is cut.
        seeds: how many random ways.
        every_cut: cut once at every place, and twice at every two places of a short text; without
            it once at every marker only.
    """
    yield "whole", [text]
    for size in SIZES:
        yield f"size {size}", sized(text, size)
    yield "empty pieces", ["", *(part for char in text for part in (char, "")), ""]
    places = around(text, markers)
    yield "all markers", cut_at(text, places)
    yield "before and after markers", cut_at(text, places[::3])
    for place in range(1, len(text)) if every_cut else places:
        yield f"cut at {place}", cut_at(text, [place])
    if every_cut and len(text) <= SHORT:
        for first in range(1, len(text)):
            for second in range(first + 1, len(text)):
                yield f"cut at {first} and {second}", cut_at(text, [first, second])
    generator = random.Random(text)
    for seed in range(seeds):
        count = generator.randint(1, max(1, len(text) // 3))
        places = [generator.randint(0, len(text)) for _ in range(count)]
        yield f"random {seed}", cut_at(text, places)


def norm(events):
    """Join neighbours of one kind and index; make new events, change none."""
    joined = []
    for event in events:
        last = joined[-1] if joined else None
        if type(event) is not type(last) or not isinstance(
            event, TextDelta | ReasoningDelta | ArgsDelta
        ):
            joined.append(event)
        elif not isinstance(event, ArgsDelta):
            joined[-1] = type(event)(last.text + event.text)
        elif event.index == last.index:
            joined[-1] = ArgsDelta(event.index, last.text + event.text)
        else:
            joined.append(event)
    return joined


def run(parser, pieces):
    """Feed the pieces, flush, and return the events with neighbours joined."""
    events = [event for piece in pieces for event in parser.feed(piece)]
    return norm([*events, *parser.flush()])


def same_under_all(make, text, markers=(), **options):
    """Return the events of a text, after demanding the same of every way to cut it.

    Args:
        make: makes a fresh parser.
        text: the text.
        markers: as in `chunkings`.
        options: as in `chunkings`.
    """
    expected = run(make(), [text])
    for name, pieces in chunkings(text, markers, **options):
        events = run(make(), pieces)
        assert events == expected, f"{name}: {pieces}\n{events}\ninstead of\n{expected}"
    return expected
