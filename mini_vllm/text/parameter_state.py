"""Arguments that a format writes as tagged text, turned into the JSON that clients expect.

A string streams as it is written. A value of another type waits for its end, because only the whole
shows whether it has that type; if it does not, it is passed on as a string.

The result is what `json.dumps(arguments, ensure_ascii=False)` writes, with the members in the order
in which the model wrote them.
"""

import json
from dataclasses import dataclass

from mini_vllm.text.parser_states import Marked
from mini_vllm.text.schemas import typed
from mini_vllm.text.stream_parser import StreamParser


@dataclass(frozen=True)
class Value(Marked):
    """The text of one parameter, up to a marker.

    Attributes:
        framed: a line break after the opening tag, and one before the closing tag, are markup.
    """

    framed: bool = False

    def take(self, parser: StreamParser, text: str) -> str:
        """Emit a string's characters, or keep the text of another type."""
        scratch = parser.scratch
        shown, scratch.marker, marker, rest = self.scanner.scan(scratch.marker, text)
        if shown:
            self._text(parser, shown)
        if marker is None:
            return ""
        if _is_string(parser):
            parser.arguments('"')
        else:
            parser.arguments(typed("".join(scratch.parts), _allowed(parser)))
        return parser.follow(self.on[marker], marker) + rest

    def _text(self, parser: StreamParser, text: str) -> None:
        scratch = parser.scratch
        if self.framed and not scratch.begun and text[0] == "\n":
            parser.hold("\n")
            text = text[1:]
        scratch.begun = True
        text = scratch.pending + text
        scratch.pending = ""
        if self.framed and text.endswith("\n"):
            text, scratch.pending = text[:-1], "\n"
        if _is_string(parser):
            parser.arguments(_escaped(text))
        else:
            scratch.parts.append(text)
            parser.hold(text)

    def waiting(self, parser: StreamParser) -> str:
        """Return a line break that may be markup, and the beginning of a marker."""
        return parser.scratch.pending + super().waiting(parser)


def read_name(parser: StreamParser, name: str, marker: str) -> str | None:
    """Read the name of a call whose parameters follow, and announce it."""
    if not name:
        return None
    parser.announce(name)
    parser.parameters = 0
    return ""


def read_parameter(parser: StreamParser, key: str, marker: str) -> str | None:
    """Read the name of a parameter: the next member of the arguments."""
    if not key or parser.parameters is None:
        return None
    parser.parameter = key
    start = "{" if parser.parameters == 0 else ", "
    quote = '"' if _is_string(parser) else ""
    parser.arguments(f'{start}"{_escaped(key)}": {quote}')
    parser.parameters += 1
    return ""


def _allowed(parser: StreamParser) -> frozenset[str] | None:
    return parser.types.get(parser.name, {}).get(parser.parameter)


def _is_string(parser: StreamParser) -> bool:
    allowed = _allowed(parser)
    return allowed is None or "string" in allowed


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
