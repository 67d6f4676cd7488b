from mini_vllm.text.events import TextDelta


def held_suffix_len(text, marker):
    return 0


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._call = []
        self._pending = ""
        self._in_string = False
        self._escaped = False
        self._index = 0

    held = ""

    def feed(self, text):
        return [TextDelta(text)] if text else []

    def flush(self):
        return []
