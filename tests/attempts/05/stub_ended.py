class ServingPipeline:
    def __init__(self, detokenizer, stop_matcher, tool_parser, *, eos_token_id=257):
        self.finish_reason = "stop"
        self.held = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}

    def feed(self, token_id):
        return []

    def finish(self):
        return []
