import json

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Event,
    Malformed,
    ReasoningDelta,
)


class ChatStream:
    def __init__(self, id: str, created: int, model: str, *, include_usage: bool = False) -> None:
        self._id = id
        self._created = created
        self._model = model
        self._include_usage = include_usage
        self._started = False
        self._ended = False
        self._ids = {}

    def _frame(self, delta, reason=None):
        data = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        return ("data: " + json.dumps(data) + "\n\n").encode("utf-8")

    def start(self) -> bytes:
        if self._started:
            return b""
        self._started = True
        return self._frame({"role": "assistant", "content": ""})

    def feed(self, event: Event) -> bytes:
        if isinstance(event, CallStart):
            self._ids[event.index] = event.id if event.id is not None else f"call_{event.index}"
            delta = self._call(event.index, {"name": event.name, "arguments": ""})
        elif isinstance(event, ArgsDelta):
            if not event.text:
                return b""
            delta = self._call(event.index, {"arguments": event.text})
        elif isinstance(event, CallEnd):
            return b""
        elif isinstance(event, Malformed):
            if not event.raw:
                return b""
            delta = {"content": event.raw}
        elif not event.text:
            return b""
        elif isinstance(event, ReasoningDelta):
            delta = {"reasoning_content": event.text}
        else:
            delta = {"content": event.text}
        return self.start() + self._frame(delta)

    def _call(self, index, function):
        # the client needs the id to find the call
        return {
            "tool_calls": [
                {"index": index, "id": self._ids[index], "type": "function", "function": function}
            ]
        }

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
