"""The common mistakes of this lab, each with a probe that only it answers."""

from labkit.testing import mistake
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
    """Return what each call gives."""
    return lab.script(ends(lab, max_pending), calls, watch="").outputs


def read(lab, max_pending, *calls):
    """Return what is read after the calls, three times."""
    return called(lab, max_pending, *calls, POP, POP, POP)[-3:]


def error(lab, max_pending, *calls):
    """Return the kind and the text of the exception that the calls lead to; none is ("", "")."""
    try:
        called(lab, max_pending, *calls)
    except AssertionError as failure:
        raised = getattr(failure, "raised", None)
        if raised is not None:
            return raised.kind, raised.message
    return "", ""


def carries(lab):
    """Return whether a chunk that is pushed can be read, and then the end."""
    return read(lab, 9, A, FINISH) == [CHUNK_A, STOP, None]


def wakes(lab):
    """Return whether a reader gets what is pushed while it sleeps."""
    return called(lab, 9, READ, RUN, A, RUN)[-1] == [CHUNK_A]


@mistake(task=1)
def always_none(lab):
    """Every call returns None.

    Is there a `return`? What you print is seen by people, what you return by the program.
    """
    return called(lab, 9, A, POP, FINISH, POP) == [None] * 4


@mistake(task=1)
def always_joins(lab):
    """Chunks are joined although there is room for both.

    Each push is a chunk of its own. Only where `max_pending` of them wait does the last one grow.
    """
    return read(lab, 9, A, B) == [Chunk("ab", (1, 2)), None, None]


@mistake(task=1)
def push_says_nothing(lab):
    """`push` returns None.

    The writer has to learn whether the channel is open: True, or False once it has ended.
    """
    return called(lab, 9, A) == [None] and read(lab, 9, A)[0] == CHUNK_A


@mistake(task=1)
def finish_says_nothing(lab):
    """`finish` returns None.

    It tells whether this call ended the channel: True the first time, False ever after.
    """
    return called(lab, 9, FINISH, FINISH) == [None, None] and read(lab, 9, FINISH)[0] == STOP


@mistake(task=1)
def nothing_is_read(lab):
    """`try_pop` returns None, whatever was pushed.

    Take the first of the chunks that wait, and return it.
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

    A chunk that was read is gone: take it out.
    """
    return read(lab, 9, A, B) == [CHUNK_A] * 3


@mistake(task=1)
def empty_raises(lab):
    """`try_pop` raises when nothing waits.

    Nothing to read is no error: return None.
    """
    return error(lab, 9, POP)[0] == "IndexError" and called(lab, 9, A, POP) == [True, CHUNK_A]


@mistake(task=1)
def no_text_no_chunk(lab):
    """A chunk without text is dropped, and its ids with it.

    A token may have no text yet, half a character for one. Its id still counts.
    """
    return read(lab, 9, ("push", "", 5), A) == [CHUNK_A, None, None]


@mistake(task=1)
def skips_empty_chunks(lab):
    """A chunk without text and ids is skipped, and so is the terminal one.

    What makes a chunk the last is its reason, not what it carries. Is there a truth test of a text
    or of ids where it should be one for None?
    """
    return read(lab, 9, A, FINISH) == [CHUNK_A, None, None] and called(lab, 9, FINISH) == [True]


@mistake(task=1)
def reason_on_the_last_chunk(lab):
    """The reason is put on the last chunk that waits, instead of a chunk of its own.

    The reader may have taken that chunk a moment before. The terminal chunk is always one more,
    with no text and no ids.
    """
    return read(lab, 9, A, FINISH)[:2] == [Chunk("a", (1,), "stop"), None]


@mistake(task=1)
def end_overtakes(lab):
    """The terminal chunk comes before what waits, or in its place.

    What was pushed is still to be read: the end comes behind it.
    """
    return read(lab, 9, A, FINISH)[0] == STOP


@mistake(task=1)
def no_terminal_chunk(lab):
    """`finish` ends the channel, and no terminal chunk is ever read.

    How would a reader that waits learn of the end, and why? Append one more chunk.
    """
    ended = called(lab, 9, FINISH, A) == [True, False]
    return ended and read(lab, 9, A, FINISH) == [CHUNK_A, None, None]


@mistake(task=1)
def second_end(lab):
    """A second end adds a second terminal chunk.

    The first end stays. What must `finish` look at before it does anything?
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

    It tells whether *this* call ended the channel.
    """
    one = read(lab, 9, FINISH, ("finish", "length")) == [STOP, None, None]
    return one and called(lab, 9, FINISH, ("finish", "length")) == [True, True]


@mistake(task=1)
def end_forgotten_when_read(lab):
    """Once the terminal chunk was read, the channel counts as open again.

    Keep the end in a state of its own. What waits does not tell it.
    """
    shut = called(lab, 9, FINISH, A) == [True, False]
    return shut and called(lab, 9, FINISH, POP, A, POP)[2:] == [True, CHUNK_A]


