"""A splitter for reasoning, and a parser that emits a tool call while it is still being written.

`JsonScanner` finds the end of an object without building it: its stack holds the expected things.
The other two classes read a stream in the order of its grammar, in generators that yield an event,
or None if they need the next piece. So the place in the code is the place in the grammar.

But: an emitted event cannot be taken back. A call that breaks after its name has been emitted ends
in a `Malformed`.
"""

import json
import re
from collections.abc import Generator
from functools import partial
from typing import Any

from mini_vllm.text.events import (
    ArgsDelta,
    CallEnd,
    CallStart,
    Malformed,
    ReasoningDelta,
    TextDelta,
)

# Yields events, and None if it needs the next piece of text.
_Reader = Generator[Any, None, Any]

_SPACE = " \t\n\r"


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
        self._begin()

    def _begin(self) -> None:
        self._kind = ReasoningDelta if self._starts_inside else TextDelta
        self._stream = _Stream(self._read())

    @property
    def held(self) -> str:
        """A possible tag; at the start of a stream also the white space before it."""
        return self._stream.held

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
        return self._stream.feed(text)

    def flush(self) -> list[ReasoningDelta | TextDelta]:
        """End the stream: return the held text, as reasoning inside, otherwise as text.

        Afterwards the splitter has fresh state.

        >>> splitter = ReasoningSplitter()
        >>> splitter.feed(" <thi"), splitter.flush(), splitter.flush()
        ([], [TextDelta(text=' <thi')], [])
        """
        held, kind = self.held, self._kind
        self._begin()
        return [kind(held)] if held else []

    def _read(self) -> _Reader:
        stream = self._stream
        try:
            if not self._starts_inside:
                yield from stream.up_to(self._open_tag, only_space=True)
                stream.kept.clear()
                self._kind = ReasoningDelta
            # After the close tag nothing is held, so `flush` needs no other kind.
            yield from stream.up_to(self._close_tag, ReasoningDelta)
        except _BrokenError:
            if stream.kept:
                yield TextDelta("".join(stream.kept))
        while True:
            yield from stream.to(len(stream.text), TextDelta)
            yield None


_SPACES = re.compile(f"[{_SPACE}]*")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
# The members of a call that count, and the kind of each.
_MEMBERS = {"name": "string", "arguments": "object"}


