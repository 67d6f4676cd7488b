"""The messages over the pipe between the tests and a submission: requests one way, answers back.

A frame consists of the length of its content, its kind, and the content: an `ANSWER`, or a message
about a `PART`, which is a submission's request to a part or the part's answer. Requests are
marshalled, which is quick, and safe because only the trusted side sends them. All other frames are
JSON, which the reader rebuilds into exact plain types. So equality is the reader's own, even if an
object on the other side redefined it.

Only the values that may cross the seam of `labkit.running.drive` can be sent. The cost of an answer
for its reader is bounded: by its length, the number of its values, and the depth of their nesting.
"""

import functools
import gc
import json
import marshal
import re
import struct
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from typing import Any, NoReturn, ParamSpec, TypeVar

from labkit.running.trace import EVENTS, MOST_BITS, Call, New, Step, Unreadable, fields_of
from mini_vllm.text.events import TextDelta, ToolCall

_P = ParamSpec("_P")
_T = TypeVar("_T")
# The length of a frame's content, and its kind.
HEAD = struct.Struct(">IB")
ANSWER, PART = 0, 1
# A pipe holds no more bytes. The C library maps new memory for a larger buffer at each read, which
# takes seven times as long.
MOST_READ = 1 << 16
# Limit of one answer. The longest answer of a reference has 3.3 MB.
MOST_BYTES = 4 << 20
# Limit of one answer: each value takes up to 64 bytes in memory.
MOST_VALUES = 1_000_000
_MOST_DEPTH = 100
# Keys can be chosen so that a dict takes quadratic time; with few entries that costs little.
MOST_ENTRIES = 256
# Limit of each text that describes an error.
MOST_CHARACTERS = 4_000
_MOST_NAME = 100
_NATIVE = frozenset([str, bool, type(None)])
_SENT_AS_IS = frozenset([str, bool, type(None), int])
_SMALL = 2**53
# So many bytes in a list are sent as one text, at half the length.
_MANY = 64
# So many events of one kind in a list are sent by column, which takes a third of the time.
_SOME = 4
_NO_OPTIONS: dict[str, Any] = {}
# Many calls are made, and this takes a quarter of the time that calling the class takes.
_call_of = partial(tuple.__new__, Call)
step_of = partial(tuple.__new__, Step)
_EVENTS_BY_NAME = {kind.__name__: kind for kind in EVENTS}
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class WireError(Exception):
    """A received message does not follow the protocol."""


