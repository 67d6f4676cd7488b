"""A stub for which every piece is a call."""

from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, ReasoningDelta


class JsonScanner:
    def __init__(self) -> None:
        self.done = False
        self.failed = False

    def feed(self, text):
        self.done = True
        return len(text)

    def flush(self):
        return True


class StreamingCallParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._text = ""

    @property
    def held(self):
        return ""

    def feed(self, text):
        return [CallStart(0, None, "f"), ArgsDelta(0, "{}"), CallEnd(0)]

    def flush(self):
        return []


class ReasoningSplitter:
    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False) -> None:
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._text = ""

    @property
    def held(self):
        return ""

    def feed(self, text):
        return [ReasoningDelta(text)] if text else []

    def flush(self):
        return []
