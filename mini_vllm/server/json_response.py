"""Responses that are one JSON value, and the one way that errors become responses."""

from typing import Any

from starlette.responses import Response

from mini_vllm.server.errors import ApiError
from mini_vllm.server.sse import encode_line


class JsonResponse(Response):
    """A value of msgspec as JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return encode_line(content)


def error_response(error: ApiError) -> JsonResponse:
    """Return what a client is told; one that was too quick is told when to come back."""
    headers = {429: {"retry-after": "1"}, 503: {"retry-after": "5"}}.get(error.status)
    return JsonResponse(error.body, status_code=error.status, headers=headers)