@mistake(task=1)
def push_after_end(lab):
    """What is pushed after the end is read behind the terminal chunk.

    Look at the state before you append, not only for the answer.
    """
    return read(lab, 9, FINISH, A) == [STOP, CHUNK_A, None]


@mistake(task=1)
def push_is_always_true(lab):
    """After the end `push` takes nothing, but still returns True.

    The answer is how the writer learns that it can stop: False.
    """
    return read(lab, 9, FINISH, A) == [STOP, None, None] and called(lab, 9, FINISH, A)[1] is True


@mistake(task=1)
def terminal_by_push(lab):
    """A chunk that has a finish_reason can be pushed.

    Then the channel carries a terminal chunk and does not know that it has ended. Refuse it with a
    ValueError that gives the reason.
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

    It is about the writer: `finished` from the moment in which `finish` returns.
    """
    return called(lab, 9, FINISH, "state", POP, "state")[1::2] == ["open", "finished"]


@mistake(
    task=2,
    overdue=["test_full_channel_grows_its_last_chunk", "test_terminal_chunk_has_its_own_place"],
)
def push_waits(lab):
    """A push for which there is no room never returns.

    Does it wait until a chunk was read, or for a lock that it holds itself? The writer serves many
    readers and waits for none of them: join the chunk to the last one.
    """
    return True


@mistake(task=2)
def no_limit(lab):
    """More than `max_pending` chunks wait.

    Nobody says how slow a reader is. Where there is no room, which chunk may grow?
    """
    return read(lab, 1, A, B, C) == [CHUNK_A, CHUNK_B, CHUNK_C]


@mistake(task=2)
def one_more_waits(lab):
    """One chunk more than `max_pending` waits before they are joined.

    Is there still room when as many wait as may?
    """
    return read(lab, 1, A, B, C) == [CHUNK_A, Chunk("bc", (2, 3)), None]


@mistake(task=2)
def full_raises(lab):
    """A push for which there is no room raises.

    The writer serves many readers and cannot be stopped by one: join the chunk to the last.
    """
    return error(lab, 1, A, B)[0] in ("Full", "QueueFull", "OverflowError", "RuntimeError")


@mistake(task=2)
def full_is_false(lab):
    """A push for which there is no room returns False, as if the channel had ended.

    False makes the writer stop. Join the chunk to the last one and return True.
    """
    return called(lab, 1, A, B) == [True, False] and carries(lab)


@mistake(task=2)
def newest_only(lab):
    """A chunk for which there is no room takes the place of the last one.

    Chunks are not the whole text so far, but the news. What is replaced is lost: join the two.
    """
    return read(lab, 1, A, B, C) == [CHUNK_C, None, None]


@mistake(task=2)
def oldest_only(lab):
    """A chunk for which there is no room is dropped.

    The reader would miss a part of the text and never know. Join it to the last one.
    """
    return read(lab, 1, A, B, C) == [CHUNK_A, None, None]


@mistake(task=2)
def last_ids_only(lab):
    """Where chunks are joined, their texts are, and only some of their ids are kept.

    Both belong to the chunk: join the ids as well.
    """
    joined = read(lab, 1, A, B, C)[0]
    return joined.text == "abc" and joined.token_ids != (1, 2, 3)


@mistake(task=2)
def joins_the_first(lab):
    """The first of the waiting chunks grows, not the last.

    Then the text is out of order as soon as two may wait.
    """
    return read(lab, 2, A, B, C)[0] == Chunk("ac", (1, 3))


@mistake(task=2)
def terminal_takes_a_place(lab):
    """Where there is no room, the last chunk carries the reason.

    The terminal chunk comes in addition to `max_pending`, and on its own.
    """
    return read(lab, 1, A, FINISH) == [Chunk("a", (1,), "stop"), None, None] and carries(lab)


@mistake(task=2)
def no_room_for_the_end(lab):
    """Where there is no room, the terminal chunk is lost, and its reader waits for ever.

    It comes in addition to `max_pending`.
    """
    return read(lab, 1, A, FINISH) == [CHUNK_A, None, None] and carries(lab)


@mistake(task=2)
def grows_in_place(lab):
    """The chunk that grows is the very object that was pushed.

    The writer may still use it. Make another chunk, of both.
    """
    return called(lab, 1, A, B, "pushed")[-1] == [Chunk("ab", (1, 2)), CHUNK_B]


@mistake(task=2)
def cancel_unseen(lab):
    """After `cancel` a push still returns True.

    `cancel` ends the channel: the writer sees it at its next push.
    """
    return called(lab, 9, CANCEL, A) == [None, True] and called(lab, 9, FINISH, A)[1] is False


