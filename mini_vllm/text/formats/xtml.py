"""XTML, the markup of Kimi K3: tags of three tokens each, with attributes.

The comment above the table is its grammar; a value's type is an attribute of its argument.
"""

import re

from mini_vllm.text.schemas import EVERY_TYPE, type_named
from mini_vllm.text.states.basic import LINE, Broken, Gap, Header, Prose
from mini_vllm.text.states.parameter import Value, read_name, read_parameter
from mini_vllm.text.stream_parser import Format, On, State, StreamParser

_ATTRIBUTE = re.compile(r'\s*(\w+)="([^"]*)"')
_ATTRIBUTES = re.compile(rf"(?:{_ATTRIBUTE.pattern})*\s*")


def _read_call(parser: StreamParser, header: str, marker: str) -> str | None:
    return read_name(parser, _attributes(header).get("tool", ""), marker)


def _read_argument(parser: StreamParser, header: str, marker: str) -> str | None:
    attributes = _attributes(header)
    if read_parameter(parser, attributes.get("key", ""), marker) is None:
        return None
    return type_named(attributes.get("type", "")) or "untyped"


def _attributes(header: str) -> dict[str, str]:
    """Return the attributes of a tag in any order, or none if the text is not attributes."""
    pairs = _ATTRIBUTE.findall(header) if _ATTRIBUTES.fullmatch(header) else []
    return {
        name: value.strip().replace("&quot;", '"').replace("&amp;", "&") for name, value in pairs
    }


_TOOLS, _TOOLS_END = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
_CALL, _CALL_END = "<|open|>call ", "<|close|>call<|sep|>"
_ARGUMENT, _ARGUMENT_END = "<|open|>argument ", "<|close|>argument<|sep|>"
_LONGEST_TAG = 1024
# The frames around the text for the reader, which are left out.
_FRAMES = ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>")
_VALUES: dict[str, State] = {
    kind: Value({_ARGUMENT_END: On("arguments")}, types=frozenset({kind})) for kind in EVERY_TYPE
}

# O(tools) (O(call tool="n" index="i") (O(argument key="k" type="t") v C(argument))* C(call))*
# C(tools)   where O(x) is <|open|>x<|sep|> and C(x) is <|close|>x<|sep|>; attributes may be in any
# order, and others are ignored
KIMI_K3 = Format(
    "kimi_k3",
    {
        "content": Prose(
            {_TOOLS: On("tools", "open"), **{frame: On("content", "close") for frame in _FRAMES}}
        ),
        "tools": Gap({_CALL: On("name"), _TOOLS_END: On("content", "close")}),
        "name": Header(
            {"<|sep|>": On("arguments")},
            forbidden=(_TOOLS, _CALL, _CALL_END, _TOOLS_END),
            read=_read_call,
            allowed=LINE,
            longest=_LONGEST_TAG,
        ),
        "arguments": Gap(
            {
                _ARGUMENT: On("key"),
                _CALL_END: On("tools", "end"),
                _CALL: On("tools", "end", keep=True),
                _TOOLS_END: On("tools", "end", keep=True),
            },
            may_end=True,
        ),
        "key": Header(
            {"<|sep|>": On("untyped")},
            forbidden=(_ARGUMENT, _ARGUMENT_END, _CALL_END, _TOOLS_END),
            read=_read_argument,
            allowed=LINE,
            longest=_LONGEST_TAG,
        ),
        **_VALUES,
        "untyped": Value({_ARGUMENT_END: On("arguments")}),
        "broken": Broken({_CALL_END: On("tools"), _TOOLS_END: On("content")}),
    },
    # SGLang 0.5.23 KimiK3Detector.
    ends_reasoning=(_TOOLS,),
)
