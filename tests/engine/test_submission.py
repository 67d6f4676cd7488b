"""Attaching all channels of a submission or none: 40, 41, X1, X2, X3, X16."""

import threading
from itertools import permutations
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import scenes
from reading import LONG, on_thread, until_somebody_waits
from scenes import channels_of, engine_of, one_by_one, submitted, text_of

from mini_vllm.engine import (
    ChannelStateError,
    EngineDeadError,
    EngineOverloadedError,
    EngineStateError,
    FinishReason,
    OverflowPolicy,
    Request,
    SamplingParams,
    StreamChannel,
    StreamChunk,
    StreamingSubmissionError,
)
from mini_vllm.engine.channel import attach
from mini_vllm.engine.intake import attach_all, refuse, validate_streaming_submission
from mini_vllm.models.scripted import Raise

OWNER = SimpleNamespace(thread_id=None)


def request(**changes):
    return scenes.request(**{"max_tokens": 3, **changes})


@pytest.mark.parametrize("channels", [None, []])
def test_40_no_channels_by_default(channels):
    validate_streaming_submission([request(), request()], channels)
    engine = engine_of()
    handles = engine.submit([request()]) + engine.submit([request()], channels)
    engine.run_until_idle()
    assert [handle.result(0).texts for handle in handles] == [["abc"], ["abc"]]


def test_41_channels_and_none_may_be_mixed():
    engine = engine_of()
    one, other = channels_of(2)
    handles = engine.submit([request(), request(n=2)], [one, None, other])
    engine.run_until_idle()
    assert [one.original_batch_idx, other.original_batch_idx] == [0, 2]
    assert [text_of(channel) for channel in (one, other)] == ["abc"] * 2
    assert [handle.result(0).texts for handle in handles] == [["abc"], ["abc", "abc"]]


@pytest.mark.parametrize("overflow", OverflowPolicy)
@pytest.mark.parametrize(
    ("choices", "places", "index", "said"),
    [
        (2, "a", 1, "1 channels for 2 choices"),
        (2, "abc", 2, "3 channels for 2 choices"),
        pytest.param(4, "a-ab", 2, "given twice", id="x1"),
        (3, "a?b", 1, "'nonsense'"),
    ],
)
def test_channels_that_do_not_fit_their_choices_are_finished(
    choices, places, index, said, overflow
):
    channels = {name: StreamChannel.create(max_pending=1, overflow=overflow) for name in "abc"}
    given = [{"-": None, "?": "nonsense", **channels}[place] for place in places]
    with pytest.raises(StreamingSubmissionError, match=said) as caught:
        engine_of(max_num_seqs=1).submit([request()] * choices, given)
    assert caught.value.index == index
    for channel in {one for one in given if isinstance(one, StreamChannel)}:
        assert (channel.reason, channel.error) == (FinishReason.ERROR, caught.value)
        assert [chunk.reason for chunk in channel] == [FinishReason.ERROR]


def dead_engine():
    engine = engine_of([Raise(RuntimeError("boom"))])
    with pytest.raises(RuntimeError):
        engine.handle_request([request()])
    return engine


def closed_engine():
    engine = engine_of()
    engine.shutdown()
    return engine


def full_engine():
    engine = engine_of(max_num_seqs=1, max_waiting=0)
    engine.submit([request()])
    return engine


