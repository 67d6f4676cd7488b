"""A client that goes: noticed while its answer is made or sent, streamed or whole."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive


async def until_disconnect(
    receive: Receive, *, wake: Callable[[], Awaitable[float]] | None = None
) -> None:
    """Return when the client has closed its connection.

    Args:
        receive: of the ASGI request.
        wake: awaited now and then: it returns after how many seconds it is to be awaited again.
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
            return
