"""Formats in which each parameter is an element of its own, whose text is not JSON.

Most formats are of two kinds, with a function for each kind, and differ in their markers. The
comment above a table is its grammar; NL is a line break. The text of a parameter has the type that
the schemas of the request's tools give it, unless the markup names a type.
"""

from dataclasses import replace
from functools import lru_cache

from mini_vllm.text.schemas import EVERY_TYPE
from mini_vllm.text.states.basic import LINE, Broken, Gap, Header, Prose
from mini_vllm.text.states.element import Element, read_element
from mini_vllm.text.states.parameter import (
    Value,
    read_name,
    read_name_attribute,
    read_parameter,
    read_parameter_attribute,
    read_type,
)
from mini_vllm.text.stream_parser import Format, On, State


def _functions(name: str, call: str, *, framed: bool = True) -> Format:
    """Return a table of `<function=n>` and `<parameter=k>`, as Qwen3-Coder has it.

    A line that begins with `<parameter=`, `</function>` or the next call ends a value that has no
    `</parameter>`, as in vLLM and SGLang. Those two engines take these tags anywhere in a value;
    here a tag within a line is text, since the value may quote it.
    """
    opener, closer = f"<{call}>", f"</{call}>"
    return Format(
        name,
        {
            "content": Prose(
                {opener: On("function", "open"), "<function=": On("bare name", "open")}
            ),
            "function": Gap({"<function=": On("name")}),
            "name": Header(
                {">": On("parameters")},
                forbidden=(opener, "</function>", closer),
                read=read_name,
                allowed=LINE,
            ),
            # In prose this may be ordinary text, so the name must not contain spaces.
            "bare name": Header({">": On("parameters")}, forbidden=(opener,), read=read_name),
            "parameters": Gap(
                {
                    "<parameter=": On("key"),
                    "</function>": On("close", "end"),
                    closer: On("content", "end"),
                    opener: On("content", "end", keep=True),
                    "<function=": On("content", "end", keep=True),
                },
                may_end=True,
            ),
            "key": Header(
                {">": On("value")},
                forbidden=("<parameter=", "</parameter>", "</function>", closer),
                read=read_parameter,
                allowed=LINE,
            ),
            "value": Value(
                {
                    "</parameter>": On("parameters"),
                    "\n<parameter=": On("key"),
                    "\n</function>": On("close", "end"),
                    f"\n{opener}\n<function=": On("parameters", keep=True),
                    f"\n{opener}<function=": On("parameters", keep=True),
                },
                framed=framed,
            ),
            "close": Gap({closer: On("content", "close")}, otherwise=On("content", "text")),
            "broken": Broken({closer: On("content")}),
        },
        ends_reasoning=(opener,),
    )


# (<tool_call>? <function=n> (<parameter=k> NL v NL </parameter>)* </function> </tool_call>?)*
# Reasoning ends at the opener: vLLM 0.33.0 parser/qwen3.py, SGLang 0.5.23 Qwen3Detector.
QWEN3_CODER = replace(
    _functions("qwen3_coder", "tool_call"),
    aliases=("qwen3_xml", "step3p5", "step5", "nanbeige"),
)

# The same with <seed:tool_call>. Reasoning: vLLM 0.33.0 parser/seed_oss.py.
SEED_OSS = _functions("seed_oss", "seed:tool_call")

# The same, but for line breaks: they belong to values. Reasoning: vLLM 0.33.0 parser/mimo.py.
MIMO = _functions("mimo", "tool_call", framed=False)


def _keys(
    name: str,
    tag: str = "",
    *,
    call: str = "tool_call",
    section: str = "",
    after_name: tuple[str, ...] = (),
    types: bool = False,
    suffix: str = "",
) -> Format:
    """Return a table of `<arg_key>k</arg_key><arg_value>v</arg_value>`, as GLM has it.

    Args:
        name: the format's name.
        tag: the prefix of all tag names.
        call: the tag of a call, without `tag`.
        section: the tag around all calls, without `tag`, if there is one.
        after_name: markers that end a function's name, besides the tags of a parameter and a call.
        types: whether `<arg_type>` may give the type of a value, between its key and the value.
        suffix: the end of all tag names.
    """
    (opener, closer), (first, last), (key, key_end), (value, value_end), (type_, type_end) = (
        (f"<{tag}{name}{suffix}>", f"</{tag}{name}{suffix}>")
        for name in (call, section, "arg_key", "arg_value", "arg_type")
    )
    between = "section" if section else "content"
    states: dict[str, State] = {
        "content": Prose(
            {first: On("section", "open")} if section else {opener: On("call", "open")}
        ),
        "call": Gap({}, otherwise=On("name")),
        "name": Header(
            {
                **{marker: On("keys") for marker in after_name},
                key: On("keys", keep=True),
                closer: On("keys", keep=True),
            },
            forbidden=(opener,),
            read=read_name,
        ),
        "keys": Gap(
            {
                key: On("key"),
                closer: On(between, "end"),
                opener: On(between, "end", keep=True),
                **({last: On(between, "end", keep=True)} if section else {}),
            },
            may_end=True,
        ),
        "key": Header(
            {key_end: On("value tag")},
            forbidden=(key, value, closer),
            read=read_parameter,
            allowed=LINE,
        ),
        "value tag": Gap({value: On("value")} | ({type_: On("type")} if types else {})),
        "value": Value({value_end: On("keys")}),
        "broken": Broken({closer: On(between), **({last: On("content")} if section else {})}),
    }
    if section:
        states["section"] = Gap({opener: On("call"), last: On("content", "close")})
    for kind in EVERY_TYPE if types else ():
        states[kind] = Gap({value: On(f"{kind} value")})
        states[f"{kind} value"] = Value({value_end: On("keys")}, types=frozenset({kind}))
    if types:
        states["type"] = Header({type_end: On("value tag")}, read=read_type, allowed=LINE)
    return Format(name, states, ends_reasoning=(first if section else opener,))


