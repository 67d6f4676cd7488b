"""Faults, one at a time and counted: whoever is not hit gets all of its text, once; whoever is hit
hears of it; and afterwards no channel is open and no block is taken."""

import logging
import os
import random
import socket
import struct
import threading

import pytest
from running import EOS, FOR_EVER, Endless, Says, asking, chat, request, running, spelled, until
from wire_client import read_chat, read_events

from mini_vllm.engine import Burst, StreamChannel, TextPathFactory
from mini_vllm.models.scripted import Raise
from mini_vllm.server.wire.sse import SseStream
from mini_vllm.tokenizer import ByteTokenizer, TokenizerError, UnknownTokenId

SAID = "All 你 of 🚀 it. " * 6
CHAT = "/v1/chat/completions"


@pytest.fixture(autouse=True)
def channels(monkeypatch):
    """All channels that a test makes; in the end none may be open."""
    made = []
    create = StreamChannel.create

    def spy(**options):
        made.append(create(**options))
        return made[-1]

    monkeypatch.setattr(StreamChannel, "create", spy)
    yield made
    assert all(one.is_finished or not one.is_attached for one in made)


def at_once(server, bodies):
    """Return the answers to chats that run at the same time."""
    answers = [None] * len(bodies)

    def ask(number):
        answers[number] = chat(server, bodies[number])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(bodies))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return answers


def text_before_the_error(body):
    """Return the text of a stream that ends with an error."""
    *events, last = read_events(body)
    assert set(last) == {"error"}
    assert last["error"]["type"] == "server_error"
    choices = [choice for event in events for choice in event["choices"]]
    assert all(choice["finish_reason"] is None for choice in choices)
    return "".join(choice["delta"].get("content", "") for choice in choices)


@pytest.mark.parametrize("step", [1, 5, 40])
def test_a_model_that_raises_ends_every_stream_with_what_it_had(step, channels):
    """A fault of the whole model: nobody is left waiting, and later requests are told."""
    texts = {f"text{n}": f"stream {n} says 你🚀 " * 20 for n in range(4)}
    scripts = {name: spelled(text) for name, text in texts.items()}
    scripts["bad"] = [*[(97,)] * step, Raise(RuntimeError("the secret reason"))]

    def all_are_here():
        until(lambda: sum(one.is_attached for one in channels) == 5)

    hooks = {"before_decode": all_are_here}
    with running(Says(**scripts), max_num_seqs=5, hooks=hooks) as server:
        bodies = [asking(name, stream=True, max_tokens=2000) for name in [*texts, "bad"]]
        answers = at_once(server, bodies)
        for name, answer in zip([*texts, "bad"], answers, strict=True):
            assert b"secret" not in answer.body
            said = text_before_the_error(answer.body)
            # A character that was cut in two is shown as one that is broken.
            assert texts.get(name, "a" * step).startswith(said.rstrip("\ufffd"))
            if name == "bad":
                assert said == "a" * step
        server.idle()
        assert server.engine.state.value == "failed"
        later = chat(server, asking("text0"))
        assert later.status == 503
        assert later.error["type"] == "server_error"
        later = chat(server, asking("text0", stream=True))
        assert later.status == 503


def test_a_whole_answer_hears_of_the_model_that_raised():
    with running(Says(bad=[(97,), Raise(RuntimeError("secret"))])) as server:
        answer = chat(server, asking("bad"))
        assert answer.status in (500, 503)
        assert answer.error["type"] == "server_error"
        assert b"secret" not in answer.body
        server.idle()


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("secret"),
        Burst(()),
        Burst(("x",)),
        object(),
    ],
)
def test_a_step_that_is_no_step_leaves_nobody_waiting(fault):
    with running(Says(bad=[(97,), fault], good=SAID)) as server:
        answers = at_once(
            server, [asking("bad", stream=True), asking("bad"), asking("good", stream=True)]
        )
        for answer in answers[:2]:
            assert answer.status in (200, 500, 503)
            assert b"secret" not in answer.body
        if answers[0].status == 200:
            assert text_before_the_error(answers[0].body) == "a"
        if isinstance(fault, Exception):
            # An exception as a step is the fault of one slot.
            assert read_chat(answers[2].body)[0][0]["content"] == SAID
            assert chat(server, asking("good")).status == 200
        server.idle()


