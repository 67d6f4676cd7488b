def held_suffix_len(text, marker):
    return None


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")

    held = None

    def feed(self, text):
        return None

    def flush(self):
        return None
