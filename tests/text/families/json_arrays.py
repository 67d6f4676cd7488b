"""Calls as an array of JSON objects: Jamba, Phi, Granite."""

import re

from references import S, blocks, call_array, expect
from renderers import Style, array_in_prose


def array(openers, closer="", bracket=rf"{S}\[", **members):
    """A reader of arrays behind openers; the closer may be missing."""

    def read(text, place, expected):
        end = call_array(text, expect(bracket, text, place).end(), expected, **members)
        closed = re.compile(S + re.escape(closer)).match(text, end)
        return closed.end() if closer and closed else end

    return lambda text, types: blocks(text, openers, read)


_ARRAY = r"[,\[\]]"
_JAMBA = ("<tool_calls>", "</tool_calls>")
_PHI = ("functools[",)
_GRANITE = ("<|tool_call|>", "<tool_call>")
_ANY_KEY = {"keys": ("arguments", "parameters")}


STYLES = {
    "jamba": Style(
        "jamba",
        array(_JAMBA[:1], _JAMBA[1]),
        array_in_prose(_JAMBA[:1], _JAMBA[1]),
        _JAMBA,
        _JAMBA[:1],
        punctuation=_ARRAY,
        sample='Ok. <tool_calls>[\n  {"name": "f", "arguments": {"a": "</tool_calls>]"}},\n'
        '  {"name": "g", "arguments": {}}\n]</tool_calls> [1]',
    ),
    "phi4_mini_json": Style(
        "phi4_mini_json",
        array(_PHI, bracket="", **_ANY_KEY),
        array_in_prose(_PHI, **_ANY_KEY),
        _PHI,
        _PHI,
        punctuation=_ARRAY,
        sample='So functools[{"name": "f", "arguments": {"a": "functools[]"}}, '
        '{"name": "g", "parameters": {}}] f]',
    ),
    "granite": Style(
        "granite",
        array(_GRANITE),
        array_in_prose(_GRANITE),
        _GRANITE,
        _GRANITE,
        punctuation=_ARRAY,
        sample='Hm <|tool_call|>[\n    {"arguments": {"a": "<tool_call>[{"}, "name": "f"}\n]'
        '<tool_call> [{"name": "g", "arguments": {}}] a[0]',
    ),
}
