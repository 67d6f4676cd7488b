"""The real server at a free port with any model, and a client made of a bare socket."""

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from wire_client import read_chat

from labkit.course.lab import ROOT
from labkit.serving.composed import find_composed
from labkit.serving.lab_path import LabPathFactory
from mini_vllm.models.ngram import load_embedded
from mini_vllm.models.scripted import ScriptedModel
from mini_vllm.server.app import create_app
from mini_vllm.server.http_server import listen, make_server
from mini_vllm.server.service import Service, create_service
from mini_vllm.tokenizer import ByteTokenizer, ChatTemplate

CHAT = "/v1/chat/completions"
EOS = (ByteTokenizer.eos_token_id,)
# Far away: nothing that goes well takes so long, however busy the machine is.
DEADLINE = 60.0
# More tokens than a paced model makes in that time.
FOR_EVER = 100_000


def until(condition, what="the condition", deadline=DEADLINE):
    """Poll until `condition()` is true; return what it returned."""
    end = time.monotonic() + deadline
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not come about in {deadline} s"
        time.sleep(0.002)
    return found


def at_once(ask, items):
    """Return what `ask` returns, or raise what it raises, for items asked at the same time."""
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(ask, items))


def spelled(text, size=1):
    """Return the script that says a text, so many bytes a step, and ends."""
    data = text.encode()
    return [*(tuple(data[at : at + size]) for at in range(0, len(data), size)), EOS]


class Endless(Sequence):
    """A script without end; `before(n)` runs before step n."""

    def __init__(self, text="abc ", before: Callable[[int], object] = lambda step: None) -> None:
        self._data = text.encode()
        self._before = before

    def __len__(self):
        return 10**12

    def __getitem__(self, step):
        self._before(step)
        return (self._data[step % len(self._data)],)


def paced():
    """Return an endless script that takes its time."""
    return Endless(before=lambda step: time.sleep(0.001))


class Says(ScriptedModel):
    """Plays the script whose name is the longest that the prompt holds as `<name>`.

    `steps` counts the steps of each script, over all slots; `released` the slots that ended.
    """

    def __init__(self, **scripts):
        super().__init__(self._script)
        self.scripts = {
            name: spelled(script) if isinstance(script, str) else script
            for name, script in scripts.items()
        }
        self.steps = dict.fromkeys(scripts, 0)
        self.released = 0

    def name_of(self, slot):
        prompt = ByteTokenizer().decode(slot.prompt_token_ids)
        return re.findall("<([^<>]*)>", prompt)[-1]

    def _script(self, slot):
        return self.scripts[self.name_of(slot)]

    def decode(self, slots):
        for slot in slots:
            self.steps[self.name_of(slot)] += 1
        return super().decode(slots)

    def release(self, slot):
        super().release(slot)
        self.released += 1


@dataclass
class Running:
    """A server that runs."""

    host: str
    port: int
    service: Service
    server: object
    thread: threading.Thread

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    @property
    def engine(self):
        return self.service.engine

    def connect(self, **options):
        return Client(self.host, self.port, **options)

    def fetch(self, path, body=None, *, step=65536, **options):
        """Return the answer to a request on a connection of its own."""
        with self.connect(step=step) as client:
            return client.fetch(path, body, **options)

    def chat(self, body, **options):
        """Return the answer to a chat."""
        return self.fetch(CHAT, body, **options)

    def told(self, *names, step=65536, **fields):
        """Return the choices of a chat that streams, by index, as OpenAI's client adds them up."""
        body = asking(*names, **{"max_tokens": 5000, **fields}, stream=True)
        return read_chat(self.chat(body, step=step).body)[0]

    def begun(self, name):
        """Return a client to whom a script streams, endlessly; it has read the head."""
        client = self.connect()
        client.ask(CHAT, asking(name, stream=True, max_tokens=FOR_EVER))
        assert client.head()[0] == 200
        return client

    def headers_within(self, seconds):
        """Set how long connections may wait for their next request, from the next wait on."""
        self.server.config.http_protocol_class.header_seconds = seconds

    def stalled_within(self, seconds):
        """Set how long a client may take nothing of its answer, from the next such time on."""
        self.server.config.http_protocol_class.stall_seconds = seconds

    def idle(self):
        """Wait until nothing runs; then no block may be in use, and nothing may be held."""
        tasks = self.server.server_state.tasks
        until(lambda: not (tasks and self.thread.is_alive()), "the end of all tasks")
        until(lambda: not self.engine.has_work, "an idle engine")
        stats = self.engine.stats()
        assert (stats.running, stats.waiting, stats.used_blocks) == (0, 0, 0)
        assert not any(stats.held.values())

    def stop(self):
        self.server.should_exit = True
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive(), "the server did not end"


