"""Calls whose name stands in a header: Kimi, DeepSeek, PLaMo."""

import re

from references import LINE, S, sections
from renderers import Style, calls_in_prose, json_value, space


def _kimi_call(call, number, layout):
    arguments = json_value(call.arguments, layout)
    id = f"functions.{call.name}:{number + layout.randint(0, 12)}"
    return (
        f"<|tool_call_begin|>{space(layout, 1)}{id}{space(layout, 1)}<|tool_call_argument_begin|>"
        f"{space(layout, 1)}{arguments}{space(layout, 1)}<|tool_call_end|>",
        arguments,
        id,
    )


def _deepseek_call(call, number, layout):
    arguments = json_value(call.arguments, layout)
    head = f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>"
    return f"{head}{arguments}{space(layout, 1)}<｜tool▁call▁end｜>", arguments, None


def _deepseek_v3_call(call, number, layout):
    arguments = json_value(call.arguments, layout)
    fence = layout.choice([("```json\n", "\n```"), ("```json\n", "\n```"), ("", "")])
    head = f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n{fence[0]}"
    return f"{head}{arguments}{fence[1]}<｜tool▁call▁end｜>{space(layout, 1)}", arguments, None


def _plamo_call(call, number, layout):
    arguments = json_value(call.arguments, layout)
    gaps = [space(layout, 1) for _ in range(6)]
    head = f"{_PLAMO[1]}{gaps[0]}{_PLAMO[2]}{call.name}{_PLAMO[3]}{gaps[1]}{_PLAMO[4]}{gaps[2]}"
    return f"{head}{arguments}{gaps[3]}{_PLAMO[5]}{gaps[4]}{_PLAMO[6]}", arguments, None


_KIMI = (
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
    "<|tool_call_end|>", "<|tool_calls_section_end|>",
)  # fmt: skip

_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
)  # fmt: skip


_DEEPSEEK_V3 = (*_DEEPSEEK, "```json", "```")

_PLAMO = (
    "<|plamo:begin_tool_requests:plamo|>", "<|plamo:begin_tool_request:plamo|>",
    "<|plamo:begin_tool_name:plamo|>", "<|plamo:end_tool_name:plamo|>",
    "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>",
    "<|plamo:end_tool_arguments:plamo|>", "<|plamo:end_tool_request:plamo|>",
    "<|plamo:end_tool_requests:plamo|>",
)  # fmt: skip


def read_kimi_k2(text, types):
    head = (
        r"\s*(?P<id>functions\.(?P<name>[^\s<>](?:[^<>\n]{0,180}?[^\s<>])?):\d+)\s*"
        r"<\|tool_call_argument_begin\|>"
    )
    return sections(text, _KIMI[0], _KIMI[-1], (_KIMI[1], head, _KIMI[3]))


def read_deepseek_v31(text, types):
    head = rf"\s*(?P<name>{LINE[1:-1]})\s*<｜tool▁sep｜>"
    return sections(text, _DEEPSEEK[0], _DEEPSEEK[-1], (_DEEPSEEK[1], head, _DEEPSEEK[3]))


def read_deepseek_v3(text, types):
    head = rf"\s*(?:function)?\s*<｜tool▁sep｜>(?P<name>{LINE[1:-1]})[^\S\n]*"
    head += rf"(?:\n(?:{S}```json)?|```json)"
    call = _DEEPSEEK[1], head, _DEEPSEEK[3]
    return sections(text, _DEEPSEEK[0], _DEEPSEEK[-1], call, behind="```")


def read_plamo3(text, types):
    name, name_end, arguments = map(re.escape, _PLAMO[2:5])
    head = rf"{S}{name}\s*(?P<name>{LINE[1:-1]})\s*{name_end}{S}{arguments}"
    return sections(text, _PLAMO[0], _PLAMO[-1], (_PLAMO[1], head, _PLAMO[6]), behind=_PLAMO[5])


STYLES = {
    "deepseek_v3": Style(
        "deepseek_v3",
        read_deepseek_v3,
        calls_in_prose(_deepseek_v3_call, _DEEPSEEK[0], _DEEPSEEK[-1]),
        _DEEPSEEK_V3,
        _DEEPSEEK[:1],
        sample="Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
        '{"code": "```"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n'
        "```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        sections=True,
    ),
    "plamo3": Style(
        "plamo3",
        read_plamo3,
        calls_in_prose(_plamo_call, _PLAMO[0], _PLAMO[-1]),
        _PLAMO,
        _PLAMO[:1],
        sample='Ok.{0}{1}{2}f{3}{4}{{"a": "{5}"}}{5}{6}\n{1}{2}g{3}{4}{{}}{5}{6}{7}'.format(
            *_PLAMO
        ),
        sections=True,
    ),
    "kimi_k2": Style(
        "kimi_k2",
        read_kimi_k2,
        calls_in_prose(_kimi_call, _KIMI[0], _KIMI[-1]),
        _KIMI,
        _KIMI[:1],
        sample="Ok <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
        '<|tool_call_argument_begin|>{"a": "<|tool_call_end|>"}<|tool_call_end|>'
        "<|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|>",
        sections=True,
    ),
    "deepseek_v31": Style(
        "deepseek_v31",
        read_deepseek_v31,
        calls_in_prose(_deepseek_call, _DEEPSEEK[0], _DEEPSEEK[-1]),
        _DEEPSEEK,
        _DEEPSEEK[:1],
        sample="Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>"
        '{"code": 123}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜>'
        "<｜tool▁calls▁end｜>",
        sections=True,
    ),
}
