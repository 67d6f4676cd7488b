"""Arguments as an object with bare keys, `{k:<|"|>text<|"|>,n:-1,l:[true,{}]}`, to JSON.

A string is between two markers, so it has no escapes. Strings stream as they are written; keys and
bare literals are held until their end. A key may also be written as a string.

The result equals the output of `json.dumps(arguments, ensure_ascii=False)`, with the members in the
order in which the model wrote them.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from mini_vllm.text.markers import MarkerScanner
from mini_vllm.text.schemas import canonical, escaped, typed
from mini_vllm.text.states.basic import SPACE
from mini_vllm.text.states.parameter import TEXT
from mini_vllm.text.stream_parser import On, State, StreamParser

_DEEPEST = 64
_LONGEST_BARE = 256
# Models repeat keys and literals, and looking one up is faster.
_MOST_REMEMBERED = 1 << 10
_LITERALS = frozenset(["integer", "number", "boolean", "null"])
_KEY_END = re.compile(r"[:,{}\[\]]")
_LITERAL_END = re.compile(r"[,}\]]")
_SPACE = re.compile(f"[{SPACE}]+")
_CLOSES = {"{": "}", "[": "]"}


class _Place(NamedTuple):
    """A stream's place in the object.

    Attributes:
        expects: the next symbol, `key`, `colon`, `value`, `item` or `after`; or the present item,
            `bare key`, `key text`, `bare value`, `text` or `typed text`.
        brackets: the open brackets, outermost first.
        before: the JSON before the next key or item, if it has not been emitted yet.
        bare: the key or bare literal so far.
    """

    expects: str = "key"
    brackets: str = "{"
    before: str = "{"
    bare: str = ""


_START = _Place()


@dataclass(frozen=True, eq=False)
class BareObject(State):
    """The object, from its opening brace on.

    Attributes:
        then: where the object's end leads.
        quote: the marker before and after a string.
        typed: whether a parameter of another type may also be between these markers, as its schema
            says.
    """

    then: On
    quote: str
    typed: bool = False

    @cached_property
    def scanner(self) -> MarkerScanner:
        """The automaton of the marker."""
        return MarkerScanner([self.quote])

    def take(self, parser: StreamParser, text: str) -> str:
        """Go through the members."""
        scratch = parser.scratch
        text, scratch.pending = scratch.pending + text, ""
        at = 0
        while at < len(text):
            place = scratch.json or _START
            # An index while the object continues; at its end, the text for the next state.
            step = self._step(parser, place, text, at)
            if isinstance(step, str):
                return step
            at = step
        return ""

    def _step(self, parser: StreamParser, place: _Place, text: str, at: int) -> int | str:
        if place.expects in ("text", "typed text", "key text"):
            return self._text(parser, place, text, at)
        if place.expects in ("bare key", "bare value"):
            return self._bare(parser, place, text, at)
        space = _SPACE.match(text, at)
        if space:
            parser.note(space[0])
            return space.end()
        if place.expects in ("key", "value", "item") and text[at] == self.quote[0]:
            if text.startswith(self.quote, at):
                self._open_text(parser, place)
                return at + len(self.quote)
            if self.quote.startswith(text[at:]):
                parser.scratch.pending = text[at:]
                return len(text)
        return self._punctuation(parser, place, text, at)

    def _punctuation(self, parser: StreamParser, place: _Place, text: str, at: int) -> int | str:
        char, expects, inner = text[at], place.expects, place.brackets[-1]
        if char == _CLOSES[inner] and expects in ("key", "item", "after"):
            parser.note(char)
            if self._close(parser, place, char):
                return parser.follow(self.then, "") + text[at + 1 :]
        elif char == ":" and expects == "colon":
            parser.note(char)
            self._end_key(parser, place, place.bare)
        elif char == "," and expects == "after":
            parser.note(char)
            expects = "key" if inner == "{" else "item"
            parser.scratch.json = _Place(expects, place.brackets, ", ")
        elif char in "{[" and expects in ("value", "item") and len(place.brackets) < _DEEPEST:
            parser.arguments(place.before)
            parser.note(char)
            expects = "key" if char == "{" else "item"
            parser.scratch.json = _Place(expects, place.brackets + char, char)
        elif char not in ":,{}[]" and expects in ("key", "value", "item"):
            kind = "bare key" if expects == "key" else "bare value"
            parser.scratch.json = _Place(kind, place.brackets, place.before)
            return at
        else:
            return parser.fail(f"{char!r} where the arguments do not allow it", text[at:])
        return at + 1

    def _close(self, parser: StreamParser, place: _Place, char: str) -> bool:
        """Close the innermost bracket; return whether it was the last."""
        if place.before in ("{", "["):
            parser.arguments(place.before)
        parser.arguments(char)
        parser.scratch.json = _Place("after", place.brackets[:-1], "")
        return len(place.brackets) == 1

    def _end_key(self, parser: StreamParser, place: _Place, key: str) -> None:
        if len(place.brackets) == 1:
            parser.call.parameter = key
        parser.arguments(f"{place.before}{_quoted(key)}: ")
        parser.scratch.json = _Place("value", place.brackets, "")

    def _bare(self, parser: StreamParser, place: _Place, text: str, at: int) -> int | str:
        """Take more of a bare key or literal."""
        is_key = place.expects == "bare key"
        match = (_KEY_END if is_key else _LITERAL_END).search(text, at)
        end = match.start() if match else len(text)
        bare = place.bare + text[at:end]
        if len(bare) > _LONGEST_BARE:
            return parser.fail(f"{bare:.40} is too long without quotes", text[at:])
        parser.note(text[at:end])
        parser.scratch.json = _Place(place.expects, place.brackets, place.before, bare)
        if match is None:
            return end
        if not is_key:
            parser.arguments(place.before)
            parser.arguments(_literal(bare.strip(SPACE), self._allowed(parser, place)))
            parser.scratch.json = _Place("after", place.brackets, "")
            return end
        if match[0] != ":":
            return parser.fail(f"{match[0]!r} after a key", text[end:])
        parser.note(":")
        self._end_key(parser, place, bare.strip(SPACE))
        return end + 1

    def _open_text(self, parser: StreamParser, place: _Place) -> None:
        expects = "key text"
        if place.expects != "key":
            parser.arguments(place.before)
            allowed = self._allowed(parser, place) if self.typed else None
            expects = "typed text" if (allowed or TEXT) - TEXT else "text"
        parser.note(self.quote)
        if expects == "text":
            parser.arguments('"')
        # The JSON before a key is emitted together with the key.
        before = place.before if expects == "key text" else ""
        parser.scratch.json = _Place(expects, place.brackets, before)

    def _text(self, parser: StreamParser, place: _Place, text: str, at: int) -> int:
        """Take more of a string."""
        scratch = parser.scratch
        shown, scratch.marker, marker, rest = self.scanner.scan(scratch.marker, text[at:])
        after = len(text) - len(rest)
        if place.expects == "text":
            parser.arguments(escaped(shown))
        else:
            parser.keep(shown)
        if marker is None:
            return after
        if place.expects == "key text":
            key = parser.recall()
            parser.hold(self.quote)
            scratch.json = _Place("colon", place.brackets, place.before, key)
            return after
        if place.expects == "text":
            parser.arguments('"')
        else:
            parser.arguments(typed(parser.recall(), self._allowed(parser, place) or TEXT))
        parser.note(self.quote)
        scratch.json = _Place("after", place.brackets, "")
        return after

    def _allowed(self, parser: StreamParser, place: _Place) -> frozenset[str] | None:
        """Return the types of a parameter; values inside of others have none."""
        return None if len(place.brackets) > 1 else parser.schema_types()

    def waiting(self, parser: StreamParser) -> str:
        """Return the beginning of a marker."""
        return parser.scratch.pending + self.scanner.held(parser.scratch.marker)


@lru_cache(_MOST_REMEMBERED)
def _quoted(key: str) -> str:
    return canonical(key)


@lru_cache(_MOST_REMEMBERED)
def _literal(text: str, allowed: frozenset[str] | None) -> str:
    """Return a bare literal as JSON: a number may be meant as a string, null may not."""
    value = typed(text, _LITERALS)
    if value == "null" or allowed is None or "string" not in allowed:
        return value
    return typed(text, allowed)
