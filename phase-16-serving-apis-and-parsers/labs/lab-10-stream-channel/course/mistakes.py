"""The common mistakes of this lab, each with a probe that answers to it alone."""

from labkit.testing import Call, mistake
from mini_vllm.text.events import Chunk

A, B, C = ("push", "a", 1), ("push", "b", 2), ("push", "c", 3)
CHUNK_A, CHUNK_B, CHUNK_C = Chunk("a", (1,)), Chunk("b", (2,)), Chunk("c", (3,))
STOP, LENGTH, GONE = Chunk("", (), "stop"), Chunk("", (), "length"), Chunk("", (), "cancelled")
FINISH, CANCEL, POP = ("finish", "stop"), ("cancel",), ("try_pop",)
READ, RUN = ("read",), ("run",)


def ends(lab, max_pending):
    """Describe both ends of a new channel."""
    return lab.new("given.Ends", lab.new("Channel", max_pending))


def called(lab, max_pending, *calls):
    """Return what each call returns."""
    return lab.script(ends(lab, max_pending), calls, watch="").outputs


def read(lab, max_pending, *calls):
    """Return the results of three reads after the calls."""
    return called(lab, max_pending, *calls, POP, POP, POP)[-3:]


def error(lab, max_pending, *calls):
    """Return the kind and the text of the exception that the calls raise, or ("", "")."""
    try:
        called(lab, max_pending, *calls)
    except AssertionError as failure:
        raised = getattr(failure, "raised", None)
        if raised is not None:
            return raised.kind, raised.message
    return "", ""


def carries(lab):
    """Return whether a pushed chunk can be read, and then the end."""
    return read(lab, 9, A, FINISH) == [CHUNK_A, STOP, None]


def wakes(lab):
    """Return whether a reader gets a chunk that is pushed while it sleeps."""
    return called(lab, 9, READ, RUN, A, RUN)[-1] == [CHUNK_A]


@mistake(task=1)
def always_none(lab):
    """Every call returns None.

    Is there a `return`? Printed text reaches people; only returned values reach the program.
    """
    return called(lab, 9, A, POP, FINISH, POP) == [None] * 4


@mistake(task=1)
def shared(lab):
    """A chunk that is pushed to one channel can be read from another.

    State in the class or in a default argument is shared by all channels. Create it in `__init__`,
    on `self`.
    """
    new = [lab.new("given.Ends", lab.new("Channel", 9)) for _ in range(2)]
    empty = [Call("try_pop", (), object=1)] * 500
    calls = [*empty, Call("push", ("a", 1), object=0), Call("try_pop", (), object=1)]
    return lab.script(new, calls, watch="").outputs[-1] == CHUNK_A


@mistake(task=1)
def chunk_from_nothing(lab):
    """`try_pop` returns a chunk, although none has been pushed.

    While no chunk is unread, it returns None.
    """
    return called(lab, 9, POP)[0] is not None


@mistake(task=1)
def always_joins(lab):
    """Chunks are joined although there is room for both.

    Each push is a chunk of its own. The last chunk grows only if `max_pending` chunks are unread.
    """
    return read(lab, 9, A, B) == [Chunk("ab", (1, 2)), None, None]


@mistake(task=1)
def push_says_nothing(lab):
    """`push` returns None.

    The writer must learn whether the channel is open: return True, or False once it has ended.
    """
    return called(lab, 9, A) == [None] and read(lab, 9, A)[0] == CHUNK_A


@mistake(task=1)
def finish_says_nothing(lab):
    """`finish` returns None.

    Return whether this call ended the channel: True the first time, False afterwards.
    """
    return called(lab, 9, FINISH, FINISH) == [None, None] and read(lab, 9, FINISH)[0] == STOP


@mistake(task=1)
def nothing_is_read(lab):
    """`try_pop` returns None, whatever has been pushed.

    Take the oldest unread chunk out of the channel, and return it.
    """
    return read(lab, 9, A, B) == [None] * 3 and called(lab, 9, A) == [True]


@mistake(task=1)
def last_in_first_out(lab):
    """The chunk that was pushed last is read first.

    Append at one end, take from the other: `popleft` of a deque.
    """
    return read(lab, 9, A, B) == [CHUNK_B, CHUNK_A, None]


