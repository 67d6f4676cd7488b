import json

from mini_vllm.text.events import (
    ArgsDelta,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)


class ChatStream:
    def __init__(self, id, created, model, *, include_usage=False):
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._started = False
        self._ended = False

    def start(self):
        if self._started or self._ended:
            return b""
        self._started = True
        return self._chunk({"role": "assistant", "content": ""})

    def feed(self, event):
        if self._ended:
            return b""
        if isinstance(event, TextDelta):
            delta = {"content": event.text}
            text = event.text
        elif isinstance(event, ReasoningDelta):
            delta = {"reasoning_content": event.text}
            text = event.text
        elif isinstance(event, Malformed):
            delta = {"content": event.raw}
            text = event.raw
        elif isinstance(event, CallStart):
            text = "call"
            call_id = f"call_{event.index}" if event.id is None else event.id
            function = {"name": event.name, "arguments": ""}
            call = {"index": event.index, "id": call_id, "type": "function", "function": function}
            delta = {"tool_calls": [call]}
        elif isinstance(event, ArgsDelta):
            text = event.text
            call = {"index": event.index, "function": {"arguments": event.text}}
            delta = {"tool_calls": [call]}
        else:
            text = ""
        if text == "":
            return b""
        return self.start() + self._chunk(delta)

    def finish(self, reason, usage=None):
        if self._ended:
            return b""
        result = self.start() + self._chunk({}, reason)
        if self._include_usage and usage is not None:
            result += self._frame({**self._head(), "choices": [], "usage": usage})
        self._ended = True
        return result + b"data: [DONE]\n\n"

    def error(self, message):
        if self._ended:
            return b""
        self._ended = True
        error = {"message": message, "type": "server_error"}
        return self._frame({"error": error}) + b"data: [DONE]\n\n"

    def _head(self):
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
        }

    def _chunk(self, delta, reason=None):
        chunk = self._head()
        chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": reason}]
        if self._include_usage:
            chunk["usage"] = None
        return self._frame(chunk)

    def _frame(self, data):
        text = json.dumps(clean(data))
        return ("data: " + text + "\n\n").encode()


def clean(value):
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(char) < 0xE000 else char for char in value)
    if isinstance(value, dict):
        return {key: clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value


class SseReader:
    def __init__(self):
        self._line = []
        self._values = []
        self._first = True
        self._cr = False

    def feed(self, data):
        found = []
        for byte in data:
            if byte == 10 and self._cr:
                self._cr = False
                continue
            self._cr = byte == 13
            if byte in (10, 13):
                found += self._end_of_line(bytes(self._line))
                self._line = []
            else:
                self._line.append(byte)
        return found

    def _end_of_line(self, line):
        if self._first:
            self._first = False
        if line == b"":
            if not self._values:
                return []
            event = "\n".join(self._values)
            self._values = []
            return [event]
        name, _, value = line.partition(b":")
        if name == b"data":
            if value[:1] == b" ":
                value = value[1:]
            self._values.append(value.decode("utf-8", "replace"))
        return []
