import json

from mini_vllm.text.events import (
    Event,
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

    def _frame(self, delta, finish_reason=None):
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        }
        return f"data: {json.dumps(chunk)}\n\n"

    def start(self):
        if self._started:
            return ""
        self._started = True
        return self._frame({"role": "assistant", "content": ""})

    def feed(self, event: Event):
        if isinstance(event, TextDelta) and event.text:
            return self.start() + self._frame({"content": event.text})
        if isinstance(event, ReasoningDelta) and event.text:
            return self.start() + self._frame({"reasoning_content": event.text})
        return ""

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