@mistake(task=1)
def stays_in_the_channel(lab):
    """The same chunk is read again and again.

    Take a chunk out of the channel when you return it.
    """
    return read(lab, 9, A, B) == [CHUNK_A] * 3


@mistake(task=1)
def end_stays_in_the_channel(lab):
    """The terminal chunk is read again and again.

    It is read once, like every other chunk. After it `try_pop` returns None.
    """
    return read(lab, 9, A, FINISH) == [CHUNK_A, STOP, STOP]


@mistake(task=1)
def last_again_and_again(lab):
    """The chunk that was pushed last is read again and again, and the others never.

    Keep every unread chunk, in order. Take the oldest out of the channel when you return it.
    """
    return read(lab, 9, A, B) == [CHUNK_B] * 3


@mistake(task=1)
def empty_raises(lab):
    """`try_pop` raises if no chunk is unread.

    An empty channel is not an error: return None.
    """
    return error(lab, 9, POP)[0] == "IndexError" and called(lab, 9, A, POP) == [True, CHUNK_A]


@mistake(task=1)
def no_text_no_chunk(lab):
    """A chunk without text is dropped, and its ids with it.

    A token may have no text yet, for example if it is half a character. Its id still counts.
    """
    return read(lab, 9, ("push", "", 5), A) == [CHUNK_A, None, None]


@mistake(task=1)
def skips_empty_chunks(lab):
    """A chunk without text and ids is skipped, and so is the terminal one.

    A chunk is the last if it has a reason, whatever its text and ids are. Do you test the truth of
    a text or of ids instead of comparing with None?
    """
    return read(lab, 9, A, FINISH) == [CHUNK_A, None, None] and called(lab, 9, FINISH) == [True]


@mistake(task=1)
def reason_on_the_last_chunk(lab):
    """The reason is put on the last unread chunk, instead of on a chunk of its own.

    The reader may have taken that chunk a moment before. The terminal chunk is always an extra
    chunk, with no text and no ids.
    """
    return read(lab, 9, A, FINISH)[:2] == [Chunk("a", (1,), "stop"), None]


@mistake(task=1)
def end_overtakes(lab):
    """The terminal chunk is read before the unread chunks, or instead of them.

    Every pushed chunk is still to be read: the terminal chunk follows them.
    """
    return read(lab, 9, A, FINISH)[0] == STOP


@mistake(task=1)
def no_terminal_chunk(lab):
    """`finish` ends the channel, and no terminal chunk is ever read.

    How would a waiting reader learn of the end and of its reason? Append one more chunk.
    """
    ended = called(lab, 9, FINISH, A) == [True, False]
    return ended and read(lab, 9, A, FINISH) == [CHUNK_A, None, None]


@mistake(task=1)
def second_end(lab):
    """A second end adds a second terminal chunk.

    The first end stays. What must `finish` check before it changes anything?
    """
    again = read(lab, 9, FINISH, ("finish", "length"))
    return again == [STOP, LENGTH, None]


@mistake(task=1)
def last_reason_wins(lab):
    """A later `finish` changes the reason.

    The first end stays: once the channel has ended, return False and change nothing.
    """
    return read(lab, 9, FINISH, ("finish", "length")) == [LENGTH, None, None]


@mistake(task=1)
def second_finish_is_true(lab):
    """A second `finish` returns True, though it changes nothing.

    Return whether *this* call ended the channel.
    """
    one = read(lab, 9, FINISH, ("finish", "length")) == [STOP, None, None]
    return one and called(lab, 9, FINISH, ("finish", "length")) == [True, True]


@mistake(task=1)
def end_forgotten_when_read(lab):
    """Once the terminal chunk has been read, the channel counts as open again.

    Store the end in a state of its own. The unread chunks do not show it.
    """
    shut = called(lab, 9, FINISH, A) == [True, False]
    return shut and called(lab, 9, FINISH, POP, A, POP)[2:] == [True, CHUNK_A]


@mistake(task=1)
def push_after_end(lab):
    """A chunk that is pushed after the end is read after the terminal chunk.

    Check the state before you append, not only before you return.
    """
    return read(lab, 9, FINISH, A) == [STOP, CHUNK_A, None]


@mistake(task=1)
def push_is_always_true(lab):
    """After the end `push` takes no chunk, but still returns True.

    Return False: this is how the writer learns that it can stop.
    """
    return read(lab, 9, FINISH, A) == [STOP, None, None] and called(lab, 9, FINISH, A)[1] is True


