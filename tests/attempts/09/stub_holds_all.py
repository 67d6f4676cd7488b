"""A stub that holds everything until flush."""

from mini_vllm.text.events import TextDelta


class JsonScanner:
    def __init__(self) -> None:
        self.done = False
        self.failed = False

    def feed(self, text):
        return len(text)

    def flush(self):
        return False


class StreamingCallParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._text = ""

    @property
    def held(self):
        return self._text

    def feed(self, text):
        self._text += text
        return []

    def flush(self):
        text, self._text = self._text, ""
        return [TextDelta(text)] if text else []


class ReasoningSplitter:
    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False) -> None:
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._text = ""

    @property
    def held(self):
        return self._text

    def feed(self, text):
        self._text += text
        return []

    def flush(self):
        text, self._text = self._text, ""
        return [TextDelta(text)] if text else []
