"""Answers that are one JSON value, and errors in the form of the OpenAI API.

The code that catches an exception of the engine decides its status; this module does not.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from mini_vllm.engine import FinishReason, RemoteModelError, StructuredOutputError

_encode = msgspec.json.Encoder().encode
# JSON allows these in a string, but a client that splits lines as Python's `splitlines` does would
# split inside the string: NEL, LINE SEPARATOR, PARAGRAPH SEPARATOR.
_LINE_ENDS = (
    (b"\xc2\x85", rb"\u0085"),
    (b"\xe2\x80\xa8", rb"\u2028"),
    (b"\xe2\x80\xa9", rb"\u2029"),
)


def encode_line(value: Any) -> bytes:
    """Return a value as UTF-8 JSON that is a single line for every definition of a line.

    Raises:
        UnicodeEncodeError: a string contains a lone surrogate.
        TypeError: JSON cannot represent the value.
    """
    line = _encode(value)
    if not line.isascii():
        for raw, escaped in _LINE_ENDS:
            line = line.replace(raw, escaped)
    return line


class JsonResponse(Response):
    """A value that msgspec can encode, as a JSON response."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return encode_line(content)


class ApiError(Exception):
    """An answer that reports an error.

    Attributes:
        status: the HTTP status; it cannot be sent in the middle of a stream.
        message: the problem and its solution, for people.
        type: the kind of error, as clients know it; by default the usual one for the status.
        param: the field at fault, such as `messages[0].role`, or None.
        code: a name for programs, or None.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str | None = None,
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = HTTPStatus(status)
        self.message = message
        self.type = type or _TYPES.get(
            self.status, "server_error" if status >= 500 else "invalid_request_error"
        )
        self.param = param
        self.code = code

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }


_TYPES = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}


def invalid(param: str | None, problem: str, *, code: str | None = None) -> ApiError:
    """Return the error for a bad field; its message is the field's name and the problem."""
    message = f"{param}: {problem}" if param else problem
    return ApiError(HTTPStatus.BAD_REQUEST, message, param=param, code=code)


def broken_off(reason: FinishReason, cause: BaseException | None = None) -> ApiError:
    """Return the error for an answer that was cut short.

    The API has no `finish_reason` for that. The answer reports two causes: a remote model failed
    (502), or a model wrote an id outside the request's grammar. The reason for any other failure of
    the engine belongs in its log, not in the answer.
    """
    if isinstance(cause, RemoteModelError):
        return ApiError(HTTPStatus.BAD_GATEWAY, str(cause), code="model_unavailable")
    if isinstance(cause, StructuredOutputError):
        return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(cause), code="outside_grammar")
    if reason is FinishReason.CANCELLED:
        return ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            "the server was stopped before the answer was complete",
            code="cancelled",
        )
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "the engine failed before the answer was complete",
        code="failed",
    )


_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    429: {"retry-after": "1"},
    503: {"retry-after": "5"},
}


def error_response(error: ApiError, headers: Mapping[str, str] | None = None) -> JsonResponse:
    """Return the response for an error; it says when to retry, if a retry may help."""
    headers = {**_HEADERS.get(error.status, {}), **(headers or {})}
    return JsonResponse(error.body, status_code=error.status, headers=headers)
