"""Tests of pairs."""

import pytest

from labkit.testing import chunkings, expect


def drawn(lab, length):
    """Return a random text."""
    return "".join(lab.random.choices("abcdé", k=length))


@pytest.mark.given
def test_two_is_even():
    """Two is even."""
    assert 2 % 2 == 0


@pytest.mark.task(1)
@pytest.mark.points(15)
def test_pairs(lab):
    """Characters are emitted two by two."""
    trace = lab.script(lab.new("Pairs"), [("feed", "abc"), ("feed", "d")])
    expect(trace.outputs, ["ab", "cd"], trace)
    text = drawn(lab, 7)
    trace = lab.script(lab.new("Pairs"), [("feed", text[:5]), ("feed", text[5:])])
    expect(trace.outputs, [text[:4], text[4:6]], trace)


@pytest.mark.task(1)
@pytest.mark.points(15)
def test_held(lab):
    """`held` is the odd one."""
    for text in ("abc", drawn(lab, 5)):
        trace = lab.script(lab.new("Pairs"), [("feed", text)])
        expect(trace.held, [text[-1]], trace, "held")


@pytest.mark.task(1)
@pytest.mark.points(15)
def test_empty(lab):
    """An empty piece gives nothing."""
    text = drawn(lab, 6)
    trace = lab.script(lab.new("Pairs"), [("feed", ""), ("feed", text), ("feed", "")])
    expect(trace.outputs, ["", text, ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(15)
def test_flush(lab):
    """flush returns the odd one."""
    for text in ("é", drawn(lab, 7)):
        trace = lab.stream(lab.new("Pairs"), [text])
        expect(trace.outputs, [text[:-1], text[-1:]], trace)


@pytest.mark.task(2)
@pytest.mark.points(15)
def test_flush_once(lab):
    """The second flush returns nothing."""
    text = drawn(lab, 7)
    trace = lab.script(lab.new("Pairs"), [("feed", text), ("flush",), ("flush",)])
    expect(trace.outputs, [text[:-1], text[-1:], ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(15)
def test_property_chunk_invariant(lab):
    """complete: however it is cut, all text is emitted."""
    for text in ("abcdé", drawn(lab, 8)):
        for pieces in chunkings(text, lab.random):
            trace = lab.stream(lab.new("Pairs"), pieces)
            expect(trace.text, text, trace)


@pytest.mark.task(2)
@pytest.mark.points(10)
@pytest.mark.timeout(0.5)
def test_property_linear(lab):
    """linear: 1000 characters are done within the limit."""
    trace = lab.stream(lab.new("Pairs"), "x" * 1000, watch="")
    expect(len(trace.text), 1000, trace)
