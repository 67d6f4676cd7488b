"""Task 1 is done."""

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

WS = " \t\n\r"


class JsonScanner:
    def __init__(self) -> None:
        self.done = False
        self.failed = False

    def feed(self, text: str) -> int:
        raise NotImplementedError("lab-09 task 2: JsonScanner.feed")

    def flush(self) -> bool:
        raise NotImplementedError("lab-09 task 2: JsonScanner.flush")


class StreamingCallParser:
    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag

    @property
    def held(self) -> str:
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.held")

    def feed(self, text: str) -> list[TextDelta | CallStart | ArgsDelta | CallEnd | Malformed]:
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.feed")

    def flush(self) -> list[TextDelta | Malformed]:
        raise NotImplementedError("lab-09 task 4: StreamingCallParser.flush")


class ReasoningSplitter:
    def __init__(
        self, open_tag: str = "<think>", close_tag: str = "</think>", *, starts_inside: bool = False
    ) -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._starts_inside = starts_inside
        self._reset()

    def _reset(self):
        self._state = "inside" if self._starts_inside else "start"
        self._space = []
        self._tag = ""

    @property
    def held(self) -> str:
        return "".join(self._space) + self._tag

    def feed(self, text: str):
        out = []
        for i, c in enumerate(text):
            if self._state == "answer":
                out.append(TextDelta(text[i:]))
                break
            if self._state == "start":
                self._tag += c
                while not self._open_tag.startswith(self._tag) and self._tag[0] in WS:
                    self._space.append(self._tag[0])
                    self._tag = self._tag[1:]
                if self._tag == self._open_tag:
                    self._state, self._space, self._tag = "inside", [], ""
                elif not self._open_tag.startswith(self._tag):
                    out.append(TextDelta(self.held))
                    self._space, self._tag = [], ""
                    self._state = "answer"
                continue
            self._tag += c
            while not self._close_tag.startswith(self._tag):
                out.append(ReasoningDelta(self._tag[0]))
                self._tag = self._tag[1:]
            if self._tag == self._close_tag:
                self._state, self._tag = "answer", ""
        return out

    def flush(self):
        held, inside = self.held, self._state == "inside"
        self._reset()
        if not held:
            return []
        return [ReasoningDelta(held) if inside else TextDelta(held)]
