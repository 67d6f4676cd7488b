"""A client that goes, or does not read: its request ends, and nobody else notices."""

import asyncio
import gc
import re
import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from running import (
    CHAT,
    DEADLINE,
    FOR_EVER,
    Endless,
    Says,
    asking,
    paced,
    request,
    running,
    spelled,
    until,
)
from wire_client import read_chat

from mini_vllm.engine import StreamChunk
from mini_vllm.server.endpoints.replies import EventStream
from mini_vllm.server.http_server import TimedProtocol

SAID = "Nothing 你 of this 🚀 is lost. " * 40


def content(body):
    return read_chat(body)[0][0]["content"]


def aborted(server):
    told = server.service.metrics.render().decode()
    return float(re.search(r'_success_total\{.*"abort".*\} (.*)', told)[1])


class Gate:
    """Lets the engine's thread through one decode at a time, on demand."""

    def __init__(self):
        self.allowed = threading.Semaphore(0)
        self.arrived = threading.Semaphore(0)
        self.open = False

    def __call__(self):
        if not self.open:
            self.arrived.release()
            assert self.allowed.acquire(timeout=DEADLINE)

    def let_go(self):
        self.open = True
        self.allowed.release()


def submitted_to(server):
    """Return a list that gets what the server submits from now on: channels, and handles."""
    found, submit = [], server.engine.submit

    def spy(requests, channels=None):
        handles = submit(requests, channels)
        found.extend(channels or handles)
        return handles

    server.engine.submit = spy
    return found


@pytest.mark.parametrize("stream", [True, False])
def test_the_model_is_not_asked_again_once_the_client_is_gone(stream):
    """X19. The engine stands before a decode while the client goes; that one is the last."""
    gate, model = Gate(), Says(talk=Endless())
    with running(model, hooks={"before_decode": gate}) as server:
        try:
            submitted, client = submitted_to(server), server.connect()
            client.ask(CHAT, asking("talk", stream=stream, max_tokens=FOR_EVER))
            if stream:
                client.head()
                client.piece()
            assert gate.arrived.acquire(timeout=DEADLINE)
            for _ in range(5):
                gate.allowed.release()
                assert gate.arrived.acquire(timeout=DEADLINE)
            before = model.steps["talk"]
            client.socket.close()
            until(lambda: submitted[0].is_cancelled, "the notice that the client is gone")
            assert model.steps["talk"] == before
            gate.let_go()
            server.idle()
            assert model.steps["talk"] <= before + 1
        finally:
            gate.let_go()


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_while_it_waits_for_a_slot_leaves_the_line(stream):
    model = Says(first=paced(), second="never said")
    with running(model, max_num_seqs=1) as server, server.begun("first"):
        second = server.connect()
        second.ask(CHAT, asking("second", stream=stream))
        until(lambda: server.engine.stats().waiting == 1)
        second.socket.close()
        until(lambda: server.engine.stats().waiting == 0)
        assert server.engine.stats().running == 1
        assert model.steps["second"] == 0


def test_a_reset_counts_as_gone():
    with running(Says(talk=paced())) as server:
        client = server.begun("talk")
        client.piece()
        client.reset()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, asking("talk", n=4, stream=True)),
        (CHAT, asking("talk", n=4)),
        ("/v1/completions", {"prompt": ["<talk>", "x<talk>"], "n": 2, "stream": True}),
        ("/v1/completions", {"prompt": ["<talk>", "x<talk>"], "n": 2}),
    ],
)
def test_all_choices_of_a_client_that_goes_are_cancelled(path, body):
    with running(Says(talk=paced())) as server:
        client = server.connect()
        client.ask(path, {**body, "max_tokens": FOR_EVER})
        until(lambda: server.engine.stats().running == 4)
        client.socket.close()
        server.idle()
        assert aborted(server) == 4


def test_clients_that_go_before_their_prompts_are_ready_leave_nothing_behind():
    """Some are gone before anything was submitted for them."""
    model = Says(talk=paced())
    with running(model) as server:
        for _ in range(20):
            with server.connect() as client:
                client.ask(CHAT, asking("talk", stream=True, max_tokens=FOR_EVER))
        server.idle()
        assert model.released <= 20


def test_a_client_that_goes_does_not_touch_the_others():
    with running(Says(talk=paced(), say=SAID)) as server:
        leaving = [server.begun("talk") for _ in range(4)]
        with server.begun("say") as staying:
            body = staying.piece()
            for client in leaving:
                client.socket.close()
            assert content(body + staying.pieces()) == SAID


