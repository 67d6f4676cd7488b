"""Formats of the Gemma family, whose arguments are objects with bare keys and marked strings.

The comment above a table is its grammar. B is an object `{k:v,...}`, where v is a string between
two markers, a literal, `[v,...]` or such an object.
"""

from mini_vllm.text.states.bare_object import BareObject
from mini_vllm.text.states.basic import Broken, Gap, Header, Prose, announce
from mini_vllm.text.stream_parser import Format, On

# (<|tool_call> call:nB <tool_call|>)*   with <|"|> around strings, where `call` may be missing
GEMMA4 = Format(
    "gemma4",
    {
        "content": Prose({"<|tool_call>": On("call", "open")}),
        "call": Gap({"call:": On("name"), ":": On("name")}),
        "name": Header({"{": On("arguments")}, read=announce),
        "arguments": BareObject(On("close"), '<|"|>'),
        "close": Gap(
            {
                "<tool_call|>": On("content", "end"),
                "<|tool_call>": On("content", "end", keep=True),
            },
            may_end=True,
        ),
        "broken": Broken({"<tool_call|>": On("content")}),
    },
    # vLLM 0.33.0 parser/gemma4.py.
    ends_reasoning=("<|tool_call>",),
)


# (<start_function_call> call:nB <end_function_call>)*   with <escape> around strings and, as the
# template of vLLM 0.33.0 has it, around parameters of other types
FUNCTIONGEMMA = Format(
    "functiongemma",
    {
        "content": Prose({"<start_function_call>": On("call", "open")}),
        "call": Gap({"call:": On("name")}),
        "name": Header({"{": On("arguments")}, read=announce),
        "arguments": BareObject(On("close"), "<escape>", typed=True),
        "close": Gap(
            {
                "<end_function_call>": On("content", "end"),
                "<start_function_call>": On("content", "end", keep=True),
            },
            may_end=True,
        ),
        "broken": Broken({"<end_function_call>": On("content")}),
    },
)
