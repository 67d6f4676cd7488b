"""The engine's tag and JSON scanners in the shape of lab 01.

The engine's own parser streams arguments as they arrive, so it answers otherwise than lab 01; what
it is made of does not. But: a close tag that holds a quote is looked for character by character.
"""

import json
import re

from mini_vllm.text.events import TextDelta, ToolCall
from mini_vllm.text.json_scanner import JsonScanner
from mini_vllm.text.markers import MarkerScanner

_JSON = JsonScanner()
_VALUE = json.JSONDecoder()
_SPACE = " \t\n\r"
# A scanner copies the rest of its text at each marker.
_MOST_TEXT = 4_096
_IN_STRING = re.compile(r'(?:[^"\\]|\\[\s\S])*')


def held_suffix_len(text: str, marker: str) -> int:
    """Return how much at the end of a text may begin a marker."""
    return next(n for n in range(len(marker) - 1, -1, -1) if text.endswith(marker[:n]))


class StreamingToolParser:
    """Text in, text and calls out."""

    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        if not (open_tag and close_tag):
            raise ValueError(f"a tag is empty: {open_tag!r}, {close_tag!r}")
        self._tags = open_tag, close_tag
        self._before = MarkerScanner([open_tag])
        self._within = MarkerScanner([close_tag, '"'])
        self._begin()

    def _begin(self) -> None:
        self._state = 0
        self._call: list[str] | None = None
        self._in_string = False
        self._index = 0
        self._maybe = ""

    @property
    def held(self) -> str:
        """The source that waits."""
        if self._call is None:
            return self._before.held(self._state)
        return "".join(self._call) + self._maybe

    def feed(self, text: str) -> list[TextDelta | ToolCall]:
        """Take the next piece."""
        events: list[TextDelta | ToolCall] = []
        for start in range(0, len(text), _MOST_TEXT):
            part = text[start : start + _MOST_TEXT]
            while part:
                part = self._text(part, events) if self._call is None else self._body(part, events)
        return events

    def flush(self) -> list[TextDelta | ToolCall]:
        """End the stream."""
        left = self.held
        self._begin()
        return [TextDelta(left)] if left else []

    def _text(self, text: str, events: list[TextDelta | ToolCall]) -> str:
        shown, self._state, tag, rest = self._before.scan(self._state, text)
        if shown:
            events.append(TextDelta(shown))
        if tag:
            self._call = [tag]
        return rest

    def _body(self, text: str, events: list[TextDelta | ToolCall]) -> str:
        assert self._call is not None
        if self._in_string:
            if self._call[-1] == "\\":
                # It escapes the next character.
                self._call[-1:] = ["\\" + text[0]]
                return text[1:]
            end = _IN_STRING.match(text).end()
            self._in_string = end == len(text) or text[end] == "\\"
            self._call += [text[:end], text[end : end + 1]]
            return text[end + 1 :]
        if '"' in self._tags[1]:
            return self._body_character(self._maybe + text, events)
        _, self._state, marker, rest = self._within.scan(self._state, text)
        self._call.append(text[: len(text) - len(rest)])
        if marker == '"':
            self._in_string = True
        elif marker:
            events.append(self._end("".join(self._call)))
        return rest

    def _body_character(self, text: str, events: list[TextDelta | ToolCall]) -> str:
        assert self._call is not None
        tag = self._tags[1]
        self._maybe = text if tag != text and tag.startswith(text) else ""
        if self._maybe:
            return ""
        if text.startswith(tag):
            self._call.append(tag)
            events.append(self._end("".join(self._call)))
            return text[len(tag) :]
        self._call.append(text[0])
        self._in_string = text[0] == '"'
        return text[1:]

    def _end(self, source: str) -> TextDelta | ToolCall:
        self._call, self._state, self._in_string = None, 0, False
        open_tag, close_tag = self._tags
        facts = _call_of(source[len(open_tag) : len(source) - len(close_tag)])
        if facts is not None:
            index, self._index = self._index, self._index + 1
            return ToolCall(index, *facts)
        return TextDelta(source)


def _call_of(body: str) -> tuple[str, str] | None:
    """Return name and arguments of a body, if it is a call."""
    try:
        members = _members(body.strip(_SPACE))
        values = {name: json.loads(source) for name, source in members.items()}
    except ValueError:
        return None
    if not isinstance(values.get("name"), str) or not isinstance(values.get("arguments"), dict):
        return None
    return values["name"], members["arguments"]


def _members(body: str) -> dict[str, str]:
    """Return the sources of the members of an object by name, of equal names the last."""
    end, more = _JSON.scan(_JSON.start, body)
    if body[:1] != "{" or more is not None or end != len(body):
        raise ValueError("it is not one JSON object")
    found = {}
    place = 1
    while (place := _skip(body, place, ",")) < len(body) - 1:
        name, end = _VALUE.raw_decode(body, place)
        place = _skip(body, end, ":")
        _, end = _VALUE.raw_decode(body, place)
        found[name], place = body[place:end], end
    return found


def _skip(text: str, place: int, mark: str) -> int:
    while text[place] in _SPACE + mark:
        place += 1
    return place
