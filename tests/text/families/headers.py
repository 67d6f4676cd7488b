"""Calls whose name stands in a header: Kimi, DeepSeek."""

from references import LINE, sections
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


_KIMI = (
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>",
    "<|tool_call_end|>", "<|tool_calls_section_end|>",
)  # fmt: skip

_DEEPSEEK = (
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
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


STYLES = {
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
    ),
}
