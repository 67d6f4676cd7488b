"""Formats in which a call is one JSON object that has the name and the arguments as members.

The comment above a table is its grammar; NL is a line break, J a JSON object.
"""

from collections.abc import Mapping
from typing import Any

from mini_vllm.text.states.basic import Broken, Gap, Header, Json, Prose, announce
from mini_vllm.text.states.object import Object
from mini_vllm.text.stream_parser import Format, On, State, StreamParser

# (<tool_call> {"name": n, "arguments": J} </tool_call>)*
HERMES = Format(
    "hermes",
    {
        "content": Prose({"<tool_call>": On("object", "open")}),
        "object": Gap({"{": On("call", keep=True)}),
        "call": Object(On("close")),
        "arguments": Json(On("call")),
        "close": Gap(
            {"</tool_call>": On("content", "end"), "<tool_call>": On("content", "end", keep=True)},
            may_end=True,
        ),
        "broken": Broken({"</tool_call>": On("content")}),
    },
    aliases=(
        "qwen",
        "qwen25",
        "qwen3_json",
        "granite4",
        "trinity",
    ),
    # vLLM 0.33.0 parser/qwen3.py, SGLang 0.5.23 Qwen3Detector, ollama's qwen3.
    ends_reasoning=("<tool_call>",),
)


def _mistral_name(parser: StreamParser, name: str, marker: str) -> str | None:
    if marker != "[CALL_ID]":
        return announce(parser, name, marker)
    parser.call.name = name
    return "" if name else None


def _mistral_id(parser: StreamParser, id: str, marker: str) -> str | None:
    if not id:
        return None
    parser.announce(parser.call.name, id)
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
    # vLLM 0.33.0 parser/mistral.py; SGLang 0.5.23 keeps it in the reasoning.
    ends_reasoning=("[TOOL_CALLS]",),
)


# {"name": n, "parameters": J} ([;,]? {...})*   at the start of the text, or after <|python_tag|>
# anywhere
LLAMA_JSON = Format(
    "llama_json",
    {
        "start": Gap(
            {"<|python_tag|>": On("object"), "{": On("call", "open", keep=True)},
            otherwise=On("content", "text"),
        ),
        "content": Prose({"<|python_tag|>": On("object", "open")}),
        "object": Gap({"{": On("call", keep=True)}),
        "call": Object(
            On("next", "end"),
            arguments=("parameters", "arguments"),
            others=frozenset(["type"]),
        ),
        "arguments": Json(On("call")),
        "next": Gap(
            {";": On("object"), ",": On("object"), "{": On("call", keep=True)},
            otherwise=On("content", "text"),
        ),
        "broken": Broken({"<|python_tag|>": On("content", keep=True)}),
    },
    start="start",
    aliases=(
        "llama3_json",
        "llama4_json",
        "llama3",
    ),
)


def _array(after: On, kind: str = "", **members: Any) -> dict[str, State]:
    """Return the states of `[{...}, {...}]`, from `array` after the bracket on.

    Args:
        after: where the closing bracket leads.
        kind: a prefix of the states' names, in a format with several kinds of arrays.
        members: arguments of `Object` about the members.
    """
    array, call, arguments, next = (
        f"{kind}{name}" for name in ("array", "call", "arguments", "next")
    )
    return {
        array: Gap({"{": On(call, keep=True)}),
        call: Object(On(next, "end"), stream=arguments, **members),
        arguments: Json(On(call)),
        next: Gap({",": On(array), "]": after}),
    }


# (<tool_calls> [{"name": n, "arguments": J}, ...] </tool_calls>)*   The end may be missing.
JAMBA = Format(
    "jamba",
    {
        "content": Prose({"<tool_calls>": On("bracket", "open")}),
        "bracket": Gap({"[": On("array")}),
        **_array(On("close", "close")),
        "close": Gap({"</tool_calls>": On("content", "close")}, otherwise=On("content", "text")),
        "broken": Broken({"</tool_calls>": On("content")}),
    },
    aliases=("hunyuan_a13b",),
)


# functools[{"name": n, "arguments": J}, ...]
PHI4_MINI_JSON = Format(
    "phi4_mini_json",
    {
        "content": Prose({"functools[": On("array", "open")}),
        **_array(On("content", "close"), arguments=("arguments", "parameters")),
        "broken": Broken({"functools[": On("content", keep=True)}),
    },
)


# (<|tool_call|> [{"name": n, "arguments": J}, ...])*   or <tool_call>, from version 3.1 on
GRANITE = Format(
    "granite",
    {
        "content": Prose(
            {"<|tool_call|>": On("bracket", "open"), "<tool_call>": On("bracket", "open")}
        ),
        "bracket": Gap({"[": On("array")}),
        **_array(On("content", "close")),
        "broken": Broken(
            {"<|tool_call|>": On("content", keep=True), "<tool_call>": On("content", keep=True)}
        ),
    },
)


# <|START_ACTION|> [{"tool_call_id": i, "tool_name": n, "parameters": J}, ...] <|END_ACTION|>
# and text between <|START_RESPONSE|> and <|END_RESPONSE|>, in Command 4 START_TEXT and END_TEXT.
# Citations, <co>text</co: 0:[1]>, stay in the text.
COHERE_COMMAND3 = Format(
    "cohere_command3",
    {
        "content": Prose(
            {
                "<|START_ACTION|>": On("bracket", "open"),
                "<|START_RESPONSE|>": On("content", "close"),
                "<|END_RESPONSE|>": On("content", "close"),
                "<|START_TEXT|>": On("content", "close"),
                "<|END_TEXT|>": On("content", "close"),
            }
        ),
        "bracket": Gap({"[": On("array")}),
        **_array(
            On("close", "close"), name="tool_name", arguments=("parameters",), id="tool_call_id"
        ),
        "close": Gap({"<|END_ACTION|>": On("content", "close")}, otherwise=On("content", "text")),
        "broken": Broken({"<|END_ACTION|>": On("content")}),
    },
    aliases=("cohere_command4",),
)


