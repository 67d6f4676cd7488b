"""The race of lab 01: a long answer whose last call writes a file.

The naive version is a usual first attempt: it keeps the answer, and searches all of it again for
each piece.
"""

import json
import random
import re

from mini_vllm.text.events import TextDelta, ToolCall

UNIT = "piece"
CLASS = "StreamingToolParser"
ARGUMENTS = ()
NAIVE = "search of the whole answer"
_WORDS = [
    "if ",
    "x ",
    "< ",
    "y",
    ":",
    "\\n",
    "    ",
    "print",
    "(",
    '\\"',
    "naïve ",
    "→",
    ")",
    "</b>",
]


def workload() -> list[str]:
    """Return 20,000 pieces: text in which tags seem to begin, short calls, and one long call."""
    generator = random.Random(1)
    words = ["the ", "model ", "says ", "<b", "> ", "<", "tool", "s ", "\n", "naïve ", "→ "]
    pieces = []
    for number in range(50):
        pieces += generator.choices(words, k=340)
        pieces += [
            "<tool",
            "_call",
            ">",
            '{"name": "find", ',
            f'"arguments": {{"n": {number}}}',
            "}",
        ]
        pieces += ["</tool", "_call", ">", "\n"]
    pieces += ["<tool_call>", '{"name": "write", "arguments": {"code": "']
    pieces += generator.choices(_WORDS, k=2_496)
    return [*pieces, '"}}', "</tool_call>"]


class StreamingToolParser:
    """Keep all text after the last call, and search it for a whole call after each piece."""

    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        self._open_tag = open_tag
        tags = re.escape(open_tag), re.escape(close_tag)
        self._pattern = re.compile("{}(.*?){}".format(*tags), re.DOTALL)
        self._text = ""
        self._shown = 0
        self._index = 0

    @property
    def held(self) -> str:
        """The text not yet emitted, whether it can be part of a tag or not."""
        return self._text[self._shown :]

    def feed(self, text: str) -> list[TextDelta | ToolCall]:
        """Feed a piece; return complete calls, and the text less a window for a possible tag."""
        self._text += text
        events: list[TextDelta | ToolCall] = []
        while match := self._pattern.search(self._text):
            events += self._show(match.start())
            call = json.loads(match[1])
            start = match[1].index('"arguments": ') + len('"arguments": ')
            arguments = match[1][start : match[1].rindex("}")]
            events.append(ToolCall(self._index, call["name"], arguments))
            self._index += 1
            self._text, self._shown = self._text[match.end() :], 0
        start = self._text.find(self._open_tag)
        window = len(self._text) - len(self._open_tag) + 1
        return events + self._show(max(self._shown, window if start < 0 else start))

    def flush(self) -> list[TextDelta | ToolCall]:
        """Return the held text."""
        return self._show(len(self._text))

    def _show(self, until: int) -> list[TextDelta | ToolCall]:
        text, self._shown = self._text[self._shown : until], until
        return [TextDelta(text)] if text else []