@contextmanager
def running(
    model,
    *,
    tokenizer=None,
    chat_template=None,
    name="scripted",
    api_key=None,
    drain_seconds=2.0,
    close_seconds=DEADLINE,
    send_buffer=None,
    port=0,
    allowed_origins=(),
    open_metrics=False,
    **options,
):
    """Serve a model at a free port until the block ends, when the server must be idle.

    Time limits are far away by default.
    """
    options = {"max_num_seqs": 8, "max_model_len": 2**17, "tool_format": "hermes", **options}
    tokenizer, chat_template = tokenizer or ByteTokenizer(), chat_template or ChatTemplate.simple()
    service = create_service(model, tokenizer, chat_template, name, **options)
    server = make_server(
        create_app(
            service, api_key=api_key, allowed_origins=allowed_origins, open_metrics=open_metrics
        ),
        service,
        drain_seconds=drain_seconds,
        close_seconds=close_seconds,
        header_seconds=DEADLINE,
        log_level="critical",
    )
    listener = listen("127.0.0.1", port)
    if send_buffer:
        # Those it accepts inherit it.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    host, port = listener.getsockname()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    at_work = Running(host, port, service, server, thread)
    try:
        until(lambda: server.started, "the start")
        yield at_work
        at_work.idle()
    finally:
        at_work.stop()


def serving(model, **options):
    """Return a fixture: a server for all tests of a module."""

    @pytest.fixture(scope="module")
    def server():
        with running(model, **options) as running_server:
            yield running_server

    return server


def running_embedded(make=None, **options):
    """Serve the model that comes with the package, or what `make` makes of it."""
    found = load_embedded()
    return running(
        make(found.model, found.tokenizer) if make else found.model,
        tokenizer=found.tokenizer,
        chat_template=found.chat_template,
        tool_format=found.tool_format,
        name="embedded",
        **options,
    )


def labs_path(wanted, tokenizer=None, *, track="core"):
    """Return the text path of the labs of a track: `wanted` as `LAB_IMPL` says it."""
    return LabPathFactory(find_composed(ROOT, str(wanted), track), tokenizer)


def asking(*names, **fields):
    """Return the body of a chat whose answer is the script of that name."""
    said = " ".join(f"<{name}>" for name in names)
    return {"messages": [{"role": "user", "content": said}], **fields}


def tool(name, **schema):
    """Return a function that a model may call."""
    function = {"name": name, "parameters": {"type": "object", **schema}}
    return {"type": "function", "function": function}


WEATHER = tool("get_weather", properties={"city": {"type": "string"}})


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error, which must be of the shape that OpenAI's are."""
        assert self.headers["content-type"] == "application/json"
        body = self.json()
        assert set(body) == {"error"}
        assert set(body["error"]) == {"message", "type", "param", "code"}
        assert body["error"]["message"]
        return body["error"]


class Client:
    """One connection, read so many bytes at a time."""

    def __init__(self, host, port, *, step=65536, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(DEADLINE)
        self.socket.connect((host, port))
        self.step = step
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.socket.close()

    def reset(self):
        """Close the connection as one that broke."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, path, body=None, *, method=None, headers=None):
        """Send a request."""
        self.send(request(path, body, method=method, headers=headers))

    def more(self):
        """Read once; return whether anything came."""
        data = self.socket.recv(self.step)
        self.buffer += data
        return bool(data)

    def read_until(self, mark):
        """Return what comes up to and with a mark; EOFError if the end comes before."""
        while mark not in self.buffer:
            if not self.more():
                raise EOFError(f"the connection ended before {mark!r}: {self.buffer[-200:]!r}")
        before, _, self.buffer = self.buffer.partition(mark)
        return before + mark

    def read_bytes(self, count):
        while len(self.buffer) < count:
            if not self.more():
                raise EOFError(f"{len(self.buffer)} of {count} bytes came")
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def closed(self):
        """Read to the end of the connection; return what came before it."""
        try:
            while self.more():
                pass
        except ConnectionResetError:
            pass
        return self.buffer

    def head(self):
        """Read status and headers."""
        first, *lines = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        return int(first.split()[1]), headers

    def piece(self):
        """Return the next piece of a chunked body, `b""` at its end."""
        size = int(self.read_until(b"\r\n"), 16)
        return self.read_bytes(size + 2)[:-2]

    def pieces(self):
        """Return the rest of a chunked body."""
        body = b""
        while piece := self.piece():
            body += piece
        return body

    def answer(self, *, has_body=True):
        """Read a whole answer."""
        status, headers = self.head()
        if not has_body:
            body = b""
        elif headers.get("transfer-encoding") == "chunked":
            body = self.pieces()
        else:
            body = self.read_bytes(int(headers["content-length"]))
        return Answer(status, headers, body)

    def fetch(self, path, body=None, **options):
        """Ask, and read the answer."""
        self.ask(path, body, **options)
        return self.answer(has_body=options.get("method") != "HEAD")


def request(path, body=None, *, method=None, headers=None):
    """Return a request as bytes; a body that is not bytes goes as JSON."""
    method = method or ("GET" if body is None else "POST")
    lines = [f"{method} {path} HTTP/1.1", "host: test"]
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        lines.append("content-type: application/json")
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
