"""HTTP itself: requests in pieces, odd ones and slow ones. All get an answer or an end."""

import json
import resource
import socket
import time
from contextlib import suppress

import pytest
from running import CHAT, DEADLINE, EOS, Client, Says, asking, request, running, serving, until
from wire_client import read_chat

from mini_vllm.models.scripted import Hook
from mini_vllm.server.http_server import listen

JSON = {"content-type": "application/json"}
# Its answer takes longer than connections may take for their headers in these tests.
SLOW = [(97,), Hook(lambda: time.sleep(0.5)), (98,), EOS]


module_server = serving(Says(say="Hi 🚀", slow=SLOW))


@pytest.fixture
def server(module_server):
    module_server.headers_within(DEADLINE)
    return module_server


def chunked(body, size):
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces) + b"0\r\n\r\n"


JSON_CHUNKED = {**JSON, "transfer-encoding": "chunked"}
BODY = json.dumps(asking("say", stream=True), ensure_ascii=False).encode()
HEAD = request(CHAT, method="POST", headers=JSON_CHUNKED)


@pytest.mark.parametrize(
    "data",
    [*(HEAD + chunked(BODY, size) for size in (1, 3, 1000)), request(CHAT, BODY, headers=JSON)],
    ids=["chunks of 1", "chunks of 3", "chunks of 1000", "no chunks"],
)
def test_a_request_may_come_a_byte_at_a_time(server, data):
    with server.connect(step=1) as client:
        for byte in data:
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


def test_the_end_of_an_answer_does_not_wait_for_an_acknowledgement():
    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


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


@pytest.mark.parametrize(
    ("old", "new"), [(b"HTTP/1.1", b"HTTP/1.0"), (b"host", b"connection: close\r\nhost")]
)
def test_the_stream_ends_and_then_a_connection_that_is_not_kept(server, old, new):
    with server.connect() as client:
        client.send(request(CHAT, asking("say", stream=True)).replace(old, new, 1))
        everything = client.closed()
    assert everything.startswith(b"HTTP/1.1 200 ")
    assert everything.count(b"data: [DONE]\n\n") == 1


@pytest.mark.parametrize(
    ("kind", "statuses"), [("application/json", [100, 200]), ("text/plain", [415])]
)
def test_a_client_that_waits_for_100_is_told_to_go_on_or_refused(server, kind, statuses):
    with server.connect() as client:
        headers = {"content-type": kind, "content-length": len(BODY), "expect": "100-continue"}
        client.ask(CHAT, method="POST", headers=headers)
        for status in statuses[:-1]:
            assert client.head()[0] == status
            client.send(BODY)
        assert client.answer().status == statuses[-1]


def test_a_body_announced_as_too_long_is_refused_before_it_comes(server):
    headers = {**JSON, "content-length": 1_000_000_000}
    with server.connect() as client:
        client.ask(CHAT, method="POST", headers=headers)
        answer = client.answer()
        assert answer.status == 413
        assert str(server.service.limits.max_body_bytes) in answer.error["message"]


@pytest.mark.parametrize("length", [10_000_000, 10])
def test_a_refused_client_that_waited_for_100_finds_the_connection_closed(server, length):
    # The short body has a refused content type; the long body is too long.
    kind = "application/json" if length > 10 else "text/plain"
    headers = {"content-type": kind, "content-length": length, "expect": "100-continue"}
    with server.connect() as client:
        client.ask(CHAT, method="POST", headers=headers)
        answer = client.answer()
        assert answer.status == (413 if length > 10 else 415)
        assert answer.headers["connection"] == "close"
        assert client.closed() == b""


@pytest.mark.parametrize("stream", [True, False])
def test_http_1_0_gets_no_chunks(server, stream):
    with server.connect() as client:
        asked = request(CHAT, asking("say", stream=stream))
        asked = asked.replace(b"host", b"expect: 100-continue\r\nhost", 1)
        client.send(asked.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        status, headers = client.head()
        body = client.closed()
    assert status == 200
    assert "transfer-encoding" not in headers
    assert ("content-length" in headers) is not stream
    if stream:
        assert read_chat(body)[0][0]["content"] == "Hi 🚀"
    else:
        assert json.loads(body)["choices"][0]["message"]["content"] == "Hi 🚀"


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
    assert server.chat(asking("say")).status == 200


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
        {"x-name": "\xc3\xa9\xff\xfe"}, {"user-agent": "🚀".encode().decode("latin-1")},
        {"host": "[::1"}, {"host": "é"}, {"host": ""}, {"cookie": "a" * 8000},
        {"upgrade": "websocket", "connection": "upgrade"}, {"accept": "text/html"},
        {"accept-encoding": "gzip"},
    ],
)  # fmt: skip
def test_strange_headers_change_nothing(server, headers):
    for path in ("/health", "/nothing", "/page"):
        lines = [f"GET {path} HTTP/1.1", *(["host: test"] if "host" not in headers else [])]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        with server.connect() as client:
            client.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
            answer = client.answer()
        assert answer.status == (200 if path == "/health" else 404)
        assert path == "/health" or answer.error


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
    assert server.fetch("/health").status == 200


