"""Formats in which the name stands in a header before the arguments.

Above each table stands its grammar; J is a JSON object.
"""

import re

from mini_vllm.text.parser_states import LINE, Broken, Gap, Header, Json, Prose, announce
from mini_vllm.text.stream_parser import Format, On, StreamParser

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
            allowed=LINE,
        ),
        "arguments": Json(On("close")),
        "close": Gap(
            {
                "<|tool_call_end|>": On("section", "end"),
                "<|tool_call_begin|>": On("section", "end", keep=True),
                "<|tool_calls_section_end|>": On("section", "end", keep=True),
            },
            may_end=True,
        ),
        "broken": Broken(
            {
                "<|tool_call_end|>": On("section"),
                "<|tool_calls_section_end|>": On("content"),
            }
        ),
    },
    # vLLM 0.33.0 parser/kimi_k2.py, SGLang 0.5.23 KimiK2Detector.
    ends_reasoning=("<|tool_calls_section_begin|>",),
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
            read=announce,
            allowed=LINE,
        ),
        "arguments": Json(On("close")),
        "close": Gap(
            {
                "<｜tool▁call▁end｜>": On("section", "end"),
                "<｜tool▁call▁begin｜>": On("section", "end", keep=True),
                "<｜tool▁calls▁end｜>": On("section", "end", keep=True),
            },
            may_end=True,
        ),
        "broken": Broken(
            {"<｜tool▁call▁end｜>": On("section"), "<｜tool▁calls▁end｜>": On("content")}
        ),
    },
    # Only </think> does in vLLM 0.33.0 (deepseek_v3), SGLang 0.5.23 (deepseek-v3) and ollama.
    ends_reasoning=(),
)
