"""Formats that write a call as an `invoke` element with a `parameter` element for each argument.

They differ in their markers. The comment above a table is its grammar; attributes other than those
in it are ignored. The text of a parameter has the type that the schemas of the request's tools give
it, unless the markup names a type.
"""

from collections.abc import Mapping
from dataclasses import replace

from mini_vllm.text.states.basic import LINE, Broken, Gap, Header, Json, Prose
from mini_vllm.text.states.parameter import (
    ANY_JSON,
    TEXT,
    Value,
    read_name_attribute,
    read_offered_name,
    read_parameter,
    split_attributes,
)
from mini_vllm.text.stream_parser import Format, On, StreamParser


def _read_key(parser: StreamParser, header: str, marker: str) -> str | None:
    """Read the name of a parameter; of the other attributes only `string="true"` counts."""
    name, others = split_attributes(header)
    if read_parameter(parser, name, marker) is None:
        return None
    return "text" if ' string="true"' in others else ""


def _invokes(
    name: str,
    sections: tuple[str, ...],
    invoke: str = "invoke",
    parameter: str = "parameter",
    *,
    last: str = "",
    between: Mapping[str, On] | None = None,
    bare: bool = False,
    dsml: bool = False,
) -> Format:
    """Return a table of `<invoke name="n">` and `<parameter name="k">`, as MiniMax M2 has it.

    Args:
        name: the format's name.
        sections: the tag around all calls; then other spellings of its opening tag.
        invoke: the tag of a call.
        parameter: the tag of a parameter.
        last: the marker that ends the section, if it is not the section's closing tag.
        between: other markers that may be between calls, and before the first call.
        bare: a call without the section's tag is accepted if the request offers its function.
        dsml: the tags contain a token that occurs nowhere else. A call without the section's tag is
            accepted, a value also ends at the next tag, and a parameter may have `string="true"`,
            or `"false"` for JSON. A JSON object may replace all parameters.
    """
    first, last = f"<{sections[0]}>", last or f"</{sections[0]}>"
    opener, closer = f'<{invoke} name="', f"</{invoke}>"
    key, key_end = f'<{parameter} name="', f"</{parameter}>"
    names = {'">': On("body" if dsml else "parameters"), '"/>': On("section", "end")}
    forbidden = (first, opener, closer, last)
    alone = {opener: On("name" if dsml else "bare name", "open")} if dsml or bare else {}
    typed = {'" string="true">': On("text"), '" string="false">': On("value")} if dsml else {}
    ends = {key_end: On("parameters")}
    if dsml:
        ends |= {key: On("key"), closer: On("section", "end")}
    openers = {f"<{section}>": On("section", "open") for section in sections}
    # A marker that closes the frame of a call also ends the call.
    frame_ends = [mark for mark, on in (between or {}).items() if on.do == "close"]
    call_ends = {
        closer: On("section", "end"),
        **dict.fromkeys((opener, last, *frame_ends), On("section", "end", keep=True)),
    }
    parameters = {key: On("key"), **call_ends}
    return Format(
        name,
        {
            "content": Prose(openers | alone),
            "section": Gap({opener: On("name"), last: On("content", "close"), **(between or {})}),
            "name": Header(names, forbidden, read=read_name_attribute, allowed=LINE),
            "bare name": Header(names, forbidden, read=read_offered_name),
            "body": Gap({"{": On("object", keep=True), **parameters}, may_end=True),
            "object": Json(On("after object")),
            "after object": Gap(call_ends, may_end=True),
            "parameters": Gap(parameters, may_end=True),
            "key": Header(
                {**typed, '">': On("value")},
                forbidden=(key.split()[0], key_end, closer, last),
                read=_read_key,
                allowed=LINE,
            ),
            "text": Value(ends, types=TEXT),
            "value": Value(ends, types=ANY_JSON if dsml else None),
            "broken": Broken({closer: On("section"), last: On("content")}),
        },
        ends_reasoning=tuple(openers),
    )


# <minimax:tool_call> (<invoke name="n"> (<parameter name="k">v</parameter>)* </invoke>)*
# </minimax:tool_call>
# A call without a section is accepted, as in vLLM 0.33.0 parser/minimax_m2.py; SGLang 0.5.23
# demands the section. Reasoning: the same file of vLLM, where it ends at a section only.
MINIMAX_M2 = replace(
    _invokes("minimax_m2", ("minimax:tool_call",), bare=True), aliases=("minimax-m2",)
)

# The same with <dots_function_call>. Reasoning: vLLM 0.33.0 has no parser for it.
DOTS = replace(_invokes("dots", ("dots_function_call",)), ends_reasoning=())

# The same with <｜DSML｜function_calls>, <｜DSML｜invoke name="n"> and
# <｜DSML｜parameter name="k" string="true">. A JSON object may replace all parameters: SGLang
# 0.5.23 deepseekv32_detector.py; vLLM 0.33.0 turns it into {}.
# Drafts of calls stay reasoning: vLLM 0.33.0 and SGLang 0.5.23 end it at </think> alone.
DEEPSEEK_V32 = replace(
    _invokes(
        "deepseek_v32",
        ("｜DSML｜function_calls",),
        "｜DSML｜invoke",
        "｜DSML｜parameter",
        dsml=True,
    ),
    aliases=("deepseekv32",),
    ends_reasoning=(),
)

# The same with <｜DSML｜tool_calls>, which models also spell otherwise: vLLM 0.33.0
# parser/deepseek_v4.py, where reasoning also ends at this tag.
DEEPSEEK_V4 = replace(
    _invokes(
        "deepseek_v4",
        ("｜DSML｜tool_calls", "｜DSML｜toolcalls", "｜DSML｜tool"),
        "｜DSML｜invoke",
        "｜DSML｜parameter",
        dsml=True,
    ),
    aliases=("deepseekv4",),
)

# The same with <｜DSML｜ calls>. Reasoning: vLLM 0.33.0 parser/deepseek_v41.py.
DEEPSEEK_V41 = replace(
    _invokes(
        "deepseek_v41",
        ("｜DSML｜ calls",),
        "｜DSML｜ invoke",
        "｜DSML｜ parameter",
        dsml=True,
    ),
    aliases=("deepseekv41",),
)

# The same with <｜GCML｜tool_calls>. Reasoning: SGLang 0.5.23 gigachat35 ends it at </think> alone.
GIGACHAT35 = replace(
    _invokes(
        "gigachat35",
        ("｜GCML｜tool_calls",),
        "｜GCML｜invoke",
        "｜GCML｜parameter",
        dsml=True,
    ),
    ends_reasoning=(),
)

# <｜tool_calls_begin｜> (<｜tool_call_begin｜> (function <｜tool_sep｜>)? <steptml:invoke name="n">
# (<steptml:parameter name="k">v</steptml:parameter>)* </steptml:invoke> <｜tool_call_end｜>
# <｜tool_sep｜>?)* <｜tool_calls_end｜>
# Reasoning: vLLM 0.33.0 reasoning/step3_reasoning_parser.py ends it at </think> alone.
STEP3 = replace(
    _invokes(
        "step3",
        ("｜tool_calls_begin｜",),
        "steptml:invoke",
        "steptml:parameter",
        last="<｜tool_calls_end｜>",
        between={
            "<｜tool_call_begin｜>": On("section"),
            "function": On("section"),
            "<｜tool_sep｜>": On("section"),
            "<｜tool_call_end｜>": On("section", "close"),
        },
    ),
    ends_reasoning=(),
)
