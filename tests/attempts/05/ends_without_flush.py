from mini_vllm.text.events import ToolCall


class ServingPipeline:
    def __init__(self, detokenizer, stop_matcher, tool_parser, *, eos_token_id=257):
        self._detokenizer = detokenizer
        self._stop_matcher = stop_matcher
        self._tool_parser = tool_parser
        self._eos_token_id = eos_token_id
        self._finish_reason = None
        self._called = False

    @property
    def finish_reason(self):
        return self._finish_reason

    @property
    def held(self):
        return {
            "detokenizer": self._detokenizer.held,
            "stop_matcher": self._stop_matcher.held,
            "tool_parser": self._tool_parser.held,
        }

    def feed(self, token_id):
        if self._finish_reason:
            return []
        if token_id == self._eos_token_id:
            self._finish_reason = "tool_calls" if self._called else "stop"
            return []
        text = self._stop_matcher.feed(self._detokenizer.feed(token_id))
        events = self._tool_parser.feed(text)
        self._called = self._called or any(isinstance(e, ToolCall) for e in events)
        if self._stop_matcher.matched:
            self._finish_reason = "tool_calls" if self._called else "stop"
        return events

    def finish(self):
        if not self._finish_reason:
            self._finish_reason = "length"
        return []
