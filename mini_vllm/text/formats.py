"""The tool-call formats, one table each. What they share is in the kinds of states.

`content` is the text around calls, `broken` the way out of a malformed call. Above each table
stands its grammar; NL is a line break, J a JSON object.
"""

import re

from mini_vllm.text.events import ReasoningDelta
from mini_vllm.text.object_state import Object
from mini_vllm.text.parameter_state import Value, read_name, read_parameter
from mini_vllm.text.parser_states import Broken, Gap, Header, Json, Prose
from mini_vllm.text.pythonic_state import PythonCalls
from mini_vllm.text.stream_parser import Format, On, StreamParser


def _announce(parser: StreamParser, name: str, marker: str) -> str | None:
    if not name:
        return None
    parser.announce(name)
    return ""


# (<tool_call> {"name": n, "arguments": J} </tool_call>)*
HERMES = Format(
    "hermes",
    {
        "content": Prose({"<tool_call>": On("object", "open")}),
        "object": Gap({"{": On("call", keep=True)}),
        "call": Object(On("close")),
        "arguments": Json(On("call")),
        "close": Gap({"</tool_call>": On("content", "end")}),
        "broken": Broken({"</tool_call>": On("content")}),
    },
)


def _mistral_name(parser: StreamParser, name: str, marker: str) -> str | None:
    if marker != "[CALL_ID]":
        return _announce(parser, name, marker)
    parser.name = name
    return "" if name else None


def _mistral_id(parser: StreamParser, id: str, marker: str) -> str | None:
    if not id:
        return None
    parser.announce(parser.name, id)
    return ""


# [TOOL_CALLS] [{"name": n, "arguments": J, "id": i}, ...]   and, from version 11 on,
# ([TOOL_CALLS]n[CALL_ID]i[ARGS]J)*   where [CALL_ID]i and [ARGS] may be absent
MISTRAL = Format(
    "mistral",
    {
        "content": Prose({"[TOOL_CALLS]": On("calls", "open")}),
        "calls": Gap(
            {"[TOOL_CALLS]": On("calls", "open"), "[": On("array")},
            otherwise=On("name", keep=True),
        ),
        "array": Gap({"{": On("call", keep=True)}),
        "call": Object(On("next", "end"), stream="member"),
        "member": Json(On("call")),
        "next": Gap({",": On("array"), "]": On("content", "close")}),
        "name": Header(
            {
                "[CALL_ID]": On("id"),
                "[ARGS]": On("arguments"),
                "{": On("arguments", keep=True),
            },
            forbidden=("[TOOL_CALLS]",),
            read=_mistral_name,
        ),
        "id": Header({"[ARGS]": On("arguments")}, forbidden=("[TOOL_CALLS]",), read=_mistral_id),
        "arguments": Json(On("content", "end")),
        "broken": Broken({"[TOOL_CALLS]": On("content", keep=True)}),
    },
)

# <|python_tag|>? {"name": n, "parameters": J} (; {...})*   as the whole text
LLAMA_JSON = Format(
    "llama_json",
    {
        "start": Gap(
            {"<|python_tag|>": On("object"), "{": On("call", "open", keep=True)},
            otherwise=On("content", "text"),
        ),
        "object": Gap({"{": On("call", keep=True)}),
        "call": Object(
            On("next", "end"),
            arguments=("parameters", "arguments"),
            others=frozenset(["type"]),
        ),
        "arguments": Json(On("call")),
        "next": Gap({";": On("object")}, otherwise=On("content", "text")),
        "content": Prose({}),
        "broken": Broken({}),
    },
    start="start",
)

# <|python_start|>? [f(k=literal, ...), ...] <|python_end|>?   as the whole text
PYTHONIC = Format(
    "pythonic",
    {
        "start": Gap(
            {"<|python_start|>": On("list"), "[": On("list", "open", keep=True)},
            otherwise=On("content", "text"),
        ),
        "list": PythonCalls(On("after", "close")),
        "after": Gap({"<|python_end|>": On("content", "close")}, otherwise=On("content", "text")),
        "content": Prose({}),
        "broken": Broken({}),
    },
    start="start",
)

# (<tool_call> <function=n> (<parameter=k> NL v NL </parameter>)* </function> </tool_call>)*
QWEN3_CODER = Format(
    "qwen3_coder",
    {
        "content": Prose({"<tool_call>": On("function", "open")}),
        "function": Gap({"<function=": On("name")}),
        "name": Header({">": On("parameters")}, forbidden=("<tool_call>",), read=read_name),
        "parameters": Gap({"<parameter=": On("key"), "</function>": On("close", "arguments")}),
        "key": Header({">": On("value")}, read=read_parameter),
        "value": Value({"</parameter>": On("parameters")}, framed=True),
        "close": Gap({"</tool_call>": On("content", "end")}),
        "broken": Broken({"</tool_call>": On("content")}),
    },
)


_KIMI_NAME = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?")


def _kimi_header(parser: StreamParser, header: str, marker: str) -> str | None:
    name = _KIMI_NAME.fullmatch(header)
    if name is None:
        return None
    parser.announce(name[1], header)
    return ""


