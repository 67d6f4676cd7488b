"""Which runs go call by call, and that they are the same runs."""

import pytest

from labkit.isolation.sampling import _MOST_CALLS, Sample
from labkit.running.drive import Run, perform
from labkit.running.trace import Call, New


@pytest.mark.parametrize("calls", [2, 3, 50, _MOST_CALLS, _MOST_CALLS + 1, 1_000, 200_000])
def test_rounds_are_the_whole_run(calls):
    call_counts = Sample("seed").call_counts(calls)
    assert sum(call_counts) == calls
    assert min(call_counts) == 1
    assert len(call_counts) <= _MOST_CALLS
    assert call_counts[:15] == [1] * min(calls, 15)
    assert (len(call_counts) == calls) is (calls <= _MOST_CALLS)


def test_first_runs_and_some_of_the_others_are_in_the_sample():
    def sampled(seed, runs=5_000, calls=3):
        sample = Sample(seed)
        return [number for number in range(runs) if sample.call_counts(calls) is not None]

    assert sampled("a")[:2] == [0, 1]
    assert sampled("a") == sampled("a") != sampled("b")
    assert 10 < len(sampled("a")) <= _MOST_CALLS / 3
    # They are spread over all of a test.
    assert sampled("a")[-1] > 1_000
    # There is nothing to see ahead of one call, and a test's calls are counted.
    assert sampled("a", calls=1) == []
    assert len(sampled("a", calls=_MOST_CALLS)) == 1
    assert 1 < len(sampled("a", calls=10**6)) < 10


class Code:
    """A submission."""

    held = "h"

    def __init__(self, wrong=""):
        self.wrong = wrong

    def feed(self, text):
        if text == self.wrong == "x":
            raise KeyError(text)
        return text + "!" if text == self.wrong else text

    def grows(self, items):
        items.append(1)
        self.held = object()


@pytest.mark.parametrize("wrong", ["", "x", "b"])
def test_a_run_in_rounds_is_the_run(wrong):
    new, watch = [New("Code", (wrong,))], "held"
    calls = [Call(name, args) for name, args in
             [("feed", ("a",)), ("grows", ([2],)), ("feed", ("b",)), ("feed", ("x",)),
              ("held", None), ("feed", ("c",))]]  # fmt: skip
    resolve = {"Code": Code}.__getitem__
    whole = perform(resolve, new, calls, watch)
    run = Run(resolve, new, watch)
    for number in range(0, len(calls), 2):
        run.carry_out(calls[number : number + 2])
    assert repr(run.end()) == repr(whole)
