"""The end of the server: streams end well, none hangs, and the exit code is 0."""

import logging
import signal
import threading

import pytest
from processes import process
from running import (
    CHAT,
    DEADLINE,
    FOR_EVER,
    Client,
    Endless,
    Says,
    asking,
    at_once,
    paced,
    running,
    until,
)
from wire_client import read_chat, read_events

from mini_vllm.server.cli import main


def _say(child, port, count, max_tokens):
    """Begin streams, send SIGTERM once all run; return what each of them got."""
    begun = threading.Barrier(count, action=lambda: child.send_signal(signal.SIGTERM))
    messages = [{"role": "user", "content": "Tell me about streams."}]
    fields = {"messages": messages, "stream": True, "max_tokens": max_tokens, "ignore_eos": True}

    def ask(seed):
        with Client("127.0.0.1", port) as client:
            client.ask(CHAT, {**fields, "seed": seed})
            client.head()
            first = client.piece()
            begun.wait(DEADLINE)
            return first + client.pieces()

    return at_once(ask, range(count))


def ended(count, max_tokens, *options):
    """Return what streams got from a server that was told to end and did, with 0."""
    with process(*options) as (child, port):
        bodies = _say(child, port, count, max_tokens)
        assert child.wait(DEADLINE) == 0
        assert "Traceback" not in child.stderr.read()
    return bodies


def test_sigterm_under_load_lets_streams_end_and_exits_with_0():
    for body in ended(12, 150, "--step-delay", "0.005", "--drain-seconds", "60"):
        assert read_chat(body)[0][0]["finish_reason"] == "length"


def test_what_does_not_end_is_cut_after_the_limit_with_an_error_and_done():
    for body in ended(6, 7000, "--step-delay", "0.01", "--drain-seconds", "0.5"):
        *said, last = read_events(body)
        assert last["error"]["code"] == "cancelled"
        assert any(choice["delta"].get("content") for event in said for choice in event["choices"])


@pytest.mark.parametrize("one", [signal.SIGINT, signal.SIGTERM])
def test_an_idle_server_says_where_it_is_and_ends_at_once_with_0(one):
    with process("--served-model-name", "tiny") as (child, port):
        with Client("127.0.0.1", port) as client:
            assert client.fetch("/v1/models").json()["data"][0]["id"] == "tiny"
            child.send_signal(one)
            assert child.wait(DEADLINE) == 0
            assert client.closed() == b""
        assert child.stderr.read() == ""


