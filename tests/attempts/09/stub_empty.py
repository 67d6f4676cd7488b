"""A stub that returns nothing."""


class JsonScanner:
    def __init__(self) -> None:
        self.done = False
        self.failed = False

    def feed(self, text):
        return 0

    def flush(self):
        return False


class StreamingCallParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._text = ""

    @property
    def held(self):
        return ""

    def feed(self, text):
        return []

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
        return []

    def flush(self):
        return []
