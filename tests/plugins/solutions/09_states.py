"""Lab 09, one character at a time: a table of states, and a stack of brackets."""

import json

from mini_vllm.text.events import ArgsDelta, CallEnd, CallStart, Malformed, ReasoningDelta

from mini_vllm.text.events import TextDelta  # isort: skip

WS = " \t\r\n"
DIGITS = "0123456789"
NUMBER = {
    "-": {"0": "0", **dict.fromkeys("123456789", "9")},
    "0": {".": ".", "e": "e", "E": "e"},
    "9": {**dict.fromkeys(DIGITS, "9"), ".": ".", "e": "e", "E": "e"},
    ".": dict.fromkeys(DIGITS, "f"),
    "f": {**dict.fromkeys(DIGITS, "f"), "e": "e", "E": "e"},
    "e": {**dict.fromkeys(DIGITS, "x"), "+": "s", "-": "s"},
    "s": dict.fromkeys(DIGITS, "x"),
    "x": dict.fromkeys(DIGITS, "x"),
}
WORDS = {"t": "rue", "f": "alse", "n": "ull"}


class Value:
    """One JSON value. `step` returns "more", "end", "fail", or "before" (it ended before)."""

    def __init__(self, starts=None):
        self.starts = starts
        self.state = "value"
        self.stack = []
        self.rest = ""

    def finish(self):
        self.state = "after" if self.stack else "over"
        return "more" if self.stack else "end"

    def step(self, c):
        s = self.state
        if s in NUMBER:
            if c in NUMBER[s]:
                self.state = NUMBER[s][c]
                return "more"
            if s not in "09fx":
                return "fail"
            if self.finish() == "end":
                return "before"
            return self.step(c)
        if s in ("string", "key string"):
            if c == '"':
                if s == "string":
                    return self.finish()
                self.state = "colon"
            elif c == "\\":
                self.rest = s
                self.state = "escape"
            elif c < " ":
                return "fail"
            return "more"
        if s == "escape":
            if c == "u":
                self.state = "4"
                return "more"
            self.state = self.rest
            return "more" if c in '"\\/bfnrt' else "fail"
        if s in ("4", "3", "2", "1"):
            if c not in "0123456789abcdefABCDEF":
                return "fail"
            self.state = str(int(s) - 1) if s != "1" else self.rest
            return "more"
        if s == "word":
            if c != self.rest[0]:
                return "fail"
            self.rest = self.rest[1:]
            return "more" if self.rest else self.finish()
        if c in WS and not (s == "value" and not self.stack):
            return "more"
        if s == "colon":
            self.state = "value"
            return "more" if c == ":" else "fail"
        if s == "after":
            if c == ",":
                self.state = "key" if self.stack[-1] == "}" else "value"
                return "more"
            if c != self.stack[-1]:
                return "fail"
            self.stack.pop()
            return self.finish()
        if s in ("key", "key or end"):
            if c == '"':
                self.state = "key string"
                return "more"
            if c == "}" and s == "key or end":
                self.stack.pop()
                return self.finish()
            return "fail"
        if s == "value or end" and c == "]":
            self.stack.pop()
            return self.finish()
        if self.starts and not self.stack and c not in self.starts:
            return "fail"
        if c == '"':
            self.state = "string"
        elif c == "{":
            self.stack.append("}")
            self.state = "key or end"
        elif c == "[":
            self.stack.append("]")
            self.state = "value or end"
        elif c in WORDS:
            self.rest = WORDS[c]
            self.state = "word"
        elif c == "-" or c in DIGITS:
            self.state = "9" if c in "123456789" else c
        else:
            return "fail"
        return "more"


class JsonScanner:
    """Where an object ends."""

    def __init__(self):
        self.done = False
        self.failed = False
        self._value = Value("{")

    def feed(self, text):
        """Take the next piece."""
        for number, c in enumerate(text):
            if self.done or self.failed:
                return number if number else 0
            result = self._value.step(c)
            self.failed = result == "fail"
            self.done = result == "end"
            if self.failed:
                return number
            if self.done:
                return number + 1
        return len(text) if not (self.done or self.failed) else 0

    def flush(self):
        """End the text."""
        done = self.done
        self.__init__()
        return done


class ReasoningSplitter:
    """Reasoning and answer."""

    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self.open_tag = open_tag
        self.close_tag = close_tag
        self.starts_inside = starts_inside
        self._fresh()

    def _fresh(self):
        self.state = "inside" if self.starts_inside else "start"
        self.spaces = []
        self.tag = ""

    @property
    def held(self):
        """What is held."""
        return "".join(self.spaces) + self.tag

    def feed(self, text):
        """Take the next piece."""
        out = []
        for number, c in enumerate(text):
            if self.state == "answer":
                out.append(TextDelta(text[number:]))
                break
            self.tag += c
            if self.state == "start":
                self._start(out)
            else:
                said = []
                while self.tag and not self.close_tag.startswith(self.tag):
                    said.append(self.tag[0])
                    self.tag = self.tag[1:]
                if said:
                    out.append(ReasoningDelta("".join(said)))
                if self.tag == self.close_tag:
                    self.tag = ""
                    self.state = "answer"
        return out

    def _start(self, out):
        while self.tag and not self.open_tag.startswith(self.tag):
            if self.tag[0] not in WS:
                out.append(TextDelta(self.held))
                self.spaces = []
                self.tag = ""
                self.state = "answer"
                return
            self.spaces.append(self.tag[0])
            self.tag = self.tag[1:]
        if self.tag == self.open_tag:
            self.tag = ""
            self.spaces = []
            self.state = "inside"

    def flush(self):
        """End the stream."""
        held, inside = self.held, self.state == "inside"
        self._fresh()
        if not held:
            return []
        return [ReasoningDelta(held) if inside else TextDelta(held)]


