"""Parameters that are elements and may contain elements, turned into JSON by their schemas.

The text of an element without inner elements is typed like any parameter, and streams if it can
only be a string. An element with inner elements is an array if the schema says so, else an object,
and is held until its end. Members with equal names become a list; text next to elements becomes the
member `$text`.
"""

import re
from dataclasses import dataclass

from mini_vllm.text.schemas import Allowed, canonical, escaped, typed_value
from mini_vllm.text.states.basic import SPACE, Marked
from mini_vllm.text.states.parameter import TEXT, allowed_types, read_parameter
from mini_vllm.text.stream_parser import StreamParser

DEEPEST = 128
_LONGEST_TAG = 256
# An element: its text, or names and elements.
Node = str | list[tuple[str, "Node"]]


@dataclass(frozen=True, eq=False)
class Element(Marked):
    """The inside of a parameter. `on` has the beginning of all tags, and the last tag's target."""

    def take(self, parser: StreamParser, text: str) -> str:
        """Emit a string's characters; keep elements, and the text of other types."""
        scratch = parser.scratch
        if scratch.json is None and not scratch.begun and allowed_types(parser) != TEXT:
            scratch.json = 0
        if scratch.pending:
            tag, end, rest = text.partition(">")
            scratch.pending += tag + end
            if len(scratch.pending) > _LONGEST_TAG:
                return parser.fail("a tag is too long", rest)
            return self._tag(parser, rest) if end else ""
        shown, scratch.marker, marker, rest = self.scanner.scan(scratch.marker, text)
        if shown:
            self._text(parser, shown)
        scratch.pending = marker or ""
        return rest

    def _text(self, parser: StreamParser, text: str) -> None:
        scratch = parser.scratch
        if not scratch.begun:
            parser.keep(text)
            if scratch.json is not None or not text.strip(SPACE):
                return
            scratch.begun = True
            text = parser.recall()
            parser.arguments('"')
        parser.arguments(escaped(text))

    def _tag(self, parser: StreamParser, rest: str) -> str:
        scratch = parser.scratch
        (marker,) = self.on
        tag, depth = scratch.pending, scratch.json or 0
        closes = tag.startswith("/", len(marker))
        if closes and not depth:
            return self._close(parser, tag[len(marker) + 1 : -1].strip(), rest)
        if scratch.begun or (depth == DEEPEST and not closes):
            return parser.fail(f"{tag} where no element may be", rest)
        scratch.pending = ""
        # `json` is now a number, so that text after an element is not streamed as a string.
        parser.keep(tag)
        scratch.json = depth - 1 if closes else depth + 1
        return rest

    def _close(self, parser: StreamParser, name: str, rest: str) -> str:
        scratch = parser.scratch
        if name != parser.call.parameter:
            return parser.fail(f"</{name}> closes <{parser.call.parameter}>", rest)
        (marker,) = self.on
        try:
            node = read_elements(parser.recall(), marker)
        except ValueError as error:
            return parser.fail(str(error), rest)
        tag, scratch.pending = scratch.pending, ""
        if scratch.begun:
            parser.arguments('"')
        else:
            parser.arguments(canonical(value_of(node, allowed_types(parser))))
        return parser.follow(self.on[marker], tag) + rest

    def waiting(self, parser: StreamParser) -> str:
        """Return the tag that is not complete, and the beginning of a marker."""
        return parser.scratch.pending + super().waiting(parser)


def read_elements(text: str, marker: str) -> Node:
    """Return the text or the elements inside an element.

    Args:
        text: the inside.
        marker: the beginning of each tag, including its angle bracket.

    Raises:
        ValueError: a tag closes an element other than the innermost.
    """
    open_: list[tuple[str, list[str], list[tuple[str, Node]]]] = [("", [], [])]
    for number, part in enumerate(re.split(f"{re.escape(marker)}([^>]*)>", text)):
        name = part.strip()
        if number % 2 == 0:
            open_[-1][1].append(part)
        elif not name.startswith("/"):
            open_.append((name, [], []))
        else:
            opened, texts, members = open_.pop()
            if not open_ or opened != name[1:].strip() or not opened:
                raise ValueError(f"<{name}> closes <{opened}>")
            open_[-1][2].append((opened, _node(texts, members)))
    return _node(*open_[0][1:])


def _node(texts: list[str], members: list[tuple[str, Node]]) -> Node:
    text = "".join(texts)
    if not members:
        return text
    if text.strip(SPACE):
        name = "$text"
        while any(name == other for other, _ in members):
            name = "$" + name
        members.append((name, text))
    return members


def value_of(node: Node, allowed: frozenset[str]) -> object:
    """Return the value of an element, with the types that its schema allows."""
    if isinstance(node, str):
        return typed_value(node, allowed or TEXT)
    inside = allowed if isinstance(allowed, Allowed) else Allowed(allowed)
    if "array" in allowed:
        return [value_of(member, inside.item()) for _, member in node]
    values: dict[str, list[object]] = {}
    for name, member in node:
        values.setdefault(name, []).append(value_of(member, inside.member(name)))
    return {name: many[0] if len(many) == 1 else many for name, many in values.items()}


def read_element(parser: StreamParser, name: str, marker: str) -> str | None:
    """Read the name of an element that is a parameter."""
    return None if name.startswith("/") else read_parameter(parser, name, marker)
