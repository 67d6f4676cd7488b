"""A regular expression over what has come so far, at each piece."""

import re

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
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
        self._text = ""
        self._name = ""
        self._sent = 0
        self._index = 0

    @property
    def held(self) -> str:
        return self._text

    def feed(self, text: str):
        self._text += text
        events = []
        place = self._text.find(self._open_tag)
        if place < 0:
            text, self._text = self._text, ""
            return [TextDelta(text)] if text else []
        if place:
            events.append(TextDelta(self._text[:place]))
            self._text = self._text[place:]
        name = re.search(r'"name":\s*"(.*?)"', self._text)
        if name and not self._name:
            self._name = name[1]
            events.append(CallStart(self._index, None, self._name))
        arguments = re.search(r'"arguments":\s*(\{.*)', self._text, re.DOTALL)
        if self._name and arguments:
            source = arguments[1].split(self._close_tag)[0].rstrip()
            if source.endswith("}"):
                source = source[:-1]
            if source[self._sent :]:
                events.append(ArgsDelta(self._index, source[self._sent :]))
                self._sent = len(source)
        if self._close_tag in self._text:
            events.append(CallEnd(self._index))
            _, self._text = self._text.split(self._close_tag, 1)
            self._name, self._sent = "", 0
            self._index += 1
        return events

    def flush(self):
        text, self._text = self._text, ""
        return [TextDelta(text)] if text else []


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
