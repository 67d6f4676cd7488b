"""Hidden tests of lab-04: the same rules on stops and texts that the students' tests do not have.

A submission that has the public tests' answers in a table instead of the rules fails here.
"""

import pytest
from test_lab import check_runs, ends, feed, match, reference, streams

from labkit.testing import chunkings, expect, small_strings


@pytest.mark.task(1)
@pytest.mark.points(2)
@pytest.mark.varies("test_overlapping_starts")
@pytest.mark.visibility("after_due_date")
def test_hidden_overlapping_starts(lab):
    trace = feed(lab, ["ababac"], ["ababa", "b", "ax"])
    expect(trace.outputs, ["", "ab", "ababax"], trace)


@pytest.mark.task(3)
@pytest.mark.points(3)
@pytest.mark.varies("test_longest_wins_a_tie")
@pytest.mark.visibility("visible")
def test_hidden_ties(lab):
    for stops in (["。", "了。", "好了。"], ["好了。", "。"]):
        trace = match(lab, stops, ["你好了", "。再见"])
        expect(trace.outputs, ["你", "", stops[-1] if len(stops) == 3 else stops[0]], trace)


@pytest.mark.task(3)
@pytest.mark.points(3)
@pytest.mark.varies("test_property_ends_where_a_stop_does")
@pytest.mark.visibility("after_published")
def test_hidden_exact_and_eager(lab):
    for stops in (["xyx"], ["é", "xé"], ["yxyé", "xy"], ["xxé", "xéx", "éé"]):
        cases = [(stops, list(text)) for text in small_strings("xyé", 5)]
        check_runs(lab, streams, cases)
        check_runs(lab, ends, cases)


@pytest.mark.task(4)
@pytest.mark.points(3)
@pytest.mark.varies("test_property_chunk_invariant")
def test_hidden_chunk_invariant(lab):
    stops = ["🚀!", "\nU", "!\n\nU"]
    for _ in range(6):
        text = "".join(lab.random.choices("\nU🚀!", k=12))
        shown, winner = reference(stops, text)
        for pieces in chunkings(text, lab.random):
            calls = [*(("feed", piece) for piece in pieces), "matched", ("flush",)]
            trace = lab.script(lab.new("StopStringMatcher", stops), calls)
            expect(trace.text, shown, trace)
            expect(trace.outputs[-2], winner, trace, "matched")