@mistake(task=1)
def terminal_by_push(lab):
    """A chunk that has a finish_reason can be pushed.

    Then the channel holds a terminal chunk and does not know that it has ended. Raise a ValueError
    whose message contains the reason.
    """
    target = ends(lab, 9)
    return lab.call(target, "push", "a", 1, finish_reason="stop") is not None and carries(lab)


@mistake(task=1)
def state_is_the_reason(lab):
    """`state` is the reason of the end.

    It is one of three words: open, finished, cancelled. The reason is in the terminal chunk.
    """
    return called(lab, 9, FINISH, "state")[1] == "stop"


@mistake(task=1)
def state_follows_the_reader(lab):
    """`state` changes when the terminal chunk is read, not when the channel ends.

    `state` describes the writer's side: it is `finished` as soon as `finish` returns.
    """
    return called(lab, 9, FINISH, "state", POP, "state")[1::2] == ["open", "finished"]


@mistake(
    task=2,
    overdue=[
        "test_full_channel_grows_its_last_chunk",
        "test_terminal_chunk_has_its_own_place",
        "test_a_read_makes_room",
        "test_property_every_order_of_reader_and_writer",
    ],
)
def push_waits(lab):
    """A push to a full channel never returns.

    Does it wait until a chunk is read, or for a lock that it holds itself? The writer serves many
    readers and must not wait for any of them: join the chunk to the last one.
    """
    return carries(lab)


@mistake(task=2)
def no_limit(lab):
    """More than `max_pending` chunks are unread.

    A reader may be arbitrarily slow. If the channel is full, which chunk may grow?
    """
    return read(lab, 1, A, B, C) == [CHUNK_A, CHUNK_B, CHUNK_C]


@mistake(task=2)
def one_more_waits(lab):
    """One chunk more than `max_pending` is unread before chunks are joined.

    Is there still room if exactly `max_pending` chunks are unread?
    """
    return read(lab, 1, A, B, C) == [CHUNK_A, Chunk("bc", (2, 3)), None]


@mistake(task=2)
def full_raises(lab):
    """A push to a full channel raises.

    The writer serves many readers, and one of them must not stop it: join the chunk to the last.
    """
    return error(lab, 1, A, B)[0] in ("Full", "QueueFull", "OverflowError", "RuntimeError")


@mistake(task=2)
def full_is_false(lab):
    """A push to a full channel returns False, as if the channel had ended.

    False makes the writer stop. Join the chunk to the last one and return True.
    """
    return called(lab, 1, A, B) == [True, False] and carries(lab)


@mistake(task=2)
def newest_only(lab):
    """A chunk pushed to a full channel replaces the last one.

    A chunk is new text, not the whole text so far. A replaced chunk is lost: join the two.
    """
    return read(lab, 1, A, B, C) == [CHUNK_C, None, None]


@mistake(task=2)
def oldest_only(lab):
    """A chunk pushed to a full channel is dropped.

    The reader would miss a part of the text without noticing. Join the chunk to the last one.
    """
    return read(lab, 1, A, B, C) == [CHUNK_A, None, None]


@mistake(task=2)
def ids_out_of_order(lab):
    """Joined chunks have their ids in another order than their text.

    The ids of the new chunk follow those of the old chunk, as its text does.
    """
    joined = read(lab, 1, A, B, C)[0]
    ids = joined.token_ids
    return joined.text == "abc" and ids != (1, 2, 3) and sorted(ids) == [1, 2, 3]


@mistake(task=2)
def text_out_of_order(lab):
    """Joined chunks have their text in the wrong order.

    The text of the new chunk follows that of the old chunk.
    """
    text = read(lab, 1, A, B, C)[0].text
    return text != "abc" and sorted(text) == ["a", "b", "c"]


@mistake(task=2)
def last_ids_only(lab):
    """Joined chunks have all of their text, but only some of their ids.

    A chunk has text and ids: join the ids as well.
    """
    joined = read(lab, 1, A, B, C)[0]
    return joined.text == "abc" and joined.token_ids != (1, 2, 3)