@pytest.mark.parametrize("stream", [True, False])
def test_one_slot_that_fails_leaves_the_others_alone(stream):
    bad = [*spelled("ok")[:-1], OSError("the tape tore")]
    with running(Says(bad=bad, good=SAID)) as server:
        bodies = [asking("good", stream=stream, max_tokens=500) for _ in range(5)]
        bodies[2] = asking("bad", stream=stream)
        answers = at_once(server, bodies)
        failed = answers.pop(2)
        if stream:
            assert text_before_the_error(failed.body) == "ok"
        else:
            assert failed.status == 500
            assert failed.error["code"] == "failed"
        for answer in answers:
            if stream:
                assert read_chat(answer.body)[0][0]["content"] == SAID
            else:
                assert answer.json()["choices"][0]["message"]["content"] == SAID
        server.idle()


class _BadPath:
    """A text path that breaks at its nth id."""

    def __init__(self, path, after):
        self._path, self._after = path, after

    def __getattr__(self, name):
        return getattr(self._path, name)

    def feed(self, token_ids):
        token_ids = list(token_ids)
        if self._path.tokens + len(token_ids) > self._after:
            raise TokenizerError("the vocabulary is torn")
        return self._path.feed(token_ids)


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_text_path_that_raises_ends_its_own_stream_only(after):
    make = TextPathFactory(ByteTokenizer())

    def make_text_path(request_, prompt):
        path = make(request_, prompt)
        return _BadPath(path, after) if b"<bad>" in bytes(prompt[1:]) else path

    scripts = {"bad": spelled("it was long"), "good": SAID}
    with running(Says(**scripts), make_text_path=make_text_path) as server:
        bodies = [asking(name, stream=True, max_tokens=500) for name in ("good", "bad", "good")]
        good, bad, good_too = at_once(server, bodies)
        assert text_before_the_error(bad.body) == "it was long"[:after]
        for answer in (good, good_too):
            assert read_chat(answer.body)[0][0]["content"] == SAID
        assert chat(server, asking("bad")).status == 500
        server.idle()
        assert server.engine.state.value == "running"


class _Torn(ByteTokenizer):
    """Cannot encode what says so; how it fails is for the test to say."""

    error: BaseException = TokenizerError("no ids for that")

    def encode(self, text, **options):
        if "torn" in text:
            raise self.error
        return super().encode(text, **options)


def test_a_tokenizer_that_cannot_encode_is_the_fault_of_the_prompt():
    with running(Says(say="Hi"), tokenizer=_Torn()) as server:
        for stream in (True, False):
            answer = chat(server, asking("say", "torn", stream=stream))
            assert answer.status == 400
            assert answer.error["param"] == "messages"
        with server.connect() as client:
            answer = client.fetch("/v1/completions", {"prompt": "torn"})
            assert (answer.status, answer.error["param"]) == (400, "prompt")
            answer = client.fetch("/tokenize", {"prompt": "torn"})
            assert (answer.status, answer.error["param"]) == (400, "prompt")
        assert chat(server, asking("say")).status == 200
        server.idle()


def test_a_fault_of_the_server_is_500_and_its_reason_is_for_the_log(monkeypatch, caplog):
    monkeypatch.setattr(_Torn, "error", MemoryError("secret"))
    with running(Says(say="Hi"), tokenizer=_Torn()) as server:
        with caplog.at_level(logging.ERROR):
            answer = chat(server, asking("say", "torn"))
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert answer.error["type"] == "server_error"
        assert "secret" in caplog.text
        assert chat(server, asking("say")).status == 200
        server.idle()


