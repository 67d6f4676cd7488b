import json
import re

from mini_vllm.text.events import TextDelta, ToolCall


def held_suffix_len(text, marker):
    for n in range(len(marker) - 1, 0, -1):
        if text.endswith(marker[:n]):
            return n
    return 0


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._call = []
        self._pending = ""
        self._in_string = False
        self._escaped = False
        self._index = 0

    held = ""

    def feed(self, text):
        events = []
        pattern = re.escape(self._open_tag) + "(.*?)" + re.escape(self._close_tag)
        at = 0
        for match in re.finditer(pattern, text, re.DOTALL):
            if match.start() > at:
                events.append(TextDelta(text[at : match.start()]))
            try:
                call = json.loads(match[1])
                events.append(ToolCall(self._index, call["name"], json.dumps(call["arguments"])))
                self._index += 1
            except (ValueError, KeyError, TypeError):
                events.append(TextDelta(match[0]))
            at = match.end()
        if text[at:]:
            events.append(TextDelta(text[at:]))
        return events

    def flush(self):
        return []