@mistake(task=2)
def cancel_without_end(lab):
    """`cancel` adds no terminal chunk: a reader waits for it for ever.

    Every channel ends with exactly one, whoever ends it. Share the code with `finish`.
    """
    return called(lab, 9, CANCEL, A)[1] is False and read(lab, 9, A, CANCEL) == [
        CHUNK_A, None, None
    ]  # fmt: skip


@mistake(task=2)
def cancel_empties(lab):
    """`cancel` throws away what waits.

    It was pushed while the channel was open, so it can still be read.
    """
    return read(lab, 9, A, CANCEL)[0] in (GONE, None) and carries(lab)


@mistake(task=2)
def cancel_overrides(lab):
    """`cancel` changes the state, or the reason, of a channel that has already ended.

    The first end stays, whoever makes it.
    """
    cancelled = called(lab, 9, CANCEL, "state")[1] == "cancelled"
    late = called(lab, 9, FINISH, CANCEL, "state", POP)
    return cancelled and late[2:] != ["finished", STOP]


@mistake(task=2)
def cancelled_is_finished(lab):
    """After `cancel` the state is `finished`.

    Who ended the channel is what `state` tells: the reader did.
    """
    return called(lab, 9, CANCEL, "state")[1] == "finished"


@mistake(task=2)
def other_reason_of_cancel(lab):
    """`cancel` ends the channel with another reason than `cancelled`.

    The word is part of the contract: others look for it.
    """
    end = read(lab, 9, CANCEL)[0]
    return end.finish_reason not in (None, "cancelled") and end.text == ""


@mistake(task=2)
def no_lock(lab):
    """Right on one thread, but another one can come between a look and what follows from it.

    A writer that has seen `open` is interrupted, the reader cancels, the writer appends: behind the
    terminal chunk. Whatever looks and then changes does both inside one `with self._lock`.
    """
    if read(lab, 1, A, B, CANCEL) != [Chunk("ab", (1, 2)), GONE, None]:
        return False
    for point in range(12):
        new = lab.new("given.Race", lab.new("Channel", 1), point)
        calls = ("run", [[*A]], [[*B]], [[*POP]], [])
        try:
            lab.script(new, [calls], watch="")
        except AssertionError as failure:
            raised = getattr(failure, "raised", None)
            return raised is not None and raised.kind == "IndexError"
        new = lab.new("given.Race", lab.new("Channel", 1), point)
        calls = [[[*A]], [[*B]], [[*CANCEL]], [[*POP]] * 3]
        (pushed,), _, chunks = lab.script(new, [("run", *calls)], watch="").outputs[0]
        last = Chunk("ab", (1, 2)) if pushed else CHUNK_A
        if chunks != [last, GONE, None]:
            return True
    return False


@mistake(task=2, overdue=["test_property_linear"])
def joins_at_push(lab):
    """Each push takes longer, the longer the reader stays away.

    To join all that waits at every push copies it again and again. Keep the parts in a list, and
    join them when they are read.
    """
    return True


@mistake(task=3)
def asks_for_a_loop(lab):
    """`push` raises, because there is no running event loop.

    It is called on the engine's thread, which has none. The reader knows its loop: let it leave the
    loop where `push` finds it.
    """
    kind, text = error(lab, 9, READ, RUN, A)
    return kind == "RuntimeError" and "no running event loop" in text


@mistake(task=3)
def sets_event_directly(lab):
    """The reader sleeps on after a push, until something else wakes its event loop.

    `set` of an `asyncio.Event`, or of a future, is not for other threads: the loop does not notice.
    `loop.call_soon_threadsafe` is.
    """
    asleep, _, awake = called(lab, 9, READ, RUN, A, RUN, ("wait", 0), RUN)[-3:]
    return asleep == [] and awake == [CHUNK_A]


@mistake(task=3)
def polls(lab):
    """The reader looks for chunks again and again, with a pause in between.

    A long pause delays every chunk, a short one keeps the machine busy for nothing. Wait for an
    event which `push` sets.
    """
    asleep, _, still, _, awake = called(
        lab, 9, READ, RUN, A, RUN, ("wait", 0), RUN, ("wait", 60), RUN
    )[-5:]
    return asleep == still == [] and awake == [CHUNK_A]


@mistake(task=3)
def never_sleeps(lab):
    """The reader looks for chunks again and again and never sleeps.

    One such reader keeps a processor busy. Wait for an event which `push` sets.
    """
    return "never sleeps" in error(lab, 9, READ, RUN)[1]


@mistake(task=3)
def end_does_not_wake(lab):
    """A push wakes the reader, but `finish` or `cancel` does not.

    The terminal chunk is news as well.
    """
    ends = [called(lab, 9, READ, RUN, end, RUN, "reader")[-2:] for end in (FINISH, CANCEL)]
    return wakes(lab) and [[], "reads"] in ends


