"""What comes over a socket and is no good request: a clear error, and nothing is left behind."""

import json
import resource
import socket
import time

import pytest
from running import Client, Says, asking, chat, request, running, tool, until
from wire_client import read_chat

CHAT = "/v1/chat/completions"
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def server():
    limits = {"max_body_bytes": 20_000}
    with running(Says(say="Hi 🚀"), limits=limits, max_model_len=512) as running_server:
        yield running_server
        running_server.idle()


def fetch(server, *arguments, **options):
    with server.connect() as client:
        return client.fetch(*arguments, **options)


def nested(depth):
    schema = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return {"type": "function", "function": {"name": "f", "parameters": schema}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "pope", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": "x" * 1000}, "stop"),
        ({"stop": ["a", ""]}, "stop[1]"),
        ({"tools": [tool(f"f{n}") for n in range(129)]}, "tools"),
        ({"tools": [nested(20)]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"n": 0}, "n"),
        ({"n": 100}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 513}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": 513}, "max_completion_tokens"),
        ({"min_tokens": 3, "max_tokens": 2}, "min_tokens"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 1}, "top_logprobs"),
        ({"seed": 2**64}, "seed"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_bad_field_is_named(server, fields, param, stream):
    if stream and "stream_options" in fields:
        fields = {"stream_options": {"include_usage": 7}}
        param = "stream_options.include_usage"
    answer = fetch(server, CHAT, {**asking("say"), "stream": stream, **fields})
    assert answer.status == 400
    assert answer.error["param"] == param
    assert answer.error["message"].startswith(param)
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [10**6]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"prompt": ["a", 1]}, "prompt"),
        ({"prompt": ["a"] * 33}, "prompt"),
        ({"prompt": "a", "max_tokens": 512}, "max_tokens"),
        ({"prompt": ["a", "b" * 100], "max_tokens": 450}, "max_tokens"),
        ({"prompt": "a", "logprobs": 30}, "logprobs"),
        ({"prompt": "a", "echo": True}, "echo"),
    ],
)
def test_a_bad_field_of_a_completion_is_named(server, body, param):
    answer = fetch(server, "/v1/completions", body)
    assert answer.status == 400
    assert answer.error["param"] == param


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [10**6]}, "tokens"),
        ("/detokenize", {"tokens": [10**30]}, "tokens"),
    ],
)
def test_a_bad_field_of_the_tokenizer_is_named(server, path, body, param):
    answer = fetch(server, path, body)
    assert answer.status == 400
    assert answer.error["param"] == param


def test_a_prompt_that_is_too_long_is_told_so(server):
    long = {"messages": [{"role": "user", "content": "x" * 600}]}
    for path, body, param in (
        (CHAT, long, "messages"),
        ("/v1/completions", {"prompt": "x" * 600}, "prompt"),
        ("/v1/completions", {"prompt": ["x", "x" * 600]}, "prompt"),
    ):
        answer = fetch(server, path, body)
        assert answer.status == 400
        assert answer.error["code"] == "context_length_exceeded"
        assert answer.error["param"] == param
        assert "512" in answer.error["message"]


def test_tokens_that_have_no_room_are_told_with_all_three_numbers(server):
    answer = fetch(server, CHAT, asking("say", max_tokens=510))
    assert answer.error["code"] == "context_length_exceeded"
    assert {"510", "512"} <= set(answer.error["message"].replace(";", "").split())


