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
        return self._pending

    def feed(self, text):
        events = []
        self._pending += text
        while self._step(events):
            pass
        return events

    def flush(self):
        rest, self._pending = self._pending, ""
        self._index = 0
        return [TextDelta(rest)] if rest else []

    def _step(self, events):
        start = self._pending.find(self._open_tag)
        if start < 0:
            n = held_suffix_len(self._pending, self._open_tag)
            start = len(self._pending) - n
            if start:
                events.append(TextDelta(self._pending[:start]))
                self._pending = self._pending[start:]
            return False
        if start:
            events.append(TextDelta(self._pending[:start]))
            self._pending = self._pending[start:]
        end = self._find_close(self._pending)
        if end < 0:
            return False
        source, self._pending = self._pending[:end], self._pending[end:]
        body = source[len(self._open_tag) : -len(self._close_tag)]
        found = self._parse(body)
        if found is None:
            events.append(TextDelta(source))
        else:
            events.append(ToolCall(self._index, *found))
            self._index += 1
        return True

    def _find_close(self, source):
        in_string = escaped = False
        for place in range(len(self._open_tag), len(source)):
            if not in_string and source.startswith(self._close_tag, place):
                return place + len(self._close_tag)
            if escaped:
                escaped = False
            elif source[place] == "\\":
                escaped = in_string
            elif source[place] == '"':
                in_string = not in_string
        return -1

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
