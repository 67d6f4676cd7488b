"""Lab 01 with regular expressions for the text and `raw_decode` for the members of a body."""

import json
import re

from mini_vllm.text.events import TextDelta, ToolCall

STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
GAP = re.compile(r"[ \t\r\n,:{]*")


def _bad(word):
    raise ValueError(word)


DECODER = json.JSONDecoder(parse_constant=_bad)


def held_suffix_len(text, marker):
    """Return the length of the longest end of the text that begins the marker."""
    lengths = range(min(len(text), len(marker) - 1), 0, -1)
    return next((n for n in lengths if text[-n:] == marker[:n]), 0)


def as_call(body):
    """Return (name, arguments) of a body, or None."""
    depths = [0]
    for bracket in re.findall(r"[\[\]{}]", STRING.sub("", body)):
        depths.append(depths[-1] + (1 if bracket in "[{" else -1))
    if max(depths) > 200:
        return None
    try:
        whole = DECODER.decode(body)
    except ValueError:
        return None
    if type(whole) is not dict or type(whole.get("name")) is not str:
        return None
    if type(whole.get("arguments")) is not dict:
        return None
    at, found = GAP.match(body).end(), ""
    while body[at] != "}":
        key, at = DECODER.raw_decode(body, at)
        start = body.index(":", at) + 1
        while body[start] in " \t\r\n":
            start += 1
        _, at = DECODER.raw_decode(body, start)
        if key == "arguments":
            found = body[start:at]
        while body[at] in " \t\r\n,":
            at += 1
    return whole["name"], found


class StreamingToolParser:
    """Text and calls."""

    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        for tag in (open_tag, close_tag):
            if not tag:
                raise ValueError("an empty tag")
        self._tags = open_tag, close_tag
        self._fresh()

    def _fresh(self):
        self._number = 0
        self._rest = ""
        self._pieces = []
        self._string = self._slash = False

    held = property(lambda self: "".join(self._pieces) + self._rest)

    def feed(self, text):
        """Take the next piece."""
        self._events = []
        source = self._rest + text
        self._rest = ""
        at = 0
        while at < len(source):
            at = (self._inside if self._pieces else self._outside)(source, at)
        events, self._events = self._events, []
        return events

    @staticmethod
    def _half(source, at, tag):
        return held_suffix_len(source[max(at, len(source) - len(tag)) :], tag)

    def _outside(self, source, at):
        place = source.find(self._tags[0], at)
        if place < 0:
            place = len(source) - self._half(source, at, self._tags[0])
            self._rest = source[place:]
            end = len(source)
        else:
            self._pieces.append(self._tags[0])
            end = place + len(self._tags[0])
        if at < place:
            self._events.append(TextDelta(source[at:place]))
        return end

    def _inside(self, source, at):
        tag = self._tags[1]
        if self._string:
            if self._slash:
                self._slash = False
                self._pieces.append(source[at])
                return at + 1
            match = re.compile(r'["\\]').search(source, at)
            end = match.end() if match else len(source)
            self._pieces.append(source[at:end])
            self._slash = bool(match) and match[0] == "\\"
            self._string = not match or self._slash
            return end
        quote = source.find('"', at)
        limit = len(source) if quote < 0 else quote
        # A tag that begins before the quote may contain it.
        place = source.find(tag, at, limit + len(tag) if quote >= 0 else len(source))
        if 0 <= place <= limit:
            self._pieces.append(source[at : place + len(tag)])
            self._end()
            return place + len(tag)
        if quote >= 0:
            half = self._half(source, at, tag)
            if len(source) - half <= quote and half:
                self._pieces.append(source[at : len(source) - half])
                self._rest = source[len(source) - half :]
                return len(source)
            self._pieces.append(source[at : quote + 1])
            self._string = True
            return quote + 1
        half = self._half(source, at, tag)
        self._pieces.append(source[at : len(source) - half])
        self._rest = source[len(source) - half :]
        return len(source)

    def _end(self):
        text = "".join(self._pieces)
        self._pieces = []
        call = as_call(text[len(self._tags[0]) : -len(self._tags[1])])
        if call is None:
            self._events.append(TextDelta(text))
            return
        self._events.append(ToolCall(self._number, *call))
        self._number += 1

    def flush(self):
        """End the stream."""
        held = self.held
        self._fresh()
        return [TextDelta(held)] * bool(held)