class StreamingCallParser:
    """Text and calls."""

    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError("a tag is empty")
        self.open_tag = open_tag
        self.close_tag = close_tag
        self._fresh()

    def _fresh(self):
        self.index = 0
        self._text()

    def _text(self):
        self.state = "text"
        self.tag = ""
        self.source = []

    @property
    def held(self):
        """What is held."""
        return self.tag if self.state == "text" else "".join(self.source)

    def feed(self, text):
        """Take the next piece."""
        self.out = []
        for c in text:
            self._take(c)
        return self.out

    def _take(self, c):
        if self.state == "text":
            self.tag += c
            while self.tag and not self.open_tag.startswith(self.tag):
                self.out.append(TextDelta(self.tag[0]))
                self.tag = self.tag[1:]
            if self.tag == self.open_tag:
                self.source = [self.tag]
                self.tag = ""
                self.name = self.early = None
                self.has_arguments = False
                self.state = "{"
            return
        if self.state == "broken":
            self.source.append(c)
            self._search(c)
            return
        if self.state == "close":
            self._close(c)
            return
        if self.state == "value":
            self._value(c)
            return
        if c in WS:
            self.source.append(c)
            return
        wanted = {"{": "{", "key": '"', "first": '"}', ":": ":", ",": ",}"}.get(self.state)
        if self.state == ":" and c == ":":
            self.source.append(c)
            self.state = "begin"
        elif self.state == "begin":
            kinds = {"name": '"', "arguments": "{"}
            self.value = Value(kinds.get(self.key))
            self.kept = []
            self.state = "value"
            self._value(c)
        elif wanted is None or c not in wanted:
            self._break(c)
        elif c == "}":
            if self.name is None or not self.has_arguments:
                self._break(c)
            else:
                self.source.append(c)
                self.state = "close"
                self.tag = ""
        elif c == '"':
            self.key = None
            self.value = Value('"')
            self.kept = []
            self.state = "value"
            self._value(c)
        else:
            self.source.append(c)
            self.state = "first" if c == "{" else "key"

    def _value(self, c):
        result = self.value.step(c)
        if result == "fail":
            self._break(c)
            return
        if result == "before":
            self.state = ","
            self._take(c)
            return
        is_arguments = self.key == "arguments"
        if self.key in (None, "name"):
            self.kept.append(c)
        if result == "end" and self.key is None:
            key = json.loads("".join(self.kept))
            seen = {"name": self.name is not None, "arguments": self.has_arguments}
            if seen.get(key):
                self._break(c)
                return
            self.source.append(c)
            self.key = key
            self.state = ":"
            return
        if is_arguments and self.name is not None:
            self.out.append(ArgsDelta(self.index, c))
            self.source = []
        else:
            self.source.append(c)
            if is_arguments:
                self.early = self.early or []
                self.early.append(c)
        if result == "end":
            self.state = ","
            if is_arguments:
                self.has_arguments = True
            if self.key == "name":
                self.name = json.loads("".join(self.kept))
                self.out.append(CallStart(self.index, None, self.name))
                if self.early:
                    self.out.append(ArgsDelta(self.index, "".join(self.early)))
                self.source = []

    def _break(self, c):
        if self.name is None:
            self.out.append(TextDelta("".join(self.source)))
            self._text()
            self._take(c)
            return
        self.state = "broken"
        self.tag = ""
        self._take(c)

    def _search(self, c):
        self.tag += c
        while self.tag and not self.close_tag.startswith(self.tag):
            self.tag = self.tag[1:]
        if self.tag == self.close_tag:
            self.out.append(Malformed(self.index, "".join(self.source), "the call is broken"))
            self.index += 1
            self._text()

    def _close(self, c):
        self.source.append(c)
        self.tag += c
        while self.tag and not self.close_tag.startswith(self.tag):
            if self.tag[0] not in WS:
                again, self.tag = self.tag, ""
                self.state = "broken"
                for char in again:
                    self._search(char)
                return
            self.tag = self.tag[1:]
        if self.tag == self.close_tag:
            self.out.append(CallEnd(self.index))
            self.index += 1
            self._text()

    def flush(self):
        """End the stream."""
        held, index = self.held, self.index
        announced = self.state != "text" and self.name is not None
        self._fresh()
        if announced:
            return [Malformed(index, held, "the stream ended in a call")]
        return [TextDelta(held)] if held else []
