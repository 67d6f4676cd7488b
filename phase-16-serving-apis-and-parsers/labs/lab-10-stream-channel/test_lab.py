"""Lab 10: the stream channel. Each docstring states the rule that its test checks.

Fixed cases come first, then cases drawn from the seed: `LAB_SEED=1 make lab N=10` draws others.
"""

import asyncio
import itertools
from collections import deque

import pytest

from labkit.testing import (
    Call,
    Failure,
    check,
    expect,
    expect_in,
    expect_most,
    show,
)
from mini_vllm.text.events import Chunk

REASONS = ["stop", "length", "tool_calls", "error"]
POP, FINISH, CANCEL, RUN = ("try_pop",), ("finish", "stop"), ("cancel",), ("run",)
STATE, TURN, GIVE_UP = ("state",), ("turn",), ("give_up",)
# More than any test writes, except the tests of the limit.
PLENTY = 1_000
# A method that runs more lines than this is interrupted at so many of them, drawn at random.
MOST_LINES = 60


class Model:
    """A channel and its reader in their simplest form, with the method names of `given.Ends`."""

    timers = 0

    def __init__(self, max_pending):
        self.max_pending = max_pending
        self.waiting = []
        self.pushed = []
        self.state = "open"
        self.drained = False
        self.reader = "reads"
        self.left = 0

    def push(self, text, *token_ids):
        """Append a chunk, joined with the last one if there is no room."""
        self.pushed.append(Chunk(text, token_ids))
        if self.state != "open":
            return False
        if len(self.waiting) == self.max_pending:
            last = self.waiting.pop()
            text, token_ids = last.text + text, last.token_ids + token_ids
        self.waiting.append(Chunk(text, token_ids))
        return True

    def finish(self, reason, state="finished"):
        """Append the terminal chunk, once."""
        if self.state != "open":
            return False
        self.waiting.append(Chunk("", (), reason))
        self.state = state
        return True

    def cancel(self):
        """Do the same, from the other end."""
        self.finish("cancelled", "cancelled")

    def try_pop(self):
        """Take the first chunk."""
        chunk = self.waiting.pop(0) if self.waiting else None
        self.drained = self.drained or (chunk is not None and chunk.finish_reason is not None)
        return chunk

    def read(self, count=0, then="ended"):
        """Begin to read so many chunks, or all."""
        self.reader, self.left, self.then = "reads", count or PLENTY, then

    read_some = read_and_close = read

    def read_and_raise(self, count, kind=""):
        """Begin to read so many chunks, and then to raise."""
        self.read(count, "raised")

    def read_and_stay(self, count):
        """Begin to read so many chunks, and then to stay in the block."""
        self.reader, self.left, self.then = "reads", count, "stays"

    def read_in_waits(self):
        """Begin to read all: a wait that is given up takes nothing."""
        self.read()

    def read_with_pings(self, seconds):
        """Begin to read all: a ping takes nothing."""
        self.read()

    def call_reader(self):
        """Call `reader`, which changes nothing."""

    def give_up(self):
        """Give up a wait, which changes nothing."""

    def wait(self, seconds):
        """Let time pass, which changes nothing."""

    def turn(self):
        """Run for a moment; the next `run` returns the chunks that the reader took."""

    def cancel_task(self):
        """Have the reader leave when it runs next."""
        self.left, self.then = 0, "cancelled"

    def close_loop(self):
        """Make the reader disappear."""
        self.cancel()

    def run(self):
        """Return the chunks that the reader takes."""
        received = []
        while self.reader == "reads" and self.left and self.waiting:
            received += self.step()
        return received + self.step()

    def step(self):
        """Return the chunk that the reader takes; without one it leaves, ends or sleeps."""
        if self.reader != "reads":
            return []
        if self.left and self.waiting:
            self.left -= 1
            return [self.try_pop()]
        if not self.left and self.then != "stays":
            self.reader = self.then
            self.cancel()
        elif self.left and self.drained:
            self.reader = "ended"
        return []

    def push_refused(self, text, token_id, finish_reason):
        """Refuse a terminal chunk, which changes nothing."""
        return "ValueError"

    def answers(self, calls):
        """Return what each call returns; a name alone is an attribute."""
        steps = [(call, ()) if isinstance(call, str) else (call[0], call[1:]) for call in calls]
        return [self._answer(name, args) for name, args in steps]

    def _answer(self, name, args):
        value = getattr(self, name)
        return value(*args) if callable(value) else value


def ends(lab, max_pending):
    """Describe both ends of a new channel."""
    return lab.new("given.Ends", lab.new("Channel", max_pending))


def follows(lab, max_pending, calls, what=""):
    """Every call must return what the model returns."""
    calls = [*calls]
    names = (call if isinstance(call, str) else call[0] for call in calls)
    if not all(hasattr(Model(1), name) for name in names):
        return
    trace = lab.script(ends(lab, max_pending), calls, watch="")
    expect(trace.outputs, Model(max_pending).answers(calls), trace, what)


def obeys(lab, max_pending, cases):
    """Every one of the lists of calls must be followed."""
    check(lambda calls: follows(lab, max_pending, calls), cases)


