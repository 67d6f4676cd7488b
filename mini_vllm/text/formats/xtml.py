"""XTML, the markup of Kimi K3: tags of three tokens each, with attributes.

The comment above the table is its grammar; a value's type is an attribute of its argument.
"""

from mini_vllm.text.schemas import EVERY_TYPE
from mini_vllm.text.states.basic import LINE, Broken, Gap, Header, Prose
from mini_vllm.text.states.parameter import Value, read_name, read_parameter, read_type
from mini_vllm.text.stream_parser import Format, On, State, StreamParser


def _read_name(parser: StreamParser, name: str, marker: str) -> str | None:
    return read_name(parser, _unescaped(name), marker)


def _read_key(parser: StreamParser, key: str, marker: str) -> str | None:
    return read_parameter(parser, _unescaped(key), marker)


def _unescaped(attribute: str) -> str:
    return attribute.replace("&quot;", '"').replace("&amp;", "&")


_TOOLS, _TOOLS_END = "<|open|>tools<|sep|>", "<|close|>tools<|sep|>"
_CALL, _CALL_END = '<|open|>call tool="', "<|close|>call<|sep|>"
_ARGUMENT, _ARGUMENT_END = '<|open|>argument key="', "<|close|>argument<|sep|>"
# The frames around the text for the reader, which are left out.
_FRAMES = ("<|open|>response<|sep|>", "<|close|>response<|sep|>", "<|close|>message<|sep|>")
_VALUES: dict[str, State] = {
    kind: Value({_ARGUMENT_END: On("arguments")}, types=frozenset({kind})) for kind in EVERY_TYPE
}

# O(tools) (O(call tool="n" index="i") (O(argument key="k" type="t") v C(argument))* C(call))*
# C(tools)   where O(x) is <|open|>x<|sep|> and C(x) is <|close|>x<|sep|>
KIMI_K3 = Format(
    "kimi_k3",
    {
        "content": Prose(
            {_TOOLS: On("tools", "open"), **{frame: On("content", "close") for frame in _FRAMES}}
        ),
        "tools": Gap({_CALL: On("name"), _TOOLS_END: On("content", "close")}),
        "name": Header(
            {'" index="': On("index"), '"<|sep|>': On("arguments")},
            forbidden=(_TOOLS, _CALL, _CALL_END, _TOOLS_END),
            read=_read_name,
            allowed=LINE,
        ),
        "index": Header({'"<|sep|>': On("arguments")}),
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
            {'" type="': On("type"), '"<|sep|>': On("untyped")},
            forbidden=(_ARGUMENT, _ARGUMENT_END, _CALL_END, _TOOLS_END),
            read=_read_key,
            allowed=LINE,
        ),
        "type": Header({'"<|sep|>': On("untyped")}, read=read_type),
        **_VALUES,
        "untyped": Value({_ARGUMENT_END: On("arguments")}),
        "broken": Broken({_CALL_END: On("tools"), _TOOLS_END: On("content")}),
    },
    # SGLang 0.5.23 KimiK3Detector.
    ends_reasoning=(_TOOLS,),
)
