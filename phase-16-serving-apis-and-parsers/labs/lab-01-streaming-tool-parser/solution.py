"""A streaming parser for tool calls in tags: text passes through, a call is emitted as one event.

Outside calls it holds only text that may be the start of a tag. Inside a call it holds the whole
source, because only the close tag decides whether it is a call. Each body is parsed once, at its
close tag; a full engine also streams the arguments as they arrive.

But: it never repairs. A body that is not a call is emitted as the text that the model wrote, tags
included.
"""

import json
import re
from itertools import accumulate
from typing import NoReturn

from mini_vllm.text.events import TextDelta, ToolCall


def held_suffix_len(text: str, marker: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `marker`.

    That many characters must be held back, because `marker` may have begun; 0 if it has not.

    >>> held_suffix_len("so <tool", "<tool_call>")
    5
    >>> held_suffix_len("a < b", "<tool_call>")
    0
    """
    for length in range(min(len(text), len(marker) - 1), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0


class StreamingToolParser:
    """Split a stream into text and tool calls.

    A call is `open_tag`, a JSON object (RFC 8259) with a string `name` and an object `arguments`,
    and `close_tag`. If a key occurs twice, its last value counts. All other input is text.

    Args:
        open_tag, close_tag: non-empty.

    Raises:
        ValueError: a tag is empty.

    >>> parser = StreamingToolParser()
    >>> parser.feed('Look: <tool_call>{"name": "f", "argu')
    [TextDelta(text='Look: ')]
    >>> parser.feed('ments": {"x": 1}}</tool_call> Done')
    [ToolCall(index=0, name='f', arguments='{"x": 1}'), TextDelta(text=' Done')]
    """

    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._call: list[str] = []  # the pieces of the open call, tag first; empty outside calls
        self._pending = ""  # the end of the input, while it may be part of a tag
        self._in_string = False
        self._escaped = False
        self._index = 0
        # The characters of a call at which something can change.
        self._marks = re.compile('["\\\\]|' + re.escape(close_tag[0]))

    @property
    def held(self) -> str:
        """The source that is not emitted yet: the open call, or the possible start of a tag."""
        return "".join(self._call) + self._pending

    def feed(self, text: str) -> list[TextDelta | ToolCall]:
        """Take the next piece of text, of any length; return the events now certain, in order.

        Outside calls everything is text, including newlines between calls and a stray close tag.
        The body of a call runs to the first close tag that is not inside a JSON string.

        Returns:
            A new list of events, never an empty `TextDelta`; `[]` if no event is certain yet.

        >>> parser = StreamingToolParser()
        >>> parser.feed("a <tool"), parser.held
        ([TextDelta(text='a ')], '<tool')
        >>> parser.feed("box>"), parser.held
        ([TextDelta(text='<toolbox>')], '')
        """
        events: list[TextDelta | ToolCall] = []
        source, self._pending = self._pending + text, ""
        position = 0
        while position < len(source):
            read = self._read_call if self._call else self._read_text
            position = read(source, position, events)
        return events

    def flush(self) -> list[TextDelta | ToolCall]:
        """End the stream: return the held text, which can no longer become a call.

        Afterwards the parser has fresh state: another `flush` returns `[]`, and the next `feed`
        begins another stream, whose calls count from 0 again.

        >>> parser = StreamingToolParser()
        >>> parser.feed('<tool_call>{"name"'), parser.flush(), parser.flush()
        ([], [TextDelta(text='<tool_call>{"name"')], [])
        """
        text = self.held
        self._call, self._pending = [], ""
        self._in_string = self._escaped = False
        self._index = 0
        return [TextDelta(text)] if text else []

    def _read_text(self, source: str, start: int, events: list[TextDelta | ToolCall]) -> int:
        """Read on from `start` outside of calls; return where the next read begins."""
        end = source.find(self._open_tag, start)
        if end >= 0:
            self._call = [self._open_tag]
        else:
            end = len(source) - held_suffix_len(source[start:], self._open_tag)
            self._pending = source[end:]
        if end > start:
            events.append(TextDelta(source[start:end]))
        # Half a tag is shorter than a tag, so then this is after the end of the source.
        return end + len(self._open_tag)

    def _read_call(self, source: str, start: int, events: list[TextDelta | ToolCall]) -> int:
        """Read on from `start` inside a call; return where the next read begins."""
        tag = self._close_tag
        # The position that a backslash escapes, if any.
        escaped, self._escaped = (start if self._escaped else None), False
        for mark in self._marks.finditer(source, start):
            position = mark.start()
            if position == escaped:
                continue
            if not self._in_string:
                if source.startswith(tag, position):
                    end = position + len(tag)
                    self._call.append(source[start:end])
                    events.append(self._close())
                    return end
                if tag.startswith(source[position : position + len(tag)]):
                    self._call.append(source[start:position])
                    self._pending = source[position:]
                    return len(source)
            if mark[0] == '"':
                self._in_string = not self._in_string
            elif mark[0] == "\\" and self._in_string:
                escaped = position + 1
        self._escaped = escaped == len(source)
        self._call.append(source[start:])
        return len(source)

    def _close(self) -> TextDelta | ToolCall:
        source, self._call = "".join(self._call), []
        call = _parse_call(source[len(self._open_tag) : -len(self._close_tag)])
        if call is None:
            return TextDelta(source)
        self._index += 1
        return ToolCall(self._index - 1, *call)


def _parse_call(body: str) -> tuple[str, str] | None:
    """Return the name and the source of the arguments, or None if `body` is not a call."""
    if _depth(body) > _DEEPEST:
        return None
    try:
        call = _JSON.decode(body)
    except ValueError:
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    if not isinstance(call.get("arguments"), dict):
        return None
    return call["name"], _member_sources(body)["arguments"]


def _depth(body: str) -> int:
    """Return how many brackets are open at the deepest place of `body`, outside of strings."""
    brackets = _BRACKETS.findall(_STRINGS.sub("", body))
    return max(accumulate((1 if bracket in "[{" else -1 for bracket in brackets), initial=0))


def _member_sources(body: str) -> dict[str, str]:
    """Return the source of each member's last value in a JSON object that is known to be valid."""
    sources: dict[str, str] = {}
    position = _BEFORE_KEY.match(body).end()
    while body[position] == '"':
        key, position = _JSON.raw_decode(body, position)
        start = _BEFORE_VALUE.match(body, position).end()
        _, end = _JSON.raw_decode(body, start)
        sources[key] = body[start:end]
        position = _BEFORE_KEY.match(body, end).end()
    return sources


def _refuse(constant: str) -> NoReturn:
    """Raise if Python's decoder would read NaN or Infinity, which RFC 8259 does not have."""
    raise ValueError(f"{constant} is not JSON")


# The depth at which `json` gives up depends on the Python: from 1,000 levels to about 80,000.
_DEEPEST = 200
_JSON = json.JSONDecoder(parse_constant=_refuse)
_STRINGS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
_BEFORE_KEY = re.compile(r"[ \t\n\r{,]*")
_BEFORE_VALUE = re.compile(r"[ \t\n\r:]*")