@pytest.mark.parametrize("earlier", [0, 1])
def test_headers_without_end_are_refused(server, earlier):
    with server.connect() as client:
        for _ in range(earlier):
            assert client.fetch("/health").status == 200
        client.send(b"GET /health HTTP/1.1\r\n")
        filler = b"x-filler: " + b"x" * 1000 + b"\r\n"
        with pytest.raises(OSError, match=r"reset|[Bb]roken|abort"):
            client.send(filler * 100_000)
    with server.connect() as client:
        client.send(b"GET /" + b"x" * 70_000)
        assert client.closed().startswith(b"HTTP/1.1 400 ")


# Clients that are slow on purpose. Only the limit under test is near, and only while it is tested.


def give_up(server, client, data):
    """Send a little again and again until the server has hung up; then others are served."""

    def hung_up():
        try:
            client.send(data)
            client.socket.settimeout(0.02)
            return not client.socket.recv(65536)
        except TimeoutError:
            return False
        except OSError:
            return True

    until(hung_up, "the end of a connection that drips")
    server.headers_within(DEADLINE)
    assert server.chat(asking("say")).status == 200


@pytest.mark.parametrize(
    ("first", "start", "drip"),
    [
        (None, b"GET /health HTTP/1.1\r\nx: ", b"x"),
        ("/health", b"GET /health HTTP/1.1\r\nx: ", b"x"),
        ("/health", b"\r\n", b"\r\n"),
        ("/health", b"", b""),
    ],
    ids=["headers", "headers of a second request", "empty lines", "nothing"],
)
def test_headers_that_drip_are_given_up(server, first, start, drip):
    if first is None:
        server.headers_within(0.2)
    with server.connect() as client:
        if first is not None:
            # The clock starts anew behind the answer.
            assert client.fetch("/nothing").status == 404
            server.headers_within(0.2)
            assert client.fetch(first).status == 200
        with suppress(OSError):
            client.send(start)
        give_up(server, client, drip)


def test_a_body_that_drips_is_408_and_then_given_up(server, monkeypatch):
    monkeypatch.setattr(server.service, "body_seconds", 0.2)
    with server.connect() as client:
        client.ask(CHAT, method="POST", headers={**JSON, "content-length": 10_000})
        client.send(b"{")
        server.headers_within(0.2)
        answer = client.answer()
        assert answer.status == 408
        assert "0.2 s" in answer.error["message"]
        monkeypatch.undo()
        give_up(server, client, b" ")


def test_a_body_that_nobody_reads_and_that_drips_is_given_up(server):
    with server.connect() as client:
        server.headers_within(0.2)
        client.ask("/nothing", method="POST", headers={**JSON, "content-length": 10_000})
        assert client.answer().status == 404
        give_up(server, client, b" ")


def test_a_long_answer_is_not_under_the_clock_of_the_headers(server):
    def begun():
        """Ask within the limit; on a busy machine that may take more than one attempt."""
        client = server.connect()
        try:
            client.ask(CHAT, asking("slow", stream=True))
            assert client.head()[0] == 200
        except (EOFError, OSError):
            client.socket.close()
            return None
        return client

    server.headers_within(0.2)
    client = until(begun, "a request within the limit")
    server.headers_within(DEADLINE)
    with client:
        assert read_chat(client.pieces())[0][0]["content"] == "ab"


def test_a_thousand_connections_that_say_nothing_hurt_nobody():
    count = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * count
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"only {hard} files may be open; ulimit -n {needed} allows more")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    clients = []
    try:
        with running(Says(say="Hi 🚀")) as server:
            for number in range(count):
                clients.append(Client(server.host, server.port))
                if number % 2:
                    clients[-1].send(b"POST /v1/chat/completions HTTP/1.1\r\nho")
            connections = server.server.server_state.connections
            until(lambda: len(connections) == count, "a thousand connections")
            assert server.told("say")[0]["content"] == "Hi 🚀"
        assert all(client.closed() == b"" for client in clients)
    finally:
        for client in clients:
            client.socket.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_connections_that_say_nothing_are_closed(server):
    server.headers_within(0.2)
    clients = [server.connect() for _ in range(20)]
    with suppress(OSError):
        clients[0].send(b"POST /v1/chat/completions HTTP/1.1\r\nho")
    assert all(client.closed() == b"" for client in clients)
    server.headers_within(DEADLINE)
    for client in clients:
        client.socket.close()
