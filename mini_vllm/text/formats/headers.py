"""Formats in which the name is in a header before the arguments.

The comment above a table is its grammar; J is a JSON object.
"""

import re
from collections.abc import Mapping

from mini_vllm.text.states.basic import LINE, Broken, Gap, Header, Json, Prose, announce
from mini_vllm.text.stream_parser import Format, On, State, StreamParser


def _in_sections(
    section: tuple[str, str], call: tuple[str, str], states: Mapping[str, State]
) -> dict[str, State]:
    """Return the states of calls in sections.

    Args:
        section: the opening and closing marker of a section.
        call: the opening and closing marker of a call.
        states: the states of a call, from `header` on; the last state leads to `close`.
    """
    (opener, closer), (begin, end) = section, call
    return {
        "content": Prose({opener: On("section", "open")}),
        "section": Gap({begin: On("header"), closer: On("content", "close")}),
        **states,
        "close": Gap(
            {
                end: On("section", "end"),
                begin: On("section", "end", keep=True),
                closer: On("section", "end", keep=True),
            },
            may_end=True,
        ),
        "broken": Broken({end: On("section"), closer: On("content")}),
    }


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
    _in_sections(
        ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ("<|tool_call_begin|>", "<|tool_call_end|>"),
        {
            "header": Header(
                {"<|tool_call_argument_begin|>": On("arguments")},
                forbidden=(
                    "<|tool_calls_section_begin|>",
                    "<|tool_call_begin|>",
                    "<|tool_call_end|>",
                ),
                read=_kimi_header,
                allowed=LINE,
            ),
            "arguments": Json(On("close")),
        },
    ),
    # vLLM 0.33.0 parser/kimi_k2.py, SGLang 0.5.23 KimiK2Detector.
    ends_reasoning=("<|tool_calls_section_begin|>",),
)


_DEEPSEEK = (
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
)
_NOT_IN_A_NAME = ("<｜tool▁calls▁begin｜>", *_DEEPSEEK[1])

# <｜tool▁calls▁begin｜> (<｜tool▁call▁begin｜> type <｜tool▁sep｜> n NL ```json NL J NL ```
# <｜tool▁call▁end｜>)* <｜tool▁calls▁end｜>   The fence may be missing.
DEEPSEEK_V3 = Format(
    "deepseek_v3",
    _in_sections(
        *_DEEPSEEK,
        {
            "header": Header({"<｜tool▁sep｜>": On("name")}, forbidden=_NOT_IN_A_NAME),
            "name": Header(
                {"\n": On("fence"), "```json": On("arguments")},
                forbidden=("<｜tool▁sep｜>", *_NOT_IN_A_NAME),
                read=announce,
                allowed=LINE,
            ),
            "fence": Gap({"```json": On("arguments")}, otherwise=On("arguments")),
            "arguments": Json(On("end of fence")),
            "end of fence": Gap({"```": On("close")}, otherwise=On("close")),
        },
    ),
    aliases=("deepseekv3",),
    # Only </think> does in vLLM 0.33.0 (deepseek_v3), SGLang 0.5.23 (deepseek-v3) and ollama.
    ends_reasoning=(),
)


# <｜tool▁calls▁begin｜> (<｜tool▁call▁begin｜> n <｜tool▁sep｜> J <｜tool▁call▁end｜>)*
# <｜tool▁calls▁end｜>
DEEPSEEK_V31 = Format(
    "deepseek_v31",
    _in_sections(
        *_DEEPSEEK,
        {
            "header": Header(
                {"<｜tool▁sep｜>": On("arguments")},
                forbidden=_NOT_IN_A_NAME,
                read=announce,
                allowed=LINE,
            ),
            "arguments": Json(On("close")),
        },
    ),
    aliases=("deepseekv31",),
    # As for DEEPSEEK_V3.
    ends_reasoning=(),
)


def _plamo(word: str) -> tuple[str, str]:
    return f"<|plamo:begin_tool_{word}:plamo|>", f"<|plamo:end_tool_{word}:plamo|>"


# R(requests) (R(request) R(name) n E(name) R(arguments) <|plamo:constrain|>json<|plamo:msg|> J
# E(arguments) E(request))* E(requests)
# where R(x) is <|plamo:begin_tool_x:plamo|> and E(x) is <|plamo:end_tool_x:plamo|>
PLAMO3 = Format(
    "plamo3",
    _in_sections(
        _plamo("requests"),
        _plamo("request"),
        {
            "header": Gap({_plamo("name")[0]: On("name")}),
            "name": Header(
                {_plamo("name")[1]: On("kind")},
                forbidden=(*_plamo("requests"), *_plamo("request")),
                read=announce,
                allowed=LINE,
            ),
            "kind": Gap(
                {f"{_plamo('arguments')[0]}<|plamo:constrain|>json<|plamo:msg|>": On("arguments")}
            ),
            "arguments": Json(On("end of arguments")),
            "end of arguments": Gap({_plamo("arguments")[1]: On("close")}, otherwise=On("close")),
        },
    ),
    # vLLM 0.33.0 parser/plamo3.py.
    ends_reasoning=(_plamo("requests")[0],),
)
