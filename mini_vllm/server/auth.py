"""Who may ask: an API key, compared in constant time."""

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.server.wire.json_response import error_response

# The page asks for the key itself, and a health check has none.
_OPEN = ("/", "/health")
_OPEN_FOLDER = "/page/"


class ApiKey:
    """ASGI middleware that lets only requests with `Authorization: Bearer KEY` through."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._expected = f"bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or self._may(scope):
            await self._app(scope, receive, send)
            return
        refusal = ApiError(
            401,
            "the API key is missing or wrong; send it as Authorization: Bearer KEY",
            code="invalid_api_key",
        )
        await error_response(refusal)(scope, receive, send)

    def _may(self, scope: Scope) -> bool:
        path = scope["path"]
        if path in _OPEN or path.startswith(_OPEN_FOLDER):
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, key = given.partition(b" ")
        return hmac.compare_digest(scheme.lower() + b" " + key.strip(), self._expected)
