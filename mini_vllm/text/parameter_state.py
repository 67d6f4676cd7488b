"""Arguments that a format writes as tagged text, turned into the JSON that clients expect.

A string streams as it is written. A value of another type waits for its end, because only the whole
shows whether it has that type; if it does not, it is passed on as a string. Where a string and
another type are allowed, the value waits as long as it may be the other.

The result is what `json.dumps(arguments, ensure_ascii=False)` writes, with the members in the order
in which the model wrote them.
"""

from dataclasses import dataclass

from mini_vllm.text.json_scanner import FAILED, JsonState
from mini_vllm.text.parser_states import JSON, SPACE, Marked
from mini_vllm.text.schemas import EVERY_TYPE, escaped, type_named, typed
from mini_vllm.text.stream_parser import Scratch, StreamParser

# For `Value.types`.
TEXT = frozenset({"string"})
ANY_JSON = EVERY_TYPE

_NUMBER = "-0123456789"
_STARTS = {
    "integer": _NUMBER,
    "number": _NUMBER,
    "boolean": "tf",
    "array": "[",
    "object": "{",
    "null": "n",
}
_COMPLETE = JsonState("complete", "")
_UNREAD = JsonState("unread", "")


@dataclass(frozen=True, eq=False)
class Value(Marked):
    """The text of one parameter, up to a marker.

    Attributes:
        framed: a line break after the opening tag, and one before the closing tag, are markup.
        types: the JSON types that the markup states, such as `TEXT` or `ANY_JSON`; without them
            the schemas of the request's tools do, and a parameter without a schema is a string.
    """

    framed: bool = False
    types: frozenset[str] | None = None

    def take(self, parser: StreamParser, text: str) -> str:
        """Emit a string's characters, or keep the text of another type."""
        scratch = parser.scratch
        shown, scratch.marker, marker, rest = self.scanner.scan(scratch.marker, text)
        if shown:
            self._text(parser, shown)
        if marker is None:
            return ""
        if scratch.json is FAILED:
            parser.arguments('"')
        else:
            parser.arguments(typed("".join(scratch.parts), self._allowed(parser)))
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
        if not text:
            return
        if scratch.json is not FAILED:
            parser.keep(text)
            scratch.json = _typed_state(scratch, text, self._allowed(parser))
            if scratch.json is not FAILED:
                return
            text = "".join(scratch.parts)
            parser.arguments('"')
        parser.arguments(escaped(text))

    def _allowed(self, parser: StreamParser) -> frozenset[str]:
        named = parser.types.get(parser.name, {}).get(parser.parameter, TEXT)
        return self.types or named

    def waiting(self, parser: StreamParser) -> str:
        """Return a line break that may be markup, and the beginning of a marker."""
        return parser.scratch.pending + super().waiting(parser)

    def flows(self, scratch: Scratch) -> bool:
        """Return whether the schema has been asked."""
        return scratch.json is not None

    def writes(self, scratch: Scratch) -> bool:
        """Return whether the value is known to be a string."""
        return scratch.json is FAILED


def _typed_state(scratch: Scratch, text: str, allowed: frozenset[str]) -> JsonState | None:
    """Take more of a value; return `FAILED` once it can only be a string."""
    if "string" not in allowed:
        return _UNREAD
    if allowed == TEXT:
        return FAILED
    state: JsonState | None = scratch.json
    if state is None:
        text = text.lstrip(SPACE)
        if text and all(text[0] not in _STARTS[name] for name in allowed - TEXT):
            return FAILED
        state = JSON.start if text else None
    if state is None or state is _COMPLETE:
        return FAILED if text.strip(SPACE) else state
    taken, state = JSON.scan(state, text)
    return state or (FAILED if text[taken:].strip(SPACE) else _COMPLETE)


def read_name(parser: StreamParser, name: str, marker: str) -> str | None:
    """Read the name of a call whose parameters follow, and announce it."""
    if not name:
        return None
    parser.announce(name)
    parser.parameters = 0
    return ""


def read_offered_name(parser: StreamParser, name: str, marker: str) -> str | None:
    """Do what `read_name` does if the request offers the function, or does not say what it offers.

    For markup that prose may have too.
    """
    if parser.types and name not in parser.types:
        return None
    return read_name(parser, name, marker)


def read_parameter(parser: StreamParser, key: str, marker: str) -> str | None:
    """Read the name of a parameter: the next member of the arguments."""
    if not key or parser.parameters is None:
        return None
    parser.parameter = key
    start = "{" if parser.parameters == 0 else ", "
    parser.arguments(f'{start}"{escaped(key)}": ')
    parser.parameters += 1
    return ""


def read_type(parser: StreamParser, name: str, marker: str) -> str | None:
    """Read the type of a value: go to the state that it names, or where the marker leads."""
    return type_named(name) or ""
