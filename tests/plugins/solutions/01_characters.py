"""Lab 01, one character at a time; the body of a call is checked when its close tag is there."""

import json

from mini_vllm.text.events import TextDelta, ToolCall


def held_suffix_len(text: str, marker: str) -> int:
    """Return how much of the end of the text may begin the marker."""
    best = 0
    for length in range(1, len(marker)):
        if text.endswith(marker[:length]):
            best = length
    return best


def no_constant(name):
    """Refuse a word that JSON does not have."""
    raise ValueError(name)


def split_members(body):
    """Return the top-level members of an object that is valid JSON: (key source, value source)."""
    depth, in_string, escaped = 0, False, False
    start, colon, members = 0, None, []
    for at, c in enumerate(body):
        if escaped:
            escaped = False
        elif in_string:
            if c == "\\":
                escaped = True
            elif c == '"':
                in_string = False
        elif c == '"':
            in_string = True
        elif c in "{[":
            depth += 1
            if depth == 1:
                start = at + 1
        elif c in "}]":
            depth -= 1
            if depth == 0 and colon is not None:
                members.append((body[start:colon], body[colon + 1 : at]))
        elif c == ":" and depth == 1:
            colon = at
        elif c == "," and depth == 1:
            members.append((body[start:colon], body[colon + 1 : at]))
            start, colon = at + 1, None
    return members


def deepest(body):
    """Return the greatest depth of brackets."""
    depth = most = 0
    in_string = escaped = False
    for c in body:
        if escaped:
            escaped = False
        elif in_string:
            escaped = c == "\\"
            in_string = c != '"'
        elif c == '"':
            in_string = True
        elif c in "{[":
            depth += 1
            most = max(most, depth)
        elif c in "}]":
            depth -= 1
    return most


class StreamingToolParser:
    """Text and calls."""

    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: {open_tag!r}, {close_tag!r}")
        self.open_tag, self.close_tag = open_tag, close_tag
        self.reset()

    def reset(self):
        """Set fresh state."""
        self.count = 0
        self.inside = False
        self.part = ""
        self.body = []
        self.in_string = self.escaped = False

    @property
    def held(self):
        """What is held."""
        return (self.open_tag if self.inside else "") + "".join(self.body) + self.part

    def feed(self, text):
        """Take the next piece."""
        events, said, at = [], [], 0
        while at < len(text):
            if self.inside:
                at = self.call(text, at, events)
                continue
            if not self.part:
                end = text.find(self.open_tag[0], at)
                end = len(text) if end < 0 else end
                said.append(text[at:end])
                at = end
                if at == len(text):
                    break
            self.part += text[at]
            at += 1
            while not self.open_tag.startswith(self.part):
                said.append(self.part[0])
                self.part = self.part[1:]
            if self.part == self.open_tag:
                self.tell(said, events)
                said = []
                self.inside, self.part = True, ""
        self.tell(said, events)
        return events

    @staticmethod
    def tell(said, events):
        """Emit text."""
        if text := "".join(said):
            events.append(TextDelta(text))

    def call(self, text, at, events):
        """Take a run of characters, or one."""
        if self.in_string and not self.escaped:
            quote, slash = text.find('"', at), text.find("\\", at)
            ends = [end for end in (quote, slash) if end >= 0]
            end = min(ends, default=len(text))
            self.body.append(text[at:end])
            if end == len(text):
                return end
            self.body.append(text[end])
            self.escaped = text[end] == "\\"
            self.in_string = self.escaped
            return end + 1
        c = text[at]
        if self.in_string:
            self.escaped = False
            self.body.append(c)
            return at + 1
        self.part += c
        while not self.close_tag.startswith(self.part):
            first, rest = self.part[0], self.part[1:]
            self.body.append(first)
            self.part = rest
            if first == '"':
                # The tag may have a quote in it; what follows is in the string.
                self.in_string, self.part = True, ""
                return at + 1 - len(rest)
        if self.part == self.close_tag:
            events.append(self.close())
        return at + 1

    def close(self):
        """Return what the body is."""
        body, source = "".join(self.body), self.held
        self.inside, self.body, self.part = False, [], ""
        try:
            if deepest(body) > 200:
                raise ValueError("too deep")
            call = json.loads(body, parse_constant=no_constant)
            name, arguments = call["name"], call["arguments"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return TextDelta(source)
        if not isinstance(call, dict) or not isinstance(name, str):
            return TextDelta(source)
        if not isinstance(arguments, dict):
            return TextDelta(source)
        sources = {json.loads(key): value for key, value in split_members(body)}
        self.count += 1
        return ToolCall(self.count - 1, name, sources["arguments"].strip(" \t\r\n"))

    def flush(self):
        """End the stream."""
        held = self.held
        self.reset()
        return [TextDelta(held)] if held else []
