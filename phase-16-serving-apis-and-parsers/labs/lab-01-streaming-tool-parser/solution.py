"""A streaming parser for tool calls in tags: text passes through, a call comes out as one event.

Outside calls it holds back only what may be the start of a tag. Inside, it holds the whole call,
because until the close tag nobody can tell whether it is one. Each body is parsed once, at its
close tag; streaming the arguments as they arrive is what a full engine adds.

But: it never repairs. A body that is not a call comes out as the text that the model wrote, tags
included.
"""

import json
import re

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

    A call is `open_tag`, a JSON object with a string `name` and an object `arguments`, and
    `close_tag`.

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

    @property
    def held(self) -> str:
        """The source that has not come out yet: the open call, or the possible start of a tag."""
        return "".join(self._call) + self._pending

    def feed(self, text: str) -> list[TextDelta | ToolCall]:
        """Take the next piece of text, of any length; return what is now certain, in order.

        Outside calls everything is text, including newlines between calls and a stray close tag.
        The body of a call runs to the first close tag that is not inside a JSON string.

        Returns:
            Events, never an empty `TextDelta`; `[]` when nothing is certain yet.

        >>> parser = StreamingToolParser()
        >>> parser.feed("a <tool"), parser.held
        ([TextDelta(text='a ')], '<tool')
        >>> parser.feed("box>"), parser.held
        ([TextDelta(text='<toolbox>')], '')
        """
        events: list[TextDelta | ToolCall] = []
        rest, self._pending = self._pending + text, ""
        while rest:
            if self._call:
                rest = self._read_call(rest, events)
            else:
                rest = self._read_text(rest, events)
        return events

    def flush(self) -> list[TextDelta | ToolCall]:
        """End the stream: return what is held as text, as it can no longer become a call.

        A second `flush` returns `[]`.

        >>> parser = StreamingToolParser()
        >>> parser.feed('<tool_call>{"name"'), parser.flush(), parser.flush()
        ([], [TextDelta(text='<tool_call>{"name"')], [])
        """
        text, self._call, self._pending = self.held, [], ""
        return [TextDelta(text)] if text else []

    def _read_text(self, rest: str, events: list[TextDelta | ToolCall]) -> str:
        text, tag, rest = rest.partition(self._open_tag)
        if tag:
            self._call = [tag]
            self._in_string = self._escaped = False
        elif held := held_suffix_len(text, self._open_tag):
            text, self._pending = text[:-held], text[-held:]
        if text:
            events.append(TextDelta(text))
        return rest

    def _read_call(self, rest: str, events: list[TextDelta | ToolCall]) -> str:
        tag = self._close_tag
        for position, char in enumerate(rest):
            if char == tag[0] and not self._in_string:
                end = position + len(tag)
                if rest[position:end] == tag:
                    self._call.append(rest[:end])
                    events.append(self._close())
                    return rest[end:]
                if end > len(rest) and tag.startswith(rest[position:]):
                    self._call.append(rest[:position])
                    self._pending = rest[position:]
                    return ""
            self._in_string ^= char == '"' and not self._escaped
            self._escaped = self._in_string and char == "\\" and not self._escaped
        self._call.append(rest)
        return ""

    def _close(self) -> TextDelta | ToolCall:
        source, self._call = "".join(self._call), []
        call = _parse_call(source[len(self._open_tag) : -len(self._close_tag)])
        if call is None:
            return TextDelta(source)
        self._index += 1
        return ToolCall(self._index - 1, *call)


def _parse_call(body: str) -> tuple[str, str] | None:
    """Return the name and the source of the arguments, or None if `body` is not a call."""
    try:
        call = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    if not isinstance(call.get("arguments"), dict):
        return None
    return call["name"], _member_source(body, "arguments")


def _member_source(body: str, wanted: str) -> str:
    """Return the source of a member's value in a JSON object that is known to be valid."""
    decode = json.JSONDecoder().raw_decode
    source = ""
    position = _BEFORE_KEY.match(body).end()
    while body[position] == '"':
        key, position = decode(body, position)
        start = _BEFORE_VALUE.match(body, position).end()
        _, end = decode(body, start)
        if key == wanted:
            source = body[start:end]
        position = _BEFORE_KEY.match(body, end).end()
    return source


_BEFORE_KEY = re.compile(r"[ \t\n\r{,]*")
_BEFORE_VALUE = re.compile(r"[ \t\n\r:]*")