@mistake(task=2)
def loses_a_chunk(lab):
    """If the channel is full, a chunk is lost.

    The reader would miss a part of the text without noticing. Join the new chunk to the last chunk.
    """
    chunks = read(lab, 1, A, B, C)
    text = "".join(chunk.text for chunk in chunks if chunk is not None)
    return called(lab, 1, A, B, C) == [True] * 3 and text in ("ab", "ac", "bc", "a", "b", "c", "")


@mistake(task=2)
def joins_the_first(lab):
    """The first unread chunk grows, not the last.

    Then the text is out of order as soon as `max_pending` is two.
    """
    return read(lab, 2, A, B, C)[0] == Chunk("ac", (1, 3))


@mistake(task=2)
def terminal_takes_a_place(lab):
    """If the channel is full, the last chunk carries the reason.

    The terminal chunk is in addition to `max_pending`, and is a chunk of its own.
    """
    return read(lab, 1, A, FINISH) == [Chunk("a", (1,), "stop"), None, None] and carries(lab)


@mistake(task=2)
def no_room_for_the_end(lab):
    """If the channel is full, the terminal chunk is lost, and the reader waits forever.

    The terminal chunk is in addition to `max_pending`.
    """
    return read(lab, 1, A, FINISH) == [CHUNK_A, None, None] and carries(lab)


@mistake(task=2)
def grows_in_place(lab):
    """The chunk that grows is the same object that was pushed.

    The writer may still use that object. Make a new chunk of the two.
    """
    return called(lab, 1, A, B, "pushed")[-1] == [Chunk("ab", (1, 2)), CHUNK_B]


@mistake(task=2)
def cancel_unseen(lab):
    """After `cancel` a push still returns True.

    `cancel` ends the channel: the writer learns of it from its next push.
    """
    return called(lab, 9, CANCEL, A) == [None, True] and called(lab, 9, FINISH, A)[1] is False


@mistake(task=2)
def cancel_without_end(lab):
    """`cancel` adds no terminal chunk, and the reader waits for it forever.

    Every channel ends with exactly one terminal chunk. Share the code with `finish`.
    """
    return called(lab, 9, CANCEL, A)[1] is False and read(lab, 9, A, CANCEL) == [
        CHUNK_A, None, None
    ]  # fmt: skip


@mistake(task=2)
def cancel_empties(lab):
    """`cancel` discards the unread chunks.

    They were pushed while the channel was open, so they can still be read.
    """
    return read(lab, 9, A, CANCEL)[0] in (GONE, None) and carries(lab)


@mistake(task=2)
def cancel_overrides(lab):
    """`cancel` changes the state, or the reason, of a channel that has already ended.

    The first end stays, whether by `finish` or by `cancel`.
    """
    cancelled = carries(lab) and called(lab, 9, CANCEL, "state")[1] == "cancelled"
    late = called(lab, 9, FINISH, CANCEL, "state", POP)
    return cancelled and late[2:] != ["finished", STOP]


@mistake(task=2)
def cancelled_is_finished(lab):
    """After `cancel` the state is `finished`.

    `state` says which side ended the channel. After `cancel` it is `cancelled`.
    """
    return called(lab, 9, CANCEL, "state")[1] == "finished"


@mistake(task=2)
def other_reason_of_cancel(lab):
    """`cancel` ends the channel with another reason than `cancelled`.

    The word is part of the contract: other code looks for it.
    """
    end = read(lab, 9, CANCEL)[0]
    return end.finish_reason not in (None, "cancelled") and end.text == ""


@mistake(task=2, overdue=["test_property_linear"])
def joins_at_push(lab):
    """Each push takes longer, the longer the reader stays away.

    Joining all unread text at every push copies it again and again. Keep the parts in a list, and
    join them when they are read.
    """
    return carries(lab) and read(lab, 1, A, B, C) == [Chunk("abc", (1, 2, 3)), None, None]


@mistake(task=2)
def end_looks_unlocked(lab):
    """`finish` or `cancel` looks at the state before it holds the lock.

    Between the look and the change another thread can end the channel: then it has two ends. Put
    both into one `with self._lock`.
    """
    if read(lab, 1, A, B, CANCEL) != [Chunk("ab", (1, 2)), GONE, None]:
        return False
    if not (is_torn(lab, FINISH, CANCEL) or is_torn(lab, CANCEL, FINISH)):
        return False
    return not any(is_torn(lab, *pair) for pair in ((B, POP), (B, CANCEL), (POP, B)))


