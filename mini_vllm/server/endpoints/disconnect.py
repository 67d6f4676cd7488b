"""A client that disconnects before it has its answer: its requests are cancelled in the engine."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from starlette.types import Receive

from mini_vllm.engine import Handle, Response


async def cancel_on_disconnect(
    receive: Receive,
    cancel: Callable[[], None],
    *,
    wake: Callable[[], Awaitable[float]] | None = None,
) -> None:
    """Wait until the client has closed its connection, then cancel.

    Args:
        receive: of the ASGI request.
        cancel: cancels the client's choices.
        wake: awaited repeatedly; it returns the seconds until it is awaited again.
    """
    seconds = None if wake is None else await wake()
    while True:
        try:
            async with asyncio.timeout(seconds):
                message = await receive()
        except TimeoutError:
            seconds = None if wake is None else await wake()
            continue
        if message["type"] == "http.disconnect":
            cancel()
            return


async def responses_unless_disconnected(
    handles: Sequence[Handle], receive: Receive
) -> list[Response] | None:
    """Wait for the responses; if the client disconnects, cancel the requests and return None.

    Args:
        handles: of the client's requests.
        receive: of the ASGI request.

    Raises:
        EngineDeadError: the engine failed.
    """

    def cancel() -> None:
        for handle in handles:
            handle.cancel()

    # A cancelled task is silent; the future that `gather` returns would log its cancellation.
    responses = asyncio.create_task(_responses(handles))
    gone = asyncio.create_task(cancel_on_disconnect(receive, cancel))
    try:
        await asyncio.wait((responses, gone), return_when=asyncio.FIRST_COMPLETED)
        return responses.result() if responses.done() else None
    finally:
        gone.cancel()
        responses.cancel()
        # The server may also cancel the task that waits here.
        cancel()


async def _responses(handles: Sequence[Handle]) -> list[Response]:
    return [await asyncio.wrap_future(handle.future) for handle in handles]
