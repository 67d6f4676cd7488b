from mini_vllm.text.events import (
    ReasoningDelta,
    TextDelta,
)


class ReasoningSplitter:
    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self.open_tag = open_tag
        self.close_tag = close_tag
        self.starts_inside = starts_inside
        self.reset()

    def reset(self):
        self.state = "reasoning" if self.starts_inside else "start"
        self.buffer = ""

    @property
    def held(self):
        return self.buffer

    def feed(self, text):
        out = []
        self.buffer += text
        if self.state == "start":
            stripped = self.buffer.lstrip(" \t\r\n")
            if stripped.startswith(self.open_tag):
                self.buffer = stripped[len(self.open_tag) :]
                self.state = "reasoning"
            elif not self.open_tag.startswith(stripped):
                self.state = "text"
        if self.state == "reasoning" and self.close_tag in self.buffer:
            reasoning, self.buffer = self.buffer.split(self.close_tag, 1)
            if reasoning:
                out.append(ReasoningDelta(reasoning))
            self.state = "text"
        if self.state == "text" and self.buffer:
            out.append(TextDelta(self.buffer))
            self.buffer = ""
        return out

    def flush(self):
        out = []
        if self.buffer:
            out = [
                ReasoningDelta(self.buffer) if self.state == "reasoning" else TextDelta(self.buffer)
            ]
        self.reset()
        return out


class JsonScanner:
    def __init__(self):
        self.done = False
        self.failed = False

    def feed(self, text):
        raise NotImplementedError("lab-09 task 2: JsonScanner.feed")

    def flush(self):
        raise NotImplementedError("lab-09 task 2: JsonScanner.flush")


class StreamingCallParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag

    @property
    def held(self):
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.held")

    def feed(self, text):
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.feed")

    def flush(self):
        raise NotImplementedError("lab-09 task 4: StreamingCallParser.flush")
