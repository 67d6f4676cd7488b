"""Errors as the OpenAI API says them.

But: it knows nothing of the engine's exceptions; whoever meets one says what it means to a client.
"""

from http import HTTPStatus
from typing import Any

from mini_vllm.engine import FinishReason


class ApiError(Exception):
    """An answer that is an error.

    Attributes:
        status: the HTTP status. An error in the midst of a stream has lost its chance to show it.
        message: what is wrong and how to mend it, for people.
        type: the kind, as clients know it; without one, what is usual for the status.
        param: the field at fault, like `messages[0].role`, or None.
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
        """What goes on the wire."""
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
    """Return the error for a bad field: its message is the field's name and the problem."""
    message = f"{param}: {problem}" if param else problem
    return ApiError(HTTPStatus.BAD_REQUEST, message, param=param, code=code)


def broken_off(reason: FinishReason) -> ApiError:
    """Return the error for an answer that did not come to its end.

    The API has no `finish_reason` for that. Why an engine failed is for its log, not for clients.
    """
    if reason is FinishReason.CANCELLED:
        return ApiError(
            HTTPStatus.INTERNAL_SERVER_ERROR, "the request was cancelled", code="cancelled"
        )
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "the engine failed before the answer was complete",
        code="failed",
    )
