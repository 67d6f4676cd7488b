"""Tasks 1 and 2 are done."""

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