TOO_LONG = Request((1,) * 100, SamplingParams(max_tokens=3))
REFUSED = {
    "prompt too long": (lambda: engine_of(num_blocks=2), TOO_LONG, StreamingSubmissionError),
    "no prompt": (engine_of, Request(()), StreamingSubmissionError),
    "unknown id": (engine_of, Request((1 << 20,)), StreamingSubmissionError),
    "overloaded": (full_engine, request(), EngineOverloadedError),
    "closed": (closed_engine, request(), EngineStateError),
    "dead": (dead_engine, request(), EngineDeadError),
    "text path": (
        lambda: engine_of(make_text_path=Mock(side_effect=MemoryError)),
        request(),
        MemoryError,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_x2_a_refused_submission_lets_waiting_readers_go_and_leaves_nothing(case):
    make, bad, error = REFUSED[case]
    engine, channels = make(), channels_of(2)
    readers = [on_thread(channel.consume, print) for channel in channels]
    for channel in channels:
        until_somebody_waits(channel)
    before = engine.stats()
    with pytest.raises(error) as caught:
        engine.submit([request(), bad], channels)
    assert [reader.result(LONG) for reader in readers] == [FinishReason.ERROR] * 2
    assert [channel.error for channel in channels] == [caught.value] * 2
    assert engine.stats() == before


def test_a_channel_of_another_request_is_left_alone_while_it_runs_and_after():
    engine = engine_of()
    (live,), (handle,) = submitted(engine, request())
    engine.step()
    for reason in (FinishReason.NOT_FINISHED, FinishReason.LENGTH):
        (new,) = channels_of(1)
        with pytest.raises(StreamingSubmissionError, match="used before") as caught:
            engine.submit([request(), request()], [new, live])
        assert caught.value.index == 1
        assert (new.reason, live.reason, live.error) == (FinishReason.ERROR, reason, None)
        engine.run_until_idle()
    assert text_of(live) == handle.result(0).texts[0] == "abc"
    assert list(live) == []


def test_one_channel_instead_of_a_list_is_refused_and_finished():
    channel = StreamChannel.create()
    error = on_thread(engine_of().submit, [request()], channel).exception(LONG)
    assert isinstance(error, StreamingSubmissionError)
    assert "list" in str(error)
    assert (channel.reason, channel.error) == (FinishReason.ERROR, error)


def test_attach_rolls_back_what_it_had_attached():
    taken = StreamChannel.create()
    attach(taken, 7, OWNER)
    one, other = channels_of(2)
    with pytest.raises(StreamingSubmissionError) as caught:
        attach_all([one, taken, other], OWNER)
    assert caught.value.index == 1
    assert (one.reason, one.error) == (FinishReason.ERROR, caught.value)
    assert (taken.is_finished, taken.original_batch_idx) == (False, 7)
    assert not other.is_attached
    refuse([one, taken, None, other], OWNER, caught.value)
    assert (other.reason, taken.is_finished) == (FinishReason.ERROR, False)


def test_attach_rolls_back_when_it_is_interrupted(monkeypatch):
    def interrupted(channel, index, owner):
        if index == 2:
            raise KeyboardInterrupt
        return attach(channel, index, owner)

    monkeypatch.setattr("mini_vllm.engine.intake.attach", interrupted)
    channels = channels_of(3)
    with pytest.raises(KeyboardInterrupt):
        attach_all(channels, OWNER)
    assert [channel.reason for channel in channels[:2]] == [FinishReason.ERROR] * 2
    assert all(isinstance(channel.error, KeyboardInterrupt) for channel in channels[:2])


def test_x3_a_refusal_between_check_and_attach_takes_no_channel_from_the_winner(monkeypatch):
    # The second submission sees one channel taken while the first is still attaching the others.
    engine, channels, caught = engine_of(), channels_of(2), []

    def submit_again():
        try:
            engine.submit([request(), request()], channels)
        except StreamingSubmissionError as error:
            caught.append(error)

    second, at_the_lock = threading.Thread(target=submit_again, daemon=True), threading.Event()

    class Watched:
        """The lock of all engines, which tells when the second submission comes to it."""

        lock = threading.Lock()

        def __enter__(self):
            if threading.current_thread() is second:
                at_the_lock.set()
            self.lock.acquire()

        def __exit__(self, *_):
            self.lock.release()

    def slow(channel, index, owner):
        pipe = attach(channel, index, owner)
        if threading.current_thread() is not second and index == 0:
            second.start()
            assert at_the_lock.wait(LONG)
        return pipe

    monkeypatch.setattr("mini_vllm.engine.intake._LOCK", Watched())
    monkeypatch.setattr("mini_vllm.engine.intake.attach", slow)
    engine.submit([request(), request()], channels)
    second.join(LONG)
    assert not second.is_alive()
    assert len(caught) == 1
    engine.run_until_idle()
    assert [channel.reason for channel in channels] == [FinishReason.LENGTH] * 2


@pytest.mark.parametrize(("engines", "rounds"), [(1, 300), (2, 300)])
def test_x3_of_two_overlapping_submissions_exactly_one_wins(engines, rounds):
    both = [engine_of(max_num_seqs=3000, num_blocks=3000) for _ in range(engines)]
    orders, wins = list(permutations(range(3), 2)), [[], []]
    ready = threading.Barrier(2, timeout=LONG)
    channels = [channels_of(3) for _ in range(rounds)]

    def submitter(which):
        engine = both[which % engines]
        for number, these in enumerate(channels):
            # Two of three channels each, so at least one is wanted by both.
            order = orders[(number + which * (1 + number // 6)) % 6]
            ready.wait()
            try:
                engine.submit([request(), request()], [these[place] for place in order])
            except (StreamingSubmissionError, ChannelStateError):
                continue
            wins[which].append(number)

    for thread in [on_thread(submitter, which) for which in (0, 1)]:
        thread.result(LONG)
    assert sorted(wins[0] + wins[1]) == list(range(rounds))
    for engine in both:
        engine.run_until_idle(None)
    for these in channels:
        ends = [
            [chunk.reason for chunk in one if chunk.finished] for one in these if one.is_attached
        ]
        assert sorted(ends)[:2] == [[FinishReason.LENGTH]] * 2
        assert sorted(ends)[2:] in ([], [[FinishReason.ERROR]])


def test_x16_a_channel_cancelled_before_submission_costs_no_prefill():
    asked = []
    engine = engine_of(lambda slot: asked.append(slot.request_id) or one_by_one("b"))
    gone, live = channels_of(2)
    gone.cancel()
    requests = [scenes.request(name, max_tokens=1) for name in "AB"]
    handles = engine.submit(requests, [gone, live])
    assert not gone.is_finished
    engine.run_until_idle()
    assert asked == ["B"]
    assert handles[0].result(0).finish_reasons == [FinishReason.CANCELLED]
    assert list(gone) == [StreamChunk(finished=True, reason=FinishReason.CANCELLED)]
    assert [handle.result(0).texts for handle in handles] == [[""], ["b"]]
    assert engine.stats().used_blocks == 0


def test_a_handle_waits_as_long_as_it_was_told_and_gives_its_choices_in_order():
    engine = engine_of({("A", 0): one_by_one("zero", end=True), ("A", 1): one_by_one("o🚀ne")})
    channels, (handle,) = submitted(engine, scenes.request("A", n=2, max_tokens=7))
    assert handle.request_id == "A"
    engine.step()
    with pytest.raises(TimeoutError):
        handle.result(0)
    assert not handle.future.cancel()
    engine.run_until_idle()
    assert [(out.index, out.text, out.finish_reason) for out in handle.result(0).outputs] == [
        (0, "zero", FinishReason.END_ID),
        (1, "o🚀ne", FinishReason.LENGTH),
    ]
    assert [text_of(channel) for channel in channels] == ["zero", "o🚀ne"]
