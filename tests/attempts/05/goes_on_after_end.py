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
        if token_id == self._eos_token_id:
            return self._end("stop")
        text = self._detokenizer.feed(token_id)
        events = self._parse(self._stop_matcher.feed(text))
        if self._stop_matcher.matched is not None:
            events += self._end("stop")
        return events

    def finish(self):
        return self._end("length")

    def _end(self, reason):
        events = self._parse(self._stop_matcher.feed(self._detokenizer.flush()))
        events += self._parse(self._stop_matcher.flush())
        events += self._note(self._tool_parser.flush())
        if self._stop_matcher.matched is not None:
            reason = "stop"
        if reason == "stop" and self._called:
            reason = "tool_calls"
        self._finish_reason = reason
        return events

    def _parse(self, text):
        return self._note(self._tool_parser.feed(text))

    def _note(self, events):
        for event in events:
            if isinstance(event, ToolCall):
                self._called = True
        return events
