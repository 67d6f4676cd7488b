"""More than it can take: refused at once, with a time to come back; and all is well afterwards."""

import selectors
import threading
from contextlib import ExitStack, contextmanager

import pytest
from running import CHAT, DEADLINE, Says, asking, at_once, paced, running, tool, until
from wire_client import read_chat

from mini_vllm.chat_template.process import WorkerProcess
from mini_vllm.chat_template.template import SIMPLE_TEMPLATE, ChatTemplate
from mini_vllm.engine import Burst, EngineThread, thread
from mini_vllm.server.http_server import TimedProtocol
from mini_vllm.server.wire.sse import SseStream
from mini_vllm.tokenizer import ByteTokenizer, CacheConfig


@pytest.fixture
def full():
    """A server whose one slot and whose two places in the line are taken."""
    model = Says(talk=paced(), say="Hi")
    with running(model, max_num_seqs=1, max_waiting=2) as server:
        clients = [server.begun("talk") for _ in range(3)]
        # A client reads the head of its answer before the engine takes the request into the slot.
        until(lambda: server.engine.stats().running == 1, "a request in the slot")
        yield server, clients
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("path", "body"), [(CHAT, asking("say")), ("/v1/completions", {"prompt": "<say>"})]
)
def test_one_too_many_gets_429_and_is_told_when_to_come_back(full, path, body, stream):
    server, _ = full
    answer = server.fetch(path, {**body, "stream": stream})
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.error["type"] == "rate_limit_error"
    assert server.engine.stats().waiting == 2


def test_a_full_server_still_says_how_it_is(full):
    server, _ = full
    for path in ("/health", "/v1/models", "/metrics"):
        assert server.fetch(path).status == 200


def test_choices_count_not_requests():
    with running(Says(talk=paced(), say="Hi"), max_num_seqs=2, max_waiting=1) as server:
        # More than could ever run and wait.
        assert server.chat(asking("say", n=4)).status == 400
        assert server.chat(asking("say", n=3)).status == 200
        with server.begun("talk").socket:
            assert server.chat(asking("say", n=3)).status == 429
            assert server.chat(asking("say", n=2)).status == 200


def test_a_place_that_gets_free_is_given_away(full):
    server, clients = full
    assert server.chat(asking("say")).status == 429
    clients[2].socket.close()
    until(lambda: server.engine.stats().waiting == 1)
    with server.connect() as client:
        client.ask(CHAT, asking("say"))
        until(lambda: server.engine.stats().waiting == 2)
        clients[0].socket.close()
        clients[1].socket.close()
        assert client.answer().json()["choices"][0]["message"]["content"] == "Hi"


def test_a_storm_is_answered_whole_or_refused_and_nothing_else():
    said = "word 你🚀 " * 10
    with running(Says(say=said), max_num_seqs=4, max_waiting=8) as server:

        def ask(number):
            return server.chat(asking("say", stream=number % 2 == 0, max_tokens=1000))

        answers = at_once(ask, range(80))
        server.idle()
        assert server.chat(asking("say")).status == 200
    for number, answer in enumerate(answers):
        if answer.status == 429:
            assert answer.error["type"] == "rate_limit_error"
        elif number % 2 == 0:
            assert read_chat(answer.body)[0][0]["content"] == said
        else:
            assert answer.json()["choices"][0]["message"]["content"] == said
    assert 200 in {answer.status for answer in answers} <= {200, 429}


class Instant:
    """A model that always has an id ready."""

    def decode(self, slots):
        return [Burst((97,))] * len(slots)

    prefill = decode

    def release(self, slot):
        pass


@contextmanager
def streams_read(server, count):
    """Have so many streams run, and read what they say."""
    body = {"prompt": [97], "stream": True, "max_tokens": 15_000, "ignore_eos": True}
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        clients = [stack.enter_context(server.connect()) for _ in range(count)]
        for client in clients:
            client.ask("/v1/completions", body)
            selector.register(client.socket, selectors.EVENT_READ)
        stop = threading.Event()

        def read():
            while not stop.is_set():
                for key, _ in selector.select(1):
                    key.fileobj.recv(1 << 20)

        reading = threading.Thread(target=read)
        reading.start()
        try:
            until(lambda: server.engine.stats().running == count)
            yield
        finally:
            stop.set()
            reading.join()