def drawn(lab, case, count=12):
    """Draw cases: what `case` makes of the generator."""
    return [case(lab.random) for _ in range(count)]


def a_push(random):
    """Draw a push: some text and a few ids."""
    text = "".join(random.choices("abcdefghij 你🚀", k=random.choice([1, 1, 2, 3])))
    return ("push", text, *random.choices(range(100_000), k=random.choice([1, 1, 1, 2, 4])))


def a_finish(random):
    """Draw an end."""
    return ("finish", random.choice(REASONS))


def pushes(random, least=2, most=7):
    """Draw some pushes."""
    return [a_push(random) for _ in range(random.randint(least, most))]


def bare(random, calls):
    """Return the pushes with some texts and some ids left out."""
    return [
        (name, random.choice(["", text]), *random.choice([(), ids])) for name, text, *ids in calls
    ]


def mixed(random, *lists):
    """Draw one order of all calls that keeps the order within each list."""
    turns = [number for number, calls in enumerate(lists) for _ in calls]
    random.shuffle(turns)
    left = [deque(calls) for calls in lists]
    return [left[number].popleft() for number in turns]


def orders(first, second):
    """Yield every order of all calls that keeps the order within both lists."""
    length = len(first) + len(second)
    for places in itertools.combinations(range(length), len(first)):
        left, right = iter(first), iter(second)
        yield [next(left) if n in places else next(right) for n in range(length)]


def stay_apart(lab, case):
    """Two channels that are used in turns must return the same as each alone."""

    def rule(case):
        calls = [
            ("on", number, *([step] if isinstance(step, str) else step)) for number, step in case
        ]
        both = lab.new("given.Several", ends(lab, 2), ends(lab, 1))
        trace = lab.script(both, calls, watch="")
        models = Model(2), Model(1)
        wanted = [models[number].answers([step])[0] for number, step in case]
        expect(trace.outputs, wanted, trace)

    def pair(random):
        own = ([(number, step) for step in case(random)] for number in range(2))
        return mixed(random, *own)

    check(rule, drawn(lab, pair))


def some_pops(random, calls):
    """Return as many reads as can have something to read, and one or two more."""
    return [POP] * (len(calls) + random.randint(1, 2))


# Task 1


@pytest.mark.given
def test_naive_queue_loses_the_end():
    """A bounded queue that drops what does not fit loses text, and may lose the end."""
    waiting, limit = deque(), 2
    for chunk in (Chunk("a", (1,)), Chunk("b", (2,)), Chunk("c", (3,)), Chunk("", (), "stop")):
        if len(waiting) < limit:
            waiting.append(chunk)
    assert [*waiting] == [Chunk("a", (1,)), Chunk("b", (2,))]


