"""The engine's thread and the loop of its readers: neither leaves the other without a turn."""

import asyncio
import threading
from collections import deque
from unittest.mock import Mock

import pytest
from reading import LONG, collect, in_asyncio, until
from scenes import FOR_MANY, MANY, Endless, channels_of, engine_of, one_by_one, request, submitted

from mini_vllm.engine import EngineThread, thread
from mini_vllm.engine import engine as engine_module
from mini_vllm.engine.loop_waker import waker_of


@pytest.mark.parametrize("reads", [True, False], ids=["reads", "is about to"])
@in_asyncio
async def test_a_quick_model_does_not_run_away_from_its_readers(reads, monkeypatch):
    """However busy the machine is: the engine counts what it wrote, not how long that took."""
    monkeypatch.setattr(thread, "_READERS_SECONDS", LONG)
    # As far as without waiting a thread gets in its time slice, it may get with more.
    monkeypatch.setattr(engine_module, "_MOST_AHEAD_EACH", 1)
    monkeypatch.setattr(engine_module, "_MOST_AHEAD", 1)
    slots, turn, noted, chunks, most = 200, 0, 0, 0, 0

    def note():
        nonlocal noted, chunks, most
        chunks = slots + (chunks if noted == turn else 0)
        noted, most = turn, max(most, chunks)

    options = {**FOR_MANY, "num_blocks": slots, "max_num_seqs": slots}
    engine = engine_of(Endless((97,)), hooks={"after_emit": note}, **options)
    with EngineThread(engine):
        channels = channels_of(slots)
        for channel in channels:
            channel.announce_reader()
        engine.submit([request(max_tokens=MANY - 16) for _ in range(slots)], channels)
        readings = [asyncio.create_task(collect(channel)) for channel in channels[: slots * reads]]
        await until(lambda: most)
        most = 0
        while turn < 100:
            turn += 1
            await asyncio.sleep(0)
        for channel in channels:
            channel.cancel()
        await asyncio.gather(*readings)
        # The end of `with` holds the loop up, for which the engine would wait.
        await until(lambda: not engine.has_work)
    # A turn may end just after one of the test's has begun, so two may fall into one of these.
    assert slots <= most <= 4 * slots


@in_asyncio
async def test_the_first_text_of_an_answer_is_read_before_the_next_is_made(monkeypatch):
    monkeypatch.setattr(thread, "_READERS_SECONDS", LONG)
    seen, later = [], []

    class Noting(Endless):
        def __getitem__(self, number):
            later.extend([number] * (number > 0))
            return super().__getitem__(number)

    engine = engine_of(Noting((97,)), **FOR_MANY)
    with EngineThread(engine):
        for _ in range(3):
            (channel,) = channels_of(1)
            channel.announce_reader()
            later.clear()
            engine.submit([request(max_tokens=MANY - 16)], [channel])
            async for _ in channel:
                seen.append([*later])
                break
            await until(lambda: not engine.has_work)
    assert seen == [[], [], []]


@in_asyncio
async def test_a_loop_that_does_not_come_to_its_turn_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(thread, "_READERS_SECONDS", 0.01)
    text = "a" * 3000
    engine = engine_of(one_by_one(text, end=True), **FOR_MANY)
    waker = waker_of(asyncio.get_running_loop())
    waker._turn_ended = ended = Mock(wraps=threading.Event())
    with EngineThread(engine):
        (channel,), (handle,) = submitted(engine, request(max_tokens=len(text) + 1))
        reading = asyncio.create_task(collect(channel))
        await until(lambda: channel._pipe.waker)
        # The loop stands here until the engine has said all.
        assert handle.result(LONG).texts == [text]
        assert ended.wait.call_count <= 2
        assert "".join(chunk.text for chunk in await reading) == text


@in_asyncio
async def test_an_event_that_comes_while_the_loop_looks_again_is_set():
    waker, event, late = waker_of(asyncio.get_running_loop()), asyncio.Event(), []

    class Events(deque):
        def __len__(self):
            length = super().__len__()
            if not late:
                late.append(event)
                waker.set(event, [])
            return length

    waker._called, waker._waiting = True, Events()
    waker._look_again()
    for _ in range(3):
        await asyncio.sleep(0)
    assert event.is_set()


def waiting(waker, counts):
    """Let a reader wait for each count of pending chunks; return their events."""
    events = [asyncio.Event() for _ in counts]
    for event, count in zip(events, counts, strict=True):
        waker.set(event, range(count))
    return events


def woken(events):
    return [number for number, event in enumerate(events) if event.is_set()]


@pytest.mark.parametrize(
    ("counts", "first", "second"),
    [
        ([4] * 99, [*range(33)], 55),
        ([4] * 97 + [1, 0], [*range(33), 97, 98], 55),
        ([999] + [4] * 98, [0], 66),
        ([1] * 99, [*range(99)], 0),
        ([4] * 32, [*range(32)], 0),
    ],
    ids=["quick", "first text", "slow reader", "slow model", "few"],
)
@in_asyncio
async def test_a_turn_wakes_those_that_wait_longest_for_a_third_of_the_chunks(
    counts, first, second
):
    waker, late = waker_of(asyncio.get_running_loop()), []

    class Pending(list):
        def __len__(self):
            """Where the engine stands that writes to others while the loop looks."""
            if not late:
                late.extend(asyncio.Event() for _ in range(99))
                for event in late:
                    waker.set(event, range(4))
            return super().__len__()

    waker._called = True
    events = waiting(waker, counts)
    waker._waiting[0] = events[0], Pending([None] * counts[0])
    waker._begin_awaited_turn()
    assert (woken(events), woken(late)) == (first, [])
    waker._begin_awaited_turn()
    rest = [number for number in range(len(counts)) if number not in first]
    assert woken(events) == sorted(first + rest[:second])
    assert woken(late) == ([] if second else [*range(33)])
    # The engine waits no more, and all the others are woken too.
    await asyncio.wait_for(asyncio.gather(*(event.wait() for event in events + late)), LONG)


@in_asyncio
async def test_a_turn_that_the_engine_waits_for_is_the_only_one(monkeypatch):
    waker = waker_of(asyncio.get_running_loop())
    events = waiting(waker, [4] * 99)
    monkeypatch.setattr(waker._turn_ended, "wait", lambda seconds: True)
    waker.wait_for_turn(LONG)
    await asyncio.sleep(0)
    assert woken(events) == [*range(33)]
    await asyncio.wait_for(asyncio.gather(*(event.wait() for event in events)), LONG)