@mistake(task=3)
def keeps_the_end_to_itself(lab):
    """The reader stops at the terminal chunk without giving it out.

    It is a chunk like others: whoever reads learns the reason from it.
    """
    return called(lab, 9, A, FINISH, READ, RUN)[-1] == [CHUNK_A]


@mistake(task=3)
def never_ends(lab):
    """After the terminal chunk the reader goes on waiting.

    Nothing will come any more: raise `StopAsyncIteration`, or return from the generator.
    """
    received, reader = called(lab, 9, A, FINISH, READ, RUN, "reader")[-2:]
    return received == [CHUNK_A, STOP] and reader == "reads"


@mistake(task=3)
def waits_for_a_second_end(lab):
    """A reader waits for ever where the terminal chunk was read before.

    Remember in the channel that it was read.
    """
    once = called(lab, 9, A, FINISH, READ, RUN, "reader")[-2:] == [[CHUNK_A, STOP], "ended"]
    return once and called(lab, 9, FINISH, POP, READ, RUN, "reader")[-1] == "reads"


@mistake(task=3)
def ends_with_state(lab):
    """The reader looks at the state first, and leaves behind what still waits.

    When the channel has ended there may still be chunks to read. The last of them is the terminal
    one: that ends the reading.
    """
    received, reader = called(lab, 9, A, FINISH, READ, RUN, "reader")[-2:]
    return received == [] and reader == "ended" and wakes(lab)


@mistake(task=3)
def leaves_quietly(lab):
    """A reader that leaves early does not cancel: the engine works on for nobody.

    Leaving the `async with` block calls `__aexit__`, or the `finally` around the `yield`. That is
    where to cancel. The end of a generator that is merely iterated may come much later.
    """
    after_break = called(lab, 9, ("read_some", 1), A, RUN, "state", "reader")[-2:]
    after_cancel = called(lab, 9, READ, RUN, ("cancel_task",), RUN, "state")[-1]
    return after_break == ["open", "ended"] and after_cancel == "open" and wakes(lab)


@mistake(task=3)
def task_cancel_forgotten(lab):
    """A reader whose task is cancelled does not cancel the channel.

    `CancelledError` is no `Exception`, and it is how a server tells that the client has gone.
    Cancel in `__aexit__` or in a `finally`, whatever the error is.
    """
    after_break = called(lab, 9, ("read_some", 1), A, RUN, "state")[-1]
    after_cancel = called(lab, 9, READ, RUN, ("cancel_task",), RUN, "state")[-1]
    return after_break == "cancelled" and after_cancel == "open"


@mistake(task=3)
def break_forgotten(lab):
    """A reader that leaves by a `break` does not cancel the channel; by an exception it does.

    A `break` is no exception: the block is left as at its end. Cancel whatever the way out.
    """
    after_break = called(lab, 9, ("read_some", 1), A, RUN, "state")[-1]
    after_error = called(lab, 9, ("read_and_raise", 1), A, RUN, "state")[-1]
    return (after_break, after_error) == ("open", "cancelled")


@mistake(task=3)
def swallows(lab):
    """An exception, or the cancelling of the task, ends at the `async with` block.

    It is for those outside: `__aexit__` returns None, and an `except` ends with `raise`.
    """
    after_error = called(lab, 9, ("read_and_raise", 1), A, RUN, "reader")[-1]
    after_cancel = called(lab, 9, READ, RUN, ("cancel_task",), RUN, "reader")[-1]
    return wakes(lab) and "ended" in (after_error, after_cancel)


@mistake(task=3)
def given_up_wait_ends(lab):
    """A wait that is given up, for a ping say, ends the reading.

    A cancelled `anext` of an async generator is the generator's end. An object with `__anext__` can
    be asked again.
    """
    calls = [("read_with_pings", 5), RUN, ("wait", 5), RUN, A, RUN]
    return wakes(lab) and CHUNK_A not in called(lab, 9, *calls)[-1]


@mistake(task=3)
def takes_too_early(lab):
    """A chunk that comes while a wait is given up is lost.

    Between taking a chunk and returning it there must be no `await`, and nobody else may hand the
    chunk over: then it is taken for sure, or not at all.
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

    `call_soon_threadsafe` raises a RuntimeError then. Nobody will read any more: cancel.
    """
    kind, text = error(lab, 9, READ, RUN, ("close_loop",), A)
    return kind == "RuntimeError" and "closed" in text


@mistake(task=3)
def closed_loop_is_open(lab):
    """A reader whose event loop was closed keeps its channel open.

    It cannot come back, and it could not cancel. The writer that finds the loop closed cancels, and
    its push returns False.
    """
    return called(lab, 9, READ, RUN, ("close_loop",), A, "state")[-2:] != [False, "cancelled"] and (
        wakes(lab)
    )
