"""Calls with an element for each parameter: Qwen3-Coder, GLM, MiniMax."""

import re
from functools import partial

from references import LINE, NAME, S, blocks, element, section, tagged
from renderers import Expected, Style, calls_in_prose, space, tagged_call


def _qwen_parameter(key, text, layout):
    framed = text.startswith("\n") or text.endswith("\n") or layout.random() < 0.8
    text = f"\n{text}\n" if framed else text
    return f"{space(layout, 1)}<parameter={key}>{text}</parameter>{space(layout, 1)}"


_qwen_call = tagged_call(
    lambda call, layout: f"<tool_call>{space(layout, 1)}<function={call.name}>{space(layout, 1)}",
    _qwen_parameter,
    lambda layout: f"</function>{space(layout, 1)}</tool_call>",
)

_glm_call = tagged_call(
    lambda call, layout: f"<tool_call>{call.name}" + layout.choice(["\n", "\n", ""]),
    lambda key, text, layout: (
        f"<arg_key>{key}</arg_key>{space(layout, 1)}<arg_value>{text}</arg_value>{space(layout, 1)}"
    ),
    lambda layout: "</tool_call>",
)

_minimax_call = tagged_call(
    lambda call, layout: f'<invoke name="{call.name}">{space(layout, 1)}',
    lambda key, text, layout: f'<parameter name="{key}">{text}</parameter>{space(layout, 1)}',
    lambda layout: "</invoke>",
)

_QWEN = (
    "<tool_call>", "<function=", ">", "<parameter=", "</parameter>", "</function>", "</tool_call>",
)  # fmt: skip

_GLM = ("<tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")

_MINIMAX = (
    "<minimax:tool_call>", '<invoke name="', '">', '<parameter name="', "</parameter>", "</invoke>",
    "</minimax:tool_call>",
)  # fmt: skip


def read_qwen3_coder(text, types):
    inside = (
        rf"<parameter=\s*{LINE}\s*>(.*?)(?:</parameter>|(?=\n<parameter=|\n</function>)){S}",
        rf"</function>(?:{S}</tool_call>)?",
    )
    expected, place = Expected(), 0
    opener = re.compile(rf"(<tool_call>{S})?<function=")
    while start := opener.search(text, place):
        expected.text(text[place : start.start()])
        header = rf"\s*{LINE if start[1] else NAME}\s*>{S}"
        place = element(text, start.end(), expected, types, header, *inside, framed=True)
    expected.text(text[place:])
    return expected.events


read_glm45 = tagged(
    "<tool_call>",
    rf"[^\S\n]*{NAME}[^\S\n]*(?:\n|(?=<arg_key>|</tool_call>)){S}",
    rf"<arg_key>\s*{LINE}\s*</arg_key>{S}<arg_value>(.*?)</arg_value>{S}",
    r"</tool_call>|(?=<tool_call>)|\Z",
)


def read_minimax_m2(text, types):
    patterns = (
        rf'{S}<invoke name="\s*{LINE}\s*">{S}',
        rf'<parameter name="\s*{LINE}\s*">(.*?)</parameter>{S}',
        r"</invoke>|(?=<invoke name=\"|</minimax:tool_call>)|\Z",
    )

    def read(text, place, expected):
        return element(text, place, expected, types, *patterns)

    read = partial(section, closer="</minimax:tool_call>", read=read)
    return blocks(text, "<minimax:tool_call>", read)


STYLES = {
    "qwen3_coder": Style(
        "qwen3_coder",
        read_qwen3_coder,
        calls_in_prose(_qwen_call),
        _QWEN,
        _QWEN[:2],
        ("</parameter>", "\n<parameter=", "\n</function>"),
        sample="So:\n<tool_call>\n<function=f>\n<parameter=path>\n\n  a <b>\n</parameter>\n"
        "<parameter=count>\n42\n</parameter>\n<parameter=flag>true</parameter></function>\n</tool_call>"
        "\n<tool_call><function=g></function></tool_call>.",
    ),
    "glm45": Style(
        "glm45",
        read_glm45,
        calls_in_prose(_glm_call),
        _GLM,
        _GLM[:1],
        ("</arg_value>",),
        sample="A <tool_call>f\n<arg_key>path</arg_key>\n<arg_value> x\n</arg_value>\n"
        "<arg_key>count</arg_key><arg_value>3</arg_value></tool_call><tool_call>g</tool_call> z",
    ),
    "minimax_m2": Style(
        "minimax_m2",
        read_minimax_m2,
        calls_in_prose(_minimax_call, _MINIMAX[0], _MINIMAX[-1]),
        _MINIMAX,
        _MINIMAX[:1],
        ("</parameter>",),
        sample='<minimax:tool_call>\n<invoke name="f">\n<parameter name="path">a\n</parameter>\n'
        '<parameter name="items">[1, 2]</parameter>\n</invoke>\n<invoke name="g">\n</invoke>\n'
        "</minimax:tool_call> end",
    ),
}
