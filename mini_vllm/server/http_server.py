"""Running the application: the port, time limits for connections, and an orderly end.

At SIGTERM no new requests are taken and those that run may finish for some seconds. What is left
then is cancelled by the engine, so that its clients get an error in place of a cut.
"""

import asyncio
import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mini_vllm.server.service import Service

_HEADER_SECONDS = 30.0
_MAX_HEADER_BYTES = 64 * 2**10
_LAST_SECONDS = 5.0
_BACKLOG = 2048


class TimedProtocol(HttpToolsProtocol):
    """Closes a connection whose next request has not come some seconds after the last answer.

    Without it, clients that connect and say nothing, or say it a byte at a time, keep their sockets
    for ever. The body of a request is the handler's to wait for; what of it still comes after the
    answer is under this clock too.
    """

    header_seconds = _HEADER_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._head_bytes: int | None = 0
        self._clock = self.loop.call_later(self.header_seconds, transport.close)

    def data_received(self, data: bytes) -> None:
        """Refuse headers without end: nothing else limits them."""
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is not None and self._head_bytes > _MAX_HEADER_BYTES:
            self.send_400_response(f"The headers are longer than {_MAX_HEADER_BYTES} bytes.")

    def on_headers_complete(self) -> None:
        """Stop the clock: the request is here."""
        self._clock.cancel()
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Count the bytes of the next headers."""
        super().on_message_complete()
        self._head_bytes = 0

    def on_response_complete(self) -> None:
        """Start the clock for the next request, unless it is here already."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._clock.cancel()
            self._clock = self.loop.call_later(self.header_seconds, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock: the client is gone."""
        self._clock.cancel()
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """A uvicorn server that lets its engine end before its connections do.

    Args:
        config: of uvicorn.
        service: what is served; its thread runs as long as the server.
        drain_seconds: how long requests may run on after the signal to stop.
        on_start: called once it serves, and ends in order when it is told to.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        drain_seconds: float,
        on_start: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._drain_seconds = drain_seconds
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the engine, then listen, then tell."""
        self._service.thread.start()
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, let those that run end, and only then close."""
        ending = asyncio.create_task(
            asyncio.to_thread(self._service.thread.shutdown, timeout=self._drain_seconds)
        )
        await super().shutdown(sockets)
        if self.force_exit:
            self._service.engine.drain(cancel=True)
        await ending
        self._service.chat_template.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order at SIGINT or SIGTERM, and at a second SIGINT at once.

        Uvicorn's own would raise the signal again at the end, and the exit code say that the
        process was killed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {one: signal.signal(one, self.handle_exit) for one in signals}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        host: a name or address.
        port: 0 for any free one.

    Raises:
        OSError: the port is taken, or there is no such address.
    """
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family, backlog=_BACKLOG)


def make_server(
    app: Starlette,
    service: Service,
    *,
    drain_seconds: float,
    header_seconds: float = _HEADER_SECONDS,
    on_start: Callable[[], object] = lambda: None,
    **options: Any,
) -> Server:
    """Return a server that is ready to `run(sockets=[listener])`.

    Args:
        app: of the service.
        service: what is served.
        drain_seconds: how long requests may run on after SIGINT or SIGTERM.
        header_seconds: how long a connection may wait for its next request.
        on_start: called once it serves.
        **options: further ones of `uvicorn.Config`.
    """
    config = uvicorn.Config(
        app,
        http=type("Protocol", (TimedProtocol,), {"header_seconds": header_seconds}),
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=math.ceil(drain_seconds + _LAST_SECONDS),
        **options,
    )
    return Server(config, service, drain_seconds, on_start)
