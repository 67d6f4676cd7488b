from mini_vllm.text.events import TextDelta


def held_suffix_len(text, marker):
    return len(text)


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self.held = ""

    def feed(self, text):
        self.held += text
        return []

    def flush(self):
        text, self.held = self.held, ""
        return [TextDelta(text)] if text else []