def test_a_second_ctrl_c_waits_for_nobody():
    def refused():
        try:
            with Client("127.0.0.1", port):
                return False
        except OSError:
            return True

    with (
        process("--step-delay", "0.01", "--drain-seconds", "500") as (child, port),
        Client("127.0.0.1", port) as client,
    ):
        body = {"prompt": "x", "max_tokens": 7000, "stream": True, "ignore_eos": True}
        client.ask("/v1/completions", body)
        client.head()
        client.piece()
        child.send_signal(signal.SIGINT)
        until(refused, "the end of listening")
        child.send_signal(signal.SIGINT)
        assert child.wait(DEADLINE) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "-1"], "--port: -1 is not a port"),
        (["--port", "99999"], "--port: 99999 is not a port"),
        (["--port", "http"], "--port: 'http' is not a whole number"),
        (["--max-num-seqs", "0"], "--max-num-seqs"),
        (["--drain-seconds", "inf"], "--drain-seconds"),
        (["--tool-call-parser", "hermess"], "unknown tool-call format 'hermess'; did you mean her"),
        (["--reasoning-parser", "qwen33"], "unknown reasoning format 'qwen33'; did you mean qwen3"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--host", "no.such.host.invalid"], "; try another --port or --host"),
        (["--served-model-name", " "], "--served-model-name: it is empty"),
        (["--remote", "x", "--tokenizer", "byte"], "--remote x: base_url is 'x'; it must be like"),
        (["--step-delay", "long"], "--step-delay: long is not a number of seconds"),
        (["--chat-template", "a.jinja"], "--chat-template a.jinja is for a --remote model or a"),
        (["--tokenizer", "no.json"], "--tokenizer no.json: File not found"),
        (["--tokenizer", "mock"], "--tokenizer mock: this tokenizer's decoder rewrites across"),
        (["--script", "no.toml"], "--script no.toml: No such file"),
        (["--script", "a.toml", "--remote", "http://127.0.0.1:9"], "leave --remote out"),
    ],
)
def test_a_wrong_option_is_one_clear_error(arguments, said, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_clear_error(capsys):
    with running(Says(say="Hi")) as server, pytest.raises(SystemExit) as end:
        main(["--port", str(server.port)])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert str(server.port) in said
    assert "another --port" in said


def test_at_the_end_new_requests_are_refused_and_old_ones_finish():
    go_on = threading.Event()
    text = "word 🚀 " * 20
    script = Endless(text, before=lambda step: go_on.wait(DEADLINE) if step == 40 else None)
    with (
        running(Says(say=script), drain_seconds=DEADLINE) as server,
        server.connect() as old,
        server.connect() as idle,
    ):
        old.ask(CHAT, asking("say", stream=True, max_tokens=len(text.encode())))
        old.head()
        body = old.piece()
        assert idle.fetch("/health").status == 200
        server.server.should_exit = True
        assert idle.closed() == b""
        until(lambda: server.engine.state.value == "draining")
        go_on.set()
        assert read_chat(body + old.pieces())[0][0]["content"] == text
        server.stop()
        assert server.engine.state.value == "closed"


def test_what_is_cut_at_the_end_is_an_error_not_a_half_whether_it_runs_waits_or_is_whole():
    """Nothing here would end by itself: the limit for draining is the only one that is near."""
    with running(Says(talk=paced()), max_num_seqs=1, drain_seconds=0.2) as server:
        streams = [server.begun("talk") for _ in range(2)]
        wholes = [server.connect() for _ in range(2)]
        for client in wholes:
            client.ask(CHAT, asking("talk", max_tokens=FOR_EVER))
        until(lambda: server.engine.stats().waiting == 3)
        server.server.should_exit = True
        for client in streams:
            assert read_events(client.pieces())[-1]["error"]["code"] == "cancelled"
        for client in wholes:
            answer = client.answer()
            assert (answer.status, answer.error["code"]) == (500, "cancelled")
        for client in [*streams, *wholes]:
            client.socket.close()


def test_a_request_on_an_open_connection_is_503_while_the_server_drains():
    with (
        running(Says(talk=paced(), say="Hi"), drain_seconds=DEADLINE) as server,
        server.begun("talk") as busy,
        server.connect() as late,
    ):
        late.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n")
        late.send(b"content-type: application/json\r\ncontent-length: 1000\r\n\r\n")
        until(lambda: len(server.server.server_state.tasks) == 2)
        server.server.should_exit = True
        until(lambda: server.engine.state.value == "draining")
        body = b'{"messages": [{"role": "user", "content": "<say>"}]}'
        late.send(body.ljust(1000))
        answer = late.answer()
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.error["type"] == "server_error"
        busy.socket.close()


def test_a_reader_that_never_reads_does_not_hold_up_the_end(caplog):
    model = Says(talk=Endless("0123456789" * 10))
    options = {"drain_seconds": 0.2, "close_seconds": 0.5, "send_buffer": 4096}
    with (
        running(model, max_model_len=2**20, **options) as server,
        server.connect(receive_buffer=4096) as stuck,
    ):
        stuck.ask(CHAT, asking("talk", stream=True, max_tokens=10**6))
        until(lambda: server.engine.stats().running == 1)
        log = logging.getLogger("uvicorn.error")
        log.setLevel(logging.ERROR)
        log.addHandler(caplog.handler)
        server.stop()
        log.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records] == [
        "clients with unread last bytes were disconnected: 1"
    ]
