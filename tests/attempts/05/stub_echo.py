from mini_vllm.text.events import TextDelta


class ServingPipeline:
    def __init__(self, detokenizer, stop_matcher, tool_parser, *, eos_token_id=257):
        self.finish_reason = "stop"
        self.held = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}

    def feed(self, token_id):
        return [TextDelta(chr(token_id))] if 0 <= token_id < 256 else []

    def finish(self):
        return []
