from mini_vllm.text.events import TextDelta


class ServingPipeline:
    def __init__(self, detokenizer, stop_matcher, tool_parser, *, eos_token_id=257):
        self.finish_reason = None
        self.held = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}

    def feed(self, token_id):
        events = [] if self.finish_reason else [TextDelta(chr(token_id % 256))]
        self.finish_reason = "stop"
        return events

    def finish(self):
        self.finish_reason = self.finish_reason or "length"
        return []