def _any_of(chars: str, *things: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(chars, things)


# RFC 8259. For each thing: the characters with which it may begin, and for each of them the things
# that must follow, the next thing last. A sign or letter is also a thing.
_TO_9, _DIGITS, _POWER = "123456789", "0123456789", _any_of("eE", "power")
_MEMBER = ("members", "value", ":", "text")
_VALUE = {
    '"': ("text",), "{": ("first member",), "[": ("first item",), "t": (*"eur",), "f": (*"esla",),
    "n": (*"llu",), "-": ("integer",), "0": ("fraction",), **_any_of(_TO_9, "digits"),
}  # fmt: skip
_GRAMMAR = {
    "object": {"{": ("first member",)}, "string": {'"': ("text",)}, "value": _VALUE,
    "first member": {'"': _MEMBER, "}": ()}, "member": {'"': _MEMBER},
    "members": {",": ("member",), "}": ()}, "items": {",": ("items", "value"), "]": ()},
    "first item": {**{char: ("items", *things) for char, things in _VALUE.items()}, "]": ()},
    "text": {"\\": ("text", "escape"), '"': ()}, "hex": _any_of(_DIGITS + "abcdefABCDEF"),
    "escape": {**_any_of('"\\/bfnrt'), "u": ("hex",) * 4}, "digit": _any_of(_DIGITS),
    "integer": {"0": ("fraction",), **_any_of(_TO_9, "digits")},
    "digits": {**_any_of(_DIGITS, "digits"), ".": ("decimals", "digit"), **_POWER},
    "fraction": {".": ("decimals", "digit"), **_POWER},
    "decimals": {**_any_of(_DIGITS, "decimals"), **_POWER},
    "power": {**_any_of("+-", "exponent", "digit"), **_any_of(_DIGITS, "exponent")},
    "exponent": _any_of(_DIGITS, "exponent"), ", or }": _any_of(",}"),
    **{char: {char: ()} for char in "{:,aelrsu"},
}  # fmt: skip
_AFTER_SPACE = {"first member", "member", "members", ":", "value", "first item", "items"}
# The states in which a number may end: at a character that is not part of it.
_OPTIONAL = {"digits", "fraction", "decimals", "exponent"}


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
        self._expected = ["object"]

    def feed(self, text: str) -> int:
        """Take the next piece; return how many of its characters belong to the object.

        The first character ever fed must be the object's `{`. After the object is done or has
        failed, no character belongs to it.

        >>> scanner = JsonScanner()
        >>> scanner.feed('{"a": tru1}'), scanner.failed
        (9, True)
        """
        return self._scan(text, 0)

    def flush(self) -> bool:
        """End the text: return whether the object was complete; then start with fresh state.

        >>> scanner = JsonScanner()
        >>> scanner.feed("{}"), scanner.flush(), scanner.flush()
        (2, True, False)
        """
        done = self.done
        self.__init__()
        return done

    def _scan(self, text: str, place: int) -> int:
        """Read from a place; return the place after the last character of the object."""
        expected = self._expected
        while expected and place < len(text) and not self.failed:
            if expected[-1] == "text":
                place = _PLAIN.match(text, place).end()
                if place == len(text):
                    continue
            char, thing = text[place], expected.pop()
            if char in _GRAMMAR[thing]:
                expected += _GRAMMAR[thing][char]
                place += 1
            elif char in _SPACE and thing in _AFTER_SPACE:
                expected.append(thing)
                place += 1
            else:
                self.failed = thing not in _OPTIONAL
        self.done = not expected and not self.failed
        return place


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
        self._begin()

    def _begin(self) -> None:
        self._index = 0
        self._announced = False
        self._stream = _Stream(self._read())

    @property
    def held(self) -> str:
        """The source since the last event: a possible tag, or source of an open call."""
        return self._stream.held

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
        return self._stream.feed(text)

    def flush(self) -> list[TextDelta | Malformed]:
        """End the stream: return the held source as text; in a call whose name has been emitted,
        return a `Malformed` with the held source as `raw`.

        Afterwards the parser has fresh state: another `flush` returns `[]`, and the next `feed`
        begins another stream, whose calls count from 0 again.

        >>> parser = StreamingCallParser()
        >>> parser.feed('<tool_call>{"na'), parser.flush(), parser.flush()
        ([], [TextDelta(text='<tool_call>{"na')], [])
        """
        held, announced, index = self.held, self._announced, self._index
        self._begin()
        if announced:
            return [Malformed(index, held, "the stream ended inside the call")]
        return [TextDelta(held)] if held else []

    def _read(self) -> _Reader:
        """Read text and calls in turns."""
        stream = self._stream
        while True:
            yield from stream.up_to(self._open_tag, TextDelta)
            stream.kept.append(self._open_tag)
            try:
                yield from self._read_object()
                yield from stream.up_to(self._close_tag, only_space=True)
                yield CallEnd(self._index)
            except _BrokenError as error:
                if not self._announced:
                    yield TextDelta("".join(stream.kept))
                    continue
                yield from stream.up_to(self._close_tag)
                stream.kept.append(self._close_tag)
                yield Malformed(self._index, "".join(stream.kept), str(error))
            self._announced = False
            self._index += 1

    def _read_object(self) -> _Reader:
        """Read the object of a call."""
        stream, early, seen = self._stream, "", set[str]()
        sign = yield from stream.thing("{")
        while sign != "}":
            key = json.loads((yield from stream.thing("string")))
            if key in seen.intersection(_MEMBERS):
                raise _BrokenError(f"a second {key!r}")
            seen.add(key)
            yield from stream.thing(":")
            shown = key == "arguments" and self._announced and partial(ArgsDelta, self._index)
            source = yield from stream.thing(_MEMBERS.get(key, "value"), shown)
            if key == "name":
                self._announced = True
                yield CallStart(self._index, None, json.loads(source))
                if early:
                    yield ArgsDelta(self._index, early)
            elif key == "arguments":
                early = source
            sign = yield from stream.thing(", or }" if seen.issuperset(_MEMBERS) else ",")


class _BrokenError(Exception):
    """The next character does not fit the grammar. It has not been read."""


class _Stream:
    """The source of a reader. Its methods are also readers.

    `shown` makes an event of a text; without `shown`, text that is read is kept.
    """

    def __init__(self, reader: _Reader) -> None:
        self.kept: list[str] = []  # read since the last event
        self._reader = reader
        self.text = ""
        self._place = 0  # of the first unread character

    @property
    def held(self) -> str:
        return "".join(self.kept) + self.text[self._place :]

    def feed(self, text: str) -> list[Any]:
        self.text, self._place = self.text[self._place :] + text, 0
        events = []
        for event in iter(partial(next, self._reader), None):
            events.append(event)
            self.kept.clear()
        return events

    def up_to(self, tag: str, shown: Any = None, *, only_space: bool = False) -> _Reader:
        """Read up to a tag, as it arrives, and skip the tag."""
        while True:
            end = _find(tag, self.text, self._place)
            if only_space and self.text[self._place : end].strip(_SPACE):
                raise _BrokenError(f"only white space may precede {tag}")
            yield from self.to(end, shown)
            if self.text.startswith(tag, end):
                self._place += len(tag)
                return
            yield None

    def thing(self, kind: str, shown: Any = None) -> _Reader:
        """Read white space and a thing of the grammar; return its source if it was kept."""
        while True:
            yield from self.to(_SPACES.match(self.text, self._place).end())
            if self._place < len(self.text):
                break
            yield None
        scanner, before = JsonScanner(), len(self.kept)
        scanner._expected = [kind]
        while True:
            yield from self.to(scanner._scan(self.text, self._place), shown)
            if scanner.failed:
                raise _BrokenError(f"{self.text[self._place]!r} breaks the expected {kind!r}")
            if scanner.done:
                return "".join(self.kept[before:])
            yield None

    def to(self, end: int, shown: Any = None) -> _Reader:
        """Read up to a place."""
        text, self._place = self.text[self._place : end], end
        if text and shown:
            yield shown(text)
        elif text:
            self.kept.append(text)


def _find(tag: str, text: str, start: int) -> int:
    """Return where the tag begins; else where it may begin at the end; else the length."""
    place = text.find(tag, start)
    if place < 0:
        places = range(max(start, len(text) - len(tag)), len(text))
        place = next((p for p in places if tag.startswith(text[p:])), len(text))
    return place
