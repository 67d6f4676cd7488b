"""The engine as its callers see it: what is taken in, how it ends, and who may step."""

import threading
from unittest.mock import ANY, Mock, call

import numpy
import pytest
from reading import LONG, Gate, on_thread
from scenes import EOS, Scene, assert_ended, channels_of, engine_of, popped, request, submitted

from mini_vllm.engine import (
    EngineOverloadedError,
    EngineState,
    EngineStateError,
    FinishReason,
    NullMetrics,
    Request,
    Response,
    StreamChannel,
    StreamingSubmissionError,
)
from mini_vllm.engine.core import HOOKS


def test_hooks_run_in_their_order_in_every_iteration():
    called = []
    hooks = {name: (lambda name=name: called.append(name)) for name in reversed(HOOKS)}
    engine = engine_of(hooks=hooks)
    engine.submit([request(max_tokens=2)])
    engine.run_until_idle()
    assert called == list(HOOKS) * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hooks": {"before_lunch": print}}, "before_lunch"),
        ({"max_num_seqs": 0}, "max_num_seqs is 0"),
        ({"num_blocks": 0}, "num_blocks is 0"),
        ({"block_size": -1}, "block_size is -1"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0"),
        ({"max_model_len": 0}, "max_model_len is 0"),
        ({"max_waiting": -1}, "max_waiting is -1"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        engine_of(**options)


def test_nothing_submitted_is_nothing_to_do():
    engine = engine_of()
    assert engine.submit([]) == []
    assert engine.handle_request([]) == Response(())
    assert not engine.step()
    assert not engine.run_until_idle(max_steps=0)
    engine.drain()
    assert engine.state is EngineState.CLOSED


def test_step_says_whether_there_is_more_for_all_that_share_it():
    engine = engine_of()
    handles = engine.submit([request(max_tokens=3)]) + engine.submit([request(max_tokens=3)])
    assert [engine.step() for _ in range(4)] == [True, True, False, False]
    assert [handle.result(timeout=0).texts for handle in handles] == [["abc"]] * 2


def test_max_steps_leaves_the_rest_for_later():
    engine = engine_of()
    (channel,), (handle,) = submitted(engine, request(max_tokens=5))
    assert engine.run_until_idle(max_steps=3)
    assert not channel.is_finished
    assert not handle.future.done()
    assert not engine.run_until_idle(max_steps=3)
    assert handle.result(timeout=0).texts == ["abcab"]


def test_shutdown_without_drain_ends_three_that_run_and_two_that_wait():
    engine = engine_of(max_num_seqs=3)
    channels, handles = submitted(engine, *[request() for _ in range(5)])
    assert engine.run_until_idle(max_steps=2)
    assert counts(engine) == (3, 2, 12)
    engine.shutdown(drain=False)
    lengths = [len(assert_ended(channel, FinishReason.CANCELLED)) for channel in channels]
    assert lengths == [3, 3, 3, 1, 1]
    texts = [handle.result(timeout=0).texts for handle in handles]
    assert texts == [["ab"], ["ab"], ["ab"], [""], [""]]
    assert counts(engine) == (0, 0, 0)
    assert engine.state is EngineState.CLOSED


def test_shutdown_with_drain_lets_all_finish():
    engine = engine_of(max_num_seqs=1)
    handles = engine.submit([request(max_tokens=4), request(max_tokens=4)])
    engine.shutdown()
    assert [handle.result(timeout=0).texts for handle in handles] == [["abca"], ["abca"]]
    assert engine.state is EngineState.CLOSED
    engine.shutdown()
    engine.shutdown(drain=False)
    assert not engine.step()


def test_drain_refuses_and_finishes():
    engine = engine_of()
    (handle,) = engine.submit([request(max_tokens=2)])
    engine.drain()
    assert engine.state is EngineState.DRAINING
    channel = StreamChannel.create()
    with pytest.raises(EngineStateError, match="draining"):
        engine.submit([request()], [channel])
    assert_ended(channel, FinishReason.ERROR)
    engine.run_until_idle()
    assert engine.state is EngineState.CLOSED
    with pytest.raises(EngineStateError, match="closed"):
        engine.submit([request()])
    assert handle.result(timeout=0).texts == ["ab"]


def counts(engine):
    stats = engine.stats()
    return stats.running, stats.waiting, stats.used_blocks


def test_drain_while_others_submit_ends_each_submission_one_way():
    engine = engine_of(max_num_seqs=4)
    start = threading.Barrier(9)
    taken, refused = [], []

    def submit():
        start.wait(LONG)
        for _ in range(30):
            channel = StreamChannel.create()
            try:
                engine.submit([request(max_tokens=2)], [channel])
                taken.append(channel)
            except EngineStateError:
                refused.append(channel)

    threads = [on_thread(submit) for _ in range(8)]
    start.wait(LONG)
    while len(taken) < 40:
        engine.step()
    engine.drain()
    for thread in threads:
        thread.result(LONG)
    engine.shutdown()
    assert len(taken) + len(refused) == 240
    for channel in taken:
        assert_ended(channel, FinishReason.LENGTH)
    for channel in refused:
        assert_ended(channel, FinishReason.ERROR)
    assert engine.stats().used_blocks == 0


def test_an_id_is_taken_while_it_runs_and_free_after():
    engine = engine_of()
    fresh = channels_of(2)
    engine.submit([request("A", max_tokens=2)])
    with pytest.raises(StreamingSubmissionError, match="'A'") as caught:
        engine.submit([request("B"), request("A")], fresh)
    assert caught.value.index == 1
    for channel in fresh:
        assert_ended(channel, FinishReason.ERROR)
    with pytest.raises(StreamingSubmissionError, match="'C'"):
        engine.submit([request("C"), request("C")])
    assert engine.stats().waiting == 1
    engine.run_until_idle()
    assert engine.handle_request([request("A", max_tokens=1), request("B", max_tokens=1)]).texts


def test_an_id_is_free_as_soon_as_the_response_is_there():
    engine = engine_of()
    (handle,) = engine.submit([request("A", max_tokens=1)])
    again = []
    handle.future.add_done_callback(
        lambda _: again.extend(engine.submit([request("A", max_tokens=1)]))
    )
    engine.run_until_idle()
    assert again[0].result(timeout=0).texts == ["a"]


def test_an_id_of_the_callers_never_meets_one_of_the_engines():
    engine = engine_of(max_num_seqs=20)
    (first,) = engine.submit([request()])
    rest, last = first.request_id[:-1], first.request_id[-1]
    engine.submit([request(rest + digit) for digit in "0123456789abcdef" if digit != last])
    assert len({handle.request_id for handle in engine.submit([request() for _ in range(9)])}) == 9


@pytest.mark.parametrize("taken", [[1, 1], [2]], ids=["requests", "choices"])
def test_too_many_that_wait_are_refused_and_may_come_again(taken):
    engine = engine_of(max_num_seqs=1, max_waiting=1)
    with pytest.raises(EngineOverloadedError):
        engine.submit([request(n=3)])
    for n in taken:
        engine.submit([request(max_tokens=1, n=n)])
    channel = StreamChannel.create()
    with pytest.raises(EngineOverloadedError, match="try again") as caught:
        engine.submit([request()], [channel])
    assert caught.value.index == 0
    assert_ended(channel, FinishReason.ERROR)
    engine.step()
    assert engine.submit([request(max_tokens=1)])
    engine.run_until_idle()


def test_two_threads_do_not_step_at_once():
    engine = engine_of(hooks={"before_emit": (gate := Gate())})
    engine.submit([request(max_tokens=1)])
    stepping = on_thread(engine.step)
    assert gate.inside.wait(LONG)
    with pytest.raises(EngineStateError, match="another thread"):
        engine.step()
    gate.leave.set()
    stepping.result(LONG)
    assert engine.state is EngineState.RUNNING
    assert not engine.step()


def test_a_hook_that_steps_is_refused():
    engine = engine_of(hooks={"after_emit": lambda: engine.step()})
    engine.submit([request(max_tokens=1)])
    with pytest.raises(EngineStateError):
        engine.step()


def test_a_hook_may_submit_and_look():
    def hook():
        seen.append(engine.stats().running)
        if len(seen) == 1:
            engine.submit([request("late", max_tokens=1)])

    seen, engine = [], engine_of(hooks={"after_emit": hook})
    engine.submit([request(max_tokens=2)])
    engine.run_until_idle()
    assert seen == [1, 2]


def test_handle_request_while_another_thread_steps_touches_nothing_of_that_iteration():
    """What the other thread is about to push must not be pushed from here at the same time."""
    engine = engine_of(hooks={"before_emit": (gate := Gate())})
    engine.submit([request(max_tokens=50)])
    stepping = on_thread(engine.run_until_idle)
    assert gate.inside.wait(LONG)
    channel = StreamChannel.create()
    asking = on_thread(engine.handle_request, [request()], [channel])
    # It waits for the iteration to end before it ends its own streams.
    with pytest.raises(TimeoutError):
        asking.result(0.05)
    assert not channel.is_finished
    gate.leave.set()
    with pytest.raises(EngineStateError):
        asking.result(LONG)
    stepping.result(LONG)
    # The other thread may have served it to the end before this one came to it.
    assert channel.reason in (FinishReason.ERROR, FinishReason.END_ID, FinishReason.LENGTH)
    assert_ended(channel, channel.reason)


def test_an_interrupt_between_steps_ends_what_handle_request_began(monkeypatch):
    engine = engine_of(max_num_seqs=1)
    step, channels = engine.step, channels_of(2)
    outcomes = iter([step, step, Mock(side_effect=KeyboardInterrupt)])
    monkeypatch.setattr(engine, "step", lambda: next(outcomes)())
    with pytest.raises(KeyboardInterrupt):
        engine.handle_request([request("A"), request("B")], channels)
    assert [len(assert_ended(channel, FinishReason.ERROR)) for channel in channels] == [3, 1]
    assert isinstance(channels[0].error, KeyboardInterrupt)
    monkeypatch.undo()
    # The engine itself is well, and clears the places away.
    assert engine.handle_request([request("C", max_tokens=1)]).texts == ["a"]
    assert not engine.run_until_idle()
    assert engine.stats().used_blocks == 0


def test_waiting_for_work_ends_with_a_submission_or_a_drain():
    engine = engine_of()
    engine.wait_for_work(timeout=0.001)
    engine.submit([request(max_tokens=1)])
    engine.wait_for_work()
    engine.drain()
    engine.wait_for_work()


def test_metrics_report_what_was_kept():
    metrics = Mock(spec=NullMetrics())
    scripts = {"A": [(97, 99), None, (98, -1, 259), (100, EOS, 101, -7)]}
    Scene(scripts, metrics=metrics).run()
    assert metrics.mock_calls == [
        call.first_token(ANY, 2),
        call.text_made(ANY),
        call.next_token(ANY, 3),
        call.unknown_tokens(2),
        call.next_token(ANY, 2),
        call.finished(FinishReason.END_ID, 2, 7, ANY),
    ]
    assert all(one.args[0] >= 0 for one in metrics.mock_calls[:3])
    assert metrics.finished.call_args.args[3] >= metrics.first_token.call_args.args[0]


@pytest.mark.parametrize(("steps", "samples"), [(1, 1), (16, 1), (17, 2), (33, 3)])
def test_the_time_of_the_text_is_sampled_once_in_16_steps_that_make_any(steps, samples):
    metrics = Mock(spec=NullMetrics())
    scripts = {name: [None, (97,)] * steps + [(EOS,)] for name in "AB"}
    scene = Scene(scripts, metrics=metrics)
    for _ in range(2 * steps):
        scene.step()
    assert metrics.next_token.call_count == 2 * (steps - 1)
    assert metrics.text_made.call_count == samples
    assert all(one.args[0] > 0 for one in metrics.text_made.mock_calls)
    scene.run()


def test_stats_count_choices_and_blocks():
    engine = engine_of(max_num_seqs=2, block_size=4)
    engine.submit([request(n=3, max_tokens=3)])
    assert engine.has_work
    assert (*counts(engine), dict(engine.stats().held)) == (0, 3, 0, {})
    engine.step()
    assert counts(engine) == (2, 1, 4)
    engine.run_until_idle()
    assert not engine.has_work


class Array:
    """The part of an array of torch, or of another library, that counts."""

    def __init__(self, rows):
        self.rows = rows

    def tolist(self):
        return self.rows


@pytest.mark.parametrize("make", [Array, numpy.array])
def test_a_prompt_may_be_an_array(make):
    engine = engine_of()
    _, (handle,) = submitted(engine, request(prompt=make([0x61, 0x62]), max_tokens=3))
    engine.run_until_idle()
    assert handle.result(timeout=0).texts == ["abc"]


@pytest.mark.parametrize(
    "prompt",
    [(), "\ud800", tuple(range(100)) * 50, None, Array([[1, 2]]), numpy.array([[1, 2]]),
     *[(1, wrong) for wrong in (2.5, 2.0, -1, 259, "a", None)]],
    ids=range(12),
)  # fmt: skip
def test_a_prompt_that_cannot_run_is_refused_and_harms_nobody(prompt):
    engine = engine_of()
    (running,), (handle,) = submitted(engine, request(max_tokens=3))
    engine.step()
    (channel,) = channels_of(1)
    wrong_id = isinstance(prompt, tuple) and len(prompt) == 2
    named = f"prompt id {prompt[1]!r} .* 0 to 258" if wrong_id else None
    with pytest.raises(StreamingSubmissionError, match=named) as caught:
        engine.submit([request(max_tokens=1), Request(prompt)], [channel, None])
    assert caught.value.index == 1
    assert_ended(channel, FinishReason.ERROR)
    assert channel.error is caught.value
    assert not running.is_finished
    engine.run_until_idle()
    assert handle.result(timeout=0).texts == ["abc"]
    assert len(popped(running)) == 3