def test_as_many_tokens_as_there_is_room_for_are_taken(server):
    prompt = fetch(server, CHAT, asking("say")).json()["usage"]["prompt_tokens"]
    assert fetch(server, CHAT, asking("say", max_tokens=512 - prompt)).status == 200
    assert fetch(server, CHAT, asking("say", max_tokens=513 - prompt)).status == 400


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/tokenize", "/detokenize"])
def test_another_model_is_not_found(server, path):
    body = {
        CHAT: asking("say"),
        "/v1/completions": {"prompt": "<say>"},
        "/tokenize": {"prompt": "x"},
        "/detokenize": {"tokens": [1]},
    }[path]
    answer = fetch(server, path, {**body, "model": "gpt-é"})
    assert answer.status == 404
    assert (answer.error["code"], answer.error["param"]) == ("model_not_found", "model")
    assert fetch(server, path, {**body, "model": "scripted"}).status == 200


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/v1", "/v1/chat/completions/", "/v1/models/", "/%ff", "/a%00b", "/health/"],
)
def test_an_unknown_path_is_404(server, path):
    answer = fetch(server, path)
    assert answer.status == 404
    assert "location" not in answer.headers
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, {"post"}),
        ("HEAD", CHAT, {"post"}),
        ("OPTIONS", CHAT, {"post"}),
        ("PUT", "/tokenize", {"post"}),
        ("DELETE", "/v1/models", {"get", "head"}),
        ("OPTIONS", "/health", {"get", "head"}),
        ("POST", "/metrics", {"get", "head"}),
    ],
)
def test_a_wrong_method_is_405_and_the_right_ones_are_named(server, method, path, allowed):
    answer = fetch(server, path, method=method)
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == allowed
    if method != "HEAD":
        assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/metrics", "/"])
def test_head_is_get_without_the_body(server, path):
    with server.connect() as client:
        assert client.fetch(path, method="HEAD").status == 200
        assert client.fetch(path).status == 200
        assert client.buffer == b""


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data", "\xff", "json"])
def test_what_does_not_say_that_it_is_json_is_415(server, kind):
    body = json.dumps(asking("say")).encode()
    answer = fetch(server, CHAT, body, headers={"content-type": kind} if kind else {})
    assert answer.status == 415
    assert "application/json" in answer.error["message"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_may_be_written_in_more_ways_than_one(server, kind):
    body = json.dumps(asking("say")).encode()
    assert fetch(server, CHAT, body, headers={"content-type": kind}).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"null",
        b"[]",
        b'"text"',
        b'{"messages": [}',
        b'{"messages": [{"role": "user", "content": "\xff"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "user": "\xff"}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
        b'{"messages": [{"role": "user", "content": "x"}], "user": ' + b"[" * 9000,
        b'{"messages": [{"role": "user", "content": "x"}], "user": '
        + b"[" * 9000
        + b"]" * 9000
        + b"}",
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
        "{}".encode("utf-16"),
    ],
)
def test_a_body_that_is_no_request_is_400(server, body):
    with server.connect() as client:
        answer = client.fetch(CHAT, body, headers=JSON)
        assert answer.status == 400
        assert answer.error["type"] == "invalid_request_error"
        assert client.fetch(CHAT, asking("say")).status == 200


def test_a_body_that_is_too_long_is_413_and_the_rest_of_it_is_skipped(server):
    with server.connect() as client:
        body = b'{"messages": "' + b"x" * 500_000 + b'"}'
        assert client.fetch(CHAT, body, headers=JSON).status == 413
        assert client.fetch(CHAT, asking("say")).json()["choices"][0]["message"]["content"]


def test_a_body_of_exactly_the_limit_is_read(server):
    body = json.dumps(asking("say")).encode()
    padding = b" " * (20_000 - len(body))
    assert fetch(server, CHAT, body + padding, headers=JSON).status == 200
    answer = fetch(server, CHAT, body + padding + b" ", headers=JSON)
    assert answer.status == 413
    assert "20000" in answer.error["message"]


def chunked(body, size):
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_body_in_chunks_is_read(server, size):
    body = json.dumps(asking("say", stream=True), ensure_ascii=False).encode()
    with server.connect() as client:
        client.ask(CHAT, method="POST", headers={**JSON, "transfer-encoding": "chunked"})
        for byte in chunked(body, size):
            client.send(bytes([byte]))
        assert read_chat(client.answer().body)[0][0]["content"] == "Hi 🚀"


def test_a_body_in_chunks_without_end_is_413(server):
    with server.connect() as client:
        client.ask(CHAT, method="POST", headers={**JSON, "transfer-encoding": "chunked"})
        for _ in range(100):
            client.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert client.answer().status == 413


