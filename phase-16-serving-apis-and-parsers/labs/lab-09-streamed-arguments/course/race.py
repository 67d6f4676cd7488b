"""The race of lab 09: 20,000 pieces of four characters, text and calls with long arguments.

The naive version reads the whole of an unfinished call again for each piece.
"""

import json
import re

from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, TextDelta

UNIT = "piece"
CLASS = "StreamingCallParser"
ARGUMENTS = ()
NAIVE = "search of the whole call"

_NAME = re.compile(r'<tool_call>\{"name": "(\w+)"')
_ARGUMENTS = ', "arguments": '
_STRING = re.compile(r'"(?:[^"\\]|\\.)*("|$)')


def workload() -> list[str]:
    """Return the pieces."""
    code = "def f(x):\n    return {'a': [x, \"<b>\"]}  # 你好\n" * 8
    call = {"name": "write", "arguments": {"path": "f.py", "code": code, "mode": [1, {}]}}
    text = f"Let me write a < b.\n<tool_call>{json.dumps(call)}</tool_call>\nDone.\n" * 130
    return [text[start : start + 4] for start in range(0, len(text), 4)][:20_000]


class StreamingCallParser:
    """Read the whole unfinished call again for each piece, and emit its new characters.

    But: it accepts calls only in the form in which `json.dumps` writes them.
    """

    def __init__(self) -> None:
        self._text = ""
        self._name: str | None = None
        self._sent = 0
        self._index = 0

    @property
    def held(self) -> str:
        """The whole unfinished call, or the possible beginning of its tag."""
        return self._text

    def feed(self, text: str) -> list[TextDelta | CallStart | ArgsDelta | CallEnd]:
        """Feed a piece; return the events that are now certain."""
        self._text += text
        events: list[TextDelta | CallStart | ArgsDelta | CallEnd] = []
        if "<tool_call>" in self._text:
            self._call(events)
        if "<tool_call>" not in self._text:
            shown = self._text
            for size in range(10, 0, -1):
                if shown.endswith("<tool_call>"[:size]):
                    shown = shown[:-size]
                    break
            if shown:
                events.append(TextDelta(shown))
                self._text = self._text[len(shown) :]
        return events

    def flush(self) -> list[TextDelta]:
        """End the stream; return the held text."""
        text, self._text = self._text, ""
        return [TextDelta(text)] if text else []

    def _call(self, events: list[TextDelta | CallStart | ArgsDelta | CallEnd]) -> None:
        before, _, _ = self._text.partition("<tool_call>")
        if before:
            events.append(TextDelta(before))
            self._text = self._text[len(before) :]
        name = _NAME.match(self._text)
        if name and self._name is None:
            self._name = name[1]
            events.append(CallStart(self._index, None, name[1]))
        if not name or not self._text.startswith(_ARGUMENTS, name.end()):
            return
        source = self._text[name.end() + len(_ARGUMENTS) :]
        end = _end(source)
        if end > self._sent:
            events.append(ArgsDelta(self._index, source[self._sent : end]))
            self._sent = end
        if source[end:].startswith("}</tool_call>"):
            events.append(CallEnd(self._index))
            self._text = source[end + len("}</tool_call>") :]
            self._name, self._sent = None, 0
            self._index += 1


def _end(source: str) -> int:
    """Return the place after the object's last brace, or the length if the object is unfinished."""
    bare = _STRING.sub(lambda string: "x" * len(string[0]), source)
    depth = 0
    for place, char in enumerate(bare):
        depth += (char in "{[") - (char in "}]")
        if depth == 0:
            return place + 1
    return len(source)
