import json

from mini_vllm.text.events import (
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
        else:
            text = ""
        if text == "":
            return b""
        return self.start() + self._chunk(delta)

    def finish(self, reason, usage=None):
        raise NotImplementedError("lab-11 task 3: finish")

    def error(self, message):
        raise NotImplementedError("lab-11 task 3: error")

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
        return self._frame(chunk)

    def _frame(self, data):
        text = json.dumps(data)
        return ("data: " + text + "\n\n").encode()


class SseReader:
    def __init__(self):
        self._line = []
        self._values = []
        self._first = True
        self._cr = False

    def feed(self, data):
        raise NotImplementedError("lab-11 task 4: feed")
