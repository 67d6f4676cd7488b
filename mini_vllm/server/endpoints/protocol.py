"""From the body of a request to a value of its type, or an error that names the field at fault.

But: it knows no request by name, and checks only that a body is JSON of the right shape.
"""

import json
import math
import re
from functools import cache
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar

import msgspec

from mini_vllm.server.endpoints.limits import Limits
from mini_vllm.server.wire.api_errors import ApiError, invalid

T = TypeVar("T", bound=msgspec.Struct)
_MISSING = re.compile("Object missing required field `(.*)`")
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode_body(body: bytes, kind: type[T], limits: Limits) -> T:
    """Return a request.

    Args:
        body: JSON in UTF-8. Of a key that is there twice the last one counts.
        kind: its type.
        limits: how long the body may be.

    Raises:
        ApiError: 413 for a body that is too long, 400 for one that is no JSON or not of the type.
    """
    if len(body) > limits.max_body_bytes:
        raise ApiError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body has {len(body)} bytes; at most {limits.max_body_bytes} are allowed",
        )
    try:
        # As text: in fields that it skips, msgspec does not look whether bytes are UTF-8.
        request: T = _decoder(kind).decode(body.decode())
        return request
    except msgspec.ValidationError as error:
        raise _wrong_shape(error) from None
    except msgspec.DecodeError as error:
        raise _no_json(body, error) from None
    except UnicodeDecodeError:
        raise invalid(None, "the body is not UTF-8; encode it as that") from None
    except RecursionError:
        raise invalid(None, "the body is nested too deep; flatten it") from None


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _wrong_shape(error: msgspec.ValidationError) -> ApiError:
    """Say what msgspec says, with the path as clients of this API write it."""
    problem, _, path = str(error).partition(" - at `$")
    param = path.removesuffix("`").lstrip(".")
    missing = _MISSING.fullmatch(problem)
    if missing:
        param = f"{param}.{missing[1]}" if param else missing[1]
        problem = "is missing; add it"
    return invalid(param or None, problem[:1].lower() + problem[1:])


def _no_json(body: bytes, error: msgspec.DecodeError) -> ApiError:
    """Say which field has what only JSON in the wider sense has, or else what msgspec says."""
    try:
        found = _beyond_json(json.loads(body))
    except (ValueError, RecursionError):
        found = None
    if found is None:
        return invalid(None, f"the body is not JSON: {error}")
    return invalid(*found)


def _beyond_json(value: Any) -> tuple[str | None, str] | None:
    """Return the place of a value that Python's reader takes but JSON has not, and what it is."""
    # A place is a chain of keys. Written out for every value, they could fill the memory.
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
            return _path(place), f"{value} is no number of JSON"
    return None


def _path(place: "_Place") -> str | None:
    steps = []
    while place is not None:
        place, step = place
        steps.append(step)
    return "".join(reversed(steps)).lstrip(".")[:_LONGEST_PATH] or None


_Place: TypeAlias = "tuple[_Place, str] | None"
_LONGEST_PATH = 200
