"""Right: every character through a machine with a method for each state."""

import json

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
    def __init__(self, start="object") -> None:
        self.done = False
        self.failed = False
        self._start = start
        self._mode = start
        self._stack = []
        self._word = ""

    def feed(self, text: str) -> int:
        n = 0
        for c in text:
            if self.done or self.failed:
                break
            if self._take(c):
                n += 1
            elif not self.done:
                self.failed = True
        return n

    def flush(self) -> bool:
        done = self.done
        self.__init__(self._start)
        return done

    def _end(self):
        if not self._stack:
            self.done = True
            return
        self._mode = "after"

    def _take(self, c):
        m = self._mode
        if m == "string":
            if c == '"':
                if self._stack and self._stack[-1] == "k":
                    self._stack.pop()
                    self._mode = "colon"
                else:
                    self._end()
                return True
            if c == "\\":
                self._mode = "esc"
                return True
            return c >= " "
        if m == "esc":
            self._mode = "string"
            if c == "u":
                self._mode = "u"
                self._word = ""
                return True
            return c in '"\\/bfnrt'
        if m == "u":
            self._word += c
            if len(self._word) == 4:
                self._mode = "string"
            return c in "0123456789abcdefABCDEF"
        if m == "word":
            ok = self._word.startswith(c)
            self._word = self._word[1:]
            if ok and not self._word:
                self._end()
            return ok
        if m.startswith("n:"):
            nxt = self._number(m[2:], c)
            if nxt:
                self._mode = "n:" + nxt
                return True
            if m[2:] in ("zero", "int", "frac", "exp"):
                self._end()
                if self.done:
                    return False
                return self._take(c)
            return False
        if m == "object":
            if c == "{":
                self._stack.append("{")
                self._mode = "firstkey"
                return True
            return False
        if m == "str":
            self._mode = "string"
            return c == '"'
        if c in WS:
            return True
        if m in ("firstkey", "key"):
            if c == '"':
                self._stack.append("k")
                self._mode = "string"
                return True
            if c == "}" and m == "firstkey":
                self._stack.pop()
                self._end()
                return True
            return False
        if m == "colon":
            self._mode = "value"
            return c == ":"
        if m == "after":
            top = self._stack[-1]
            if c == ",":
                self._mode = "key" if top == "{" else "value"
                return True
            if (top, c) in (("{", "}"), ("[", "]")):
                self._stack.pop()
                self._end()
                return True
            return False
        # value, firstvalue
        if c == "]" and m == "firstvalue":
            self._stack.pop()
            self._end()
            return True
        if c == "{":
            self._stack.append("{")
            self._mode = "firstkey"
        elif c == "[":
            self._stack.append("[")
            self._mode = "firstvalue"
        elif c == '"':
            self._mode = "string"
        elif c in "tfn":
            self._mode, self._word = "word", {"t": "rue", "f": "alse", "n": "ull"}[c]
        elif c == "-":
            self._mode = "n:minus"
        elif c == "0":
            self._mode = "n:zero"
        elif c in "123456789":
            self._mode = "n:int"
        else:
            return False
        return True

    def _number(self, s, c):
        d = c in "0123456789"
        if s == "minus":
            return "zero" if c == "0" else "int" if d else ""
        if s in ("zero", "int"):
            if d and s == "int":
                return "int"
            return "point" if c == "." else "e" if c in "eE" else ""
        if s in ("point", "frac"):
            if d:
                return "frac"
            return "e" if s == "frac" and c in "eE" else ""
        if s == "e":
            return "sign" if c in "+-" else "exp" if d else ""
        return "exp" if d else ""


