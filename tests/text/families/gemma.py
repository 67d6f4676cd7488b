"""Calls of the Gemma family: objects with bare keys and marked strings."""

import json
import re

from references import NAME, Invalid, S, blocks, call_end, expect, skip, typed
from renderers import NAMES, PARAMETERS, Style, calls_in_prose, canonical, space

_LITERAL = re.compile(r"[A-Za-z][A-Za-z ]*[A-Za-z]|[A-Z]")


def bare_object(members, quote, layout, kinds=None):
    """An object as the family writes it; `kinds` has the types of its members' schemas.

    Returns:
        (the text, the value that a reader gets).
    """
    written, value = [], {}
    for key, item in members.items():
        text, value[key] = bare_value(item, quote, layout, (kinds or {}).get(key))
        bare = re.fullmatch(r"[^\s:,{}\[\]<]+", key) and layout.random() < 0.7
        name = key if bare else f"{quote}{key}{quote}"
        gaps = [space(layout, 1) for _ in range(4)]
        written.append(f"{gaps[0]}{name}{gaps[1]}:{gaps[2]}{text}{gaps[3]}")
    tail = "," if written and layout.random() < 0.1 else ""
    return f"{{{','.join(written)}{tail}}}", value


def bare_value(value, quote, layout, kind=None):
    if isinstance(value, dict):
        return bare_object(value, quote, layout)
    if isinstance(value, list):
        items = [bare_value(item, quote, layout) for item in value]
        inside = f",{space(layout, 1)}".join(text for text, _ in items)
        return f"[{space(layout, 1)}{inside}]", [item for _, item in items]
    foreign = quote == _FUNCTION[2] and set(kinds_of(kind)) - {"string"}
    if isinstance(value, str) and foreign:
        # In place of another type, a text that is not one by chance.
        return f"{quote}x{value}{quote}", "x" + value
    if isinstance(value, str):
        bare = _LITERAL.fullmatch(value) and value not in ("True", "False", "None")
        if bare and value not in ("true", "false", "null") and layout.random() < 0.5:
            return value, value
        return f"{quote}{value}{quote}", value
    text = json.dumps(value)
    if foreign and typed(text, kind) == value and layout.random() < 0.7:
        return f"{quote}{text}{quote}", value
    return text, bare_literal(text, kind)


def bare_literal(text, kind):
    """Read a literal: as a string, too, if its schema allows one."""
    value = typed(text, ["number", "boolean", "null"])
    return typed(text, kind) if value is not None and "string" in kinds_of(kind) else value


def kinds_of(kind):
    return [kind] if isinstance(kind, str) else kind or []


def calls_of(opener, closer, quote, prefixes=("call:",)):
    """A renderer of calls between markers."""

    def write(call, number, layout):
        kinds = PARAMETERS if call.name in NAMES else None
        text, value = bare_object(call.arguments, quote, layout, kinds)
        text = f"{layout.choice(prefixes)}{call.name}{text}{space(layout, 1)}"
        return f"{opener}{space(layout, 1)}{text}{closer}", canonical(value), None

    return calls_in_prose(write)


def read_object(text, place, quote, kinds=None):
    """Read an object from behind its brace; return (value, its end)."""
    members = {}
    while text[skip(text, place) :][:1] != "}":
        place = skip(text, place)
        if text.startswith(quote, place):
            key, end = string_at(text, place, quote)
            place = expect(rf"{S}:{S}", text, end).end()
        else:
            match = expect(rf"([^:,{{}}\[\]]{{1,256}}):{S}", text, place)
            key, place = match[1].strip(" \t\r\n"), match.end()
        if key in members:
            raise Invalid
        kind = (kinds or {}).get(key)
        quoted = text.startswith(quote, place)
        members[key], place = read_value(text, place, quote, kind)
        if quoted and quote == _FUNCTION[2]:
            members[key] = typed(members[key], kind)
        place = expect(rf"{S}(,|(?=}}))", text, place).end()
    return members, skip(text, place) + 1


def read_value(text, place, quote, kind=None):
    if text.startswith(quote, place):
        return string_at(text, place, quote)
    if text[place : place + 1] == "{":
        return read_object(text, place + 1, quote)
    if text[place : place + 1] == "[":
        items, place = [], skip(text, place + 1)
        while text[place : place + 1] != "]":
            item, place = read_value(text, place, quote)
            items.append(item)
            place = skip(text, expect(rf"{S}(,|(?=\]))", text, place).end())
        return items, place + 1
    bare = expect(r"[^,}\]:{\[][^,}\]]{0,255}(?=[,}\]])", text, place)
    return bare_literal(bare[0].strip(" \t\r\n"), kind), bare.end()


def string_at(text, place, quote):
    end = text.find(quote, place + len(quote))
    if end < 0:
        raise Invalid
    return text[place + len(quote) : end], end + len(quote)


def reader(opener, closer, quote, prefixes=("call:",)):
    def read_with(types):
        def read(text, place, expected):
            head = expect(rf"{S}(?:{'|'.join(prefixes)})\s*{NAME}\s*{{", text, place)
            value, end = read_object(text, head.end(), quote, types.get(head[1]))
            expected.call(head[1], canonical(value))
            return call_end(text, end, closer, opener)

        return read

    return lambda text, types: blocks(text, opener, read_with(types))


_GEMMA4 = ("<|tool_call>", "<tool_call|>", '<|"|>')
_FUNCTION = ("<start_function_call>", "<end_function_call>", "<escape>")

STYLES = {
    "gemma4": Style(
        "gemma4",
        reader(*_GEMMA4, ("call:", ":")),
        calls_of(*_GEMMA4, ("call:", "call:", ":")),
        _GEMMA4,
        _GEMMA4[:1],
        _GEMMA4[2:],
        punctuation=r"[\[\]{},:]|call",
        sample='I.<|tool_call>call:f{a:<|"|>}<tool_call|>"\\n<|"|>,n:-1.5,l:[true,{<|"|>k<|"|>:null}],'
        "o:{},s:Paris}<tool_call|><|tool_call>:g{}<tool_call|>",
    ),
    "functiongemma": Style(
        "functiongemma",
        reader(*_FUNCTION),
        calls_of(*_FUNCTION),
        _FUNCTION,
        _FUNCTION[:1],
        _FUNCTION[2:],
        punctuation=r"[\[\]{},:]|call",
        sample="I.<start_function_call>call:f{path:<escape>}<end_function_call>\n<escape>,"
        "count:<escape>42<escape>,ratio:1.5}<end_function_call>\n"
        "<start_function_call>call:g{}<end_function_call>",
    ),
}
