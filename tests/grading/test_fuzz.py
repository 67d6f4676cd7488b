"""Whatever a worker says is a trace or an error, and whatever is in a trace is told in few words.

`make soak` tries a hundred thousand answers; here are some of them.
"""

import json
import os
import random

import pytest

from labkit.course import manifest
from labkit.isolation.host import Host, Sources, WorkerError
from labkit.running.remote.wire import HEAD, MOST_BYTES, MOST_VALUES, WireError, pack
from labkit.running.reporting.explain import WIDTH, explain
from labkit.running.reporting.showing import show_pair
from labkit.running.result_kind import ResultKind
from labkit.running.score import classify
from labkit.running.trace import Call, Failure, New, Raised, Step, Trace, Unreadable, written
from labkit.testing import expect, expect_untouched
from mini_vllm.text.events import ArgsDelta, Chunk, StopOutput, TextDelta, ToolCall

FRAMES = 100_000 if os.environ.get("SOAK") else 500
PLAN = [New("A", ("x",))], [Call("feed", ("a",)), Call("held", None), Call("flush", ())], "held"
TEXTS = [
    "",
    "a",
    "\n" * 90,
    "é🚀" * 40,
    "\ud800\x1b[31m\u202e",
    "x" * 5_000,
    "- " * 3_000,
    "\0" * 700,
]
ATOMS = [
    *TEXTS, 0, -1, 255, 2**53, 10**30, 10**4_000, -(10**5_000), True, None, b"", b"\xf0" * 2_000,
    TextDelta(""), TextDelta("é" * 3_000), ToolCall(10**40, "f\n", "{}" * 4_000),
    ArgsDelta(0, "{"), ArgsDelta(10**30, "\n" * 90), StopOutput("é" * 90, True, 10**40),
    Chunk("\n" * 90, (1,) * 300, "stop"),
]  # fmt: skip
KINDS = ["KeyError", "NotImplementedError", "no name", ""]
TAGS = [
    "int", "octets", "bytes", "tuple", "dict", "text", "call", "event", "unreadable", "?", "events",
]  # fmt: skip
HOSTILE = [*TEXTS, 1.5, {}, [], [[]] * 300, 10**400, -(2**63), "0x" + "f" * 9_000, [1] * 70, "é"]


class Fed(Host):
    """A host whose worker answers each request with the next frame of a list."""

    def __init__(self, frames, most):
        super().__init__(None, Sources("m", {"m": ("m.py", "m.py", b"")}))
        self._worker = self
        self.frames, self.left, self.most, self.count = frames, b"", most, 0
        self.begin(1)

    def _measure(self, limit):
        pass

    def _write(self, frame):
        self.left += self.frames.pop(0) if self.frames else b""

    def _read(self):
        if not self.left:
            raise WorkerError(ResultKind.RAISED, "it said no more")
        data, self.left = self.left[: self.most], self.left[self.most :]
        self.most = 1 << 18
        self.count += len(data)
        return data

    def close(self):
        self._worker = None


def value(draw, depth=0):
    """Return a value such as a submission may return."""
    if depth == 3 or draw.random() < 0.6:
        return draw.choice(ATOMS if draw.random() < 0.1 else ATOMS[:2])
    items = [value(draw, depth + 1) for _ in range(draw.choice([0, 1, 2, 4]))]
    return draw.choice(
        [items, tuple(items), items * 20, {draw.choice(TEXTS): one for one in items}]
    )


def answers(draw, in_rounds):
    """Return what a worker answers that follows the protocol, by and large."""
    count = draw.choice([0, 2, *[3] * 9])
    results, held = [value(draw) for _ in range(count)], [value(draw) for _ in range(count)]
    raised = [draw.choice(KINDS), *draw.choices(TEXTS, k=3)] if draw.random() < 0.3 else None
    changed = draw.choices(TEXTS, k=draw.choice([0, 0, 1, 30]))
    first, why = draw.choice([1] * 20 + [2]), draw.choice([None] * 30 + ["", "x" * 9_000])
    if in_rounds:
        return [
            [first, why, results, held, raised],
            [2, None, *[changed] * draw.choice([1] * 19 + [0, 2])],
        ]
    return [[first, why, results, held, raised, changed]]


def altered(draw, told):
    """Return JSON in which one value is another, or has a tag."""
    if isinstance(told, list) and told and draw.random() < 0.9:
        place = draw.randrange(len(told))
        return [*told[:place], altered(draw, told[place]), *told[place + 1 :]]
    if isinstance(told, dict) and draw.random() < 0.7:
        return {key: altered(draw, item) for key, item in told.items()}
    other = draw.choice(HOSTILE)
    return draw.choice([other, {draw.choice(TAGS): told}, {draw.choice(TAGS): other}, [told, told]])


