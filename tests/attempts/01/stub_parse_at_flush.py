import json
import re

from mini_vllm.text.events import TextDelta, ToolCall

SPACE = re.compile(r"[ \t\n\r]*")


def held_suffix_len(text, marker):
    return 0


def parse(body):
    """Return the name and the source of the arguments, or None."""
    try:
        call = json.loads(body, parse_constant=refuse)
        name, arguments = call["name"], call["arguments"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    position, source = body.index("{") + 1, ""
    decoder = json.JSONDecoder()
    while body[position - 1] != "}":
        position = SPACE.match(body, position).end()
        key, position = decoder.raw_decode(body, position)
        start = SPACE.match(body, SPACE.match(body, position).end() + 1).end()
        _, end = decoder.raw_decode(body, start)
        source = body[start:end] if key == "arguments" else source
        position = SPACE.match(body, end).end() + 1
    return name, source


def refuse(constant):
    raise ValueError(constant)


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._open_tag = open_tag
        string = r'"(?:[^"\\]|\\.)*"'
        tags = re.escape(open_tag), re.escape(close_tag)
        self._call = re.compile(f'{tags[0]}((?:[^"]|{string})*?){tags[1]}', re.DOTALL)
        self.held = ""
        self._index = 0

    def feed(self, text):
        self.held += text
        return []

    def flush(self):
        events = []
        self._take(events)
        self._show(len(self.held), events)
        self._index = 0
        return events

    def _take(self, events):
        while self._open_tag in self.held:
            start = self.held.index(self._open_tag)
            self._show(start, events)
            whole = self._call.match(self.held)
            if whole is None:
                return
            call = parse(whole[1])
            events.append(TextDelta(whole[0]) if call is None else ToolCall(self._index, *call))
            self._index += call is not None
            self.held = self.held[whole.end() :]
        begun = range(min(len(self.held), len(self._open_tag) - 1), 0, -1)
        kept = next((n for n in begun if self.held.endswith(self._open_tag[:n])), 0)
        self._show(len(self.held) - kept, events)

    def _show(self, end, events):
        if end:
            events.append(TextDelta(self.held[:end]))
        self.held = self.held[end:]
