"""X21: anything in any order, and after each step the books are right."""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scenes import EOS, PROMPT, ROCKET, ids, ids_of, params, popped, reference, text_of

from mini_vllm.engine import (
    Burst,
    Engine,
    EngineDeadError,
    EngineState,
    EngineStateError,
    FinishReason,
    Request,
    StreamChannel,
    StreamingError,
    StreamingSubmissionError,
)
from mini_vllm.tokenizer import ByteTokenizer

BLOCK_SIZE = 4
NUM_BLOCKS = 24
ASKED_TO_END = (FinishReason.CANCELLED, FinishReason.ERROR)
LETTERS = st.sampled_from([*ids("ab#"), *ids("ab#"), *ROCKET, 0xFF, EOS, -1, 300])
BURSTS = st.lists(LETTERS, min_size=1, max_size=4).map(tuple)
STEPS = st.lists(st.one_of(BURSTS, BURSTS, BURSTS, st.none()), max_size=8)
FAULTS = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 5))
STOPS = st.lists(st.sampled_from(["#", "ab", "##", "b#a", "🚀"]), max_size=2, unique=True)
NUMBERS = st.integers(0, 99)


class Model:
    """Plays scripts, notes who is in it, and raises when it is told to."""

    def __init__(self):
        self.scripts = {}
        self.inside = {}
        self.error = None

    def prefill(self, slots):
        for slot in slots:
            assert slot.key not in self.inside
            self.inside[slot.key] = slot
        return self.decode(slots)

    def decode(self, slots):
        if self.error is not None:
            raise self.error
        news = []
        for slot in slots:
            script = self.scripts[slot.key]
            # After its script a choice goes on with one letter, up to its max_tokens.
            step = script[slot.step] if slot.step < len(script) else (120,)
            news.append(Burst(step) if isinstance(step, tuple) else step)
        return news

    def release(self, slot):
        del self.inside[slot.key]


class Choice:
    """What is known of a choice that was taken in."""

    def __init__(self, handle, index, params, channel, script):
        self.handle = handle
        self.index = index
        self.params = params
        self.channel = channel
        self.popped = []
        given = [one for step in script if isinstance(step, tuple) for one in step]
        self.script = (*given, *[120] * params.max_tokens)

    def check_popped(self):
        """What was read so far is in order, and a beginning of what is to come."""
        chunks = self.popped
        finished = [chunk.finished for chunk in chunks]
        assert True not in finished[:-1]
        read = ids_of(chunks)
        assert read == self.script[: len(read)]
        if not (finished and finished[-1]):
            _, text, _ = reference(self.script, self.params)
            assert text.startswith(text_of(chunks))

    def check_output(self, output):
        token_ids, text, natural = reference(output.token_ids, self.params)
        assert output.token_ids == token_ids == self.script[: len(token_ids)]
        assert output.text == text
        if output.finish_reason not in ASKED_TO_END:
            assert output.finish_reason is natural
        if self.channel is not None:
            assert ids_of(self.popped) == token_ids
            assert text_of(self.popped) == text
            assert self.channel.reason is output.finish_reason


class EngineMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.names = 0
        self.choices = []
        self.cancelled = set()

    @initialize(slots=st.integers(1, 3), batched=st.sampled_from([None, 2, 5]))
    def start(self, slots, batched):
        self.model = Model()
        self.slots = slots
        self.engine = Engine(
            self.model,
            ByteTokenizer(),
            max_num_seqs=slots,
            num_blocks=NUM_BLOCKS,
            block_size=BLOCK_SIZE,
            max_num_batched_tokens=batched,
        )

    def pick(self, number):
        return self.choices[number % len(self.choices)]

    @rule(
        scripts=st.lists(STEPS, min_size=1, max_size=2),
        fault=FAULTS,
        read=st.booleans(),
        cancelled=st.integers(0, 9),
        most=st.integers(1, 12),
        least=st.integers(0, 2),
        stop=STOPS,
        ignore_eos=st.booleans(),
        interval=st.sampled_from([1, 2, 4, 100]),
        max_pending=st.sampled_from([1, 2, 256]),
    )
    def submit(
        self, scripts, fault, read, cancelled, most, least, stop, ignore_eos, interval, max_pending
    ):
        self.names += 1
        name = f"r{self.names}"
        if fault is not None:
            scripts[0] = [*scripts[0][:fault], OSError("this slot alone")]
        one = params(
            max_tokens=most,
            min_tokens=min(least, most),
            stop=tuple(stop),
            ignore_eos=ignore_eos,
            n=len(scripts),
        )
        channels = [StreamChannel.create(max_pending=max_pending) for _ in scripts]
        if not read:
            channels = [None] * len(scripts)
        for index, channel in enumerate(channels):
            if channel is not None:
                channel.set_stream_interval(interval)
                if index == cancelled:
                    channel.cancel()
        for index, script in enumerate(scripts):
            self.model.scripts[name, index] = script
        taking = self.engine.state is EngineState.RUNNING
        try:
            (handle,) = self.engine.submit([Request(PROMPT, one, name)], channels)
        except EngineStateError:
            assert not taking
            self.all_refused(channels)
            return
        assert taking
        for index, (channel, script) in enumerate(zip(channels, scripts, strict=True)):
            self.choices.append(Choice(handle, index, one, channel, script))

    @rule(
        kind=st.sampled_from(
            ["too few", "too many", "twice", "used", "empty", "long", "id", "again"]
        ),
        number=NUMBERS,
    )
    def submit_what_is_refused(self, kind, number):
        before = self.engine.stats()
        fresh = [StreamChannel.create(), StreamChannel.create()]
        requests = [Request(PROMPT, params(max_tokens=2)), Request(PROMPT, params(max_tokens=2))]
        channels = list(fresh)
        running = [one for one in self.choices if not one.handle.future.done()]
        if kind == "too few":
            channels.pop()
        elif kind == "too many":
            channels.append(None)
        elif kind == "twice":
            channels[1] = channels[0]
        elif kind == "empty":
            requests[1] = Request((), params())
        elif kind == "long":
            requests[1] = Request(PROMPT, params(max_tokens=NUM_BLOCKS * BLOCK_SIZE))
        elif kind == "id":
            requests[1] = Request((1, 999))
        elif kind == "again" and running:
            name = running[number % len(running)].handle.request_id
            requests[1] = Request(PROMPT, params(max_tokens=2), name)
        elif self.choices and self.pick(number).channel is not None:
            channels[1] = self.pick(number).channel
        else:
            return
        running = self.engine.state is EngineState.RUNNING
        expected = (StreamingSubmissionError, *(() if running else (EngineStateError,)))
        with pytest.raises(expected) as caught:
            self.engine.submit(requests, channels)
        assert getattr(caught.value, "index", 0) in (0, 1, 2)
        self.all_refused([one for one in fresh if one in channels])
        assert self.engine.stats() == before

    def all_refused(self, channels):
        for channel in channels:
            if channel is not None:
                (chunk,) = popped(channel)
                assert (chunk.finished, chunk.reason) == (True, FinishReason.ERROR)
                assert isinstance(channel.error, StreamingError)

    @rule(times=st.integers(1, 3))
    def step(self, times):
        for _ in range(times):
            self.step_once()

    def step_once(self):
        state = self.engine.state
        armed = self.model.error
        try:
            more = self.engine.step()
        except EngineDeadError:
            assert state is EngineState.FAILED
        except RuntimeError:
            assert armed
            assert self.engine.state is EngineState.FAILED
        else:
            assert more == self.engine.has_work

    @precondition(lambda self: self.choices)
    @rule(number=NUMBERS, most=st.integers(1, 3))
    def pop(self, number, most):
        choice = self.pick(number)
        for _ in range(most):
            if choice.channel is not None and (chunk := choice.channel.try_pop()) is not None:
                choice.popped.append(chunk)

    @precondition(lambda self: self.choices)
    @rule(number=NUMBERS)
    def cancel_the_channel(self, number):
        choice = self.pick(number)
        if choice.channel is not None:
            choice.channel.cancel()

    @precondition(lambda self: self.choices)
    @rule(number=NUMBERS)
    def cancel_the_handle(self, number):
        self.pick(number).handle.cancel()

    @precondition(lambda self: self.names > 2)
    @rule(likely=st.integers(0, 3))
    def fail(self, likely):
        if not likely:
            self.model.error = RuntimeError("the model is broken")

    @precondition(lambda self: self.names > 2)
    @rule(cancel=st.booleans(), likely=st.integers(0, 3))
    def drain(self, cancel, likely):
        if not likely:
            self.engine.drain(cancel=cancel)

    @invariant()
    def the_books_are_right(self):
        if not hasattr(self, "engine"):
            return
        stats = self.engine.stats()
        inside = self.model.inside.values()
        assert stats.running == len(inside) <= self.slots
        assert stats.used_blocks == sum(
            -(-(len(slot.prompt_token_ids) + slot.params.max_tokens) // BLOCK_SIZE)
            for slot in inside
        )
        unfinished = {
            (one.handle.request_id, one.index)
            for one in self.choices
            if not one.handle.future.done()
        }
        assert set(self.model.inside) <= unfinished
        assert self.engine.has_work == bool(unfinished)
        assert stats.running + stats.waiting <= len(unfinished)
        for choice in self.choices:
            choice.check_popped()
            if choice.channel is not None and choice.handle.future.done():
                assert choice.channel.is_finished
                assert choice.channel.reason is not FinishReason.NOT_FINISHED

    def teardown(self):
        if not hasattr(self, "engine"):
            return
        self.engine.drain()
        steps, ended = 0, (EngineState.CLOSED, EngineState.FAILED)
        while self.engine.state not in ended:
            self.step_once()
            assert (steps := steps + 1) < 300
        stats = self.engine.stats()
        assert (stats.running, stats.waiting, stats.used_blocks) == (0, 0, 0)
        assert self.model.inside == {}
        for choice in self.choices:
            if choice.channel is not None:
                choice.popped += popped(choice.channel)
                assert [chunk.finished for chunk in choice.popped].count(True) == 1
                assert choice.popped[-1].finished
            choice.check_popped()
            assert choice.handle.future.done()
            error = choice.handle.future.exception()
            if error is None:
                choice.check_output(choice.handle.result().outputs[choice.index])
            else:
                assert isinstance(error, EngineDeadError)
                assert self.engine.state is EngineState.FAILED
                if choice.channel is not None:
                    token_ids, text, _ = reference(ids_of(choice.popped), choice.params)
                    assert (ids_of(choice.popped), text_of(choice.popped)) == (token_ids, text)


TestX21 = EngineMachine.TestCase
TestX21.settings = settings(
    max_examples=2_000 if os.environ.get("SOAK") else 50,
    stateful_step_count=30,
    # A busy machine is not a fault.
    suppress_health_check=[HealthCheck.too_slow],
)