def test_a_health_check_waits_for_few_turns_of_200_streams(monkeypatch):
    """From its first byte to its answer the loop sends so many chunks at most: 40 ms of work."""
    monkeypatch.setattr(thread, "_READERS_SECONDS", DEADLINE)
    sent, began, waits = 0, 0, []
    arrive, feed = TimedProtocol.data_received, SseStream.feed

    def arriving(protocol, data):
        nonlocal began
        began = sent
        arrive(protocol, data)

    def feeding(stream, index, chunk):
        nonlocal sent
        sent += 1
        return feed(stream, index, chunk)

    def is_alive(engine_thread):
        waits.append(sent - began)
        return True

    monkeypatch.setattr(TimedProtocol, "data_received", arriving)
    monkeypatch.setattr(SseStream, "feed", feeding)
    monkeypatch.setattr(EngineThread, "is_alive", property(is_alive))
    with (
        running(Instant(), max_num_seqs=200, max_model_len=2**14) as server,
        streams_read(server, 200),
    ):
        for _ in range(10):
            assert server.fetch("/health").status == 200
    assert max(waits) <= 2_000


LONG = "a" * 2_000
PROMPTS = [
    (CHAT, asking("say"), True),
    (CHAT, asking("say", tools=[tool("f", a=1)], chat_template_kwargs={"b": [2]}), True),
    (CHAT, asking("say", chat_template_kwargs={"b": [LONG]}), False),
    (CHAT, asking("say", chat_template_kwargs={LONG: 1}), False),
    (CHAT, asking("say", tools=[tool("f", description=LONG)]), False),
    (CHAT, asking(LONG), False),
    (CHAT, asking("say", chat_template_kwargs={"b": [1] * 300}), False),
    ("/v1/completions", {"prompt": "<say>"}, True),
    ("/v1/completions", {"prompt": LONG + "<say>"}, False),
]


@pytest.mark.parametrize("trusted", [True, False])
def test_the_loop_renders_and_encodes_what_is_short_and_trusted(monkeypatch, trusted):
    threads, encode = [], ByteTokenizer.encode

    def encoding(self, *args, **options):
        threads.append(threading.current_thread())
        return encode(self, *args, **options)

    monkeypatch.setattr(ByteTokenizer, "encode", encoding)
    template = ChatTemplate(SIMPLE_TEMPLATE, trusted=trusted)
    cache = CacheConfig(enable_l0=False)
    with running(Says(say="Hi"), chat_template=template, cache=cache) as server:
        for path, body, is_short in PROMPTS:
            del threads[:]
            server.fetch(path, {**body, "max_tokens": 1})
            on_loop = is_short and (trusted or path != CHAT)
            assert (threads == [server.thread]) is on_loop, (path, str(body)[:80])


def test_a_strangers_template_does_not_hold_up_the_loop(monkeypatch):
    """The loop answers others for as long as a template renders, although the chat is short."""
    begun, over, exchange = threading.Event(), threading.Event(), WorkerProcess.exchange

    def rendering(process, data, seconds):
        if b"<say>" in data:
            begun.set()
            assert over.wait(DEADLINE)
        return exchange(process, data, seconds)

    monkeypatch.setattr(WorkerProcess, "exchange", rendering)
    with (
        running(Says(say="Hi"), chat_template=ChatTemplate(SIMPLE_TEMPLATE)) as server,
        server.connect() as client,
    ):
        client.ask(CHAT, asking("say"))
        assert begun.wait(DEADLINE)
        assert server.fetch("/health").status == 200
        assert not over.is_set()
        over.set()
        assert client.answer().json()["choices"][0]["message"]["content"] == "Hi"
