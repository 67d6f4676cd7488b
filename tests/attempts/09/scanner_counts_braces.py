from mini_vllm.text.events import (
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

    @property
    def held(self):
        return self._held

    def _begins(self, text):
        """True: text begins with the open tag; None: it may; the third: where the tag is over."""
        for skip in range(len(text) + 1):
            rest = text[skip:]
            if rest.startswith(self._open_tag):
                return True, skip + len(self._open_tag)
            if self._open_tag.startswith(rest):
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


class JsonScanner:
    def __init__(self):
        self.done = False
        self.failed = False
        self._depth = 0
        self._in_string = False
        self._escape = False
        self._started = False

    def feed(self, text):
        if self.done or self.failed:
            return 0
        for i, c in enumerate(text):
            if not self._started:
                if c != "{":
                    self.failed = True
                    return i
                self._started = True
                self._depth = 1
            elif self._in_string:
                if self._escape:
                    self._escape = False
                elif c == "\\":
                    self._escape = True
                elif c == '"':
                    self._in_string = False
            elif c == '"':
                self._in_string = True
            elif c in "{[":
                self._depth += 1
            elif c in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self.done = True
                    return i + 1
        return len(text)

    def flush(self):
        done = self.done
        self.__init__()
        return done


class StreamingCallParser:
    def __init__(self, open_tag="<tool_call>", close_tag="</tool_call>"):
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag

    @property
    def held(self):
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.held")

    def feed(self, text):
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.feed")

    def flush(self):
        raise NotImplementedError("lab-09 task 4: StreamingCallParser.flush")
