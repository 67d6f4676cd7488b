import json

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)


def possible(text, tag):
    """Length of the longest end of text that begins the tag."""
    for n in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:n]):
            return n
    return 0


class ReasoningSplitter:
    def __init__(self, open_tag="<think>", close_tag="</think>", *, starts_inside=False):
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._starts_inside = starts_inside
        self._reset()

    def _reset(self):
        self._mode = "inside" if self._starts_inside else "start"
        self._held = ""
        self._skip = 0

    @property
    def held(self):
        return self._held

    def _begins(self, text):
        """True: text begins with the open tag; None: it may; the third: where the tag is over."""
        for skip in range(self._skip, len(text) + 1):
            rest = text[skip:]
            if rest.startswith(self._open_tag):
                return True, skip + len(self._open_tag)
            if self._open_tag.startswith(rest):
                self._skip = skip  # go on here
                return None, 0
            if rest[0] not in " \t\r\n":
                return False, 0
        return None, 0

    def feed(self, text):
        events = []
        text = self._held + text
        self._held = ""
        if self._mode == "start" and text:
            begins, end = self._begins(text)
            if begins is None:
                self._held = text
                return []
            self._mode = "inside" if begins else "answer"
            text = text[end:]
        if self._mode == "inside":
            at = text.find(self._close_tag)
            if at == -1:
                n = possible(text, self._close_tag)
                self._held = text[len(text) - n :]
                text = text[: len(text) - n]
                return [ReasoningDelta(text)] if text else []
            if at > 0:
                events.append(ReasoningDelta(text[:at]))
            text = text[at + len(self._close_tag) :]
            self._mode = "answer"
        if text:
            events.append(TextDelta(text))
        return events

    def flush(self):
        held, inside = self._held, self._mode == "inside"
        self._reset()
        if not held:
            return []
        return [ReasoningDelta(held) if inside else TextDelta(held)]


WS = " \t\r\n"
DIGITS = "0123456789"


class JsonScanner:
    def __init__(self):
        self._fresh()

    def _fresh(self):
        self.done = False
        self.failed = False
        self._stack = []
        self._state = "begin"
        self._word = ""
        self._hex = 0
        self._key = False

    def feed(self, text):
        if self.done or self.failed:
            return 0
        for i, c in enumerate(text):
            if not self._step(c):
                self.failed = True
                return i
            if self.done:
                return i + 1
        return len(text)

    def flush(self):
        done = self.done
        self._fresh()
        return done

    def _close(self, c):
        if not self._stack or self._stack[-1] + c not in ("{}", "[]"):
            return False
        self._stack.pop()
        self._state = "after"
        self.done = not self._stack
        return True

    def _step(self, c):
        s = self._state
        if s == "string":
            if c == '"':
                self._state = "colon" if self._key else "after"
            elif c == "\\":
                self._state = "escape"
            elif c < " ":
                return False
            return True
        if s == "escape":
            if c == "u":
                self._state, self._hex = "hex", 4
                return True
            self._state = "string"
            return c in '"\\/bfnrt'
        if s == "hex":
            self._hex -= 1
            if self._hex == 0:
                self._state = "string"
            return c in "0123456789abcdefABCDEF"
        if s == "word":
            if not self._word.startswith(c):
                return False
            self._word = self._word[1:]
            if not self._word:
                self._state = "after"
            return True
        if s == "minus":
            self._state = "zero" if c == "0" else "int"
            return c in DIGITS
        if s == "point":
            self._state = "fraction"
            return c in DIGITS
        if s == "exp":
            self._state = "digits" if c in DIGITS else "sign"
            return c in DIGITS + "+-"
        if s == "sign":
            self._state = "digits"
            return c in DIGITS
        if s in ("zero", "int", "fraction", "digits"):
            if c in DIGITS and s != "zero":
                return True
            if c == "." and s in ("zero", "int"):
                self._state = "point"
                return True
            if c in "eE" and s != "digits":
                self._state = "exp"
                return True
            s = self._state = "after"
        if s == "begin":
            self._stack.append("{")
            self._state = "first key"
            return c == "{"
        if c in WS:
            return True
        if s == "colon":
            self._state = "value"
            return c == ":"
        if s == "after":
            if c == ",":
                self._state = "key" if self._stack[-1] == "{" else "value"
                return True
            return self._close(c)
        if s in ("first key", "key"):
            if c == '"':
                self._state, self._key = "string", True
                return True
            return s == "first key" and self._close(c)
        # a value
        if s == "first value" and c == "]":
            return self._close(c)
        if c == '"':
            self._state, self._key = "string", False
        elif c in "{[":
            self._stack.append(c)
            self._state = "first key" if c == "{" else "first value"
        elif c == "-":
            self._state = "minus"
        elif c == "0":
            self._state = "zero"
        elif c in DIGITS:
            self._state = "int"
        elif c in "tfn":
            self._word = {"t": "rue", "f": "alse", "n": "ull"}[c]
            self._state = "word"
        else:
            return False
        return True


class StreamingCallParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._fresh()

    def _fresh(self):
        self._state = "text"
        self._held = []
        self._index = 0

    @property
    def held(self):
        return "".join(self._held)

    def feed(self, text):
        events = []
        i = 0
        while i < len(text):
            if self._state == "text":
                buf = "".join(self._held) + text[i:]
                pos = buf.find(self._open_tag)
                if pos < 0:
                    n = possible(buf, self._open_tag)
                    if len(buf) > n:
                        events.append(TextDelta(buf[: len(buf) - n]))
                    self._held = [buf[len(buf) - n :]]
                    break
                if pos > 0:
                    events.append(TextDelta(buf[:pos]))
                i = len(text) - (len(buf) - pos - len(self._open_tag))
                self._begin_call()
                continue
            self._step(text[i], events)
            i += 1
        if self._args and self._named and self._state == "call":
            events.append(ArgsDelta(self._index, "".join(self._args)))
            self._args = []
            self._held = []
        return events

    _args = ()
    _named = False

    def _begin_call(self):
        self._state = "call"
        self._held = [self._open_tag]
        self._scanner = JsonScanner()
        self._scanner._state = "space"
        self._named = False
        self._seen = set()
        self._key = ""
        self._raw = None
        self._in_args = False
        self._args = []
        self._rest = ""

    def _step(self, c, events):
        if self._state == "broken":
            self._held.append(c)
            self._rest = (self._rest + c)[-len(self._close_tag) :]
            if self._rest == self._close_tag:
                events.append(Malformed(self._index, self.held, "the call is not valid"))
                self._end_call()
            return
        if self._state == "close":
            self._held.append(c)
            self._rest += c
            for skip in range(len(self._rest) + 1):
                tail = self._rest[skip:]
                if tail == self._close_tag:
                    events.append(CallEnd(self._index))
                    self._end_call()
                    return
                if self._close_tag.startswith(tail):
                    return
                if tail[0] not in WS:
                    break
            self._state = "broken"
            self._rest = self._rest[-len(self._close_tag) :]
            return
        scanner = self._scanner
        before = scanner._state
        depth = len(scanner._stack)
        if before == "space":
            if c in WS:
                self._held.append(c)
                return
            scanner._state = "begin"
        wrong = False
        if depth == 1 and before == "value" and c not in WS:
            if self._key == "name":
                wrong = c != '"'
                self._raw = []
            elif self._key == "arguments":
                wrong = c != "{"
                self._in_args = True
        wrong = wrong or not scanner._step(c)
        if not wrong and scanner.done:
            wrong = not {"name", "arguments"} <= self._seen
        if wrong:
            self._break(c, events)
            return
        if self._in_args:
            if self._named and not self._args:
                self._held = []
            self._args.append(c)
            self._held.append(c)
            if len(scanner._stack) == 1:
                self._in_args = False
                if self._named:
                    events.append(ArgsDelta(self._index, "".join(self._args)))
                    self._args = []
                    self._held = []
            return
        self._held.append(c)
        if depth == 1 and before in ("first key", "key") and scanner._state == "string":
            self._raw = []
        if self._raw is not None:
            self._raw.append(c)
            if before == "string" and scanner._state == "colon":
                self._key = json.loads("".join(self._raw))
                self._raw = None
                if self._key in ("name", "arguments"):
                    if self._key in self._seen:
                        self._break("", events)
                        return
                    self._seen.add(self._key)
            elif before == "string" and scanner._state == "after":
                name = json.loads("".join(self._raw))
                self._raw = None
                self._named = True
                events.append(CallStart(self._index, None, name))
                self._held = []
                if self._args:
                    events.append(ArgsDelta(self._index, "".join(self._args)))
                    self._args = []
        if scanner.done:
            self._state = "close"

    def _break(self, c, events):
        # the call is broken: everything up to the close tag belongs to it
        if self._named and self._args:
            events.append(ArgsDelta(self._index, "".join(self._args)))
            self._held = []
        self._args = []
        self._state = "broken"
        self._rest = ""
        if c:
            self._step(c, events)

    def _end_call(self):
        self._state = "text"
        self._held = []
        self._args = []
        self._index += 1

    def flush(self):
        held = self.held
        state, index = self._state, self._index
        self._fresh()
        if state != "text":
            return [Malformed(index, held, "the stream ended in the call")]
        return [TextDelta(held)] if held else []
