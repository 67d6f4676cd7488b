"""Running the application: the port, time limits for connections, and an orderly end.

At SIGTERM no new requests are taken and those that run may finish for some seconds. What is left
then is cancelled by the engine, so that its clients get an error in place of a cut.
"""

import asyncio
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mini_vllm.server.service import Service

_HEADER_SECONDS = 30.0
_LAST_SECONDS = 5.0
_BACKLOG = 2048


class TimedProtocol(HttpToolsProtocol):
    """Closes a connection whose request has not come after some seconds.

    Without it, clients that connect and say nothing keep their sockets for ever.
    """

    header_seconds = _HEADER_SECONDS

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock."""
        super().connection_made(transport)
        self._clock = self.loop.call_later(self.header_seconds, transport.close)

    def on_headers_complete(self) -> None:
        """Stop it: the request is here."""
        self._clock.cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop it: the client is gone."""
        self._clock.cancel()
        super().connection_lost(exc)


class Server(uvicorn.Server):
    """A uvicorn server that lets its engine end before its connections do.

    Args:
        config: of uvicorn.
        service: what is served; its thread runs as long as the server.
        drain_seconds: how long requests may run on after the signal to stop.
    """

    def __init__(self, config: uvicorn.Config, service: Service, drain_seconds: float) -> None:
        super().__init__(config)
        self._service = service
        self._drain_seconds = drain_seconds

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the engine, then listen."""
        self._service.thread.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, let those that run end, and only then close."""
        ending = asyncio.create_task(
            asyncio.to_thread(self._service.thread.shutdown, timeout=self._drain_seconds)
        )
        await super().shutdown(sockets)
        await ending
        self._service.chat_template.close()


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


def serve(
    app: Starlette,
    service: Service,
    listener: socket.socket,
    *,
    drain_seconds: float,
    **options: Any,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        app: of the service.
        service: what is served.
        listener: from `listen`; it is closed at the end.
        drain_seconds: how long requests may run on after the signal.
        **options: further ones of `uvicorn.Config`.
    """
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=int(drain_seconds + _LAST_SECONDS),
        **options,
    )
    Server(config, service, drain_seconds).run(sockets=[listener])
