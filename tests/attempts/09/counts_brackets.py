"""Brackets are counted outside strings, nothing else is looked at."""

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
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, text: str) -> int:
        if self.done or self.failed:
            return 0
        for n, c in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._in_string:
                self._escaped = c == "\\"
                self._in_string = c != '"'
            elif c == '"':
                self._in_string = True
            elif c in "{[":
                self._depth += 1
            elif c in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.done = True
                    return n + 1
        return len(text)

    def flush(self) -> bool:
        done = self.done
        self.__init__()
        return done


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

    @property
    def held(self) -> str:
        raise NotImplementedError("lab-09 task 1: ReasoningSplitter.held")

    def feed(self, text: str) -> list[ReasoningDelta | TextDelta]:
        raise NotImplementedError("lab-09 task 1: ReasoningSplitter.feed")

    def flush(self) -> list[ReasoningDelta | TextDelta]:
        raise NotImplementedError("lab-09 task 1: ReasoningSplitter.flush")
