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
        raise NotImplementedError("lab-05 task 2: finish_reason")

    @property
    def held(self):
        return {
            "detokenizer": self._detokenizer.held,
            "stop_matcher": self._stop_matcher.held,
            "tool_parser": self._tool_parser.held,
        }

    def feed(self, token_id):
        text = self._detokenizer.feed(token_id)
        text = self._stop_matcher.feed(text)
        return self._tool_parser.feed(text)

    def finish(self):
        raise NotImplementedError("lab-05 task 3: finish")
