import json

from mini_vllm.text.events import (
    ArgsDelta,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
    TextDelta,
)


class ChatStream:
    def __init__(self, id: str, created: int, model: str, *, include_usage: bool = False) -> None:
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._started = False
        self._ended = False

    def _frame(self, delta, reason=None):
        if not self._started:
            # the role is in the first delta only
            delta = {"role": "assistant", **delta}
            self._started = True
        data = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        return b"data: " + json.dumps(data).encode() + b"\n\n"

    def start(self) -> bytes:
        if self._started:
            return b""
        return self._frame({"content": ""})

    def feed(self, event: Event) -> bytes:
        match event:
            case TextDelta(text) if text:
                return self._frame({"content": text})
            case ReasoningDelta(text) if text:
                return self._frame({"reasoning_content": text})
            case CallStart(index, id, name):
                call = {"index": index, "id": id or f"call_{index}", "type": "function"}
                call["function"] = {"name": name, "arguments": ""}
                return self._frame({"tool_calls": [call]})
            case ArgsDelta(index, text) if text:
                call = {"index": index, "function": {"arguments": text}}
                return self._frame({"tool_calls": [call]})
            case Malformed(_, raw, _) if raw:
                return self._frame({"content": raw})
        return b""

    def finish(self, reason, usage=None):
        raise NotImplementedError("lab-11 task 3: finish")

    def error(self, message):
        raise NotImplementedError("lab-11 task 3: error")


class SseReader:
    def __init__(self) -> None:
        self._line = bytearray()
        self._values: list[str] = []
        self._is_first_line = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[str]:
        raise NotImplementedError("lab-11 task 4: feed")
