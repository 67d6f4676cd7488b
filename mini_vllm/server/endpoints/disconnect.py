"""A client that goes: noticed while its answer is made or sent, streamed or whole."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive


async def until_disconnect(
    receive: Receive,
    *,
    silence_seconds: float | None = None,
    on_silence: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Return when the client has closed its connection.

    Args:
        receive: of the ASGI request.
        silence_seconds: how often `on_silence` is awaited until then; None for never.
        on_silence: what keeps the connection alive.
    """
    while True:
        try:
            async with asyncio.timeout(silence_seconds):
                message = await receive()
        except TimeoutError:
            if on_silence is not None:
                await on_silence()
            continue
        if message["type"] == "http.disconnect":
            return