def test_a_reader_slower_than_the_model_gets_it_all_and_holds_up_nobody():
    """The socket is full and nobody reads. The model still comes to its end, others are served,
    and what waits is joined into few chunks; then all of it arrives."""
    long = "".join(f"{number} 你🚀 " for number in range(5000))
    script = spelled(long, 10)
    with (
        running(Says(long=script, short="Hi 🚀"), max_model_len=2**20, send_buffer=4096) as server,
        server.connect(receive_buffer=4096) as slow,
    ):
        channels = submitted_to(server)
        slow.ask(CHAT, asking("long", stream=True, max_tokens=len(long.encode()) + 1))
        slow.head()
        most = 0

        def model_is_done():
            nonlocal most
            most = max(most, channels[0].pending_count)
            return channels[0].is_finished

        assert server.told("short")[0]["content"] == "Hi 🚀"
        until(model_is_done, "the end of the model's text")
        assert 1 < channels[0].pending_count <= 256
        assert most <= 256
        assert len(script) > 20 * 256
        assert server.engine.stats().used_blocks == 0
        assert server.told("short")[0]["content"] == "Hi 🚀"
        body = slow.pieces()
        assert content(body) == long
        assert body.count(b"data: ") < len(script)


def test_a_reader_that_never_reads_and_goes_frees_everything():
    with running(Says(talk=Endless("0123456789" * 10)), max_model_len=2**20) as server:
        stuck = [server.connect(receive_buffer=4096) for _ in range(5)]
        for client in stuck:
            client.ask(CHAT, asking("talk", stream=True, max_tokens=10**6))
        until(lambda: server.engine.stats().running == 5)
        for client in stuck:
            client.socket.close()


def test_readers_that_never_read_give_their_slots_back():
    said = Endless("0123456789" * 10)
    with running(Says(talk=said, say=SAID), max_num_seqs=3, max_model_len=2**20) as server:
        server.stalled_within(0.05)
        stuck = [server.connect(receive_buffer=4096) for _ in range(3)]
        for client in stuck:
            client.ask(CHAT, asking("talk", stream=True, max_tokens=10**6))
        assert server.told("say")[0]["content"] == SAID
        server.idle()
        assert aborted(server) == 3


def test_a_reader_is_cut_off_that_took_nothing_between_two_looks_and_no_other():
    looks = []
    protocol = TimedProtocol.__new__(TimedProtocol)
    protocol.loop, protocol.transport, protocol.flow = Mock(), Mock(), Mock()
    protocol.loop.call_later = lambda seconds, look, left: looks.append((look, left)) or Mock()
    for left in (90_000, 90_000 - 1, 20_000, 20_000):
        assert not protocol.transport.abort.called
        protocol.transport.get_write_buffer_size.return_value = left
        if looks:
            look, before = looks[-1]
            look(before)
        else:
            protocol.pause_writing()
    protocol.transport.abort.assert_called_once_with()


def test_a_client_that_hangs_up_after_the_answer_is_nothing_special():
    with running(Says(say="Hi")) as server:
        assert all(server.chat(asking("say")).status == 200 for _ in range(10))
        server.idle()
        assert aborted(server) == 0


def test_a_client_that_goes_in_the_midst_of_its_body_starts_nothing():
    whole = request(CHAT, asking("say"))
    with running(model := Says(say="Hi")) as server:
        for length in (len(whole) - 1, len(whole) - 10, len(whole) // 2, 30):
            with server.connect() as client:
                client.send(whole[:length])
        assert server.chat(asking("say")).status == 200
        server.idle()
        assert model.released == 1


class Clock(asyncio.SelectorEventLoop):
    """An event loop that jumps to the next thing that is due, in place of waiting for it."""

    now = 0.0

    def time(self):
        return self.now

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()


@pytest.mark.parametrize(("speaks_at", "expected"), [(40, [15, 30, 40]), (10, [10, 25, 40])])
def test_a_comment_breaks_every_silence_of_so_many_seconds(speaks_at, expected):
    clock, sent = Clock(), []

    async def send(message):
        sent.append((clock.time(), message.get("body")))

    async def read(channels):
        await asyncio.sleep(speaks_at)
        yield [(0, StreamChunk(text="Hi"))]
        await asyncio.sleep(50 - speaks_at)

    events = SimpleNamespace(
        start=lambda: b"role", feed=lambda index, chunk: b"text", end=lambda: b"end"
    )
    stream = EventStream(events, [], read=read, ping_seconds=15)
    with asyncio.Runner(loop_factory=lambda: clock) as runner:
        runner.run(stream({}, asyncio.Event().wait, send))
    times = [when for when, body in sent if body in (b": ping\n\n", b"text")]
    assert times == expected


def test_a_client_that_goes_during_a_whole_answer_leaves_no_complaint_in_the_log(caplog):
    """asyncio complains when a future that failed is thrown away and nobody asked it why."""
    with running(Says(talk=paced())) as server:
        client = server.connect()
        client.ask(CHAT, asking("talk", n=2, max_tokens=FOR_EVER))
        until(lambda: server.engine.stats().running == 2)
        client.socket.close()
        server.idle()
        gc.collect()
    assert not [one.getMessage() for one in caplog.records if one.name == "asyncio"]
