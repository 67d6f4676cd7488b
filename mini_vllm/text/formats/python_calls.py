"""Formats in which calls are written as Python calls.

The comment above a table is its grammar; J is a JSON object.
"""

from mini_vllm.text.states.basic import Broken, Gap, Json, Prose
from mini_vllm.text.states.object import Object
from mini_vllm.text.states.pythonic import PythonCall
from mini_vllm.text.stream_parser import Format, On

# [f(k=literal, ...), ...] <|python_end|>?   at the start of the text, or anywhere after
# <|python_start|>
PYTHONIC = Format(
    "pythonic",
    {
        "start": Gap(
            {"<|python_start|>": On("list"), "[": On("call", "open")},
            otherwise=On("content", "text"),
        ),
        "content": Prose({"<|python_start|>": On("list", "open")}),
        "list": Gap({"[": On("call")}),
        "call": PythonCall(On("next", "end")),
        "next": Gap({",": On("call"), "]": On("after", "close")}),
        "after": Gap({"<|python_end|>": On("content", "close")}, otherwise=On("content", "text")),
        "broken": Broken(
            {"<|python_end|>": On("content"), "<|python_start|>": On("content", keep=True)}
        ),
    },
    start="start",
    aliases=("llama4_pythonic",),
)


# (<|tool_call_start|> [f(k=literal, ...), ...] <|tool_call_end|>)*   The end may be missing, the
# brackets may be missing, and {"name": n, "arguments": J} may replace any call. The strings contain
# shell scripts, so their line breaks are unescaped.
LFM2 = Format(
    "lfm2",
    {
        "content": Prose({"<|tool_call_start|>": On("block", "open")}),
        "block": Gap({"[": On("item"), "{": On("object", keep=True)}, otherwise=On("call")),
        "item": Gap({"{": On("object", keep=True)}, otherwise=On("call")),
        "call": PythonCall(On("next", "end"), lines=True),
        "object": Object(On("next", "end"), arguments=("arguments", "parameters")),
        "arguments": Json(On("object")),
        "next": Gap(
            {
                ",": On("item"),
                "]": On("close", "close"),
                "<|tool_call_end|>": On("content", "close"),
            }
        ),
        "close": Gap(
            {"<|tool_call_end|>": On("content", "close")}, otherwise=On("content", "text")
        ),
        "broken": Broken({"<|tool_call_end|>": On("content")}),
    },
)


# (<function_calls> (f(k=literal, ...) NL)+ </function_calls>)*   where true, false and null are
# also literals
OLMO3 = Format(
    "olmo3",
    {
        "content": Prose({"<function_calls>": On("call", "open")}),
        "call": PythonCall(On("next", "end")),
        "next": Gap({"</function_calls>": On("content", "close")}, otherwise=On("call")),
        "broken": Broken({"</function_calls>": On("content")}),
    },
)
