"""Tests of pairs."""

import pytest

from labkit.testing import chunkings, expect


@pytest.mark.given
def test_two_is_even():
    """Two is even."""
    assert 2 % 2 == 0


@pytest.mark.task(1)
@pytest.mark.points(15)
def test_pairs(lab):
    """Characters come out two by two."""
    trace = lab.script(lab.new("Pairs"), [("feed", "abc"), ("feed", "d")])
    expect(trace.outputs, ["ab", "cd"], trace)


@pytest.mark.task(1)
@pytest.mark.points(15)
def test_held(lab):
    """`held` is the odd one."""
    trace = lab.script(lab.new("Pairs"), [("feed", "abc")])
    expect(trace.held, ["c"], trace, "held")


@pytest.mark.task(1)
@pytest.mark.points(15)
def test_empty(lab):
    """An empty piece gives nothing."""
    trace = lab.script(lab.new("Pairs"), [("feed", "")])
    expect(trace.outputs, [""], trace)


@pytest.mark.task(2)
@pytest.mark.points(15)
def test_flush(lab):
    """flush returns the odd one."""
    trace = lab.stream(lab.new("Pairs"), ["é"])
    expect(trace.outputs, ["", "é"], trace)


@pytest.mark.task(2)
@pytest.mark.points(15)
def test_flush_once(lab):
    """The second flush returns nothing."""
    trace = lab.script(lab.new("Pairs"), [("feed", "a"), ("flush",), ("flush",)])
    expect(trace.outputs, ["", "a", ""], trace)


@pytest.mark.task(2)
@pytest.mark.points(15)
def test_property_chunk_invariant(lab):
    """complete: however it is cut, the text comes out."""
    for pieces in chunkings("abcdé", lab.random):
        trace = lab.stream(lab.new("Pairs"), pieces)
        expect(trace.text, "abcdé", trace)


@pytest.mark.task(2)
@pytest.mark.points(10)
@pytest.mark.timeout(0.5)
def test_property_linear(lab):
    """linear: 1000 characters are done within the limit."""
    trace = lab.stream(lab.new("Pairs"), "x" * 1000, watch="")
    expect(len(trace.text), 1000, trace)
