"""Calls as an array of JSON objects: Jamba, Phi, Granite, Cohere, xLAM, Apertus."""

import re

from references import NAME, Invalid, S, blocks, call_array, expect, object_at, skip
from renderers import (
    Expected,
    Style,
    array_in_prose,
    framed_prose,
    json_array,
    json_value,
    space,
)


def array(openers, closer="", bracket=rf"{S}\[", dropped=(), **members):
    """A reader of arrays behind openers; the closer may be missing.

    Args:
        openers: what stands before an array.
        closer: what stands behind it.
        bracket: what stands between an opener and the first object.
        dropped: markers that stand for nothing.
        members: what `call_object` should know of the members.
    """

    def read(text, place, expected):
        if text.endswith(dropped, 0, place):
            return place
        end = call_array(text, expect(bracket, text, place).end(), expected, **members)
        closed = re.compile(S + re.escape(closer)).match(text, end)
        return closed.end() if closer and closed else end

    return lambda text, types: blocks(text, (*openers, *dropped), read)


_ARRAY = r"[,\[\]]"
_JAMBA = ("<tool_calls>", "</tool_calls>")
_PHI = ("functools[",)
_GRANITE = ("<|tool_call|>", "<tool_call>")
_COHERE = ("<|START_ACTION|>", "<|END_ACTION|>")
_COHERE_TEXT = (
    "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>",
)  # fmt: skip
_COHERE_KEYS = {"names": ("tool_name", "tool_call_id"), "keys": ("parameters",)}
_XLAM = ("[TOOL_CALLS]", "<tool_call>", "```", "</tool_call>")
_APERTUS = ("<|tools_prefix|>", "<|tools_suffix|>")
_ANY_KEY = {"keys": ("arguments", "parameters")}


def xlam(calls, prose, layout):
    """A bare array as the whole text, or what is no array."""
    expected = Expected()
    if calls:
        return space(layout, 1) + json_array(calls, expected, layout), expected.events
    expected.text(prose[0])
    return prose[0], expected.events


def read_xlam(text, types):
    def read(text, place, expected):
        fenced = not text.endswith("[TOOL_CALLS]", 0, place)
        bracket = rf"{S}(?:json{S})*\[" if fenced else rf"{S}\["
        end = call_array(text, expect(bracket, text, place).end(), expected)
        closed = re.compile(rf"{S}(?:```|</tool_call>)").match(text, end)
        return closed.end() if fenced and closed else end

    if not text[skip(text, 0) :].startswith("["):
        return blocks(text, _XLAM[:3], read)
    expected = Expected()
    end = call_array(text, skip(text, 0) + 1, expected, others=("type",))
    if any(opener in text[end:] for opener in _XLAM[:3]):
        raise Invalid
    expected.text(text[end:])
    return expected.events


def apertus(calls, prose, layout):
    """An array of objects whose only key is the name."""
    expected, text = Expected(), prose[0]
    expected.text(text)
    objects = []
    for call in calls:
        arguments = json_value(call.arguments, layout)
        gaps = [space(layout, 1) for _ in range(6)]
        key = f'{{{gaps[0]}"{call.name}"{gaps[1]}:'
        objects.append(f"{gaps[2]}{key}{gaps[3]}{arguments}{gaps[4]}}}{gaps[5]}")
        expected.call(call.name, arguments)
    if calls:
        text += f"{_APERTUS[0]}{space(layout, 1)}[{','.join(objects)}]{space(layout, 1)}"
        text += _APERTUS[1] + prose[-1]
        expected.text(prose[-1])
    return text, expected.events


def read_apertus(text, types):
    def read(text, place, expected):
        place = expect(rf"{S}\[", text, place).end()
        while True:
            name = expect(rf'{S}{{{S}"\s*{NAME}\s*"{S}:', text, place)
            arguments, end = object_at(text, name.end())
            expected.call(name[1], arguments)
            place = expect(rf"{S}}}{S}[,\]]", text, end).end()
            if text[place - 1] == "]":
                closed = re.compile(S + re.escape(_APERTUS[1])).match(text, place)
                return closed.end() if closed else place

    return blocks(text, _APERTUS[0], read)


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
        one_list=True,
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
        one_list=True,
        open_end=True,
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
        one_list=True,
        open_end=True,
    ),
    "cohere_command3": Style(
        "cohere_command3",
        array(_COHERE[:1], _COHERE[1], dropped=_COHERE_TEXT, **_COHERE_KEYS),
        framed_prose(array_in_prose(_COHERE[:1], _COHERE[1], **_COHERE_KEYS), _COHERE_TEXT),
        (*_COHERE, *_COHERE_TEXT),
        (*_COHERE[:1], *_COHERE_TEXT),
        punctuation=_ARRAY,
        sample="<|START_RESPONSE|>So.<|END_RESPONSE|><|START_ACTION|>[\n"
        '    {"tool_call_id": "0", "tool_name": "f", "parameters": {"name": "<|END_ACTION|>"}},\n'
        '    {"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
        sections=True,
        one_list=True,
    ),
    "xlam": Style(
        "xlam",
        read_xlam,
        xlam,
        _XLAM,
        _XLAM[:3],
        opening="[",
        punctuation=_ARRAY,
        sample=' [{"name": "f", "arguments": {"a": "```"}},\n{"name": "g", "arguments": {}}] a.',
        one_list=True,
    ),
    "xlam-fenced": Style(
        "xlam",
        read_xlam,
        array_in_prose(["```json", "```"], "```"),
        _XLAM,
        _XLAM[:3],
        opening="[",
        punctuation=f"{_ARRAY}|json",
        sample='I.\n```json\n[{"name": "f", "arguments": {"a": "]```"}}, '
        '{"name": "g", "arguments": {}}]\n```\nDone. ``',
        one_list=True,
    ),
    "xlam-tagged": Style(
        "xlam",
        read_xlam,
        array_in_prose(["<tool_call>"], "</tool_call>"),
        _XLAM,
        _XLAM[:3],
        opening="[",
        punctuation=_ARRAY,
        sample='I.<tool_call>[{"name": "f", "arguments": {"a": "[TOOL_CALLS]"}}]</tool_call> '
        '[TOOL_CALLS][{"name": "g", "arguments": {}}]\n',
        one_list=True,
    ),
    "apertus": Style(
        "apertus",
        read_apertus,
        apertus,
        _APERTUS,
        _APERTUS[:1],
        punctuation=r'[,\[\]{}:"]',
        sample='I. <|tools_prefix|>[{"f": {"a": "<|tools_suffix|>"}}, {"g": {}}]<|tools_suffix|>',
        one_list=True,
    ),
}
