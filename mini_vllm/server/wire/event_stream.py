"""A response that is a stream of server-sent events, and notices when its reader goes.

Starlette's `StreamingResponse` would do. This one sends everything that waits in one piece, writes
a comment while the model is silent, and when the client goes asks the engine for the end, which
comes within one iteration.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from starlette.types import Receive, Scope, Send

from mini_vllm.engine import StreamChannel, StreamChunk, read_together
from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.server.wire.sse import PING

_LOG = logging.getLogger(__name__)
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Wire(Protocol):
    """What turns chunks into frames."""

    def start(self) -> bytes:
        """Return what comes before the first chunk."""
        ...

    def feed(self, index: int, chunk: StreamChunk) -> bytes:
        """Return the frames of a chunk of one choice."""
        ...

    def end(self) -> bytes:
        """Return what comes after the last chunk."""
        ...

    def error(self, error: ApiError) -> bytes:
        """Return what ends the stream in the midst of it."""
        ...


class EventStream:
    """An ASGI response.

    Args:
        wire: makes the frames.
        channels: of the choices, in the order of their indices.
        ping_seconds: of silence after which a comment is sent, so that proxies keep the connection.
    """

    def __init__(
        self, wire: Wire, channels: Sequence[StreamChannel], *, ping_seconds: float
    ) -> None:
        self._wire = wire
        self._channels = channels
        self._ping_seconds = ping_seconds
        self._sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, to its end or to the client's."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        watcher = asyncio.create_task(self._watch(receive, send))
        try:
            await self._send(send, self._wire.start())
            async for batch in read_together(self._channels):
                frames: list[bytes] = []
                try:
                    for index, chunk in batch:
                        frames.append(self._wire.feed(index, chunk))
                        if chunk.finished and not chunk.reason.is_complete:
                            # The stream ends with an error; nobody hears the other choices.
                            self._cancel()
                finally:
                    # If one cannot be made, those before it still go out.
                    await self._send(send, b"".join(frames))
            last = self._wire.end()
        except Exception:
            _LOG.exception("a stream broke")
            last = self._wire.error(ApiError(500, "the server failed in the midst of the answer"))
        finally:
            watcher.cancel()
            self._cancel()
        await send({"type": "http.response.body", "body": last})

    async def _send(self, send: Send, data: bytes) -> None:
        if data:
            self._sent += 1
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _watch(self, receive: Receive, send: Send) -> None:
        """Cancel when the client goes; break the silence until then."""
        while True:
            sent = self._sent
            try:
                async with asyncio.timeout(self._ping_seconds):
                    message = await receive()
            except TimeoutError:
                if self._sent == sent:
                    await self._send(send, PING)
                continue
            if message["type"] == "http.disconnect":
                self._cancel()
                return

    def _cancel(self) -> None:
        for channel in self._channels:
            if not channel.is_finished:
                channel.cancel()
