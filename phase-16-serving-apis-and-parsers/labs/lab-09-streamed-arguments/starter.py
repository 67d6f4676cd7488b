"""Lab 09: write the streaming parsers here. README.md has the story and the tasks.

Check your work with `make lab N=09`. Stuck? `make hint N=09`.
"""

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)


class ReasoningSplitter:
    """Separate a model's reasoning from its answer.

    Args:
        open_tag, close_tag: any two non-empty strings, even equal, overlapping themselves, or
            beginning with white space. Case counts.
        starts_inside: the open tag is part of the prompt, so the stream begins with reasoning.

    Raises:
        ValueError: a tag is empty.

    >>> splitter = ReasoningSplitter()
    >>> splitter.feed("<think>2 and 2"), splitter.feed("...</think>It is 4.")
    ([ReasoningDelta(text='2 and 2')], [ReasoningDelta(text='...'), TextDelta(text='It is 4.')])
    """

    def __init__(
        self, open_tag: str = "<think>", close_tag: str = "</think>", *, starts_inside: bool = False
    ) -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag
        self._starts_inside = starts_inside

    @property
    def held(self) -> str:
        """A possible tag; at the start of a stream also the white space before it."""
        raise NotImplementedError("lab-09 task 1: ReasoningSplitter.held")

    def feed(self, text: str) -> list[ReasoningDelta | TextDelta]:
        """Take the next piece, of any length; return what is now certain, in order, in a new list.

        The open tag counts only at the start of a stream, and not if the stream starts inside.
        White space before the tag is dropped with it. Everything between it and the first close tag
        is reasoning; everything else is text. Both are passed through unchanged. No text is ever
        empty.

        >>> splitter = ReasoningSplitter(starts_inside=True)
        >>> splitter.feed("so.</thi"), splitter.held
        ([ReasoningDelta(text='so.')], '</thi')
        """
        raise NotImplementedError("lab-09 task 1: ReasoningSplitter.feed")

    def flush(self) -> list[ReasoningDelta | TextDelta]:
        """End the stream: return the held text, as reasoning inside, otherwise as text.

        Afterwards the splitter has fresh state.

        >>> splitter = ReasoningSplitter()
        >>> splitter.feed(" <thi"), splitter.flush(), splitter.flush()
        ([], [TextDelta(text=' <thi')], [])
        """
        raise NotImplementedError("lab-09 task 1: ReasoningSplitter.flush")


class JsonScanner:
    """Find where a JSON object (RFC 8259) ends, in text that arrives in pieces.

    No value is built, no character is read twice, and nesting may have any depth.

    Attributes:
        done: the object is complete.
        failed: a character was fed that JSON does not allow there.

    >>> scanner = JsonScanner()
    >>> scanner.feed('{"a": '), scanner.feed("1} rest"), scanner.done
    (6, 2, True)
    """

    def __init__(self) -> None:
        self.done = False
        self.failed = False

    def feed(self, text: str) -> int:
        """Take the next piece; return how many of its characters belong to the object.

        The first character ever fed must be the object's `{`. After the object is done or has
        failed, no character belongs to it.

        >>> scanner = JsonScanner()
        >>> scanner.feed('{"a": tru1}'), scanner.failed
        (9, True)
        """
        raise NotImplementedError("lab-09 task 2: JsonScanner.feed")

    def flush(self) -> bool:
        """End the text: return whether the object was complete; then start with fresh state.

        >>> scanner = JsonScanner()
        >>> scanner.feed("{}"), scanner.flush(), scanner.flush()
        (2, True, False)
        """
        raise NotImplementedError("lab-09 task 2: JsonScanner.flush")


class StreamingCallParser:
    """Split a stream into text and tool calls, and emit each call while it arrives.

    A call is the open tag, a JSON object with a string `name` and an object `arguments`, each once
    and in either order, and the close tag. White space may surround the object. Other members are
    skipped, even if a key repeats. Keys are compared as decoded, exactly.

    Args:
        open_tag, close_tag: any two non-empty strings, even equal, overlapping themselves, or
            beginning with white space. Case counts.

    Raises:
        ValueError: a tag is empty.

    >>> parser = StreamingCallParser()
    >>> parser.feed('Look: <tool_call>{"name": "f", "argu')
    [TextDelta(text='Look: '), CallStart(index=0, id=None, name='f')]
    >>> parser.feed('ments": {"x": 1'), parser.feed("}}</tool_call>")
    ([ArgsDelta(index=0, text='{"x": 1')], [ArgsDelta(index=0, text='}'), CallEnd(index=0)])
    """

    def __init__(self, open_tag: str = "<tool_call>", close_tag: str = "</tool_call>") -> None:
        if not open_tag or not close_tag:
            raise ValueError(f"a tag is empty: open_tag={open_tag!r}, close_tag={close_tag!r}")
        self._open_tag = open_tag
        self._close_tag = close_tag

    @property
    def held(self) -> str:
        """The source since the last event: a possible tag, or source of an open call."""
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.held")

    def feed(self, text: str) -> list[TextDelta | CallStart | ArgsDelta | CallEnd | Malformed]:
        """Take the next piece, of any length; return what is now certain, in order, in a new list.

        A `CallStart` (its `id` is None) is emitted with the quote that ends the name; arguments are
        emitted as they arrive, unchanged. If the arguments precede the name, they are held until
        the `CallStart`. `CallEnd` is emitted with the last character of the close tag. No text is
        ever empty.

        A call breaks at the first character after which it cannot be a valid call any more. If its
        name has not been emitted, the held source is text, and reading goes on at that character.
        Otherwise the next close tag, even inside a string, ends the call with a `Malformed`; its
        `raw` is the source since the last event, close tag included.

        >>> parser = StreamingCallParser()
        >>> parser.feed('<tool_call>{"name": 1')
        [TextDelta(text='<tool_call>{"name": '), TextDelta(text='1')]
        """
        raise NotImplementedError("lab-09 task 3: StreamingCallParser.feed")

    def flush(self) -> list[TextDelta | Malformed]:
        """End the stream: return the held source as text; in a call whose name has been emitted,
        return a `Malformed` with the held source as `raw`.

        Afterwards the parser has fresh state: another `flush` returns `[]`, and the next `feed`
        begins another stream, whose calls count from 0 again.

        >>> parser = StreamingCallParser()
        >>> parser.feed('<tool_call>{"na'), parser.flush(), parser.flush()
        ([], [TextDelta(text='<tool_call>{"na')], [])
        """
        raise NotImplementedError("lab-09 task 4: StreamingCallParser.flush")