@pytest.mark.given
def test_naive_event_leaves_its_loop_asleep(lab):
    """An `asyncio.Event` that another thread sets does not wake the event loop of its waiter."""

    class Naive:
        def __init__(self):
            self.chunks, self.news = [], asyncio.Event()

        def push(self, chunk):
            self.chunks.append(chunk)
            self.news.set()

        def reader(self):
            return self

        async def __aenter__(self):
            return self

        async def __aexit__(self, *error):
            pass

        def __aiter__(self):
            return self

        async def __anext__(self):
            while not self.chunks:
                self.news.clear()
                await self.news.wait()
            return self.chunks.pop(0)

    both = lab.given.Ends(Naive())
    both.read()
    both.run()
    both.push("a", 1)
    assert both.run() == []
    both.wait(0)
    assert both.run() == [Chunk("a", (1,))]


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_chunks_come_in_order(lab):
    """Chunks are read in the order in which they were pushed, each with its text and its ids. If
    no chunk is unread, try_pop returns None.
    """
    fixed = [("push", "a", 1), ("push", "b", 2, 3), POP, POP, POP]

    def case(random):
        calls = pushes(random)
        return [*calls, *some_pops(random, calls)]

    obeys(lab, PLENTY, [fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_a_chunk_is_there_at_once(lab):
    """eager: a chunk can be read as soon as it has been pushed, and push returns True. No two
    chunks are joined while there is room.
    """
    fixed = [POP, ("push", "a", 1), POP, POP, ("push", "b", 2), ("push", "c", 3), POP, POP]

    def case(random):
        calls = pushes(random, 3, 9)
        return mixed(random, calls, some_pops(random, calls))

    obeys(lab, PLENTY, [fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_chunks_without_text_are_kept(lab):
    """A chunk without text is kept: its ids count, for usage and for logprobs. A chunk without ids
    is kept as well, and so is a chunk without text and ids.
    """
    fixed = [("push", "", 1), ("push", "a"), ("push", ""), ("push", "", 3, 4), *[POP] * 5]

    def case(random):
        calls = bare(random, pushes(random))
        return mixed(random, calls, some_pops(random, calls))

    obeys(lab, PLENTY, [fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(4)
def test_finish_comes_last(lab):
    """finish adds the terminal chunk after every unread chunk: no text, no ids, and the reason. It
    returns True.
    """
    fixed = [[FINISH, POP], [("push", "a", 1), ("push", "b", 2), ("finish", "length"), *[POP] * 4]]

    def case(random):
        calls = [*pushes(random), a_finish(random)]
        return mixed(random, calls, some_pops(random, calls))

    obeys(lab, PLENTY, [*fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_first_reason_stays(lab):
    """The first end stays: a second finish returns False and adds nothing, whether or not the
    terminal chunk has been read.
    """
    fixed = [
        [FINISH, ("finish", "length"), POP, POP],
        [("push", "a", 1), FINISH, POP, ("finish", "stop"), POP, ("finish", "error"), POP],
    ]

    def case(random):
        calls = [*pushes(random), *(a_finish(random) for _ in range(random.randint(2, 4)))]
        return mixed(random, calls, some_pops(random, calls))

    obeys(lab, PLENTY, [*fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_nothing_comes_after_the_end(lab):
    """Once the channel has ended, push returns False and its chunk is never read, whether or not
    the terminal chunk has been read.
    """
    fixed = [
        [FINISH, ("push", "a", 1), POP, POP],
        [("push", "a", 1), FINISH, ("push", "b", 2), POP, POP, POP, ("push", "c", 3), POP],
    ]

    def case(random):
        calls = [*pushes(random), a_finish(random), *pushes(random)]
        return mixed(random, calls, some_pops(random, calls))

    obeys(lab, PLENTY, [*fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(1)
def test_state_tells_the_end(lab):
    """`state` is "open" until finish, whatever has been read, and then "finished", whatever the
    reason is: it may be "cancelled", or empty.
    """
    fixed = [
        ["state", ("push", "a", 1), "state", FINISH, "state", POP, POP, "state"],
        *([("finish", reason), "state", FINISH, POP, "state"] for reason in ("cancelled", "")),
    ]

    def case(random):
        calls = [*pushes(random), a_finish(random), *pushes(random, 0, 2)]
        return mixed(random, calls, some_pops(random, calls), ["state"] * random.randint(4, 7))

    obeys(lab, PLENTY, [*fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_push_refuses_a_terminal_chunk(lab):
    """Only finish ends a channel. A push of a chunk whose finish_reason is not None raises a
    ValueError whose message contains the reason, even if the reason is empty or the channel has
    ended. The refused chunk is never read, and the channel stays as it is.
    """
    a, b = (("push", text, ord(text)) for text in "ab")

    def rule(case):
        before, text, reason = case
        if reason not in reasons:
            raise ValueError("the beginning of a reason, in a case that is made smaller")
        # A chunk without a reason is accepted.
        follows(lab, PLENTY, [("push", text, 1), POP])
        message = lab.rejects(ends(lab, PLENTY), "push", text, 1, finish_reason=reason)
        expect_in(reason, message, f"push(Chunk({text!r}, (1,), {reason!r}))")
        refused = ("push_refused", text, 1, reason)
        calls = [*before, refused, "state", b, FINISH, *[POP] * (len(before) + 3)]
        trace = lab.script(ends(lab, PLENTY), calls, watch="")
        got = [
            "ValueError" if call == refused and type(answer) is str else answer
            for call, answer in zip(calls, trace.outputs, strict=True)
        ]
        wanted = Model(PLENTY).answers(calls)
        pairs = zip(got, wanted, strict=True)
        at = next((number for number, (one, other) in enumerate(pairs) if one != other), None)
        expect(got, wanted, trace, "the result of each call", at)

    fixed = [([], "a", "stop"), ([a], "", "length"), ([a], "a", ""), ([a, FINISH], "", "stop")]

    def case(random):
        before = [*pushes(random, 0, 3), *[a_finish(random)] * random.randint(0, 1)]
        return before, "x", "".join(random.choices("xyzuvw", k=7))

    cases = [*fixed, *drawn(lab, case, 6)]
    reasons = {reason for _, _, reason in cases}
    check(rule, cases)


# Task 2


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_full_channel_grows_its_last_chunk(lab):
    """If max_pending chunks are unread, a push adds its text and its ids to the last of them, and
    returns True. Nothing is lost, and the earlier chunks stay as they are. A max_pending below 1
    raises a ValueError.
    """
    four = [("push", "a", 1), ("push", "b", 2), ("push", "", 3, 4), ("push", "d")]
    for max_pending in (1, 2, 3):
        follows(lab, max_pending, [*four, *[POP] * 4])

    def case(random):
        calls = bare(random, pushes(random, 4, 12))
        return [*calls, *[POP] * 5]

    for max_pending in (1, 2, 4):
        obeys(lab, max_pending, drawn(lab, case, 6))
    for max_pending in (0, -lab.random.randint(1, 9)):
        lab.rejects(lab.new("Channel", max_pending))


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_terminal_chunk_has_its_own_place(lab):
    """The terminal chunk is in addition to max_pending chunks. It is empty, and no unread chunk
    carries the reason in its place.
    """
    follows(lab, 1, [("push", "a", 1), FINISH, POP, POP, POP])
    follows(lab, 2, [*[("push", "a", 1)] * 3, ("finish", "length"), *[POP] * 4])

    def case(random):
        calls = [*pushes(random, 3, 9), a_finish(random), *pushes(random, 0, 2)]
        return [*calls, *[POP] * 5]

    for max_pending in (1, 2, 3):
        obeys(lab, max_pending, drawn(lab, case, 6))


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_a_read_makes_room(lab):
    """A read makes room: the next push is a chunk of its own again."""
    a, b, c, d = (("push", text, ord(text)) for text in "abcd")
    follows(lab, 1, [a, POP, b, c, POP, d, POP, POP])
    follows(lab, 2, [a, b, c, POP, d, POP, POP, POP])

    def case(random):
        calls = pushes(random, 6, 14)
        return mixed(random, calls, [POP] * (len(calls) // 2))

    for max_pending in (1, 2, 3):
        obeys(lab, max_pending, drawn(lab, case, 6))


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_chunks_stay_as_they_are(lab):
    """append-only: a chunk that has been pushed or read never changes, because the writer or the
    reader may still hold it. A chunk that grows is a new object.
    """

    a, b, c = (("push", text, ord(text)) for text in "abc")

    def case(random):
        calls = pushes(random, 4, 9)
        return [*mixed(random, calls, [POP] * 3), "pushed"]

    fixed = [[a, b, POP, "pushed"], [a, POP, b, c, "pushed", POP]]
    obeys(lab, 1, [*fixed, *drawn(lab, case)])


@pytest.mark.task(2)
@pytest.mark.points(4)
def test_cancel_ends_the_channel(lab):
    """cancel returns None and ends the channel: the next push returns False, and so does finish.
    Unread chunks can still be read, then the terminal chunk with the reason "cancelled". `state`
    is "cancelled".
    """
    fixed = [
        [CANCEL, ("push", "a", 1), FINISH, POP, POP, "state"],
        [("push", "a", 1), CANCEL, "state", ("push", "b", 2), POP, POP, POP],
    ]

    def case(random):
        calls = [*pushes(random), CANCEL, *pushes(random, 1, 2), a_finish(random), "state"]
        return mixed(random, calls, [POP] * random.randint(3, 9))

    obeys(lab, 2, [*fixed, *drawn(lab, case)])


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_first_of_finish_and_cancel_wins(lab):
    """The first end stays, whether by finish or by cancel: cancel after finish changes neither the
    reason nor `state`, and a second cancel changes nothing.
    """
    fixed = [
        [FINISH, CANCEL, "state", POP, POP],
        [CANCEL, CANCEL, FINISH, "state", POP, CANCEL, POP],
        [FINISH, POP, CANCEL, "state", POP],
        [("push", "a", 1), ("push", "b", 2), FINISH, CANCEL, "state", *[POP] * 4],
    ]

    def case(random):
        writer = [*pushes(random), a_finish(random), *pushes(random, 0, 1)]
        others = [CANCEL] * random.randint(1, 3)
        return mixed(random, writer, others, [POP] * 6, ["state"] * 4)

    obeys(lab, 2, [*fixed, *drawn(lab, case)])


@pytest.mark.task(2)
@pytest.mark.points(3)
def test_property_every_order(lab):
    """complete, honest, total: in every order of a writer's and a reader's calls, each call returns
    the correct value.
    """
    writer = [("push", "a", 1), ("push", "b", 2), ("push", "c", 3), ("finish", "stop"), "state"]
    readers = [[POP] * 4, [POP, CANCEL, POP, POP], [CANCEL, POP, "state", CANCEL]]
    for max_pending, reader in [*((1, reader) for reader in readers), (2, readers[1])]:
        obeys(lab, max_pending, orders(writer, reader))
    own = [a_push(lab.random), a_push(lab.random), a_finish(lab.random), a_push(lab.random)]
    obeys(lab, 1, orders(own, [POP, CANCEL, POP, POP, "state"]))


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_property_long_streams(lab):
    """complete, chunk-invariant: however the reader's pace changes, and wherever the stream ends,
    the reader gets all text and all ids that were pushed while the channel was open.
    """

    def case(random):
        writer = [*pushes(random, 10, 40), random.choice([a_finish(random), CANCEL])]
        reader = [POP] * random.randint(3, len(writer))
        return [*mixed(random, writer, reader), *pushes(random, 0, 2), *[POP] * 6]

    for max_pending in (1, 2, 3, 5):
        obeys(lab, max_pending, drawn(lab, case, 10))


@pytest.mark.task(2)
@pytest.mark.points(2)
def test_property_isolated(lab):
    """isolated: two channels that are used in turns return the same as each alone."""

    def case(random):
        return [*mixed(random, [*pushes(random), a_finish(random)], [POP] * 4), "state"]

    stay_apart(lab, case)


@pytest.mark.task(2)
@pytest.mark.points(4)
@pytest.mark.timeout(1.5)
def test_property_linear(lab):
    """linear: a push takes the same time however much is unread, in one chunk or in many, and so
    does a read: some 10,000 chunks that are joined, and 150,000 unread chunks, finish well within
    the time limit. A chunk that has been read is not kept, nor are the parts of one that grew.
    """
    for max_pending, least in ((1, 10_000), (10**6, 1_000)):
        count = lab.random.randint(least, least + 2_000)
        calls = [("push_many", count), FINISH, ("pop_many", count + 2)]
        many = lab.script(ends(lab, max_pending), calls, "")
        call = f"{count:,} pushes with max_pending={max_pending:,}, then reads"
        expect(many.outputs[0], count, call, "pushes that returned True")
        chunks = 2 if max_pending == 1 else count + 1
        wanted = chunks, 1_000 * count, count * (count - 1) * 10
        names = ("chunks read", "characters read", "the sum of the ids read")
        for name, actual, right in zip(names, many.outputs[-1], wanted, strict=True):
            expect(actual, right, call, name)
    count = 150_000
    calls = [("push_small", count), ("pop_small", count + 1)]
    many = lab.script(ends(lab, 10**6), calls, "")
    call = f"{count:,} pushes with max_pending=1,000,000, then reads"
    expect(many.outputs, [count, count], call, "pushes that returned True, and chunks read")
    for max_pending, at_once in ((2, 1), (1, 3)):
        references = lab.call(ends(lab, max_pending), "keeps", 51, at_once)
        call = f"51 pushes with max_pending={max_pending}, read after every {at_once}"
        expect_most(references, 1, call, "of the chunks still referenced")


# The calls after a race, and the words for all results.
AFTER = [*[POP] * 5, STATE]
AFTER_READING = [RUN, ("reader",), *AFTER]


def outcomes(max_pending, before, first, second, after):
    """Return the results of the calls in every order of those of `first` and those of `second`.

    While an event loop runs, a call of the other thread may fall between any two reads.
    """
    most = sum(call[0] in ("push", "finish", "cancel") for call in [*before, *first, *second]) + 2
    threads = [
        [
            (thread, number, step)
            for number, call in enumerate(calls)
            for step in ([("step",)] * most if call == RUN else [call])
        ]
        for thread, calls in enumerate((first, second))
    ]
    return [_outcome(Model(max_pending), before, order, after) for order in orders(*threads)]


def _outcome(model, before, order, after):
    model.answers(before)
    results = {}, {}
    for thread, number, step in order:
        (result,) = model.answers([step])
        if step == ("step",):
            result = results[thread].get(number, []) + result
        results[thread][number] = result
    return [*([*own.values()] for own in results), model.answers(after)]


def race(lab, max_pending, before, first, second, after=AFTER, allowed=None):
    """Interrupt `first` by `second` at every line: each outcome must be that of some order, or one
    of those that are `allowed`.
    """
    lines = lab.call(a_race(lab, max_pending, None), "lines", before, first)
    points = range(lines)
    if lines > MOST_LINES:
        points = sorted(lab.random.sample(points, MOST_LINES))
    races = lab.new("given.Races", *(a_race(lab, max_pending, point) for point in points))
    (results,) = lab.script(races, [("run", before, first, second, after)], watch="").outputs
    right = allowed or outcomes(max_pending, before, first, second, after)
    wrong = [point for point, result in zip(points, results, strict=True) if result not in right]

    def rule(case):
        point, before, first, second = case
        if not first or not second:
            raise ValueError("no race, in a case that is made smaller")
        right = allowed or outcomes(max_pending, before, first, second, after)
        calls = [("run", before, first, second, after)]
        (result,) = lab.script(a_race(lab, max_pending, point), calls, watch="").outputs
        if result not in right:
            nearest = max(right, key=lambda own: alike(own, result))
            words = [results_in_words(own, case, after) for own in (nearest, result)]
            raise Failure(*words, race_in_words(*case))

    check(rule, [(point, before, first, second) for point in wrong])
    # A race that is right when it is run again has still been lost.
    expect(len(wrong), 0, race_in_words(0, before, first, second), "wrong outcomes")


def a_race(lab, max_pending, point):
    """Describe a race on a new channel."""
    return lab.new("given.Race", lab.new("Channel", max_pending), point)


def race_in_words(point, before, first, second):
    """Return a description of a race."""
    begun = f"after {calls_in_words(before)}: " if before else ""
    return (
        f"{begun}one thread calls {calls_in_words(first)}; after it has run {point} lines of your "
        f"code, another thread calls {calls_in_words(second)}"
    )


def alike(one, other):
    """Return how many results of a race's calls are equal; 0 for an error in their place."""
    if type(other) is not list:
        return 0
    pairs = zip(itertools.chain(*one), itertools.chain(*other), strict=False)
    return sum(own == actual for own, actual in pairs)


def results_in_words(results, case, after):
    """Return the results of a race's calls as a sentence."""
    _, _, *threads = case
    if type(results) is not list or [*map(len, results)] != [*map(len, [*threads, after])]:
        return show(results)
    first, second, last = (
        ", ".join(result_in_words(*pair) for pair in zip(calls, own, strict=True))
        for calls, own in zip([*threads, after], results, strict=True)
    )
    return f"{first}; {second}; then {last}"


def result_in_words(call, result):
    """Return the result of a call, or of a read attribute."""
    is_read = call[0] in ("state", "reader")
    return f"{call[0]} is {result!r}" if is_read else f"{calls_in_words([call])} returns {result!r}"


def calls_in_words(calls):
    """Return calls as they are written."""
    return ", ".join(f"{name}({', '.join(map(repr, args))})" for name, *args in calls)


@pytest.mark.task(2)
@pytest.mark.points(8)
@pytest.mark.needs("threads")
def test_two_threads_at_once(lab):
    """Any two calls may happen at the same time: at whichever line a thread is interrupted by
    another thread, and whatever that thread then calls, the results are those of some order of
    the calls.
    """
    a, b, c = (("push", text, ord(text)) for text in "abc")
    firsts, seconds = [b, FINISH, CANCEL, POP], [c, ("finish", "error"), CANCEL, POP]
    for first, second in itertools.product(firsts, seconds):
        race(lab, 1, [a], [first], [second])
        race(lab, 1, [], [first], [second, STATE, POP, POP])


@pytest.mark.task(2)
@pytest.mark.points(8)
@pytest.mark.needs("threads")
def test_property_threads(lab):
    """total: at whichever line a thread is interrupted by another thread, the results are those of
    some order of the calls, in any state of the channel, and with several calls on each thread.
    """
    random = lab.random

    def some_call():
        return random.choice([a_push(random), a_finish(random), CANCEL, POP, STATE])

    for number in range(16):
        own = [a_push(random), a_finish(random), CANCEL, POP]
        other = [a_push(random), a_finish(random), CANCEL, POP]
        before = mixed(random, pushes(random, 0, 4), [POP] * random.randint(0, 2))
        before += random.choice([*[[]] * 8, [a_finish(random)], [CANCEL]])
        first = [own[number // 4], *(some_call() for _ in range(random.randint(0, 1)))]
        reads = [POP] * random.randint(1, 4)
        others = [some_call() for _ in range(random.randint(0, 3))]
        second = [other[number % 4], *random.choice([reads, others])]
        race(lab, random.choice([1, 1, 2]), before, first, second)


@pytest.mark.task(3)
@pytest.mark.points(2)
@pytest.mark.timeout(1)
def test_reader_gets_every_chunk(lab):
    """A task that reads gets all unread chunks each time that it runs, and the terminal chunk as
    the last. 15,000 unread chunks do not slow down the pushes, nor 24,000 the reads. A chunk that
    has been read is not kept. Two channels can be read at the same time.
    """
    a, b, c = (("push", text, ord(text)) for text in "abc")
    fixed = [
        [a, ("read",), RUN, b, c, RUN, FINISH, RUN],
        [("read",), RUN, a, b, c, FINISH, RUN],
        [a, b, c, FINISH, ("read",), RUN],
    ]

    def case(random):
        writer = [*bare(random, pushes(random)), random.choice([a_finish(random), CANCEL])]
        before = random.randint(0, 2)
        return [*writer[:before], ("read",), *mixed(random, writer[before:], [RUN] * 4), RUN]

    for max_pending in (2, 1):
        obeys(lab, max_pending, [*fixed, *drawn(lab, case)])
    stay_apart(lab, lambda random: [("read",), RUN, *mixed(random, pushes(random), [RUN] * 3)])
    many = lab.script(ends(lab, 10**6), [("read",), RUN, ("push_small", 15_000)], "")
    call = "15,000 pushes with max_pending=1,000,000 while a reader sleeps"
    expect(many.outputs[-1], 15_000, call, "how many pushes returned True")
    count = 24_000
    calls = [("push_small", count), ("read_some", count), ("run_small",)]
    many = lab.script(ends(lab, 10**6), calls, "")
    expect(many.outputs[-1], count, f"{count:,} pushes, then a reader", "how many chunks it reads")
    call = Call("keeps", (51,), {"by_task": True})
    references = lab.script(ends(lab, 2), [("read",), RUN, call], "").outputs[-1]
    expect_most(references, 1, "51 pushes, each read by a task", "of the chunks still referenced")


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_reader_sleeps_until_it_is_woken(lab):
    """eager: while no chunk is unread the reader sleeps, and so does its event loop, on which no
    timer is set. A push on another thread wakes it, and so do finish and cancel; that thread has
    no event loop.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    begin = [("read",), RUN, "timers", RUN]
    fixed = [[*begin, a, RUN, RUN, b, RUN], [*begin, FINISH, RUN], [*begin, CANCEL, RUN]]

    def case(random):
        writer = [*pushes(random, 2, 5), random.choice([a_finish(random), CANCEL])]
        return [*begin, *(step for call in writer for step in (call, RUN))]

    obeys(lab, 2, [*fixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_reader_ends_after_the_terminal_chunk(lab):
    """Reading ends after the terminal chunk, whatever its reason is, and not before: chunks that
    were unread when the channel ended are read first. If the terminal chunk has already been read,
    reading ends at once, even if try_pop took it while the task slept.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    again = [("read",), RUN, "reader"]
    fixed = [
        [a, b, FINISH, *again],
        [FINISH, POP, *again],
        [a, CANCEL, *again, *again],
        [("read",), RUN, FINISH, POP, RUN, "reader"],
        *([("finish", reason), *again, *again] for reason in ("", "cancelled")),
    ]

    def case(random):
        writer = [*pushes(random), random.choice([a_finish(random), CANCEL])]
        before = random.randint(0, len(writer))
        left = mixed(random, writer[before:], [RUN] * 2, [POP] * random.randint(0, 2))
        return [*writer[:before], ("read",), *left, RUN, "reader", "state", *again]

    obeys(lab, 2, [*fixed, *drawn(lab, case)])


LEAVING = [("read_some", 1), ("read_some", 2), ("read_and_raise", 1), ("read_and_raise", 2)]
LEAVING += [("read_and_raise", 1, "BaseException"), ("read_and_close", 1)]


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_leaving_early_cancels(lab):
    """A task that leaves the block before the channel has ended cancels the channel at once,
    whether by a break, by any exception, because a generator around the block is closed, or
    because the task is cancelled, once or twice. The exception passes through. The next push
    returns False.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    after = ["reader", "state", b, FINISH, POP, POP]
    cancel_task = ("cancel_task",)
    fixed = [[begin, RUN, a, RUN, *after] for begin in (LEAVING[0], LEAVING[2], *LEAVING[4:])]
    fixed += [
        [("read",), RUN, cancel_task, RUN, *after],
        [("read",), a, RUN, cancel_task, RUN, *after],
        [("read_and_stay", 1), a, RUN, cancel_task, RUN, *after],
        *([("read",), RUN, cancel_task, *[TURN] * n, cancel_task, RUN, *after] for n in range(5)),
    ]

    def case(random):
        begin = random.choice([*LEAVING, ("read",)])
        steps = [begin, *mixed(random, pushes(random, 2, 5), [RUN] * 2), RUN]
        return [*steps, *[("cancel_task",), RUN] * (begin == ("read",)), *after, a_push(random)]

    obeys(lab, PLENTY, [*fixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_leaving_late_changes_nothing(lab):
    """A reader that leaves the block after the end does not cancel: reason and `state` stay, and
    unread chunks can still be read.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    fixed = [[a, b, FINISH, begin, RUN, "reader", "state", POP, POP, POP] for begin in LEAVING]

    def case(random):
        writer = [*pushes(random, 3, 6), a_finish(random)]
        return [*writer, random.choice(LEAVING), RUN, "reader", "state", *[POP] * 7]

    obeys(lab, 4, [*fixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(3)
def test_a_wait_may_be_given_up(lab):
    """A wait for the next chunk that is given up, because it is time for a ping, takes no chunk and
    does not end the reading: the next wait gets the next chunk, even one pushed at that moment. A
    push calls the reader's event loop at most once, however many waits were given up.
    """

    def rule(calls):
        trace = lab.script(ends(lab, PLENTY), calls, watch="")
        # Pings are None; whether a ping is sent along with a chunk is not up to the channel.
        got = [
            [chunk for chunk in answer if chunk is not None] if call == RUN else answer
            for call, answer in zip(calls, trace.outputs, strict=True)
            if type(answer) is list or call != RUN
        ]
        expect(got, Model(PLENTY).answers(calls), trace, "the results, without pings")

    a, b = (("push", text, ord(text)) for text in "ab")
    begin, ping = [("read_with_pings", 5), RUN], [("wait", 5), RUN]
    fixed = [
        [*begin, *ping, a, RUN, FINISH, RUN, "reader"],
        [*begin, *ping, *ping, a, *ping, b, *ping, FINISH, *ping, "reader", "state"],
        # The wait ends at each moment between a push and the read of its chunk.
        *([*begin, a, *[TURN] * turns, *ping, FINISH, *ping] for turns in range(6)),
    ]
    waits = [("read_in_waits",), RUN]
    # The wait is cancelled before or after the push, and the loop runs a little in between.
    fixed += [
        [*waits, *order, RUN, b, RUN, FINISH, RUN, "reader"]
        for turns in range(4)
        for order in ([a, *[TURN] * turns, GIVE_UP], [GIVE_UP, *[TURN] * turns, a])
    ]

    def case(random):
        writer = [*pushes(random), a_finish(random)]
        if random.randint(0, 1):
            others = random.choices([GIVE_UP, GIVE_UP, TURN, RUN], k=random.randint(3, 9))
            return [*waits, *mixed(random, writer, others), RUN, "reader", "state"]
        steps = (random.choice([[call, RUN], [call, *ping], [*ping, call]]) for call in writer)
        return [*begin, *ping, *(step for some in steps for step in some), RUN, "reader", "state"]

    check(rule, [*fixed, *drawn(lab, case)])
    for count in (0, 1, 50):
        calls = [*waits, *[GIVE_UP, RUN] * count, "wake_ups", a, "wake_ups"]
        trace = lab.script(ends(lab, 2), calls, watch="")
        before, _, after = trace.outputs[-3:]
        expect_most(after - before, 1, trace, "calls of call_soon_threadsafe by the last push")


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_closed_loop_is_a_reader_gone(lab):
    """A reader whose event loop was closed while the reader was in the block cannot read any more,
    whether it was waiting for a chunk or for something else: the next push raises nothing, returns
    False, and cancels the channel. finish and cancel raise nothing and end the channel. An earlier
    end stays. The loop may be closed while push, finish or cancel runs.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    close, stay = ("close_loop",), ("read_and_stay", 1)

    def rule(calls):
        trace = lab.script(ends(lab, 2), calls, watch="")
        expect(trace.outputs, Model(2).answers(calls), trace)

    fixed = [
        [("read",), RUN, close, a, "state", b],
        [stay, a, RUN, close, a, "state", b],
        [stay, a, RUN, b, close, CANCEL, "state", a, POP, POP],
        [stay, a, RUN, b, FINISH, close, a, CANCEL, "state", POP, POP],
    ]

    def case(random):
        begin = random.choice([[("read",), RUN], [stay, a, RUN]])
        before = [*begin, *mixed(random, pushes(random), [RUN])]
        end = random.choice([[CANCEL, a_push(random)], [a_push(random)]])
        if random.randint(0, 1):
            return [*before, a_finish(random), close, *end, "state", a_push(random), *[POP] * 9]
        return [*before, close, *end, "state", *pushes(random)]

    check(rule, [*fixed, *drawn(lab, case, 8)])
    for call in (a, CANCEL):
        race(lab, 2, [("read",), RUN], [call], [close], [b, STATE])
    # The result of finish, and the reason, are up to the channel.
    allowed = [
        [[ended], [None], [False, state]]
        for ended in (True, False)
        for state in ("finished", "cancelled")
    ]
    race(lab, 2, [("read",), RUN], [FINISH], [close], [b, STATE], allowed)
    for begin in ([("read",), RUN], [stay, a, RUN]):
        trace = lab.script(ends(lab, 2), [*begin, close, FINISH, "state", b], watch="")
        if trace.outputs[-2] == "open":
            raise Failure("any state but 'open'", "'open'", "", trace, at=len(trace.steps) - 2)
        expect(trace.outputs[-1], False, trace, "the result of the last push")


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_reading_begins_with_the_block(lab):
    """reader() itself begins nothing: it may be called before any event loop runs, and a reader
    that is not entered keeps no other reader out. After a reader has left, another may enter.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    early, begin = ("call_reader",), [("read",), RUN]
    fixed = [
        [early, a, FINISH, *begin, "reader"],
        [early, *begin, a, RUN, FINISH, RUN, "reader"],
        [early, early, *begin, a, RUN, "reader"],
        [("read_some", 1), a, b, RUN, *begin, "reader", "state"],
    ]

    def case(random):
        writer = [*pushes(random), random.choice([a_finish(random), CANCEL])]
        return [*mixed(random, [early, *begin], writer, [early] * random.randint(0, 1)), RUN]

    obeys(lab, PLENTY, [*fixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(1)
def test_property_every_order_of_reader_and_writer(lab):
    """complete, append-only: in every order of a writer's calls and of a task that runs a little at
    a time, to the end or not, each call returns the correct value.
    """
    writer = [("push", "a", 1), ("push", "b", 2), ("push", "c", 3), FINISH]
    for begin in (("read",), *LEAVING[1:]):
        obeys(
            lab, 1, ([begin, *order, RUN, "reader", "state"] for order in orders(writer, [RUN] * 3))
        )
    own = [a_push(lab.random), a_push(lab.random), a_finish(lab.random)]
    for end in (CANCEL, ("finish", "error")):
        others = [RUN, end, RUN, POP]
        cases = ([("read",), *order, RUN, "reader", "state"] for order in orders(own, others))
        obeys(lab, 2, cases)


# A reader in a race: the calls before the race, and those in it.
A = ("push", "a", 1)
READING = [
    ([], [("read",), RUN]),
    ([("read",), RUN, A], [RUN]),
    # The task is woken, and finds nothing to read.
    ([("read",), RUN, A, POP], [RUN]),
    ([("read_some", 1), RUN, A], [RUN]),
    ([("read",), RUN], [("cancel_task",), RUN]),
]


@pytest.mark.task(3)
@pytest.mark.points(7)
@pytest.mark.needs("threads")
def test_reader_and_thread_at_once(lab):
    """A reader may begin, read, sleep and leave while another thread calls the channel: at
    whichever line the two interrupt each other, the results are those of some order, and the
    reader misses no chunk and no wake-up.
    """
    b = ("push", "b", 2)
    for (before, reader), writer in itertools.product(READING, [[b], [FINISH]]):
        race(lab, 1, before, reader, writer, AFTER_READING)
        race(lab, 1, before, writer, reader, AFTER_READING)


@pytest.mark.task(3)
@pytest.mark.points(7)
@pytest.mark.needs("threads")
def test_property_reader_and_thread(lab):
    """complete: at whichever line the thread of a reader and a thread that makes several calls
    interrupt each other, in any state of the channel, the reader misses no chunk and no wake-up.
    """
    random = lab.random
    for before, reader in READING:
        began = before or pushes(random, 0, 2)
        other = [POP, *pushes(random, 1, 2)]
        race(lab, random.choice([1, 2]), began, reader, other, AFTER_READING)
        writer = [*pushes(random, 2, 2), random.choice([a_finish(random), CANCEL])]
        race(lab, 1, began, writer, reader, AFTER_READING)