def test_a_request_may_come_a_byte_at_a_time(server):
    with server.connect(step=1) as client:
        for byte in request(CHAT, asking("say", stream=True)):
            client.send(bytes([byte]))
        assert read_chat(client.answer().body)[0][0]["content"] == "Hi 🚀"


def test_a_connection_serves_several_requests(server):
    with server.connect() as client:
        for stream in (True, False, True):
            answer = client.fetch(CHAT, asking("say", stream=stream))
            assert answer.status == 200
            assert "🚀" in answer.body.decode()
        assert client.fetch("/nothing").status == 404
        assert client.fetch("/health").status == 200


def test_requests_sent_ahead_are_answered_in_their_order(server):
    with server.connect() as client:
        client.send(
            request(CHAT, asking("say", stream=True))
            + request("/nothing")
            + request(CHAT, asking("say"))
            + request("/v1/models")
        )
        assert read_chat(client.answer().body)[0][0]["content"] == "Hi 🚀"
        assert client.answer().status == 404
        assert client.answer().json()["choices"][0]["message"]["content"] == "Hi 🚀"
        assert client.answer().json()["object"] == "list"


def test_connection_close_is_heeded(server):
    with server.connect() as client:
        answer = client.fetch(CHAT, asking("say", stream=True), headers={"connection": "close"})
        assert answer.status == 200
        assert client.closed() == b""


def test_http_1_0_gets_the_stream_and_its_end(server):
    with server.connect() as client:
        client.send(request(CHAT, asking("say", stream=True)).replace(b"HTTP/1.1", b"HTTP/1.0"))
        everything = client.closed()
    assert b"data: [DONE]\n\n" in everything


def test_a_client_that_waits_for_100_is_told_to_go_on(server):
    body = json.dumps(asking("say")).encode()
    with server.connect() as client:
        headers = {**JSON, "content-length": len(body), "expect": "100-continue"}
        client.ask(CHAT, method="POST", headers=headers)
        assert client.head()[0] == 100
        client.send(body)
        assert client.answer().status == 200


def test_a_client_that_waits_for_100_is_refused_before_it_sends(server):
    with server.connect() as client:
        headers = {"content-type": "text/plain", "content-length": 5, "expect": "100-continue"}
        client.ask(CHAT, method="POST", headers=headers)
        assert client.answer().status == 415


@pytest.mark.parametrize("difference", [-5, 5])
def test_a_wrong_content_length_hurts_nobody_else(server, difference):
    body = json.dumps(asking("say")).encode()
    with server.connect() as client:
        headers = {**JSON, "content-length": len(body) + difference}
        client.ask(CHAT, method="POST", headers=headers)
        client.send(body)
        if difference < 0:
            assert client.closed().count(b"HTTP/1.1 400 ") >= 1
        else:
            client.socket.shutdown(socket.SHUT_WR)
            assert b"200 OK" not in client.closed()
    assert chat(server, asking("say")).status == 200


def test_both_lengths_at_once_are_refused(server):
    """What a proxy and a server may read as two different requests."""
    with server.connect() as client:
        body = b"0\r\n\r\nGET /health HTTP/1.1\r\nhost: x\r\n\r\n"
        headers = {**JSON, "transfer-encoding": "chunked", "content-length": len(body)}
        client.ask(CHAT, method="POST", headers=headers)
        client.send(body)
        assert b"200 OK" not in client.closed()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-name": "\xc3\xa9\xff\xfe"},
        {"user-agent": "🚀".encode().decode("latin-1")},
        {"host": "[::1"},
        {"host": "é"},
        {"host": ""},
        {"cookie": "a" * 8000},
        {"upgrade": "websocket", "connection": "upgrade"},
        {"accept": "text/html"},
        {"accept-encoding": "gzip"},
    ],
)
@pytest.mark.parametrize("path", ["/health", "/nothing", "/page"])
def test_strange_headers_change_nothing(server, headers, path):
    lines = [f"GET {path} HTTP/1.1", *(["host: test"] if "host" not in headers else [])]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    with server.connect() as client:
        client.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
        answer = client.answer()
    assert answer.status == (200 if path == "/health" else 404)
    if path != "/health":
        assert answer.error


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"NONSENSE\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /tokenize HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_the_connection_closed(server, data):
    with server.connect() as client:
        client.send(data)
        assert client.closed().startswith(b"HTTP/1.1 400 ")
    assert fetch(server, "/health").status == 200


