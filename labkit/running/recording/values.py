"""Values as text, without running any code of the object: no `__repr__`, no property.

A text is a copy: it stays as it is when the value changes later.
"""

import builtins
import enum
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Set
from itertools import chain, islice
from typing import Any

from labkit.running.trace import EVENTS, MOST_BITS, written

# The longest text of a value, the most items of a container, and how deep containers are shown.
MOST_CHARACTERS = 160
_MOST_ITEMS = 24
_DEEPEST = 4
# The most items of a container whose own weight counts.
_MOST_WEIGHED = 4
# So much of a text is made before its middle is left out.
_MOST_READ = 2_000
_SIZED: dict[type, str] = {
    str: "character", bytes: "byte", bytearray: "byte", list: "item", tuple: "item", dict: "item",
    set: "item", frozenset: "item", deque: "item",
}  # fmt: skip
_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), frozenset: ("{", "}"), deque: ("[", "]"),
    dict: ("{", "}"),
}  # fmt: skip
# Classes by identity.
_SIZED_BY_ID = {id(base): base for base in _SIZED}
_PLAIN = {*map(id, (type(None), bool, int, float, complex, range, slice, type(Ellipsis)))}
_FUNCTIONS = {
    *map(id, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType))
}
_EVENTS = {*map(id, EVENTS)}


