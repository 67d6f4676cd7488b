"""From the body of a request to a value of its type, or an error that names the field at fault."""

import asyncio
import json
import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias, TypeVar

import msgspec
from starlette.requests import Request as HttpRequest

from mini_vllm.server.service import Service
from mini_vllm.server.wire.api_errors import ApiError, invalid
from mini_vllm.text.whole_json import JsonDepthError, check_json_depth

T = TypeVar("T", bound=msgspec.Struct)
_MISSING = re.compile("Object missing required field `(.*)`")
_LARGEST = 2**63
_LONGEST_PROBLEM = 100
# The values of fields that have few; the message of a wrong value does not list them.
_CHOICES = {
    "verbosity": "low, medium or high",
    "tool_choice.type": "function or allowed_tools",
    "tool_choice.allowed_tools.mode": "auto or required",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


async def read_body(raw_request: HttpRequest, service: Service) -> bytes:
    """Return the body of a request.

    Raises:
        ApiError: 415 if it is not declared as JSON, or is compressed, 413 if it is too long or
            announced as too long, 408 if it does not arrive in time.
    """
    kind = raw_request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(415, f"content-type: is {kind!r:.100}; it must be application/json")
    coding = raw_request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise ApiError(415, f"content-encoding: is {coding!r:.100}; send the body as it is")
    body, most = bytearray(), service.limits.max_body_bytes
    too_long = ApiError(413, f"the body has over {most} bytes; that is the limit")
    # Before the first read, which tells a client with `Expect: 100-continue` to send the body.
    if int(raw_request.headers.get("content-length", 0)) > most:
        raise too_long
    try:
        async with asyncio.timeout(service.body_seconds):
            async for piece in raw_request.stream():
                body += piece
                if len(body) > most:
                    raise too_long
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive in {service.body_seconds:g} s") from None
    return bytes(body)


def decode_body(body: bytes, kind: type[T]) -> T:
    """Return a request.

    Args:
        body: JSON in UTF-8. If a key occurs twice, the last value counts. A number like 2.0 is
            also accepted as an integer.
        kind: the type of the request.

    Raises:
        ApiError: 400; the body is not JSON, is nested deeper than 256, or is not of that type.
    """
    try:
        # Decoded first: msgspec does not check the UTF-8 of fields that it skips.
        text = body.decode()
        check_json_depth(text)
        request: T = _decoder(kind).decode(text)
        return request
    except msgspec.ValidationError as error:
        with suppress(msgspec.DecodeError):
            return msgspec.convert(_with_integers(msgspec.json.decode(text)), kind)
        raise _wrong_shape(error) from None
    except msgspec.DecodeError as error:
        raise _not_json(body, error) from None
    except UnicodeDecodeError:
        raise invalid(None, "the body is not UTF-8; encode it as UTF-8") from None
    except JsonDepthError as error:
        raise invalid(None, f"the body is {error}") from None


def convert_value(value: Any, kind: type[T], at: str) -> T:
    """Return a JSON value as a type.

    Args:
        value: a part of a body.
        kind: the type that it must have.
        at: its path in the body.

    Raises:
        ApiError: 400; the value is not of that type.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _wrong_shape(error, at) from None


def _with_integers(body: Any) -> Any:
    """Return a body in which each float field with an integral value, such as 2.0, is an int.

    A number beyond 64 bits stays a float, which no field takes.
    """
    if not isinstance(body, dict):
        return body
    return {
        key: int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST
        else value
        for key, value in body.items()
    }


def check_at_most(param: str, count: int, most: int, what: str) -> None:
    """Check that a count is not above its limit.

    Raises:
        ApiError: 400; it names the field, the count, and the limit.
    """
    if count > most:
        raise invalid(param, f"has {count} {what}; at most {most} are allowed")


def check_depth(param: str, value: Any, most: int) -> None:
    """Check that a JSON value is not nested too deeply. A value without members has the depth 0.

    Raises:
        ApiError: 400; it names the field and the limit.
    """
    level: list[Any] = [value]
    for _ in range(most + 1):
        # Level by level instead of recursively, so that a deep value does not use up the stack.
        level = [member for outer in level for member in _members(outer)]
        if not level:
            return
    raise invalid(param, f"is nested deeper than {most}; flatten it")


def _members(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _wrong_shape(error: msgspec.ValidationError, at: str = "") -> ApiError:
    """Return msgspec's message as an error, with the path in the form that this API uses."""
    problem, _, path = str(error).partition(" - at `$")
    param = (at + path.removesuffix("`")).lstrip(".")
    missing = _MISSING.fullmatch(problem)
    if missing:
        param = f"{param}.{missing[1]}" if param else missing[1]
        problem = "is missing; add it"
    if len(problem) > _LONGEST_PROBLEM:
        problem = f"{problem[:_LONGEST_PROBLEM]}…"
    if param in _CHOICES:
        problem += f"; it must be {_CHOICES[param]}"
    if not param:
        return invalid(None, f"the body is not a request: {problem}")
    return invalid(param, problem[:1].lower() + problem[1:])


def _not_json(body: bytes, error: msgspec.DecodeError) -> ApiError:
    """Return an error that names the field at fault if Python's laxer reader can find it."""
    try:
        fault = _beyond_json(json.loads(body))
    except ValueError:
        fault = None
    return invalid(*fault) if fault else invalid(None, f"the body is not JSON: {error}")


def _beyond_json(value: Any) -> tuple[str | None, str] | None:
    """Return the path and fault of a value that Python's reader accepts although it is not JSON."""
    # A place is a chain of keys; a full path for every value could fill the memory.
    todo: list[tuple[_Place, Any]] = [(None, value)]
    while todo:
        place, value = todo.pop()
        if isinstance(value, dict):
            if any(_SURROGATE.search(key) for key in value):
                return _path(place), "a key has a lone surrogate; send whole characters"
            todo += [((place, f".{key}"), item) for key, item in value.items()]
        elif isinstance(value, list):
            todo += [((place, f"[{index}]"), item) for index, item in enumerate(value)]
        elif isinstance(value, str) and _SURROGATE.search(value):
            return _path(place), "the string has a lone surrogate; send whole characters"
        elif isinstance(value, float) and not math.isfinite(value):
            return _path(place), f"{value} is not a JSON number"
    return None


def _path(place: "_Place") -> str | None:
    steps = []
    while place is not None:
        place, step = place
        steps.append(step)
    return "".join(reversed(steps)).lstrip(".")[:_LONGEST_PATH] or None


_Place: TypeAlias = "tuple[_Place, str] | None"
_LONGEST_PATH = 200