# <|tool_calls_section_begin|> (<|tool_call_begin|> functions.n:i <|tool_call_argument_begin|> J
# <|tool_call_end|>)* <|tool_calls_section_end|>   The whole header is the id.
KIMI_K2 = Format(
    "kimi_k2",
    {
        "content": Prose({"<|tool_calls_section_begin|>": On("section", "open")}),
        "section": Gap(
            {
                "<|tool_call_begin|>": On("header"),
                "<|tool_calls_section_end|>": On("content", "close"),
            }
        ),
        "header": Header(
            {"<|tool_call_argument_begin|>": On("arguments")},
            forbidden=("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_end|>"),
            read=_kimi_header,
        ),
        "arguments": Json(On("close")),
        "close": Gap({"<|tool_call_end|>": On("section", "end")}),
        "broken": Broken(
            {
                "<|tool_call_end|>": On("section"),
                "<|tool_calls_section_end|>": On("content"),
            }
        ),
    },
)

_HARMONY_RECIPIENT = re.compile(r"to=(?:functions\.)?(\S+?)(?=\s|<\||$)")
_HARMONY_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")


def _harmony_header(parser: StreamParser, header: str, marker: str) -> str | None:
    recipient = _HARMONY_RECIPIENT.search(header)
    if recipient:
        parser.announce(recipient[1])
        return "arguments"
    channels = _HARMONY_CHANNEL.findall(header)
    return "reasoning" if channels[-1:] == ["analysis"] else "message"


_HARMONY_END = {
    "<|end|>": On("content", "close"),
    "<|return|>": On("content", "close"),
    "<|call|>": On("content", "close"),
    "<|start|>": On("header", "open"),
}

# (<|start|>role)? <|channel|>c (to=functions.n)? (<|constrain|>json)? <|message|> text <|end|>
# where <|call|> or <|return|> may stand in for <|end|>, and the text of a call is J
HARMONY = Format(
    "harmony",
    {
        "content": Prose(
            {
                "<|start|>": On("header", "open"),
                "<|channel|>": On("header", "open", keep=True),
            }
        ),
        "header": Header(
            {"<|message|>": On("message", "close")},
            forbidden=("<|end|>", "<|return|>", "<|call|>"),
            read=_harmony_header,
            allowed=re.compile(r"[\s\S]*"),
        ),
        "reasoning": Prose(_HARMONY_END, kind=ReasoningDelta),
        "message": Prose(_HARMONY_END),
        "arguments": Json(On("close")),
        # <|call|> ends the generation, so servers cut it off like any other end token.
        "close": Gap(
            {
                "<|call|>": On("content", "end"),
                "<|end|>": On("content", "end"),
                "<|return|>": On("content", "end"),
            },
            may_end=True,
        ),
        "broken": Broken(
            {
                "<|call|>": On("content"),
                "<|end|>": On("content"),
                "<|start|>": On("content", keep=True),
            }
        ),
    },
)

# <｜tool▁calls▁begin｜> (<｜tool▁call▁begin｜> n <｜tool▁sep｜> J <｜tool▁call▁end｜>)*
# <｜tool▁calls▁end｜>
DEEPSEEK_V31 = Format(
    "deepseek_v31",
    {
        "content": Prose({"<｜tool▁calls▁begin｜>": On("section", "open")}),
        "section": Gap(
            {
                "<｜tool▁call▁begin｜>": On("name"),
                "<｜tool▁calls▁end｜>": On("content", "close"),
            }
        ),
        "name": Header(
            {"<｜tool▁sep｜>": On("arguments")},
            forbidden=("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
            read=_announce,
        ),
        "arguments": Json(On("close")),
        "close": Gap({"<｜tool▁call▁end｜>": On("section", "end")}),
        "broken": Broken(
            {"<｜tool▁call▁end｜>": On("section"), "<｜tool▁calls▁end｜>": On("content")}
        ),
    },
)

# (<tool_call> n NL? (<arg_key> k </arg_key> <arg_value> v </arg_value>)* </tool_call>)*
GLM45 = Format(
    "glm45",
    {
        "content": Prose({"<tool_call>": On("name", "open")}),
        "name": Header(
            {
                "\n": On("keys"),
                "<arg_key>": On("keys", keep=True),
                "</tool_call>": On("keys", keep=True),
            },
            forbidden=("<tool_call>",),
            read=read_name,
        ),
        "keys": Gap({"<arg_key>": On("key"), "</tool_call>": On("content", "end")}),
        "key": Header({"</arg_key>": On("value tag")}, read=read_parameter),
        "value tag": Gap({"<arg_value>": On("value")}),
        "value": Value({"</arg_value>": On("keys")}),
        "broken": Broken({"</tool_call>": On("content")}),
    },
)

# <minimax:tool_call> (<invoke name="n"> (<parameter name="k">v</parameter>)* </invoke>)*
# </minimax:tool_call>
MINIMAX_M2 = Format(
    "minimax_m2",
    {
        "content": Prose({"<minimax:tool_call>": On("section", "open")}),
        "section": Gap(
            {'<invoke name="': On("name"), "</minimax:tool_call>": On("content", "close")}
        ),
        "name": Header(
            {'">': On("parameters")}, forbidden=("<minimax:tool_call>",), read=read_name
        ),
        "parameters": Gap({'<parameter name="': On("key"), "</invoke>": On("section", "end")}),
        "key": Header({'">': On("value")}, read=read_parameter),
        "value": Value({"</parameter>": On("parameters")}),
        "broken": Broken({"</invoke>": On("section"), "</minimax:tool_call>": On("content")}),
    },
)

FORMATS = {
    format.name: format
    for format in (
        HERMES,
        MISTRAL,
        LLAMA_JSON,
        PYTHONIC,
        QWEN3_CODER,
        KIMI_K2,
        HARMONY,
        DEEPSEEK_V31,
        GLM45,
        MINIMAX_M2,
    )
}
