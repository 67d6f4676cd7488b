import json

from mini_vllm.text.events import TextDelta, ToolCall


def held_suffix_len(text, marker):
    for n in range(min(len(marker) - 1, len(text)), 0, -1):
        if text.endswith(marker[:n]):
            return n
    return 0


class StreamingToolParser:
    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._call = []
        self._pending = ""
        self._in_string = False
        self._escaped = False
        self._index = 0
        self._buf = ""

    def _no_constant(self, name):
        raise ValueError(name)

    def _members(self, body):
        """(key, source of value) of the object, or None."""
        try:
            value = json.loads(body, parse_constant=self._no_constant)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        return value

    def _source(self, body):
        start = body.index("{", body.rindex('"arguments"'))
        depth = 0
        for i in range(start, len(body)):
            if body[i] == "{":
                depth += 1
            elif body[i] == "}":
                depth -= 1
                if depth == 0:
                    return body[start : i + 1]
        return None

    def _judge(self, body):
        value = self._members(body)
        if value is None:
            return TextDelta(self._open_tag + body + self._close_tag)
        if not isinstance(value.get("name"), str) or not isinstance(value.get("arguments"), dict):
            return TextDelta(self._open_tag + body + self._close_tag)
        call = ToolCall(self._index, value["name"], self._source(body))
        self._index += 1
        return call

    @property
    def held(self):
        return self._buf

    def _close_at(self, body):
        inside = esc = False
        for i, c in enumerate(body):
            if esc:
                esc = False
            elif inside:
                if c == "\\":
                    esc = True
                elif c == '"':
                    inside = False
            elif body.startswith(self._close_tag, i):
                return i
            elif c == '"':
                inside = True
        return -1

    def feed(self, text):
        self._buf += text
        out = []
        while self._buf:
            at = self._buf.find(self._open_tag)
            if at == -1:
                n = held_suffix_len(self._buf, self._open_tag)
                cut = len(self._buf) - n
                if cut:
                    out.append(TextDelta(self._buf[:cut]))
                self._buf = self._buf[cut:]
                return out
            if at:
                out.append(TextDelta(self._buf[:at]))
                self._buf = self._buf[at:]
            body = self._buf[len(self._open_tag) :]
            end = self._close_at(body)
            if end == -1:
                return out
            out.append(self._judge(body[:end]))
            self._buf = body[end + len(self._close_tag) :]
        return out

    def flush(self):
        out = [TextDelta(self._buf)] if self._buf else []
        self._buf = ""
        self._index = 0
        return out