def test_frames_that_cannot_be_made_end_their_stream_only(monkeypatch, caplog):
    """A fault between the channel and the socket."""
    feed = SseStream.feed

    def breaks(self, index, chunk):
        if "X" in chunk.text:
            raise ValueError("secret")
        return feed(self, index, chunk)

    monkeypatch.setattr(SseStream, "feed", breaks)
    # Nothing but its cancellation ends the bad one.
    with running(Says(bad=Endless("abX"), good=SAID)) as server:
        bodies = [
            asking("good", stream=True, max_tokens=500),
            asking("bad", stream=True, max_tokens=FOR_EVER),
        ]
        good, bad = at_once(server, bodies)
        assert text_before_the_error(bad.body) == "ab"
        assert b"secret" not in bad.body
        assert "secret" in caplog.text
        assert read_chat(good.body)[0][0]["content"] == SAID
        server.idle()


class _Strict(ByteTokenizer):
    """Refuses to decode ids that it does not know, as tokenizers of real models do."""

    def decode(self, ids, **options):
        for token_id in ids:
            if not 0 <= token_id < self.vocab_size:
                raise UnknownTokenId(token_id)
        return super().decode(ids, **options)


def test_ids_that_nobody_knows_are_skipped_and_counted():
    script = [(72,), (10**6,), (-1,), (105,), EOS]
    with running(Says(odd=script), tokenizer=_Strict()) as server:
        answer = chat(server, asking("odd", stream=True, return_held=True))
        assert read_chat(answer.body)[0][0]["content"] == "Hi"
        naive = [event.get("mini_vllm", {}).get("naive", "") for event in read_events(answer.body)]
        assert "".join(naive) == "Hi<eos>"
        assert "vllm:unknown_tokens_total 2.0" in server.service.metrics.render().decode()
        server.idle()


def cut(server, data, position):
    """Send a request, read so many bytes of its answer, and reset the connection."""
    with server.connect() as client:
        client.send(data)
        while len(client.buffer) < position:
            client.step = position - len(client.buffer)
            assert client.more(), f"the answer ended before byte {position}"
        linger = struct.pack("ii", 1, 0)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_may_cut_at_any_byte_of_the_answer(stream):
    """All of them in SOAK=1, a sample otherwise."""
    text = "a 你🚀 b"
    data = request(CHAT, asking("short", stream=stream))
    with running(Says(short=text, good=SAID)) as server:
        with server.connect() as client:
            client.ask(CHAT, asking("short", stream=stream), headers={"connection": "close"})
            size = len(client.closed()) - len("connection: close\r\n")
        positions = range(size + 1)
        if not os.environ.get("SOAK"):
            chosen = random.Random(0).sample(positions, 25 if stream else 20)
            positions = sorted({0, 1, size - 1, size, *chosen})
        for number, position in enumerate(positions):
            cut(server, data, position)
            if number % 10 == 0:
                answer = chat(server, asking("good", stream=True, max_tokens=500))
                assert read_chat(answer.body)[0][0]["content"] == SAID
        server.idle()
        until(lambda: not server.server.server_state.tasks, "the end of all tasks")


def test_a_client_may_cut_at_any_byte_of_its_request():
    data = request(CHAT, asking("short", stream=True))
    with running(Says(short="x", good=SAID)) as server:
        positions = range(len(data) + 1)
        if not os.environ.get("SOAK"):
            positions = sorted({len(data), *random.Random(1).sample(positions, 25)})
        for position in positions:
            cut(server, data[:position], 0)
        answer = chat(server, asking("good", stream=True, max_tokens=500))
        assert read_chat(answer.body)[0][0]["content"] == SAID
        server.idle()
        until(lambda: not server.server.server_state.tasks, "the end of all tasks")


def test_readers_that_vanish_and_readers_that_stay_at_once():
    """40 clients over 4 slots, every second of which leaves somewhere in its text."""
    chance = random.Random(2)
    points = [chance.randrange(3000) for _ in range(40)]
    failures = []

    with running(Says(good=SAID), max_num_seqs=4) as server:

        def ask(number):
            try:
                body = asking("good", stream=True, max_tokens=500)
                if number % 2:
                    cut(server, request(CHAT, body), points[number])
                else:
                    choices, _ = read_chat(chat(server, body).body)
                    assert choices[0]["content"] == SAID
            except BaseException as error:
                failures.append((number, error))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not failures
        server.idle()
        until(lambda: not server.server.server_state.tasks, "the end of all tasks")