@mistake(task=2)
def no_lock(lab):
    """Right on one thread, but another thread can run between a check and the change after it.

    A writer that has seen `open` is interrupted, the reader cancels, and the writer appends after
    the terminal chunk. A check and the change after it belong in one `with self._lock`.
    """
    if read(lab, 1, A, B, CANCEL) != [Chunk("ab", (1, 2)), GONE, None]:
        return False
    pairs = [(B, POP), (B, CANCEL), (FINISH, CANCEL), (CANCEL, FINISH), (POP, B)]
    return any(is_torn(lab, first, second) for first, second in pairs)


def is_torn(lab, first, second):
    """Return whether a call that another call interrupts has other results than in both orders."""
    after = [POP] * 3
    one, two, *rest = called(lab, 1, A, first, second, *after)[1:]
    allowed = [[[one], [two], rest]]
    two, one, *rest = called(lab, 1, A, second, first, *after)[1:]
    allowed.append([[one], [two], rest])

    def race(point):
        return lab.new("given.Race", lab.new("Channel", 1), point)

    lines = lab.call(race(None), "lines", [A], [first])
    races = lab.new("given.Races", *map(race, range(lines)))
    (got,) = lab.script(races, [("run", [A], [first], [second], after)], watch="").outputs
    return any(results not in allowed for results in got)


@mistake(task=3)
def asks_for_a_loop(lab):
    """`push` raises, because there is no running event loop.

    `push` is called on the engine's thread, which has no event loop. Let the reader store its own
    loop in the channel, for `push` to use.
    """
    kind, text = error(lab, 9, READ, RUN, A)
    return kind == "RuntimeError" and "no running event loop" in text


@mistake(task=3)
def sets_event_directly(lab):
    """After a push or an end the reader keeps sleeping, until something else wakes its event loop.

    `set` of an `asyncio.Event`, or of a future, does not wake the loop from another thread. Use
    `loop.call_soon_threadsafe`.
    """
    asleep, _, awake = called(lab, 9, READ, RUN, A, RUN, ("wait", 0), RUN)[-3:]
    return asleep == [] and awake == [CHUNK_A]


@mistake(task=3)
def polls(lab):
    """The reader polls for chunks, with a pause in between.

    A long pause delays every chunk, and a short pause wastes processor time. Wait for an event
    which `push` sets.
    """
    asleep, _, still, _, awake = called(
        lab, 9, READ, RUN, A, RUN, ("wait", 0), RUN, ("wait", 60), RUN
    )[-5:]
    return asleep == still == [] and awake == [CHUNK_A]


@mistake(task=3)
def never_sleeps(lab):
    """The reader polls for chunks and never sleeps.

    One such reader keeps a processor busy. Wait for an event which `push` sets.
    """
    return "never sleeps" in error(lab, 9, READ, RUN)[1]


@mistake(task=3)
def end_does_not_wake(lab):
    """A push wakes the reader, but `finish` or `cancel` does not.

    The reader must wake for the terminal chunk as well.
    """
    ends = [called(lab, 9, READ, RUN, end, RUN, "reader")[-2:] for end in (FINISH, CANCEL)]
    return wakes(lab) and [[], "reads"] in ends


@mistake(task=3)
def keeps_the_end_to_itself(lab):
    """The reader stops at the terminal chunk without returning it.

    Return it like any other chunk: the loop learns the reason from it.
    """
    return called(lab, 9, A, FINISH, READ, RUN)[-1] == [CHUNK_A]


@mistake(task=3)
def never_ends(lab):
    """After the terminal chunk the reader keeps waiting.

    No chunk can follow: raise `StopAsyncIteration`, or return from the generator.
    """
    received, reader = called(lab, 9, A, FINISH, READ, RUN, "reader")[-2:]
    return received == [CHUNK_A, STOP] and reader == "reads"


@mistake(task=3)
def waits_for_a_second_end(lab):
    """A reader waits forever if the terminal chunk was read before.

    Store in the channel that the terminal chunk has been read.
    """
    once = called(lab, 9, A, FINISH, READ, RUN, "reader")[-2:] == [[CHUNK_A, STOP], "ended"]
    return once and called(lab, 9, FINISH, POP, READ, RUN, "reader")[-1] == "reads"