def framed(draw, told):
    """Return the bytes of an answer: as they should be, or altered in a value, a byte, a length."""
    try:
        body = pack(told)[HEAD.size :]
    except WireError:
        body = b"[1"
    how = draw.choice([0, 0, 0, 0, 1, 1, 2, 3, 4])
    if how in (1, 2) and len(body) > 2:
        for _ in range(how):
            body = json.dumps(altered(draw, json.loads(body))).encode()
    if how == 3:
        place = draw.randrange(len(body))
        other = bytes(draw.choices(b'[]{}",:0e\\u\x00\xff', k=2))
        body = body[:place] + other + body[place + draw.randrange(3) :]
    lengths = [len(body) - 1, len(body) + 1, MOST_BYTES + 1, 2**32 - 1]
    length = draw.choice(lengths) if how == 4 else len(body)
    data = HEAD.pack(length, draw.choice([0] * 19 + [1])) + body
    return draw.choice([data] * 19 + [data * 2, data[: draw.randrange(99)]])


def size(told):
    """Return how many values something holds."""
    if isinstance(told, dict):
        return size([*told, *told.values()])
    return 1 + sum(map(size, told)) if isinstance(told, list | tuple) else 1


def failures(trace):
    """Yield the failures to which tests come that look at a trace."""
    for look in (
        lambda: expect(trace.outputs, ["a", "b"], trace),
        lambda: expect(trace.held, [{"a": "b"}] * 3, trace, "held"),
        lambda: expect(trace.text, "é" * 9_000, trace),
        lambda: expect(trace.events, [TextDelta("a")], trace),
        lambda: expect([step.result for step in trace.steps], 10**4_000, trace, "first", 0),
        lambda: expect_untouched(trace),
    ):
        try:
            look()
        except Failure as failure:
            yield failure


def assert_told(failure):
    """Check that a report of a failure fits on a page, and into a file."""
    result = classify(failure)
    assert result.message.strip()
    told = explain(manifest.Test("test_it", "A rule.", 1, 5, None, frozenset()), result)
    assert told.count("\n") < 80
    for line in told.splitlines():
        assert len(line.encode()) < 12 * WIDTH
        assert line.isprintable()


def test_a_worker_says_what_it_likes():
    draw = random.Random(0)
    traces, told = 0, set()
    for number in range(FRAMES):
        in_rounds = draw.random() < 0.4
        frames = [framed(draw, one) for one in answers(draw, in_rounds)]
        host = Fed(frames, draw.choice([1, 9, 1 << 18]))
        try:
            trace = host.perform_in_rounds(PLAN, [3]) if in_rounds else host.perform_at_once(PLAN)
        except WorkerError as error:
            told.add((error.kind, 0 < len(str(error)) < 5_000))
            continue
        traces += 1
        assert size([step[1:] for step in trace.steps]) <= MOST_VALUES
        assert host.count <= MOST_BYTES + (1 << 18)
        if number % 10 == 0:
            for failure in failures(trace):
                assert_told(failure)
    assert told == {("raised", True)}
    assert FRAMES / 10 < traces < FRAMES * 0.9


LARGE = {
    "text": "x" * 300_000,
    "dashes": "a-" * 100_000,
    "spaces": " " * 200_000,
    "lines": "\n" * 200_000,
    "controls": "\x1b\u202e" * 60_000,
    "surrogates": "\ud800" * 60_000,
    "bytes": bytes(200_000),
    "number": 10**5_000,
    "numbers": [10**4_000] * 300,
    "list": [""] * 20_000,
    "calls": [ToolCall(1, "f" * 1_000, "\n" * 1_000)] * 900,
    "outputs": [StopOutput("f" * 1_000, True, "\n" * 1_000)] * 900,
    "chunk": Chunk("", tuple(range(100_000))),
    "layers": {str(number) * 50: "held" for number in range(256)},
    "deep": json.loads("[" * 90 + "]" * 90),
    "unreadable": Unreadable("type", "x" * 4_000, "", "held"),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_large_is_told_in_few_words(name):
    one = LARGE[name]
    steps = [Step(Call("feed", ("a",)), one, one)] * 3 + [Step(Call("matched", None), "a", one)]
    for raised in (None, Raised("KeyError", "x\n" * 2_000, "line 1: " + "-" * 3_900, "f" * 4_000)):
        for failure in failures(Trace((New("A"),), steps, raised, ["x" * 4_000])):
            assert_told(failure)
    assert len(written(one, 50)) <= 51
    assert max(map(len, show_pair(one, [one]))) < 400


@pytest.mark.parametrize(
    "value",
    ["it's", b"\0\"'", [], [1, (2,), ()], (1, 2), {"a": {1: b""}}, TextDelta("'"), None, 10**4_000,
     [ToolCall(3, "f", "{}"), True], -(10**30), StopOutput("a", True, 7), Chunk("", (1, 2))],
)  # fmt: skip
def test_what_is_small_is_written_as_python_does(value):
    assert written(value) == repr(value)