def _without_collections(work: Callable[_P, _T]) -> Callable[_P, _T]:
    """Pause the garbage collector while many values are made: none of them is garbage."""

    @functools.wraps(work)
    def uninterrupted(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return work(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return uninterrupted


def pack_request(request: Any) -> bytes:
    """Return a frame of the trusted side."""
    data = marshal.dumps(request)
    return HEAD.pack(len(data), ANSWER) + data


@_without_collections
def unpack_request(data: bytes | bytearray) -> Any:
    """Return the values of a frame of the trusted side."""
    return marshal.loads(memoryview(data)[HEAD.size :])


def pack_calls(new: Sequence[New], calls: Sequence[Call]) -> tuple[Any, Any]:
    """Return the objects to make and the calls as values that `marshal` knows: the calls by column,
    and a value that is the same in all calls only once.
    """
    names, numbers = ([*map(itemgetter(place), calls)] for place in (0, 3))
    args, options = ([*map(itemgetter(place), calls)] for place in (1, 2))
    dicts = [*map(dict, options)] if any(options) else None
    kinds = set(map(type, chain.from_iterable(filter(None, args))))
    if not kinds.isdisjoint(EVENTS):
        # As lists, by which `unpack_calls` recognises them.
        args = [*map(_flat_args, args)]
    seen: dict[int, int] = {}
    recipes = [_flat(recipe, seen) for recipe in new]
    return recipes, (_once(names), args, dicts, _once(numbers))


def _once(column: list[Any]) -> Any:
    return column[0] if len(set(column)) == 1 else column


@_without_collections
def unpack_calls(new: Any, calls: Any, watch: str) -> tuple[list[New], list[Any], str]:
    """Return the arguments of `pack_calls`, and the attribute to watch."""
    names, args, options, numbers = calls
    if list in set(map(type, args)):
        args = [_unflat_args(data) if type(data) is list else data for data in args]
    columns = (
        repeat(names) if type(names) is str else names,
        args,
        repeat(_NO_OPTIONS) if options is None else options,
        repeat(numbers) if type(numbers) is int else numbers,
    )
    made: list[New] = []
    recipes = [_unflat(data, made) for data in new]
    return recipes, [*map(_call_of, zip(*columns, strict=False))], watch


def _flat_args(args: tuple[Any, ...] | None) -> Any:
    """Return arguments as they are; those with an event among them as a list, each value in one."""
    if args is None or EVENTS.keys().isdisjoint(map(type, args)):
        return args
    return [
        (type(value).__name__, fields_of(value)) if type(value) in EVENTS else [value]
        for value in args
    ]


def _unflat_args(data: list[Any]) -> tuple[Any, ...]:
    """Return the argument of `_flat_args`."""
    return tuple(
        value[0] if type(value) is list else _EVENTS_BY_NAME[value[0]](*value[1]) for value in data
    )


def _flat(recipe: Any, seen: dict[int, int]) -> Any:
    """Return a recipe as a tuple, or the number of a recipe seen before; a value in a list."""
    if not isinstance(recipe, New):
        return [recipe]
    if id(recipe) in seen:
        return seen[id(recipe)]
    args = [_flat(value, seen) for value in recipe.args]
    options = {key: _flat(value, seen) for key, value in recipe.kwargs.items()}
    seen[id(recipe)] = len(seen)
    return recipe.name, args, options


def _unflat(data: Any, made: list[New]) -> Any:
    if type(data) is list:
        return data[0]
    if type(data) is int:
        return made[data]
    name, args, options = data
    flat = tuple([_unflat(value, made) for value in args])
    made.append(New(name, flat, {key: _unflat(value, made) for key, value in options.items()}))
    return made[-1]


@_without_collections
def pack(value: Any, kind: int = ANSWER) -> bytes:
    """Return an answer as a frame, in JSON and ASCII.

    Raises:
        WireError: the answer holds a value of another kind, is nested too deep, or is too long.
    """
    try:
        data = _encode(_out(value)).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"this cannot be sent: {error}") from None
    if len(data) > MOST_BYTES:
        raise WireError(f"this cannot be sent: it has {len(data)} bytes, and {MOST_BYTES} are read")
    return HEAD.pack(len(data), kind) + data


@_without_collections
def unpack(data: bytes) -> Any:
    """Return the value of an answer without its head.

    Raises:
        WireError: `pack` does not make such data, or the data hold too many values.
    """
    size = len(data)
    # A value takes at least a byte.
    if size > MOST_BYTES or (size > MOST_VALUES and _count(data) > MOST_VALUES):
        raise WireError(f"more than {MOST_BYTES} bytes or {MOST_VALUES} values")
    try:
        value, end = _read(data.decode("ascii"))
        if end != size:
            raise WireError("there is more than one value")
        if b"{" not in data and data.count(b"[") <= _MOST_DEPTH:
            # Without a tag there is nothing to rebuild.
            return value
        return _in(value, 0)
    except WireError:
        raise
    except StopIteration:
        raise WireError("the message is damaged: it is not JSON") from None
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise WireError(f"the message is damaged: {error}") from None


def _count(data: bytes) -> int:
    """Return an upper bound of the number of values in some JSON."""
    count = _marks(data)
    return count if count <= MOST_VALUES else _marks(_TEXTS.sub(b"", data))


def _marks(data: bytes) -> int:
    return sum(map(data.count, (b",", b":", b"[", b"{")))


# The final quote is optional, so that an unfinished text is not scanned twice.
_TEXTS = re.compile(rb'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"?')


def _out(value: Any) -> Any:
    kind = type(value)
    if kind in _NATIVE:
        return value
    if kind is int:
        # Long decimal numbers cost more than linear time, and Python refuses them.
        return value if -_SMALL < value < _SMALL else {"int": hex(value)}
    if kind is list:
        return _list(value)
    if kind is tuple:
        return {"tuple": [*map(_out, value)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if kind is TextDelta:
        return {"text": _text(value.text)}
    if kind is ToolCall:
        return {"call": [_out(value.index), _text(value.name), _text(value.arguments)]}
    if kind in EVENTS:
        return {"event": [kind.__name__, *map(_out, fields_of(value))]}
    if kind is frozenset and {int}.issuperset(map(type, value)) and len(value) <= MOST_ENTRIES:
        return {"set": [*map(_out, sorted(value))]}
    if kind is Unreadable:
        return {"unreadable": [*map(_text, (value.kind, value.message, value.line, value.name))]}
    if kind is dict:
        if len(value) > MOST_ENTRIES:
            raise TypeError(f"a dict of more than {MOST_ENTRIES} entries does not cross")
        return {"dict": [[_out(key), _out(item)] for key, item in value.items()]}
    raise TypeError(f"a {kind.__name__} is not plain data: it does not cross")


def _list(value: list[Any]) -> Any:
    kinds = set(map(type, value))
    if kinds <= _NATIVE:
        return value
    if kinds == {int}:
        least, most = min(value), max(value)
        if least >= 0 and most < 256 and len(value) >= _MANY:
            return {"octets": bytes(value).hex()}
        if least > -_SMALL and most < _SMALL:
            return value
    kind, *others = kinds
    if others or kind not in EVENTS or len(value) < _SOME:
        return [*map(_out, value)]
    columns = ([*map(attrgetter(name), value)] for name in EVENTS[kind])
    return {"events": [kind.__name__, *map(_list, columns)]}


def _refuse(written: str) -> NoReturn:
    raise WireError("a float does not cross")


_read = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse).raw_decode


def _in(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _SENT_AS_IS:
        return value
    if depth > _MOST_DEPTH:
        raise WireError("it is nested too deep")
    if kind is list:
        if _SENT_AS_IS.issuperset(map(type, value)):
            return value
        # Without a call for each value that is sent unchanged, this takes half the time.
        return [item if type(item) in _SENT_AS_IS else _in(item, depth + 1) for item in value]
    if len(value) != 1:
        raise WireError("a tagged value has exactly one tag")
    (tag, content), = value.items()  # fmt: skip
    if tag not in _READERS:
        raise WireError(f"there is no tag {tag!r:.40}")
    return _READERS[tag](content, depth + 1)


def _text(value: Any, depth: int = 0) -> str:
    if type(value) is not str:
        raise WireError("a text was expected")
    return value


def _items(content: Any, depth: int) -> list[Any]:
    if type(content) is not list:
        raise WireError("a list was expected")
    items: list[Any] = _in(content, depth)
    return items


def _int(content: Any, depth: int) -> int | Unreadable:
    number = int(_text(content), 16)
    if (bits := number.bit_length()) > MOST_BITS:
        return Unreadable("type", f"an int of {bits} bits; none of more than {MOST_BITS} crosses")
    return number


def _dict(content: Any, depth: int) -> dict[Any, Any]:
    pairs = _items(content, depth)
    if len(pairs) > MOST_ENTRIES:
        raise WireError(f"a dict of more than {MOST_ENTRIES} entries")
    if not all(type(pair) is list and len(pair) == 2 for pair in pairs):
        raise WireError("an entry of a dict is a key and a value")
    return dict(pairs)


def _events(content: Any, depth: int) -> list[Any]:
    name, *columns = _items(content, depth)
    if not columns or set(map(type, columns)) - {list} or len(set(map(len, columns))) != 1:
        raise WireError("columns of one length were expected")
    kind = _kind_of_event(name)
    events = [*map(kind, *columns)]
    for column, types in zip(columns, EVENTS[kind].values(), strict=True):
        if set(map(type, column)) - {*types} or tuple in types:
            [*map(fields_of, events)]
    return events


def _call(content: Any, depth: int) -> ToolCall:
    index, name, arguments = _items(content, depth)
    if type(index) is not int:
        raise WireError("the index of a call is not an int")
    return ToolCall(index, _text(name), _text(arguments))


def _event(content: Any, depth: int) -> Any:
    name, *values = _items(content, depth)
    event = _kind_of_event(name)(*values)
    fields_of(event)
    return event


def _kind_of_event(name: Any) -> type:
    if type(name) is not str or name not in _EVENTS_BY_NAME:
        raise WireError("there is no such event")
    return _EVENTS_BY_NAME[name]


def _set(items: list[Any]) -> frozenset[int]:
    if len(items) > MOST_ENTRIES or not {int}.issuperset(map(type, items)):
        raise WireError(f"a set holds at most {MOST_ENTRIES} ints, and nothing else")
    return frozenset(items)


def _unreadable(content: Any, depth: int) -> Unreadable:
    kind, message, line, name = (_text(part)[:MOST_CHARACTERS] for part in _items(content, depth))
    return Unreadable(kind_of(kind), message, line, name)


def kind_of(name: str) -> str:
    """Return the name of an exception's class, if it is one."""
    return name if len(name) <= _MOST_NAME and name.isidentifier() else "Exception"


_READERS: dict[str, Callable[[Any, int], Any]] = {
    "int": _int,
    "bytes": lambda content, depth: bytes.fromhex(_text(content)),
    "octets": lambda content, depth: [*bytes.fromhex(_text(content))],
    "tuple": lambda content, depth: tuple(_items(content, depth)),
    "dict": _dict,
    "set": lambda content, depth: _set(_items(content, depth)),
    "text": lambda content, depth: TextDelta(_text(content)),
    "call": _call,
    "event": _event,
    "events": _events,
    "unreadable": _unreadable,
}
