"""Lab 10: the stream channel. Each docstring states the rule that its test checks.

Fixed cases come first, then cases drawn from the seed: `LAB_SEED=1 make lab N=10` draws others.
"""

import asyncio
import itertools
from collections import deque
from functools import partial

import pytest

from labkit.testing import check, expect
from mini_vllm.text.events import Chunk

REASONS = ["stop", "length", "tool_calls", "error"]
POP, FINISH, CANCEL, RUN = ("try_pop",), ("finish", "stop"), ("cancel",), ("run",)
# More than any test writes, except the tests of the limit.
PLENTY = 1_000
# The lines before which a thread is interrupted, in a race.
POINTS = range(16)


class Model:
    """What a channel and its reader do, in the simplest way, by the names of `given.Ends`."""

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

    read_some = read

    def read_and_raise(self, count):
        """Begin to read so many chunks, and then to raise."""
        self.read(count, "raised")

    def read_with_pings(self, seconds):
        """Begin to read all: pings take nothing."""
        self.read()

    def wait(self, seconds):
        """Let time pass, which changes nothing."""

    def turn(self):
        """Run a little; the next `run` returns what that gave."""

    def cancel_task(self):
        """Have the reader leave when it runs next."""
        self.left, self.then = 0, "cancelled"

    def close_loop(self):
        """Make the reader disappear."""
        self.cancel()

    def run(self):
        """Return what the reader takes."""
        received = []
        while self.reader == "reads" and self.left and self.waiting:
            received.append(self.try_pop())
            self.left -= 1
        if self.reader == "reads" and not self.left:
            self.reader = self.then
            self.cancel()
        elif self.reader == "reads" and self.drained:
            self.reader = "ended"
        return received

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
    if ("finish", "") in calls:
        # Shrinking a case cuts its words; a reason is never empty.
        return
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


def a_push(random, lengths=(0, 1, 1, 2, 3)):
    """Draw a push: some text, often none, and a few ids."""
    text = "".join(random.choices("abcdefghij 你🚀", k=random.choice(lengths)))
    return ("push", text, *random.choices(range(100_000), k=random.choice([0, 1, 1, 1, 2, 4])))


def a_finish(random):
    """Draw an end."""
    return ("finish", random.choice(REASONS))


