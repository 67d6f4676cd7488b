"""Faults, one at a time and counted: whoever is not hit gets all of its text, once; whoever is hit
hears of it; and afterwards no channel is open and no block is taken."""

import logging
import os
import random

import pytest
from running import (
    CHAT,
    EOS,
    FOR_EVER,
    Endless,
    Says,
    asking,
    at_once,
    request,
    running,
    spelled,
    until,
)
from wire_client import read_chat, read_events

from mini_vllm.engine import Burst, StreamChannel, TextPathFactory
from mini_vllm.models.scripted import Raise
from mini_vllm.server.wire.sse import SseStream
from mini_vllm.tokenizer import ByteTokenizer, TokenizerError, UnknownTokenId

SAID = "All 你 of 🚀 it. " * 6


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


def asked_at_once(server, *names, **fields):
    """Return the answers to chats that stream at the same time; none tells a secret."""
    fields = {"stream": True, "max_tokens": 2000, **fields}
    answers = at_once(lambda name: server.chat(asking(name, **fields)), names)
    assert all(b"secret" not in answer.body for answer in answers)
    return answers


def text_of(answer):
    return read_chat(answer.body)[0][0]["content"]


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
        *whole, bad = asked_at_once(server, *texts, "bad")
        for text, answer in zip(texts.values(), whole, strict=True):
            # A character that was cut in two is shown as one that is broken.
            assert text.startswith(text_before_the_error(answer.body).rstrip("\ufffd"))
        assert text_before_the_error(bad.body) == "a" * step
        server.idle()
        assert server.engine.state.value == "failed"
        for stream in (True, False):
            later = server.chat(asking("text0", stream=stream))
            assert (later.status, later.error["type"]) == (503, "server_error")


@pytest.mark.parametrize(
    "fault",
    [RuntimeError("secret"), Raise(RuntimeError("secret")), Burst(()), Burst(("x",)), object()],
)
def test_a_step_that_is_no_step_leaves_nobody_waiting(fault):
    with running(Says(bad=[(97,), fault], whole=[(97,), fault], good=SAID)) as server:

        def ask(name):
            return server.chat(asking(name, stream=name != "whole"))

        bad, whole, good = at_once(ask, ["bad", "whole", "good"])
        assert bad.status in (200, 500, 503)
        assert whole.status in (500, 503)
        assert whole.error["type"] == "server_error"
        assert b"secret" not in bad.body + whole.body
        if bad.status == 200:
            # A model that raises may do so at the other's script.
            expected = ("", "a") if isinstance(fault, Raise) else ("a",)
            assert text_before_the_error(bad.body) in expected
        if isinstance(fault, Exception):
            # An exception as a step is the fault of one slot.
            assert text_of(good) == SAID
            assert server.chat(asking("good")).status == 200


@pytest.mark.parametrize("stream", [True, False])
def test_one_slot_that_fails_leaves_the_others_alone(stream):
    bad = [*spelled("ok")[:-1], OSError("the tape tore")]
    with running(Says(bad=bad, good=SAID)) as server:
        answers = asked_at_once(server, "good", "good", "bad", "good", "good", stream=stream)
        failed = answers.pop(2)
        if stream:
            assert text_before_the_error(failed.body) == "ok"
            assert [text_of(answer) for answer in answers] == [SAID] * 4
        else:
            assert (failed.status, failed.error["code"]) == (500, "failed")
            whole = [answer.json()["choices"][0]["message"]["content"] for answer in answers]
            assert whole == [SAID] * 4


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
        good, bad, good_too = asked_at_once(server, "good", "bad", "good")
        assert text_before_the_error(bad.body) == "it was long"[:after]
        assert text_of(good) == text_of(good_too) == SAID
        assert server.chat(asking("bad")).status == 500
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
        for path, body, param in (
            (CHAT, asking("say", "torn", stream=True), "messages"),
            (CHAT, asking("say", "torn"), "messages"),
            ("/v1/completions", {"prompt": "torn"}, "prompt"),
            ("/tokenize", {"prompt": "torn"}, "prompt"),
        ):
            answer = server.fetch(path, body)
            assert (answer.status, answer.error["param"]) == (400, param)
        assert server.chat(asking("say")).status == 200


def test_a_fault_of_the_server_is_500_and_its_reason_is_for_the_log(monkeypatch, caplog):
    monkeypatch.setattr(_Torn, "error", MemoryError("secret"))
    with running(Says(say="Hi"), tokenizer=_Torn()) as server:
        with caplog.at_level(logging.ERROR):
            answer = server.chat(asking("say", "torn"))
        assert answer.status == 500
        assert b"secret" not in answer.body
        assert answer.error["type"] == "server_error"
        assert "secret" in caplog.text
        assert server.chat(asking("say")).status == 200


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
        good, bad = asked_at_once(server, "good", "bad", max_tokens=FOR_EVER)
        assert text_before_the_error(bad.body) == "ab"
        assert "secret" in caplog.text
        assert text_of(good) == SAID


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
        answer = server.chat(asking("odd", stream=True, return_held=True))
        assert text_of(answer) == "Hi"
        naive = [event.get("mini_vllm", {}).get("naive", "") for event in read_events(answer.body)]
        assert "".join(naive) == "Hi<eos>"
        assert "mini_vllm:unknown_tokens_total 2.0" in server.service.metrics.render().decode()


# Of a stream, as HTTP/1.1 ends it (RFC 9112, 7.1).
LAST_CHUNK = b"\r\n0\r\n\r\n"


def cut(server, data, position):
    """Send a request, read so many bytes of its answer, and reset the connection.

    A stream may be shorter than another of the same text: where its reader is late, a frame has the
    text of several.
    """
    with server.connect() as client:
        client.send(data)
        while len(client.buffer) < position and not client.buffer.endswith(LAST_CHUNK):
            client.step = position - len(client.buffer)
            assert client.more(), f"the answer ended before byte {position}"
        client.reset()


@pytest.mark.parametrize("where", ["the stream", "the whole answer", "the request"])
def test_a_client_may_cut_at_any_byte_of(where):
    """All of them in SOAK=1, a sample otherwise."""
    stream = where != "the whole answer"
    data = request(CHAT, asking("short", stream=stream))
    with running(Says(short="a 你🚀 b", good=SAID)) as server:
        size = len(data)
        if where != "the request":
            with server.connect() as client:
                client.ask(CHAT, asking("short", stream=stream), headers={"connection": "close"})
                size = len(client.closed()) - len("connection: close\r\n")
        positions = range(size + 1)
        if not os.environ.get("SOAK"):
            positions = sorted({0, 1, size - 1, size, *random.Random(0).sample(positions, 25)})
        for number, position in enumerate(positions):
            if where == "the request":
                cut(server, data[:position], 0)
            else:
                cut(server, data, position)
            if number % 10 == 0:
                assert server.told("good")[0]["content"] == SAID


def test_readers_that_vanish_and_readers_that_stay_at_once():
    """40 clients over 4 slots, every second of which leaves somewhere in its text."""
    chance = random.Random(2)
    points = [chance.randrange(3000) for _ in range(40)]

    def ask(number):
        if number % 2:
            data = request(CHAT, asking("good", stream=True, max_tokens=500))
            cut(server, data, points[number])
        else:
            assert server.told("good")[0]["content"] == SAID

    with running(Says(good=SAID), max_num_seqs=4) as server:
        at_once(ask, range(40))
