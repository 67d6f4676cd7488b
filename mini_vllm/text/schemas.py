"""Which JSON types a request's tools allow for their parameters: how a parameter's text is read.

Arguments are not validated against the schemas.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_SURROGATE = re.compile("[\ud800-\udfff]")
# What models write for true, false and null when they think in Python.
PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def parameter_types(
    tools: Iterable[Mapping[str, Any]] | None,
) -> dict[str, dict[str, frozenset[str]]]:
    """Return for each function and parameter the types that its schema allows.

    Args:
        tools: as in a chat completion request: `{"type": "function", "function": {"name": ...,
            "parameters": {...}}}`. Parameters whose schema names no type are left out.

    Raises:
        ValueError: a tool or schema is invalid; the message names the field.
    """
    types: dict[str, dict[str, frozenset[str]]] = {}
    for number, tool in enumerate(tools or ()):
        at = f"tools[{number}].function"
        function = _mapping(_mapping(tool, f"tools[{number}]").get("function"), at)
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"{at}.name is {name!r}; it must be a string that is not empty")
        schema = _mapping(function.get("parameters") or {}, f"{at}.parameters")
        properties = _mapping(schema.get("properties") or {}, f"{at}.parameters.properties")
        types[name] = {}
        for key, value in properties.items():
            allowed = _types(value, f"{at}.parameters.properties.{key}")
            if allowed:
                types[name][key] = allowed
    return types


def _types(schema: Any, at: str) -> frozenset[str]:
    if schema is True:
        return frozenset()
    schema = _mapping(schema, at)
    named = schema.get("type", [])
    found: set[str] = set()
    for name in [named] if isinstance(named, str) else _list(named, f"{at}.type"):
        if not isinstance(name, str) or name not in _TYPES:
            raise ValueError(f"{at}.type is {name!r:.60}; known types: {', '.join(_TYPES)}")
        found.add(name)
    for word in ("anyOf", "oneOf"):
        for number, option in enumerate(_list(schema.get(word, []), f"{at}.{word}")):
            found |= _types(option, f"{at}.{word}[{number}]")
    if not found:
        values = _list(schema.get("enum", []), f"{at}.enum")
        for value in [*values, schema["const"]] if "const" in schema else values:
            found |= {name for name, kind in _TYPES.items() if _is_a(value, name, kind)}
    return frozenset(found)


def _mapping(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{at} is {value!r:.60}; it must be an object")
    return value


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{at} is {value!r:.60}; it must be a list")
    return value


def typed(text: str, allowed: frozenset[str] | None) -> str:
    """Return the text of a parameter as JSON: of an allowed type if it fits one, else a string."""
    bare = text.strip()
    try:
        value = json.loads(PYTHON_WORDS.get(bare, bare), parse_constant=_refuse)
        canonical(value)
    except (ValueError, RecursionError):
        value = text
    if not any(_is_a(value, name, _TYPES[name]) for name in allowed or ()):
        value = text
    return canonical(value)


def canonical(value: Any) -> str:
    """Return a value as JSON, with characters as they are and lone surrogates escaped.

    Raises:
        ValueError, TypeError: JSON cannot express the value.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _is_a(value: Any, name: str, kind: type | tuple[type, ...]) -> bool:
    # In Python a bool is an int; in JSON it is not.
    return isinstance(value, kind) and (name == "boolean" or not isinstance(value, bool))


def _refuse(constant: str) -> None:
    raise ValueError(constant)
