from mini_vllm.text.events import TextDelta, ToolCall


class ServingPipeline:
    def __init__(self, detokenizer, stop_matcher, tool_parser, *, eos_token_id=257):
        self._detokenizer = detokenizer
        self._stop_matcher = stop_matcher
        self._tool_parser = tool_parser
        self._eos_token_id = eos_token_id
        self.finish_reason = None
        self._called = False
        self._garbage = [TextDelta("?")]

    @property
    def held(self):
        return {
            "detokenizer": self._detokenizer.held,
            "stop_matcher": self._stop_matcher.held,
            "tool_parser": self._tool_parser.held,
        }

    def feed(self, token_id):
        garbage, self._garbage = self._garbage, []
        return garbage + self._feed(token_id)

    def finish(self):
        return [] if self.finish_reason else self._end("length")

    def _feed(self, token_id):
        if self.finish_reason:
            return []
        if token_id == self._eos_token_id:
            return self._end("stop")
        events = self._parse(self._stop_matcher.feed(self._detokenizer.feed(token_id)))
        if self._stop_matcher.matched is not None:
            events += self._end("stop")
        return events

    def _end(self, reason):
        events = self._parse(self._stop_matcher.feed(self._detokenizer.flush()))
        events += self._parse(self._stop_matcher.flush())
        events += self._noted(self._tool_parser.flush())
        if self._stop_matcher.matched is not None:
            reason = "stop"
        self.finish_reason = "tool_calls" if reason == "stop" and self._called else reason
        return events

    def _parse(self, text):
        return self._noted(self._tool_parser.feed(text))

    def _noted(self, events):
        self._called = self._called or any(isinstance(event, ToolCall) for event in events)
        return events
