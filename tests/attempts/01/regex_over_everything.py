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
        self._all = ""
        self._done = 0
        self._pending = ""
        self._in_string = False
        self._escaped = False
        self._index = 0

    @property
    def held(self):
        return self._all[self._done :]

    def feed(self, text):
        events = []
        self._all += text
        pattern = re.escape(self._open_tag) + "(.*?)" + re.escape(self._close_tag)
        for match in re.finditer(pattern, self._all, re.DOTALL):
            if match.start() < self._done:
                continue
            self._text(match.start(), events)
            call = json.loads(match[1])
            events.append(ToolCall(self._index, call["name"], json.dumps(call["arguments"])))
            self._index += 1
            self._done = match.end()
        if self._open_tag not in self._all[self._done :]:
            n = held_suffix_len(self._all, self._open_tag)
            self._text(len(self._all) - n, events)
        return events

    def _text(self, end, events):
        if end > self._done:
            events.append(TextDelta(self._all[self._done : end]))
            self._done = end

    def flush(self):
        events = []
        self._text(len(self._all), events)
        return events
