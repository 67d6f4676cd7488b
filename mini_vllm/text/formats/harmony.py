"""Harmony, the format of gpt-oss: messages in channels, which are reasoning, calls and answers.

Its grammar stands above the table; J is a JSON object.
"""

import re

from mini_vllm.text.events import ReasoningDelta
from mini_vllm.text.parser_states import Broken, Gap, Header, Json, Prose
from mini_vllm.text.stream_parser import Format, On, StreamParser

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
    aliases=(
        "openai",
        "gpt-oss",
    ),
    marks_reasoning=True,
)