def pushes(random, least=2, most=7, lengths=(0, 1, 1, 2, 3)):
    """Draw some pushes."""
    return [a_push(random, lengths) for _ in range(random.randint(least, most))]


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
@pytest.mark.points(5)
def test_chunks_come_in_order(lab):
    """Chunks are read in the order in which they were pushed, each with its text and its ids. If
    no chunk is unread, try_pop returns None.
    """
    fixed = [("push", "a", 1), ("push", "b", 2, 3), POP, POP, POP]

    def case(random):
        calls = pushes(random, lengths=(1, 2, 3))
        return [*calls, *some_pops(random, calls)]

    obeys(lab, PLENTY, [fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_a_chunk_is_there_at_once(lab):
    """eager: a chunk can be read as soon as it has been pushed, and push returns True. No two
    chunks are joined while there is room.
    """
    fixed = [POP, ("push", "a", 1), POP, POP, ("push", "b", 2), ("push", "c", 3), POP, POP]

    def case(random):
        calls = pushes(random, 3, 9, lengths=(1, 2, 3))
        return mixed(random, calls, some_pops(random, calls))

    obeys(lab, PLENTY, [fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(3)
def test_chunks_without_text_are_kept(lab):
    """A chunk without text is kept: its ids count, for usage and for logprobs. A chunk without
    text and ids is kept as well.
    """
    fixed = [("push", "", 1), ("push", "a", 2), ("push", ""), ("push", "", 3, 4), POP, POP, POP]

    def case(random):
        calls = [(name, random.choice(["", "", text]), *ids) for name, text, *ids in pushes(random)]
        return mixed(random, calls, some_pops(random, calls))

    obeys(lab, PLENTY, [fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(5)
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
@pytest.mark.points(5)
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
@pytest.mark.points(4)
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
@pytest.mark.points(2)
def test_state_tells_the_end(lab):
    """`state` is "open" until finish, whatever has been read, and then "finished"."""
    fixed = ["state", ("push", "a", 1), "state", FINISH, "state", POP, POP, "state"]

    def case(random):
        calls = [*pushes(random), a_finish(random), *pushes(random, 0, 2)]
        return mixed(random, calls, some_pops(random, calls), ["state"] * random.randint(4, 7))

    obeys(lab, PLENTY, [fixed, *drawn(lab, case)])


@pytest.mark.task(1)
@pytest.mark.points(2)
def test_push_refuses_a_terminal_chunk(lab):
    """Only finish and cancel end a channel. A push of a chunk with a finish_reason raises a
    ValueError whose message contains the reason.
    """

    def rule(case):
        text, reason = case
        if not reason:
            return
        # A chunk without a reason is accepted.
        follows(lab, PLENTY, [("push", text, 1), POP])
        message = lab.rejects(ends(lab, PLENTY), "push", text, 1, finish_reason=reason)
        call = f"push(Chunk({text!r}, (1,), {reason!r}))"
        expect(reason in message, True, call, f"{reason!r} is in {message!r}")

    words = drawn(lab, lambda random: "".join(random.choices("xyzuvw", k=9)), 6)
    check(rule, [("a", "stop"), ("", "length"), *((word[:2], word[2:]) for word in words)])


# Task 2


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_full_channel_grows_its_last_chunk(lab):
    """If max_pending chunks are unread, a push adds its text and its ids to the last of them, and
    returns True. Nothing is lost, and the earlier chunks stay as they are.
    """
    four = [("push", "a", 1), ("push", "b", 2), ("push", "", 3, 4), ("push", "d")]
    for max_pending in (1, 2, 3):
        follows(lab, max_pending, [*four, *[POP] * 4])

    def case(random):
        calls = pushes(random, 4, 12)
        return [*calls, *[POP] * 5]

    for max_pending in (1, 2, 4):
        obeys(lab, max_pending, drawn(lab, case, 6))


@pytest.mark.task(2)
@pytest.mark.points(5)
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
@pytest.mark.points(3)
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
@pytest.mark.points(5)
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
    ]

    def case(random):
        writer = [*pushes(random), a_finish(random), *pushes(random, 0, 1)]
        others = [CANCEL] * random.randint(1, 3)
        return mixed(random, writer, others, [POP] * 6, ["state"] * 4)

    obeys(lab, 2, [*fixed, *drawn(lab, case)])


@pytest.mark.task(2)
@pytest.mark.points(5)
def test_property_every_order(lab):
    """complete, honest, total: in every order of a writer's and a reader's calls, each call returns
    the correct value.
    """
    writer = [("push", "a", 1), ("push", "b", 2), ("push", "c", 3), ("finish", "stop"), "state"]
    readers = [[POP] * 4, [POP, CANCEL, POP, POP], [CANCEL, POP, "state", CANCEL]]
    for max_pending in (1, 2):
        for reader in readers:
            obeys(lab, max_pending, orders(writer, reader))
    own = [a_push(lab.random), a_push(lab.random), a_finish(lab.random), a_push(lab.random)]
    obeys(lab, 1, orders(own, [POP, CANCEL, POP, POP, "state"]))


@pytest.mark.task(2)
@pytest.mark.points(3)
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

    def rule(case):
        calls = [
            ("on", number, *([step] if isinstance(step, str) else step)) for number, step in case
        ]
        both = lab.new("given.Several", ends(lab, 2), ends(lab, 1))
        trace = lab.script(both, calls, watch="")
        models = Model(2), Model(1)
        wanted = [models[number].answers([step])[0] for number, step in case]
        expect(trace.outputs, wanted, trace)

    def case(random):
        both = [
            [*mixed(random, [*pushes(random), a_finish(random)], [POP] * 4), "state"]
            for _ in range(2)
        ]
        return mixed(random, *([(number, step) for step in own] for number, own in enumerate(both)))

    check(rule, drawn(lab, case))


@pytest.mark.task(2)
@pytest.mark.points(4)
@pytest.mark.timeout(4)
def test_property_linear(lab):
    """linear: a push takes the same time however much is unread, in one chunk or in many, and so
    does a read: some 60,000 chunks finish well within the time limit.
    """
    for max_pending, least in ((1, 20_000), (10**6, 40_000)):
        count = lab.random.randint(least, least + 2_000)
        calls = [("push_many", count), FINISH, ("pop_many", count + 2)]
        many = lab.script(ends(lab, max_pending), calls, "")
        call = f"{count:,} pushes with max_pending={max_pending:,}, then reads"
        expect(many.outputs[0], count, call, "how many pushes returned True")
        chunks = 2 if max_pending == 1 else count + 1
        wanted = chunks, 1_000 * count, count * (count - 1) * 10
        expect(many.outputs[-1], wanted, call, "how many chunks and characters, the sum of the ids")


def race(lab, point, before, first, second, after):
    """Let two threads make calls on one channel, the first interrupted; return what they got."""
    new = lab.new("given.Race", lab.new("Channel", 1), point)
    calls = [[*map(list, calls)] for calls in (before, first, second, after)]
    return lab.script(new, [("run", *calls)], watch="").outputs[0]


def race_in_words(point, before, first, second):
    """Return what happens in a race."""
    begun = f"after {calls_in_words(before)}: " if before else ""
    return (
        f"{begun}{calls_in_words(first)} on one thread, and before the line of your code that it "
        f"runs as number {point + 1}, {calls_in_words(second)} on another"
    )


def calls_in_words(calls):
    """Return calls as they are written."""
    return ", ".join(f"{name}({', '.join(map(repr, args))})" for name, *args in calls)


@pytest.mark.task(2)
@pytest.mark.points(3)
@pytest.mark.needs("threads")
def test_property_threads(lab):
    """total: wherever one thread interrupts the other, the outcome is the same as if one call had
    run after the other.
    """
    after = [*[POP] * 5, ("state",)]

    def one_by_one(before, *calls):
        return Model(1).answers([*before, *calls, *after])[len(before) :]

    def rule(point, before, first, second):
        got = race(lab, point, before, [first], [second], after)
        one, other, *rest = one_by_one(before, first, second)
        allowed = [[[one], [other], rest]]
        other, one, *rest = one_by_one(before, second, first)
        allowed.append([[one], [other], rest])
        if got not in allowed:
            what = "what each of them returned, then all reads and `state`"
            expect(got, allowed[0], race_in_words(point, before, [first], [second]), what)

    writes = [a_push(lab.random), a_finish(lab.random)]
    pairs = [*itertools.product(writes, [POP, CANCEL])]
    pairs += [*(pair[::-1] for pair in pairs), (writes[1], ("finish", "error"))]
    for before, pair in itertools.product([[], [a_push(lab.random)]], pairs):
        check(partial(rule, before=before, first=pair[0], second=pair[1]), POINTS)


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_reader_gets_every_chunk(lab):
    """A task that reads gets all unread chunks each time that it runs, and the terminal chunk as
    the last.
    """
    a, b, c = (("push", text, ord(text)) for text in "abc")
    fixed = [
        [a, ("read",), RUN, b, c, RUN, FINISH, RUN],
        [("read",), RUN, a, b, c, FINISH, RUN],
        [a, b, c, FINISH, ("read",), RUN],
    ]

    def case(random):
        writer = [*pushes(random), random.choice([a_finish(random), CANCEL])]
        before = random.randint(0, 2)
        return [*writer[:before], ("read",), *mixed(random, writer[before:], [RUN] * 4), RUN]

    for max_pending in (2, 1):
        obeys(lab, max_pending, [*fixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_reader_sleeps_until_it_is_woken(lab):
    """eager: while no chunk is unread the reader sleeps, and so does its event loop. A push on
    another thread wakes it, and so do finish and cancel; that thread has no event loop.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    begin = [("read",), RUN, RUN]
    fixed = [[*begin, a, RUN, RUN, b, RUN], [*begin, FINISH, RUN], [*begin, CANCEL, RUN]]

    def case(random):
        writer = [*pushes(random, 2, 5), random.choice([a_finish(random), CANCEL])]
        return [*begin, *(step for call in writer for step in (call, RUN))]

    obeys(lab, 2, [*fixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(4)
def test_reader_ends_after_the_terminal_chunk(lab):
    """Reading ends after the terminal chunk, and not before: chunks that were unread when the
    channel ended are read first. If the terminal chunk has already been read, reading ends at once.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    again = [("read",), RUN, "reader"]
    fixed = [[a, b, FINISH, *again], [FINISH, POP, *again], [a, CANCEL, *again, *again]]

    def case(random):
        writer = [*pushes(random), random.choice([a_finish(random), CANCEL])]
        before = random.randint(0, len(writer))
        left = mixed(random, writer[before:], [RUN] * 2)
        return [*writer[:before], ("read",), *left, RUN, "reader", "state", *again]

    obeys(lab, 2, [*fixed, *drawn(lab, case)])


LEAVING = [("read_some", 1), ("read_some", 2), ("read_and_raise", 1), ("read_and_raise", 2)]


@pytest.mark.task(3)
@pytest.mark.points(7)
def test_leaving_early_cancels(lab):
    """A task that leaves the block before the channel has ended cancels the channel at once,
    whether by a break, by an exception, or because the task is cancelled. The exception passes
    through. The next push returns False.
    """
    a, b = (("push", text, ord(text)) for text in "ab")
    after = ["reader", "state", b, FINISH, POP, POP]
    fixed = [[begin, RUN, a, RUN, *after] for begin in (LEAVING[0], LEAVING[2])]
    fixed += [
        [("read",), RUN, ("cancel_task",), RUN, *after],
        [("read",), a, RUN, ("cancel_task",), RUN, *after],
    ]

    def case(random):
        begin = random.choice([*LEAVING, ("read",)])
        steps = [begin, *mixed(random, pushes(random, 2, 5), [RUN] * 2), RUN]
        return [*steps, *[("cancel_task",), RUN] * (begin == ("read",)), *after, a_push(random)]

    obeys(lab, 3, [*fixed, *drawn(lab, case)])


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
@pytest.mark.points(4)
def test_a_wait_may_be_given_up(lab):
    """A wait for the next chunk that is given up, because it is time for a ping, takes no chunk and
    does not end the reading: the next wait gets the next chunk, even one pushed at that moment.
    """

    def rule(calls):
        trace = lab.script(ends(lab, 2), calls, watch="")
        # Pings are None; whether a ping is sent along with a chunk is not up to the channel.
        got = [
            [chunk for chunk in answer if chunk is not None] if call == RUN else answer
            for call, answer in zip(calls, trace.outputs, strict=True)
            if type(answer) is list or call != RUN
        ]
        expect(got, Model(2).answers(calls), trace, "what each call gave, without pings")

    a, b = (("push", text, ord(text)) for text in "ab")
    begin, ping = [("read_with_pings", 5), RUN], [("wait", 5), RUN]
    fixed = [
        [*begin, *ping, a, RUN, FINISH, RUN, "reader"],
        [*begin, *ping, *ping, a, *ping, b, *ping, FINISH, *ping, "reader", "state"],
        # The wait ends at each moment between a push and the read of its chunk.
        *([*begin, a, *[("turn",)] * turns, *ping, FINISH, *ping] for turns in range(6)),
    ]

    def case(random):
        writer = [*pushes(random), a_finish(random)]
        steps = (random.choice([[call, RUN], [call, *ping], [*ping, call]]) for call in writer)
        return [*begin, *ping, *(step for some in steps for step in some), RUN, "reader", "state"]

    check(rule, [*fixed, *drawn(lab, case)])


@pytest.mark.task(3)
@pytest.mark.points(2)
def test_closed_loop_is_a_reader_gone(lab):
    """A reader whose event loop was closed cannot read any more: the next push raises nothing,
    returns False, and cancels the channel.
    """
    a, b = (("push", text, ord(text)) for text in "ab")

    def rule(case):
        before, after = case
        calls = [("read",), RUN, *before, RUN, ("close_loop",), a, "state", *after]
        trace = lab.script(ends(lab, 2), calls, watch="")
        expect(trace.outputs, Model(2).answers(calls), trace)

    check(rule, [([], [b]), *drawn(lab, lambda random: (pushes(random), pushes(random)), 6)])


@pytest.mark.task(3)
@pytest.mark.points(2)
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
        others = [RUN, end, RUN]
        cases = ([("read",), *order, RUN, "reader", "state"] for order in orders(own, others))
        obeys(lab, 2, cases)


@pytest.mark.task(3)
@pytest.mark.points(3)
@pytest.mark.needs("threads")
def test_property_reader_and_thread(lab):
    """complete: wherever the writer's thread and the reader's thread interrupt each other, the
    reader gets every chunk and misses no wake-up.
    """

    def rule(point, first, second):
        lists = race(lab, point, [], first, second, [RUN, ("reader",)])
        chunks = [
            chunk
            for answers in lists
            for answer in answers
            if type(answer) is list
            for chunk in answer
        ]
        got = [
            "".join(chunk.text for chunk in chunks),
            [token_id for chunk in chunks for token_id in chunk.token_ids],
            [chunk.finish_reason for chunk in chunks if chunk.finish_reason],
            lists[-1][-1],
        ]
        expect(
            got,
            wanted,
            race_in_words(point, [], first, second),
            "text, ids, reasons, and the reader",
        )

    writer = [a_push(lab.random), a_push(lab.random), a_finish(lab.random)]
    reader = [("read",), RUN]
    text, ids = (
        "".join(call[1] for call in writer[:2]),
        [n for call in writer[:2] for n in call[2:]],
    )
    wanted = [text, ids, [writer[2][1]], "ended"]
    for first, second in ((writer, reader), (reader, writer)):
        check(partial(rule, first=first, second=second), range(40))
