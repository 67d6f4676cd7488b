import pytest

from labkit.isolation import batches as batches_module
from labkit.isolation.batches import Batches
from labkit.isolation.host import WorkerError
from labkit.isolation.sampling import _MOST_CALLS, Sample
from labkit.running.drive import Driver, Run, perform
from labkit.running.result_kind import ResultKind
from labkit.running.shrink import ahead, check
from labkit.running.trace import Call, Failure, New
from labkit.testing import expect

# Which runs go call by call.


@pytest.mark.parametrize("calls", [2, 3, 50, _MOST_CALLS, _MOST_CALLS + 1, 1_000, 200_000])
def test_parts_are_the_whole_run(calls):
    parts = Sample("seed").parts(calls)
    assert sum(parts) == calls
    assert min(parts) == 1
    assert len(parts) <= _MOST_CALLS
    assert parts[:15] == [1] * min(calls, 15)
    assert (len(parts) == calls) is (calls <= _MOST_CALLS)


def test_first_runs_and_some_of_the_others_are_in_the_sample():
    def sampled(seed, runs=5_000, calls=3):
        sample = Sample(seed)
        return [number for number in range(runs) if sample.parts(calls) is not None]

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
def test_a_run_in_parts_is_the_run(wrong):
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


# Runs of many cases at once.


class Pipe:
    """A host without a process: it notes the runs in their order, and how they were sent."""

    def __init__(self, dies_of=None):
        self.sample = Sample("seed")
        self.alone = False
        self.dies_of = dies_of
        self.runs = []
        self.trips = self.in_parts = 0

    def _one(self, new, calls, watch):
        self.runs.append(repr((new, calls)))
        if self.dies_of is not None and any(call.args == (self.dies_of,) for call in calls):
            raise WorkerError(ResultKind.RAISED, "it died")
        return perform({"Code": Code}.__getitem__, new, calls, watch)

    def perform(self, *plan):
        self.trips += 1
        return self._one(*plan)

    def perform_in_parts(self, plan, parts):
        assert sum(parts) == len(plan[1])
        self.in_parts += 1
        return self.perform(*plan)

    def perform_all(self, plans):
        self.trips += 1
        return [self._one(*plan) for plan in plans]

    def load(self):
        return None


def outcome(test, pipe, *, batched, seed="s"):
    """Return how a test ends and what it drew, without batches and with them."""
    batches = Batches(pipe)
    lab = Driver(batches.perform if batched else pipe.perform, seed)
    batches.random = lab.random
    token = ahead.set(batches.cases if batched else None)
    try:
        test(lab)
    except Failure as failure:
        ended = (str(failure), failure.call, failure.shrunk, repr(failure.trace))
    except Exception as error:
        ended = repr(error)
    else:
        ended = "passed"
    finally:
        ahead.reset(token)
    return ended, lab.random.random()


def same_rule(lab, wrong="", end=""):
    def rule(text):
        trace = lab.stream(lab.new("Code", wrong), list(text), end=end)
        expect(trace.text, text, trace)

    return rule


TEXTS = [f"{number:03}" for number in range(700)]


CHECKS = {
    "passes": (lambda lab: check(same_rule(lab), TEXTS), None),
    "fails-at-once": (lambda lab: check(same_rule(lab, "0"), TEXTS), None),
    "fails-amid": (lambda lab: check(same_rule(lab, "b"), [*TEXTS[:400], "abc", *TEXTS]), None),
    "raises-at-the-end": (lambda lab: check(same_rule(lab, "x"), [*TEXTS, "wx"]), None),
    "dies": (lambda lab: check(same_rule(lab), [*TEXTS[:50], "abc"]), "b"),
    "fails-before-it-dies": (
        lambda lab: check(same_rule(lab, "b"), [*TEXTS[:50], "b", "y", "z"]), "z",
    ),
    "lacks-a-method": (lambda lab: check(same_rule(lab, end="gone"), TEXTS), None),
    "is-no-case": (lambda lab: check(same_rule(lab), [*TEXTS[:9], 7, *TEXTS]), None),
    "makes-no-case": (lambda lab: check(same_rule(lab), (str(9 // n) for n in (2, 1, 0))), None),
    "no-cases": (lambda lab: check(same_rule(lab), iter(())), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_ends_as_it_does_case_by_case(name):
    test, dies_of = CHECKS[name]
    alone, at_once = Pipe(dies_of), Pipe(dies_of)
    assert outcome(test, at_once, batched=True) == outcome(test, alone, batched=False)
    assert at_once.trips <= alone.trips + 1
    if dies_of is None and not alone.alone:
        # The same runs in the same order; a batch may hold some that come after a failure.
        assert set(alone.runs) <= {*at_once.runs}
        order = [run for run in at_once.runs if run in {*alone.runs}]
        assert [*dict.fromkeys(order)] == [*dict.fromkeys(alone.runs)]


def test_many_cases_make_few_round_trips():
    pipe = Pipe()
    assert outcome(lambda lab: check(same_rule(lab), TEXTS), pipe, batched=True)[0] == "passed"
    assert len(pipe.runs) == len(TEXTS)
    assert pipe.trips < 80
    # The first goes through `perform`, which looks at the sample itself.
    sample = Sample("seed")
    assert pipe.in_parts == sum(sample.parts(3) is not None for _ in TEXTS[1:])


@pytest.mark.parametrize("most", [1, 5, 10**9])
def test_a_batch_has_so_many_calls(most, monkeypatch):
    monkeypatch.setattr(batches_module, "_MOST_CALLS", most)
    pipe = Pipe()
    assert outcome(lambda lab: check(same_rule(lab), TEXTS), pipe, batched=True)[0] == "passed"
    assert len(pipe.runs) == len(TEXTS)


def two_runs(lab):
    def rule(text):
        for _ in range(2):
            same_rule(lab)(text)

    check(rule, TEXTS[:50])


def draws(lab):
    def rule(text):
        same_rule(lab)(text + lab.random.choice("abc"))

    check(rule, (text + lab.random.choice("abc") for text in TEXTS[:50]))


def draws_now_and_then(lab):
    def rule(text):
        same_rule(lab)(text + (lab.random.choice("abc") if text[-1] == "7" else ""))

    check(rule, TEXTS[:50])


@pytest.mark.parametrize("test", [two_runs, draws, draws_now_and_then])
def test_a_rule_of_many_runs_or_that_draws_makes_them_case_by_case(test):
    alone, at_once = Pipe(), Pipe()
    assert outcome(test, at_once, batched=True) == outcome(test, alone, batched=False)
    assert alone.runs == at_once.runs
