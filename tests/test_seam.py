"""What crosses between tests and the code under test, and how runs are described."""

from functools import partial

import pytest

from labkit.running import drive
from labkit.running.drive import Driver, perform
from labkit.running.reporting.trace_table import drawn, trace_table
from labkit.running.source import Given, load_given
from labkit.running.trace import Call, Failure
from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Chunk,
    Malformed,
    ReasoningDelta,
    StopOutput,
    TextDelta,
    ToolCall,
)


class Counter:
    def __init__(self, by=1):
        self.by, self.count = by, 0

    def feed(self, times):
        self.count += self.by * times
        return self.count

    def again(self):
        return self.count


class Pair:
    def __init__(self, one, other):
        self.one, self.other = one, other

    def same(self):
        return self.one is self.other

    def feed(self, times):
        return self.one.feed(times)


def driver(**names):
    return Driver(partial(perform, (names | {"Counter": Counter, "Pair": Pair}).__getitem__), "0")


def test_a_recipe_is_an_argument_of_a_recipe_only():
    lab = driver()
    recipe = lab.new("Counter", 10)
    for call in (lab.call, lab.rejects):
        for wrong in (("Pair", recipe, 1), (lab.new("Pair", 1, 2), "feed", recipe)):
            with pytest.raises(TypeError, match="only the arguments of"):
                call(*wrong)
    with pytest.raises(TypeError, match="Pair: only"):
        lab.rejects("Pair", one=recipe)


def test_a_recipe_used_twice_is_one_object():
    lab = driver()
    shared, other = lab.new("Counter", 10), lab.new("Counter", 10)
    assert lab.call(lab.new("Pair", shared, shared), "same") is True
    assert lab.call(lab.new("Pair", shared, other), "same") is False
    # Each run makes it afresh.
    for _ in range(2):
        trace = lab.script(
            [lab.new("Pair", shared, other), shared],
            [("feed", 3), Call("count", None, object=1), Call("feed", (1,), object=1)],
            watch="",
        )
        assert trace.outputs == [30, 30, 40]


def test_interleaved_streams_are_apart_though_of_one_recipe():
    lab = driver()
    traces = lab.interleave([lab.new("Counter")] * 2, [[1], [10]], "again", feed="feed")
    assert [trace.outputs for trace in traces] == [[1, 1], [10, 10]]


def test_streams_may_stay_open():
    lab = driver()
    traces = lab.interleave([lab.new("Counter")] * 2, [[1], [10]], "", watch="count")
    assert [(trace.outputs, trace.held) for trace in traces] == [([1], [1]), ([10], [10])]


def test_the_code_under_test_gets_copies_of_events():
    def change(event):
        event.text = "b"

    event = Chunk("a")
    driver(change=change).call("change", event)
    assert event == Chunk("a")


def returning(value):
    return driver(made=lambda: value).call("made")


@pytest.mark.parametrize(
    "event",
    [TextDelta(1), ToolCall("0", "f", "{}"), ToolCall(True, "f", "{}"), ReasoningDelta(None),
     CallStart(0, 7, "f"), ArgsDelta(0, b"{"), CallEnd(None), Malformed(0, "", ["why"]),
     StopOutput("a", 1), StopOutput("a", True, False), StopOutput("a", True, 1.5),
     Chunk("a", [1]), Chunk("a", (1, True)), Chunk("a", (), 0)],
)  # fmt: skip
def test_an_event_with_a_field_of_another_type_does_not_cross(event):
    with pytest.raises(Failure, match=f"made returned a {type(event).__name__} whose "):
        returning(event)
    with pytest.raises(Failure, match=f"made returned a list with a {type(event).__name__} whose "):
        returning([event])


def read(*results):
    lab = Driver(partial(perform, {"A": lambda: Sayings(results)}.__getitem__), "0")
    return lab.stream(lab.new("A"), range(len(results)), end="", watch="").events


class Sayings:
    def __init__(self, results):
        self.feed = results.__getitem__


def test_what_goes_on_is_merged():
    assert read([TextDelta("a")], [], [TextDelta("b"), CallEnd(0), TextDelta("c")]) == [
        TextDelta("ab"), CallEnd(0), TextDelta("c"),
    ]  # fmt: skip
    assert read(
        [ReasoningDelta("a")], [ReasoningDelta("b"), TextDelta("b")], [ArgsDelta(0, "{")],
        [ArgsDelta(0, "}"), ArgsDelta(1, "{"), ArgsDelta(1, "}")],
    ) == [ReasoningDelta("ab"), TextDelta("b"), ArgsDelta(0, "{}"), ArgsDelta(1, "{}")]  # fmt: skip


@pytest.mark.parametrize("event", [TextDelta(""), ReasoningDelta(""), ArgsDelta(0, "")])
def test_no_delta_is_empty(event):
    with pytest.raises(Failure, match=f"feed returned an empty {type(event).__name__}"):
        read([TextDelta("a"), event])


def test_events_are_shown_in_few_words():
    stopped = [StopOutput("", True, 7), Chunk("a", (1, 2))]
    results = [StopOutput("a"), stopped, CallStart(0, None, "f")]
    lab = Driver(partial(perform, {"A": lambda: Sayings(results)}.__getitem__), "0")
    trace = lab.stream(lab.new("A"), range(3), end="", watch="")
    text = "\n".join(drawn(trace_table(trace, None), 8))
    assert "StopOutput('a')" in text
    assert "[StopOutput('', True, 7), Chunk('a', (1, 2))]" in text
    assert "CallStart(0, None, 'f')" in text


class Fails:
    def fail(self):
        raise KeyError("gone")


def test_an_error_behind_a_given_program_is_told_by_the_line_under_test():
    program = b"def fail_for(one):\n    return one.fail()\n"
    given = load_given(Given(programs=(("given.py", "given.py", program),)), "seam.given")
    lab = driver(fail=partial(given.fail_for, Fails()))
    with pytest.raises(Failure) as caught:
        lab.call("fail")
    assert caught.value.raised.line.endswith('raise KeyError("gone")')


def test_ids_of_a_vocabulary_are_shown_as_numbers():
    class Handed:
        def __init__(self, handle=None):
            self.feed = str

    lab = driver(**{"Handed": Handed, "given.handle": int})
    for new, shown in (
        (lab.new("Handed"), "feed(97 'a')"),
        (lab.new("Handed", lab.new("given.handle")), "feed(97)"),
        (lab.new("Handed", [b"a", b"?"]), "feed(97)"),
    ):
        trace = lab.stream(new, [97], end="", watch="")
        assert shown in "\n".join(drawn(trace_table(trace, None), 8))


def test_more_than_a_test_can_hold_is_refused_with_the_line_that_returned_it(monkeypatch):
    monkeypatch.setattr(drive, "_LARGE", 10)
    monkeypatch.setattr(drive, "_MOST_RETURNED", 250)

    def filled():
        return "x" * 100

    with pytest.raises(Failure) as failed:
        driver(filled=filled).script([], [Call("filled")] * 3, watch="")
    raised = failed.value.raised
    assert raised.message.startswith("filled returned 100 characters, which makes 300 in all")
    line = filled.__code__.co_firstlineno + 1
    assert raised.line == f'line {line}: return "x" * 100'
