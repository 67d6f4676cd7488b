import json

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
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

    def _send(self, obj):
        # json.dumps escapes everything that is not ASCII, so every line is safe
        return b"data: %s\n\n" % json.dumps(obj).encode("ascii")

    def _chunk(self, choices, usage=None):
        obj = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
            "choices": choices,
        }
        if self._include_usage:
            obj["usage"] = usage
        return self._send(obj)

    def _delta(self, delta, reason=None):
        return self._chunk([{"index": 0, "delta": delta, "finish_reason": reason}])

    def start(self):
        if self._started or self._ended:
            return b""
        self._started = True
        return self._delta({"role": "assistant", "content": ""})

    def feed(self, event):
        if self._ended or isinstance(event, CallEnd):
            return b""
        if isinstance(event, CallStart):
            id = event.id
            if id is None:
                id = f"call_{event.index}"
            return self.start() + self._delta(
                {
                    "tool_calls": [
                        {
                            "index": event.index,
                            "id": id,
                            "type": "function",
                            "function": {"name": event.name, "arguments": ""},
                        }
                    ]
                }
            )
        text = event.raw if isinstance(event, Malformed) else event.text
        if text == "":
            return b""
        if isinstance(event, ArgsDelta):
            delta = {"tool_calls": [{"index": event.index, "function": {"arguments": text}}]}
        elif isinstance(event, ReasoningDelta):
            delta = {"reasoning_content": text}
        else:
            delta = {"content": text}
        return self.start() + self._delta(delta)

    def finish(self, reason, usage=None):
        if self._ended:
            return b""
        out = self.start() + self._delta({}, reason)
        if self._include_usage and usage is not None:
            out += self._chunk([], usage)
        self._ended = True
        return out + b"data: [DONE]\n\n"

    def error(self, message):
        if self._ended:
            return b""
        self._ended = True
        return (
            self._send({"error": {"message": message, "type": "server_error"}})
            + b"data: [DONE]\n\n"
        )


class SseReader:
    def __init__(self) -> None:
        self._line = bytearray()
        self._values: list[str] = []
        self._is_first_line = True
        self._after_cr = False

    def feed(self, data: bytes) -> list[str]:
        raise NotImplementedError("lab-11 task 4: feed")
