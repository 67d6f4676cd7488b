"""Running the application: the port, time limits for connections, and an orderly end.

A client that reads none of its answer for a minute is disconnected, which cancels its requests.

At SIGTERM the server refuses new requests and gives running requests some seconds to finish. The
engine then cancels the remaining requests, so that their clients get an error and not a broken
connection.
"""

import asyncio
import gc
import logging
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mini_vllm.server.service import Service

_HEADER_SECONDS = 30.0
_MAX_HEADER_BYTES = 64 * 2**10
_CLOSE_SECONDS = 5.0
_STALL_SECONDS = 60.0
_BACKLOG = 2048
_LOOK_SECONDS = 0.1
# The most that the system may buffer for a client. By default it would buffer megabytes, a whole
# answer, and the server could not detect whether the client reads.
_SEND_BUFFER = 128 * 2**10
_LOG = logging.getLogger(__name__)


class TimedProtocol(HttpToolsProtocol):
    """Closes a connection that sends no request, or reads none of its answer, for some seconds.

    Otherwise clients that connect and send nothing, or a byte at a time, would keep their sockets
    forever. The clock covers the headers, and the rest of a body that arrives after its answer;
    before the answer, the handler limits the time of the body. Likewise, clients that never read
    would keep their slots as long as the model generates.
    """

    header_seconds = _HEADER_SECONDS
    stall_seconds = _STALL_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._head_bytes: int | None = 0
        self._clock = self.loop.call_later(self.header_seconds, transport.close)
        self._reader_clock: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Start the reader's clock: the write buffer is full."""
        super().pause_writing()
        self._look_at_reader(math.inf)

    def resume_writing(self) -> None:
        """Stop the reader's clock."""
        super().resume_writing()
        self._stop_reader_clock()

    def _look_at_reader(self, before: float) -> None:
        left = self.transport.get_write_buffer_size()
        if left < before:
            self._reader_clock = self.loop.call_later(
                self.stall_seconds, self._look_at_reader, left
            )
            return
        _LOG.warning("a client read nothing for %g s and was disconnected", self.stall_seconds)
        self.transport.abort()

    def _stop_reader_clock(self) -> None:
        if self._reader_clock is not None:
            self._reader_clock.cancel()

    def data_received(self, data: bytes) -> None:
        """Refuse endless headers, which have no other limit."""
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is not None and self._head_bytes > _MAX_HEADER_BYTES:
            self.send_400_response(f"The headers are longer than {_MAX_HEADER_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """Stop the clock: the request has arrived."""
        self._clock.cancel()
        self._head_bytes = None
        super().on_headers_complete()
        if self.parser.get_http_version() == "1.0":
            _end_by_closing(self.cycle)
        elif self.expect_100_continue:
            _close_if_refused(self.cycle)

    def on_message_complete(self) -> None:
        """Count the bytes of the next headers."""
        super().on_message_complete()
        self._head_bytes = 0

    def on_response_complete(self) -> None:
        """Start the clock for the next request, unless that has already arrived."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._clock.cancel()
            self._clock = self.loop.call_later(self.header_seconds, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks: the client has disconnected."""
        self._clock.cancel()
        self._stop_reader_clock()
        super().connection_lost(exc)


def _end_by_closing(cycle: RequestResponseCycle) -> None:
    """End an answer without a length by closing: HTTP/1.0 has neither chunks nor `100 Continue`."""
    cycle.waiting_for_100_continue = False
    send = cycle.send

    async def send_plain(message: Any) -> None:
        if message["type"] == "http.response.start":
            cycle.chunked_encoding = False
        else:
            # Uvicorn compares the body with the announced length; here there may be none.
            more = message.get("more_body", False)
            cycle.expected_content_length = len(message.get("body", b"")) + more
        await send(message)

    cycle.send = send_plain  # type: ignore[method-assign]


def _close_if_refused(cycle: RequestResponseCycle) -> None:
    """Close the connection after an answer that the client gets in place of `100 Continue`.

    The client may then send its body or leave it out, and the next request cannot be found.
    """
    send = cycle.send

    async def send_last(message: Any) -> None:
        if cycle.waiting_for_100_continue:
            cycle.keep_alive = False
        await send(message)

    cycle.send = send_last  # type: ignore[method-assign]


class Server(uvicorn.Server):
    """A uvicorn server whose engine ends before its connections do.

    Args:
        config: uvicorn's.
        service: the service; its thread runs as long as the server.
        drain_seconds: how long requests may continue after the signal to stop.
        close_seconds: how long clients may then take to read their last bytes.
        on_start: called once the server accepts requests and would handle a signal.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        drain_seconds: float,
        close_seconds: float,
        on_start: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._drain_seconds = drain_seconds
        self._close_seconds = close_seconds
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the engine, listen, and report the start."""
        self._service.thread.start()
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse new requests, let running requests end, and only then close."""
        ending = asyncio.create_task(
            asyncio.to_thread(self._service.thread.shutdown, timeout=self._drain_seconds)
        )
        cutting = asyncio.create_task(self._cut_off_after(ending))
        await super().shutdown(sockets)
        cutting.cancel()
        if self.force_exit:
            self._service.engine.drain(cancel=True)
        await ending
        self._service.chat_template.close()

    async def _cut_off_after(self, ending: asyncio.Task[bool]) -> None:
        """Close the connections that stay open too long after the engine's end, or at a second
        SIGINT. From Python 3.12 on, uvicorn's own shutdown waits for them even then.
        """
        left = self._close_seconds
        while left > 0 and not self.force_exit:
            await asyncio.sleep(_LOOK_SECONDS)
            left -= _LOOK_SECONDS if ending.done() else 0
        connections = list(self.server_state.connections)
        if not self.force_exit:
            _LOG.warning("clients with unread last bytes were disconnected: %d", len(connections))
        for connection in connections:
            connection.transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down in order at SIGINT or SIGTERM, and at once at a second SIGINT.

        Uvicorn's own method raises the signal again at the end, so that the exit code says that the
        process was killed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {signum: signal.signal(signum, self.handle_exit) for signum in signals}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Args:
        host: a name or address.
        port: 0 for any free port.

    Raises:
        OSError: the port is taken, or the address does not exist.
    """
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    # Accepted sockets inherit these options. asyncio sets TCP_NODELAY only on sockets that name
    # their protocol; without it, the end of an answer waits for the client's delayed ACK.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def freeze_gc_heap() -> None:
    """Exclude all objects that the process has loaded from garbage collection.

    vLLM 0.33.0 has a function of this name, in `vllm/utils/gc_utils.py`.

    A vocabulary has hundreds of thousands of permanent objects. Scanning them again and again while
    the server runs would delay requests.
    """
    gc.collect()
    gc.freeze()


def make_server(
    app: Starlette,
    service: Service,
    *,
    drain_seconds: float,
    close_seconds: float = _CLOSE_SECONDS,
    header_seconds: float = _HEADER_SECONDS,
    on_start: Callable[[], object] = lambda: None,
    **options: Any,
) -> Server:
    """Return a server that is ready to `run(sockets=[listener])`.

    Args:
        app: the service's application.
        service: the service.
        drain_seconds: how long requests may continue after SIGINT or SIGTERM.
        close_seconds: how long clients may then take to read their last bytes.
        header_seconds: how long a connection may wait for its next request.
        on_start: called once the server accepts requests.
        **options: further options of `uvicorn.Config`.
    """
    config = uvicorn.Config(
        app,
        http=type("Protocol", (TimedProtocol,), {"header_seconds": header_seconds}),
        ws="none",
        lifespan="off",
        # For unforeseen cases: by then the engine has ended and its clients were disconnected.
        timeout_graceful_shutdown=math.ceil(drain_seconds + close_seconds) + 1,
        **options,
    )
    return Server(config, service, drain_seconds, close_seconds, on_start)
