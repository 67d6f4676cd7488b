"""Cancelling: seen within one iteration, from anywhere, and felt by nobody else."""

import asyncio
import threading

import pytest
from reading import LONG, collect, in_asyncio, on_thread
from scenes import (
    EOS,
    FOR_MANY,
    MANY,
    Endless,
    Scene,
    assert_ended,
    engine_of,
    ids,
    one_by_one,
    request,
    submitted,
    watched,
)

from mini_vllm.engine import EngineThread, FinishReason, StreamChunk
from mini_vllm.models.scripted import ScriptedModel

CANCELLED = FinishReason.CANCELLED


def endless(*names):
    """Return an engine whose requests end when they are cancelled, their channels and handles."""
    engine = engine_of({name: Endless((ord(name),)) for name in names}, **FOR_MANY)
    return engine, *submitted(engine, *[request(name, max_tokens=MANY) for name in names])


@pytest.mark.parametrize("iteration", [2, 3, 5])
@pytest.mark.parametrize("by", ["channel", "handle"])
def test_a_cancel_before_decode_lets_that_burst_out_and_ends_one_later(iteration, by):
    cancelled = {"channel": lambda s: s.channels["A"], "handle": lambda s: s.handles["A"]}[by]
    scene = Scene(
        {"A": one_by_one("abcdefgh"), "B": one_by_one("bbbbbb", end=True)},
        at={("before_decode", iteration): lambda scene: cancelled(scene).cancel()},
    )
    for _ in range(iteration):
        scene.step()
    assert scene.log["A"][-1] == (iteration, StreamChunk((96 + iteration,), chr(96 + iteration)))
    scene.step()
    assert scene.log["A"][-1] == (iteration + 1, StreamChunk(finished=True, reason=CANCELLED))
    assert scene.engine.stats().used_blocks == 4
    assert scene.output("A").token_ids == ids("abcdefgh")[:iteration]
    scene.run()
    assert scene.outcome("B") == ((*ids("bbbbbb"), EOS), "bbbbbb", FinishReason.END_ID)
    assert scene.engine.stats().used_blocks == 0


def test_a_cancelled_slot_is_not_stepped_again():
    scripts = {"A": one_by_one("a" * 9), "B": one_by_one("bbb", end=True)}
    cancel = {("after_evict", 2): lambda scene: scene.channels["A"].cancel()}
    scene = Scene(scripts, model=(model := watched(scripts)), at=cancel).run()
    asked = [[slot.request_id for slot in call.args[0]] for call in model.decode.mock_calls]
    assert asked == [["A", "B"], ["B"], ["B"]]
    assert scene.outcome("A") == (ids("aa"), "aa", CANCELLED)


def test_a_waiting_choice_is_cancelled_without_a_prefill():
    seen = []
    model = ScriptedModel(
        lambda slot: seen.append(slot.request_id) or one_by_one(slot.request_id, end=True)
    )
    scene = Scene({"A": None, "B": None, "C": None}, model=model, max_num_seqs=1)
    scene.step()
    scene.handles["B"].cancel()
    scene.step()
    assert scene.log["B"] == [(2, StreamChunk(finished=True, reason=CANCELLED))]
    scene.run()
    assert seen == ["A", "C"]
    assert scene.outcome("B") == ((), "", CANCELLED)
    assert scene.outcome("C")[1] == "C"


def test_cancel_after_the_end_changes_nothing():
    scene = Scene({"A": one_by_one("a", end=True)}).run()
    scene.channels["A"].cancel()
    scene.handles["A"].cancel()
    assert not scene.step()
    assert scene.outcome("A")[2] is FinishReason.END_ID
    assert scene.channels["A"].reason is FinishReason.END_ID


@pytest.mark.parametrize(
    ("cancelled", "texts"),
    [
        (lambda channels, handle: channels[0], ["a", "abc", "abc"]),
        (lambda channels, handle: handle, ["a", "a", "abc"]),
    ],
    ids=["channel", "handle"],
)
def test_a_channel_cancels_its_choice_and_a_handle_all_of_its_request(cancelled, texts):
    engine = engine_of()
    channels, handles = submitted(engine, request(n=2, max_tokens=3), request(max_tokens=3))
    engine.step()
    cancelled(channels, handles[0]).cancel()
    assert [one.is_cancelled for one in handles] == [texts[1] == "a", False]
    engine.run_until_idle()
    outputs = [one for handle in handles for one in handle.result(timeout=0).outputs]
    assert [one.text for one in outputs] == texts
    reasons = [CANCELLED if text == "a" else FinishReason.LENGTH for text in texts]
    assert [one.finish_reason for one in outputs] == reasons


@in_asyncio
async def test_from_a_task_of_asyncio():
    engine, (channel,), (handle,) = endless("A")
    with EngineThread(engine):
        reading = asyncio.create_task(collect(channel))
        await asyncio.sleep(0)
        channel.cancel()
        await reading
        response = await asyncio.wrap_future(handle.future)
    assert response.finish_reasons == [CANCELLED]


def test_a_hundred_threads_at_once_are_one_cancel():
    engine, channels, handles = endless("A", "B")
    start = threading.Barrier(101)

    def cancel():
        start.wait(LONG)
        channels[0].cancel()
        handles[0].cancel()

    threads = [on_thread(cancel) for _ in range(100)]
    with EngineThread(engine):
        start.wait(LONG)
        assert handles[0].result(timeout=LONG).finish_reasons == [CANCELLED]
        handles[1].cancel()
        handles[1].result(timeout=LONG)
    for thread in threads:
        thread.result(LONG)
    for channel in channels:
        assert_ended(channel, CANCELLED)
