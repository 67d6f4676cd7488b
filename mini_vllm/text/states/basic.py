"""The states of most formats: prose, gaps, headers, JSON, and the rest of a malformed call.

Larger kinds of states have files of their own beside this file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mini_vllm.text.events import ReasoningDelta, TextDelta
from mini_vllm.text.json_scanner import FAILED, JsonScanner
from mini_vllm.text.markers import MarkerScanner
from mini_vllm.text.stream_parser import On, State, StreamParser

SPACE = " \t\r\n"
JSON = JsonScanner()
# A name that only its markers delimit: any text in one line, spaces and quotes included.
LINE = re.compile(r"\s*[^\n]*\s*")


@dataclass(frozen=True, eq=False)
class Marked(State):
    """A state with markers. A `forbidden` marker leads nowhere: it makes the call malformed."""

    on: Mapping[str, On]
    forbidden: tuple[str, ...] = ()

    @cached_property
    def scanner(self) -> MarkerScanner:
        """The automaton of the markers."""
        return MarkerScanner([*self.on, *self.forbidden])

    def waiting(self, parser: StreamParser) -> str:
        """Return the beginning of a marker."""
        return self.scanner.held(parser.scratch.marker)


@dataclass(frozen=True, eq=False)
class Prose(Marked):
    """Text for the reader, up to a marker."""

    kind: type[TextDelta] | type[ReasoningDelta] = TextDelta

    def take(self, parser: StreamParser, text: str) -> str:
        """Emit all text except a possible beginning of a marker."""
        scratch = parser.scratch
        shown, scratch.marker, marker, rest = self.scanner.scan(scratch.marker, text)
        if shown:
            parser.events.append(self.kind(shown))
        if marker is None:
            return ""
        return parser.follow(self.on[marker], marker) + rest

    def end(self, parser: StreamParser) -> bool:
        """Emit the held beginning of a marker."""
        held = self.waiting(parser)
        if held:
            parser.events.append(self.kind(held))
        parser.scratch.marker = 0
        return True


@dataclass(frozen=True, eq=False)
class Gap(State):
    """White space, then one of the markers.

    A marker that is the beginning of another must be listed after it.

    Attributes:
        on: where the markers lead.
        otherwise: where anything else leads; without it, anything else makes the call malformed.
        may_end: the call lacks only its closing marker, so it is complete if the text ends here
            without being cut off. The held beginning of that marker is then text.
        last: where the end of the text leads if only white space precedes it, in place of
            `otherwise`.
    """

    on: Mapping[str, On]
    otherwise: On | None = None
    may_end: bool = False
    last: On | None = None

    def take(self, parser: StreamParser, text: str) -> str:
        """Skip white space and follow the marker."""
        scratch = parser.scratch
        text = scratch.pending + text
        bare = text.lstrip(SPACE)
        if len(bare) < len(text):
            parser.keep(text[: len(text) - len(bare)])
        scratch.pending = bare
        if not bare:
            return ""
        for marker, on in self.on.items():
            if bare.startswith(marker):
                scratch.pending = ""
                return parser.follow(on, marker) + bare[len(marker) :]
            if marker.startswith(bare):
                return ""
        scratch.pending = ""
        if self.otherwise is not None:
            return parser.follow(self.otherwise, "") + bare
        return parser.fail(f"{bare[0]!r} where only {' or '.join(self.on)} may be", bare)

    def waiting(self, parser: StreamParser) -> str:
        """Return the beginning of a marker."""
        return parser.scratch.pending

    def end(self, parser: StreamParser) -> bool:
        """Follow `last` or `otherwise`; else complete the call, if a text may end here."""
        pending = parser.scratch.pending
        if self.last is not None and not pending:
            parser.follow(self.last, "")
        elif self.otherwise is not None:
            parser.follow(self.otherwise, "")
        elif self.may_end and not parser.cut:
            parser.complete_call()
            parser.go(parser.format.home)
        else:
            return False
        parser.pour(pending)
        return parser.state.end(parser)


@dataclass(frozen=True, eq=False)
class Header(Marked):
    """A short text up to a marker, such as a name, which `read` understands.

    Attributes:
        read: takes parser, text and marker; returns the next state, `""` for the state that the
            marker leads to, or None if the text is not a header.
        allowed: matches the text so far at any moment; the first character that does not fit makes
            the call malformed.
        longest: how many characters the text may have.
    """

    read: Callable[[StreamParser, str, str], str | None] = lambda parser, text, marker: ""
    allowed: re.Pattern[str] = re.compile(r"\s*[^\s<>\"'{}()\[\]|]*\s*")
    longest: int = 256

    def take(self, parser: StreamParser, text: str) -> str:
        """Collect up to the marker, and read."""
        scratch = parser.scratch
        # Scan only this much, because text that is not a header is scanned again.
        later = text[self.longest + 1 :]
        text = text[: self.longest + 1]
        shown, scratch.marker, marker, rest = self.scanner.scan(scratch.marker, text)
        rest += later
        header = scratch.text + shown
        match = self.allowed.match(header)
        end = min(match.end() if match else 0, self.longest)
        bad = header[end:]
        scratch.text = header[:end]
        if bad:
            rest = bad + self.waiting(parser) + (marker or "") + rest
            scratch.marker = 0
            return parser.fail(f"{header[:end]:.39}{bad[0]} where a name should be", rest)
        if marker is None:
            return rest
        on = self.on.get(marker)
        state = None if on is None else self.read(parser, header.strip(), marker)
        if on is None or state is None:
            return parser.fail(f"{header + marker:.40} where a name should be", marker + rest)
        return parser.follow(On(state or on.next, on.do, on.keep), marker) + rest


def announce(parser: StreamParser, name: str, marker: str) -> str | None:
    """Start the call that a header names; for `Header.read`."""
    if not name:
        return None
    parser.announce(name)
    return ""


@dataclass(frozen=True, eq=False)
class Json(State):
    """The arguments as a JSON object, emitted unchanged."""

    then: On

    def take(self, parser: StreamParser, text: str) -> str:
        """Emit the characters of the object."""
        scratch = parser.scratch
        state = scratch.json
        if state is None:
            bare = text.lstrip(SPACE)
            if not bare:
                parser.hold(text)
                return ""
            if bare[0] != "{":
                return parser.fail("the arguments are not a JSON object", text)
            # A header before parameters has begun to count them.
            parser.call.parameters = None
            text, state = bare, JSON.start
        taken, scratch.json = JSON.scan(state, text)
        if taken == len(text) and scratch.json is not None:
            parser.arguments(text)
            return ""
        parser.arguments(text[:taken])
        if scratch.json is FAILED:
            return parser.fail(f"{text[taken]!r} where JSON does not allow it", text[taken:])
        return parser.follow(self.then, "") + text[taken:]


@dataclass(frozen=True, eq=False)
class Broken(Marked):
    """The rest of a malformed call, up to the next safe marker of its format."""

    def take(self, parser: StreamParser, text: str) -> str:
        """Keep everything up to the marker."""
        scratch = parser.scratch
        shown, scratch.marker, marker, rest = self.scanner.scan(scratch.marker, text)
        parser.hold(shown)
        if marker is None:
            return ""
        on = self.on[marker]
        if not on.keep:
            parser.hold(marker)
        parser.malformed()
        parser.go(on.next)
        return (marker if on.keep else "") + rest

    def end(self, parser: StreamParser) -> bool:
        """Emit the kept text as malformed."""
        parser.hold(self.waiting(parser))
        parser.scratch.marker = 0
        parser.malformed()
        return True
