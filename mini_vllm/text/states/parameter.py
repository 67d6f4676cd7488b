"""Arguments that a format writes as tagged text, turned into the JSON that clients expect.

A string streams as it is written. A value of another type is held until its end, because only the
whole value shows whether it has that type; if not, it is emitted as a string. If a string and
another type are allowed, the value is held for as long as it may be of the other type.

The result equals the output of `json.dumps(arguments, ensure_ascii=False)`, with the members in the
order in which the model wrote them.
"""

import re
from dataclasses import dataclass

from mini_vllm.text.json_scanner import FAILED, JsonState
from mini_vllm.text.schemas import EVERY_TYPE, escaped, type_named, typed
from mini_vllm.text.states.basic import JSON, SPACE, Marked
from mini_vllm.text.stream_parser import StreamParser

# For `Value.types`.
TEXT = frozenset({"string"})
ANY_JSON = EVERY_TYPE

# A name, then the rest of a tag that ends in `">`: more attributes.
_MORE_ATTRIBUTES = re.compile(r'([^"]+)("(?:\s+[\w:.-]+="[^"]*")*\s+[\w:.-]+="[^"]*)')
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
        framed: whether a line break after the opening tag, and a line break before the closing tag,
            are markup.
        types: the JSON types that the markup states, such as `TEXT` or `ANY_JSON`. Without them the
            schemas of the request's tools decide, and a parameter without a schema is a string.
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
            parser.arguments(typed(parser.recall(), self._allowed(parser)))
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
            if scratch.json is None:
                scratch.json = _begin(text, self._allowed(parser))
            else:
                scratch.json = _continue(scratch.json, text)
            if scratch.json is not FAILED:
                return
            text = parser.recall()
            parser.arguments('"')
        parser.arguments(escaped(text))

    def _allowed(self, parser: StreamParser) -> frozenset[str]:
        return self.types or allowed_types(parser)

    def waiting(self, parser: StreamParser) -> str:
        """Return a line break that may be markup, and the beginning of a marker."""
        return parser.scratch.pending + super().waiting(parser)


def allowed_types(parser: StreamParser) -> frozenset[str]:
    """Return the JSON types of a parameter; without a schema it is a string."""
    types = parser.schema_types()
    return TEXT if types is None else types


def _begin(text: str, allowed: frozenset[str]) -> JsonState | None:
    """Take the beginning of a value; return the state after it, None while it is white space."""
    if "string" not in allowed:
        return _UNREAD
    if allowed == TEXT:
        return FAILED
    text = text.lstrip(SPACE)
    if text and all(text[0] not in _STARTS[name] for name in allowed - TEXT):
        return FAILED
    return _continue(JSON.start, text) if text else None


def _continue(state: JsonState, text: str) -> JsonState:
    """Take more of a value; return the state after it, `FAILED` once it can only be a string."""
    if state is _UNREAD:
        return state
    if state is _COMPLETE:
        return FAILED if text.strip(SPACE) else state
    taken, after = JSON.scan(state, text)
    return after or (FAILED if text[taken:].strip(SPACE) else _COMPLETE)


def read_name(parser: StreamParser, name: str, marker: str) -> str | None:
    """Read the name of a call whose parameters follow, and announce it."""
    if not name:
        return None
    parser.announce(name)
    parser.call.parameters = 0
    return ""


def read_offered_name(parser: StreamParser, name: str, marker: str) -> str | None:
    """Read the name like `read_name`, if the request offers the function or lists no functions.

    For markup that prose may also contain.
    """
    return read_name(parser, name, marker) if parser.offers(name) else None


def read_parameter(parser: StreamParser, key: str, marker: str) -> str | None:
    """Read the name of a parameter: the next member of the arguments."""
    call = parser.call
    if not key or call.parameters is None:
        return None
    call.parameter = key
    start = "{" if call.parameters == 0 else ", "
    parser.arguments(f'{start}"{escaped(key)}": ')
    call.parameters += 1
    return ""


def split_attributes(header: str) -> tuple[str, str]:
    """Return the value of a tag's first attribute, and the text of its other attributes or `""`.

    Args:
        header: the text of the tag from that value on, without the last quotation mark.
    """
    match = _MORE_ATTRIBUTES.fullmatch(header)
    return (match[1].strip(), match[2]) if match else (header, "")


def read_name_attribute(parser: StreamParser, header: str, marker: str) -> str | None:
    """Read the name of a call like `read_name`, from a tag whose other attributes are ignored."""
    return read_name(parser, split_attributes(header)[0], marker)


def read_parameter_attribute(parser: StreamParser, header: str, marker: str) -> str | None:
    """Read the name of a parameter in the same way."""
    return read_parameter(parser, split_attributes(header)[0], marker)


def read_type(parser: StreamParser, name: str, marker: str) -> str | None:
    """Read the type of a value: return the state that it names, or `""` for the marker's state."""
    return type_named(name) or ""
