import json
import re

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

SURROGATE = re.compile("[\ud800-\udfff]")


class ChatStream:
    def __init__(self, id: str, created: int, model: str, *, include_usage: bool = False) -> None:
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._started = False
        self._ended = False

    def _data(self, value) -> bytes:
        return b"data: " + json.dumps(self._clean(value)).encode() + b"\n\n"

    def _clean(self, value):
        if isinstance(value, str):
            return SURROGATE.sub("\ufffd", value)
        if isinstance(value, dict):
            return {key: self._clean(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._clean(item) for item in value]
        return value

    def _chunk(self, delta, reason=None, usage=None) -> bytes:
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        if self._include_usage:
            chunk["usage"] = usage
        return self._data(chunk)

    def start(self) -> bytes:
        if self._started or self._ended:
            return b""
        self._started = True
        return self._chunk({"role": "assistant", "content": ""})

    def feed(self, event: Event) -> bytes:
        if self._ended:
            return b""
        match event:
            case (
                TextDelta(text="")
                | ReasoningDelta(text="")
                | ArgsDelta(text="")
                | Malformed(raw="")
            ):
                return b""
            case CallEnd():
                return b""
            case TextDelta(text):
                delta = {"content": text}
            case ReasoningDelta(text):
                delta = {"reasoning_content": text}
            case Malformed(raw=raw):
                delta = {"content": raw}
            case ArgsDelta(index, text):
                delta = {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
            case CallStart(index, id, name):
                id = f"call_{index}" if id is None else id
                function = {"name": name, "arguments": ""}
                call = {"index": index, "id": id, "type": "function", "function": function}
                delta = {"tool_calls": [call]}
        return self.start() + self._chunk(delta)

    def finish(self, reason: str, usage: dict[str, int] | None = None) -> bytes:
        if self._ended:
            return b""
        frames = self.start() + self._chunk({}, reason, usage)
        self._ended = True
        return frames + b"data: [DONE]\n\n"

    def error(self, message: str) -> bytes:
        if self._ended:
            return b""
        self._ended = True
        error = {"error": {"message": message, "type": "server_error"}}
        return self._data(error) + b"data: [DONE]\n\n"


class SseReader:
    def __init__(self) -> None:
        self._line = bytearray()
        self._values: list[str] = []
        self._is_first_line = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[str]:
        raise NotImplementedError("lab-11 task 4: feed")
