"""Lab 01: write the streaming tool parser here. README.md has the story and the tasks.

Check your work with `make lab N=01`.
"""

from mini_vllm.text.events import TextDelta, ToolCall


def held_suffix_len(text: str, marker: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `marker`.

    That many characters must be held back, because `marker` may have begun; 0 if it has not.

    >>> held_suffix_len("so <tool", "<tool_call>")
    5
    >>> held_suffix_len("a < b", "<tool_call>")
    0
    """
    raise NotImplementedError("lab-01 task 1: held_suffix_len")


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

    @property
    def held(self) -> str:
        """The source that is not emitted yet: the open call, or the possible start of a tag."""
        raise NotImplementedError("lab-01 task 2: held")

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
        raise NotImplementedError("lab-01 task 2: feed")

    def flush(self) -> list[TextDelta | ToolCall]:
        """End the stream: return the held text, which can no longer become a call.

        Afterwards the parser has fresh state: another `flush` returns `[]`, and the next `feed`
        begins another stream, whose calls count from 0 again.

        >>> parser = StreamingToolParser()
        >>> parser.feed('<tool_call>{"name"'), parser.flush(), parser.flush()
        ([], [TextDelta(text='<tool_call>{"name"')], [])
        """
        raise NotImplementedError("lab-01 task 4: flush")
