"""Formats that write a call as an `invoke` element with a `parameter` element for each argument.

They differ in their markers. Above each table stands its grammar. The text of a parameter has the
type that the schemas of the request's tools give it, unless the markup says one.
"""

from collections.abc import Mapping
from dataclasses import replace

from mini_vllm.text.parameter_state import ANY_JSON, TEXT, Value, read_name, read_parameter
from mini_vllm.text.parser_states import LINE, Broken, Gap, Header, Prose
from mini_vllm.text.stream_parser import Format, On


def _invokes(
    name: str,
    sections: tuple[str, ...],
    invoke: str = "invoke",
    parameter: str = "parameter",
    *,
    last: str = "",
    between: Mapping[str, On] | None = None,
    dsml: bool = False,
) -> Format:
    """Return a table of `<invoke name="n">` and `<parameter name="k">`, as MiniMax M2 has it.

    Args:
        name: the format's name.
        sections: the tag around all calls; then other spellings of its opening tag.
        invoke: the tag of a call.
        parameter: the tag of a parameter.
        last: what ends the section, where that is not its closing tag.
        between: other markers that may stand between calls, and before the first.
        dsml: the tags have a token in them that nothing else has. A call may stand without the tag
            around all, a value ends at the next tag too, and a parameter may say `string="true"`,
            or `"false"` for JSON.
    """
    first, last = f"<{sections[0]}>", last or f"</{sections[0]}>"
    opener, closer = f'<{invoke} name="', f"</{invoke}>"
    key, key_end = f'<{parameter} name="', f"</{parameter}>"
    typed = {'" string="true">': On("text"), '" string="false">': On("value")} if dsml else {}
    ends = {key_end: On("parameters")}
    if dsml:
        ends |= {key: On("key"), closer: On("section", "end")}
    openers = {f"<{section}>": On("section", "open") for section in sections}
    # What closes the frame of a call ends the call too.
    frame_ends = [mark for mark, on in (between or {}).items() if on.do == "close"]
    return Format(
        name,
        {
            "content": Prose(openers | ({opener: On("name", "open")} if dsml else {})),
            "section": Gap({opener: On("name"), last: On("content", "close"), **(between or {})}),
            "name": Header(
                {'">': On("parameters"), '"/>': On("section", "end")},
                forbidden=(first, opener, closer, last),
                read=read_name,
                allowed=LINE,
            ),
            "parameters": Gap(
                {
                    key: On("key"),
                    closer: On("section", "end"),
                    opener: On("section", "end", keep=True),
                    last: On("section", "end", keep=True),
                    **dict.fromkeys(frame_ends, On("section", "end", keep=True)),
                },
                may_end=True,
            ),
            "key": Header(
                {**typed, '">': On("value")},
                forbidden=(key.split()[0], key_end, closer, last),
                read=read_parameter,
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
# Reasoning: vLLM 0.33.0 parser/minimax_m2.py.
MINIMAX_M2 = replace(_invokes("minimax_m2", ("minimax:tool_call",)), aliases=("minimax-m2",))

# The same with <dots_function_call>. Reasoning: vLLM 0.33.0 has no parser for it.
DOTS = replace(_invokes("dots", ("dots_function_call",)), ends_reasoning=())

# The same with <｜DSML｜function_calls>, <｜DSML｜invoke name="n"> and
# <｜DSML｜parameter name="k" string="true">; calls also stand alone.
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
# parser/deepseek_v4.py, where also reasoning ends at it.
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