@mistake(task=3)
def ends_with_state(lab):
    """The reader checks the state first, and ends while chunks are unread.

    After the channel has ended there may still be chunks to read. Only the terminal chunk ends the
    reading.
    """
    received, reader = called(lab, 9, A, FINISH, READ, RUN, "reader")[-2:]
    return received == [] and reader == "ended" and wakes(lab)


@mistake(task=3)
def leaves_quietly(lab):
    """A reader that leaves early does not cancel: the engine keeps working for no reader.

    Leaving the `async with` block runs `__aexit__`, or the `finally` around the `yield`. Cancel
    there. A generator that is merely iterated may be closed much later.
    """
    after_break = called(lab, 9, ("read_some", 1), A, RUN, "state", "reader")[-2:]
    after_cancel = called(lab, 9, READ, RUN, ("cancel_task",), RUN, "state")[-1]
    return after_break == ["open", "ended"] and after_cancel == "open" and wakes(lab)


@mistake(task=3)
def task_cancel_forgotten(lab):
    """A reader whose task is cancelled does not cancel the channel.

    `CancelledError` is not a subclass of `Exception`, and a server raises it in the task when the
    client disconnects. Cancel in `__aexit__` or in a `finally`, whatever the error is.
    """
    after_break = called(lab, 9, ("read_some", 1), A, RUN, "state")[-1]
    after_cancel = called(lab, 9, READ, RUN, ("cancel_task",), RUN, "state")[-1]
    return after_break == "cancelled" and after_cancel == "open"


@mistake(task=3)
def break_forgotten(lab):
    """A reader that leaves by a `break` does not cancel the channel; by an exception it does.

    A `break` does not raise: the block is left as at its end. Cancel in every case.
    """
    after_break = called(lab, 9, ("read_some", 1), A, RUN, "state")[-1]
    after_error = called(lab, 9, ("read_and_raise", 1), A, RUN, "state")[-1]
    return (after_break, after_error) == ("open", "cancelled")


@mistake(task=3)
def swallows(lab):
    """An exception, or the cancelling of the task, is swallowed by the `async with` block.

    The exception must pass through: `__aexit__` returns None, and an `except` ends with `raise`.
    """
    after_error = called(lab, 9, ("read_and_raise", 1), A, RUN, "reader")[-1]
    after_cancel = called(lab, 9, READ, RUN, ("cancel_task",), RUN, "reader")[-1]
    return wakes(lab) and "ended" in (after_error, after_cancel)


@mistake(task=3)
def given_up_wait_ends(lab):
    """A wait that is given up, for example for a ping, ends the reading.

    A cancelled `anext` ends an async generator. `__anext__` of an object can be called again.
    """
    calls = [("read_with_pings", 5), RUN, ("wait", 5), RUN, A, RUN]
    return wakes(lab) and CHUNK_A not in called(lab, 9, *calls)[-1]


@mistake(task=3)
def takes_too_early(lab):
    """A chunk that is pushed while a wait is given up is lost.

    There must be no `await` between taking a chunk and returning it, and no other code may hand the
    chunk over. Then a chunk is either taken and returned, or not taken at all.
    """
    begin, ping = [("read_with_pings", 5), RUN], [("wait", 5), RUN]

    def is_lost(turns):
        # The wait ends so many turns of the loop after the push.
        calls = [*begin, *ping, A, *[("turn",)] * turns, *ping, *ping]
        return not any(CHUNK_A in got for got in called(lab, 9, *calls)[-3::2])

    return wakes(lab) and any(map(is_lost, range(6)))


@mistake(task=3)
def closed_loop_raises(lab):
    """A push raises in the engine when the reader's event loop was closed.

    `call_soon_threadsafe` raises a RuntimeError then. The reader is gone: cancel.
    """
    kind, text = error(lab, 9, READ, RUN, ("close_loop",), A)
    return kind == "RuntimeError" and "closed" in text


@mistake(task=3)
def closed_loop_is_open(lab):
    """A reader whose event loop was closed keeps its channel open.

    That reader cannot read any more, and it could not cancel. If the writer finds the loop closed,
    cancel in `push`, and return False.
    """
    seen = [
        called(lab, 9, begin, RUN, ("close_loop",), A, "state")[-2:]
        for begin in (READ, ("read_and_stay", 0))
    ]
    return wakes(lab) and seen != [[False, "cancelled"]] * 2
