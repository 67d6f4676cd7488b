"""Harmony, the format of gpt-oss: messages in channels, which are reasoning, calls and answers.

The comment above the table is its grammar; J is a JSON object.
"""

import re

from mini_vllm.text.events import ReasoningDelta
from mini_vllm.text.states.basic import Broken, Gap, Header, Json, Prose
from mini_vllm.text.stream_parser import Format, On, StreamParser

_HARMONY_RECIPIENT = re.compile(r"to=(\S+?)(?=\s|<\||$)")
_HARMONY_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
# The built-in tools, as vLLM 0.33.0 lists them in harmony_utils.py, and recipients without a tool.
_NO_FUNCTION = re.compile(r"(?:python|browser|container)(?:\..*)?|assistant|functions\.")


def _harmony_header(parser: StreamParser, header: str, marker: str) -> str | None:
    recipient = _HARMONY_RECIPIENT.search(header)
    if recipient and not _NO_FUNCTION.fullmatch(recipient[1]):
        parser.announce(recipient[1].removeprefix("functions."))
        return "arguments"
    channel = _HARMONY_CHANNEL.findall(header)[-1:]
    if channel == ["final"]:
        return "message"
    return "reasoning" if recipient or channel == ["analysis"] else "message"


_HARMONY_END = {
    "<|end|>": On("content", "close"),
    "<|return|>": On("content", "close"),
    "<|call|>": On("content", "close"),
    "<|start|>": On("header", "open"),
}

# (<|start|>role)? <|channel|>c (to=functions.n)? (<|constrain|>json)? <|message|> text <|end|>
# where <|call|> or <|return|> may replace <|end|>, and the text of a call is J. The recipient may
# precede the channel, and a text may begin with the recipient, since prompts end with the role. A
# message to a built-in tool or to the assistant itself is for neither the reader nor the client's
# functions: it is reasoning, and its text, which may be code, is unchanged. In the channel
# `final`, however, such a message is for the reader.
HARMONY = Format(
    "harmony",
    {
        "start": Gap({"to=": On("header", keep=True)}, otherwise=On("content", "text")),
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
                "<|start|>": On("content", "end", keep=True),
                "<|channel|>": On("content", "end", keep=True),
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
    start="start",
    aliases=(
        "openai",
        "gpt-oss",
    ),
    marks_reasoning=True,
)