# (<tool_call> n NL? (<arg_key> k </arg_key> <arg_value> v </arg_value>)* </tool_call>)*
# Reasoning: vLLM 0.33.0 parser/glm47_moe.py, SGLang 0.5.23 Glm45Detector; only </think> in ollama.
GLM45 = replace(
    _keys("glm45", after_name=("\n",)),
    aliases=("glm47", "glm", "ling3", "poolside_v1", "spark25"),
)

# The same with <iquest_tool_call>. Reasoning: SGLang 0.5.23 iquest_q1 ends it at </think> alone.
IQUEST_Q1 = replace(
    _keys("iquest_q1", call="iquest_tool_call", after_name=("\n",)), ends_reasoning=()
)


@lru_cache(maxsize=16)
def hy_v3(suffix: str = "") -> Format:
    """Return Hunyuan's format for checkpoints whose tags end in a suffix, such as `:opensource`."""
    after_name = (f"<tool_sep{suffix}>", "\n")
    table = _keys(f"hy_v3{suffix}", section="tool_calls", after_name=after_name, suffix=suffix)
    return replace(table, aliases=() if suffix else ("hy_v4", "hunyuan"), ends_reasoning=())


# <tool_calls> (<tool_call> n <tool_sep>? (<arg_key> k </arg_key> <arg_value> v </arg_value>)*
# </tool_call>)* </tool_calls>
# Reasoning: vLLM 0.33.0 reasoning/hy_v3_reasoning_parser.py ends it at </think> alone.
HY_V3 = hy_v3()


# <ifm|tool_calls> (<ifm|tool_call> n (<ifm|arg_key> k </ifm|arg_key> (<ifm|arg_type> t
# </ifm|arg_type>)? <ifm|arg_value> v </ifm|arg_value>)* </ifm|tool_call>)* </ifm|tool_calls>
# Calls as JSON, which a request can ask this model for, are not read.
# Reasoning: vLLM 0.33.0 reasoning/k2_horizon_reasoning_parser.py.
K2_HORIZON = _keys("k2_horizon", "ifm|", section="tool_calls", after_name=("\n",), types=True)

_MINICPM5 = ('<function name="', '<functionname="')

# (<function name="n"> (<param name="k"> (v | <![CDATA[v]]>) </param>)* </function>)*
# White space before a value is markup, as is the line break after a value; in CDATA all is text.
# Models also write <functionname= and <paramname=: vLLM 0.33.0 minicpm5xml_tool_parser.py.
# Reasoning: vLLM 0.33.0 and SGLang 0.5.23 end it at </think> alone.
MINICPM5 = Format(
    "minicpm5",
    {
        "content": Prose(dict.fromkeys(_MINICPM5, On("name", "open"))),
        "name": Header({'">': On("parameters")}, (*_MINICPM5, "</function>"), read=read_name),
        "parameters": Gap(
            {
                '<param name="': On("key"),
                '<paramname="': On("key"),
                "</function>": On("content", "end"),
                **dict.fromkeys(_MINICPM5, On("content", "end", keep=True)),
            },
            may_end=True,
        ),
        "key": Header(
            {'">': On("frame")}, ("</function>",), read=read_parameter_attribute, allowed=LINE
        ),
        "frame": Gap({"<![CDATA[": On("verbatim")}, otherwise=On("value")),
        "verbatim": Value({"]]></param>": On("parameters")}),
        "value": Value({"</param>": On("parameters")}, framed=True),
        "broken": Broken({"</function>": On("content")}),
    },
)

_NS = "]<]minimax[>["

# ⟨tool_call> (⟨invoke name="n"> (⟨k> v ⟨/k>)* ⟨/invoke>)* ⟨/tool_call>, where ⟨ is ]<]minimax[>[<
# and v is text or elements: an object's members, or items of an array, whatever their names.
# Reasoning: vLLM 0.33.0 reasoning/minimax_m3_reasoning_parser.py ends it at </mm:think> alone.
MINIMAX_M3 = Format(
    "minimax_m3",
    {
        "content": Prose({f"{_NS}<tool_call>": On("section", "open")}),
        "section": Gap(
            {f'{_NS}<invoke name="': On("name"), f"{_NS}</tool_call>": On("content", "close")}
        ),
        "name": Header({'">': On("parameters")}, (_NS,), read=read_name_attribute, allowed=LINE),
        "parameters": Gap(
            {
                f"{_NS}</invoke>": On("section", "end"),
                f'{_NS}<invoke name="': On("section", "end", keep=True),
                f"{_NS}</tool_call>": On("section", "end", keep=True),
                f"{_NS}<": On("key"),
            },
            may_end=True,
        ),
        "key": Header({">": On("value")}, (_NS,), read=read_element, allowed=LINE),
        "value": Element({f"{_NS}<": On("parameters")}),
        "broken": Broken({f"{_NS}</invoke>": On("section"), f"{_NS}</tool_call>": On("content")}),
    },
    aliases=("minimax-m3",),
)
