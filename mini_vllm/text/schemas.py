"""The JSON types that a request's tools allow for parameters, and a parameter's text as JSON.

Arguments are not validated against the schemas.
"""

import json
import marshal
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from mini_vllm.text.whole_json import check_json_depth

# The JSON types of Python's values.
_TYPES: dict[type, frozenset[str]] = {
    str: frozenset({"string"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    bool: frozenset({"boolean"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}
EVERY_TYPE = frozenset().union(*_TYPES.values())
_TEXT = _TYPES[str]
# Type names in schemas made from databases and programs, up to a bracket or a digit:
# `varchar(255)`, `int64`, `list[str]`. vLLM 0.33.0 and SGLang 0.5.23 also accept these names.
_KIN = {
    kin: name
    for name, words in {
        "string": "str text varchar char enum uuid date datetime time timestamp binary varbinary "
        "blob bytea bytes",
        "integer": "int uint long short unsigned bigint smallint tinyint",
        "number": "num float double decimal real numeric",
        "boolean": "bool",
        "array": "arr list tuple set sequence",
        "object": "dict map mapping",
        "null": "none nil",
    }.items()
    for kin in (name, *words.split())
}
_WORD = re.compile("[a-z]+")
# A schema without a type has the type to which one of these members belongs.
_MEMBERS = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
_BRANCHES = ("anyOf", "oneOf", "allOf")
# How many lists of tools are remembered, and how long such a list may be, in bytes.
_MOST_TOOLS = 64
_LONGEST_TOOLS = 1 << 15
_SURROGATE = re.compile("[\ud800-\udfff]")


def _refuse(constant: str) -> None:
    raise ValueError(constant)


# `json.dumps` with options makes an encoder for each call, which costs ten times as much as a short
# string; `json.loads` makes a decoder.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_refuse)
# The words for true, false and null of models that write Python.
PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


class Allowed(frozenset[str]):
    """The types that a schema allows, and those that it allows for members and items.

    Args:
        types: the types; without them, the types of the schema.
        schema: the schema.
        root: the whole schema, in which references are resolved.
        known: the allowed types of other schemas in `root`, by identity.
    """

    def __new__(
        cls,
        types: Iterable[str] | None = None,
        schema: Any = None,
        root: Any = None,
        known: "dict[int, Allowed] | None" = None,
    ) -> "Allowed":
        """Find the types."""
        branches = schema_branches(schema, root or {})
        names = frozenset().union(*map(_own_types, branches)) if types is None else types
        allowed = super().__new__(cls, names)
        allowed._branches, allowed._root = branches, root or {}
        allowed._known = {} if known is None else known
        return allowed

    _branches: list[Mapping[str, Any]]
    _root: Any
    _known: "dict[int, Allowed]"

    def member(self, name: str) -> "Allowed":
        """Return the types that are allowed for an object's member."""
        for branch in self._branches:
            properties = branch.get("properties")
            if isinstance(properties, Mapping) and name in properties:
                return self._inside(properties[name])
        return self._first("additionalProperties")

    def item(self) -> "Allowed":
        """Return the types that are allowed for an array's items."""
        return self._first("items")

    def _first(self, word: str) -> "Allowed":
        schemas = [branch[word] for branch in self._branches if word in branch]
        return self._inside(schemas[0] if schemas else None)

    def _inside(self, schema: Any) -> "Allowed":
        allowed = self._known.get(id(schema))
        if allowed is None:
            allowed = self._known[id(schema)] = Allowed(None, schema, self._root, self._known)
        return allowed


def parameter_types(
    tools: Iterable[Mapping[str, Any]] | None,
) -> dict[str, dict[str, frozenset[str]]]:
    """Return for each function and parameter the types that its schema allows.

    All requests with the same tools share the result; do not change it.

    A schema is read as far as possible: `$ref` into the same schema, `anyOf`, `oneOf`, `allOf`,
    `nullable`, and the type names of other languages. A part that cannot be read allows any type.

    Args:
        tools: as in a chat completion request: `{"type": "function", "function": {"name": ...,
            "parameters": {...}}}`. Parameters whose schema names no type are left out.

    Raises:
        ValueError: a tool is invalid; the message names the field.
    """
    tools = [*(tools or ())]
    try:
        # Clients send the same tools with each request. Unlike JSON, this distinguishes all values.
        wire = marshal.dumps(tools, 0)
    except ValueError:
        return _read(tools)
    return _known(wire) if len(wire) <= _LONGEST_TOOLS else _read(tools)


@lru_cache(_MOST_TOOLS)
def _known(wire: bytes) -> dict[str, dict[str, frozenset[str]]]:
    return _read(marshal.loads(wire))


def _read(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, frozenset[str]]]:
    types: dict[str, dict[str, frozenset[str]]] = {}
    for number, tool in enumerate(tools):
        at = f"tools[{number}].function"
        function = _mapping(_mapping(tool, f"tools[{number}]").get("function"), at)
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{at}.name is {name!r:.60}; it must be a string that is not empty")
        root = _mapping(function.get("parameters") or {}, f"{at}.parameters")
        types[name] = {}
        for branch in schema_branches(root, root):
            properties = branch.get("properties")
            for key, schema in properties.items() if isinstance(properties, Mapping) else ():
                allowed = Allowed(None, schema, root)
                if allowed:
                    types[name].setdefault(key, allowed)
    return types


def schema_branches(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a schema and the schemas that it refers to or offers, outermost first, each once."""
    branches: list[Mapping[str, Any]] = []
    waiting = deque([schema])
    seen: set[int] = set()
    while waiting:
        schema = waiting.popleft()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        branches.append(schema)
        waiting.append(_target(schema.get("$ref"), root))
        for word in _BRANCHES:
            options = schema.get(word)
            waiting.extend(options if isinstance(options, list) else ())
    return branches


def _target(reference: Any, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference such as `#/$defs/city` (RFC 6901), or None."""
    if not isinstance(reference, str) or not f"{reference}/".startswith("#/"):
        return None
    target: Any = root
    for word in unquote(reference[1:]).split("/")[1:]:
        word = word.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and word.isdecimal() and int(word) < len(target):
            target = target[int(word)]
        else:
            target = target.get(word) if isinstance(target, Mapping) else None
    return target


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a schema names itself."""
    named = schema.get("type")
    names = [name for name in (named if isinstance(named, list) else [named]) if name is not None]
    types = {"null"} if schema.get("nullable") else set()
    for name in names:
        kin = type_named(name) if isinstance(name, str) else None
        types |= EVERY_TYPE if kin is None else {kin}
    if names:
        return frozenset(types)
    values = schema.get("enum")
    values = [*values] if isinstance(values, list) else []
    for value in [*values, schema["const"]] if "const" in schema else values:
        kind = next((kind for kind in type(value).__mro__ if kind in _TYPES), None)
        types |= _TYPES[kind] if kind else frozenset()
    return frozenset(types | {name for member, name in _MEMBERS.items() if member in schema})


def type_named(name: str) -> str | None:
    """Return the JSON type that a name means, such as `integer` for `int64`, or None."""
    word = _WORD.match(name.strip().lower())
    return _KIN.get(word[0]) if word else None


def _mapping(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{at} is {value!r:.60}; it must be an object")
    return value


def typed(text: str, allowed: frozenset[str]) -> str:
    """Return the text of a parameter as JSON, of an allowed type if the text fits one.

    - Text that fits no other type is a string.
    - If both a string and an integer are allowed, `42` is an integer.
    - If no string is allowed, `5.0` and `1e3` are integers, as JSON Schema has it.
    - If a string is allowed, only JSON has other types: `None` and `True` are strings.
    - If no string is allowed, empty text is an empty array or object, and null is null.
    """
    return canonical(typed_value(text, allowed))


def typed_value(text: str, allowed: frozenset[str]) -> Any:
    """Return the value whose JSON `typed` returns."""
    if allowed == _TEXT:
        return text
    bare = text.strip()
    if "string" not in allowed:
        bare = PYTHON_WORDS.get(bare, bare)
        if not bare:
            return [] if "array" in allowed else {} if "object" in allowed else text
    try:
        check_json_depth(bare)
        value = _DECODER.decode(bare)
        # `1e999` is infinity, which JSON does not have.
        _ENCODER.encode(value)
    except ValueError:
        return text
    if value is None and allowed and "string" not in allowed:
        # Models write null for a parameter that they leave out, even if the schema forbids it.
        return None
    types = _TYPES[type(value)]
    if isinstance(value, float) and value.is_integer() and "string" not in allowed:
        types = _TYPES[int]
    is_text = isinstance(value, str) or types.isdisjoint(allowed)
    return text if is_text else value


def canonical(value: Any) -> str:
    """Return a value as JSON, with non-ASCII characters unchanged and lone surrogates escaped.

    Raises:
        ValueError, TypeError: JSON cannot express the value.
    """
    text = _ENCODER.encode(value)
    if _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escaped(text: str) -> str:
    """Return text as it is written inside a JSON string, without the quotes."""
    return canonical(text)[1:-1]
