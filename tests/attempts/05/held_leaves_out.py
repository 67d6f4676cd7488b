from typing import Any

from mini_vllm.text.events import ToolCall


class ServingPipeline:
    def __init__(
        self, detokenizer: Any, stop_matcher: Any, tool_parser: Any, *, eos_token_id: int = 257
    ) -> None:
        self._detokenizer = detokenizer
        self._stop_matcher = stop_matcher
        self._tool_parser = tool_parser
        self._eos_token_id = eos_token_id
        self._finish_reason: str | None = None
        self._called = False

    @property
    def finish_reason(self):
        return self._finish_reason

    @property
    def held(self):
        layers = {
            "detokenizer": self._detokenizer.held,
            "stop_matcher": self._stop_matcher.held,
            "tool_parser": self._tool_parser.held,
        }
        return {k: v for k, v in layers.items() if v}

    def feed(self, token_id):
        if self._finish_reason is not None:
            return []
        if token_id == self._eos_token_id:
            return self._end("stop")
        events = self._pass(self._detokenizer.feed(token_id))
        if self._stop_matcher.matched is not None:
            events += self._end("stop")
        return events

    def finish(self):
        if self._finish_reason is not None:
            return []
        return self._end("length")

    def _pass(self, text):
        events = self._tool_parser.feed(self._stop_matcher.feed(text))
        if any(isinstance(e, ToolCall) for e in events):
            self._called = True
        return events

    def _end(self, reason):
        events = self._drain()
        if self._stop_matcher.matched is not None:
            reason = "stop"
        if reason == "stop" and self._called:
            reason = "tool_calls"
        self._finish_reason = reason
        return events

    def _drain(self):
        events = self._pass(self._detokenizer.flush())
        rest = self._tool_parser.feed(self._stop_matcher.flush())
        rest += self._tool_parser.flush()
        self._called = self._called or any(isinstance(e, ToolCall) for e in rest)
        return events + rest
