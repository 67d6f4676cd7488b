from mini_vllm.text.events import (
    ReasoningDelta,
    TextDelta,
)


class ReasoningSplitter:
    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._starts_inside = starts_inside
        self._inside = starts_inside
        self._held = ""

    @property
    def held(self):
        return self._held

    def feed(self, text):
        events = []
        text = self._held + text
        self._held = ""
        while text:
            tag = self._close_tag if self._inside else self._open_tag
            kind = ReasoningDelta if self._inside else TextDelta
            before, found, after = text.partition(tag)
            if found:
                if before.strip():
                    events.append(kind(before))
                self._inside = not self._inside
                text = after
                continue
            keep = 0
            for n in range(1, len(tag)):
                if text.endswith(tag[:n]):
                    keep = n
            if len(text) > keep:
                events.append(kind(text[: len(text) - keep]))
            self._held = text[len(text) - keep :]
            break
        return events

    def flush(self):
        held = self._held
        self._held = ""
        inside, self._inside = self._inside, self._starts_inside
        if held:
            return [ReasoningDelta(held)] if inside else [TextDelta(held)]
        return []


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