class StreamingCallParser:
    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._reset()

    def _reset(self):
        self._index = 0
        self._new_call()
        self._state = "text"
        self._held = []
        self._tag = ""

    def _new_call(self):
        self._name = None
        self._args = None
        self._seen = set()
        self._key = None

    @property
    def held(self) -> str:
        return "".join(self._held) + self._tag

    def feed(self, text: str):
        self._out = []
        for c in text:
            getattr(self, "_in_" + self._state)(c)
        return self._out

    def flush(self):
        held, name, index = self.held, self._name, self._index
        self._reset()
        if name is not None:
            return [Malformed(index, held, "cut off")]
        return [TextDelta(held)] if held else []

    def _text(self, s):
        if s:
            self._out.append(TextDelta(s))

    def _in_text(self, c):
        self._tag += c
        while not self._open_tag.startswith(self._tag):
            self._text(self._tag[0])
            self._tag = self._tag[1:]
        if self._tag == self._open_tag:
            self._held = [self._tag]
            self._tag = ""
            self._state = "open"

    def _break(self, c):
        if self._name is None:
            self._text("".join(self._held))
            self._held = []
            self._new_call()
            self._state = "text"
            self._in_text(c)
        else:
            self._state = "broken"
            self._in_broken(c)

    def _in_broken(self, c):
        self._tag += c
        while not self._close_tag.startswith(self._tag):
            self._held.append(self._tag[0])
            self._tag = self._tag[1:]
        if self._tag == self._close_tag:
            self._out.append(Malformed(self._index, self.held, "broken"))
            self._finish()

    def _finish(self):
        self._index += 1
        self._held = []
        self._tag = ""
        self._new_call()
        self._state = "text"

    def _in_open(self, c):
        if c == "{":
            self._held.append(c)
            self._state = "key"
        elif c in WS:
            self._held.append(c)
        else:
            self._break(c)

    def _in_key(self, c):
        if c in WS:
            self._held.append(c)
        elif c == '"':
            self._begin("str", "keyrest")
            self._in_keyrest(c)
        else:
            self._break(c)

    def _begin(self, kind, state):
        self._scanner = JsonScanner(kind)
        self._parts = []
        self._state = state

    def _in_keyrest(self, c):
        if not self._scanner.feed(c):
            self._break(c)
            return
        self._parts.append(c)
        if self._scanner.done:
            key = json.loads("".join(self._parts))
            if key in self._seen and key in ("name", "arguments"):
                self._break(c)
                return
            self._seen.add(key)
            self._key = key
            self._state = "colon"
        self._held.append(c)

    def _in_colon(self, c):
        if c in WS:
            self._held.append(c)
        elif c == ":":
            self._held.append(c)
            self._state = "value"
        else:
            self._break(c)

    def _in_value(self, c):
        if c in WS:
            self._held.append(c)
            return
        kind = {"name": "str", "arguments": "object"}.get(self._key, "value")
        self._begin(kind, "valuerest")
        self._in_valuerest(c)

    def _in_valuerest(self, c):
        took = self._scanner.feed(c)
        if not took and not self._scanner.done:
            self._break(c)
            return
        if took:
            if self._key == "arguments" and self._name is not None:
                self._out.append(ArgsDelta(self._index, c))
                self._held = []
            else:
                self._held.append(c)
                self._parts.append(c)
        if self._scanner.done:
            self._state = "more"
            if self._key == "name":
                self._name = json.loads("".join(self._parts))
                self._out.append(CallStart(self._index, None, self._name))
                self._held = []
                if self._args is not None:
                    self._out.append(ArgsDelta(self._index, self._args))
            elif self._key == "arguments":
                self._args = "".join(self._parts)
            if not took:
                self._in_more(c)

    def _in_more(self, c):
        if c in WS:
            self._held.append(c)
        elif c == ",":
            self._held.append(c)
            self._state = "key"
        elif c == "}" and {"name", "arguments"} <= self._seen:
            self._held.append(c)
            self._state = "close"
        else:
            self._break(c)

    def _in_close(self, c):
        self._tag += c
        while not self._close_tag.startswith(self._tag):
            if self._tag[0] not in WS:
                tag, self._tag = self._tag, ""
                self._state = "broken"
                for d in tag:
                    getattr(self, "_in_" + self._state)(d)
                return
            self._held.append(self._tag[0])
            self._tag = self._tag[1:]
        if self._tag == self._close_tag:
            self._out.append(CallEnd(self._index))
            self._finish()


class ReasoningSplitter:
    def __init__(
        self, open_tag: str = "<think>", close_tag: str = "</think>", *, starts_inside: bool = False
    ) -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self.open, self.close = open_tag, close_tag
        self.inside = self.starts = starts_inside
        self.held = ""

    def feed(self, text):
        self.held += text
        out = []
        while self.held:
            tag = self.close if self.inside else self.open
            if tag not in self.held:
                break
            before, _, self.held = self.held.partition(tag)
            if before:
                out.append(ReasoningDelta(before) if self.inside else TextDelta(before))
            self.inside = not self.inside
        if self.held and "<" not in self.held:
            out.append(ReasoningDelta(self.held) if self.inside else TextDelta(self.held))
            self.held = ""
        return out

    def flush(self):
        held, self.held = self.held, ""
        inside, self.inside = self.inside, self.starts
        return [ReasoningDelta(held) if inside else TextDelta(held)] if held else []
