from mini_vllm.text.events import TextDelta


class ServingPipeline:
    def __init__(self, detokenizer, stop_matcher, tool_parser, *, eos_token_id=257):
        self.finish_reason = None
        self.held = {"detokenizer": b"", "stop_matcher": "", "tool_parser": ""}
        self._bytes = b""

    def feed(self, token_id):
        self._bytes += bytes([token_id]) if 0 <= token_id < 256 else b""
        try:
            text, self._bytes = self._bytes.decode(), b""
        except UnicodeDecodeError:
            return []
        return [TextDelta(text)] if text else []

    def finish(self):
        return []
