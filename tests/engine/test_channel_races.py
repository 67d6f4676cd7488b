"""Threads against a channel: order, no lost wake-up, and one terminal chunk whoever is first."""

import os
import random
import threading
import time
from collections import deque
from queue import SimpleQueue

import pytest
from reading import END, LONG, A, B, attached, every_waiting_reader, on_thread
from scenes import engine_of, ids_of, text_of

from mini_vllm.engine import (
    ChannelStateError,
    EngineThread,
    FinishReason,
    Request,
    SamplingParams,
    StreamChannel,
    StreamChunk,
)
from mini_vllm.engine.outputs import JoinedChunks

SOAK = bool(os.environ.get("SOAK"))


def together(*calls):
    """Run calls on threads of their own, from a common start to the end of all."""
    start = threading.Barrier(len(calls), timeout=LONG)
    running = [on_thread(lambda call=call: (start.wait(), call())) for call in calls]
    for one in running:
        one.result(LONG)


def only_the_last_is_terminal(chunks):
    return [chunk.finished for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


@pytest.mark.parametrize("most", [None, 2])
def test_10_000_pushes_and_pops_over_two_threads_keep_their_order(most):
    count, got = 10_000, []
    channel, pipe = attached(max_pending=most)

    def push():
        for number in range(count):
            pipe.push(StreamChunk((number,), f"{number} "))
            assert most is None or channel.pending_count <= most
        pipe.finish(FinishReason.LENGTH)

    together(push, lambda: got.extend(channel))
    assert most is not None or len(got) == count + 1
    assert ids_of(got) == tuple(range(count))
    assert text_of(got) == "".join(f"{n} " for n in range(count))
    assert only_the_last_is_terminal(got)


def test_cancel_finish_and_push_race_to_one_terminal_chunk():
    rounds = 10_000 if SOAK else 1000
    pairs = [attached(max_pending=4) for _ in range(rounds)]
    start = threading.Barrier(3, timeout=LONG)
    late = []

    def cancel():
        for channel, _ in pairs:
            start.wait()
            channel.cancel()

    def finish():
        for _, pipe in pairs:
            start.wait()
            pipe.finish(FinishReason.ERROR)
            pipe.finish(FinishReason.LENGTH)

    def push():
        for number, (_, pipe) in enumerate(pairs):
            start.wait()
            while number % 2 and not pipe.finished:
                time.sleep(0)
            try:
                pipe.push(StreamChunk((number,), "a"))
                pipe.push(StreamChunk(finished=True, reason=FinishReason.END_ID))
            except ChannelStateError:
                late.append(number)

    together(cancel, finish, push)
    for channel, _ in pairs:
        chunks = list(channel)
        assert only_the_last_is_terminal(chunks)
        assert chunks[-1].reason is channel.reason
        assert channel.is_cancelled
    # In every other round the push certainly comes after the end; in the rest nobody knows.
    assert {*late}.issuperset(range(1, rounds, 2))


def test_a_cancel_between_looking_and_waiting_is_not_lost(monkeypatch):
    # The reader has looked and has the lock, and now `cancel` comes. A wake-up that is lost would
    # have the reader wait for the whole poll, longer than the test may.
    channel = StreamChannel.create()
    wait = channel._pipe.condition.wait
    cancelling = threading.Thread(target=channel.cancel, daemon=True)

    def cancel_first(timeout):
        if not channel.is_cancelled:
            cancelling.start()
            while not channel.is_cancelled:
                pass
        return wait(timeout)

    monkeypatch.setattr(channel._pipe.condition, "wait", cancel_first)
    together(lambda: channel.consume(print, poll=1000))


@every_waiting_reader
def test_a_chunk_between_looking_and_waiting_is_not_lost(read):
    # The reader has found nothing, and now a chunk comes whose writer knows of nobody who waits.
    channel, pipe = attached()
    take, sent = pipe.take, [A, END]

    def take_before_the_push():
        chunk = take()
        if chunk is None and sent:
            pipe.push(sent.pop(0))
        return chunk

    pipe.take = take_before_the_push
    assert on_thread(read, channel).result(LONG) == [A, END]


@pytest.mark.parametrize("moment", ["found it full", "joins"])
def test_a_reader_who_comes_while_the_writer_joins_loses_nothing(moment, monkeypatch):
    channel, pipe = attached(max_pending=1)
    got, add = [], JoinedChunks.add

    def come():
        if not got:
            got.append(None)
            got[0] = channel.try_pop()

    class Pending(deque):
        def __len__(self):
            length = super().__len__()
            if length:
                come()
            return length

    def come_and_add(joined, chunk):
        come()
        add(joined, chunk)

    if moment == "joins":
        monkeypatch.setattr(JoinedChunks, "add", come_and_add)
    else:
        pipe.pending = Pending()
    pipe.push(A)
    pipe.push(END)
    chunks = [chunk for chunk in [*got, *channel] if chunk is not None]
    assert text_of(chunks) == A.text
    assert only_the_last_is_terminal(chunks)


@pytest.mark.parametrize(
    "sent", [[A], [END], [A, B], [A, END]], ids=["one", "end", "two", "one and end"]
)
def test_each_chunk_goes_to_one_of_two_threads_that_try_at_once(sent):
    channel, pipe = attached()
    got = []

    class Pending(deque):
        def popleft(self):
            """Where a thread stands that has found a chunk, while the other one takes it."""
            if not got:
                got.append(None)
                got[0] = on_thread(channel.try_pop).result(LONG)
            return super().popleft()

    pipe.pending = Pending()
    for chunk in sent:
        pipe.push(chunk)
    late = channel.try_pop()
    assert [*got, late] == [*sent, None][:2]
    assert (channel.try_pop(), channel.pending_count) == (None, 0)


def test_a_reader_in_asyncio_who_comes_while_the_writer_wakes_is_woken_next_time():
    _channel, pipe = attached()
    event, woken, read = object(), [], []

    class Waker:
        @property
        def is_closed(self):
            """Where the writer of the first chunk stands while the reader takes it and waits."""
            if not read:
                read.append(None)
                read[0], _ = pipe.take_all(self, event)
            return False

        def set(self, event, pending):
            woken.append(event)

    pipe.waker = Waker()
    pipe.push(A)
    pipe.push(END)
    assert read == [[A]]
    assert event in woken


def test_nothing_comes_after_the_terminal_chunk_whatever_a_second_writer_does():
    # It saw no end yet, and appends when the terminal chunk was read already.
    channel, pipe = attached()

    class Late(StreamChunk):
        @property
        def finished(self):
            """The first look of a writer that has found the channel open."""
            if not pipe.finished:
                pipe.finish(FinishReason.LENGTH)
                assert channel.try_pop().finished
            return False

    pipe.push(Late.__new__(Late))
    assert (channel.try_pop(), channel.pending_count) == (None, 0)


def test_R3_submit_cancel_and_finish_race_to_one_terminal_chunk_each():
    # Four submitters, each with a thread that cancels what it submits, before, while or after the
    # engine's thread ends it by itself.
    workers, rounds = 4, 10_000 if SOAK else 300
    ends, failures = [], []
    engine = engine_of(lambda slot: [slot.prompt_token_ids] * 8, max_num_seqs=3)

    def submit(number, orders):
        chance = random.Random(number)
        for _ in range(rounds // workers):
            channel = StreamChannel.create(max_pending=chance.choice([1, 2, 256]))
            length = chance.randint(1, 8)
            orders.put((channel, chance.choice([0, 0, 10, 100, 1000])))
            request = Request((97 + number,), SamplingParams(max_tokens=length))
            (handle,) = engine.submit([request], [channel])
            chunks = []
            reason = channel.consume(chunks.append, poll=1000)
            output = handle.result(LONG).outputs[0]
            good = (
                only_the_last_is_terminal(chunks)
                and chunks[-1].reason is reason is channel.reason is output.finish_reason
                and reason in (FinishReason.CANCELLED, FinishReason.LENGTH)
                and text_of(chunks) == output.text == chr(97 + number) * len(output.token_ids)
                and ids_of(chunks) == output.token_ids
                and (reason is FinishReason.CANCELLED or len(output.token_ids) == length)
                and channel.try_pop() is None
            )
            if not good:
                failures.append((chunks, output))
            ends.append(reason)
        orders.put(None)

    def cancel(orders):
        while (order := orders.get(timeout=LONG)) is not None:
            channel, turns = order
            for _ in range(turns):
                pass
            channel.cancel()

    lines = [SimpleQueue() for _ in range(workers)]
    with EngineThread(engine) as thread:
        together(
            *[lambda n=n, line=line: submit(n, line) for n, line in enumerate(lines)],
            *[lambda line=line: cancel(line) for line in lines],
        )
        assert thread.is_alive
    assert failures == []
    assert len(ends) == rounds
    assert set(ends) == {FinishReason.CANCELLED, FinishReason.LENGTH}, "nothing raced"
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.used_blocks) == (0, 0, 0)
