"""Calls that are one JSON object each: Hermes and formats like it, Mistral, Llama."""

import re
from functools import partial

from references import (
    NAME,
    Invalid,
    S,
    blocks,
    call_array,
    call_end,
    call_object,
    expect,
    object_at,
    skip,
)
from renderers import (
    Expected,
    Style,
    array_in_prose,
    at_start_or_tagged,
    calls_in_prose,
    json_object,
    json_value,
    space,
)

from mini_vllm.text.events import TextDelta


def tagged_object(opener, closer="", mark="", **members):
    """A renderer of objects between tags, with a second mark behind the opening tag."""

    def write(call, number, layout):
        others = [("note", f'["}}", "{closer}", {{"arguments": 1}}]')]
        others = others if layout.random() < 0.2 else []
        id = layout.choice([None, None, "call_1"])
        body, arguments, id = json_object(call, layout, id=id, others=others, **members)
        end = space(layout) + closer if closer else ""
        begin = f"{opener}{space(layout)}{mark}{space(layout)}"
        return f"{begin}{body}{end}", arguments, id

    return calls_in_prose(write)


def _mistral_call(call, number, layout, *, with_ids=False):
    arguments, id = json_value(call.arguments, layout), None
    text = f"[TOOL_CALLS]{space(layout, 1)}{call.name}{space(layout, 1)}"
    if with_ids:
        id = "".join(layout.choice("aB3") for _ in range(9))
        text += f"[CALL_ID]{id}"
    if with_ids or layout.random() < 0.7:
        text += "[ARGS]" + space(layout, 1)
    return text + arguments, arguments, id


def _llama_calls(calls, tagged, expected, layout):
    text = ""
    for number, call in enumerate(calls):
        others = [("type", '"function"')] if layout.random() < 0.3 else []
        keys = ("parameters", "parameters", "arguments")
        body, arguments, _ = json_object(call, layout, keys, others=others)
        text += f"{space(layout, 1)};{space(layout, 1)}" if number else ""
        text += body
        expected.call(call.name, arguments)
    return text


_HERMES = ("<tool_call>", "</tool_call>")
_LONGCAT = ("<longcat_tool_call>", "</longcat_tool_call>")
_RESPONSE = ("<response>", "</response>")
_INTERNLM = ("<|action_start|>", "<|plugin|>", "<|action_end|>")
_EITHER = {"keys": ("parameters", "arguments")}
_GRANITE_20B = ("<function_call>",)
_GIGACHAT = ("<|function_call|>", "function call<|role_sep|>", "<|message_sep|>")
_MISTRAL = ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")


def between_tags(opener, closer="", mark="", **members):
    """A reader of objects between tags."""

    def read(text, place, expected):
        place = expect(S + re.escape(mark), text, place).end()
        name, arguments, id, place = call_object(text, place, **members)
        expected.call(name, arguments, id)
        return call_end(text, place, closer, opener) if closer else place

    return lambda text, types: blocks(text, opener, read)


def between_tags_framed(opener, closer, frame):
    """A reader that also takes a frame: its first tag where the text begins, its last one where
    prose ends, before a call or with the text.
    """
    read = between_tags(opener, closer)

    def read_framed(text, types):
        expected = Expected()
        for number, event in enumerate(read(text, types)):
            if not isinstance(event, TextDelta):
                expected.events.append(event)
                continue
            prose = re.sub(rf"{frame[1]}{S}\Z", "", event.text)
            expected.text(prose if number else re.sub(rf"\A{S}{frame[0]}", "", prose))
        return expected.events

    return read_framed


def framed_first(render, frame):
    """A renderer that also writes a frame around the prose before the first call."""

    def render_framed(calls, prose, layout):
        text, events = render(calls, prose, layout)
        if prose[0] and layout.random() < 0.5:
            text = prose[0].join(frame) + text[len(prose[0]) :]
        return text, events

    return render_framed


def write_gigachat3(call, number, layout):
    written, arguments, id = json_object(call, layout)
    opener = layout.choice(
        [_GIGACHAT[0], f"{_GIGACHAT[2]}{space(layout)}{_GIGACHAT[1]}", _GIGACHAT[1]]
    )
    return f"{opener}{space(layout)}{written}", arguments, id


def read_gigachat3(text, types):
    def read(text, place, expected):
        if text.endswith(_GIGACHAT[2], 0, place):
            return skip(text, place)
        name, arguments, id, place = call_object(text, place)
        expected.call(name, arguments, id)
        return place

    return blocks(text, _GIGACHAT, read)


def read_mistral(text, types):
    def read(text, place, expected):
        bracket = skip(text, place)
        if text[bracket : bracket + 1] != "[":
            header = expect(rf"\s*{NAME}\s*(?:\[CALL_ID\]\s*{NAME}\s*(?=\[ARGS\]))?", text, place)
            behind = re.compile(r"\[ARGS\][ \t\r\n]*|(?=\{)").match(text, header.end())
            if behind is None:
                raise Invalid
            arguments, end = object_at(text, behind.end())
            expected.call(header[1], arguments, header[2])
            return end
        return call_array(text, bracket + 1, expected)

    return blocks(text, "[TOOL_CALLS]", read)


