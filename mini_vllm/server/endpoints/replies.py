"""How a request to the engine becomes a reply: as a stream, or when all is there."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from starlette.responses import Response
from starlette.types import Receive

from mini_vllm.engine import (
    CompletionOutput,
    EngineDeadError,
    EngineOverloadedError,
    EngineStateError,
    Request,
    StreamChannel,
    StreamingSubmissionError,
)
from mini_vllm.server.service import Service
from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.server.wire.event_stream import EventStream, Wire
from mini_vllm.server.wire.json_response import JsonResponse

Reply = Response | EventStream


def stream_reply(
    service: Service, requests: Sequence[Request], wire: Wire, return_held: bool | None
) -> EventStream:
    """Submit requests; return the stream of their choices.

    Raises:
        ApiError: 400, 429 or 503; the engine does not take them.
    """
    channels = [StreamChannel.create() for one in requests for _ in range(one.params.n)]
    for channel in channels:
        channel.set_return_held(bool(return_held))
    with engine_errors():
        service.engine.submit(requests, channels)
    return EventStream(wire, channels, ping_seconds=service.ping_seconds)


async def reply_whole(
    service: Service,
    requests: Sequence[Request],
    receive: Receive,
    answer: Callable[[list[CompletionOutput]], Any],
) -> Response:
    """Submit requests; return what `answer` makes of their choices.

    Nothing is made for a client that goes meanwhile.

    Raises:
        ApiError: 400, 429 or 503, the engine does not take them; 500, a choice failed.
    """
    with engine_errors():
        handles = service.engine.submit(requests)
    answers = asyncio.gather(*(asyncio.wrap_future(handle.future) for handle in handles))
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait((answers, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answers.done():
            return Response(status_code=499)
        with engine_errors():
            outputs = [output for response in answers.result() for output in response.outputs]
        return JsonResponse(answer(outputs))
    finally:
        gone.cancel()
        answers.cancel()
        for handle in handles:
            handle.cancel()


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn what the engine raises into what a client should be told.

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


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
