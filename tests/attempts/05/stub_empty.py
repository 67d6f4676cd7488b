class ServingPipeline:
    def __init__(self, detokenizer, stop_matcher, tool_parser, *, eos_token_id=257):
        pass

    finish_reason = None
    held = None

    def feed(self, token_id):
        return []

    def finish(self):
        return []
