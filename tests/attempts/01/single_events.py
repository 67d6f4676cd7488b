import json

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

    @property
    def held(self):
        return "".join(self._call) + self._pending

    def feed(self, text):
        events = []
        shown = []
        for char in text:
            if self._call:
                self._in_call(char, events)
            else:
                self._outside(char, shown, events)
        if shown:
            events.append(TextDelta("".join(shown)))
        return events[0] if len(events) == 1 else events

    def flush(self):
        rest = self.held
        self._call = []
        self._pending = ""
        self._in_string = self._escaped = False
        self._index = 0
        return [TextDelta(rest)] if rest else []

    def _outside(self, char, shown, events):
        if not self._pending and char != self._open_tag[0]:
            shown.append(char)
            return
        self._pending += char
        if self._pending == self._open_tag:
            if shown:
                events.append(TextDelta("".join(shown)))
                shown.clear()
            self._call = [self._pending]
            self._pending = ""
            self._in_string = self._escaped = False
            return
        n = len(self._pending)
        while not self._open_tag.startswith(self._pending[len(self._pending) - n :]):
            n -= 1
        keep = len(self._pending) - n
        if keep:
            shown.append(self._pending[:keep])
            self._pending = self._pending[keep:]

    def _in_call(self, char, events):
        if self._in_string:
            self._take(char)
            return
        self._pending += char
        while self._pending:
            if not self._in_string and self._close_tag.startswith(self._pending):
                if self._pending == self._close_tag:
                    self._close(events)
                return
            self._take(self._pending[0])
            self._pending = self._pending[1:]

    def _take(self, char):
        self._call.append(char)
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = self._in_string
        elif char == '"':
            self._in_string = not self._in_string

    def _close(self, events):
        source = "".join(self._call) + self._pending
        self._call = []
        self._pending = ""
        found = self._parse(source[len(self._open_tag) : -len(self._close_tag)])
        if found is None:
            events.append(TextDelta(source))
        else:
            events.append(ToolCall(self._index, *found))
            self._index += 1

    def _parse(self, body):
        try:
            call = json.loads(body, parse_constant=self._refuse)
        except (ValueError, RecursionError):
            return None
        if not isinstance(call, dict):
            return None
        if not isinstance(call.get("name"), str) or not isinstance(call.get("arguments"), dict):
            return None
        return call["name"], self._source(body)

    def _refuse(self, constant):
        raise ValueError(constant)

    def _source(self, body):
        decode = json.JSONDecoder().raw_decode
        at = body.index("{") + 1
        source = ""
        while True:
            while body[at] in " \t\r\n,":
                at += 1
            if body[at] == "}":
                return source
            key, at = decode(body, at)
            while body[at] in " \t\r\n:":
                at += 1
            _, end = decode(body, at)
            if key == "arguments":
                source = body[at:end]
            at = end
