"""The middleware of every request: request id, origins of browsers, API key."""

import hmac
import re
import secrets
from collections.abc import Container, Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mini_vllm.server.wire.api_errors import ApiError, error_response

REQUEST_ID = "x-request-id"
_GOOD_ID = re.compile(r"[!-~]{1,128}")


def middleware(
    api_key: str | None, allowed_origins: Sequence[str], *, open_paths: Container[str]
) -> list[Middleware]:
    """Return the middleware of the application, outermost first.

    Args:
        api_key: the key that clients must send, or None.
        allowed_origins: of the pages that browsers let use this server, such as
            `http://localhost:3000`, or `*` for all.
        open_paths: paths that need no key.
    """
    layers = [Middleware(RequestId)]
    if allowed_origins:
        # Outside the key check: a browser sends its preflight request without a key.
        layers.append(
            Middleware(
                CORSMiddleware,
                allow_origins=allowed_origins,
                allow_methods=["*"],
                allow_headers=["*"],
                expose_headers=[REQUEST_ID],
            )
        )
    if api_key is not None:
        layers.append(Middleware(ApiKey, key=api_key, open_paths=open_paths))
    return layers


class RequestId:
    """ASGI middleware that answers with the client's `X-Request-Id`, or with a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and add the header to its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = header if _GOOD_ID.fullmatch(header) else f"req_{secrets.token_hex(16)}"

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        await self._app(scope, receive, send_with_id)


class ApiKey:
    """ASGI middleware that lets only requests with `Authorization: Bearer KEY` through.

    The page and `open_paths` need no key; the page itself asks the user for the key.
    """

    def __init__(self, app: ASGIApp, key: str, open_paths: Container[str]) -> None:
        self._app = app
        self._expected = f"bearer {key}".encode()
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or self._may_pass(scope):
            await self._app(scope, receive, send)
            return
        refusal = ApiError(
            401,
            "the API key is missing or wrong; send it as Authorization: Bearer KEY",
            code="invalid_api_key",
        )
        await error_response(refusal)(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        path = scope["path"]
        if path in self._open_paths or path.startswith("/page/"):
            return True
        authorization = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = authorization.partition(b" ")
        # In constant time: the duration does not show how much of the key is right.
        return hmac.compare_digest(scheme.lower() + b" " + key.strip(), self._expected)