def test_headers_without_end_are_refused(server):
    with server.connect() as client:
        client.send(b"GET /health HTTP/1.1\r\n")
        filler = b"x-filler: " + b"x" * 1000 + b"\r\n"
        with pytest.raises(OSError, match=r"reset|[Bb]roken|abort"):
            client.send(filler * 100_000)
    with server.connect() as client:
        client.send(b"GET /" + b"x" * 70_000)
        assert client.closed().startswith(b"HTTP/1.1 400 ")


# -- clients that are slow on purpose


@pytest.fixture
def hasty():
    """A server that waits for nobody for long."""
    with running(Says(say="Hi 🚀"), header_seconds=0.4, body_seconds=0.3) as running_server:
        yield running_server
        running_server.idle()


def dripping(server, client, data):
    """Send a byte at a time until the server has hung up."""

    def over():
        try:
            client.send(data)
        except OSError:
            return True
        return not client.socket.recv(65536) if _readable(client) else False

    until(over, "the end of a connection that drips")
    assert chat(server, asking("say")).status == 200


def _readable(client):
    client.socket.settimeout(0.02)
    try:
        return bool(client.socket.recv(1, socket.MSG_PEEK)) or True
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    finally:
        client.socket.settimeout(20)


def test_headers_that_drip_are_given_up(hasty):
    with hasty.connect() as client:
        client.send(b"GET /health HTTP/1.1\r\nx: ")
        dripping(hasty, client, b"x")


def test_headers_of_a_second_request_that_drip_are_given_up(hasty):
    with hasty.connect() as client:
        assert client.fetch("/health").status == 200
        client.send(b"GET /health HTTP/1.1\r\nx: ")
        dripping(hasty, client, b"x")


def test_empty_lines_that_drip_are_given_up(hasty):
    with hasty.connect() as client:
        assert client.fetch("/health").status == 200
        dripping(hasty, client, b"\r\n")


def test_a_body_that_drips_is_408_and_then_given_up(hasty):
    with hasty.connect() as client:
        client.ask(CHAT, method="POST", headers={**JSON, "content-length": 10_000})
        client.send(b"{")
        answer = client.answer()
        assert answer.status == 408
        assert "0.3 s" in answer.error["message"]
        dripping(hasty, client, b" ")


def test_a_body_that_nobody_reads_and_that_drips_is_given_up(hasty):
    with hasty.connect() as client:
        client.ask("/nothing", method="POST", headers={**JSON, "content-length": 10_000})
        assert client.answer().status == 404
        dripping(hasty, client, b" ")


def test_a_long_answer_is_not_under_the_clock_of_the_headers():
    with running(
        Says(say=[*[(97,)] * 3, *[None] * 10, (98,), (257,)]),
        header_seconds=0.05,
        hooks={"before_decode": lambda: time.sleep(0.02)},
    ) as server:
        answer = chat(server, asking("say", stream=True))
        assert read_chat(answer.body)[0][0]["content"] == "aaab"


def test_a_thousand_connections_that_say_nothing_hurt_nobody_and_are_closed():
    count = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * count
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    clients = []
    try:
        with running(Says(say="Hi 🚀"), header_seconds=3.0) as server:
            for number in range(count):
                client = Client(server.host, server.port)
                clients.append(client)
                if number % 2:
                    client.send(b"POST /v1/chat/completions HTTP/1.1\r\nho")
            connections = server.server.server_state.connections
            until(lambda: len(connections) >= count, "a thousand connections")
            answer = chat(server, asking("say", stream=True))
            assert read_chat(answer.body)[0][0]["content"] == "Hi 🚀"
            assert len(connections) >= count / 2, "they are gone before anybody was hurt"
            until(lambda: not connections, "the end of them all")
            assert all(client.closed() == b"" for client in clients)
            assert chat(server, asking("say")).status == 200
            server.idle()
    finally:
        for client in clients:
            client.socket.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
