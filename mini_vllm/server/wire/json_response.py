"""Responses that are one JSON value, and the one way that errors become responses."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from mini_vllm.server.wire.api_errors import ApiError
from mini_vllm.server.wire.sse import encode_line


class JsonResponse(Response):
    """A value of msgspec as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return encode_line(content)


_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    429: {"retry-after": "1"},
    503: {"retry-after": "5"},
}


def error_response(error: ApiError, headers: Mapping[str, str] | None = None) -> JsonResponse:
    """Return what a client is told; one that was too quick is told when to come back."""
    headers = {**_HEADERS.get(error.status, {}), **(headers or {})}
    return JsonResponse(error.body, status_code=error.status, headers=headers)
