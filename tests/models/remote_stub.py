"""A stand-in for a vLLM server: streams what a test says, and records what it is asked.

The forms of its chunks are those of vLLM's Python server and of its Rust server, as their sources
show them.
"""

import json
import select
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CUT = object()  # the connection breaks
HOLD = object()  # nothing more is sent until the client leaves
DEADLINE = 20.0


def event(**fields):
    return f"data: {json.dumps(fields)}\n\n".encode()


def chunk(**choice):
    return event(object="text_completion", choices=[{"index": 0, "text": "", **choice}])


def written_logprobs(ids, top=None):
    """The logprobs of a chunk; `top` has the likeliest of each id, by id."""
    top = top or [{one: -0.5} for one in ids]
    return {
        "tokens": [f"token_id:{one}" for one in ids],
        "token_logprobs": [likeliest[one] for one, likeliest in zip(ids, top, strict=True)],
        "top_logprobs": [
            {f"token_id:{one}": value for one, value in likeliest.items()} for likeliest in top
        ],
    }


def python_style(bursts, finish="stop"):
    """Ids in `token_ids`; the reason comes with the last ids."""
    frames = [chunk(text="é", token_ids=list(ids), finish_reason=None) for ids in bursts[:-1]]
    frames[:1] = [f.replace(b'"text"', b'"prompt_token_ids": [1], "text"') for f in frames[:1]]
    last = chunk(token_ids=list(bursts[-1]), finish_reason=finish, stop_reason=None)
    return [*frames, last, event(choices=[], usage={}), b"data: [DONE]\n\n"]


def rust_style(bursts, finish="stop"):
    """As above, but the prompt comes first and the reason last, in chunks of their own."""
    frames = [chunk(text="é", token_ids=list(ids), finish_reason=None) for ids in bursts]
    return [
        chunk(prompt_token_ids=[1], finish_reason=None),
        *frames,
        chunk(finish_reason=finish),
        b"data: [DONE]\n\n",
    ]


def logprobs_style(bursts, finish="stop"):
    """Ids in the logprobs alone, as vLLM had them before 0.10.2."""
    frames = [chunk(text="é", logprobs=written_logprobs(ids)) for ids in bursts]
    return [*frames, chunk(finish_reason=finish), b"data: [DONE]\n\n"]


class RemoteStub:
    """A server on a free port of 127.0.0.1.

    `answer` gets the body of a request and returns the steps of its answer: bytes to send, an event
    to wait for, CUT or HOLD. A pair (status, body) in place of the steps is an answer without a
    stream. `status` is the answer to every GET.
    """

    def __init__(self, answer, content_type="text/event-stream", *, chunked=True):
        self.answer, self.content_type, self.chunked = answer, content_type, chunked
        self.bodies, self.headers, self.paths = [], [], []
        self.status = 200
        self.left = threading.Semaphore(0)

        class Handler(_Handler):
            stub = self

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        stub = self.stub
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stub.bodies.append(body)
        stub.headers.append(dict(self.headers))
        stub.paths.append(self.path)
        answer = stub.answer(body)
        if isinstance(answer, tuple):
            status, text = answer
            self.send_response(status)
            self.send_header("Content-Type", stub.content_type)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
            return
        self.send_response(200)
        self.send_header("Content-Type", stub.content_type)
        if stub.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.stream(answer)
        except OSError:
            stub.left.release()
            self.close_connection = True

    def do_GET(self):
        self.send_response(self.stub.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def stream(self, steps):
        for step in steps:
            if step is CUT:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            if step is HOLD:
                readable, _, _ = select.select([self.connection], [], [], DEADLINE)
                if readable and not self.connection.recv(1):
                    raise ConnectionResetError
                return
            if isinstance(step, threading.Event):
                assert step.wait(DEADLINE)
            elif self.stub.chunked:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(step), step))
            else:
                self.wfile.write(step)
        if self.stub.chunked:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def log_message(self, *_):
        pass