def text_of_value(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Return a value as text: like `repr` for plain values, `Name(attribute=...)` for objects.

    Of a text of more than `most` characters, the middle is left out, because a value often grows at
    its end; the size of the value follows.
    """
    try:
        parts, length = [], 0
        for part in _parts(value, most, ()):
            parts.append(part)
            length += len(part)
            if length > _MOST_READ:
                break
        text = "".join(parts)
    except (RuntimeError, MemoryError):
        # Another thread changes it at this moment, or it is nested too deep.
        return f"{name_of(type(value))}(…)"
    if len(text) <= most:
        return text
    end = text[-most // 3 :] if length <= _MOST_READ else ""
    return f"{text[: most - len(end)]}…{end}{_size_in_words(value)}"


def size_of(value: Any) -> int:
    """Return the number of characters, bytes or items of a built-in value; 0 for all others."""
    base = _base_of(type(value))
    return int(base.__len__(value)) if base is not None else 0  # type: ignore[attr-defined]


def weight_of(value: Any, depth: int = _DEEPEST) -> int:
    """Return about how many characters, bytes and items a value has: those of an event's fields,
    and of the items of a short container, count as well.
    """
    size = size_of(value)
    base = _base_of(type(value))
    inner: Iterable[Any] = ()
    if depth and _is_among(type(value), _EVENTS):
        inner = attributes_of(value).values()
    elif depth and base in _BRACKETS and size <= _MOST_WEIGHED:
        items = [*_items(value, base, size)]
        inner = [part for pair in items for part in pair] if base is dict else items
    return size + sum(weight_of(part, depth - 1) for part in inner)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes that an object stores; {} for an object without any."""
    kind = type(value)
    if _is_among(kind, _EVENTS):
        return {name: getattr(value, name, None) for name in EVENTS[kind]}
    attributes: dict[str, Any] = {}
    for cls in reversed(type.mro(kind)):
        for name, slot in islice(type.__getattribute__(cls, "__dict__").items(), 200):
            if type(slot) is types.MemberDescriptorType and _module_of(cls) != "builtins":
                try:
                    attributes[name] = slot.__get__(value, kind)
                except AttributeError:
                    continue
    try:
        stored = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return attributes
    if type(stored) is dict:
        attributes |= {key: stored[key] for key in [*stored][:_MOST_ITEMS] if type(key) is str}
    return attributes


def name_of(kind: type) -> str:
    """Return the name of a class, whatever its metaclass answers."""
    return str(type.__dict__["__name__"].__get__(kind))[:60]


def text_of_error(error: BaseException) -> str:
    """Return an exception as `Kind: text`, without running its own `__str__`."""
    args = BaseException.args.__get__(error)  # type: ignore[attr-defined]
    name = name_of(type(error))
    is_pure = {str, bytes, int, type(None)}.issuperset(map(type, args))
    if is_pure and getattr(builtins, name, None) is type(error):
        text = str(error)
    elif len(args) == 1 and type(args[0]) is str:
        text = args[0]
    else:
        text = _joined_texts(args)
    return f"{name}: {text[:MOST_CHARACTERS]}" if text else name


def _is_among(kind: type, identities: Set[int]) -> bool:
    """Return whether a class is among others; `in` would ask its metaclass."""
    return id(kind) in identities


def _module_of(kind: type) -> str:
    module = type.__getattribute__(kind, "__module__")
    return module if type(module) is str else ""


def _joined_texts(values: Iterable[Any]) -> str:
    return ", ".join(map(text_of_value, islice(values, 4)))


def _base_of(kind: type) -> type | None:
    """Return the built-in type with a size that a class is, or is derived from."""
    if id(kind) in _SIZED_BY_ID:
        return _SIZED_BY_ID[id(kind)]
    bases = {*map(id, type.mro(kind))}
    return next((base for base in _SIZED if id(base) in bases), None)


def _size_in_words(value: Any) -> str:
    base = _base_of(type(value))
    if base is None:
        return ""
    size = size_of(value)
    return f" ({size:,} {_SIZED[base]}{'s' * (size != 1)})"


def _parts(value: Any, most: int, path: tuple[int, ...]) -> Iterator[str]:
    kind = type(value)
    if kind is int and value.bit_length() > MOST_BITS:
        yield written(value)
    elif _is_among(kind, _PLAIN):
        yield repr(value)
    elif name := _name_of_member(value):
        yield f"{name_of(kind)}.{name[:60]}"
    elif (base := _base_of(kind)) is not None:
        name = "" if kind is base and base not in (deque, bytearray) else name_of(kind)
        yield from [name, "("] if name else []
        if base in (str, bytes, bytearray):
            yield _text_of_characters(value, base, most)
        elif id(value) in path or len(path) >= _DEEPEST:
            yield "…"
        else:
            yield from _container(value, base, most, (*path, id(value)))
        yield ")" if name else ""
    elif _is_among(type, {*map(id, type.mro(kind))}):
        yield f"<class {name_of(value)}>"
    elif _is_among(kind, _FUNCTIONS):
        yield f"<{name_of(kind)} {getattr(value, '__name__', '')}>"
    else:
        yield from _object(value, most, path)


def _name_of_member(value: Any) -> str:
    """Return the name of a member of an enumeration; "" for other values."""
    if not _is_among(enum.EnumMeta, {*map(id, type.mro(type(type(value))))}):
        return ""
    name = attributes_of(value).get("_name_")
    return name if type(name) is str else ""


def _container(value: Any, base: type, most: int, path: tuple[int, ...]) -> Iterator[str]:
    size = size_of(value)
    items = _items(value, base, size)
    start, end = _BRACKETS[base]
    if not size and base in (set, frozenset):
        yield "set()"
        return
    yield start
    for number, item in enumerate(items):
        yield ", " if number else ""
        if number == _MOST_ITEMS // 2 and size > _MOST_ITEMS and base not in (set, frozenset):
            yield f"… {size - _MOST_ITEMS:,} more, "
        if base is dict:
            yield from _parts(item[0], most, path)
            yield ": "
            yield from _parts(item[1], most, path)
        else:
            yield from _parts(item, most, path)
    if size > _MOST_ITEMS and base in (set, frozenset):
        yield f", … {size - _MOST_ITEMS:,} more"
    yield "," if size == 1 and base is tuple else ""
    yield end


def _items(value: Any, base: type, size: int) -> Iterable[Any]:
    """Return the items of a container, or its first and its last items."""
    items: Iterable[Any] = (
        dict.items(value) if base is dict else base.__iter__(value)  # type: ignore[attr-defined]
    )
    if size <= _MOST_ITEMS or base in (set, frozenset):
        return islice(items, _MOST_ITEMS)
    half = _MOST_ITEMS // 2
    last: Iterable[Any]
    if base in (list, tuple):
        last = base.__getitem__(value, slice(-half, None))
    else:
        backwards = reversed(dict.items(value)) if base is dict else deque.__reversed__(value)
        last = reversed([*islice(backwards, half)])
    return chain(islice(items, half), last)


def _text_of_characters(value: Any, base: Any, most: int) -> str:
    """Return a text or bytes as `repr` does; of a long value, its start and its end."""
    if size_of(value) <= most:
        return repr(bytes(value) if base is bytearray else base.__getitem__(value, slice(None)))
    start, end = base.__getitem__(value, slice(most)), base.__getitem__(value, slice(-most, None))
    if base is bytearray:
        start, end = bytes(start), bytes(end)
    ending, name = repr(end), "b" if base is not str else ""
    return repr(start)[: most + 1] + ending[len(name) + 1 :]


def _object(value: Any, most: int, path: tuple[int, ...]) -> Iterator[str]:
    yield f"{name_of(type(value))}("
    is_of_library = _module_of(type(value)).partition(".")[0] in sys.stdlib_module_names
    if id(value) in path or len(path) >= _DEEPEST or is_of_library:
        yield "…"
    else:
        for number, (name, attribute) in enumerate(attributes_of(value).items()):
            yield f"{', ' if number else ''}{name[:40]}="
            yield from _parts(attribute, most, (*path, id(value)))
    yield ")"
