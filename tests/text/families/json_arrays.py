"""Calls as an array of JSON objects: Jamba and others."""

import re

from references import S, blocks, call_array, expect
from renderers import Style, array_in_prose


def array(openers, closer="", **members):
    """A reader of arrays behind openers; the closer may be missing."""

    def read(text, place, expected):
        end = call_array(text, expect(rf"{S}\[", text, place).end(), expected, **members)
        closed = re.compile(S + re.escape(closer)).match(text, end)
        return closed.end() if closer and closed else end

    return lambda text, types: blocks(text, openers, read)


_JAMBA = ("<tool_calls>", "</tool_calls>")


STYLES = {
    "jamba": Style(
        "jamba",
        array(_JAMBA[:1], _JAMBA[1]),
        array_in_prose(_JAMBA[:1], _JAMBA[1]),
        _JAMBA,
        _JAMBA[:1],
        sample='Ok. <tool_calls>[\n  {"name": "f", "arguments": {"a": "</tool_calls>]"}},\n'
        '  {"name": "g", "arguments": {}}\n]</tool_calls> [1]',
        punctuation=r"[,\[\]]",
    ),
}