def read_llama_json(text, types):
    def read(text, place, expected):
        while True:
            keys = ("parameters", "arguments")
            name, arguments, id, place = call_object(text, place, keys, ("name", "type", "id"))
            expected.call(name, arguments, id)
            more = re.compile(r"[ \t\r\n]*(?:;|,(?=\s*\{)|(?=\{))").match(text, place)
            if more is None:
                return place
            place = more.end()

    return blocks(text, "<|python_tag|>", read, bare="{")


STYLES = {
    "hermes": Style(
        "hermes",
        between_tags(*_HERMES),
        tagged_object(*_HERMES),
        _HERMES,
        _HERMES[:1],
        sample='Let me see.\n<tool_call>\n{"name": "f", "arguments": {"a": "}</tool_call>\\"", '
        '"b": [1, {"c": null}]}}\n</tool_call>\n<tool_call>{"arguments":{},'
        '"name":"g"}</tool_call> ok',
    ),
    "mistral-array": Style(
        "mistral",
        read_mistral,
        array_in_prose(_MISTRAL[:1]),
        _MISTRAL,
        _MISTRAL[:1],
        sample='Hm.[TOOL_CALLS] [{"name": "f", "arguments": {"a": "]}[TOOL_CALLS]"}, '
        '"id": "abc123XYZ"}, {"name": "g", "arguments": {}}] a[0]',
        punctuation=r"[,\[\]]",
        one_list=True,
        open_end=True,
    ),
    "mistral-ids": Style(
        "mistral",
        read_mistral,
        calls_in_prose(partial(_mistral_call, with_ids=True)),
        _MISTRAL,
        _MISTRAL[:1],
        sample='I.[TOOL_CALLS]f[CALL_ID]abc123XYZ[ARGS]{"a": "[ARGS]"}[TOOL_CALLS]g[CALL_ID]x1'
        "[ARGS]{}",
        punctuation=r"[,\[\]]",
        open_end=True,
    ),
    "mistral-args": Style(
        "mistral",
        read_mistral,
        calls_in_prose(_mistral_call),
        _MISTRAL,
        _MISTRAL[:1],
        sample='[TOOL_CALLS]f[ARGS]{"a": {"b": "}"}}[TOOL_CALLS]g{} done',
        punctuation=r"[,\[\]]",
        open_end=True,
    ),
    "llama_json": Style(
        "llama_json",
        read_llama_json,
        at_start_or_tagged("<|python_tag|>", _llama_calls, goes_on=";"),
        ("<|python_tag|>", ";"),
        ("<|python_tag|>",),
        opening="{",
        sample=' <|python_tag|>{"name": "f", "parameters": {"a": "; {"}}; '
        '{"type": "function", "name": "g", "parameters": {}}',
        punctuation=";",
        one_list=True,
        open_end=True,
    ),
    "longcat": Style(
        "longcat",
        between_tags(*_LONGCAT),
        tagged_object(*_LONGCAT),
        _LONGCAT,
        _LONGCAT[:1],
        sample='<longcat_tool_call>\n{"name": "f", "arguments": {"a": "<longcat_tool_call>"}}\n'
        '</longcat_tool_call>\n<longcat_tool_call>{"name": "g", "arguments": {}}',
    ),
    "ernie45": Style(
        "ernie45",
        between_tags_framed(*_HERMES, _RESPONSE),
        framed_first(tagged_object(*_HERMES), _RESPONSE),
        (*_HERMES, *_RESPONSE),
        (_HERMES[0], *_RESPONSE),
        sample='<response>\nSo.\n</response>\n<tool_call>\n{"name": "f", "arguments": '
        '{"a": "<response>"}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n'
        "</tool_call>\n",
        sections=True,
    ),
    "internlm": Style(
        "internlm",
        between_tags(_INTERNLM[0], _INTERNLM[2], mark=_INTERNLM[1], **_EITHER),
        tagged_object(_INTERNLM[0], _INTERNLM[2], mark=_INTERNLM[1], **_EITHER),
        _INTERNLM,
        _INTERNLM[:1],
        sample='Hm.<|action_start|><|plugin|>\n{"name": "f", "arguments": {"a": "<|action_end|>"}}'
        '<|action_end|><|action_start|> <|plugin|>{"parameters": {}, "name": "g"}<|action_end|>\n.',
    ),
    "granite_20b_fc": Style(
        "granite_20b_fc",
        between_tags(*_GRANITE_20B),
        tagged_object(*_GRANITE_20B),
        _GRANITE_20B,
        _GRANITE_20B,
        sample='I.\n<function_call> {"name": "f", "arguments": {"a": "<function_call>"}}\n'
        '<function_call> {"name": "g", "arguments": {}}}',
        open_end=True,
    ),
    "gigachat3": Style(
        "gigachat3",
        read_gigachat3,
        calls_in_prose(write_gigachat3),
        _GIGACHAT,
        _GIGACHAT,
        sample='Hm.<|message_sep|>\n\nfunction call<|role_sep|>\n{"name": "f", "arguments": '
        '{"a": "<|message_sep|>"}}<|function_call|>{"name": "g", "arguments": {}}<|message_sep|>\n',
        sections=True,
        open_end=True,
    ),
}
