"""Which JSON types a request's tools allow for their parameters: how a parameter's text is read.

Arguments are not validated against the schemas.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
EVERY_TYPE = frozenset(_TYPES)
# What schemas made from databases and programs say, up to a bracket or a digit: `varchar(255)`,
# `int64`, `list[str]`. vLLM 0.33.0 and SGLang 0.5.23 take these names too.
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
# A schema without a type has the one to which such members belong.
_MEMBERS = {
    "properties": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
_BRANCHES = ("anyOf", "oneOf", "allOf")
_SURROGATE = re.compile("[\ud800-\udfff]")
# `json.dumps` with options makes an encoder for each call, which costs ten times a short string.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
# What models write for true, false and null when they think in Python.
PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


class Allowed(frozenset[str]):
    """The types that a schema allows, and what it says of the values inside one.

    Args:
        types: the types; without them, those of the schema.
        schema: the schema.
        root: the schema in which its references are.
    """

    def __new__(
        cls, types: Iterable[str] | None = None, schema: Any = None, root: Any = None
    ) -> "Allowed":
        """Find the types."""
        allowed = super().__new__(cls, _types(schema, root or {}) if types is None else types)
        allowed._schema, allowed._root = schema, root or {}
        return allowed

    _schema: Any
    _root: Any

    def member(self, name: str) -> "Allowed":
        """Return what an object's member may be."""
        for branch in _branches(self._schema, self._root):
            properties = branch.get("properties")
            if isinstance(properties, Mapping) and name in properties:
                return Allowed(None, properties[name], self._root)
        return self._first("additionalProperties")

    def item(self) -> "Allowed":
        """Return what an array's items may be."""
        return self._first("items")

    def _first(self, word: str) -> "Allowed":
        schemas = [branch[word] for branch in _branches(self._schema, self._root) if word in branch]
        return Allowed(None, schemas[0] if schemas else None, self._root)


def parameter_types(
    tools: Iterable[Mapping[str, Any]] | None,
) -> dict[str, dict[str, frozenset[str]]]:
    """Return for each function and parameter the types that its schema allows.

    A schema is read as far as it can be: `$ref` into the same schema, `anyOf`, `oneOf`, `allOf`,
    `nullable`, names of types that other languages have. What cannot be read allows anything.

    Args:
        tools: as in a chat completion request: `{"type": "function", "function": {"name": ...,
            "parameters": {...}}}`. Parameters whose schema names no type are left out.

    Raises:
        ValueError: a tool is invalid; the message names the field.
    """
    types: dict[str, dict[str, frozenset[str]]] = {}
    for number, tool in enumerate(tools or ()):
        at = f"tools[{number}].function"
        function = _mapping(_mapping(tool, f"tools[{number}]").get("function"), at)
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{at}.name is {name!r}; it must be a string that is not empty")
        root = _mapping(function.get("parameters") or {}, f"{at}.parameters")
        types[name] = {}
        for branch in _branches(root, root):
            properties = branch.get("properties")
            for key, schema in properties.items() if isinstance(properties, Mapping) else ():
                allowed = Allowed(None, schema, root)
                if allowed:
                    types[name].setdefault(key, allowed)
    return types


def _branches(schema: Any, root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a schema and all that it refers to or chooses from, each once, outermost first."""
    found: list[Mapping[str, Any]] = []
    waiting = deque([schema])
    seen: set[int] = set()
    while waiting:
        schema = waiting.popleft()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        found.append(schema)
        waiting.append(_target(schema.get("$ref"), root))
        for word in _BRANCHES:
            options = schema.get(word)
            waiting.extend(options if isinstance(options, list) else ())
    return found


def _target(reference: Any, root: Mapping[str, Any]) -> Any:
    """Return what a reference such as `#/$defs/city` means (RFC 6901), or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target: Any = root
    for word in unquote(reference[1:]).split("/")[1:]:
        word = word.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and word.isdecimal() and int(word) < len(target):
            target = target[int(word)]
        else:
            target = target.get(word) if isinstance(target, Mapping) else None
    return target


def _types(schema: Any, root: Mapping[str, Any]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for branch in _branches(schema, root):
        found |= _own_types(branch)
    return found


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a schema names itself."""
    named = schema.get("type")
    names = [name for name in (named if isinstance(named, list) else [named]) if name is not None]
    found = {"null"} if schema.get("nullable") else set()
    for name in names:
        kin = type_named(name) if isinstance(name, str) else None
        found |= EVERY_TYPE if kin is None else {kin}
    if names:
        return frozenset(found)
    values = schema.get("enum")
    values = [*values] if isinstance(values, list) else []
    for value in [*values, schema["const"]] if "const" in schema else values:
        found |= {name for name, kind in _TYPES.items() if _is_a(value, name, kind)}
    return frozenset(found | {name for member, name in _MEMBERS.items() if member in schema})


def type_named(name: str) -> str | None:
    """Return the JSON type that a name means, such as `integer` for `int64`, or None."""
    word = _WORD.match(name.strip().lower())
    return _KIN.get(word[0]) if word else None


def _mapping(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{at} is {value!r:.60}; it must be an object")
    return value


def typed(text: str, allowed: frozenset[str]) -> str:
    """Return the text of a parameter as JSON: of an allowed type if it fits one, else a string.

    Nothing is an empty array or object. A string is what fits no other type, so `42` is an integer
    where both may be; there only JSON counts, and `None` and `True` are strings.
    """
    bare = text.strip()
    if "string" not in allowed:
        bare = PYTHON_WORDS.get(bare, bare)
    try:
        value = json.loads(bare, parse_constant=_refuse)
        canonical(value)
    except (ValueError, RecursionError):
        value = text
    if "string" not in allowed and not bare:
        value = [] if "array" in allowed else {} if "object" in allowed else text
    if not any(_is_a(value, name, _TYPES[name]) for name in allowed - {"string"}):
        value = text
    return canonical(value)


def canonical(value: Any) -> str:
    """Return a value as JSON, with characters as they are and lone surrogates escaped.

    Raises:
        ValueError, TypeError: JSON cannot express the value.
    """
    text = _ENCODER.encode(value)
    if _SURROGATE.search(text) is None:
        return text
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def escaped(text: str) -> str:
    """Return text as it stands inside a JSON string, without the quotes."""
    return canonical(text)[1:-1]


def _is_a(value: Any, name: str, kind: type | tuple[type, ...]) -> bool:
    # In Python a bool is an int; in JSON it is not.
    return isinstance(value, kind) and (name == "boolean" or not isinstance(value, bool))


def _refuse(constant: str) -> None:
    raise ValueError(constant)
