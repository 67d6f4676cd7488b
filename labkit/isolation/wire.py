"""What goes over the pipe between the tests and a submission: requests one way, answers back.

Requests are marshalled: quick, and safe, because they come from the trusted side. Answers are JSON,
rebuilt into exact plain types by whoever reads them, so equality is that of the reader, whatever
object lied on the other side.

But: it is no pickle. It knows the values that may cross the seam of `labkit.drive`, and no others.
"""

import json
import marshal
import struct
from collections.abc import Callable
from typing import Any

from labkit.trace import New
from mini_vllm.text.events import TextDelta, ToolCall

HEAD = struct.Struct(">I")
_encode = json.JSONEncoder(separators=(",", ":")).encode
_NATIVE = frozenset([str, bool, type(None)])


class WireError(Exception):
    """What arrived is not what the protocol says."""


def pack_request(request: dict[str, Any]) -> bytes:
    """Return a message of the trusted side: its length in four bytes, then its values."""
    data = marshal.dumps(request)
    return HEAD.pack(len(data)) + data


def unpack_request(data: bytes) -> dict[str, Any]:
    """Return the values of a message of the trusted side, without its length."""
    request: dict[str, Any] = marshal.loads(data)
    return request


def flat(recipe: Any) -> Any:
    """Return a recipe, or a value in one, as what marshal knows."""
    if isinstance(recipe, New):
        options = {key: flat(value) for key, value in recipe.kwargs.items()}
        return recipe.name, [flat(value) for value in recipe.args], options
    return [recipe]


def unflat(data: Any) -> Any:
    """Return what `flat` was given."""
    if type(data) is list:
        return data[0]
    name, args, options = data
    return New(name, tuple(map(unflat, args)), {key: unflat(v) for key, v in options.items()})


def pack(value: Any) -> bytes:
    """Return an answer as a message: its length in four bytes, then JSON in ASCII.

    Raises:
        WireError: it has a value of another kind, is nested too deep, or is too long.
    """
    try:
        data = _encode(_out(value)).encode("ascii")
        return HEAD.pack(len(data)) + data
    except (TypeError, ValueError, RecursionError, struct.error) as error:
        raise WireError(f"this cannot be sent: {error}") from None


def unpack(data: bytes) -> Any:
    """Return the value of an answer without its length.

    Raises:
        WireError: it is not one that `pack` makes.
    """
    try:
        return _in(json.loads(data))
    except WireError:
        raise
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise WireError(f"the message is damaged: {error}") from None


def _out(value: Any) -> Any:
    kind = type(value)
    if kind in _NATIVE:
        return value
    if kind is int:
        # Long decimal numbers cost more than linear time, and Python refuses them.
        return value if -(2**53) < value < 2**53 else {"int": hex(value)}
    if kind is list:
        return [item if type(item) in _NATIVE else _out(item) for item in value]
    if kind is tuple:
        return {"tuple": [item if type(item) in _NATIVE else _out(item) for item in value]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is TextDelta:
        return {"text": _text(value.text)}
    if kind is ToolCall:
        return {"call": [_out(value.index), _text(value.name), _text(value.arguments)]}
    if kind is dict:
        return {"dict": [[_out(key), _out(item)] for key, item in value.items()]}
    raise TypeError(f"{kind.__name__} is not a kind that crosses")


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("the field of an event is no str")
    return value


def _in(value: Any) -> Any:
    kind = type(value)
    if kind in _NATIVE or kind is int:
        return value
    if kind is list:
        return [item if type(item) in _NATIVE else _in(item) for item in value]
    if kind is float:
        raise WireError("a float does not cross")
    if len(value) != 1:
        raise WireError("a tagged value has one tag")
    (tag, content), = value.items()  # fmt: skip
    if tag not in _READERS:
        raise WireError(f"there is no tag {tag!r:.40}")
    return _READERS[tag](content)


def _int(content: Any) -> int:
    return int(_checked(content), 16)


def _checked(content: Any) -> str:
    if type(content) is not str:
        raise WireError("a text was due")
    return content


def _items(content: Any) -> list[Any]:
    if type(content) is not list:
        raise WireError("a list was due")
    return [_in(item) for item in content]


def _call(content: Any) -> ToolCall:
    index, name, arguments = _items(content)
    if type(index) is not int:
        raise WireError("the index of a call is no int")
    return ToolCall(index, _checked(name), _checked(arguments))


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": _int,
    "bytes": lambda content: bytes.fromhex(_checked(content)),
    "tuple": lambda content: tuple(_items(content)),
    "dict": lambda content: dict(_items(content)),
    "text": lambda content: TextDelta(_checked(content)),
    "call": _call,
}