# [{"name": n, "arguments": J}, ...]   as the whole text, and anywhere with a marker:
# ```json A ```, <tool_call> A </tool_call> and [TOOL_CALLS] A, where A is such an array
XLAM = Format(
    "xlam",
    {
        "start": Gap(
            {"[TOOL_CALLS]": On("bracket"), "[": On("array")}, otherwise=On("content", "text")
        ),
        "content": Prose(
            {
                "[TOOL_CALLS]": On("bracket", "open"),
                "```": On("fence", "open"),
                "<tool_call>": On("fence", "open"),
            }
        ),
        "bracket": Gap({"[": On("array")}),
        "fence": Gap({"json": On("fence"), "[": On("closed array")}),
        **_array(On("content", "close"), others=frozenset(["type"])),
        **_array(On("close", "close"), "closed "),
        "close": Gap(
            {"```": On("content", "close"), "</tool_call>": On("content", "close")},
            otherwise=On("content", "text"),
        ),
        "broken": Broken({"```": On("content"), "</tool_call>": On("content")}),
    },
    start="start",
)


# (<|tools_prefix|> [{n: J}, ...] <|tools_suffix|>)*   The end may be missing.
APERTUS = Format(
    "apertus",
    {
        "content": Prose({"<|tools_prefix|>": On("bracket", "open")}),
        "bracket": Gap({"[": On("object")}),
        "object": Gap({"{": On("quote")}),
        "quote": Gap({'"': On("name")}),
        "name": Header({'"': On("colon")}, read=announce),
        "colon": Gap({":": On("arguments")}),
        "arguments": Json(On("brace")),
        "brace": Gap({"}": On("next", "end")}),
        "next": Gap({",": On("object"), "]": On("close", "close")}),
        "close": Gap({"<|tools_suffix|>": On("content", "close")}, otherwise=On("content", "text")),
        "broken": Broken({"<|tools_suffix|>": On("content")}),
    },
    aliases=("apertus2509",),
)


def _tagged(
    opener: str, closer: str, prose: Mapping[str, On] | None = None, **members: Any
) -> dict[str, State]:
    """Return the states of objects between tags, as `HERMES` has them.

    Args:
        opener: the tag before an object.
        closer: the tag after an object.
        prose: more markers of the text around the objects.
        members: arguments of `Object` about the members.
    """
    return {
        "content": Prose({opener: On("object", "open"), **(prose or {})}),
        "object": Gap({"{": On("call", keep=True)}),
        "call": Object(On("close"), **members),
        "arguments": Json(On("call")),
        "close": Gap(
            {closer: On("content", "end"), opener: On("content", "end", keep=True)}, may_end=True
        ),
        "broken": Broken({closer: On("content")}),
    }


# (<longcat_tool_call> {"name": n, "arguments": J} </longcat_tool_call>)*
LONGCAT = Format("longcat", _tagged("<longcat_tool_call>", "</longcat_tool_call>"))


# <response>? text </response>? and Hermes's calls. These tags are a frame only at the beginning of
# the text, and at its end or before a call; others are text.
ERNIE45 = Format(
    "ernie45",
    {
        "start": Gap(
            {"<response>": On("content", "close"), "<tool_call>": On("object", "open")},
            otherwise=On("content", "text"),
        ),
        **_tagged("<tool_call>", "</tool_call>", {"</response>": On("end of frame")}),
        "end of frame": Gap(
            {"<tool_call>": On("content", "close", keep=True)},
            otherwise=On("content", "text"),
            last=On("content", "close"),
        ),
    },
    start="start",
)


# (<|action_start|> <|plugin|> {"name": n, "parameters": J} <|action_end|>)*
INTERNLM = Format(
    "internlm",
    {
        **_tagged("<|action_start|>", "<|action_end|>", arguments=("parameters", "arguments")),
        "content": Prose({"<|action_start|>": On("plugin", "open")}),
        "plugin": Gap({"<|plugin|>": On("object")}),
    },
    aliases=("interns1",),
)


# (<function_call> {"name": n, "arguments": J})*
GRANITE_20B_FC = Format(
    "granite_20b_fc",
    {
        "content": Prose({"<function_call>": On("object", "open")}),
        "object": Gap({"{": On("call", keep=True)}),
        "call": Object(On("content", "end")),
        "arguments": Json(On("call")),
        "broken": Broken({"<function_call>": On("content", keep=True)}),
    },
    aliases=("granite-20b-fc",),
)


# <|message_sep|> function call<|role_sep|> {"name": n, "arguments": J}   and, from version 3.1 on,
# <|function_call|> {...}, where <|message_sep|> ends a message
GIGACHAT3 = Format(
    "gigachat3",
    {
        "content": Prose(
            {
                "function call<|role_sep|>": On("object", "open"),
                "<|function_call|>": On("object", "open"),
                "<|message_sep|>": On("turn", "open"),
            }
        ),
        "turn": Gap({"function call<|role_sep|>": On("object")}, otherwise=On("content", "close")),
        "object": Gap({"{": On("call", keep=True)}),
        "call": Object(On("content", "end")),
        "arguments": Json(On("call")),
        "broken": Broken(
            {
                "<|message_sep|>": On("content", keep=True),
                "function call<|role_sep|>": On("content", keep=True),
                "<|function_call|>": On("content", keep=True),
            }
        ),
    },
)
