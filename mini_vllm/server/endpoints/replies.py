"""From a request to the engine to its reply, streamed or whole, until it is sent or cancelled.

In both forms the connection is watched: if the client disconnects, its requests are cancelled and
end within one iteration. A stream sends all pending events in one piece, and breaks a long silence
with a comment so that proxies keep the connection.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mini_vllm.engine import (
    CompletionOutput,
    EngineDeadError,
    EngineOverloadedError,
    EngineStateError,
    FinishReason,
    RemoteModelError,
    Request,
    StreamChannel,
    StreamChunk,
    StreamingSubmissionError,
    StructuredOutputError,
)
from mini_vllm.server.endpoints.disconnect import (
    cancel_on_disconnect,
    responses_unless_disconnected,
)
from mini_vllm.server.service import ReadChannels, Service
from mini_vllm.server.wire.api_errors import ApiError, JsonResponse, broken_off
from mini_vllm.server.wire.sse import PING, Events

_LOG = logging.getLogger(__name__)
STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in STREAM_HEADERS.items()]


class EventStream:
    """An ASGI response that is a stream of server-sent events.

    Args:
        events: makes the events of chunks.
        channels: of the choices, in the order of their indices.
        read: reads the channels together.
        ping_seconds: after this much silence a comment is sent.
    """

    def __init__(
        self,
        events: Events,
        channels: Sequence[StreamChannel],
        *,
        read: ReadChannels,
        ping_seconds: float,
    ) -> None:
        self._events = events
        self._channels = channels
        self._read = read
        self._ping_seconds = ping_seconds
        self._last_sent = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until it ends or the client disconnects."""
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS]})
        # Looked up once: getting the running loop costs a system call each time.
        self._now = asyncio.get_running_loop().time
        self._last_sent = self._now()
        watcher = asyncio.create_task(self._watch(receive, send))
        try:
            await self._send(send, self._events.start())
            async with aclosing(self._read(self._channels)) as batches:
                async for batch in batches:
                    await self._send_batch(send, batch)
            last = self._events.end()
        except Exception:
            _LOG.exception("a stream failed")
            last = self._events.error(ApiError(500, "the server failed during the answer"))
        finally:
            watcher.cancel()
            self._cancel()
        await send({"type": "http.response.body", "body": last})

    async def _send_batch(self, send: Send, batch: Sequence[tuple[int, StreamChunk]]) -> None:
        frames: list[bytes] = []
        try:
            for index, chunk in batch:
                if not chunk.finished:
                    frames.append(self._events.feed(index, chunk))
                    continue
                frames += self._last_frames(index, chunk)
                if not chunk.reason.is_complete:
                    # The stream ends with an error, so the client will not get the other choices.
                    self._cancel()
        finally:
            # If an event cannot be made, the events before it are still sent.
            await self._send(send, b"".join(frames))

    def _last_frames(self, index: int, chunk: StreamChunk) -> list[bytes]:
        cause = self._channels[index].error
        if not isinstance(cause, RemoteModelError | StructuredOutputError):
            return [self._events.feed(index, chunk)]
        news = chunk._replace(finished=False, reason=FinishReason.NOT_FINISHED)
        error = broken_off(chunk.reason, cause)
        return [self._events.feed(index, news), self._events.error(error)]

    async def _send(self, send: Send, data: bytes) -> None:
        if data:
            self._last_sent = self._now()
            await send({"type": "http.response.body", "body": data, "more_body": True})

    async def _watch(self, receive: Receive, send: Send) -> None:
        """Cancel when the client disconnects; break long silences until then."""

        async def ping() -> float:
            silent = self._now() - self._last_sent
            if silent < self._ping_seconds:
                return self._ping_seconds - silent
            await self._send(send, PING)
            return self._ping_seconds

        await cancel_on_disconnect(receive, self._cancel, wake=ping)

    def _cancel(self) -> None:
        for channel in self._channels:
            if not channel.is_finished:
                channel.cancel()


Reply = Response | EventStream


def stream_reply(
    service: Service, requests: Sequence[Request], events: Events, return_held: bool | None
) -> EventStream:
    """Submit requests; return the stream of their choices.

    Raises:
        ApiError: 400, 429 or 503; the engine does not accept them.
    """
    channels = [StreamChannel.create() for request in requests for _ in range(request.params.n)]
    for channel in channels:
        if return_held:
            channel.set_return_held(True)
        channel.announce_reader()
    with engine_errors():
        service.engine.submit(requests, channels)
    return EventStream(events, channels, read=service.wire.read, ping_seconds=service.ping_seconds)


async def reply_whole(
    service: Service,
    requests: Sequence[Request],
    receive: Receive,
    answer: Callable[[list[CompletionOutput]], Any],
) -> Response:
    """Submit requests; return the answer that `answer` makes of their choices.

    If the client disconnects meanwhile, the requests are cancelled, and `answer` is not called.

    Raises:
        ApiError: 400, 429 or 503, the engine does not accept them; 500 or 502, a choice failed.
    """
    with engine_errors():
        # A client sends calls back as history, so a template must be able to show them.
        handles = service.engine.submit(
            [replace(request, whole_calls=True) for request in requests]
        )
    with engine_errors():
        responses = await responses_unless_disconnected(handles, receive)
    if responses is None:
        return Response(status_code=499)
    return JsonResponse(answer([output for each in responses for output in each.outputs]))


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn exceptions of the engine into errors for the client.

    Raises:
        ApiError: 400, 429 or 503.
    """
    try:
        yield
    except EngineOverloadedError as error:
        raise ApiError(429, f"the server is busy: {error.detail}") from error
    except StreamingSubmissionError as error:
        raise ApiError(400, error.detail) from error
    except EngineDeadError as error:
        raise ApiError(503, "the engine has failed; the server must be restarted") from error
    except EngineStateError as error:
        raise ApiError(503, "the server is shutting down") from error
